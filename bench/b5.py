"""B5: what it costs to give the engine one picture per task and not a whole batch."""

from __future__ import annotations

from functools import partial

from bench import decode, pictures
from bench.common import Experiment, Figures, Goal, Side

PICTURES = 768
ROUNDS = 2
THREADS = 2
ITEM, BATCH = "images/s, by item", "images/s, by batch"
WALL_KEPT, CPU_KEPT = "item over batch, wall", "item over batch, CPU"


def _measure(name: str) -> Figures:
    """Both in turns, so that a slow spell of the machine hits both."""
    sources = pictures.sources(PICTURES)
    by_item = partial(decode.pipeline_by_item, name)
    by_batch = partial(decode.pipeline_by_batch, name)
    decode.warm_up(by_item, sources)
    decode.warm_up(by_batch, sources)
    rounds = [
        (decode.run(by_item, sources, THREADS), decode.run(by_batch, sources, THREADS))
        for _ in range(ROUNDS)
    ]
    item_s, batch_s = (sum(pair[i].wall_s for pair in rounds) for i in (0, 1))
    item_cpu_s, batch_cpu_s = (sum(pair[i].cpu_s for pair in rounds) for i in (0, 1))
    done = PICTURES * ROUNDS
    return {
        ITEM: done / item_s,
        BATCH: done / batch_s,
        WALL_KEPT: batch_s / item_s,
        CPU_KEPT: batch_cpu_s / item_cpu_s,
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
