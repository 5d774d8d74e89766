"""B10: what memory a loader goes on asking for, and how much it comes to."""

from __future__ import annotations

import resource
from functools import partial
from importlib import import_module
from itertools import islice

from bench import decode, pictures
from bench.common import Experiment, Figures, Goal, Side, peak_resident_mib

WARM_UP, BATCHES = 100, 1_000
BATCH = 8
THREADS = 2
FAULTS, BLOCKS, PEAK = "page faults/batch", "blocks mapped/batch", "peak RSS, MiB"
HEADRACE = "headrace"
TORCH = "torch DataLoader, 2 workers"


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _measure(way: decode.Way) -> Figures:
    """Page faults of this process while 1,000 batches come one after the other.

    The sources are paths, so that the encoded pictures are the loader's to hold. The
    peak is that of the process and its children, added up, before the last batch.
    """
    names = [str(path) for path in pictures.paths()]
    count = (WARM_UP + BATCHES + 1) * BATCH
    batches = way([names[i % len(names)] for i in range(count)], THREADS)
    assert sum(1 for _ in islice(batches, WARM_UP)) == WARM_UP
    before = _faults()
    assert sum(1 for _ in islice(batches, BATCHES)) == BATCHES
    faults = _faults() - before
    peak_mib = peak_resident_mib()
    assert sum(1 for _ in batches) == 1
    return {FAULTS: faults / BATCHES, PEAK: peak_mib}


def _mapped() -> int:
    stats = import_module("headrace._ext").pool_stats()
    mapped: int = stats["mapped_total"]
    return mapped


def _headrace() -> Figures:
    """Also the blocks that the buffer pool gets from the system, the first ones too."""
    figures = _measure(partial(decode.pipeline_by_batch, "headrace", batch=BATCH))
    return figures | {BLOCKS: _mapped() / (WARM_UP + BATCHES + 1)}


EXPERIMENT = Experiment(
    id="B10",
    title="memory: 1,000 batches of 8 pictures at 224×224, 2 threads or workers",
    figures=(FAULTS, BLOCKS, PEAK),
    sides=(
        Side(HEADRACE, _headrace),
        Side(
            "SPDL",
            partial(_measure, partial(decode.pipeline_by_batch, "spdl", batch=BATCH)),
        ),
        Side(TORCH, partial(_measure, partial(decode.torch_workers, batch=BATCH))),
    ),
    goals=(
        Goal(HEADRACE, FAULTS, at_most=0.1),
        Goal(TORCH, PEAK, over=HEADRACE, at_least=4),
    ),
    prepare=pictures.prepare,
)
