"""B2: how long next() takes when an item is ready."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.common import Experiment, Figures, Goal, Side, engine, identity

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = 1_000
WARM_UP = 50
PAUSE_S = 0.002
COPY = 6 << 20
P50, P99 = "p50 µs", "p99 µs"
OVER = "p50 over a range's, µs"


def _time_next(iterator: Iterator[Any], *, cold: bool = False) -> Figures:
    """Time calls of next(), pausing before each so that an item is surely ready.

    Calls of a range's iterator take turns with them, after a pause of their own: what
    those take is the machine's, the rest is ours. A consumer that has computed
    meanwhile finds its caches cold: with `cold` the pause ends with a copy of more than
    the second level holds.
    """
    there, here = bytes(COPY), bytearray(COPY)
    floor = iter(range(WARM_UP + CALLS))
    spent_ns: dict[Iterator[Any], list[int]] = {floor: [], iterator: []}
    for _ in range(WARM_UP + CALLS):
        for each, spent in spent_ns.items():
            time.sleep(PAUSE_S)
            if cold:
                here[:] = there
            time.perf_counter_ns()  # wakes the clock's code and data after the pause
            start_ns = time.perf_counter_ns()
            next(each)
            spent.append(time.perf_counter_ns() - start_ns)
    floor_us, spent_us = (
        [ns / 1e3 for ns in sorted(spent[WARM_UP:])] for spent in spent_ns.values()
    )
    p50 = spent_us[CALLS // 2]
    return {
        P50: p50,
        P99: spent_us[CALLS * 99 // 100],
        OVER: p50 - floor_us[CALLS // 2],
    }


def _pipeline(name: str, *, cold: bool = False, **build: Any) -> Figures:
    pipeline = (
        engine(name, with_io=False)
        .builder()
        .add_source(range(WARM_UP + CALLS + 100))
        .pipe(identity, concurrency=2)
        .add_sink(3)
        .build(num_threads=2, **build)
    )
    with pipeline.auto_stop():
        return _time_next(iter(pipeline), cold=cold)


def _floor(*, cold: bool = False) -> Figures:
    return _time_next(iter(range(WARM_UP + CALLS)), cold=cold)


SPDL_QUEUE = partial(_pipeline, "spdl", use_thread_output_queue=True)


EXPERIMENT = Experiment(
    id="B2",
    title="next() for a ready item, the consumer pausing between calls",
    figures=(P50, P99, OVER),
    sides=(
        Side("headrace", partial(_pipeline, "headrace")),
        Side("headrace, cold caches", partial(_pipeline, "headrace", cold=True)),
        Side("SPDL, default queue", partial(_pipeline, "spdl")),
        Side("SPDL, thread output queue", SPDL_QUEUE),
        Side("floor: range.__next__", _floor),
        Side("floor, cold caches", partial(_floor, cold=True)),
    ),
    goals=(
        Goal("headrace", P50, at_most=2, first=3),
        Goal("headrace", P99, at_most=8),
        Goal("headrace", OVER, at_most=2),
    ),
)
