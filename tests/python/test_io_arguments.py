"""headrace.io's arguments: signatures, early refusals, and what a source may be."""

import functools
import inspect
import os
import pathlib

import numpy as np
import pytest
from PIL import Image

import headrace.io
from headrace import _ext
from headrace.errors import FormatError
from headrace.io import (
    CPUBuffer,
    ImageLimits,
    convert_frames,
    encode_image,
    image_info,
    image_info_batch,
    load_image,
    load_image_batch,
    load_image_frames,
    read_file,
    resize,
    to_numpy,
    to_torch,
)

CROP = "crop=None, flip=False, seed=0, epoch=0"
FORM = "layout='HWC', dtype=None, mean=None, std=None"
DIRECT = "index=0, out=None"
IMAGE = (
    "pix_fmt='rgb24', scale_mode='pad', scale_algo='bicubic', background=None, "
    "orientation='apply', frame=0, icc=None, allow_truncated=False, limits=None, "
    f"{CROP}, {FORM}, exact=False, draft=False"
)
ALL_FRAMES = IMAGE.replace("frame=0, ", "")
ENCODE = "quality=75, compression=6, lossless=False, pix_fmt=None"
SIGNATURES = {
    "load_image": f"(src, *, width=None, height=None, {IMAGE}, name=None, {DIRECT})",
    "load_image_batch": f"(srcs, *, width, height, {IMAGE}, strict=True, {DIRECT})",
    "load_image_frames": "(src, *, width=None, height=None, "
    f"{ALL_FRAMES}, name=None, {DIRECT})",
    "image_info": "(src, *, orientation='apply', limits=None)",
    "image_info_batch": "(srcs, *, orientation='apply', limits=None, strict=True)",
    "encode_image": f"(image, *, format='jpeg', {ENCODE})",
    "save_image": f"(path, image, *, format=None, {ENCODE})",
    "resize": "(image, *, width, height, scale_algo='bicubic')",
    "transform": "(image, *, width=None, height=None, scale_mode=None, "
    f"scale_algo='bicubic', {CROP}, {FORM}, {DIRECT})",
    "crop": "(image, top, left, height, width)",
    "center_crop": "(image, output_size)",
    "resized_crop": "(image, top, left, height, width, size, *, scale_algo='bicubic')",
    "horizontal_flip": "(image)",
    "normalize": "(image, mean, std, *, dtype='float32', layout='HWC')",
    "random_horizontal_flip": "(p=0.5, *, seed=0, epoch=0, index=0)",
    "read_file": "(path)",
    "convert_frames": "(frames)",
    "to_numpy": "(buffer)",
    "to_torch": "(buffer)",
}


def bare(signature):
    """Return the signature without annotations."""
    parameters = [
        p.replace(annotation=inspect.Parameter.empty)
        for p in signature.parameters.values()
    ]
    return str(inspect.Signature(parameters))


@pytest.mark.parametrize(("name", "expected"), SIGNATURES.items())
def test_public_signatures(name, expected):
    function = getattr(headrace.io, name)
    assert bare(inspect.signature(function)) == expected
    for section in ["Args:", "Returns:", "Raises:"]:
        assert section in function.__doc__ or (name, section) == (
            "save_image",
            "Returns:",
        )


def test_everything_public_is_listed():
    classes = {"CPUBuffer", "CenterCrop", "RandomResizedCrop", "SlotFailure"}
    classes |= {"ImageInfo", "ImageLimits"}
    others = {"jpeg_counts"}
    assert classes | others | set(SIGNATURES) == set(headrace.io.__all__)


def test_extension_functions_have_signatures():
    functions = [f for f in vars(_ext).values() if inspect.isbuiltin(f)]
    assert len(functions) > 10
    for function in functions:
        inspect.signature(function)


