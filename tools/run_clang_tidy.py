#!/usr/bin/env python3
"""Run clang-tidy over the files of one or more build folders, on all cores.

    tools/run_clang_tidy.py build/cp311 build/release

A file that several folders compile is checked as the first of them does.

A file found clean is not looked at again until it, any header or .clang-tidy changes;
.cache/clang-tidy remembers.
"""

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "clang-tidy"


def files_of(build: Path) -> list[Path]:
    """Return the project's C files that a build folder compiles."""
    entries = json.loads((build / "compile_commands.json").read_text())
    files = {(Path(e["directory"]) / e["file"]).resolve() for e in entries}
    return sorted(f for f in files if f.is_relative_to(ROOT) and f.suffix == ".c")


def common_hash() -> bytes:
    """Hash what every file's result depends on."""
    digest = hashlib.sha256((ROOT / "requirements/dev.txt").read_bytes())
    digest.update((ROOT / ".clang-tidy").read_bytes())
    for top in ("include", "src", "python", "tests"):
        for pattern in ("*.h", ".clang-tidy"):
            for path in sorted((ROOT / top).rglob(pattern)):
                digest.update(path.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.digest()


def check(build: Path, file: Path, common: bytes) -> str:
    """Return clang-tidy's complaints about a file, empty if there are none."""
    key = hashlib.sha256(common + build.name.encode() + b"\0" + file.read_bytes())
    known_clean = CACHE / key.hexdigest()
    if known_clean.exists():
        return ""
    options = ["--quiet", "--extra-arg=-Wno-unknown-warning-option", "-p", str(build)]
    command = ["clang-tidy", *options, str(file)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        known_clean.touch()
        return ""
    return run.stdout + run.stderr


def main() -> int:
    """Check every file once; 1 if clang-tidy complains about any."""
    CACHE.mkdir(parents=True, exist_ok=True)
    builds = {}
    for build in map(Path, sys.argv[1:]):
        for file in files_of(build):
            builds.setdefault(file, build)
    common = common_hash()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = pool.map(lambda f: check(builds[f], f, common), builds)
        complaints = [text for text in results if text]
    for text in complaints:
        print(text)
    print(f"clang-tidy: {len(builds)} files, {len(complaints)} with complaints")
    return 1 if complaints or not builds else 0


if __name__ == "__main__":
    sys.exit(main())
