#!/usr/bin/env python3
"""Run test programs with HR_STALL=1, 2, ... and say in TAP which runs passed.

usage: run_stalled.py SEEDS PROGRAM...
"""

import os
import subprocess
import sys

LIMIT_S = 60


def run(program: str, seed: int) -> str:
    """Return what went wrong, or the empty string."""
    env = dict(os.environ, HR_STALL=str(seed))
    try:
        done = subprocess.run(
            [program],
            env=env,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
        return f"still running after {LIMIT_S} s\n" + output.decode(errors="replace")
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main() -> int:
    seeds, programs = int(sys.argv[1]), sys.argv[2:]
    print("TAP version 13")
    print(f"1..{seeds * len(programs)}")
    number = failed = 0
    for seed in range(1, seeds + 1):
        for program in programs:
            number += 1
            wrong = run(program, seed)
            failed += bool(wrong)
            state = "not ok" if wrong else "ok"
            print(f"{state} {number} - {os.path.basename(program)} HR_STALL={seed}")
            print(
                "".join(f"# {line}\n" for line in wrong.splitlines()),
                end="",
                flush=True,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
