#!/usr/bin/env python3
"""Check that each header compiles alone, and say so in TAP.

Public headers as C11 and as C++17, those of src/ as C11. "Alone" means: the header is
the only line of the file, and no macro but the language's own is set.

    tools/check_headers.py ROOT [--cc COMPILER...]
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wundef", "-Werror", "-fsyntax-only"]


def cases(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (header, language)."""
    for header in sorted((root / "include").rglob("*.h")):
        name = header.relative_to(root / "include").as_posix()
        yield name, "c"
        yield name, "c++"
    for header in sorted((root / "src").rglob("*.h")):
        yield header.relative_to(root / "src").as_posix(), "c"


def compile_alone(compiler: list[str], root: Path, header: str, language: str) -> str:
    """Return the compiler's complaints, empty if there are none."""
    standard = "-std=gnu11" if language == "c" else "-std=c++17"
    if language == "c" and (root / "include" / header).exists():
        standard = "-std=c11"
    include = [f"-I{root / 'include'}", f"-I{root / 'src'}"]
    run = subprocess.run(
        [*compiler, "-x", language, standard, *STRICT, *include, "-"],
        input=f'#include "{header}"\nint headrace_alone;\n',
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if run.returncode == 0 else run.stderr or f"exit {run.returncode}"


def main() -> int:
    """Compile every header; 1 if one does not stand alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--cc", nargs="+", default=[os.environ.get("CC", "cc")])
    arguments = parser.parse_args()

    cxx = shutil.which(os.environ.get("CXX", "c++"))
    failed = 0
    todo = list(cases(arguments.root))
    print(f"1..{len(todo)}")
    for number, (header, language) in enumerate(todo, 1):
        what = f"{number} - {header} as {'C++' if language == 'c++' else 'C'}"
        if language == "c++" and cxx is None:
            print(f"ok {what} # SKIP no C++ compiler")
            continue
        compiler = arguments.cc if language == "c" else [str(cxx)]
        complaint = compile_alone(compiler, arguments.root, header, language)
        print(f"{'not ok' if complaint else 'ok'} {what}", flush=True)
        for line in complaint.splitlines():
            print(f"# {line}")
        failed += bool(complaint)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