@pytest.mark.parametrize(
    "name",
    [
        *("load_image", "load_image_batch", "resize", "image_info"),
        *("image_info_batch", "encode_image", "convert_frames", "transform"),
    ],
)
def test_an_op_takes_the_arguments_that_a_partial_binds(name):
    function = getattr(headrace.io, name)
    first, *rest = inspect.signature(function).parameters.values()
    assert first.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    expected = inspect.Signature(rest)
    op = inspect.signature(function.__headrace_op__)
    assert str(op) == bare(expected)


SIZE = {"width": 4, "height": 3}


@pytest.mark.parametrize(
    ("function", "name", "wants"),
    [
        (functools.partial(load_image), "load_image", "source"),
        (functools.partial(load_image, width=4), "load_image", "source"),
        (functools.partial(load_image_batch, **SIZE), "load_image_batch", "list"),
        (functools.partial(resize, **SIZE, scale_algo="box"), "resize", "array"),
        (functools.partial(read_file), "read_file", "source"),
        (functools.partial(load_image_frames), "load_image_frames", "source"),
        (functools.partial(image_info), "image_info", "source"),
        (functools.partial(image_info_batch), "image_info_batch", "list"),
        (functools.partial(encode_image, format="png"), "encode_image", "array"),
        (functools.partial(convert_frames), "convert_frames", "arrays"),
    ],
)
def test_a_partial_becomes_an_op(function, name, wants):
    op = function.func.__headrace_op__(**function.keywords)
    assert isinstance(op, _ext.Op)
    assert (op.name, op.wants) == (name, wants)
    assert repr(op) == f"Op('{name}', wants='{wants}')"


PIX_FMTS = "'rgb24', 'bgr24', 'gray', 'rgba', 'gray16' or 'rgb48'"
TURNS = "'apply' or 'ignore'"
COLOUR = "a tuple (red, green, blue) or None"
BAD_ARGUMENTS = [
    ({"width": 0}, ValueError, "width must be at least 1, not 0"),
    ({"height": -3}, ValueError, "height must be at least 1, not -3"),
    ({"width": -(2**70)}, ValueError, f"width must be at least 1, not {-(2**70)}"),
    ({"width": 2**70}, ValueError, f"width must be at most 65535, not {2**70}"),
    ({"width": 65536}, ValueError, "width must be at most 65535, not 65536"),
    ({"width": 4.0}, TypeError, "width must be an int or None, not float"),
    ({"width": True}, TypeError, "width must be an int or None, not bool"),
    ({"height": "4"}, TypeError, "height must be an int or None, not str"),
    ({"pix_fmt": "rgb"}, ValueError, f"pix_fmt must be {PIX_FMTS}, not 'rgb'"),
    ({"pix_fmt": None}, ValueError, f"pix_fmt must be {PIX_FMTS}, not None"),
    ({"orientation": None}, ValueError, f"orientation must be {TURNS}, not None"),
    ({"icc": "p3"}, ValueError, "icc must be 'srgb' or None, not 'p3'"),
    ({"frame": -1}, ValueError, "frame must be at least 0, not -1"),
    ({"frame": None}, TypeError, "frame must be an int, not NoneType"),
    ({"background": 0}, TypeError, f"background must be {COLOUR}, not 0"),
    ({"background": (0, 0)}, TypeError, f"background must be {COLOUR}, not (0, 0)"),
    (
        {"background": (0, 0, 256)},
        ValueError,
        "background must be at most 255, not 256",
    ),
    (
        {"limits": ImageLimits(pixels=0)},
        ValueError,
        "limits.pixels must be at least 1, not 0",
    ),
    (
        {"scale_mode": "fit"},
        ValueError,
        "scale_mode must be 'pad', 'crop' or None, not 'fit'",
    ),
    (
        {"scale_algo": "nearest"},
        ValueError,
        "scale_algo must be 'box', 'bilinear', 'bicubic' or 'lanczos', not 'nearest'",
    ),
]


