"""JPEGs as the web and cameras make them, with Pillow's pixels or a clear refusal.

Pillow writes few samplings. A scan is a row of blocks, whose order the sampling alone
gives: the same blocks under another frame header are another picture, just as valid.
"""

import io
import struct

import numpy as np
import pytest
from image_kit import encode, marker, pillow, put, waves
from PIL import Image

from headrace.errors import FormatError, UnsupportedError
from headrace.io import image_info, load_image, load_image_batch

# How Pillow is to write it, and the sampling then claimed for luma: in pixels it has
# as many MCUs, `across` and `down`.
SAMPLINGS = {
    "4:4:4": (0, 0x11),
    "4:2:2": (1, 0x21),
    "4:2:0": (2, 0x22),
    "4:4:0": (1, 0x12),
    "4:1:1": (2, 0x41),
    "1 x 4": (2, 0x14),
}
MCU = {0: (8, 8), 1: (16, 8), 2: (16, 16)}


def resampled(sampling, *, cut=(0, 0), **options):
    """6 x 4 MCUs of that sampling, without the last `cut` columns and rows."""
    subsampling, claimed = SAMPLINGS[sampling]
    across, down = MCU[subsampling]
    data = encode(
        waves(6 * across, 4 * down), "JPEG", subsampling=subsampling, **options
    )
    frame = marker(data, 0xC0, 0xC2)
    width = 6 * 8 * (claimed >> 4) - cut[0]
    height = 4 * 8 * (claimed & 15) - cut[1]
    data = put(data, frame + 5, struct.pack(">HH", height, width))
    return put(data, frame + 11, bytes([claimed])), width, height


KINDS = {
    "baseline": {},
    "optimised": {"optimize": True},
    "restarts": {"restart_marker_blocks": 5},
    "a restart each row": {"restart_marker_rows": 1},
    "best quality": {"quality": 100},
    "low quality": {"quality": 3},
}


