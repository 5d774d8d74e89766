"""The example in README.md is run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

pytestmark = pytest.mark.thread_unsafe(reason="runs processes of its own")

README = Path(__file__).resolve().parents[2] / "README.md"
LABELS = ("cat", "dog")


@pytest.fixture
def example() -> str:
    fence = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    blocks = fence.findall(README.read_text())
    assert len(blocks) == 1
    return blocks[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(40):
        path = tmp_path / "photos" / LABELS[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (60 + number, 90 - number), (6 * number, 0, 99)).save(path)
    return tmp_path


def test_the_example_prints_one_line_for_each_batch(example, folder):
    run = subprocess.run(
        [sys.executable, "-c", example],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.stderr == ""
    assert run.returncode == 0
    lines = run.stdout.splitlines()
    shapes = [line.split(" [")[0] for line in lines]
    assert shapes == ["(32, 224, 224, 3)", "(8, 224, 224, 3)"]
    for line in lines:
        labels = re.findall(r"'(\w+)'", line)
        assert len(labels) == 3
        assert set(labels) <= set(LABELS)
