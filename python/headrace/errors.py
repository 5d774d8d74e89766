"""What can go wrong, as exceptions and as data.

Wrong arguments raise `ValueError` or `TypeError`, refused file operations `OSError`
(by errno: `FileNotFoundError` and so on), lack of memory `MemoryError`. The classes
here are for what is left: trouble with the data itself.
"""

from dataclasses import dataclass

__all__ = [
    "DeadlineError",
    "FormatError",
    "HeadraceError",
    "LimitError",
    "SlotFailure",
    "UnsupportedError",
]


class HeadraceError(RuntimeError):
    """Base of headrace's own exceptions."""


class FormatError(HeadraceError):
    """The data is not what it should be: empty, truncated, corrupt, another format."""


class UnsupportedError(HeadraceError):
    """The data is valid, but of a kind that headrace does not handle."""


class LimitError(HeadraceError):
    """The data exceeds a limit; the message names the limit."""


class DeadlineError(HeadraceError, TimeoutError):
    """A task took longer than it was allowed."""


@dataclass(frozen=True, slots=True)
class SlotFailure:
    """A slot of a batch that could not be loaded.

    Attributes:
        index: The slot's place in the batch, from 0.
        name: The slot's source: its path, or ``"<bytes>"``. Cut after 127 bytes.
        reason: Why: what was expected and what was found.
    """

    index: int
    name: str
    reason: str
