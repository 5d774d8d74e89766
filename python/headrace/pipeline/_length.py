"""How many items a pipeline gives."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING

from headrace.pipeline._stages import Aggregate, Pipe, Route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.pipeline._stages import Source, Stage


class Length:
    """The length of a pipeline, worked out from that of its source when asked for."""

    def __init__(self, source: Source, stages: Sequence[Stage]) -> None:
        sized = isinstance(source.iterable, Sized)
        self._source = source.iterable if sized else None
        self._type = type(source.iterable).__name__
        self._stages = tuple(stages)

    def __call__(self) -> int:
        """Return the length, or raise TypeError that says why there is none."""
        if self._source is None:
            raise TypeError(
                f"the pipeline has no len(): its source, a {self._type}, has none"
            )
        assert isinstance(self._source, Sized)
        n = len(self._source)
        for stage in self._stages:
            n = _after(stage, n)
        return n


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
