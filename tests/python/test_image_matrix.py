"""Every pix_fmt in every layout and dtype, by every loader, against NumPy."""

from functools import partial

import numpy as np
import pytest
from image_kit import encode, frames, waves
from PIL import Image

import headrace.io
from headrace.pipeline import PipelineBuilder

WIDTH, HEIGHT = 37, 23
MEAN = (0.485, 0.456, 0.406, 0.5)
STD = (0.229, 0.224, 0.225, 0.25)

RGB = np.random.default_rng(5).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
RGBA = np.random.default_rng(6).integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8)
DEEP = np.random.default_rng(7).integers(0, 65536, (HEIGHT, WIDTH), np.uint16)
SOURCES = {
    "colour": encode(RGB, "PNG"),
    "alpha": encode(RGBA, "PNG"),
    "16 bits": encode(Image.fromarray(DEEP), "PNG"),
}

PIX_FMTS = ["rgb24", "bgr24", "gray", "rgba", "gray16", "rgb48"]
INTEGERS = {"gray16": "uint16", "rgb48": "uint16"}
FLOATS = ["float16", "bfloat16", "float32"]


def luma(rgb: np.ndarray) -> np.ndarray:
    """BT.601 as docs/images.md has it, in integers."""
    r, g, b = np.moveaxis(rgb.astype(np.uint64), 2, 0)
    grey = (19595 * r + 38470 * g + 7471 * b + 32768) >> 16
    return grey[:, :, None].astype(rgb.dtype)


def integers(source: str, pix_fmt: str) -> np.ndarray:
    """What the pixels are, by the rules of docs/images.md."""
    wide = pix_fmt in INTEGERS
    if source == "16 bits":
        grey = DEEP if wide else (DEEP >> 8).astype(np.uint8)
        rgb = np.repeat(grey[:, :, None], 3, axis=2)
    else:
        rgb = RGB if source == "colour" else RGBA[:, :, :3]
        rgb = rgb.astype(np.uint16) * 257 if wide else rgb
    match pix_fmt:
        case "bgr24":
            return rgb[:, :, ::-1]
        case "gray" | "gray16":
            return luma(rgb)
        case "rgba":
            full = np.full((HEIGHT, WIDTH, 1), 255, np.uint8)
            return np.concatenate(
                [rgb, RGBA[:, :, 3:] if source == "alpha" else full], axis=2
            )
    return rgb


def normalised(pixels: np.ndarray, mean: object, std: object) -> np.ndarray:
    """(v / full - mean) / std, as docs/images.md says that it is worked out."""
    full = np.iinfo(pixels.dtype).max
    channels = pixels.shape[-1]
    scale = 1 / (full * np.array(std[:channels]))
    bias = -np.array(mean[:channels]) / np.array(std[:channels])
    got = pixels.astype(np.float32) * scale.astype(np.float32) + bias.astype(np.float32)
    near = (pixels / full - np.array(mean[:channels])) / np.array(std[:channels])
    assert abs(got - near).max() < 2e-6
    return got


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    bits = values.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def formed(pixels: np.ndarray, dtype: str | None, layout: str) -> np.ndarray:
    """Pixels of (..., H, W, C) in that form, bfloat16 as bits."""
    if dtype in FLOATS:
        values = normalised(pixels, MEAN, STD)
        bits = dtype == "bfloat16"
        pixels = bfloat16_bits(values) if bits else values.astype(dtype)
    return np.moveaxis(pixels, -1, -3) if layout == "CHW" else pixels


def arguments(pix_fmt: str, dtype: str | None, layout: str) -> dict[str, object]:
    channels = {"gray": 1, "gray16": 1, "rgba": 4}.get(pix_fmt, 3)
    numbers = {"mean": MEAN[:channels], "std": STD[:channels]}
    form = {"pix_fmt": pix_fmt, "dtype": dtype, "layout": layout}
    return form | (numbers if dtype in FLOATS else {})


def load_all(data: bytes, form: dict[str, object]) -> dict[str, np.ndarray]:
    """By each loader, the first picture of what it gives."""
    size = {"width": WIDTH, "height": HEIGHT}
    batch = headrace.io.load_image_batch([data] * 2, **size, **form)
    assert np.array_equal(np.asarray(batch)[0], np.asarray(batch)[1])
    return {
        "one": headrace.io.load_image(data, **form),
        "batch": np.asarray(batch)[1],
        "frames": np.asarray(headrace.io.load_image_frames(data, **form))[0],
    }


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("dtype", [None, "integers", *FLOATS])
@pytest.mark.parametrize("pix_fmt", PIX_FMTS)
def test_every_form(pix_fmt: str, dtype: str | None, layout: str, source: str) -> None:
    if dtype == "integers":
        dtype = INTEGERS.get(pix_fmt, "uint8")
    want = formed(integers(source, pix_fmt), dtype, layout)
    form = arguments(pix_fmt, dtype, layout)
    for who, got in load_all(SOURCES[source], form).items():
        got = np.asarray(got)
        assert got.dtype == want.dtype, who
        assert np.array_equal(got, want), who


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("pix_fmt", PIX_FMTS)
def test_every_form_of_a_turned_and_padded_picture(
    pix_fmt: str, dtype: str, layout: str
) -> None:
    """Numbers are those of the integers of the same call, black where it is padded."""
    exif = Image.Exif()
    exif[274] = 6
    data = encode(RGBA, "PNG", exif=exif)
    size = {"width": 40, "height": 30, "flip": True}
    pixels = np.asarray(headrace.io.load_image(data, pix_fmt=pix_fmt, **size))
    got = headrace.io.load_image(data, **size, **arguments(pix_fmt, dtype, layout))
    assert not pixels[:, 0].any()
    assert pixels[:, 20].any()
    assert np.array_equal(np.asarray(got), formed(pixels, dtype, layout))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("dtype", [None, *FLOATS])
