"""The pictures that B3 to B8 decode: crops of the photographs of `make quickstart`.

Pillow makes them once, the same on every machine, in build/bench/pictures and, for the
other sizes of B3, in folders beside it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bench.common import ROOT, WORK

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 256
WIDTH, HEIGHT = 640, 400
QUALITY = 90
FOLDER = WORK / "pictures"


@dataclass(frozen=True)
class Set:
    """Pictures of one kind; sizes vary by `spread` around the middle ones."""

    folder: Path
    count: int
    width: int
    height: int
    quality: int
    spread: float = 0.0

    def prepare(self) -> str:
        """Make what is missing; say in one line what there is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if len(self.paths()) != self.count:
            _make(self)
        size = sum(path.stat().st_size for path in self.paths()) / self.count / 1000
        around = "around " if self.spread else ""
        return (
            f"{self.count} photographs of {around}{self.width}×{self.height}, JPEG "
            f"quality {self.quality}, 4:2:0, {size:.1f} KB on average, no noise added"
        )

    def paths(self) -> list[Path]:
        return sorted(self.folder.glob("*.jpg"))

    def sources(self, count: int) -> list[bytes]:
        """`count` pictures as bytes in memory, going round the set."""
        pictures = [path.read_bytes() for path in self.paths()]
        return [pictures[i % self.count] for i in range(count)]


PLAIN = Set(FOLDER, COUNT, WIDTH, HEIGHT, QUALITY)
# As in ImageNet: no two have one size.
MIXED = Set(WORK / "pictures_mixed", 128, 500, 375, 92, spread=0.25)
# As of a camera that was told to be modest.
LARGE = Set(WORK / "pictures_large", 32, 2000, 1500, 90)

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
    return PLAIN.prepare()


def paths() -> list[Path]:
    return PLAIN.paths()


def sources(count: int) -> list[bytes]:
    return PLAIN.sources(count)


def _photographs() -> list[Any]:
    image = import_module("PIL.Image")
    folder = ROOT / ".cache" / "photos"
    return [image.open(folder / name).convert("RGB") for name in PHOTOGRAPHS]


def _make(pictures: Set) -> None:
    image = import_module("PIL.Image")
    photographs = _photographs()
    rng = random.Random(pictures.width * 1000 + pictures.height)
    for i in range(pictures.count):
        photograph = photographs[i % len(photographs)]
        size = _size(pictures, rng)
        crop = photograph.resize(
            size, image.Resampling.BICUBIC, box=_box(photograph.size, size, rng)
        )
        if i // len(photographs) % 2:
            crop = crop.transpose(image.Transpose.FLIP_LEFT_RIGHT)
        crop.save(pictures.folder / f"{i:03}.jpg", quality=pictures.quality)


def _size(pictures: Set, rng: random.Random) -> tuple[int, int]:
    if not pictures.spread:
        return pictures.width, pictures.height
    low, high = 1 - pictures.spread, 1 + pictures.spread
    width = round(pictures.width * rng.uniform(low, high))
    return width, round(pictures.height * rng.uniform(low, high))


def _box(
    size: tuple[int, int], shape: tuple[int, int], rng: random.Random
) -> tuple[int, int, int, int]:
    """A place of the picture's shape that takes 60 to 100 % of what would fit."""
    fitting = min(size[0], size[1] * shape[0] / shape[1])
    width = int(fitting * rng.uniform(0.6, 1.0))
    height = width * shape[1] // shape[0]
    left, top = rng.randint(0, size[0] - width), rng.randint(0, size[1] - height)
    return left, top, left + width, top + height