@pytest.mark.parametrize(("kwargs", "error", "text"), BAD_ARGUMENTS)
def test_bad_arguments_are_refused_before_any_work(kwargs, error, text):
    kwargs = {**SIZE, **kwargs}
    calls = [
        lambda: load_image("no such file", **kwargs),
        lambda: load_image.__headrace_op__(**kwargs),
        lambda: load_image_batch(["no such file"], **kwargs),
        lambda: load_image_batch.__headrace_op__(**kwargs),
    ]
    for call in calls:
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value) == text


def test_sizes_may_be_any_integer():
    image = np.zeros((5, 5, 3), np.uint8)
    assert resize(image, width=np.int64(2), height=np.uint8(3)).shape == (3, 2, 3)


@pytest.mark.parametrize("missing", ["width", "height"])
def test_sizes_that_must_be_given(missing):
    kwargs = {**SIZE, missing: None}
    text = f"{missing} must be an int: all pictures of a batch have one size"
    for call in [
        functools.partial(load_image_batch, [b""], **kwargs),
        functools.partial(load_image_batch.__headrace_op__, **kwargs),
    ]:
        with pytest.raises(ValueError, match=text):
            call()
    text = f"{missing} must be an int, not NoneType"
    for call in [
        functools.partial(resize, np.zeros((2, 2), np.uint8), **kwargs),
        functools.partial(resize.__headrace_op__, **kwargs),
    ]:
        with pytest.raises(TypeError, match=text):
            call()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: load_image.__headrace_op__(size=3),
            "load_image() got an unexpected keyword argument 'size'",
        ),
        (
            lambda: resize.__headrace_op__(width=3),
            "resize() missing required argument 'height'",
        ),
        (
            lambda: load_image.__headrace_op__(3),
            "load_image() takes at most 0 positional arguments (1 given)",
        ),
        (
            lambda: _ext.load_image(b"", src=b""),
            "load_image() got multiple values for argument 'src'",
        ),
    ],
)
def test_wrong_calls(call, text):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == text


def test_a_name_cannot_be_bound_for_a_pipeline():
    text = "name labels one picture; a pipeline uses each item's own"
    with pytest.raises(ValueError, match=text):
        load_image.__headrace_op__(name="x")
    assert load_image.__headrace_op__(name=None).name == "load_image"


@pytest.mark.parametrize("src", [3, None, 1.5, object(), ["a.jpg"], {"a": 1}])
def test_no_source(src):
    text = "expected a path, encoded bytes or an array of them, found "
    with pytest.raises(TypeError) as caught:
        load_image(src)
    assert str(caught.value) == text + type(src).__name__
    with pytest.raises(TypeError) as caught:
        load_image_batch([b"", src], **SIZE)
    assert str(caught.value) == "item 1: " + text + type(src).__name__


@pytest.mark.parametrize("srcs", ["a.jpg", b"abc", np.zeros(3, np.uint8), iter([])])
def test_no_list_of_sources(srcs):
    with pytest.raises(TypeError) as caught:
        load_image_batch(srcs, **SIZE)
    found = type(srcs).__name__ if not isinstance(srcs, np.ndarray) else "numpy.ndarray"
    assert str(caught.value) == f"expected a list or tuple of sources, found {found}"


def test_an_empty_batch():
    for srcs in [[], ()]:
        with pytest.raises(ValueError, match=r"^srcs is empty$"):
            load_image_batch(srcs, **SIZE)


def test_nul_in_a_path():
    text = "path contains a NUL character"
    for path in ["a\0b", "é\0", pathlib.Path("a\0b")]:
        with pytest.raises(ValueError, match=f"^{text}$"):
            load_image(path)
        with pytest.raises(ValueError, match=f"^{text}$"):
            read_file(path)
        with pytest.raises(ValueError, match=f"^item 1: {text}$"):
            load_image_batch(["a", path], **SIZE)
    with pytest.raises(ValueError, match=r"^name contains a NUL character$"):
        load_image(b"", name="a\0b")


