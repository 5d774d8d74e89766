"""The pictures that B3 to B8 decode: crops of the photographs of `make quickstart`.

Pillow makes them once, the same on every machine, in build/bench/pictures.
"""

from __future__ import annotations

import random
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bench.common import ROOT, WORK

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 256
WIDTH, HEIGHT = 640, 400
QUALITY = 90
FOLDER = WORK / "pictures"

# Photographs in colour with texture. Their crops come to 63 KB on average, as pictures
# of that size do; none needs noise added.
PHOTOGRAPHS = (
    "astronaut.png",
    "chelsea.png",
    "coffee.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "motorcycle_left.png",
    "motorcycle_right.png",
    "rocket.jpg",
)


def prepare() -> str:
    """Make what is missing; say in one line what there is."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if len(paths()) != COUNT:
        _make()
    size = sum(path.stat().st_size for path in paths()) / COUNT / 1000
    return (
        f"{COUNT} photographs of {WIDTH}×{HEIGHT}, JPEG quality {QUALITY}, "
        f"4:2:0, {size:.1f} KB on average, no noise added"
    )


def paths() -> list[Path]:
    return sorted(FOLDER.glob("*.jpg"))


def sources(count: int) -> list[bytes]:
    """`count` pictures as bytes in memory, going round the set."""
    pictures = [path.read_bytes() for path in paths()]
    return [pictures[i % COUNT] for i in range(count)]


def _photographs() -> list[Any]:
    image = import_module("PIL.Image")
    folder = ROOT / ".cache" / "photos"
    return [image.open(folder / name).convert("RGB") for name in PHOTOGRAPHS]


def _make() -> None:
    image = import_module("PIL.Image")
    photographs = _photographs()
    rng = random.Random(640_400)
    for i in range(COUNT):
        photograph = photographs[i % len(photographs)]
        crop = photograph.resize(
            (WIDTH, HEIGHT), image.Resampling.BICUBIC, box=_box(photograph.size, rng)
        )
        if i // len(photographs) % 2:
            crop = crop.transpose(image.Transpose.FLIP_LEFT_RIGHT)
        crop.save(FOLDER / f"{i:03}.jpg", quality=QUALITY)


def _box(size: tuple[int, int], rng: random.Random) -> tuple[int, int, int, int]:
    """A place of the pictures' shape that takes 60 to 100 % of what would fit."""
    fitting = min(size[0], size[1] * WIDTH / HEIGHT)
    width = int(fitting * rng.uniform(0.6, 1.0))
    height = width * HEIGHT // WIDTH
    left, top = rng.randint(0, size[0] - width), rng.randint(0, size[1] - height)
    return left, top, left + width, top + height
