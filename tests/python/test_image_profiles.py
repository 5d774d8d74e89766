"""CMYK by its own colour profile, against Pillow's ImageCms and known inks."""

import io
import struct

import numpy as np
import pytest
from image_kit import encode, ink_profile, pillow, waves
from PIL import Image, ImageCms

from headrace.errors import FormatError, LimitError
from headrace.io import (
    ImageLimits,
    image_info,
    load_image,
    load_image_batch,
    load_image_frames,
)

PROFILE = ink_profile()
INKS = np.random.default_rng(9).integers(0, 256, (37, 53, 4), np.uint8)
SMOOTH = np.dstack([waves(53, 37), waves(53, 37, 3)[:, :, 0]])


def picture(fmt, inks, profile=PROFILE, **options):
    """A CMYK file; JPEG quantises little, and keeps all samples."""
    options = {"JPEG": {"quality": 100, "subsampling": 0}}.get(fmt, {}) | options
    image = Image.frombytes("CMYK", inks.shape[1::-1], inks.tobytes())
    return encode(image, fmt, icc_profile=profile, **options)


def by_pillow(data):
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode == "CMYK"
        converted = ImageCms.profileToProfile(
            image,
            ImageCms.ImageCmsProfile(io.BytesIO(image.info["icc_profile"])),
            ImageCms.createProfile("sRGB"),
            renderingIntent=ImageCms.Intent.PERCEPTUAL,
            outputMode="RGB",
        )
    return np.asarray(converted)


def near(got, want):
    """Two builds of Little CMS round differently."""
    assert np.abs(np.asarray(got).astype(int) - want).max() <= 1


@pytest.mark.parametrize("inks", [INKS, SMOOTH], ids=["noise", "smooth"])
@pytest.mark.parametrize("fmt", ["JPEG", "TIFF"])
def test_cmyk_goes_through_its_profile(fmt, inks):
    data = picture(fmt, inks)
    got = load_image(data, icc="srgb")
    near(got, by_pillow(data))
    plain = np.asarray(load_image(data))
    np.testing.assert_array_equal(plain, pillow(data))  # not unless asked for
    assert np.abs(plain.astype(int) - np.asarray(got)).max() > 40
    info = image_info(data)
    assert (info.channels, info.has_icc) == (4, True)


@pytest.mark.parametrize("fmt", ["JPEG", "TIFF"])
def test_known_inks(fmt):
    """Paper is white and full black is black, however the numbers are stored."""
    inks = np.zeros((16, 32, 4), np.uint8)
    inks[:, 16:, 3] = 255
    got = np.asarray(load_image(picture(fmt, inks), icc="srgb"))
    assert (got[:, :16] >= 254).all()
    assert (got[:, 16:] <= 1).all()
    cyan = np.zeros((16, 16, 4), np.uint8)
    cyan[:, :, 0] = 255
    red, green, blue = np.asarray(load_image(picture(fmt, cyan), icc="srgb"))[8, 8]
    # L, a, b of 70, -35, -45 is a light blue that sRGB has no red for.
    assert red < 30 < 150 < green < blue


@pytest.mark.parametrize("fmt", ["JPEG", "TIFF"])
@pytest.mark.parametrize(
    "pix_fmt", ["rgb24", "bgr24", "gray", "rgba", "gray16", "rgb48"]
)
def test_every_pix_fmt(fmt, pix_fmt):
    data = picture(fmt, SMOOTH)
    rgb = np.asarray(load_image(data, icc="srgb"))
    near(rgb, by_pillow(data))
    got = load_image(data, icc="srgb", pix_fmt=pix_fmt)
    want = load_image(encode(rgb, "PNG"), pix_fmt=pix_fmt)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("fmt", ["JPEG", "TIFF"])