def test_a_path_that_cannot_be_encoded():
    for call in [
        lambda: load_image("\ud800"),
        lambda: read_file(pathlib.Path("\ud800")),
        lambda: load_image_batch(["a", "\ud800"], **SIZE),
    ]:
        with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
            call()


def test_a_name_is_text():
    with pytest.raises(TypeError, match=r"^name must be a str or None, not bytes$"):
        load_image(b"", name=b"x")


def test_a_path_object_may_raise():
    class Broken(os.PathLike):
        def __fspath__(self):
            raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        load_image(Broken())
    with pytest.raises(KeyError, match="lost"):
        load_image_batch([Broken()], **SIZE)


def test_a_list_may_change_while_it_is_read():
    class Shrinking(os.PathLike):
        def __fspath__(self):
            srcs.clear()
            return "no such file"

    srcs = [Shrinking(), "no such file", "no such file"]
    batch = load_image_batch(srcs, **SIZE, strict=False)
    assert [f.index for f in batch.failures] == [0, 1, 2]


def test_arrays_must_be_plain():
    strided = np.zeros((4, 6, 3), np.uint8)[:, ::2]
    with pytest.raises(
        TypeError,
        match=r"^expected a C-contiguous buffer; this numpy.ndarray is not one "
        r"\(ndarray is not C-contiguous\)$",
    ):
        _ext.as_buffer(strided)  # which shares memory
    with pytest.raises(TypeError, match=r"this numpy.ndarray is not one \(.*dtype 'M'"):
        resize(np.zeros((4, 4), "M8[s]"), **SIZE)
    for dtype in ["complex64", "S3", [("a", "u1")], ">u2"]:
        with pytest.raises(TypeError, match=r"^expected elements of a plain number"):
            _ext.as_buffer(np.zeros(3, dtype))
    with pytest.raises(TypeError, match=r"^expected at most 8 dimensions, found 9$"):
        _ext.as_buffer(np.zeros((1,) * 9, np.uint8))
    with pytest.raises(
        TypeError,
        match=r"^expected an array \(CPUBuffer or any object with the buffer "
        r"protocol\), found str$",
    ):
        resize("a.jpg", **SIZE)


def test_a_tensor_like_object_is_taken_by_its_numpy_method():
    class Tensor:
        def __init__(self, array):
            self.array = array

        def numpy(self):
            return self.array

    array = np.arange(6, dtype=np.float32)
    buffer = _ext.as_buffer(Tensor(array))
    assert np.asarray(buffer).ctypes.data == array.ctypes.data
    assert to_numpy(Tensor(array)) is array
    text = r"^Tensor.numpy\(\) returned no array but int$"
    with pytest.raises(TypeError, match=text):
        _ext.as_buffer(Tensor(3))


def test_as_buffer_shares_what_it_is_given():
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    buffer = _ext.as_buffer(array)
    assert (buffer.shape, buffer.dtype) == ((3, 4), "int32")
    assert np.asarray(buffer).ctypes.data == array.ctypes.data
    again = _ext.as_buffer(buffer)
    assert np.asarray(again).ctypes.data == array.ctypes.data
    for view in [memoryview(array), memoryview(array).cast("B")]:
        assert np.asarray(_ext.as_buffer(view)).ctypes.data == array.ctypes.data
    assert _ext.as_buffer(memoryview(array).cast("B")).shape == (48,)


