"""B11: how a Python stage that waits scales with its concurrency."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from bench.common import Experiment, Figures, Goal, Side, costing, engine

SLEEP_S = 0.003
ROUNDS = 150  # items per thread
FEW, MANY = 2, 16
KEPT_FEW, KEPT_MANY, CPU = (
    f"of the ideal rate, {FEW} threads",
    f"of the ideal rate, {MANY} threads",
    f"CPU µs/item, {MANY} threads",
)

Items = Callable[[int, int], Iterator[Any]]


def _wait(item: Any) -> Any:
    time.sleep(SLEEP_S)
    return item


def _rate(items: Items, threads: int) -> tuple[float, float]:
    """The part of threads / 3 ms that is reached, and the CPU µs of an item."""
    count = ROUNDS * threads
    with costing() as cost:
        assert sum(1 for _ in items(count, threads)) == count
    return ROUNDS * SLEEP_S / cost.wall_s, cost.cpu_s / count * 1e6


def _measure(items: Items) -> Figures:
    sum(1 for _ in items(MANY, MANY))
    few, _ = _rate(items, FEW)
    many, cpu_us = _rate(items, MANY)
    return {KEPT_FEW: few, KEPT_MANY: many, CPU: cpu_us}


def _pipeline(name: str, count: int, threads: int) -> Iterator[Any]:
    pipeline = (
        engine(name, with_io=False)
        .builder()
        .add_source(range(count))
        .pipe(_wait, concurrency=threads)
        .add_sink(2 * threads)
        .build(num_threads=threads)
    )
    with pipeline.auto_stop():
        yield from pipeline


def _thread_pool(count: int, threads: int) -> Iterator[Any]:
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(_wait, range(count))


EXPERIMENT = Experiment(
    id="B11",
    title="a Python stage that sleeps 3 ms",
    figures=(KEPT_FEW, KEPT_MANY, CPU),
    sides=(
        Side("headrace", partial(_measure, partial(_pipeline, "headrace"))),
        Side("SPDL", partial(_measure, partial(_pipeline, "spdl"))),
        Side("ThreadPoolExecutor.map", partial(_measure, _thread_pool)),
    ),
    goals=(
        Goal("headrace", KEPT_FEW, at_least=0.9),
        Goal("headrace", KEPT_MANY, at_least=0.9),
    ),
)
