"""Aggregators: rules by which several items become one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Aggregator(ABC, Generic[T, U]):
    """A rule by which several items become one, with a state of its own.

    Passed to `PipelineBuilder.aggregate`. Its methods are called by one thread at a
    time, though not always by the same one. ``None``: there is no result (yet).
    """

    @abstractmethod
    def accumulate(self, item: T) -> U | None:
        """Take an item; return a result if one is complete."""

    @abstractmethod
    def flush(self) -> U | None:
        """Return what is left, and begin anew.

        Called at the end of each epoch and of the source, also when nothing was taken
        since, and when what it returns is going to be dropped (``drop_last=True``): the
        state must not go into the next epoch.
        """


class Collate(Aggregator[T, "list[T]"]):
    """Makes lists of n items: ``aggregate(Collate(n))`` is ``aggregate(n)``.

    Args:
        n: Items per list.

    Raises:
        ValueError: n is less than 1.

    """

    def __init__(self, n: int) -> None:
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n!r}")
        self.n = n
        self._items: list[T] = []

    def __repr__(self) -> str:
        return f"Collate({self.n})"

    def accumulate(self, item: T) -> list[T] | None:
        """Take an item; return the list when it has n."""
        self._items.append(item)
        return self.flush() if len(self._items) >= self.n else None

    def flush(self) -> list[T] | None:
        """Return the items that are left, or None if there is none."""
        items, self._items = self._items, []
        return items or None
