"""Properties of the table in docs/image-formats.md that hold for every format alike.

Each takes the name of a format and a picture in it, 53 x 37, and knows from Pillow what
its pixels are.
"""

import io
from functools import partial

import numpy as np
import pytest
from image_kit import claim, encode, pillow, waves
from PIL import Image

from headrace.errors import FormatError, HeadraceError, LimitError
from headrace.io import (
    CenterCrop,
    ImageLimits,
    RandomResizedCrop,
    load_image,
    load_image_batch,
    random_horizontal_flip,
)
from headrace.pipeline import PipelineBuilder

WIDTH, HEIGHT = 53, 37
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZE = {"width": 20, "height": 12, "exact": True}


def same(got: object, want: object) -> None:
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def resized(pixels: np.ndarray, width: int = 20, height: int = 12) -> np.ndarray:
    image = Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(image)


def cut(pixels: np.ndarray, box: tuple[int, int, int, int]) -> np.ndarray:
    top, left, height, width = box
    return pixels[top : top + height, left : left + width]


def check_pix_fmts(fmt: str, data: bytes) -> None:
    """All of them, from the RGB that Pillow gives; grey of a JPEG is its Y."""
    rgb = pillow(data)
    same(load_image(data, pix_fmt="bgr24"), rgb[:, :, ::-1])
    rgba = np.dstack([rgb, np.full(rgb.shape[:2], 255, np.uint8)])
    same(load_image(data, pix_fmt="rgba"), rgba)
    wide = np.asarray(load_image(data, pix_fmt="rgb48"))
    assert wide.dtype == np.uint16
    same(wide, rgb.astype(np.uint16) * 257)
    grey = np.asarray(Image.fromarray(rgb).convert("L"))[:, :, None]
    if fmt == "JPEG":
        with Image.open(io.BytesIO(data)) as image:
            image.draft("L", image.size)
            grey = np.asarray(image)[:, :, None]
    same(load_image(data, pix_fmt="gray"), grey)
    deep = np.asarray(load_image(data, pix_fmt="gray16"))
    assert np.abs(deep / 257 - grey).max() <= 1  # rounded at another depth


def check_forms(fmt: str, data: bytes) -> None:
    rgb = pillow(data)
    same(load_image(data, layout="CHW"), rgb.transpose(2, 0, 1))
    numbers = {"mean": MEAN, "std": STD, "layout": "CHW"}
    want = ((rgb / 255 - MEAN) / STD).transpose(2, 0, 1)
    got = np.asarray(load_image(data, dtype="float32", **numbers))
    assert abs(got - want).max() < 1e-6
    same(load_image(data, dtype="float16", **numbers), got.astype(np.float16))
    bits = got.view(np.uint32)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    same(load_image(data, dtype="bfloat16", **numbers), bits.astype(np.uint16))


def check_resize(fmt: str, data: bytes) -> None:
    """Pillow's pixels, stretched, padded, and cut out of the middle."""
    rgb = pillow(data)
    same(load_image(data, **SIZE, scale_mode=None), resized(rgb))
    padded = np.zeros((12, 20, 3), np.uint8)
    padded[:, 1:18] = resized(rgb, 17, 12)  # 53 * 12 / 37 = 17.2
    same(load_image(data, **SIZE), padded)
    covering = resized(rgb, 20, 14)  # 37 * 20 / 53 = 13.96
    same(load_image(data, **SIZE, scale_mode="crop"), covering[1:13])


def check_crops(fmt: str, data: bytes) -> None:
    """Given, of the middle, drawn; and mirrored."""
    rgb = pillow(data)
    box = (3, 5, 30, 41)
    same(load_image(data, crop=box), cut(rgb, box))
    same(load_image(data, flip=True), rgb[:, ::-1])
    part = resized(cut(rgb, box))[:, ::-1]
    same(load_image(data, crop=box, flip=True, scale_mode=None, **SIZE), part)
    middle = load_image(data, crop=CenterCrop(), width=20, height=12)
    same(middle, cut(rgb, (12, 16, 12, 20)))  # of 12.5 and 16.5 the even ones
    crop = RandomResizedCrop()
    for index in range(6):
        key = {"seed": 5, "epoch": 1, "index": index}
        want = resized(cut(rgb, crop.get_params(WIDTH, HEIGHT, **key)))
        want = want[:, ::-1] if random_horizontal_flip(0.5, **key) else want
        same(load_image(data, crop=crop, flip=0.5, **key, **SIZE), want)


