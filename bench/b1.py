"""B1: what the engine costs per item when the work costs nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any

from bench.common import (
    WORK,
    Experiment,
    Figures,
    Goal,
    Side,
    costing,
    engine,
    identity,
)

BATCH = 32
THREADS = 2
CPU, WALL = "CPU µs/item", "wall µs/item"

Batches = Callable[[int], Iterator[Any]]


def _measure(batches: Batches, items: int) -> Figures:
    """Run a tenth to warm up, then all, and count what arrives."""
    sum(1 for _ in batches(items // 10))
    with costing() as cost:
        seen = sum(len(batch) for batch in batches(items))
    assert seen == items, f"{seen} items of {items} arrived"
    return {CPU: cost.cpu_s / items * 1e6, WALL: cost.wall_s / items * 1e6}


def _pipeline(name: str, op: Callable[[Any], Any], items: int) -> Iterator[Any]:
    pipeline = (
        engine(name, with_io=False)
        .builder()
        .add_source(range(items))
        .pipe(op, concurrency=THREADS)
        .aggregate(BATCH)
        .add_sink(8)
        .build(num_threads=THREADS)
    )
    with pipeline.auto_stop():
        yield from pipeline


def _headrace_python() -> Figures:
    return _measure(partial(_pipeline, "headrace", identity), 400_000)


async def _identity(item: Any) -> Any:
    """The no-op stage as a coroutine."""
    return item


def _headrace_coroutine() -> Figures:
    return _measure(partial(_pipeline, "headrace", _identity), 400_000)


def _spdl_coroutine() -> Figures:
    return _measure(partial(_pipeline, "spdl", _identity), 5_000)


def _headrace_native() -> Figures:
    op = import_module("headrace._ext").noop_op()
    return _measure(partial(_pipeline, "headrace", op), 400_000)


def _headrace_c() -> Figures:
    """The same with a source and a consumer in C; see engine_noop.c."""
    out = subprocess.run(
        [WORK / "engine_noop", "1000000"], check=True, capture_output=True, text=True
    )
    figures = json.loads(out.stdout)
    return {CPU: figures["cpu_us"], WALL: figures["wall_us"]}


def _spdl() -> Figures:
    return _measure(partial(_pipeline, "spdl", identity), 5_000)


def _in_batches(items: Iterable[int]) -> Iterator[list[int]]:
    iterator = iter(items)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def _thread_pool_batches(items: int) -> Iterator[list[int]]:
    with ThreadPoolExecutor(THREADS) as pool:
        yield from _in_batches(pool.map(identity, range(items)))


def _thread_pool() -> Figures:
    return _measure(_thread_pool_batches, 50_000)


def _torch_batches(items: int) -> Iterator[list[int]]:
    data = import_module("torch.utils.data")
    # A range has __getitem__ and __len__: it is the identity data set.
    yield from data.DataLoader(
        range(items), batch_size=BATCH, num_workers=THREADS, collate_fn=identity
    )


def _torch() -> Figures:
    return _measure(_torch_batches, 200_000)


def _floor() -> Figures:
    return _measure(lambda items: _in_batches(map(identity, range(items))), 2_000_000)


EXPERIMENT = Experiment(
    id="B1",
    title="engine cost per item: range → no-op stage, 2 threads → aggregate(32) → sink",
    figures=(CPU, WALL),
    sides=(
        Side("headrace, Python stage", _headrace_python),
        Side("headrace, coroutine stage", _headrace_coroutine),
        Side("headrace, native stage", _headrace_native),
        Side("headrace, native stage in C", _headrace_c),
        Side("SPDL, Python stage", _spdl),
        Side("SPDL, coroutine stage", _spdl_coroutine),
        Side("ThreadPoolExecutor.map", _thread_pool),
        Side("torch DataLoader, 2 workers", _torch),
        Side("floor: map() in a loop", _floor),
    ),
    goals=(
        Goal("headrace, Python stage", CPU, at_most=0.6),
        Goal("headrace, coroutine stage", CPU, at_most=2.0),
        Goal("headrace, native stage", CPU, at_most=0.2),
        Goal(
            "SPDL, Python stage",
            CPU,
            over="headrace, Python stage",
            at_least=400,
            first=150,
        ),
    ),
)
