"""The resize, and the pictures that are resized, against Pillow, byte for byte."""

import io
import random

import numpy as np
import pytest
from PIL import Image

import headrace.io

FILTERS = {
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


def pillow_resize(pixels: np.ndarray, width: int, height: int, algo: str) -> np.ndarray:
    """Each channel alone: Pillow would multiply alpha into the others."""
    channels = [
        np.asarray(Image.fromarray(channel).resize((width, height), FILTERS[algo]))
        for channel in np.moveaxis(pixels, 2, 0)
    ]
    return np.stack(channels, axis=2)


def random_side(rng: random.Random) -> int:
    return rng.randint(1, rng.choice([3, 20, 100, 600]))


def random_pixels(rng: random.Random, *shape: int) -> np.ndarray:
    pixels = np.frombuffer(rng.randbytes(int(np.prod(shape))), np.uint8)
    if rng.random() < 0.3:  # only extremes: every overshoot is clamped
        pixels = np.where(pixels > 127, 255, 0).astype(np.uint8)
    return pixels.reshape(shape)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("algo", FILTERS)
def test_random_sizes_equal_pillow(algo: str, seed: int) -> None:
    rng = random.Random(f"{algo} {seed}")
    for _ in range(12):
        pixels = random_pixels(
            rng, random_side(rng), random_side(rng), rng.choice([1, 3, 4])
        )
        width, height = random_side(rng), random_side(rng)
        ours = headrace.io.resize(pixels, width=width, height=height, scale_algo=algo)
        theirs = pillow_resize(pixels, width, height, algo)
        assert np.array_equal(np.asarray(ours), theirs), (pixels.shape, width, height)


@pytest.mark.parametrize("algo", FILTERS)
@pytest.mark.parametrize(
    ("size", "to"),
    [
        ((1, 1), (1, 1)),
        ((1, 1), (50, 3)),
        ((3000, 2), (1, 1)),
        ((2, 3000), (7, 2)),
        ((640, 400), (224, 224)),
        ((100, 300), (100, 40)),
        ((300, 100), (40, 100)),
        ((60, 60), (50, 39)),  # 21 rows lost, 10 columns: the vertical pass first
        ((60, 60), (50, 40)),  # 20 rows lost: not more than twice
    ],
)
def test_chosen_sizes_equal_pillow(
    algo: str, size: tuple[int, int], to: tuple[int, int]
) -> None:
    rng = random.Random(1)
    pixels = random_pixels(rng, size[1], size[0], 3)
    ours = headrace.io.resize(pixels, width=to[0], height=to[1], scale_algo=algo)
    assert np.array_equal(np.asarray(ours), pillow_resize(pixels, *to, algo))


def encoded(pixels: np.ndarray, mode: str = "RGB", **options: object) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(out, **options)
    return out.getvalue()


def smooth(width: int, height: int) -> np.ndarray:
    y, x = np.mgrid[0:height, 0:width]
    planes = [np.sin(x / 9) + np.cos(y / 7), np.sin((x + y) / 15), np.cos(x / 21)]
    return np.stack([(plane * 60 + 128) for plane in planes], axis=2).astype(np.uint8)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(encoded(smooth(161, 121), format="JPEG"), id="4:2:0"),
        pytest.param(
            encoded(smooth(161, 121), format="JPEG", subsampling=0), id="4:4:4"
        ),
        pytest.param(
            encoded(smooth(161, 121), format="JPEG", subsampling=1), id="4:2:2"
        ),
        pytest.param(
            encoded(smooth(161, 121), format="JPEG", progressive=True), id="progressive"
        ),
        pytest.param(encoded(smooth(161, 121), "L", format="JPEG"), id="grey"),
        pytest.param(encoded(smooth(161, 121), "CMYK", format="JPEG"), id="CMYK"),
        pytest.param(encoded(smooth(161, 121), format="PNG"), id="PNG"),
        pytest.param(encoded(smooth(161, 121), "P", format="PNG"), id="PNG palette"),
        pytest.param(encoded(smooth(161, 121), "1", format="PNG"), id="PNG 1 bit"),
        pytest.param(encoded(smooth(161, 121), "LA", format="PNG"), id="PNG alpha"),
    ],
)
def test_decoded_pixels_equal_pillow(data: bytes) -> None:
    theirs = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
    ours = np.asarray(headrace.io.load_image(data)).astype(int)
    # Pillow brings a libjpeg-turbo of its own version; its decoders agree.
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("algo", FILTERS)
@pytest.mark.parametrize("size", [(161, 121), (121, 161), (37, 900)])
def test_crop_and_pad_are_pillow_resizes(size: tuple[int, int], algo: str) -> None:
    data = encoded(smooth(*size), format="PNG")
    picture = Image.open(io.BytesIO(data))
    width, height = size
    # Crop to 64 x 50: scaled to cover, cut in the middle.
    if 64 * height >= 50 * width:
        scaled = (64, (2 * height * 64 + width) // (2 * width))
    else:
        scaled = ((2 * width * 50 + height) // (2 * height), 50)
    left, top = (scaled[0] - 64) // 2, (scaled[1] - 50) // 2
    covering = np.asarray(picture.resize(scaled, FILTERS[algo]))
    cropped = headrace.io.load_image(
        data, width=64, height=50, scale_mode="crop", scale_algo=algo
    )
    assert np.array_equal(
        np.asarray(cropped), covering[top : top + 50, left : left + 64]
    )
    # Pad to 64 x 50: scaled to fit, on black.
    if 64 * height <= 50 * width:
        scaled = (64, max(1, (2 * height * 64 + width) // (2 * width)))
    else:
        scaled = (max(1, (2 * width * 50 + height) // (2 * height)), 50)
    left, top = (64 - scaled[0]) // 2, (50 - scaled[1]) // 2
    expected = np.zeros((50, 64, 3), np.uint8)
    expected[top : top + scaled[1], left : left + scaled[0]] = picture.resize(
        scaled, FILTERS[algo]
    )
    padded = headrace.io.load_image(data, width=64, height=50, scale_algo=algo)
    assert np.array_equal(np.asarray(padded), expected)
