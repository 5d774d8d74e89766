"""B12: what watching costs: statistics that are always kept, and reading them."""

from __future__ import annotations

import json
import statistics
import subprocess
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bench.b1 import BATCH, THREADS
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

if TYPE_CHECKING:
    from collections.abc import Callable

ITEMS = 400_000
PAIRS = 15
EVERY = 4_000  # batches, which take some 30 ms of CPU
PLAIN, READ = "CPU µs/item", "CPU µs/item, stats() every 4,000 batches"
RATIO = "read over not read"
BARE, KEPT = "CPU µs/item, none kept", "kept over not kept"


def _run(op: Callable[[Any], Any], *, read: bool) -> float:
    """CPU µs per item."""
    builder = engine("headrace", with_io=False).builder().add_source(range(ITEMS))
    builder = builder.pipe(op, concurrency=THREADS).aggregate(BATCH).add_sink(8)
    pipeline = builder.build(num_threads=THREADS)
    seen = 0
    with costing() as cost, pipeline.auto_stop():
        for number, batch in enumerate(pipeline):
            seen += len(batch)
            if number % EVERY == 0 and read:
                pipeline.stats()
    assert seen == ITEMS
    return cost.cpu_s / ITEMS * 1e6


def _measure(op: Callable[[Any], Any]) -> Figures:
    """Runs that read and runs that do not take turns; the ratio is that of a pair."""
    _run(op, read=True)
    plain, read = [], []
    for _ in range(PAIRS):
        plain.append(_run(op, read=False))
        read.append(_run(op, read=True))
    ratios = [b / a for a, b in zip(plain, read, strict=True)]
    return {
        PLAIN: statistics.median(plain),
        READ: statistics.median(read),
        RATIO: statistics.median(ratios),
    }


def _native() -> Figures:
    return _measure(import_module("headrace._ext").noop_op())


def _python() -> Figures:
    return _measure(identity)


def _in_c(program: str) -> float:
    """CPU µs per item of B1 in C."""
    command = [str(WORK / program), "1000000"]
    out = subprocess.run(command, check=True, capture_output=True, text=True)
    cpu_us: float = json.loads(out.stdout)["cpu_us"]
    return cpu_us


def _kept() -> Figures:
    """The engine, and one that keeps no accounts of its tasks; see engine_bare.c."""
    kept, bare = [], []
    for _ in range(PAIRS):
        kept.append(_in_c("engine_noop"))
        bare.append(_in_c("engine_bare"))
    return {
        PLAIN: statistics.median(kept),
        BARE: statistics.median(bare),
        KEPT: statistics.median(a / b for a, b in zip(kept, bare, strict=True)),
    }


EXPERIMENT = Experiment(
    id="B12",
    title="statistics: no-op stages as in B1; kept or not, and with a snapshot or not",
    figures=(PLAIN, BARE, KEPT, READ, RATIO),
    sides=(
        Side("headrace, native stage in C", _kept),
        Side("headrace, native stage", _native),
        Side("headrace, Python stage", _python),
    ),
    goals=(
        Goal("headrace, native stage in C", KEPT, at_most=1.02),
        Goal("headrace, native stage", RATIO, at_most=1.02),
        Goal("headrace, Python stage", RATIO, at_most=1.02),
    ),
)
