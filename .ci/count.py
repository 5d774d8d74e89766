#!/usr/bin/env python3
"""Print `passed failed skipped` over the JUnit (.xml) and TAP (.tap) files given.

A file that is missing, broken or without a test is an error: exit code 1.
"""

import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path


def count_junit(text: str) -> Counter[str]:
    """Count the test cases of a JUnit file, whoever wrote it."""
    counts: Counter[str] = Counter()
    for case in ET.fromstring(text).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            counts["failed"] += 1
        else:
            counts["skipped" if "skipped" in kinds else "passed"] += 1
    return counts


def count_tap(text: str) -> Counter[str]:
    """Count the lines of a TAP stream; a test missing from the plan has failed."""
    counts: Counter[str] = Counter()
    for line in re.findall(r"^(?:not )?ok\b.*$", text, re.MULTILINE):
        if re.search(r"# SKIP\b", line, re.IGNORECASE):
            counts["skipped"] += 1
        else:
            counts["failed" if line.startswith("not") else "passed"] += 1
    plans = re.findall(r"^1\.\.(\d+)", text, re.MULTILINE)
    planned = sum(map(int, plans)) if plans else counts.total() + 1
    counts["failed"] += abs(planned - counts.total())
    return counts


def count(path: Path) -> Counter[str]:
    """Count one file."""
    counter = count_junit if path.suffix == ".xml" else count_tap
    return counter(path.read_text())


def main() -> int:
    """Print the sum."""
    total: Counter[str] = Counter()
    for name in sys.argv[1:]:
        try:
            counts = count(Path(name))
        except (OSError, ET.ParseError) as problem:
            print(f"{name}: {problem}", file=sys.stderr)
            return 1
        if not counts.total():
            print(f"{name}: no test was run", file=sys.stderr)
            return 1
        total += counts
    print(total["passed"], total["failed"], total["skipped"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
