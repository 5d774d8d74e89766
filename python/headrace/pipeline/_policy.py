"""What a stage does about failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from headrace.errors import (
    DeadlineError,
    FormatError,
    LimitError,
    UnsupportedError,
)

OnError: TypeAlias = Literal["skip", "raise"]

_NATIVE: dict[int, type[Exception]] = {
    16: ValueError,
    17: RuntimeError,
    18: MemoryError,
    19: OSError,
    20: FormatError,
    21: UnsupportedError,
    22: LimitError,
    23: TypeError,
    24: DeadlineError,
}
"""What native operations raise, by the number of their status (headrace/status.h)."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Try an item again when its operation raised one of these exceptions.

    Before each retry the item waits for a random time, uniform from 0 to ``backoff``
    before the first retry, to twice that before the second, and so on (exponential
    back-off with full jitter). A waiting item counts against the stage's
    ``concurrency``. The operation is given the same object again.

    Attributes:
        times: Retries per item, after the first attempt.
        on: Exceptions that are worth a retry. Others fail the item at once. For native
            operations, which raise `OSError`, `ValueError` and so on, name these or
            their bases.
        backoff: Seconds.
        backoff_max: Seconds. No wait is longer.

    Raises:
        ValueError: A number is out of range.
        TypeError: ``on`` holds something that is not an exception class.

    """

    times: int
    on: tuple[type[BaseException], ...] = (OSError,)
    backoff: float = 0.1
    backoff_max: float = 5.0

    def __post_init__(self) -> None:
        if isinstance(self.times, bool) or not isinstance(self.times, int):
            raise TypeError(f"times must be an int, got {self.times!r}")
        if not 0 <= self.times < 2**31:
            raise ValueError(f"times must be 0 or more, got {self.times!r}")
        for name in ("backoff", "backoff_max"):
            value = getattr(self, name)
            if not 0 <= value < 1e9:
                raise ValueError(f"{name} must be seconds >= 0, got {value!r}")
        on = (self.on,) if isinstance(self.on, type) else tuple(self.on)
        for kind in on:
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise TypeError(f"on must be exception classes, got {kind!r}")
        object.__setattr__(self, "on", on)

    def statuses(self) -> int:
        """Return which statuses of native operations are meant, a bit for each."""
        bits = sum(1 << i for i, kind in _NATIVE.items() if issubclass(kind, self.on))
        if not bits:
            raise ValueError(
                f"retry: a native operation raises none of {self.on!r}; it raises "
                f"{', '.join(kind.__name__ for kind in _NATIVE.values())}"
            )
        return bits


def check_on_error(value: OnError) -> bool:
    """Return whether the first failure is raised."""
    if value not in ("skip", "raise"):
        raise ValueError(f"on_error must be 'skip' or 'raise', got {value!r}")
    return value == "raise"


def check_timeout(seconds: float | None) -> int | None:
    """Return a timeout in nanoseconds, or raise."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"timeout must be seconds or None, got {seconds!r}")
    if not 0 < seconds < 1e9:
        raise ValueError(f"timeout must be seconds > 0, got {seconds!r}")
    return max(1, int(seconds * 1e9))


def check_retry(value: Retry | int | None, kind: str) -> Retry | None:
    """Return what a number or a `Retry` stands for, or raise."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = Retry(value)
    if value is None or (isinstance(value, Retry) and value.times == 0):
        return None
    if not isinstance(value, Retry):
        raise TypeError(f"retry must be a Retry or a number of retries, got {value!r}")
    if kind in ("generator", "async generator"):
        raise ValueError("retry: a generator can't be run again, it has given values")
    if kind == "native":
        value.statuses()
    return value
