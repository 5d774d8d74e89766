"""The augmentations of arrays, against NumPy and Pillow."""

from functools import partial

import numpy as np
import pytest
from PIL import Image

import headrace.io
from headrace.errors import LimitError
from headrace.io import CenterCrop, RandomResizedCrop, random_horizontal_flip
from headrace.pipeline import PipelineBuilder

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, 256, shape, np.uint8)


IMAGES = {
    "grey": noise(40, 50),
    "one channel": noise(40, 50, 1),
    "two channels": noise(40, 50, 2),
    "colour": noise(40, 50, 3),
    "four channels": noise(40, 50, 4),
    "stack": noise(5, 40, 50, 3),
}


def rows_and_columns(image: np.ndarray) -> tuple[int, int]:
    first = 1 if image.ndim == 4 else 0
    return first, first + 1


def cut(image: np.ndarray, top: int, left: int, height: int, width: int) -> np.ndarray:
    rows, columns = slice(top, top + height), slice(left, left + width)
    return image[:, rows, columns] if image.ndim == 4 else image[rows, columns]


@pytest.mark.parametrize("kind", IMAGES)
def test_crop_cuts(kind: str) -> None:
    image = IMAGES[kind]
    for box in [(0, 0, 40, 50), (3, 7, 20, 11), (39, 49, 1, 1), (0, 30, 40, 20)]:
        assert np.array_equal(
            np.asarray(headrace.io.crop(image, *box)), cut(image, *box)
        )


@pytest.mark.parametrize("kind", IMAGES)
def test_horizontal_flip_mirrors(kind: str) -> None:
    image = IMAGES[kind]
    got = np.asarray(headrace.io.horizontal_flip(image))
    assert np.array_equal(got, np.flip(image, rows_and_columns(image)[1]))


