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
    stages = tuple(stages)

    def count() -> int:
        n = sum(part() for part in parts)
        for stage in stages:
            n = _after(stage, n)
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


def _after(stage: Stage, n: int) -> int:
    if isinstance(stage, Aggregate):
        return n // stage.n if stage.drop_last else -(-n // stage.n)
    if isinstance(stage, Pipe) and "generator" not in stage.kind:
        return n
    if isinstance(stage, Route) and all(_is_even(path) for path in stage.paths):
        return n
    raise TypeError(
        f"the pipeline has no len(): stage {str(stage)!r} gives any number of items"
    )


def _is_even(path: Sequence[Stage]) -> bool:
    """Does it make one item of one, so that it does not matter which path one takes?"""
    return all(
        (isinstance(stage, Pipe) and "generator" not in stage.kind)
        or (isinstance(stage, Route) and all(map(_is_even, stage.paths)))
        for stage in path
    )
