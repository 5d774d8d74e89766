"""B2: how long next() takes when an item is ready."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bench.common import Experiment, Figures, Goal, Side, engine, identity

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = 1_000
WARM_UP = 50
PAUSE_S = 0.002
P50, P99 = "p50 µs", "p99 µs"


def _time_next(iterator: Iterator[Any]) -> Figures:
    """Time calls of next(), pausing before each so that an item is surely ready."""
    spent_ns = []
    for _ in range(WARM_UP + CALLS):
        time.sleep(PAUSE_S)
        time.perf_counter_ns()  # wakes the clock's own code and data after the pause
        start_ns = time.perf_counter_ns()
        next(iterator)
        spent_ns.append(time.perf_counter_ns() - start_ns)
    spent_ns = sorted(spent_ns[WARM_UP:])
    return {
        P50: spent_ns[len(spent_ns) // 2] / 1e3,
        P99: spent_ns[len(spent_ns) * 99 // 100] / 1e3,
    }


def _pipeline(name: str, **build: Any) -> Figures:
    pipeline = (
        engine(name, with_io=False)
        .builder()
        .add_source(range(WARM_UP + CALLS + 100))
        .pipe(identity, concurrency=2)
        .add_sink(3)
        .build(num_threads=2, **build)
    )
    with pipeline.auto_stop():
        return _time_next(iter(pipeline))


def _headrace() -> Figures:
    return _pipeline("headrace")


def _spdl() -> Figures:
    return _pipeline("spdl")


def _spdl_thread_queue() -> Figures:
    return _pipeline("spdl", use_thread_output_queue=True)


def _floor() -> Figures:
    return _time_next(iter(range(WARM_UP + CALLS)))


EXPERIMENT = Experiment(
    id="B2",
    title="next() for a ready item, the consumer pausing 2 ms between calls",
    figures=(P50, P99),
    sides=(
        Side("headrace", _headrace),
        Side("SPDL, default queue", _spdl),
        Side("SPDL, thread output queue", _spdl_thread_queue),
        Side("floor: range.__next__", _floor),
    ),
    goals=(
        Goal("headrace", P50, at_most=2, first=3),
        Goal("headrace", P99, at_most=8),
    ),
)
