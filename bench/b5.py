"""B5: what it costs to give the engine one picture per task and not a whole batch."""

from __future__ import annotations

from functools import partial

from bench import decode, pictures
from bench.common import Experiment, Figures, Goal, Side

PICTURES = 1536
THREADS = 2
ITEM, BATCH = "images/s, by item", "images/s, by batch"
WALL_KEPT, CPU_KEPT = "item over batch, wall", "item over batch, CPU"


def _measure(name: str) -> Figures:
    """Both within one process, one right after the other."""
    sources = pictures.sources(PICTURES)
    by_item = partial(decode.pipeline_by_item, name)
    by_batch = partial(decode.pipeline_by_batch, name)
    decode.warm_up(by_item, sources)
    decode.warm_up(by_batch, sources)
    item = decode.run(by_item, sources, THREADS)
    batch = decode.run(by_batch, sources, THREADS)
    return {
        ITEM: PICTURES / item.wall_s,
        BATCH: PICTURES / batch.wall_s,
        WALL_KEPT: batch.wall_s / item.wall_s,
        CPU_KEPT: batch.cpu_s / item.cpu_s,
    }


EXPERIMENT = Experiment(
    id="B5",
    title="one picture per task against one batch per task, 2 threads",
    figures=(ITEM, BATCH, WALL_KEPT, CPU_KEPT),
    sides=(
        Side("headrace", partial(_measure, "headrace")),
        Side("SPDL", partial(_measure, "spdl")),
    ),
    goals=(Goal("headrace", WALL_KEPT, at_least=0.97),),
    prepare=pictures.prepare,
)
