"""JPEGs go to headrace's own decoder or to libjpeg, with the same pixels."""

import io
import os

import numpy as np
import pytest
from PIL import Image

from headrace import _ext
from headrace.errors import FormatError
from headrace.io import jpeg_counts, load_image, load_image_batch

SIZE = {"width": 48, "height": 40, "scale_mode": None}


def picture(width=150, height=110, **options):
    y, x = np.mgrid[:height, :width]
    waves = [
        np.sin(x / (3 + c)) + np.cos(y / (5 - c)) + (x * y % 7) / 9 for c in range(3)
    ]
    pixels = np.stack(waves, axis=-1) * 50 + 120
    file = io.BytesIO()
    image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    if options.pop("grey", False):
        image = image.convert("L")
    image.save(file, "JPEG", **{"quality": 90, **options})
    return file.getvalue()


def load(data):
    """Return the pixels, and how many pictures which decoder took."""
    before = jpeg_counts()
    pixels = np.asarray(load_image(data, **SIZE)).copy()
    after = jpeg_counts()
    return pixels, {name: after[name] - before[name] for name in after}


OWN = {"headrace": 1, "libjpeg": 0}
LIBJPEG = {"headrace": 0, "libjpeg": 1}
PICTURES = {
    "4:4:4": {"subsampling": 0},
    "4:2:2": {"subsampling": 1},
    "4:2:0": {"subsampling": 2},
    "grey": {"grey": True},
    "optimised": {"optimize": True},
    "restarts": {"restart_marker_blocks": 5},
    "low quality": {"quality": 5},
}
fast = pytest.mark.skipif(
    _ext.image_simd() != "avx2" or "HEADRACE_JPEG" in os.environ,
    reason="the own decoder is off on this machine",
)


@fast
@pytest.mark.parametrize("how", PICTURES)
def test_a_baseline_jpeg_is_taken(how):
    assert load(picture(**PICTURES[how]))[1] == OWN


@fast
@pytest.mark.thread_unsafe(reason="counts what the process decodes")
def test_other_jpegs_are_left_to_libjpeg():
    assert load(picture(progressive=True))[1] == LIBJPEG
    before = jpeg_counts()
    load_image(picture())  # rows, not planes: its size stays
    load_image(picture(), **SIZE, exact=True)
    assert jpeg_counts()["libjpeg"] == before["libjpeg"] + 2


def test_pixels_are_those_of_libjpeg(script, tmp_path):
    pictures = [picture(**how) for how in PICTURES.values()]
    for i, data in enumerate(pictures):
        (tmp_path / f"{i}.jpg").write_bytes(data)
    mine = np.stack([load(data)[0] for data in pictures])
    theirs = script(
        f"""
        import os, sys
        import numpy as np
        os.environ["HEADRACE_JPEG"] = "libjpeg"
        from headrace.io import jpeg_counts, load_image
        for i in range({len(pictures)}):
            image = load_image(f"{tmp_path}/{{i}}.jpg", **{SIZE!r})
            sys.stdout.write(bytes(np.asarray(image)).hex())
        assert jpeg_counts() == {{"headrace": 0, "libjpeg": {len(pictures)}}}
        """
    )
    assert theirs == mine.tobytes().hex()


@fast
def test_what_is_left_at_the_last_byte_is_decoded_again():
    """A stray byte before the end marker: libjpeg skips it."""
    data = picture()
    stray = data[:-2] + b"\0" + data[-2:]
    pixels, who = load(stray)
    assert who == LIBJPEG
    np.testing.assert_array_equal(pixels, load(data)[0])


@pytest.mark.parametrize("left", [0.2, 0.6, 0.97])
def test_a_damaged_one_gets_libjpegs_error(left):
    data = picture()
    cut = data[: int(len(data) * left)]
    with pytest.raises(FormatError, match=r"JPEG ends after \d+ of 110 rows"):
        load_image(cut, **SIZE)
    batch = load_image_batch([data, cut, data], **SIZE, strict=False)
    pixels = np.asarray(batch)
    assert [failure.index for failure in batch.failures] == [1]
    np.testing.assert_array_equal(pixels[0], load(data)[0])
    np.testing.assert_array_equal(pixels[2], pixels[0])
    assert not pixels[1].any()
