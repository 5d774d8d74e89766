"""encode_image and save_image, from whatever holds pixels, read back by Pillow."""

import io
import pathlib
from functools import partial

import numpy as np
import pytest
from image_kit import encode, pillow, waves
from PIL import Image

from headrace.errors import LimitError
from headrace.io import (
    crop,
    encode_image,
    horizontal_flip,
    load_image,
    normalize,
    resize,
    save_image,
    transform,
)
from headrace.pipeline import PipelineBuilder

RGB = waves(53, 37)
RGBA = np.dstack([RGB, np.random.default_rng(3).integers(0, 256, (37, 53), np.uint8)])
LOSSLESS = {"png": {}, "webp": {"lossless": True}}


class Tensor:
    """Shows itself by numpy() alone, as torch.Tensor does."""

    def __init__(self, array):
        self.array = array

    def numpy(self):
        return self.array


def strided(pixels):
    """The same pixels, every second row and column of a larger picture."""
    height, width, channels = pixels.shape
    large = np.full((2 * height, 2 * width, channels), 7, pixels.dtype)
    large[::2, ::2] = pixels
    return large[::2, ::2]


def read_only(pixels):
    pixels = pixels.copy()
    pixels.flags.writeable = False
    return pixels


HOLDERS = {
    "ndarray": np.ascontiguousarray,
    "read-only": read_only,
    "bytes": lambda p: memoryview(p.tobytes()).cast("B", p.shape),
    "memoryview": lambda p: memoryview(np.ascontiguousarray(p)),
    "strided memoryview": lambda p: memoryview(strided(p)),
    "strided": strided,
    "a crop": lambda p: np.pad(p, ((2, 3), (4, 5), (0, 0)))[2:-3, 4:-5],
    "backwards": lambda p: np.ascontiguousarray(p[::-1])[::-1],
    "reversed channels": lambda p: np.ascontiguousarray(p[..., ::-1])[..., ::-1],
    "Fortran's order": np.asfortranarray,
    "channels first": lambda p: np.ascontiguousarray(p.transpose(2, 0, 1)).transpose(
        1, 2, 0
    ),
    "tensor": Tensor,
    "strided tensor": lambda p: Tensor(strided(p)),
    "picture": Image.fromarray,
    "buffer": lambda p: load_image(
        encode(p, "PNG"), pix_fmt={3: "rgb24", 4: "rgba"}[p.shape[2]]
    ),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("fmt", ["jpeg", "png", "webp"])
def test_a_round_trip_from_any_buffer(fmt, holder):
    data = bytes(
        encode_image(HOLDERS[holder](RGB), format=fmt, **LOSSLESS.get(fmt, {}))
    )
    if fmt == "jpeg":
        assert data == encode(RGB, "JPEG", quality=75)
    else:
        np.testing.assert_array_equal(pillow(data), RGB)
    np.testing.assert_array_equal(load_image(data), pillow(data))


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("fmt", ["png", "webp"])
def test_a_round_trip_with_alpha(fmt, holder):
    data = bytes(encode_image(HOLDERS[holder](RGBA), format=fmt, **LOSSLESS[fmt]))
    np.testing.assert_array_equal(pillow(data, "RGBA"), RGBA)
    np.testing.assert_array_equal(load_image(data, pix_fmt="rgba"), RGBA)


@pytest.mark.parametrize("fmt", ["jpeg", "png", "webp"])
@pytest.mark.parametrize("shape", [(37, 53), (37, 53, 1)])
def test_grey(shape, fmt):
    grey = RGB[:, :, 0].reshape(shape)
    data = bytes(encode_image(grey, format=fmt, **LOSSLESS.get(fmt, {})))
    if fmt == "jpeg":
        assert data == encode(RGB[:, :, 0], "JPEG", quality=75)
    else:
        np.testing.assert_array_equal(pillow(data, "L")[:, :, 0], RGB[:, :, 0])
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode == ("RGB" if fmt == "webp" else "L")


def test_grey_with_alpha_and_sixteen_bits_as_png():
    pair = np.ascontiguousarray(RGBA[:, :, 2:])
    data = bytes(encode_image(pair, format="png"))
    np.testing.assert_array_equal(pillow(data, "LA"), pair)
    rng = np.random.default_rng(8)
    grey = rng.integers(0, 65536, (37, 53, 1), np.uint16)
    with Image.open(io.BytesIO(bytes(encode_image(grey, format="png")))) as image:
        np.testing.assert_array_equal(np.asarray(image), grey[:, :, 0])
    colour = rng.integers(0, 65536, (37, 53, 3), np.uint16)
    for pixels in (colour, strided(colour)):
        data = bytes(encode_image(pixels, format="png"))
        np.testing.assert_array_equal(load_image(data, pix_fmt="rgb48"), colour)
        # Pillow reads the upper 8 bits.
        np.testing.assert_array_equal(pillow(data), (colour >> 8).astype(np.uint8))


@pytest.mark.parametrize(
    ("fmt", "channels"),
    [("jpeg", 3), ("png", 3), ("png", 4), ("webp", 3), ("webp", 4)],
)
def test_blue_first(fmt, channels):
    pixels = RGBA[:, :, :channels]
    order = [2, 1, 0, 3][:channels]
    options = LOSSLESS.get(fmt, {})
    swapped = encode_image(pixels[:, :, order], format=fmt, pix_fmt="bgr24", **options)
    assert bytes(swapped) == bytes(encode_image(pixels, format=fmt, **options))


@pytest.mark.parametrize("quality", [0, 1, 50, 90, 100])
def test_qualities_of_jpeg_are_pillows(quality):
    data = bytes(encode_image(RGB, quality=quality))
    # Pillow reads 0 as its default of 75.
    if quality > 0:
        assert data == encode(RGB, "JPEG", quality=quality)
    else:
        assert len(data) <= len(encode(RGB, "JPEG", quality=1))


def test_qualities_and_levels_make_a_difference():
    sizes = [
        len(bytes(encode_image(RGB, format="webp", quality=q))) for q in (5, 50, 95)
    ]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3
    off = np.abs(
        pillow(bytes(encode_image(RGB, format="webp", quality=95))).astype(int) - RGB
    )
    assert off.mean() < 4
    zlib = [
        len(bytes(encode_image(RGB, format="png", compression=c))) for c in (0, 1, 9)
    ]
    assert zlib[0] > 37 * 53 * 3  # stored
    assert zlib[0] > zlib[1] >= zlib[2]


@pytest.mark.parametrize(
    ("ending", "kind"),
    [(".jpg", "JPEG"), (".JPEG", "JPEG"), (".png", "PNG"), (".webp", "WEBP")],
)
def test_save_image_goes_by_the_ending(ending, kind, tmp_path):
    path = tmp_path / f"grün{ending}"
    path.write_bytes(bytes(100_000))  # is replaced
    options = {"lossless": True} if ending == ".webp" else {}
    for target in (path, str(path)):
        assert save_image(target, strided(RGB), **options) is None
        with Image.open(path) as image:
            assert image.format == kind
        fmt = "jpeg" if kind == "JPEG" else ending[1:]
        assert path.read_bytes() == bytes(encode_image(RGB, format=fmt, **options))
    save_image(path, RGB, format="png")
    assert load_image(path).shape == RGB.shape
    np.testing.assert_array_equal(load_image(path), RGB)


def test_save_image_that_cannot(tmp_path):
    with pytest.raises(ValueError, match=r"path must end in one of .*, not '.gif'"):
        save_image(tmp_path / "a.gif", RGB)
    with pytest.raises(FileNotFoundError):
        save_image(tmp_path / "none" / "a.png", RGB)
    with pytest.raises(TypeError, match="expected uint8 pixels, got float32"):
        save_image(tmp_path / "a.jpg", RGB.astype(np.float32))
    assert not pathlib.Path(tmp_path, "a.jpg").exists()


@pytest.mark.parametrize(
    ("image", "options", "error", "message"),
    [
        (RGBA, {}, ValueError, "JPEG has no alpha, expected 1 or 3 channels, got 4"),
        (RGBA[:, :, :2], {}, ValueError, "expected 1, 3 or 4 channels, got 2"),
        (RGB[None], {}, ValueError, "pixels, of 2 or 3 dimensions, got 4"),
        (RGB[:0], {}, ValueError, "the picture has no pixels"),
        (RGB.astype(np.uint16), {}, TypeError, "expected uint8 pixels, got uint16"),
        (
            RGB.astype(np.float32),
            {"format": "png"},
            TypeError,
            "expected uint8 pixels or uint16, got float32",
        ),
        (RGB, {"quality": 101}, ValueError, "quality must be at most 100, not 101"),
        (RGB, {"format": "gif"}, ValueError, "format must be 'jpeg', 'png' or 'webp'"),
        (
            np.zeros((1, 65_501), np.uint8),
            {},
            LimitError,
            "sides of this format are limited to 65500",
        ),
        (
            np.zeros((16_384, 1), np.uint8),
            {"format": "webp"},
            LimitError,
            "sides of this format are limited to 16383",
        ),
    ],
)
def test_what_cannot_be_encoded(image, options, error, message):
    with pytest.raises(error, match=message):
        encode_image(image, **options)


def test_the_longest_sides():
    for image, options in [
        (np.zeros((1, 65_500), np.uint8), {}),
        (np.zeros((16_383, 1), np.uint8), {"format": "webp", "lossless": True}),
        (np.zeros((1, 70_000), np.uint8), {"format": "png"}),
    ]:
        data = bytes(encode_image(image, **options))
        with Image.open(io.BytesIO(data)) as back:
            assert back.size == image.shape[::-1]


def test_a_pipeline_encodes_what_the_function_encodes():
    pictures = [strided(waves(30 + i, 20, i)) for i in range(6)]
    pipeline = (
        PipelineBuilder()
        .add_source(pictures)
        .pipe(partial(encode_image, format="png"), concurrency=2, output_order="input")
        .add_sink(2)
        .build(num_threads=2)
    )
    with pipeline.auto_stop():
        got = [bytes(data) for data in pipeline]
    for data, pixels in zip(got, pictures, strict=True):
        np.testing.assert_array_equal(pillow(data), pixels)


# ---- strided arrays, elsewhere ----


@pytest.mark.parametrize("holder", [h for h in HOLDERS if h != "picture"])
def test_functions_on_arrays_take_any_buffer(holder):
    image = HOLDERS[holder](RGB)
    np.testing.assert_array_equal(crop(image, 3, 4, 20, 30), RGB[3:23, 4:34])
    np.testing.assert_array_equal(horizontal_flip(image), RGB[:, ::-1])
    small = Image.fromarray(RGB).resize((20, 30), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(resize(image, width=20, height=30), small)
    np.testing.assert_array_equal(transform(image, width=20, height=30), small)
    values = np.asarray(normalize(image, 0.5, 0.25))
    assert abs(values - (RGB / 255 - 0.5) / 0.25).max() < 1e-6


def test_a_strided_array_is_copied_before_the_call_returns():
    large = strided(RGB)
    want = np.array(resize(large, width=20, height=30))
    pipeline = (
        PipelineBuilder()
        .add_source([large])
        .pipe(partial(resize, width=20, height=30))
        .add_sink(1)
        .build(num_threads=1)
    )
    with pipeline.auto_stop():
        (got,) = [np.array(item) for item in pipeline]
    np.testing.assert_array_equal(got, want)


def test_what_is_written_into_must_not_be_strided():
    out = np.zeros((40, 40, 3), np.uint8)[::2]
    with pytest.raises(TypeError, match="expected a C-contiguous buffer"):
        transform(RGB, width=40, height=20, out=out)
    with pytest.raises(TypeError, match="expected a C-contiguous buffer"):
        load_image(encode(RGB, "PNG"), width=40, height=20, out=Tensor(out))
    assert not out.any()
