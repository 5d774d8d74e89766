"""Lossy WebP and AVIF in planes, beside Pillow and beside the road over RGB."""

import io
import math
from typing import Any

import numpy as np
import pytest
from image_kit import encode, pillow, put, waves
from PIL import Image

from headrace.errors import FormatError
from headrace.io import RandomResizedCrop, load_image

SIZES = [(64, 48), (61, 47), (200, 30)]
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
TO = {"width": 40, "height": 36, "scale_mode": None}

PLANES: dict[str, tuple[str, dict[str, Any]]] = {
    "WebP": ("WEBP", {"quality": 90}),
    "AVIF 4:2:0": ("AVIF", {"quality": 90, "subsampling": "4:2:0"}),
    "AVIF 4:2:2": ("AVIF", {"quality": 90, "subsampling": "4:2:2"}),
    "AVIF 4:4:4": ("AVIF", {"quality": 90, "subsampling": "4:4:4"}),
    "AVIF 4:0:0": ("AVIF", {"quality": 90, "subsampling": "4:0:0"}),
    "AVIF limited": ("AVIF", {"quality": 90, "range": "limited"}),
}
PICTURES = pytest.mark.parametrize("kind", PLANES)


def data_of(kind: str, width: int, height: int) -> bytes:
    fmt, options = PLANES[kind]
    return encode(waves(width, height), fmt, **options)


def load(data: bytes, **options: Any) -> np.ndarray:
    return np.asarray(load_image(data, **(TO | options)))


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    error = (a.astype(float) - b.astype(float)) ** 2
    return 10 * math.log10(255**2 / max(float(error.mean()), 1e-9))


def assert_alike(got: np.ndarray, want: np.ndarray) -> None:
    """As far apart as docs/images.md says that the two roads are."""
    assert got.shape == want.shape
    assert psnr(got, want) > 50
    assert abs(got.astype(int) - want).max() <= 3


@PICTURES
@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("algo", FILTERS)
def test_planes_are_what_pillow_makes(
    kind: str, width: int, height: int, algo: str
) -> None:
    data = data_of(kind, width, height)
    with Image.open(io.BytesIO(data)) as image:
        whole = image.convert("RGB")
    for size in ((40, 36), (150, 120)):
        want = np.asarray(whole.resize(size, FILTERS[algo]))
        got = load(data, width=size[0], height=size[1], scale_algo=algo)
        assert_alike(got, want)


@PICTURES
def test_exact_is_the_road_over_rgb(kind: str) -> None:
    data = data_of(kind, 61, 47)
    with Image.open(io.BytesIO(data)) as image:
        small = image.convert("RGB").resize((40, 36), Image.Resampling.BICUBIC)
    # Pillow's plugin and ours use two builds of libavif, which round differently.
    got = load(data, exact=True)
    if kind == "WebP":
        assert np.array_equal(got, np.asarray(small))
    assert_alike(got, np.asarray(small))


@PICTURES
@pytest.mark.parametrize(
    "options",
    [
        {"flip": True},
        {"crop": (7, 9, 31, 33)},
        {"crop": RandomResizedCrop(), "seed": 5},
        {"pix_fmt": "bgr24"},
        {"pix_fmt": "gray"},
        {"layout": "CHW"},
        {"scale_mode": "pad"},
        {"scale_mode": "crop"},
    ],
    ids=str,
)
def test_both_roads_take_all_options(kind: str, options: dict[str, Any]) -> None:
    data = data_of(kind, 61, 47)
    assert_alike(load(data, **options), load(data, exact=True, **options))


@PICTURES
def test_the_road_is_the_short_one(kind: str) -> None:
    """White beside black: only RGB on the way is cut off before it is resized."""
    bars = np.zeros((64, 256, 3), np.uint8)
    bars[:, ::7] = bars[:, 1::7] = 255
    fmt, options = PLANES[kind]
    data = encode(bars, fmt, **(options | {"quality": 10}))
    size = {"width": 100, "height": 40}
    assert not np.array_equal(load(data, **size), load(data, exact=True, **size))


