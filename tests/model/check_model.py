#!/usr/bin/env python3
"""Bounded proofs: small plans over the real scheduler, and the hand-off in spin (TAP).

    tests/model/check_model.py EXPLORE

EXPLORE is the program built of explore*.c. handoff.pml is checked as it is, in several
sizes, and then with each of its steps left out in turn: spin must find every fault.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MODEL = Path(__file__).with_name("handoff.pml")
LIMIT_S = 600
CFLAGS = ("-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=2000")

EARLY = ("ITEMS=2",)
LATE = ("ITEMS=3", "STOP_LATE")
TIGHT = ("ITEMS=3", "PLACES=1", "STOP_LATE")
LIMITED = ("ITEMS=2", "LIMITS=1", "STOP_LATE")

WHOLE = {
    "a stop at any time": EARLY,
    "a stop after the end": LATE,
    "one place": TIGHT,
    "parks that end by their limit": LIMITED,
}
WITHOUT = {
    "NO_COMPARE": LATE,
    "NO_MEMORY": LATE,
    "NO_FUTEX_WAKE": LATE,
    "NO_END_WAKE": LATE,
    "NO_WAKE_BEFORE_PARK": LATE,
    "NO_LAST_WAKE": LATE,
    "NO_CREDIT_LOOK": TIGHT,
    "NO_REGISTER_UNDER_LOCK": LATE,
    "NO_WAIT_WAKE": TIGHT,
    "NO_LEAVE_WAIT": LIMITED,
}


def check(names: tuple[str, ...], work: Path) -> tuple[bool, str]:
    """Search all states; whether there was no error, and what spin says of it."""
    defines = [f"-D{name}" for name in names]
    subprocess.run(
        ["spin", "-a", *defines, str(MODEL)], cwd=work, check=True, capture_output=True
    )
    subprocess.run(
        ["cc", *CFLAGS, "-o", "pan", "pan.c"],
        cwd=work,
        check=True,
    )
    run = subprocess.run(
        ["./pan", "-m100000", "-n"],
        cwd=work,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    lines = run.stdout.splitlines()
    whole = not any("Search not completed" in line for line in lines)
    clean = any("errors: 0" in line for line in lines)
    facts = [
        line.strip()
        for line in lines
        if "states, stored" in line or line.startswith("pan:1")
    ]
    return whole and clean, "; ".join(facts)


def main() -> int:
    """Explore, then run the model in all its forms; 0 when all is as it must be."""
    total = 1 + len(WHOLE) + len(WITHOUT)
    print(f"TAP version 13\n1..{total}")
    explored = subprocess.run(
        [sys.argv[1]], capture_output=True, text=True, check=False
    )
    for line in explored.stdout.splitlines():
        print(line if line.startswith("#") else f"# {line}")
    ends = [(explored.returncode == 0, "every schedule of small plans", "")]
    report(ends, 1)
    if shutil.which("spin") is None:
        for number in range(2, total + 1):
            print(f"ok {number} - handoff.pml # SKIP there is no spin")
        return 0 if ends[0][0] else 1
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for title, names in WHOLE.items():
            clean, facts = check(names, work)
            ends.append((clean, f"hand-off: {title}", facts))
            report(ends, len(ends))
        for fault, names in WITHOUT.items():
            clean, facts = check((*names, fault), work)
            found = not clean and "pan:1" in facts
            ends.append((found, f"hand-off {fault}: is found", facts))
            report(ends, len(ends))
    return 0 if all(good for good, _, _ in ends) else 1


def report(ends: list[tuple[bool, str, str]], number: int) -> None:
    """Print the last result."""
    good, title, facts = ends[-1]
    print(f"{'ok' if good else 'not ok'} {number} - {title}")
    if facts:
        print(f"# {facts}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
