"""How many items a pipeline gives."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING

from headrace.pipeline._stages import Aggregate, Merged, Pipe, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.pipeline._stages import Source, Stage


class Length:
    """The length of a pipeline, worked out from that of its source when asked for."""

    def __init__(self, source: Source | Merged, stages: Sequence[Stage]) -> None:
        self._count = _counter(source, stages)

    def __call__(self) -> int:
        """Return the length, or raise TypeError that says why there is none."""
        return self._count()


def _counter(source: Source | Merged, stages: Sequence[Stage]) -> Callable[[], int]:
    if isinstance(source, Merged):
        parts = [_counter(of, its_stages) for of, its_stages in source.branches]
    else:
        parts = [_size_of(source)]
    steps = [_step_of(stage) for stage in stages]

    def count() -> int:
        n = sum(part() for part in parts)
        for step in steps:
            n = step(n)
        return n

    return count


def _size_of(source: Source) -> Callable[[], int]:
    sized = source.iterable if isinstance(source.iterable, Sized) else None
    kind = type(source.iterable).__name__

    def size() -> int:
        if sized is None:
            raise TypeError(
                f"the pipeline has no len(): its source, a {kind}, has none"
            )
        return len(sized)

    return size


def _step_of(stage: Stage) -> Callable[[int], int]:
    """Return how many items the stage makes of so many."""
    if isinstance(stage, Aggregate):
        size, drop_last = stage.n, stage.drop_last
        return lambda n: n // size if drop_last else -(-n // size)
    if isinstance(stage, Pipe) and "generator" not in stage.kind:
        return lambda n: n
    if isinstance(stage, Route) and all(_is_even(path) for path in stage.paths):
        return lambda n: n
    name = str(stage)

    def unknown(_n: int) -> int:
        raise TypeError(
            f"the pipeline has no len(): stage {name!r} gives any number of items"
        )

    return unknown


def _is_even(path: Sequence[Stage]) -> bool:
    """Does it make one item of one, so that it does not matter which path one takes?"""
    return all(
        (isinstance(stage, Pipe) and "generator" not in stage.kind)
        or (isinstance(stage, Route) and all(map(_is_even, stage.paths)))
        for stage in path
    )
