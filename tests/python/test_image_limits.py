"""Each limit of ImageLimits at its edge, for each format: one more is refused.

What decoding needs is worked out here from sizes, and never read from the library.
"""

import contextlib
import pathlib

import numpy as np
import pytest
from image_kit import FORMATS, Files, claim, encode, frames, marker, waves

from headrace import _ext
from headrace.errors import FormatError, LimitError
from headrace.io import (
    ImageLimits,
    image_info,
    load_image,
    load_image_batch,
    load_image_frames,
    resize,
)

WIDTH, HEIGHT = 53, 37
COUNT = WIDTH * HEIGHT
MIB = 1 << 20

PICTURES = Files(
    lambda fmt: encode(
        waves(WIDTH, HEIGHT), fmt, **({"lossless": True} if fmt == "WebP" else {})
    )
)


def load_batch(data, **arguments):
    return load_image_batch([data], width=8, height=8, **arguments)


LOADERS = [load_image, load_image_frames, load_batch]


def refused(loader, data, message, **limits):
    with pytest.raises(LimitError, match=message) as caught:
        loader(data, limits=ImageLimits(**limits))
    assert "'<bytes>'" in str(caught.value)  # it names the picture


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("fmt", FORMATS)
def test_pixels(fmt, loader):
    data = PICTURES[fmt]
    loader(data, limits=ImageLimits(pixels=COUNT))
    message = f"image: {fmt} of 53 x 37 pixels, the limit is {COUNT - 1} pixels"
    refused(loader, data, message, pixels=COUNT - 1)


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("fmt", FORMATS)
def test_side(fmt, loader):
    for width, height in ((WIDTH, HEIGHT), (HEIGHT, WIDTH)):
        data = encode(waves(width, height), fmt)
        loader(data, limits=ImageLimits(side=WIDTH))
        message = f"image: {fmt} of {width} x {height} pixels, sides are limited to 52"
        refused(loader, data, message, side=WIDTH - 1)


@pytest.mark.parametrize("loader", [*LOADERS, image_info])
@pytest.mark.parametrize("fmt", FORMATS)
def test_encoded_bytes(fmt, loader, tmp_path):
    data = PICTURES[fmt]
    size = len(data)
    loader(data, limits=ImageLimits(encoded_bytes=size))
    message = f"image: {size} encoded bytes, the limit is {size - 1}"
    refused(loader, data, message, encoded_bytes=size - 1)
    path = tmp_path / "picture"
    path.write_bytes(data)
    loader(path, limits=ImageLimits(encoded_bytes=size))
    message = f"file: '.*picture' has {size} bytes, the limit is {size - 1}"
    with pytest.raises(LimitError, match=message):
        loader(path, limits=ImageLimits(encoded_bytes=size - 1))


# What decoding holds at most of: the rows that it gives, 3 bytes a pixel, or what it
# keeps besides: two canvases of RGBA (GIF), four planes and RGB (AVIF).
HELD = {"GIF": 8, "AVIF": 7}


@pytest.mark.parametrize("fmt", FORMATS)
def test_decoded_bytes(fmt):
    data = PICTURES[fmt]
    need = COUNT * HELD.get(fmt, 3)
    load_image(data, limits=ImageLimits(decoded_bytes=need))
    message = f"{need} bytes.*the limit is {need - 1} decoded bytes"
    refused(load_image, data, message, decoded_bytes=need - 1)
    refused(load_batch, data, message, decoded_bytes=need - 1)


def test_decoded_bytes_of_a_progressive_jpeg():
    """Its coefficients are kept: 2 bytes each, of blocks of 64, chroma halved."""
    data = encode(waves(WIDTH, HEIGHT), "JPEG", progressive=True, subsampling=2)
    blocks = 7 * 5 + 2 * (4 * 3)  # 53 x 37 and twice 27 x 19, in blocks of 8 x 8
    load_image(data, limits=ImageLimits(decoded_bytes=blocks * 128))
    message = f"JPEG needs {blocks * 128} bytes while it is decoded, the limit is"
    refused(load_image, data, message, decoded_bytes=blocks * 128 - 1)


def test_decoded_bytes_of_a_palette_with_runs():
    """A run-length BMP is unpacked as a whole, a byte for each pixel: less than RGB."""
    pixels = bytes([53, 7, 0, 0]) * HEIGHT + b"\0\1"
    colours = bytes(4 * 256)
    head = b"BM" + (14 + 40 + len(colours) + len(pixels)).to_bytes(4, "little")
    head += bytes(4) + (14 + 40 + len(colours)).to_bytes(4, "little")
    head += (40).to_bytes(4, "little") + WIDTH.to_bytes(4, "little")
    head += HEIGHT.to_bytes(4, "little") + b"\1\0\x08\0" + (1).to_bytes(4, "little")
    head += len(pixels).to_bytes(4, "little") + bytes(16)
    data = head + colours + pixels
    load_image(data, limits=ImageLimits(decoded_bytes=COUNT * 3))
    refused(load_image, data, f"takes {COUNT * 3} bytes", decoded_bytes=COUNT * 3 - 1)