class TestConvertFrames:
    """convert_frames copies equal pictures, or says which one differs."""

    def test_stacks(self):
        frames = [np.full((2, 4, 3), i, np.uint8) for i in range(5)]
        batch = convert_frames(tuple(frames))
        assert isinstance(batch, CPUBuffer)
        np.testing.assert_array_equal(np.asarray(batch), np.stack(frames))
        np.testing.assert_array_equal(
            np.asarray(convert_frames([batch, batch])), np.stack([np.stack(frames)] * 2)
        )

    def test_names_the_one_that_differs(self):
        good = np.zeros((4, 5, 3), np.uint8)
        for bad, text in [
            (np.zeros((4, 6, 3), np.uint8), "(4, 6, 3) uint8"),
            (np.zeros((4, 5, 3), np.uint16), "(4, 5, 3) uint16"),
            (np.zeros((4, 5), np.uint8), "(4, 5) uint8"),
        ]:
            with pytest.raises(ValueError) as caught:  # noqa: PT011
                convert_frames([good, good, bad, good])
            assert str(caught.value) == (
                f"frames[2] is {text}, but frames[0] is (4, 5, 3) uint8"
            )

    def test_refusals(self):
        with pytest.raises(ValueError, match=r"^frames is empty$"):
            convert_frames([])
        with pytest.raises(
            TypeError, match=r"^frames must be a list or tuple of arrays, not numpy"
        ):
            convert_frames(np.zeros((2, 4, 5, 3), np.uint8))
        with pytest.raises(ValueError, match=r"^frames have 8 dimensions; at most 7"):
            convert_frames([np.zeros((1,) * 8, np.uint8)])


def test_to_numpy_of_other_things():
    assert to_numpy(bytearray(b"ab")).tolist() == [97, 98]
    assert to_numpy(np.arange(3)).tolist() == [0, 1, 2]
    with pytest.raises(TypeError):
        to_numpy(3)


def test_to_torch():
    torch = pytest.importorskip("torch")
    tensor = to_torch(convert_frames([np.arange(3, dtype=np.uint8)]))
    assert isinstance(tensor, torch.Tensor)
    assert tensor.tolist() == [[0, 1, 2]]
    with pytest.raises(TypeError, match="__dlpack__"):
        to_torch(3)


def test_convert_frames_names_the_frame_that_is_none():
    frame = np.zeros((2, 2), np.uint8)
    with pytest.raises(
        TypeError, match=r"^frames\[1\]: expected an array .* NoneType$"
    ):
        convert_frames([frame, None])


def test_a_file_that_tells_no_size_is_not_taken_for_an_empty_one():
    with pytest.raises(FormatError, match=r"'/proc/self/status' tells no size"):
        read_file("/proc/self/status")


class Interface:
    """Nothing but an ``__array_interface__``."""

    def __init__(self, **interface):
        self.__array_interface__ = interface


def test_an_array_interface_is_enough():
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    whole = pixels.__array_interface__
    buffer = _ext.as_buffer(Interface(**whole, keep=pixels))
    assert np.shares_memory(to_numpy(buffer), pixels)
    data = Interface(typestr="|u1", shape=(2, 4, 3), data=pixels.tobytes(), version=3)
    assert to_numpy(_ext.as_buffer(data)).tolist() == pixels.tolist()
    assert _ext.as_buffer(data).readonly
    image = Image.fromarray(pixels)
    assert to_numpy(load_image(encode_image(image, format="png"))).tolist() == (
        pixels.tolist()
    )


@pytest.mark.parametrize(
    ("interface", "text"),
    [
        ({"typestr": "|V3"}, "has elements of no plain number type"),
        ({"typestr": ">u2"}, "has elements of no plain number type"),
        ({"strides": (1, 2)}, "has strides; a C-contiguous array is expected"),
        ({"shape": None}, "has no shape of at most 8 dimensions"),
        ({"shape": (-1,)}, "has a negative extent"),
        ({"shape": (2**62, 8)}, "has a shape too large"),
        ({"data": None}, "has no data"),
    ],
)
def test_array_interfaces_that_are_refused(interface, text):
    good = {"typestr": "|u1", "shape": (4,), "data": b"abcd", "version": 3}
    with pytest.raises(TypeError, match=f"^__array_interface__ {text}"):
        _ext.as_buffer(Interface(**{**good, **interface}))
    with pytest.raises(ValueError, match="buffer"):
        _ext.as_buffer(Interface(**{**good, "shape": (5,)}))
