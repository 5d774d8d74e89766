"""B5: what it costs to give the engine one picture per task and not a whole batch."""

from __future__ import annotations

import statistics
from functools import partial

from bench import decode, pictures
from bench.common import Experiment, Figures, Goal, Side

PICTURES = 768
PAIRS = 6
THREADS = 2
ITEM, BATCH = "images/s, by item", "images/s, by batch"
WALL_KEPT, CPU_KEPT = "item over batch, wall", "item over batch, CPU"


def _measure(name: str) -> Figures:
    """Both within one process, in turns: A B, B A, A B. Each ratio is that of a pair.

    So a machine that gets slower, or is busy for a second, changes single pairs but not
    their median.
    """
    sources = pictures.sources(PICTURES)
    by_item = partial(decode.pipeline_by_item, name)
    by_batch = partial(decode.pipeline_by_batch, name)
    decode.warm_up(by_item, sources)
    decode.warm_up(by_batch, sources)
    items, batches = [], []
    for pair in range(PAIRS):
        if pair % 2 == 0:
            items.append(decode.run(by_item, sources, THREADS))
        batches.append(decode.run(by_batch, sources, THREADS))
        if pair % 2 == 1:
            items.append(decode.run(by_item, sources, THREADS))
    pairs = list(zip(items, batches, strict=True))
    return {
        ITEM: PICTURES / statistics.median(item.wall_s for item in items),
        BATCH: PICTURES / statistics.median(batch.wall_s for batch in batches),
        WALL_KEPT: statistics.median(b.wall_s / i.wall_s for i, b in pairs),
        CPU_KEPT: statistics.median(b.cpu_s / i.cpu_s for i, b in pairs),
    }


EXPERIMENT = Experiment(
    id="B5",
    title="one picture per task against one batch per task, 2 threads",
    figures=(ITEM, BATCH, WALL_KEPT, CPU_KEPT),
    sides=(
        Side("headrace", partial(_measure, "headrace")),
        Side("SPDL", partial(_measure, "spdl")),
    ),
    goals=(
        Goal("headrace", WALL_KEPT, at_least=0.97),
        Goal("headrace", CPU_KEPT, at_least=0.97),
    ),
    prepare=pictures.prepare,
)
