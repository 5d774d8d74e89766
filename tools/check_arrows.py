#!/usr/bin/env python3
"""Check the arrows between the parts of the tree, and what the library exports.

    tools/check_arrows.py [ROOT] [--library build/release/src/libheadrace.so]

Prints one line per problem, `file:line: what is wrong`, and exits 1 if there is any.
ARCHITECTURE.md says why the arrows are what they are.
"""

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Which parts of src/ each part may see.
ARROWS = {
    "base": {"base"},
    "sched": {"base", "sched"},
    "engine": {"base", "sched", "engine"},
    "io": {"base", "io"},
    "image": {"base", "io", "image"},
}

# The pure scheduler: no thread, clock, lock, atomic or system call in reach.
SCHED_SYSTEM = {
    *("assert.h", "inttypes.h", "limits.h", "stdbool.h", "stddef.h", "stdint.h"),
    "string.h",
}
SCHED_BASE = {"base/banned.h", "base/mem.h"}

# What the C library, Linux and the compiler give. Anything else is third-party.
SYSTEM = SCHED_SYSTEM | {
    *("cpuid.h", "ctype.h", "dirent.h", "dlfcn.h", "errno.h", "fcntl.h", "fenv.h"),
    *("float.h", "immintrin.h", "linux/futex.h", "math.h", "poll.h", "pthread.h"),
    *("sched.h", "setjmp.h", "signal.h", "smmintrin.h", "stdalign.h", "stdarg.h"),
    *("stdatomic.h", "stdio.h", "stdlib.h", "strings.h", "time.h", "unistd.h"),
}
SYSTEM_FOLDERS = ("sanitizer/", "sys/")

# Each third-party header, or family of them, is seen by the files of one codec of one
# part: NAME.c, NAME_encode.c and the like.
THIRD_PARTY = {
    "jpeglib.h": ("image", "libjpeg"),
    "jerror.h": ("image", "libjpeg"),
    "jmorecfg.h": ("image", "libjpeg"),
    "png.h": ("image", "libpng"),
    "pngconf.h": ("image", "libpng"),
    "webp/decode.h": ("image", "libwebp"),
    "webp/encode.h": ("image", "libwebp"),
    "webp/demux.h": ("image", "libwebp"),
    "gif_lib.h": ("image", "giflib"),
    "tiffio.h": ("image", "libtiff"),
    "avif/avif.h": ("image", "libavif"),
    "zlib.h": ("image", "zlib"),
    "lcms2.h": ("image", "Little CMS"),
}

PYTHON_HEADERS = {"Python.h", "structmember.h", "datetime.h"}
EXT = "python/headrace/_ext"
ATTACHING = re.compile(
    r"\b(PyGILState_\w+|PyThreadState_New|PyThreadState_Clear|PyThreadState_Delete\w*|"
    r"PyEval_RestoreThread|PyEval_AcquireThread)\b"
)

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)

MANY = {"__init__.py", "__main__.py", "conftest.py"}  # names that must repeat
GENERATED = re.compile(
    r"build|dist|\.git|\.venv.*|\.cache|__pycache__|.*_cache|.*\.egg-info"
)
ROOT_ENTRIES_MAX = 21


class Include(NamedTuple):
    """One #include line."""

    line: int
    quoted: bool
    name: str


def read_includes(text: str) -> list[Include]:
    """Return the includes of a C file in order."""
    return [
        Include(text.count("\n", 0, match.start(2)) + 1, match[1] == '"', match[2])
        for match in INCLUDE.finditer(text)
    ]


def strip(text: str) -> str:
    """Blank out comments and strings; lines keep their numbers."""
    return NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def sources(root: Path, folder: str, *suffixes: str) -> Iterator[tuple[str, Path]]:
    """Yield (name relative to root, path) of a folder's files, sorted."""
    for path in sorted((root / folder).rglob("*")):
        if path.suffix in suffixes and path.is_file():
            yield path.relative_to(root).as_posix(), path


def is_system(name: str) -> bool:
    """Tell whether a header comes with the C library, Linux or the compiler."""
    return name in SYSTEM or name.startswith(SYSTEM_FOLDERS)


def check_public(root: Path) -> Iterator[str]:
    """Check that public headers see each other and the C library alone."""
    for name, path in sources(root, "include", ".h"):
        for include in read_includes(path.read_text()):
            if not include.name.startswith("headrace/") and not is_system(include.name):
                yield f"{name}:{include.line}: a public header includes {include.name}"