@pytest.mark.parametrize("cut", [(0, 0), (1, 0), (0, 1), (7, 5)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_samplings(sampling, kind, cut):
    data, width, height = resampled(sampling, cut=cut, **KINDS[kind])
    want = pillow(data)
    assert want.shape == (height, width, 3)
    np.testing.assert_array_equal(load_image(data), want)
    np.testing.assert_array_equal(load_image(data, exact=True), want)
    info = image_info(data)
    assert (info.width, info.height, info.channels) == (width, height, 3)
    # Resized: exactly as Pillow does; by planes, but for rounding and clamping.
    size = {"width": 25, "height": 19, "scale_mode": None}
    small = Image.fromarray(want).resize((25, 19), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(load_image(data, exact=True, **size), small)
    planes = np.asarray(load_image(data, **size)).astype(int)
    assert np.abs(planes - small).mean() < 1.5
    # Cut out, and grey.
    box = (9, 11, height - 20, width - 22)
    part = want[9 : height - 11, 11 : width - 11]
    np.testing.assert_array_equal(load_image(data, crop=box), part)
    grey = pillow_luma(data)
    np.testing.assert_array_equal(load_image(data, pix_fmt="gray"), grey)


def pillow_luma(data):
    """Y as it is stored: Pillow's draft mode gives it."""
    with Image.open(io.BytesIO(data)) as image:
        image.draft("L", image.size)
        return np.asarray(image)[:, :, None]


@pytest.mark.parametrize("sampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("size", [(1, 1), (2, 1), (1, 17), (16, 16), (33, 31)])
def test_progressive_and_small(sampling, size):
    subsampling = SAMPLINGS[sampling][0]
    for progressive in (False, True):
        data = encode(
            waves(*size), "JPEG", subsampling=subsampling, progressive=progressive
        )
        np.testing.assert_array_equal(load_image(data), pillow(data))


@pytest.mark.parametrize("progressive", [False, True])
def test_grey(progressive):
    data = encode(waves(45, 33)[:, :, 0], "JPEG", progressive=progressive)
    np.testing.assert_array_equal(load_image(data), pillow(data))
    np.testing.assert_array_equal(load_image(data, pix_fmt="gray"), pillow(data, "L"))


# ---- four components ----


def segments_without(data, *codes):
    """Without the header's segments of these codes."""
    out, at = data[:2], 2
    while data[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4])
        if data[at + 1] not in codes:
            out += data[at:end]
        at = end
    return out + data[at:]


def four(transform):
    """A JPEG of four components; Adobe's marker says what they are (None: it is not
    there)."""
    inks = np.dstack([waves(48, 40), waves(48, 40, 5)[:, :, 0]])
    data = encode(Image.frombytes("CMYK", (48, 40), inks.tobytes()), "JPEG", quality=95)
    at = marker(data, 0xEE)
    assert data[at + 4 : at + 9] == b"Adobe"
    if transform is None:
        return segments_without(data, 0xEE)
    return put(data, at + 15, bytes([transform]))


@pytest.mark.parametrize("transform", [0, 2, None], ids=["CMYK", "YCCK", "no marker"])
def test_cmyk_and_ycck(transform):
    data = four(transform)
    np.testing.assert_array_equal(load_image(data), pillow(data))
    assert image_info(data).channels == 4
    # By hand, from the inks that Pillow reads: (255 - k) - round(c (255 - k) / 255).
    with Image.open(io.BytesIO(data)) as image:
        inks = np.asarray(image).astype(int)
    white = 255 - inks[:, :, 3:]
    want = white - (inks[:, :, :3] * white * 2 + 255) // 510
    np.testing.assert_array_equal(load_image(data), want)


def test_three_components_that_adobe_says_are_rgb():
    data = encode(waves(48, 40), "JPEG", subsampling=0)
    adobe = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0"
    rgb = segments_without(data, 0xE0)
    for transform in (0, 1):
        some = rgb[:2] + adobe + bytes([transform]) + rgb[2:]
        np.testing.assert_array_equal(load_image(some), pillow(some))
    ycc = rgb[:2] + adobe + b"\1" + rgb[2:]
    np.testing.assert_array_equal(load_image(ycc), load_image(data))
    plain = load_image(rgb[:2] + adobe + b"\0" + rgb[2:])
    assert not np.array_equal(plain, load_image(data))


# ---- what stands around it ----


@pytest.mark.parametrize("tail", [b"\0", b"\xff\xff", b"\xff\xd8\xff", bytes(5_000)])
def test_bytes_behind_the_end(tail):
    data = encode(waves(40, 30), "JPEG")
    np.testing.assert_array_equal(load_image(data + tail), pillow(data))


def test_segments_that_nobody_knows():
    data = encode(waves(40, 30), "JPEG")
    extra = b"\xff\xef\0\x05abc" + b"\xff\xfe\xff\xff" + bytes(65_533)
    fill = b"\xff" * 7  # markers may have any number of these before them
    some = data[:2] + extra + fill + data[2:]
    np.testing.assert_array_equal(load_image(some), pillow(data))


# ---- what is not decoded ----


def test_twelve_bits_are_refused():
    data = encode(waves(40, 30), "JPEG")
    frame = marker(data, 0xC0)
    deep = put(put(data, frame + 1, b"\xc1"), frame + 4, b"\x0c")
    with pytest.raises(UnsupportedError, match=r"JPEG .*'<bytes>'"):
        load_image(deep)
    assert image_info(deep).bit_depth == 12
    batch = load_image_batch([data, deep], width=40, height=30, strict=False)
    assert [failure.index for failure in batch.failures] == [1]


@pytest.mark.parametrize("code", [0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF])
def test_kinds_of_frames_that_are_refused(code):
    """Lossless and hierarchical ones."""
    data = encode(waves(40, 30), "JPEG")
    with pytest.raises(UnsupportedError, match="JPEG"):
        load_image(put(data, marker(data, 0xC0) + 1, bytes([code])))


def test_two_components_are_refused():
    data = encode(waves(40, 30), "JPEG")
    at = marker(data, 0xC0)
    two = (
        data[:at]
        + b"\xff\xc0\0\x0e\x08\0\x1e\0\x28\2\1\x11\0\2\x11\0"
        + data[at + 19 :]
    )
    with pytest.raises((UnsupportedError, FormatError), match="JPEG"):
        load_image(two)
