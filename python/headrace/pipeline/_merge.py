"""Several sources, each with stages of its own, that become one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline._stages import Merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.pipeline._builder import PipelineBuilder


class Merge:
    """One source of several: ``PipelineBuilder().add_source(Merge([a, b]))``.

    Items go on in the order in which they arrive from any of them. Each source is
    advanced by a thread of its own, so that none waits for another, and numbers its own
    items. When one fails, or a stage of a branch ends it, the others go on to their
    ends, and then the exception is raised.

    Args:
        pipelines: Builders with a source, and maybe stages. Their sinks are ignored.
            Either all of their sources are continuous or none: an epoch ends when it
            has ended in all of them.

    Raises:
        ValueError: There is none, one has no source, or some are continuous.
        TypeError: One is no `PipelineBuilder`.

    """

    def __init__(self, pipelines: Sequence[PipelineBuilder]) -> None:
        if hasattr(pipelines, "add_source") or not hasattr(pipelines, "__iter__"):
            raise TypeError(
                f"Merge() takes a sequence of PipelineBuilders, got {pipelines!r}"
            )
        self.pipelines = tuple(pipelines)
        if not self.pipelines:
            raise ValueError("Merge() needs at least one pipeline")
        for one in self.pipelines:
            if not hasattr(one, "_as_branch"):
                raise TypeError(f"Merge() takes PipelineBuilders, got {one!r}")
        self._resolve()

    def __repr__(self) -> str:
        return f"Merge({list(self.pipelines)!r})"

    def _resolve(self) -> Merged:
        merged = Merged(tuple(one._as_branch() for one in self.pipelines))
        if len({source.continuous for source in merged.sources}) > 1:
            raise ValueError("either all sources of a merge are continuous, or none")
        return merged
