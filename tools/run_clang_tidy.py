#!/usr/bin/env python3
"""Run clang-tidy over the files of one or more build folders, on all cores.

    tools/run_clang_tidy.py build/cp311 build/release

A file that several folders compile is checked as the first of them does.

A file found clean is not looked at again until it, a header that it includes or a
.clang-tidy changes;
.cache/clang-tidy remembers.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "clang-tidy"
TOPS = ("include", "src", "python", "tests")
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


def files_of(build: Path) -> list[Path]:
    """Return the project's C files that a build folder compiles."""
    entries = json.loads((build / "compile_commands.json").read_text())
    files = {(Path(e["directory"]) / e["file"]).resolve() for e in entries}
    return sorted(f for f in files if f.is_relative_to(ROOT) and f.suffix == ".c")


def headers() -> dict[str, list[Path]]:
    """Return the project's headers by file name, which mostly are unique."""
    found: dict[str, list[Path]] = {}
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*.h")):
            found.setdefault(path.name, []).append(path)
    return found


def included(file: Path, known: dict[str, list[Path]]) -> list[Path]:
    """Return every header of the project that a file may come to include."""
    seen: set[Path] = set()
    todo = [file]
    while todo:
        for name in INCLUDE.findall(todo.pop().read_text()):
            fresh = [p for p in known.get(Path(name).name, []) if p not in seen]
            seen.update(fresh)
            todo.extend(fresh)
    return sorted(seen)


def common_hash() -> bytes:
    """Hash what every file's result depends on."""
    digest = hashlib.sha256((ROOT / "requirements/dev.txt").read_bytes())
    for path in (ROOT / ".clang-tidy", *sorted(ROOT.glob("[a-z]*/**/.clang-tidy"))):
        digest.update(relative(path) + path.read_bytes())
    return digest.digest()


def relative(path: Path) -> bytes:
    """Return a file's place in the tree, for a hash."""
    return path.relative_to(ROOT).as_posix().encode() + b"\0"


def key_of(build: Path, file: Path, common: bytes, known: dict[str, list[Path]]) -> str:
    """Hash all that a file's result depends on."""
    digest = hashlib.sha256(common + build.name.encode() + b"\0")
    for path in (file, *included(file, known)):
        digest.update(relative(path) + path.read_bytes())
    return digest.hexdigest()


def check(build: Path, file: Path, key: str) -> str:
    """Return clang-tidy's complaints about a file, empty if there are none."""
    known_clean = CACHE / key
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
    builds: dict[Path, Path] = {}
    for build in map(Path, sys.argv[1:]):
        for file in files_of(build):
            builds.setdefault(file, build)
    common, known = common_hash(), headers()
    keys = {file: key_of(builds[file], file, common, known) for file in builds}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = pool.map(lambda f: check(builds[f], f, keys[f]), builds)
        complaints = [text for text in results if text]
    for text in complaints:
        print(text)
    print(f"clang-tidy: {len(builds)} files, {len(complaints)} with complaints")
    return 1 if complaints or not builds else 0


if __name__ == "__main__":
    sys.exit(main())
