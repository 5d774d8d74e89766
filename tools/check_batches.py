#!/usr/bin/env python3
"""Run examples/batches.c on good and bad pictures and check what it prints (TAP)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run the program over the pictures; 0 if every check holds."""
    program, data = sys.argv[1], Path(sys.argv[2])
    good = [str(data / name) for name in ("ok.jpg", "gray.jpg", "progressive.jpg")]
    bad = str(data / "html.jpg")
    # 34 pictures in batches of 32: the last is short; its second picture is bad.
    paths = [good[i % 3] for i in range(33)] + [bad]
    run = subprocess.run(
        [program, *paths], capture_output=True, text=True, timeout=60, check=False
    )
    lines = run.stdout.splitlines()
    checks = {
        "exit status 0": run.returncode == 0,
        "a full batch": lines[:1] == ["(32, 224, 224, 3), 0 failed"],
        "a short batch": lines[1:2] == ["(2, 224, 224, 3), 1 failed"],
        "the failed slot is named": len(lines) == 3
        and "looks like HTML" in lines[2]
        and "item 33" in lines[2]
        and "html.jpg" in lines[2],
        "nothing on stderr": run.stderr == "",
    }
    print("TAP version 13")
    print(f"1..{len(checks)}")
    for number, (name, held) in enumerate(checks.items(), 1):
        print(f"{'ok' if held else 'not ok'} {number} - {name}")
    if not all(checks.values()):
        print(run.stdout, run.stderr, sep="\n# ", file=sys.stderr)
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
