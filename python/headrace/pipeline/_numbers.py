"""What counts as a number among arguments: those of NumPy too, but no bool."""

from __future__ import annotations

import math
import operator
from numbers import Real


def as_int(value: object) -> int | None:
    """Return an integer of any type as an int; None if it is none."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def as_float(value: object) -> float | None:
    """Return a real number of any type as a float, maybe not finite, or None."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.nan  # an int that is larger than any float
