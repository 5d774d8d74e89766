"""B13: how many headers of JPEGs in memory are read in a second."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial

from bench import pictures
from bench.common import Experiment, Figures, Goal, Side, costing

COUNT = 20_000
EACH = "µs of CPU per header"
RATE = "headers per CPU second"

Sizes = Callable[[list[bytes]], list[tuple[int, int]]]


def _headrace(files: list[bytes]) -> list[tuple[int, int]]:
    from headrace.io import image_info_batch  # noqa: PLC0415 (a side's own)

    return [info[:2] for info in image_info_batch(files) if info is not None]


def _headrace_each(files: list[bytes]) -> list[tuple[int, int]]:
    from headrace.io import image_info  # noqa: PLC0415

    return [image_info(data)[:2] for data in files]


def _pillow(files: list[bytes]) -> list[tuple[int, int]]:
    from PIL import Image  # noqa: PLC0415

    return [Image.open(io.BytesIO(data)).size for data in files]


def _simplejpeg(files: list[bytes]) -> list[tuple[int, int]]:
    from simplejpeg import decode_jpeg_header  # noqa: PLC0415

    headers = [decode_jpeg_header(data) for data in files]
    return [(width, height) for height, width, *_ in headers]


def _measure(sizes: Sizes) -> Figures:
    files = pictures.PLAIN.sources(COUNT)
    assert sizes(files) == [(pictures.WIDTH, pictures.HEIGHT)] * COUNT
    with costing() as cost:
        sizes(files)
    return {EACH: cost.cpu_s / COUNT * 1e6, RATE: COUNT / cost.cpu_s}


def _side(name: str, sizes: Sizes) -> Side:
    return Side(name, partial(_measure, sizes))


EXPERIMENT = Experiment(
    id="B13",
    title=f"the headers of {COUNT:,} JPEGs of 640×400 in memory",
    figures=(EACH, RATE),
    sides=(
        _side("headrace", _headrace),
        _side("headrace, one by one", _headrace_each),
        _side("Pillow", _pillow),
        _side("simplejpeg", _simplejpeg),
    ),
    goals=(Goal("headrace", RATE, at_least=100_000),),
    prepare=pictures.prepare,
)
