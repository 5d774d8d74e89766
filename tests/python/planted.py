#!/usr/bin/env python3
"""Do the sanitizers see the extension's faults? Plant some, see that they do (TAP).

Each fault is one small change to a file of the extension: a lock left out, memory used
after it was freed. The file is compiled and linked again as the build does it, into a
copy of the package; the work tree stays as it is. A test that passes without the fault
must end in a report that names the function.

    tests/python/planted.py [WORD ...]      only the faults with WORD in the name

What cannot be built here (see tools/freethreaded) is skipped.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
EXT = ROOT / "python/headrace/_ext"
UNAVAILABLE = 77


class Fault(NamedTuple):
    """A change to a file of the extension that a sanitizer must report."""

    name: str
    kind: str
    file: str
    old: str
    new: str
    test: str
    report: str


FAULTS = (
    Fault(
        "tsan: a section left out",
        "tsan",
        "engine_iterator.c",
        "    hrpy_section_begin(&section, (PyObject *)self);\n"
        "    PyObject *engine = self->engine;\n"
        "    self->engine = NULL;\n"
        "    hrpy_section_end(&section);\n",
        "    (void)section;\n"
        "    PyObject *engine = self->engine;\n"
        "    self->engine = NULL;\n",
        "test_pipeline_threads.py::test_p8_one_iterator_for_eight_threads",
        r"ThreadSanitizer: data race.*?let_go_of_engine",
    ),
    Fault(
        "asan: used after it was freed",
        "asan",
        "buffer_type.c",
        "    hr_array_unref(&buffer->array);\n    type->tp_free(self);\n",
        "    type->tp_free(self);\n    hr_array_unref(&buffer->array);\n",
        "test_buffer.py::test_array_interface_is_version_3",
        r"AddressSanitizer: heap-use-after-free.*?buffer_dealloc",
    ),
)


def commands(build: Path, target: str) -> list[list[str]]:
    """Return what ninja runs to make the target."""
    out = subprocess.check_output(
        ["ninja", "-C", build, "--quiet", "-t", "commands", target], text=True
    )
    return [shlex.split(line) for line in out.splitlines()]


def plant(fault: Fault, scratch: Path) -> Path:
    """Copy the package of the build, with the fault in its extension."""
    build = ROOT / f"build/{fault.kind}-python"
    package = scratch / "package"
    shutil.copytree(build / "package", package)
    (installed,) = package.rglob("_ext.*.so")
    text = (EXT / fault.file).read_text()
    if text.count(fault.old) != 1:
        sys.exit(f"'{fault.name}': {fault.file} has changed; plant it anew")
    source, made = scratch / fault.file, scratch / "planted.o"
    source.write_text(text.replace(fault.old, fault.new))
    steps = commands(build, f"python/{installed.name}")
    (compiled,) = (c for c in steps if c[-1].endswith(f"_ext/{fault.file}"))
    linked = steps[-1]
    original = compiled[compiled.index("-o") + 1]
    compiled[compiled.index("-o") + 1] = str(made)
    compiled[compiled.index("-MF") + 1] = str(scratch / "planted.d")
    compiled[-1] = str(source)
    linked[linked.index(original)] = str(made)
    linked[linked.index("-o") + 1] = str(installed)
    subprocess.run([*compiled, f"-I{EXT}"], cwd=build, check=True)
    subprocess.run(linked, cwd=build, check=True)
    return package


def test(fault: Fault, package: Path | None, scratch: Path) -> tuple[int, str]:
    """Run the test on the package, or the sound one; its exit code, and its output."""
    run = subprocess.run(
        [
            ROOT / "tools/test_sanitized",
            fault.kind,
            scratch / "results",
            f"tests/python/{fault.test}",
        ],
        env=os.environ | {"HEADRACE_PACKAGE": str(package or "")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout


def check(fault: Fault) -> tuple[str, str]:
    """Return the words of the TAP line, and what to print if the fault was not seen."""
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        scratch = Path(name)
        code, output = test(fault, None, scratch)
        if code == UNAVAILABLE:
            return f"ok - {fault.name} # SKIP {output.splitlines()[-1]}", ""
        if code != 0:
            return f"not ok - {fault.name}: the test fails without it", output
        code, output = test(fault, plant(fault, scratch), scratch)
        if code == 1 and re.search(fault.report, output, re.DOTALL):
            return f"ok - {fault.name}", ""
        return f"not ok - {fault.name}: it was not reported", output


def main() -> int:
    """Plant them one after another."""
    wanted = [
        fault
        for fault in FAULTS
        if not sys.argv[1:] or any(word in fault.name for word in sys.argv[1:])
    ]
    print(f"1..{len(wanted)}", flush=True)
    failed = 0
    for fault in wanted:
        line, output = check(fault)
        failed += line.startswith("not")
        print("".join(f"# {text}\n" for text in output.splitlines()), end="")
        print(line, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