def check_part_include(
    root: Path, name: str, part: str, include: Include
) -> Iterator[str]:
    """Check one include of a file of src/PART."""
    where = f"{name}:{include.line}:"
    target = include.name.split("/")[0]
    beside = (root / name).parent / include.name
    if part == "sched" and not include.name.startswith("headrace/"):
        pure = SCHED_SYSTEM | SCHED_BASE
        if include.name not in pure and target != "sched":
            yield f"{where} the pure scheduler includes {include.name}"
    if include.quoted:
        if target in ARROWS and "/" in include.name:
            if target not in ARROWS[part]:
                yield f"{where} {part} must not see {target} ({include.name})"
        elif target != "headrace" and not beside.exists():
            yield f"{where} {include.name} is neither of src/ nor of include/"
    elif include.name in PYTHON_HEADERS:
        yield f"{where} {include.name} is for {EXT} alone"
    elif include.name in THIRD_PARTY:
        if THIRD_PARTY[include.name][0] != part:
            yield f"{where} {part} must not see {include.name}"
    elif not is_system(include.name):
        yield f"{where} {include.name} is a third-party header; see THIRD_PARTY"


def check_parts(root: Path) -> Iterator[str]:
    """Check the arrows between the parts of src/."""
    users: dict[str, set[str]] = defaultdict(set)
    for name, path in sources(root, "src", ".c", ".h"):
        part = name.split("/")[1]
        includes = read_includes(path.read_text())
        if part not in ARROWS:
            yield f"{name}:1: '{part}' is no part of src/; see ARROWS"
            continue
        for include in includes:
            yield from check_part_include(root, name, part, include)
            if include.name in THIRD_PARTY:
                users[THIRD_PARTY[include.name][1]].add(name)
        last = includes[-1].name if includes else ""
        if path.suffix == ".c" and last != "base/banned.h":
            yield f"{name}:1: the last include must be base/banned.h"
    for library, files in users.items():
        if len({re.split("[_.]", Path(file).name)[0] for file in files}) > 1:
            listed = ", ".join(sorted(files))
            yield f"src: {library} must be seen by one codec alone, is by {listed}"


def check_extension(root: Path) -> Iterator[str]:
    """Check that Python.h stays in _ext, and attaching in attach.c."""
    for folder in ("src", "include", "tests", "fuzz", "examples"):
        for name, path in sources(root, folder, ".c", ".h"):
            for include in read_includes(path.read_text()):
                if include.name in PYTHON_HEADERS and folder != "src":
                    yield f"{name}:{include.line}: {include.name} is for {EXT} alone"
    for name, path in sources(root, EXT, ".c", ".h"):
        if path.name == "attach.c":
            continue
        text = strip(path.read_text())
        for match in ATTACHING.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: {match[0]} is for attach.c alone"


def check_names(root: Path) -> Iterator[str]:
    """Check that no two files share a name, and that the root stays small."""
    seen: dict[str, str] = {}
    for folder in sorted(path.name for path in root.iterdir() if path.is_dir()):
        if GENERATED.fullmatch(folder):
            continue
        for name, path in sources(root, folder, ".c", ".h", ".py"):
            if path.name in MANY:
                continue
            if path.name in seen:
                yield f"{name}:1: {seen[path.name]} has the same name"
            seen.setdefault(path.name, name)
    entries = [p.name for p in root.iterdir() if not GENERATED.fullmatch(p.name)]
    if len(entries) > ROOT_ENTRIES_MAX:
        yield f".: {len(entries)} entries in the root, {ROOT_ENTRIES_MAX} are allowed"


def check_installed(root: Path) -> Iterator[str]:
    """Check that the build installs every file of the package."""
    listed = (root / "python" / "meson.build").read_text()
    for name, path in sources(root, "python/headrace", ".py", ".pyi"):
        if f"'{path.relative_to(root / 'python').as_posix()}'" not in listed:
            yield f"{name}:1: is not installed by python/meson.build"


def check_exports(library: Path) -> Iterator[str]:
    """Check that the shared library exports hr_[a-z]*, and nothing else."""
    command = ["nm", "-D", "--defined-only", "--format=posix", str(library)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    symbols = [line.split()[0] for line in output.splitlines()]
    if not symbols:
        yield f"{library}: exports nothing"
    for symbol in symbols:
        if not re.match(r"hr_[a-z]", symbol):
            yield f"{library}: exports {symbol}"


def check_tree(root: Path) -> Iterator[str]:
    """Make every check that needs no build."""
    yield from check_public(root)
    yield from check_parts(root)
    yield from check_extension(root)
    yield from check_names(root)
    yield from check_installed(root)


def main() -> int:
    """Print the problems; 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, nargs="?", default=Path())
    parser.add_argument("--library", type=Path)
    arguments = parser.parse_args()
    problems = list(check_tree(arguments.root.resolve()))
    if arguments.library:
        problems += check_exports(arguments.library)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
