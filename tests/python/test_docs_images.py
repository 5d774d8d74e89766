"""The examples in docs/images.md are run as they stand, and print what they say."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thread_unsafe(reason="runs processes of its own")

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "photo.jpg": "ok.jpg",
    "cut.jpg": "truncated.jpg",
    "page.html": "html.jpg",
    "turned.jpg": "exif_6.jpg",
    "deep.png": "gray16.png",
    "palette.png": "pal4_trns.png",
    "anim.png": "anim.png",
}


def examples() -> list[str]:
    fence = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return fence.findall((ROOT / "docs" / "images.md").read_text())


def said(example: str) -> list[str]:
    """What the example says that it prints: behind a call of print, or in lines of
    their own behind it."""
    lines, printed = [], False
    for line in example.splitlines():
        comment = re.search(r"^\s*print\(.*\)  # (.*)$", line)
        if comment:
            lines.append(comment[1])
        elif printed and line.startswith("# "):
            lines.append(line[2:])
        printed = "print(" in line or (printed and line.startswith("# "))
    return lines


def test_the_examples_print_what_they_say(tmp_path):
    assert len(examples()) == 7
    for name, source in FILES.items():
        shutil.copy(ROOT / "tests" / "data" / source, tmp_path / name)
    # Each begins with a mark, so that its output is found again.
    code = "\n".join(f"print('--')\n{example}" for example in examples())
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.stderr == ""
    assert run.returncode == 0
    printed = [part.strip().splitlines() for part in run.stdout.split("--\n")[1:]]
    assert printed == [said(example) for example in examples()]
    assert all(printed)
