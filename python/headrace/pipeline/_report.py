"""The table of a run in the log: `PipelineBuilder.build(report_stats_interval=...)`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.pipeline._stats import between, find_bottleneck, read_stats

if TYPE_CHECKING:
    from headrace._ext import Engine
    from headrace.pipeline._stats import PipelineStats, StageStats

_logger = logging.getLogger("headrace.pipeline")

_COLUMNS = (
    *("stage", "items/s", "p50", "p99", "running"),
    *("busy", "starved", "blocked", "GIL wait", "queue"),
)
_NAME_WIDTH = 28


class Reporter:
    """Logs what happened since it was called last, and at the end the whole run.

    The engine calls it in the thread that takes items: between two of them, or while
    that thread waits for the next one.
    """

    def __init__(self) -> None:
        self._last: PipelineStats | None = None

    def __call__(self, engine: Engine, final: bool, /) -> None:
        """Log the table. Called by one thread at a time."""
        if not _logger.isEnabledFor(logging.INFO):
            return
        stats = read_stats(engine)
        if final:
            _logger.info("%s", format_report(stats, "the whole run"))
            return
        span = stats if self._last is None else between(self._last, stats)
        self._last = stats
        begin = stats.elapsed - span.elapsed
        _logger.info(
            "%s", format_report(span, f"{begin:.1f} s to {stats.elapsed:.1f} s")
        )


def format_report(stats: PipelineStats, span: str) -> str:
    """Format the table.

    Args:
        stats: The figures of the span.
        span: What they are about.

    """
    rows = [_COLUMNS, *(_row(stage, stats) for stage in stats.stages)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [_line(row, widths) for row in rows]
    rate = stats.delivered / stats.elapsed if stats.elapsed > 0 else 0.0
    head = (
        f"pipeline, {span}: {stats.delivered:,} items delivered "
        f"({_number(rate)}/s), {stats.failed:,} failed"
    )
    return "\n".join([head, *lines, find_bottleneck(stats)])


def _row(stage: StageStats, stats: PipelineStats) -> tuple[str, ...]:
    name = stage.name
    if len(name) > _NAME_WIDTH:
        name = name[: _NAME_WIDTH - 1] + "…"
    queue = f"{stage.queued}/{stage.capacity}" if stage.capacity else "-"
    if stage is stats.stages[-1]:
        return (name, _number(stage.rate), *["-"] * 7, queue)
    return (
        name,
        _number(stage.rate),
        _duration(stage.p50),
        _duration(stage.p99),
        f"{stage.running}/{stage.concurrency}",
        _share(stage.busy, stats.elapsed),
        _share(stage.starved, stats.elapsed),
        _share(stage.blocked, stats.elapsed),
        _share(stage.gil_wait, stats.elapsed),
        queue,
    )


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
    return "  ".join(["", row[0].ljust(widths[0]), *cells[1:]])


def _number(value: float) -> str:
    """Three digits that count, or all before the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _duration(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{_number(seconds / unit)} {name}"
    return f"{seconds * 1e9:.0f} ns" if seconds > 0 else "-"


def _share(seconds: float, elapsed: float) -> str:
    return f"{seconds / elapsed:.0%}" if elapsed > 0 else "-"