@pytest.mark.parametrize("size", [20, (31, 17), [45, 60], (1, 1), (40, 51)])
@pytest.mark.parametrize("kind", IMAGES)
def test_center_crop_cuts_the_middle_or_pads(kind: str, size: object) -> None:
    image = IMAGES[kind]
    height, width = (size, size) if isinstance(size, int) else size
    rows, columns = rows_and_columns(image)
    padding = [(0, 0)] * image.ndim
    for axis, want in ((rows, height), (columns, width)):
        free = max(want - image.shape[axis], 0)
        padding[axis] = (free // 2, (free + 1) // 2)
    padded = np.pad(image, padding)
    top = round((padded.shape[rows] - height) / 2)
    left = round((padded.shape[columns] - width) / 2)
    got = np.asarray(headrace.io.center_crop(image, size))
    assert np.array_equal(got, cut(padded, top, left, height, width))


@pytest.mark.parametrize("algo", ["bilinear", "bicubic"])
def test_resized_crop_is_pillows(algo: str) -> None:
    image = IMAGES["colour"]
    filters = {
        "bilinear": Image.Resampling.BILINEAR,
        "bicubic": Image.Resampling.BICUBIC,
    }
    got = headrace.io.resized_crop(image, 5, 6, 30, 21, (13, 44), scale_algo=algo)
    part = Image.fromarray(cut(image, 5, 6, 30, 21))
    assert np.array_equal(np.asarray(got), part.resize((44, 13), filters[algo]))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_normalize_is_torchvisions_arithmetic(dtype: str) -> None:
    image = IMAGES["stack"]
    want = ((image / 255 - MEAN) / STD).transpose(0, 3, 1, 2)
    got = np.asarray(headrace.io.normalize(image, MEAN, STD, dtype=dtype, layout="CHW"))
    assert got.shape == (5, 3, 40, 50)
    assert got.dtype == dtype
    assert abs(got - want).max() < (1e-6 if dtype == "float32" else 2e-3)


def test_one_mean_serves_all_channels() -> None:
    image = IMAGES["two channels"]
    got = np.asarray(headrace.io.normalize(image, 0.5, 0.25))
    assert abs(got - (image / 255 - 0.5) / 0.25).max() < 1e-6


def test_everything_at_once() -> None:
    image = IMAGES["stack"]
    boxes = [(i, 2 * i, 20 + i, 25 - i) for i in range(5)]
    flips = [True, False, False, True, True]
    got = headrace.io.transform(
        image,
        width=16,
        height=12,
        crop=boxes,
        flip=flips,
        layout="CHW",
        dtype="float32",
        mean=MEAN,
        std=STD,
    )
    for i in range(5):
        part = Image.fromarray(cut(image[i], *boxes[i]))
        pixels = np.asarray(part.resize((16, 12), Image.Resampling.BICUBIC))
        pixels = pixels[:, ::-1] if flips[i] else pixels
        want = ((pixels / 255 - MEAN) / STD).transpose(2, 0, 1)
        assert abs(np.asarray(got)[i] - want).max() < 1e-6


def test_draws_of_a_stack_go_by_the_number_of_the_picture() -> None:
    image = IMAGES["stack"]
    crop = RandomResizedCrop(scale=(0.2, 0.7))
    draws = {"seed": 3, "epoch": 4}
    got = headrace.io.transform(
        image, width=9, height=8, crop=crop, flip=0.5, index=10, **draws
    )
    for i in range(5):
        box = crop.get_params(50, 40, index=10 + i, **draws)
        pixels = np.asarray(headrace.io.resized_crop(image[i], *box, (8, 9)))
        if random_horizontal_flip(0.5, index=10 + i, **draws):
            pixels = pixels[:, ::-1]
        assert np.array_equal(np.asarray(got)[i], pixels)


def test_out_is_written() -> None:
    image = IMAGES["colour"]
    out = np.zeros((3, 20, 30), np.float32)
    form = {"width": 30, "height": 20, "layout": "CHW", "dtype": "float32"}
    result = headrace.io.transform(image, out=out, **form)
    assert np.shares_memory(np.asarray(result), out)
    assert np.array_equal(out, np.asarray(headrace.io.transform(image, **form)))


@pytest.mark.parametrize("first", [0, 4, -4])
def test_out_must_not_share_memory_with_the_pictures(first: int) -> None:
    rows = np.zeros((16, 8, 3), np.uint8)
    image, out = rows[4:12], rows[4 + first : 12 + first]
    with pytest.raises(ValueError, match="out shares memory with the pictures"):
        headrace.io.transform(image, flip=True, out=out)
    apart = headrace.io.transform(rows[:8], flip=True, out=rows[8:])
    assert np.shares_memory(np.asarray(apart), rows)


@pytest.mark.parametrize("size", [np.int64(7), [np.int64(7)], (7, 7), np.array([7, 7])])
def test_sizes_of_all_kinds(size: object) -> None:
    got = headrace.io.center_crop(IMAGES["colour"], size)
    assert got.shape[:2] == (7, 7)


@pytest.mark.parametrize("size", [(), (1, 2, 3)])
def test_what_is_no_size(size: object) -> None:
    with pytest.raises(ValueError, match="must be one number or .height, width., not"):
        headrace.io.center_crop(IMAGES["colour"], size)


def run(image: np.ndarray, op: object) -> np.ndarray:
    pipeline = (
        PipelineBuilder().add_source([image]).pipe(op).add_sink(1).build(num_threads=1)
    )
    with pipeline.auto_stop():
        (result,) = [np.array(item) for item in pipeline]
    return result


@pytest.mark.parametrize(
    "op",
    [
        partial(headrace.io.crop, top=1, left=2, height=3, width=4),
        partial(headrace.io.center_crop, output_size=(7, 9)),
        partial(
            headrace.io.resized_crop, top=1, left=2, height=30, width=40, size=[5, 6]
        ),
        headrace.io.horizontal_flip,
        partial(headrace.io.normalize, mean=MEAN, std=STD, layout="CHW"),
        partial(
            headrace.io.transform, width=5, height=4, crop=CenterCrop(9), flip=True
        ),
    ],
    ids=lambda op: getattr(op, "func", op).__name__,
)
def test_each_is_a_native_stage(op: object) -> None:
    image = IMAGES["colour"]
    assert hasattr(getattr(op, "func", op), "__headrace_op__")
    assert np.array_equal(run(image, op), np.asarray(op(image)))


def test_a_pipeline_draws_by_the_index_of_the_item() -> None:
    images = [noise(20 + i, 30) for i in range(6)]
    crop = RandomResizedCrop(scale=(0.1, 0.4))
    op = partial(headrace.io.transform, width=6, height=6, crop=crop, seed=5)
    pipeline = (
        PipelineBuilder()
        .add_source(images)
        .pipe(op, concurrency=3, output_order="input")
        .add_sink(2)
        .build(num_threads=3)
    )
    with pipeline.auto_stop():
        got = [np.array(item) for item in pipeline]
    for index, (result, image) in enumerate(zip(got, images, strict=True)):
        assert np.array_equal(result, np.asarray(op(image, index=index)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: headrace.io.crop(noise(4, 4), 0, 0, 5, 1), ValueError, "leaves"),
        (
            lambda: headrace.io.crop(noise(4), 0, 0, 1, 1),
            ValueError,
            "got 1 dimensions",
        ),
        (
            lambda: headrace.io.transform(np.zeros((4, 4), np.float32)),
            TypeError,
            "expected uint8 pixels, got float32",
        ),
        (
            lambda: headrace.io.transform(IMAGES["stack"], crop=RandomResizedCrop()),
            ValueError,
            "crops of several pictures need a width and a height",
        ),
        (
            lambda: headrace.io.transform(IMAGES["stack"], flip=[True]),
            ValueError,
            "flip has 1 entries for 5 sources",
        ),
        (
            lambda: headrace.io.normalize(IMAGES["colour"], MEAN, STD, dtype="uint8"),
            ValueError,
            "mean and std need",
        ),
        (
            lambda: headrace.io.transform(
                noise(4, 4, 3), width=30_000, height=30_000, dtype="float32"
            ),
            LimitError,
            "the limit is 1073741824 bytes",
        ),
    ],
)
def test_bad_arguments_are_named(
    call: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