def check_out(fmt: str, data: bytes) -> None:
    rgb = pillow(data)
    out = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    assert np.shares_memory(np.asarray(load_image(data, out=out)), out)
    same(out, rgb)
    batch = np.zeros((2, 3, 12, 20), np.float32)
    form = {"layout": "CHW", "dtype": "float32", "scale_mode": None}
    load_image_batch([data] * 2, out=batch, **form, **SIZE)
    want = resized(rgb).transpose(2, 0, 1) / np.float32(255)
    assert abs(batch - want).max() < 1e-6


def check_pipeline(fmt: str, data: bytes) -> None:
    """Whatever the number of threads, what the function gives: crops drawn, too."""
    rgb = pillow(data)
    crop = RandomResizedCrop()
    load = partial(load_image, crop=crop, seed=3, **SIZE)
    boxes = [crop.get_params(WIDTH, HEIGHT, seed=3, index=i) for i in range(8)]
    for threads in (1, 3):
        pipeline = (
            PipelineBuilder()
            .add_source([data] * 8)
            .pipe(load, concurrency=threads, output_order="input")
            .add_sink(2)
            .build(num_threads=threads)
        )
        with pipeline.auto_stop():
            for box, pixels in zip(boxes, pipeline, strict=True):
                same(pixels, resized(cut(rgb, box)))


def check_cut_off(fmt: str, data: bytes) -> None:
    """An error at every length, until all rows are there."""
    whole = np.asarray(load_image(data))
    for length in range(0, len(data), 1 + len(data) // 200):
        try:
            pixels = load_image(data[:length])
        except FormatError as error:
            assert "<bytes>" in str(error)  # noqa: PT017
        else:
            same(pixels, whole)


def check_rows_kept(fmt: str, data: bytes) -> None:
    """As many as the error tells, and zeros; but a BMP is stored from below."""
    noise = np.random.default_rng(2).integers(0, 256, (120, 160, 3), np.uint8)
    options = {"GIF": {"interlace": False}, "WebP": {"lossless": True}}.get(fmt, {})
    data = encode(noise, fmt, **options)
    part = data[: len(data) * 2 // 3]
    with pytest.raises(FormatError, match=r"after \d+ of 120 rows") as caught:
        load_image(part)
    rows = int(str(caught.value).split("after ")[1].split()[0])
    assert 10 < rows < 100
    kept = load_image(part, allow_truncated=True)
    assert [cut.reason for cut in kept.truncated] == [str(caught.value)]
    pixels, whole = np.asarray(kept), pillow(data)
    if fmt == "BMP":
        pixels, whole = pixels[::-1], whole[::-1]
    same(pixels[:rows], whole[:rows])
    assert not pixels[rows:].any()
    assert load_image(data, allow_truncated=True).truncated == ()


def check_damage(fmt: str, data: bytes) -> None:
    """Bytes overwritten in the midst: pixels of that size, or an error of ours."""
    errors = 0
    for at in range(12, len(data) - 8, 1 + len(data) // 150):
        bad = data[:at] + b"\xff\x00\xff\x00\x80\x01" + data[at + 6 :]
        try:
            assert load_image(bad, width=8, height=8).shape == (8, 8, 3)
        except HeadraceError:
            errors += 1
    assert errors > 0


def check_limits(fmt: str, data: bytes) -> None:
    """Exactly as large as the limit passes, one more is refused."""
    count = WIDTH * HEIGHT
    held = {"GIF": 8, "AVIF": 7}.get(fmt, 3)  # bytes for each pixel, see docs
    for name, edge in [
        ("pixels", count),
        ("side", WIDTH),
        ("encoded_bytes", len(data)),
        ("decoded_bytes", count * held),
    ]:
        load_image(data, limits=ImageLimits(**{name: edge}))
        with pytest.raises(LimitError, match=str(edge - 1)):
            load_image(data, limits=ImageLimits(**{name: edge - 1}))


def check_bomb(fmt: str, data: bytes) -> None:
    """A header that claims more than the default, or more than a thousandfold."""
    if fmt == "WebP":
        data = encode(waves(WIDTH, HEIGHT), fmt, lossless=True)
    with pytest.raises(LimitError, match="the limit is 178956970 pixels"):
        load_image(claim(data, fmt, 16_384, 16_384))
    with pytest.raises(LimitError, match="the limit is 1000:1"):
        load_image(claim(data, fmt, 9_000, 9_000))
