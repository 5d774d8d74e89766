"""B9: how long the first batch of a data set of a million paths takes."""

from __future__ import annotations

import time
from functools import partial

from bench import decode, pictures
from bench.common import Experiment, Figures, Goal, Side, resident_mib

PATHS = 1_000_000
THREADS = 2
FIRST, ADDED = "ms to the first batch", "MiB added"


def _paths(count: int) -> list[decode.Source]:
    """As many texts as a data set has, each one its own; they go round the pictures."""
    names = [path.name for path in pictures.paths()]
    folder = str(pictures.FOLDER)
    return [f"{folder}/{names[i % len(names)]}" for i in range(count)]


def _measure(way: decode.Way) -> Figures:
    """From before the loader is built to the first batch, after a run that warms up.

    What is added is what the process and its children hold then, over what the process
    held with the list alone.
    """
    decode.warm_up(way, _paths(2 * decode.BATCH))
    paths = _paths(PATHS)
    before_mib = resident_mib()
    start_s = time.perf_counter()
    batches = way(paths, THREADS)
    batch = next(batches)
    first_s = time.perf_counter() - start_s
    added_mib = resident_mib() - before_mib
    assert batch.shape == (decode.BATCH, decode.SIDE, decode.SIDE, 3), batch.shape
    return {FIRST: first_s * 1e3, ADDED: added_mib}


def _side(name: str, way: decode.Way) -> Side:
    return Side(name, partial(_measure, way))


EXPERIMENT = Experiment(
    id="B9",
    title="a list of 1,000,000 paths: from build() to the first batch of 32 at 224×224",
    figures=(FIRST, ADDED),
    sides=(
        _side("headrace", partial(decode.pipeline_by_batch, "headrace")),
        _side("SPDL", partial(decode.pipeline_by_batch, "spdl")),
        _side("torch DataLoader, 2 workers", decode.torch_workers),
    ),
    goals=(Goal("headrace", FIRST, at_most=20),),
    prepare=pictures.prepare,
)
