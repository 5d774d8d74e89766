"""Layouts and types of outputs and the roads of a JPEG, against NumPy and Pillow."""

import io
from functools import partial

import numpy as np
import pytest
from PIL import Image

import headrace.io
from headrace.pipeline import PipelineBuilder

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def smooth(width: int, height: int, seed: int = 0) -> np.ndarray:
    """Waves in colour, far from the ends of the scale."""
    y, x = np.mgrid[0:height, 0:width] + seed * 17
    planes = [np.sin(x / 9) + np.cos(y / 7), np.sin((x + y) / 15), np.cos(x / 21)]
    return np.stack([plane * 45 + 128 for plane in planes], axis=2).astype(np.uint8)


def jpeg(pixels: np.ndarray, **options: object) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", **({"quality": 95} | options))
    return out.getvalue()


def png(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


DATA = jpeg(smooth(161, 121))


def load(data: bytes = DATA, **arguments: object) -> np.ndarray:
    return np.asarray(headrace.io.load_image(data, **arguments))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("scale_mode", ["pad", "crop", None])
def test_channels_first_is_a_transpose(scale_mode: str | None, exact: bool) -> None:
    size = {"width": 70, "height": 51, "scale_mode": scale_mode, "exact": exact}
    last, first = load(**size), load(layout="CHW", **size)
    assert first.shape == (3, 51, 70)
    assert np.array_equal(first, last.transpose(2, 0, 1))


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("exact", [False, True])
def test_float32_is_normalised_as_by_torchvision(layout: str, exact: bool) -> None:
    size = {"width": 70, "height": 51, "exact": exact, "layout": layout}
    shape = (3, 1, 1) if layout == "CHW" else (3,)
    mean, std = (np.reshape(v, shape) for v in (MEAN, STD))
    want = (load(**size) / 255 - mean) / std
    got = load(dtype="float32", mean=MEAN, std=STD, **size)
    assert got.dtype == np.float32
    assert abs(got - want).max() < 1e-6  # values up to 2.7


def test_numbers_without_mean_and_std_are_0_to_1() -> None:
    white = png(np.full((3, 5, 3), 255, np.uint8))
    assert np.array_equal(load(white, dtype="float32"), np.ones((3, 5, 3)))
    assert np.array_equal(load(white, dtype="float32", mean=1, std=2)[0, 0], [0] * 3)


def test_float16_is_float32_rounded() -> None:
    wide = load(dtype="float32", mean=MEAN, std=STD, width=50, height=50)
    half = load(dtype="float16", mean=MEAN, std=STD, width=50, height=50)
    assert half.dtype == np.float16
    assert np.array_equal(half, wide.astype(np.float16))


def test_bfloat16_is_the_upper_half_of_float32_rounded() -> None:
    wide = load(dtype="float32", mean=MEAN, std=STD, width=50, height=50)
    buffer = headrace.io.load_image(
        DATA, dtype="bfloat16", mean=MEAN, std=STD, width=50, height=50
    )
    assert buffer.dtype == "bfloat16"
    bits = wide.view(np.uint32).astype(np.uint64)
    want = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    assert np.array_equal(np.asarray(buffer), want.astype(np.uint16))
    assert buffer.__dlpack_device__() == (1, 0)


def test_padding_is_black_normalised() -> None:
    got = load(width=60, height=60, dtype="float32", mean=MEAN, std=STD, layout="CHW")
    want = -np.array(MEAN) / np.array(STD)
    assert abs(got[:, 0, :] - want[:, None]).max() < 1e-6
    assert abs(got[:, -1, :] - want[:, None]).max() < 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.dtype("float32"), "float32"])
def test_dtypes_by_name_and_by_object(dtype: object) -> None:
    assert load(dtype=dtype).dtype == np.float32


def test_a_turned_picture_has_any_form() -> None:
    exif = Image.Exif()
    exif[274] = 6
    data = jpeg(smooth(40, 24), exif=exif)
    last = load(data)
    assert last.shape == (40, 24, 3)
    assert np.array_equal(load(data, layout="CHW"), last.transpose(2, 0, 1))
    small = {"width": 12, "height": 20, "scale_mode": None}
    for exact in (False, True):
        last = load(data, exact=exact, **small)
        first = load(data, exact=exact, layout="CHW", dtype="float32", **small)
        want = last.transpose(2, 0, 1).astype(np.float32) / 255
        assert abs(first - want).max() < 1e-6


