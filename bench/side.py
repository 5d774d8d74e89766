"""Run one side of one experiment once and print its figures as a line of JSON.

Started by bench.__main__, a fresh process each time, so that no library disturbs
another.
"""

from __future__ import annotations

import json
import sys

from bench.experiments import EXPERIMENTS


def main() -> None:
    experiment_id, name = sys.argv[1:]
    sides = {side.name: side for side in EXPERIMENTS[experiment_id].sides}
    print(json.dumps(sides[name].run()))


if __name__ == "__main__":
    main()
