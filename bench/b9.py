"""B9: how long the first batch of a data set of a million paths takes."""

from __future__ import annotations

import statistics
import time
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bench import decode, pictures
from bench.common import Experiment, Figures, Goal, Side, costing, engine, resident_mib

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PATHS, FEW = 1_000_000, 2 * decode.BATCH
THREADS = 2
STARTS = 7
FIRST, CPU, ADDED = "ms to the first batch", "CPU ms to it", "MiB added"
HEADRACE, SMALL = "headrace", f"headrace, {FEW} paths"
NO_OP = "headrace, nothing decoded"


def _paths(count: int) -> list[decode.Source]:
    """As many texts as a data set has, each one its own; they go round the pictures."""
    names = [path.name for path in pictures.paths()]
    folder = str(pictures.FOLDER)
    return [f"{folder}/{names[i % len(names)]}" for i in range(count)]


def _measure(way: decode.Way, count: int, starts: int) -> Figures:
    """From before the loader is built to the first batch, after a run that warms up.

    What is added is what the process and its children hold then, over what the process
    held with the list alone. Where a start is cheap, the medians of several.
    """
    for batch in way(_paths(FEW), THREADS):
        assert len(batch) == decode.BATCH
    paths = _paths(count)
    before_mib, added_mib = resident_mib(), 0.0
    wall_s, cpu_s = [], []
    for _ in range(starts):
        with costing() as cost:
            batches = way(paths, THREADS)
            first = next(batches)
        wall_s.append(cost.wall_s)
        cpu_s.append(cost.cpu_s)
        added_mib = max(added_mib, resident_mib() - before_mib)
        assert len(first) == decode.BATCH
        del first, batches  # which stops it
        time.sleep(0.02)
    return {
        FIRST: statistics.median(wall_s) * 1e3,
        CPU: statistics.median(cpu_s) * 1e3,
        ADDED: added_mib,
    }


def _nothing(sources: Sequence[decode.Source], threads: int) -> Iterator[Any]:
    """The pipeline with a native stage that does nothing: what is the engine's."""
    no_op = import_module("headrace._ext").noop_op()
    builder = engine("headrace").builder().add_source(sources).aggregate(decode.BATCH)
    pipeline = builder.pipe(no_op).add_sink(3).build(num_threads=threads)
    with pipeline.auto_stop():
        yield from pipeline


def _side(name: str, way: decode.Way, count: int = PATHS, starts: int = STARTS) -> Side:
    return Side(name, partial(_measure, way, count, starts))


BY_BATCH = partial(decode.pipeline_by_batch, "headrace")

EXPERIMENT = Experiment(
    id="B9",
    title="a list of 1,000,000 paths: from build() to the first batch of 32 at 224×224",
    figures=(FIRST, CPU, ADDED),
    sides=(
        _side(HEADRACE, BY_BATCH),
        _side(SMALL, BY_BATCH, FEW),
        _side(NO_OP, _nothing),
        _side("SPDL", partial(decode.pipeline_by_batch, "spdl"), starts=1),
        _side("torch DataLoader, 2 workers", decode.torch_workers, starts=1),
    ),
    goals=(
        Goal(HEADRACE, FIRST, at_most=20),
        Goal(HEADRACE, CPU, over=SMALL, at_most=1.05),
        Goal(NO_OP, FIRST, at_most=2),
    ),
    prepare=pictures.prepare,
)