@pytest.mark.parametrize("threads", [1, 3])
def test_a_pipeline_gives_what_the_function_gives(threads: int) -> None:
    datas = [jpeg(smooth(90 + 7 * i, 70 + 3 * i, i)) for i in range(12)]
    form = {"width": 32, "height": 24, "layout": "CHW", "dtype": "float32"}
    numbers = {"mean": MEAN, "std": STD, "scale_mode": "crop"}
    load_batch = partial(headrace.io.load_image_batch, **form, **numbers)
    pipeline = (
        PipelineBuilder()
        .add_source(datas)
        .aggregate(4)
        .pipe(load_batch)
        .add_sink(2)
        .build(num_threads=threads)
    )
    with pipeline.auto_stop():
        batches = [np.array(batch) for batch in pipeline]
    assert [batch.shape for batch in batches] == [(4, 3, 24, 32)] * 3
    got = np.concatenate(batches)
    for slot, data in zip(got, datas, strict=True):
        assert np.array_equal(slot, load(data, **form, **numbers))


# ---- the two roads ----

SUBSAMPLINGS = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (17, 9), (161, 121), (64, 300)])
@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
@pytest.mark.parametrize("progressive", [False, True])
def test_planes_differ_from_rgb_by_rounding(
    size: tuple[int, int], subsampling: str, progressive: bool
) -> None:
    options = {
        "subsampling": SUBSAMPLINGS[subsampling],
        "progressive": progressive,
    }
    data = jpeg(smooth(*size), **options)
    for algo in ("box", "bilinear", "bicubic", "lanczos"):
        for width, height in ((23, 31), (1, 1), (200, 150)):
            if size[0] > 16 * width or size[1] > 16 * height:
                continue
            target = {"width": width, "height": height, "scale_mode": None}
            planes = load(data, scale_algo=algo, **target)
            exact = load(data, scale_algo=algo, exact=True, **target)
            off = abs(planes.astype(int) - exact.astype(int))
            assert off.max() <= 3, (algo, width, height)
            assert off.mean() < 0.5, (algo, width, height)


def test_a_grey_jpeg_takes_its_plane() -> None:
    out = io.BytesIO()
    Image.fromarray(smooth(100, 80)[:, :, 0]).save(out, "JPEG")
    planes = load(out.getvalue(), width=30, height=30)
    exact = load(out.getvalue(), width=30, height=30, exact=True)
    assert abs(planes.astype(int) - exact.astype(int)).max() <= 1
    assert np.array_equal(planes[..., 0], planes[..., 1])


def test_the_exact_road_is_taken_where_the_size_stays() -> None:
    assert np.array_equal(load(), load(exact=True))
    want = np.asarray(Image.open(io.BytesIO(DATA)).convert("RGB"))
    assert np.array_equal(load(), want)


def test_much_smaller_pictures_take_the_exact_road() -> None:
    data = jpeg(smooth(700, 500))
    size = {"width": 7, "height": 5}
    assert np.array_equal(load(data, **size), load(data, exact=True, **size))


# ---- what is refused ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layout": "NCHW"}, "layout must be 'HWC' or 'CHW', not 'NCHW'"),
        ({"dtype": "float64"}, "dtype must be None, 'uint8', 'float16', .*'float64'"),
        ({"mean": MEAN}, "mean and std need a dtype of"),
        ({"dtype": "uint8", "std": 1}, "mean and std need a dtype of"),
        ({"dtype": "float32", "mean": (1, 2)}, "mean must have 3 numbers.*not 2"),
        ({"dtype": "float32", "std": 0}, "std must not be 0"),
        ({"dtype": "float32", "std": (1, 0, 1)}, "std must not be 0"),
        ({"dtype": "float32", "mean": float("nan")}, "mean must be finite, not nan"),
        ({"dtype": "float32", "std": float("inf")}, "std must be finite, not inf"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        headrace.io.load_image(DATA, **arguments)
    with pytest.raises(ValueError, match=message):
        headrace.io.load_image_batch([DATA], width=2, height=2, **arguments)


def test_a_mean_that_is_no_number_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="mean must be a number or a sequence, not "):
        headrace.io.load_image(DATA, dtype="float32", mean=object())


def test_bfloat16_as_numpy_has_it_with_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    size = {"width": 30, "height": 20, "layout": "CHW", "mean": MEAN, "std": STD}
    out = np.zeros((3, 20, 30), ml_dtypes.bfloat16)
    headrace.io.load_image(DATA, dtype=ml_dtypes.bfloat16, out=out, **size)
    assert np.array_equal(out, load(dtype="float32", **size).astype(ml_dtypes.bfloat16))
