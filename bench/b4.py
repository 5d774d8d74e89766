"""B4: what a second thread brings to the work of B3."""

from __future__ import annotations

from functools import partial

from bench import decode, pictures
from bench.common import Experiment, Figures, Goal, Side

PICTURES = 1536  # 48 batches: a last one made alone weighs little
ONE, TWO, GAIN = "images/s, 1 thread", "images/s, 2 threads", "2 over 1, wall"


def _measure(way: decode.Way) -> Figures:
    """One thread and two within one process, one right after the other."""
    sources = pictures.sources(PICTURES)
    decode.warm_up(way, sources)
    one_s = decode.run(way, sources, 1).wall_s
    two_s = decode.run(way, sources, 2).wall_s
    return {ONE: PICTURES / one_s, TWO: PICTURES / two_s, GAIN: one_s / two_s}


def _pipeline(name: str) -> decode.Way:
    return partial(decode.pipeline_by_batch, name)


EXPERIMENT = Experiment(
    id="B4",
    title="the pipeline of B3 with 2 threads over 1",
    figures=(ONE, TWO, GAIN),
    sides=(
        Side("headrace", partial(_measure, _pipeline("headrace"))),
        Side("SPDL", partial(_measure, _pipeline("spdl"))),
        Side("simplejpeg + OpenCV area", partial(_measure, decode.cv2_area)),
    ),
    goals=(Goal("headrace", GAIN, at_least=1.95, first=1.9),),
    prepare=pictures.prepare,
)
