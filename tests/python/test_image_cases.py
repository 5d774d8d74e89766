"""The pictures of tests/data, each with what must come of it."""

import pathlib

import numpy as np
import pytest
from PIL import Image

from headrace.errors import FormatError
from headrace.io import image_info, load_image, load_image_batch, load_image_frames

DATA = pathlib.Path(__file__).parents[1] / "data"


def pixels(name, **kwargs):
    return np.asarray(load_image(DATA / name, **kwargs))


@pytest.mark.parametrize(
    ("number", "turns"), [(1, 0), (3, 2), (6, -1), (8, 1)], ids="exif_{}".format
)
def test_turned_photographs(number, turns):
    name = f"exif_{number}.jpg"
    stored = pixels(name, orientation="ignore")
    assert stored.shape == (16, 24, 3)
    shown = np.rot90(stored, turns)  # counter-clockwise
    np.testing.assert_array_equal(pixels(name), shown)
    info = image_info(DATA / name)
    assert (info.height, info.width) == shown.shape[:2]
    info = image_info(DATA / name, orientation="ignore")
    assert (info.height, info.width) == (16, 24)


def test_a_cut_photograph_in_a_batch():
    names = ["ok.jpg", "truncated.jpg", "ok.jpg"]
    paths = [DATA / name for name in names]
    size = {"width": 640, "height": 480}
    with pytest.raises(
        FormatError, match=r"after 270 of 480 rows \(slot 1, .*truncated"
    ):
        load_image_batch(paths, **size)
    batch = load_image_batch(paths, **size, allow_truncated=True)
    assert [(f.index, f.name) for f in batch.truncated] == [(1, str(paths[1]))]
    assert "after 270 of 480 rows" in batch.truncated[0].reason
    assert batch.failures == ()
    whole = pixels("ok.jpg")
    np.testing.assert_array_equal(np.asarray(batch)[0], whole)
    np.testing.assert_array_equal(np.asarray(batch)[2], whole)
    # It is another picture than ok.jpg. Pillow, told to go on, reads as many rows.
    cut = np.asarray(batch)[1]
    assert cut[:270].any(axis=(1, 2)).all()
    assert not cut[270:].any()


def test_a_cut_progressive_photograph_is_whole_but_coarse():
    data = (DATA / "progressive.jpg").read_bytes()
    part = data[: len(data) * 3 // 4]
    with pytest.raises(FormatError, match=r"JPEG ends in scan \d+"):
        load_image(part)
    coarse = load_image(part, allow_truncated=True)
    assert "JPEG ends in scan" in coarse.truncated[0].reason
    difference = np.asarray(coarse).astype(int) - pixels("progressive.jpg")
    assert 0 < np.abs(difference).mean() < 20


def test_sixteen_bits_of_grey():
    values = pixels("gray16.png", pix_fmt="gray16")
    expected = np.arange(values.size) * 257 + 3
    np.testing.assert_array_equal(values.ravel(), np.minimum(expected, 65535))
    high = pixels("gray16.png", pix_fmt="gray")
    np.testing.assert_array_equal(high, values >> 8)


def test_a_palette_with_transparency():
    rgba = pixels("pal4_trns.png", pix_fmt="rgba")
    assert rgba.tolist() == [[[17, 34, 51, 0], [68, 85, 102, 128]]]
    # (68 * 128 + 255 * 127) / 255 = 161.1, and so on.
    blended = pixels("pal4_trns.png", background=(255, 255, 255))
    assert blended.tolist() == [[[255, 255, 255], [161, 170, 178]]]


def test_bytes_behind_the_end():
    np.testing.assert_array_equal(pixels("jpeg_trailing.jpg"), pixels("ok.jpg"))


def test_grey_as_one_channel_or_three():
    one = pixels("gray.jpg", pix_fmt="gray")
    assert one.shape == (480, 640, 1)
    np.testing.assert_array_equal(pixels("gray.jpg"), np.repeat(one, 3, 2))


def test_all_frames_or_the_first():
    frames = np.asarray(load_image_frames(DATA / "anim.png"))
    assert frames.shape[0] == 5
    with Image.open(DATA / "anim.png") as image:
        for i in range(5):
            image.seek(i)
            np.testing.assert_array_equal(frames[i], image.convert("RGB"))
    np.testing.assert_array_equal(pixels("anim.png"), frames[0])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("html.jpg", r"image: not an image \(looks like HTML\)"),
        ("zero.jpg", "image: empty input"),
    ],
)
@pytest.mark.parametrize("function", [load_image, load_image_frames, image_info])
def test_what_is_no_picture(function, name, text):
    with pytest.raises(FormatError, match=text):
        function(DATA / name)