@pytest.mark.parametrize(
    ("arguments", "pixel"),
    [
        ({}, 3),
        ({"pix_fmt": "gray"}, 1),
        ({"pix_fmt": "rgba"}, 4),
        ({"pix_fmt": "rgb48"}, 6),
        ({"dtype": "float32"}, 12),
        ({"dtype": "bfloat16", "layout": "CHW"}, 6),
    ],
)
@pytest.mark.parametrize("batch", [False, True])
def test_decoded_bytes_of_the_target(arguments, pixel, batch):
    data = encode(waves(2, 2), "PNG")
    size = {"width": 60, "height": 50, "scale_mode": None, **arguments}
    edge = 60 * 50 * pixel

    def load(decoded_bytes):
        limits = ImageLimits(decoded_bytes=decoded_bytes)
        if batch:
            return load_image_batch([data] * 3, **size, limits=limits)
        return load_image(data, **size, limits=limits)

    assert load(edge).nbytes == (edge * 3 if batch else edge)
    message = (
        f"target of 60 x 50 pixels takes {edge} bytes, "
        f"the limit is {edge - 1} decoded bytes"
    )
    with pytest.raises(LimitError, match=message):
        load(edge - 1)


def test_decoded_bytes_of_all_frames():
    data = frames("PNG", [waves(9, 7, i) for i in range(3)])
    # Frames behind the first are composed: three canvases of RGBA.
    edge = max(3 * 9 * 7 * 3, 9 * 7 * 12)
    load_image_frames(data, limits=ImageLimits(decoded_bytes=edge))
    with pytest.raises(LimitError, match=f"the limit is {edge - 1} decoded bytes"):
        load_image_frames(data, limits=ImageLimits(decoded_bytes=edge - 1))


def test_decoded_bytes_of_resize():
    image = np.zeros((1, 1, 4), np.uint8)
    with pytest.raises(LimitError, match="the limit is 1073741824 bytes"):
        resize(image, width=16_385, height=16_384)  # 16,384 squared are 1 GiB


# ---- expansion ----