def test_an_orientation_is_applied_to_planes() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encode(waves(61, 47), "WEBP", quality=90, exif=exif.tobytes())
    turned = np.rot90(pillow(data), -1)
    want = Image.fromarray(turned).resize((40, 36), Image.Resampling.BICUBIC)
    assert_alike(load(data), np.asarray(want))


def with_matrix(data: bytes, matrix: int) -> bytes:
    """Change the matrix coefficients that an AVIF's colour box states."""
    at = data.index(b"colrnclx") + 8
    return put(data, at + 4, matrix.to_bytes(2))


# Weights of red and blue in luma, by the number of the matrix (ITU-T H.273).
WEIGHTS = {
    1: (0.2126, 0.0722),
    2: (0.299, 0.114),
    5: (0.299, 0.114),
    6: (0.299, 0.114),
    9: (0.2627, 0.0593),
}


def to_yuv(matrix: int) -> np.ndarray:
    """From red, green, blue to luma and the differences of chroma."""
    kr, kb = WEIGHTS[matrix]
    luma = np.array([kr, 1 - kr - kb, kb])
    cb = (np.array([0, 0, 1]) - luma) / (2 - 2 * kb)
    cr = (np.array([1, 0, 0]) - luma) / (2 - 2 * kr)
    return np.stack([luma, cb, cr])


@pytest.mark.parametrize("matrix", WEIGHTS)
@pytest.mark.parametrize("color_range", ["full", "limited"])
def test_the_matrix_of_an_avif_is_followed(matrix: int, color_range: str) -> None:
    """Coloured by BT.601 and read by another matrix, no colour being cut off.

    libavif's RGB is no measure: its blue is too weak where its factor exceeds 2.
    """
    data = encode(waves(64, 48), "AVIF", quality=90, range=color_range)
    plain = load(with_matrix(data, 6), exact=True).astype(float)
    want = plain @ to_yuv(6).T @ np.linalg.inv(to_yuv(matrix)).T
    got = load(with_matrix(data, matrix))
    assert abs(got - want).max() <= 3
    assert psnr(got, want) > 48
    grey = got @ to_yuv(6)[0]
    gray = load(with_matrix(data, matrix), pix_fmt="gray")[:, :, 0]
    assert abs(gray - grey).max() <= 3


def rgba() -> np.ndarray:
    return np.dstack([waves(64, 48), waves(64, 48, 1)[:, :, 0]])


def over_rgb(kind: str) -> bytes:
    if kind == "AVIF with alpha":
        return encode(rgba(), "AVIF", quality=90)
    if kind == "AVIF, YCgCo":
        data = encode(waves(64, 48), "AVIF", quality=90, subsampling="4:4:4")
        return with_matrix(data, 8)
    if kind == "lossless WebP":
        return encode(waves(64, 48), "WEBP", lossless=True)
    more = [Image.fromarray(waves(64, 48, 1))]
    return encode(waves(64, 48), "WEBP", save_all=True, append_images=more)


@pytest.mark.parametrize(
    "kind", ["AVIF with alpha", "AVIF, YCgCo", "lossless WebP", "animated WebP"]
)
def test_what_has_no_such_planes_goes_over_rgb(kind: str) -> None:
    data = over_rgb(kind)
    assert np.array_equal(load(data), load(data, exact=True))


def test_alpha_goes_over_rgb_where_it_shows() -> None:
    data = encode(rgba(), "WEBP", quality=90)
    assert_alike(load(data), load(data, exact=True))
    for options in ({"background": (9, 8, 7)}, {"pix_fmt": "rgba"}):
        assert np.array_equal(load(data, **options), load(data, exact=True, **options))


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_a_webp_that_ends_early_tells_its_rows(part: float) -> None:
    data = data_of("WebP", 200, 200)
    data = data[: int(len(data) * part)]
    told = []
    for exact in (False, True):
        with pytest.raises(FormatError, match="ends after [0-9]+ of 200 rows") as error:
            load(data, exact=exact)
        told.append(str(error.value))
    assert told[0] == told[1]
