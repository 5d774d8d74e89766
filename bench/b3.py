"""B3: JPEG 640×400 → 224×224 RGB uint8 batches of 32, pictures per CPU-second."""

from __future__ import annotations

import json
import subprocess
from functools import partial

from bench import decode, pictures
from bench.common import WORK, Experiment, Figures, Goal, Side

PICTURES = 1024
THREADS = 2
RATE, WALL_RATE = "images/CPU-s", "images/s, 2 threads"


def _measure(way: decode.Way, files: bool) -> Figures:
    sources: list[bytes | str] = list(pictures.sources(PICTURES))
    if files:  # just read, so they lie in the page cache
        paths = pictures.paths()
        sources = [str(paths[i % len(paths)]) for i in range(PICTURES)]
    decode.warm_up(way, sources)
    cost = decode.run(way, sources, THREADS)
    return {RATE: PICTURES / cost.cpu_s, WALL_RATE: PICTURES / cost.wall_s}


def _side(name: str, way: decode.Way, *, files: bool = False) -> Side:
    return Side(name, partial(_measure, way, files))


def _limit() -> Figures:
    """libjpeg in a bare C loop that resizes nothing; see limit_jpeg.c."""
    out = subprocess.run(
        [WORK / "limit_jpeg", pictures.FOLDER],
        check=True,
        capture_output=True,
        text=True,
    )
    figures = json.loads(out.stdout)
    return {RATE: figures["images_per_cpu_s"]}


HEADRACE = partial(decode.pipeline_by_batch, "headrace")
SPDL = partial(decode.pipeline_by_batch, "spdl")

EXPERIMENT = Experiment(
    id="B3",
    title="JPEG 640×400 q90 → 224×224 RGB uint8, batches of 32",
    figures=(RATE, WALL_RATE),
    sides=(
        Side("limit: libjpeg in C, no resize, 1 thread", _limit),
        _side("headrace, in memory", HEADRACE),
        _side("headrace, files in page cache", HEADRACE, files=True),
        _side("SPDL, in memory", SPDL),
        _side("SPDL, files in page cache", SPDL, files=True),
        _side("simplejpeg + OpenCV area, threads", decode.cv2_area),
        _side("simplejpeg + OpenCV linear, threads", decode.cv2_linear),
        _side("Pillow, threads", decode.pillow_threads),
        _side("torch DataLoader, Pillow, 2 workers", decode.torch_workers),
    ),
    goals=(
        Goal(
            "headrace, in memory",
            RATE,
            over="limit: libjpeg in C, no resize, 1 thread",
            at_least=0.80,
        ),
        Goal(
            "headrace, in memory",
            RATE,
            over="SPDL, in memory",
            at_least=2.2,
            first=1.8,
        ),
    ),
    prepare=pictures.prepare,
)
