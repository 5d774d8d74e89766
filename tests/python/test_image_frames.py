"""load_image_frames: the options of load_image, for all frames alike."""

from functools import partial

import numpy as np
import pytest
from image_kit import Files, encode, frames, waves
from PIL import Image

from headrace.errors import FormatError
from headrace.io import (
    CenterCrop,
    RandomResizedCrop,
    load_image,
    load_image_frames,
    random_horizontal_flip,
)
from headrace.pipeline import PipelineBuilder

FORMATS = ["JPEG", "PNG", "WebP", "GIF", "TIFF", "AVIF"]
PICTURES = [waves(60, 44, i) for i in range(4)]


def movie(fmt):
    pictures = PICTURES[:2] if fmt == "JPEG" else PICTURES
    options = {"WebP": {"lossless": True}}.get(fmt, {})
    return frames(fmt, pictures, **options)


MOVIES = Files(movie)
OPTIONS = [
    {"crop": (5, 7, 30, 41)},
    {"crop": (5, 7, 30, 41), "width": 20, "height": 16, "flip": True},
    {"crop": CenterCrop(24), "width": 22, "height": 20},
    {"crop": RandomResizedCrop(), "width": 18, "height": 18, "flip": 0.5, "seed": 4},
    {"flip": True, "scale_mode": "crop", "width": 30, "height": 30},
    {"draft": True, "width": 7, "height": 5, "scale_mode": None},
    {"exact": True, "width": 30, "height": 30, "layout": "CHW", "dtype": "float32"},
    {"pix_fmt": "gray", "background": (1, 2, 3), "epoch": 3},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: " ".join(o))
@pytest.mark.parametrize("fmt", FORMATS)
def test_all_frames_are_each_of_them(fmt, options):
    """What is drawn of frame 0 is drawn of the others: index is the file's."""
    loaded = np.asarray(load_image_frames(MOVIES[fmt], index=9, **options))
    assert len(loaded) == (2 if fmt == "JPEG" else 4)
    for i, frame in enumerate(loaded):
        one = load_image(MOVIES[fmt], frame=i, index=9, **options)
        np.testing.assert_array_equal(frame, np.asarray(one))


def test_pixels_of_cropped_and_flipped_frames():
    loaded = np.asarray(
        load_image_frames(MOVIES["PNG"], crop=(5, 7, 30, 41), flip=True)
    )
    want = np.stack(PICTURES)[:, 5:35, 7:48][:, :, ::-1]
    np.testing.assert_array_equal(loaded, want)
    crop = RandomResizedCrop(scale=(0.1, 0.5))
    key = {"seed": 3, "epoch": 1, "index": 12}
    box = crop.get_params(60, 44, **key)
    loaded = load_image_frames(MOVIES["PNG"], crop=crop, width=20, height=10, **key)
    top, left, height, width = box
    for frame, picture in zip(np.asarray(loaded), PICTURES, strict=True):
        part = Image.fromarray(picture[top : top + height, left : left + width])
        want = part.resize((20, 10), Image.Resampling.BICUBIC)
        np.testing.assert_array_equal(frame, want)


def test_a_random_crop_of_its_own_size():
    """Without a target all frames have the size of the one box."""
    crop = RandomResizedCrop()
    for index in range(8):
        *_, height, width = crop.get_params(60, 44, seed=1, index=index)
        loaded = load_image_frames(MOVIES["GIF"], crop=crop, seed=1, index=index)
        assert loaded.shape == (4, height, width, 3)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_pipeline_draws_by_the_index_of_the_file(threads):
    options = {"crop": RandomResizedCrop(), "flip": 0.5, "seed": 8, "epoch": 2}
    size = {"width": 16, "height": 12}
    load = partial(load_image_frames, **options, **size)
    pipeline = (
        PipelineBuilder()
        .add_source([MOVIES["PNG"]] * 9)
        .pipe(load, concurrency=threads, output_order="input")
        .add_sink(2)
        .build(num_threads=threads)
    )
    with pipeline.auto_stop():
        got = [np.array(item) for item in pipeline]
    assert len({item.tobytes() for item in got}) == 9
    flips = [random_horizontal_flip(0.5, seed=8, epoch=2, index=i) for i in range(9)]
    assert len(set(flips)) == 2
    for index, item in enumerate(got):
        want = load_image_frames(MOVIES["PNG"], **options, **size, index=index)
        np.testing.assert_array_equal(item, np.asarray(want))


def test_out_and_name():
    out = np.zeros((4, 3, 44, 60), np.float32)
    form = {"layout": "CHW", "dtype": "float32"}
    result = load_image_frames(MOVIES["PNG"], out=out, **form)
    assert np.shares_memory(np.asarray(result), out)
    want = np.stack(PICTURES).transpose(0, 3, 1, 2) / np.float32(255)
    assert abs(out - want).max() < 1e-6
    message = (
        r"out must have the shape \(4, 44, 60, 3\) of uint8, but has \(3, 44, 60, 3\)"
    )
    with pytest.raises(ValueError, match=message):
        load_image_frames(MOVIES["PNG"], out=np.zeros((3, 44, 60, 3), np.uint8))
    with pytest.raises(FormatError, match="not an image .*'a name'"):
        load_image_frames(b"no picture", name="a name")


def test_what_belongs_to_one_call_is_refused_in_a_pipeline():
    for bound, message in (
        ({"out": np.zeros((4, 44, 60, 3), np.uint8)}, "out is for direct calls"),
        ({"index": 3}, "index is for direct calls"),
        ({"name": "x"}, "name labels one picture"),
    ):
        with pytest.raises(ValueError, match=message):
            PipelineBuilder().add_source([b""]).pipe(
                partial(load_image_frames, **bound)
            )


def test_a_box_outside_is_an_error():
    with pytest.raises(ValueError, match="leaves the picture of 60 x 44"):
        load_image_frames(MOVIES["PNG"], crop=(20, 0, 30, 10))


def test_frames_of_two_sizes_meet_by_a_crop():
    """Without one they do not; a box of one size fits both."""
    pages = frames("TIFF", [waves(30, 20), waves(40, 50)])
    loaded = np.asarray(load_image_frames(pages, crop=(2, 3, 10, 11)))
    for frame, picture in zip(loaded, (waves(30, 20), waves(40, 50)), strict=True):
        np.testing.assert_array_equal(frame, picture[2:12, 3:14])


@pytest.mark.parametrize("fmt", ["JPEG", "PNG", "WebP", "GIF", "BMP", "TIFF", "AVIF"])
def test_a_still_picture_is_one_frame(fmt):
    data = encode(waves(20, 10), fmt)
    loaded = np.asarray(load_image_frames(data))
    assert loaded.shape == (1, 10, 20, 3)
    np.testing.assert_array_equal(loaded[0], np.asarray(load_image(data)))
