"""B3: JPEG → 224×224 RGB batches of 32, pictures per CPU-second.

Three sets: 640×400, which B3 is; sizes around 500×375 (B3m); 2000×1500 (B3l).
"""

from __future__ import annotations

import json
import subprocess
from functools import partial

from bench import decode, pictures
from bench.common import WORK, Experiment, Figures, Goal, Side

THREADS = 2
RATE, WALL_RATE = "images/CPU-s", "images/s, 2 threads"


def _measure(
    picture_set: pictures.Set,
    count: int,
    way: decode.Way,
    files: bool,
    alike: bool,
) -> Figures:
    sources: list[bytes | str] = list(picture_set.sources(count))
    if files:  # just read, so they lie in the page cache
        paths = picture_set.paths()
        sources = [str(paths[i % len(paths)]) for i in range(count)]
    if alike:
        decode.warm_up(way, sources)
    else:
        decode.run(way, sources[: 2 * decode.BATCH], 1)
    cost = decode.run(way, sources, THREADS)
    return {RATE: count / cost.cpu_s, WALL_RATE: count / cost.wall_s}


def _limit(picture_set: pictures.Set) -> Figures:
    """libjpeg in a bare C loop that resizes nothing; see limit_jpeg.c."""
    out = subprocess.run(
        [WORK / "limit_jpeg", picture_set.folder],
        check=True,
        capture_output=True,
        text=True,
    )
    figures = json.loads(out.stdout)
    return {RATE: figures["images_per_cpu_s"]}


LIMIT = "limit: libjpeg in C, no resize, 1 thread"
DEFAULT, EXACT = "headrace, in memory", "headrace, exact=True"
BICUBIC, TENSOR = "headrace, bicubic", "headrace, CHW float32 normalised"
SPDL, CV2 = "SPDL, in memory", "simplejpeg + OpenCV area, threads"

HEADRACE = partial(decode.pipeline_by_batch, "headrace")


def _ratio(side: str, over: str, at_least: float, first: float | None = None) -> Goal:
    return Goal(side, RATE, over=over, at_least=at_least, first=first)


def _experiment(
    id_: str, title: str, picture_set: pictures.Set, count: int, *, full: bool
) -> Experiment:
    def side(
        name: str, way: decode.Way, *, files: bool = False, alike: bool = True
    ) -> Side:
        return Side(name, partial(_measure, picture_set, count, way, files, alike))

    sides = [
        Side(LIMIT, partial(_limit, picture_set)),
        side(DEFAULT, HEADRACE),
        side(EXACT, partial(HEADRACE, exact=True)),
        side(BICUBIC, partial(HEADRACE, scale_algo="bicubic")),
        side(TENSOR, decode.pipeline_to_tensor, alike=False),
        side(SPDL, partial(decode.pipeline_by_batch, "spdl")),
        side(CV2, decode.cv2_area),
    ]
    if full:
        spdl = partial(decode.pipeline_by_batch, "spdl")
        sides += [
            side("headrace, files in page cache", HEADRACE, files=True),
            side("SPDL, files in page cache", spdl, files=True),
            side("simplejpeg + OpenCV linear, threads", decode.cv2_linear),
            side("Pillow, threads", decode.pillow_threads),
            side("torch DataLoader, Pillow, 2 workers", decode.torch_workers),
        ]
    return Experiment(
        id=id_,
        title=title,
        figures=(RATE, WALL_RATE),
        sides=tuple(sides),
        goals=(
            _ratio(DEFAULT, LIMIT, 1.0, first=0.9),
            _ratio(EXACT, LIMIT, 0.80),
            _ratio(DEFAULT, SPDL, 2.8, first=2.2),
            _ratio(EXACT, SPDL, 2.2, first=1.8),
            _ratio(DEFAULT, CV2, 2.1, first=1.6),
            _ratio(EXACT, CV2, 1.6),
            _ratio(TENSOR, DEFAULT, 1 / 1.1),
        ),
        prepare=picture_set.prepare,
    )


EXPERIMENT = _experiment(
    "B3",
    "JPEG 640×400 q90 → 224×224 RGB uint8, batches of 32",
    pictures.PLAIN,
    1024,
    full=True,
)
MIXED = _experiment(
    "B3m",
    "JPEGs around 500×375 q92 → 224×224 RGB uint8, batches of 32",
    pictures.MIXED,
    1024,
    full=False,
)
LARGE = _experiment(
    "B3l",
    "JPEG 2000×1500 q90 → 224×224 RGB uint8, batches of 32",
    pictures.LARGE,
    128,
    full=False,
)