@pytest.mark.parametrize(
    "options",
    [
        {"width": 20, "height": 31, "scale_mode": None},
        {"crop": (11, 13, 17, 19)},
        {"crop": (11, 13, 17, 19), "width": 9, "height": 8, "flip": True},
        {"width": 60, "height": 60, "layout": "CHW", "dtype": "float32"},
    ],
)
def test_the_profile_comes_first(fmt, options):
    """Then crop, resize and the rest, as of an RGB picture."""
    data = picture(fmt, SMOOTH)
    rgb = np.asarray(load_image(data, icc="srgb"))
    got = load_image(data, icc="srgb", **options)
    np.testing.assert_array_equal(got, load_image(encode(rgb, "PNG"), **options))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turned(orientation):
    exif = Image.Exif()
    exif[274] = orientation
    data = picture("JPEG", SMOOTH, exif=exif)
    stored = np.asarray(load_image(data, icc="srgb", orientation="ignore"))
    near(stored, by_pillow(data))
    want = load_image(encode(stored, "PNG", exif=exif))
    np.testing.assert_array_equal(load_image(data, icc="srgb"), want)


def test_a_profile_in_several_segments():
    """64 KiB and more do not fit one; the padding is no tag's."""
    large = PROFILE + bytes(150_000)
    large = struct.pack(">I", len(large)) + large[4:]
    data = picture("JPEG", SMOOTH, large)
    assert data.count(b"ICC_PROFILE\0") == 3
    near(load_image(data, icc="srgb"), by_pillow(picture("JPEG", SMOOTH)))


def test_profiles_alternate():
    """A worker keeps the last profile: for ink, for RGBA, for ink again."""
    other = ink_profile()
    rgba = encode(np.dstack([waves(53, 37), waves(53, 37)[:, :, 0]]), "PNG")
    sources = [picture("JPEG", SMOOTH), rgba, picture("TIFF", INKS, other)] * 2
    batch = load_image_batch(sources, width=53, height=37, icc="srgb")
    for slot, data in zip(np.asarray(batch), sources, strict=True):
        np.testing.assert_array_equal(slot, load_image(data, icc="srgb"))


def test_frames():
    out = io.BytesIO()
    pages = [
        Image.frombytes("CMYK", (53, 37), inks.tobytes()) for inks in (INKS, SMOOTH)
    ]
    pages[0].save(
        out, "TIFF", save_all=True, append_images=pages[1:], icc_profile=PROFILE
    )
    got = np.asarray(load_image_frames(out.getvalue(), icc="srgb"))
    near(got[0], by_pillow(picture("TIFF", INKS)))
    near(got[1], by_pillow(picture("TIFF", SMOOTH)))


@pytest.mark.parametrize("fmt", ["JPEG", "TIFF"])
def test_cut_off(fmt):
    inks = np.tile(INKS, (4, 4, 1))
    data = picture(fmt, inks, **({"compression": "raw"} if fmt == "TIFF" else {}))
    part = data[: len(data) * 2 // 3]
    with pytest.raises(FormatError, match=r"after \d+ of 148 rows"):
        load_image(part, icc="srgb")
    kept = load_image(part, icc="srgb", allow_truncated=True)
    rows = int(kept.truncated[0].reason.split("after ")[1].split()[0])
    assert 20 < rows < 140
    near(np.asarray(kept)[:rows], by_pillow(data)[:rows])
    assert not np.asarray(kept)[rows:].any()


def test_rows_of_ink_count_as_decoded_bytes():
    data = picture("JPEG", SMOOTH)
    edge = 53 * 37 * 4
    load_image(data, icc="srgb", limits=ImageLimits(decoded_bytes=edge))
    with pytest.raises(
        LimitError, match=f"takes {edge} bytes, the limit is {edge - 1}"
    ):
        load_image(data, icc="srgb", limits=ImageLimits(decoded_bytes=edge - 1))


@pytest.mark.parametrize("fmt", ["JPEG", "TIFF"])
def test_profiles_that_are_of_no_use(fmt):
    with pytest.raises(FormatError, match="the colour profile is damaged"):
        load_image(picture(fmt, SMOOTH, PROFILE.replace(b"acsp", b"abcd")), icc="srgb")
    with pytest.raises(
        FormatError, match="the colour profile makes no colours of CMYK"
    ):
        load_image(picture(fmt, SMOOTH, ink_profile(tag=b"A2Bx")), icc="srgb")
    # One for RGB says nothing of inks.
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    data = picture(fmt, SMOOTH, srgb)
    np.testing.assert_array_equal(load_image(data, icc="srgb"), pillow(data))
    # And an ink profile nothing of RGB.
    rgb = encode(waves(53, 37), fmt, icc_profile=PROFILE)
    np.testing.assert_array_equal(load_image(rgb, icc="srgb"), pillow(rgb))
