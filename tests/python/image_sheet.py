"""A contact sheet: what each option makes of one scene in each format, to be looked at.

    python tests/python/image_sheet.py [build/sheet.png]     (make sheet)

A scene in which every mistake shows: a mirrored or turned house, swapped colours, a
wrong grey, a hole in the alpha. Pillow encodes it and writes the labels; all pixels in
the cells are headrace's.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from image_kit import FORMATS, encode, frames, ink_profile
from PIL import Image, ImageDraw

from headrace.io import CenterCrop, RandomResizedCrop, load_image, save_image

WIDTH, HEIGHT = 240, 180
CELL_WIDTH, CELL_HEIGHT = 128, 96
GAP, MARGIN = 6, 60


def scene() -> Image.Image:
    """A house with a red door at the left, a sun at the right, grass below."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    sky = np.dstack([90 + y / 2, 150 + y / 3, 240 - x / 8])
    image = Image.fromarray(sky.clip(0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 130, WIDTH, HEIGHT), fill=(60, 150, 50))
    draw.ellipse((180, 15, 225, 60), fill=(255, 220, 40))
    draw.rectangle((40, 80, 130, 150), fill=(230, 220, 200))
    draw.polygon([(30, 80), (140, 80), (85, 35)], fill=(150, 60, 40))
    draw.rectangle((50, 105, 75, 150), fill=(200, 30, 30))
    draw.rectangle((90, 95, 118, 120), fill=(40, 70, 160))
    draw.line((150, 150, 150, 90), fill=(90, 60, 30), width=6)
    draw.ellipse((135, 65, 168, 105), fill=(30, 100, 40))
    return image


SCENE = scene()


def with_alpha() -> Image.Image:
    """A hole where the sun is, and a fading lower edge."""
    alpha = Image.new("L", SCENE.size, 255)
    draw = ImageDraw.Draw(alpha)
    draw.ellipse((180, 15, 225, 60), fill=0)
    for y in range(150, HEIGHT):
        draw.line((0, y, WIDTH, y), fill=255 - 8 * (y - 150))
    image = SCENE.copy()
    image.putalpha(alpha)
    return image


def plain(fmt: str) -> bytes:
    options = {"JPEG": {"quality": 92}, "WebP": {"quality": 92}}.get(fmt, {})
    return encode(SCENE, fmt, **options)


def turned(fmt: str) -> bytes:
    """Stored on its side; what it says of that is 6: clockwise by 90 degrees."""
    exif = Image.Exif()
    exif[274] = 6
    return encode(SCENE.transpose(Image.Transpose.ROTATE_90), fmt, exif=exif)


def moving(fmt: str) -> bytes:
    second = SCENE.copy()
    ImageDraw.Draw(second).ellipse((100, 140, 130, 170), fill=(250, 250, 250))
    return frames(fmt, [np.asarray(SCENE), np.asarray(second)])


def cut(fmt: str) -> bytes:
    """Two thirds of a file."""
    noisy = np.asarray(SCENE).astype(int)
    noisy = noisy + np.random.default_rng(1).integers(-6, 7, noisy.shape)
    options = {"interlace": False} if fmt == "GIF" else {}
    data = encode(noisy.clip(0, 255).astype(np.uint8), fmt, **options)
    return data[: len(data) * 2 // 3]


def inks(fmt: str) -> bytes:
    return encode(SCENE.convert("CMYK"), fmt, icc_profile=ink_profile())


Load = Callable[[str], np.ndarray]


def column(make: Callable[[str], bytes], **options: object) -> Load:
    size = {"width": CELL_WIDTH, "height": CELL_HEIGHT}
    return lambda fmt: np.asarray(load_image(make(fmt), **size, **options))


def alpha(fmt: str) -> bytes:
    return encode(with_alpha(), fmt)


ALL = tuple(FORMATS)
SOME_TURN = ("JPEG", "PNG", "WebP", "TIFF", "AVIF")
SOME_ALPHA = ("PNG", "WebP", "TIFF", "AVIF")
MOVIES = ("JPEG", "PNG", "WebP", "GIF", "TIFF", "AVIF")
# A column's title, what it loads, and the formats that have it.
COLUMNS: list[tuple[str, Load, tuple[str, ...]]] = [
    ("as it is", column(plain), ALL),
    ("crop", column(plain, crop=(30, 25, 120, 120), scale_mode="crop"), ALL),
    ("CenterCrop(120)", column(plain, crop=CenterCrop(120)), ALL),
    ("drawn, flipped", column(plain, crop=RandomResizedCrop(), seed=4, flip=True), ALL),
    ("gray", column(plain, pix_fmt="gray"), ALL),
    ("bgr24", column(plain, pix_fmt="bgr24"), ALL),
    ("turned: pad", column(turned), SOME_TURN),
    ("stored", column(turned, orientation="ignore"), SOME_TURN),
    ("alpha on pink", column(alpha, background=(255, 120, 200)), SOME_ALPHA),
    ("frame 1", column(moving, frame=1), MOVIES),
    ("two thirds", column(cut, allow_truncated=True), ALL[:-1]),
    ("CMYK", column(inks), ("JPEG", "TIFF")),
    ("by its profile", column(inks, icc="srgb"), ("JPEG", "TIFF")),
]


def cells() -> dict[tuple[str, str], np.ndarray]:
    """Of (format, title): (96, 128, 3) pixels."""
    return {
        (fmt, title): np.broadcast_to(load(fmt), (CELL_HEIGHT, CELL_WIDTH, 3))
        for title, load, formats in COLUMNS
        for fmt in formats
    }


def sheet(made: dict[tuple[str, str], np.ndarray]) -> np.ndarray:
    """All of them with their titles, as one picture."""
    width = MARGIN + len(COLUMNS) * (CELL_WIDTH + GAP)
    height = 24 + len(FORMATS) * (CELL_HEIGHT + GAP)
    image = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(image)
    titles = [title for title, _, _ in COLUMNS]
    for i, title in enumerate(titles):
        draw.text((MARGIN + i * (CELL_WIDTH + GAP), 6), title, fill="black")
    for i, fmt in enumerate(FORMATS):
        draw.text((8, 24 + i * (CELL_HEIGHT + GAP) + 40), fmt, fill="black")
    for (fmt, title), pixels in made.items():
        x = MARGIN + titles.index(title) * (CELL_WIDTH + GAP)
        y = 24 + FORMATS.index(fmt) * (CELL_HEIGHT + GAP)
        image.paste(Image.fromarray(np.ascontiguousarray(pixels)), (x, y))
    return np.asarray(image)


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "build/sheet.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    save_image(path, sheet(cells()))
    print(f"wrote {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