def raw_bytes(fmt, width, height):
    """Of the stored samples: an index (GIF), or three; BMP pads rows to 4."""
    return {"GIF": width, "BMP": (width * 3 + 3) // 4 * 4}.get(fmt, width * 3) * height


def passes(data, **limits):
    """What the limits allow decodes (GIF, AVIF), or fails for what it lacks."""
    with contextlib.suppress(FormatError):
        load_image(data, width=8, height=8, limits=ImageLimits(**limits))


@pytest.mark.parametrize("fmt", FORMATS)
def test_expansion(fmt):
    width, height = (8_200, 8_200) if fmt == "GIF" else (4_800, 4_700)
    data = claim(PICTURES[fmt], fmt, width, height)
    raw = raw_bytes(fmt, width, height)
    assert raw > 64 * MIB
    most = -(-raw // len(data))
    message = f"of {len(data)} bytes expands to {raw}, the limit is {most - 1}:1"
    refused(load_image, data, message, expansion=most - 1)
    passes(data, expansion=most)


@pytest.mark.parametrize("fmt", FORMATS)
def test_expansion_is_free_up_to_64_mib(fmt):
    width, height = (8_192, 8_192) if fmt == "GIF" else (4_096, 5_461)
    data = claim(PICTURES[fmt], fmt, width, height)
    assert raw_bytes(fmt, width, height) <= 64 * MIB
    passes(data, expansion=1)


def test_expansion_of_a_thousand_by_default():
    """zlib makes some 1,030 bytes of one: whole pictures around the default."""
    size = {"width": 8, "height": 8}
    free = encode(np.zeros((8_192, 8_192), np.uint8), "PNG")
    assert 1_000 * len(free) < 8_192 * 8_192
    load_image(free, **size)
    more = encode(np.zeros((8_193, 8_192), np.uint8), "PNG")
    with pytest.raises(LimitError, match=r"expands to 67117056, the limit is 1000:1"):
        load_image(more, **size)
    load_image(more, **size, limits=ImageLimits(expansion=1_100))


# ---- scans, frames ----


def scans_of(data):
    return data.count(b"\xff\xda")


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_scans(mode):
    image = encode(waves(64, 48), "PNG")
    pixels = np.asarray(load_image(image, pix_fmt="gray" if mode == "L" else "rgb24"))
    data = encode(pixels.squeeze(), "JPEG", progressive=True)
    scans = scans_of(data)
    assert scans == (6 if mode == "L" else 10)  # libjpeg's jpeg_simple_progression
    for exact in (False, True):
        size = {"width": 20, "height": 20, "exact": exact}
        load_image(data, **size, limits=ImageLimits(scans=scans))
        with pytest.raises(LimitError, match=rf"scans than the limit of {scans - 1} "):
            load_image(data, **size, limits=ImageLimits(scans=scans - 1))


@pytest.mark.parametrize("fmt", ["JPEG", "PNG", "WebP", "GIF", "TIFF", "AVIF"])
def test_frames(fmt):
    count = 2 if fmt == "JPEG" else 4  # of more, Pillow 13 writes wrong offsets
    data = frames(fmt, [waves(16, 16, i) for i in range(count)])
    loaded = load_image_frames(data, limits=ImageLimits(frames=count))
    assert loaded.shape == (count, 16, 16, 3)
    message = f"{fmt} of {count} frames, the limit is {count - 1} frames"
    refused(load_image_frames, data, message, frames=count - 1)
    load_image(
        data, frame=count - 1, limits=ImageLimits(frames=1)
    )  # of all, not of one


# ---- bombs ----

HUGE = {"WebP": (16_384, 16_384), "AVIF": (16_384, 16_384)}  # the most they can say


@pytest.mark.thread_unsafe(reason="counts the memory of the process")
@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("fmt", FORMATS)
def test_a_bomb_is_refused_before_memory_is_spent(fmt, loader):
    width, height = HUGE.get(fmt, (65_000, 65_000))
    data = claim(PICTURES[fmt], fmt, width, height)
    _ext.pool_trim()
    before = _ext.pool_stats()["mapped_total"]
    with pytest.raises(LimitError, match=r"the limit is 178956970 pixels"):
        loader(data)
    assert _ext.pool_stats()["mapped_total"] - before < MIB


def test_an_avif_beyond_what_its_library_takes():
    with pytest.raises(LimitError, match=r"dimensions are too large \[65000x65000\]"):
        load_image(claim(PICTURES["AVIF"], "AVIF", 65_000, 65_000))


@pytest.mark.parametrize("fmt", ["PNG", "BMP", "TIFF"])
def test_the_default_side(fmt):
    data = claim(PICTURES[fmt], fmt, 65_536, 1)
    with pytest.raises(
        LimitError, match="65536 x 1 pixels, sides are limited to 65535"
    ):
        load_image(data)
    passes(claim(PICTURES[fmt], fmt, 65_535, 1))


def test_the_default_of_encoded_bytes(tmp_path):
    """256 MiB; the file is sparse, and is not read."""
    path = pathlib.Path(tmp_path, "large")
    with path.open("wb") as file:
        file.truncate((256 << 20) + 1)
    message = "has 268435457 bytes, the limit is 268435456"
    with pytest.raises(LimitError, match=message):
        load_image(path)
    with pytest.raises(LimitError, match=message):
        image_info(path)


def test_a_frame_header_may_not_lie_behind_a_small_one():
    """The second picture of a file is judged by its own header."""
    data = frames("JPEG", [waves(16, 16), waves(16, 16, 1)])
    second = data.index(b"\xff\xd8", 4)
    at = second + marker(data[second:], 0xC0)
    bomb = data[: at + 5] + b"\xff\x00\xff\x00" + data[at + 9 :]
    np.testing.assert_array_equal(load_image(bomb), load_image(data))
    with pytest.raises(LimitError, match="JPEG of 65280 x 65280 pixels"):
        load_image(bomb, frame=1)


# ---- in a pipeline, and a limit for each call ----


def test_limits_of_one_slot_leave_the_others_alone():
    small, large = encode(waves(20, 20), "PNG"), encode(waves(30, 30), "PNG")
    limits = ImageLimits(pixels=400)
    batch = load_image_batch(
        [small, large, small], width=20, height=20, limits=limits, strict=False
    )
    assert [failure.index for failure in batch.failures] == [1]
    assert "30 x 30 pixels, the limit is 400 pixels" in batch.failures[0].reason
    assert "slot 1" in batch.failures[0].reason
    pixels = np.asarray(batch)
    np.testing.assert_array_equal(pixels[0], waves(20, 20))
    np.testing.assert_array_equal(pixels[2], waves(20, 20))
    assert not pixels[1].any()
