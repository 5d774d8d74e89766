"""CPUBuffer as an object: attributes, the buffer protocol, __array_interface__."""

import ctypes
import inspect
import pickle
import weakref

import numpy as np
import pytest

from headrace import _ext
from headrace.io import CPUBuffer, convert_frames, to_numpy

DTYPES = [
    ("uint8", "B", "|u1"),
    ("int8", "b", "|i1"),
    ("uint16", "H", "<u2"),
    ("int16", "h", "<i2"),
    ("uint32", "I", "<u4"),
    ("int32", "i", "<i4"),
    ("uint64", "L", "<u8"),
    ("int64", "l", "<i8"),
    ("float16", "e", "<f2"),
    ("float32", "f", "<f4"),
    ("float64", "d", "<f8"),
    ("bool", "?", "|b1"),
]


def counted(shape, dtype="uint8"):
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


@pytest.mark.parametrize(("dtype", "fmt", "typestr"), DTYPES)
def test_describes_its_elements(dtype, fmt, typestr):
    pixels = counted((2, 3), dtype)
    buffer = convert_frames([pixels, pixels])
    view = memoryview(buffer)
    assert buffer.shape == view.shape == (2, 2, 3)
    assert buffer.ndim == view.ndim == 3
    assert buffer.dtype == dtype
    assert buffer.nbytes == view.nbytes == 12 * pixels.itemsize
    assert view.format == fmt
    assert view.strides == (6 * pixels.itemsize, 3 * pixels.itemsize, pixels.itemsize)
    assert view.c_contiguous
    assert not view.readonly
    assert not buffer.readonly
    assert buffer.__array_interface__["typestr"] == typestr
    array = to_numpy(buffer)
    assert array.dtype == np.dtype(dtype)
    assert array.dtype.num == np.dtype(dtype).num
    np.testing.assert_array_equal(array, np.stack([pixels, pixels]))


def test_array_interface_is_version_3():
    buffer = convert_frames([counted((4, 5))])
    interface = buffer.__array_interface__
    address = np.asarray(buffer).ctypes.data
    assert interface == {
        "shape": (1, 4, 5),
        "typestr": "|u1",
        "data": (address, False),
        "strides": None,
        "version": 3,
    }
    assert address % 256 == 0

    class Foreign:
        def __init__(self, interface, keep):
            self.__array_interface__ = interface
            self.keep = keep

    array = np.asarray(Foreign(interface, buffer))
    assert array.ctypes.data == address
    np.testing.assert_array_equal(array, counted((1, 4, 5)))


def test_all_views_share_one_memory():
    buffer = convert_frames([counted((4, 5))])
    first = np.asarray(buffer)
    second = np.frombuffer(buffer, np.uint8)
    third = np.from_dlpack(buffer)
    first[0, 1, 2] = 200
    assert second[7] == 200
    assert third[0, 1, 2] == 200
    assert memoryview(buffer)[0, 1, 2] == 200
    assert bytes(buffer)[7] == 200
    addresses = {first.ctypes.data, second.ctypes.data, third.ctypes.data}
    assert len(addresses) == 1


def test_length_is_the_first_extent():
    assert len(convert_frames([counted((4, 5))] * 3)) == 3
    with pytest.raises(TypeError, match=r"^len\(\) of a CPUBuffer without dimensions$"):
        len(_ext.as_buffer(np.array(7, np.int32)))


def test_scalar_and_empty_arrays():
    scalar = _ext.as_buffer(np.array(7, np.int32))
    assert scalar.shape == ()
    assert scalar.nbytes == 4
    assert int(np.asarray(scalar)) == 7
    assert int(np.from_dlpack(scalar)) == 7
    empty = convert_frames([np.zeros((0, 3), np.float32)] * 2)
    assert empty.shape == (2, 0, 3)
    assert empty.nbytes == 0
    assert np.asarray(empty).shape == (2, 0, 3)
    assert np.from_dlpack(empty).shape == (2, 0, 3)
    assert bytes(empty) == b""


def test_repr_says_what_it_holds():
    assert repr(convert_frames([counted((4, 5))])) == (
        "CPUBuffer(shape=(1, 4, 5), dtype='uint8')"
    )
    assert repr(_ext.as_buffer(b"abc")) == (
        "CPUBuffer(shape=(3,), dtype='uint8', readonly=True)"
    )


def test_a_read_only_source_gives_a_read_only_buffer():
    source = bytes(range(10))
    buffer = _ext.as_buffer(source)
    assert buffer.readonly
    assert memoryview(buffer).readonly
    assert buffer.__array_interface__["data"][1] is True
    array = np.asarray(buffer)
    assert not array.flags.writeable
    assert array.ctypes.data == np.frombuffer(source, np.uint8).ctypes.data
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_writable_buffer_refused_when_read_only():
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    view = ctypes.create_string_buffer(128)
    writable = 1
    with pytest.raises(BufferError, match=r"^CPUBuffer is read-only$"):
        get(_ext.as_buffer(b"abc"), view, writable)
    writable = convert_frames([counted((3,))])
    chars = (ctypes.c_ubyte * 3).from_buffer(writable)
    chars[0] = 77
    assert bytes(writable) == bytes([77, 1, 2])


def test_attributes_cannot_be_changed():
    buffer = convert_frames([counted((4, 5))])
    with pytest.raises(AttributeError):
        buffer.shape = (20,)
    with pytest.raises(AttributeError):
        buffer.anything = 1
    with pytest.raises(TypeError, match="immutable type"):
        CPUBuffer.anything = 1


def test_is_made_by_headrace_alone():
    with pytest.raises(TypeError, match="cannot create"):
        CPUBuffer()
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(convert_frames([counted((2,))]))


def test_has_no_failures_unless_a_batch():
    assert convert_frames([counted((4, 5))]).failures == ()


def test_can_be_referred_to_weakly():
    buffer = convert_frames([counted((4, 5))])
    seen = []
    ref = weakref.ref(buffer, seen.append)
    assert ref() is buffer
    del buffer
    assert ref() is None
    assert seen == [ref]


def test_methods_have_signatures():
    assert str(inspect.signature(CPUBuffer.__dlpack__)) == (
        "(self, /, *, stream=None, max_version=None, dl_device=None, copy=None)"
    )
    assert str(inspect.signature(CPUBuffer.__dlpack_device__)) == "(self, /)"
    assert CPUBuffer.__module__ == "headrace.io"
    assert inspect.getdoc(CPUBuffer).startswith("An array in pooled memory")