@pytest.mark.parametrize("pix_fmt", PIX_FMTS)
def test_every_form_by_both_roads_of_a_jpeg(
    pix_fmt: str, dtype: str | None, layout: str, exact: bool
) -> None:
    """By planes where it can be: those of 8 bits without alpha."""
    data = encode(waves(90, 70), "JPEG", quality=95)
    size = {"width": 40, "height": 32, "scale_mode": None, "exact": exact}
    got = headrace.io.load_image(data, **size, **arguments(pix_fmt, dtype, layout))
    pixels = np.asarray(headrace.io.load_image(data, pix_fmt=pix_fmt, **size))
    assert np.array_equal(np.asarray(got), formed(pixels, dtype, layout))
    # The integers are right, too: Pillow's RGB, resized, within rounding.
    rgb = np.asarray(
        Image.fromarray(headrace.io.to_numpy(headrace.io.load_image(data))).resize(
            (40, 32), Image.Resampling.BICUBIC
        )
    )
    deep = pixels.astype(int) // (257 if pix_fmt in INTEGERS else 1)
    want = {
        "bgr24": rgb[:, :, ::-1],
        "gray": luma(rgb),
        "gray16": luma(rgb),
        "rgba": np.dstack([rgb, np.full((32, 40), 255, np.uint8)]),
    }.get(pix_fmt, rgb)
    assert abs(deep - want).max() <= 2


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_frames_of_every_pix_fmt(dtype: str | None) -> None:
    pictures = [RGB, RGB[::-1], RGB[:, ::-1]]
    data = frames("PNG", pictures)
    for pix_fmt in PIX_FMTS:
        for layout in ("HWC", "CHW"):
            form = arguments(pix_fmt, dtype, layout)
            got = np.asarray(headrace.io.load_image_frames(data, **form))
            want = np.stack([integers("colour", pix_fmt)] * 3)
            want = np.stack([want[0], want[1][::-1], want[2][:, ::-1]])
            # Frames behind the first are composed in 8 bits.
            assert np.array_equal(got, formed(want, dtype, layout)), (pix_fmt, layout)


@pytest.mark.parametrize("pix_fmt", PIX_FMTS)
def test_every_pix_fmt_in_a_pipeline(pix_fmt: str) -> None:
    form = arguments(pix_fmt, "float32", "CHW")
    load = partial(headrace.io.load_image, **form)
    pipeline = (
        PipelineBuilder()
        .add_source([SOURCES["colour"]] * 3)
        .pipe(load, concurrency=2)
        .add_sink(2)
        .build(num_threads=2)
    )
    want = formed(integers("colour", pix_fmt), "float32", "CHW")
    with pipeline.auto_stop():
        assert [np.array_equal(np.asarray(p), want) for p in pipeline] == [True] * 3


@pytest.mark.parametrize(
    ("pix_fmt", "dtype", "has"),
    [
        *[(fmt, "uint16", "uint8") for fmt in ("rgb24", "bgr24", "gray", "rgba")],
        *[(fmt, "uint8", "uint16") for fmt in ("gray16", "rgb48")],
        *[(fmt, "int8", INTEGERS.get(fmt, "uint8")) for fmt in PIX_FMTS],
        *[(fmt, np.float64, INTEGERS.get(fmt, "uint8")) for fmt in PIX_FMTS],
    ],
)
def test_a_dtype_that_does_not_go_with_a_pix_fmt(
    pix_fmt: str, dtype: object, has: str
) -> None:
    message = f"dtype must be None, '{has}', 'float16', 'bfloat16' or 'float32', not "
    for loader in (headrace.io.load_image, headrace.io.load_image_frames):
        with pytest.raises(ValueError, match=message):
            loader(SOURCES["colour"], pix_fmt=pix_fmt, dtype=dtype)
        with pytest.raises(ValueError, match=message):
            loader.__headrace_op__(pix_fmt=pix_fmt, dtype=dtype)
    with pytest.raises(ValueError, match=message):
        headrace.io.load_image_batch(
            [SOURCES["colour"]], width=4, height=4, pix_fmt=pix_fmt, dtype=dtype
        )


@pytest.mark.parametrize("pix_fmt", PIX_FMTS)
def test_mean_and_std_have_as_many_numbers_as_channels(pix_fmt: str) -> None:
    channels = {"gray": 1, "gray16": 1, "rgba": 4}.get(pix_fmt, 3)
    wrong = [0.5] * (channels % 4 + 1)
    with pytest.raises(ValueError, match=f"mean must have {channels} numbers"):
        headrace.io.load_image(
            SOURCES["colour"], pix_fmt=pix_fmt, dtype="float32", mean=wrong
        )
    with pytest.raises(ValueError, match="mean and std need a dtype of"):
        headrace.io.load_image(SOURCES["colour"], pix_fmt=pix_fmt, std=0.5)


@pytest.mark.parametrize("dtype", [None, "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("pix_fmt", PIX_FMTS)
def test_out_of_every_form(pix_fmt: str, layout: str, dtype: str | None) -> None:
    form = arguments(pix_fmt, dtype, layout)
    want = formed(integers("colour", pix_fmt), dtype, layout)
    out = np.zeros_like(want, order="C")
    result = headrace.io.load_image(SOURCES["colour"], **form, out=out)
    assert np.shares_memory(np.asarray(result), out)
    assert np.array_equal(out, want)
    many = np.zeros((1, *want.shape), want.dtype)
    headrace.io.load_image_frames(SOURCES["colour"], **form, out=many)
    assert np.array_equal(many[0], want)
