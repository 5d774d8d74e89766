"""Pictures into torch tensors and out of them, without a copy; skipped without it."""

import numpy as np
import pytest
from image_kit import encode, frames, pillow, waves

from headrace.io import (
    encode_image,
    load_image,
    load_image_batch,
    load_image_frames,
    normalize,
    resize,
    save_image,
    to_torch,
    transform,
)

torch = pytest.importorskip("torch", reason="torch is not installed")

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RGB = waves(61, 43)
DATA = encode(RGB, "PNG")
DTYPES = [torch.uint8, torch.float16, torch.bfloat16, torch.float32]


def expected(dtype):
    """(3, H, W), worked out in torch from the pixels: one rounding at the end."""
    pixels = torch.from_numpy(RGB.copy()).permute(2, 0, 1)
    if dtype == torch.uint8:
        return pixels
    mean, std = torch.tensor(MEAN, dtype=torch.float64), torch.tensor(STD).double()
    scale = (1 / (255 * std)).float()[:, None, None]
    bias = (-mean / std).float()[:, None, None]
    return (pixels.float() * scale + bias).to(dtype)


def close(got, dtype):
    """Equal but for where the factors, rounded elsewhere, move a tie."""
    want = expected(dtype)
    assert got.dtype == dtype
    assert got.shape == want.shape
    ulp = {torch.float16: 2**-10, torch.bfloat16: 2**-7}.get(dtype, 1e-6)
    off = (got.double() - want.double()).abs()
    assert (off <= ulp * 4).all()
    assert (off > 1e-6).double().mean() < 0.01


def form(dtype):
    numbers = {} if dtype == torch.uint8 else {"mean": MEAN, "std": STD}
    return {"layout": "CHW", "dtype": dtype} | numbers


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_tensor_shares_the_memory_of_what_was_loaded(dtype):
    buffer = load_image(DATA, **form(dtype))
    tensor = to_torch(buffer)
    close(tensor, dtype)
    assert tensor.data_ptr() == np.asarray(buffer).ctypes.data
    del buffer
    close(tensor, dtype)  # it keeps the memory


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("loader", ["one", "batch", "frames", "transform"])
def test_out_is_written_in_place(loader, dtype):
    shape = (3, 43, 61) if loader in {"one", "transform"} else (2, 3, 43, 61)
    out = torch.full(shape, 7, dtype=dtype)
    address = out.data_ptr()
    if loader == "one":
        result = load_image(DATA, out=out, **form(dtype))
    elif loader == "transform":
        result = transform(RGB, out=out, **form(dtype))
    elif loader == "batch":
        size = {"width": 61, "height": 43}
        result = load_image_batch([DATA] * 2, out=out, **size, **form(dtype))
    else:
        movie = frames("PNG", [RGB, RGB[::-1]])
        result = load_image_frames(movie, out=out, **form(dtype))
        assert torch.equal(out[1], out[0].flip(1))
    close(out if out.dim() == 3 else out[0], dtype)
    assert np.asarray(result).ctypes.data == address == out.data_ptr()


def test_out_may_be_a_part_of_a_larger_tensor():
    """A contiguous one, like a slot of a batch that somebody else keeps."""
    batch = torch.zeros((4, 3, 43, 61), dtype=torch.bfloat16)
    load_image(DATA, out=batch[2], **form(torch.bfloat16))
    close(batch[2], torch.bfloat16)
    assert not batch[[0, 1, 3]].any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_unfit_out_is_refused(dtype):
    other = torch.float32 if dtype != torch.float32 else torch.bfloat16
    with pytest.raises(ValueError, match=r"out must have the shape \(3, 43, 61\) of "):
        load_image(DATA, out=torch.zeros((3, 43, 61), dtype=other), **form(dtype))
    with pytest.raises(ValueError, match=r"but has \(43, 61, 3\)"):
        load_image(DATA, out=torch.zeros((43, 61, 3), dtype=dtype), **form(dtype))
    strided = torch.zeros((43, 61, 3), dtype=dtype).permute(2, 0, 1)
    with pytest.raises(TypeError, match="expected a C-contiguous buffer"):
        load_image(DATA, out=strided, **form(dtype))
    assert not strided.any()


def test_a_tensor_that_learns_is_no_place_for_pictures():
    out = torch.zeros((3, 43, 61), requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        load_image(DATA, out=out, **form(torch.float32))


TENSORS = {
    "contiguous": lambda t: t,
    "channels first": lambda t: t.permute(2, 0, 1).contiguous().permute(1, 2, 0),
    "a crop": lambda t: torch.nn.functional.pad(t, (0, 0, 3, 4, 5, 6))[5:-6, 3:-4],
    "every second": lambda t: t.repeat_interleave(2, 1)[:, ::2],
}


@pytest.mark.parametrize("kind", TENSORS)
@pytest.mark.parametrize("fmt", ["jpeg", "png", "webp"])
def test_tensors_are_encoded(fmt, kind, tmp_path):
    tensor = TENSORS[kind](torch.from_numpy(RGB.copy()))
    options = {"lossless": True} if fmt == "webp" else {}
    data = bytes(encode_image(tensor, format=fmt, **options))
    if fmt == "jpeg":
        assert data == encode(RGB, "JPEG", quality=75)
    else:
        np.testing.assert_array_equal(pillow(data), RGB)
    path = tmp_path / f"a.{fmt}"
    save_image(path, tensor, **options)
    assert path.read_bytes() == data


@pytest.mark.parametrize("kind", TENSORS)
def test_tensors_are_resized_and_normalised(kind):
    tensor = TENSORS[kind](torch.from_numpy(RGB.copy()))
    got = resize(tensor, width=20, height=30)
    np.testing.assert_array_equal(got, resize(RGB, width=20, height=30))
    values = to_torch(normalize(tensor, MEAN, STD, dtype=torch.bfloat16, layout="CHW"))
    close(values, torch.bfloat16)


def test_what_was_loaded_goes_through_a_network():
    """Of bfloat16, in the layout that it wants."""
    batch = to_torch(
        load_image_batch([DATA] * 2, width=16, height=16, **form(torch.bfloat16))
    )
    layer = torch.nn.Conv2d(3, 4, 3, dtype=torch.bfloat16)
    assert layer(batch).shape == (2, 4, 14, 14)
