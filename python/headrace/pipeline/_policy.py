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
from headrace.pipeline._numbers import as_float, as_int

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
        times = as_int(self.times)
        if times is None:
            raise TypeError(f"times must be an int, got {self.times!r}")
        if not 0 <= times < 2**31:
            raise ValueError(f"times must be from 0 to 2**31 - 1, got {self.times!r}")
        object.__setattr__(self, "times", times)
        for name in ("backoff", "backoff_max"):
            value = getattr(self, name)
            seconds = as_float(value)
            if seconds is None:
                raise TypeError(f"{name} must be seconds, got {value!r}")
            if not 0 <= seconds < 1e9:
                raise ValueError(
                    f"{name} must be seconds >= 0 and less than 1e9, got {value!r}"
                )
            object.__setattr__(self, name, seconds)
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
    number = as_float(seconds)
    if number is None:
        raise TypeError(f"timeout must be seconds or None, got {seconds!r}")
    if not 0 < number < 1e9:
        raise ValueError(
            f"timeout must be seconds > 0 and less than 1e9 (None: none), got "
            f"{seconds!r}"
        )
    return max(1, int(number * 1e9))


def check_retry(value: Retry | int | None, kind: str) -> Retry | None:
    """Return what a number or a `Retry` stands for, or raise."""
    if not isinstance(value, Retry | None):
        times = as_int(value)
        if times is None:
            raise TypeError(
                f"retry must be a Retry or a number of retries, got {value!r}"
            )
        value = Retry(times)
    if value is None or value.times == 0:
        return None
    if kind in ("generator", "async generator"):
        raise ValueError("retry: a generator can't be run again, it has given values")
    if kind == "native":
        value.statuses()
    return value
