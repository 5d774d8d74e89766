"""CPUBuffer through DLPack: both capsule forms, flags, copies, refusals."""

import ctypes

import numpy as np
import pytest

from headrace import _ext
from headrace.io import convert_frames

READ_ONLY = 1
IS_COPIED = 2


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Legacy(ctypes.Structure):
    _fields_ = [
        ("tensor", Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


def pointer(capsule, name):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    get.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)


def versioned(buffer, **kwargs):
    capsule = buffer.__dlpack__(max_version=(1, 0), **kwargs)
    return capsule, Versioned.from_address(pointer(capsule, b"dltensor_versioned"))


@pytest.fixture
def buffer():
    return convert_frames([np.arange(6, dtype=np.int16).reshape(2, 3)] * 4)


def check_tensor(tensor, buffer):
    assert tensor.data == np.asarray(buffer).ctypes.data
    assert (tensor.device_type, tensor.device_id) == (1, 0)
    assert tensor.ndim == 3
    assert (tensor.code, tensor.bits, tensor.lanes) == (0, 16, 1)
    assert tensor.shape[:3] == [4, 2, 3]
    assert tensor.strides[:3] == [6, 3, 1]
    assert tensor.byte_offset == 0


def test_legacy_capsule(buffer):
    for kwargs in [{}, {"max_version": None}, {"max_version": (0, 8)}]:
        capsule = buffer.__dlpack__(**kwargs)
        legacy = Legacy.from_address(pointer(capsule, b"dltensor"))
        check_tensor(legacy.tensor, buffer)
        assert legacy.deleter


def test_versioned_capsule(buffer):
    for newest in [(1, 0), (1, 3), (2, 0)]:
        capsule = buffer.__dlpack__(max_version=newest)
        managed = Versioned.from_address(pointer(capsule, b"dltensor_versioned"))
        assert (managed.major, managed.minor) == (1, 0)
        assert managed.flags == 0
        check_tensor(managed.tensor, buffer)


@pytest.mark.parametrize(
    ("dtype", "code", "bits"),
    [
        ("uint8", 1, 8),
        ("int64", 0, 64),
        ("float16", 2, 16),
        ("float32", 2, 32),
        ("bool", 6, 8),
    ],
)
def test_element_types(dtype, code, bits):
    pixels = np.array([[0, 1, 1]], dtype)
    buffer = convert_frames([pixels])
    capsule, managed = versioned(buffer)
    assert (managed.tensor.code, managed.tensor.bits) == (code, bits)
    assert np.from_dlpack(buffer).dtype == np.dtype(dtype)
    np.testing.assert_array_equal(np.from_dlpack(buffer)[0], pixels)
    del capsule


def test_the_device_is_the_cpu(buffer):
    assert buffer.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(buffer, device="cpu").shape == (4, 2, 3)
    buffer.__dlpack__(dl_device=(1, 0))


@pytest.mark.thread_unsafe(reason="counts live buffers of the process")
def test_a_copy_has_memory_of_its_own(buffer):
    array = np.from_dlpack(buffer, copy=True)
    shared = np.from_dlpack(buffer, copy=False)
    np.testing.assert_array_equal(array, shared)
    shared[0, 0, 0] = 99
    assert array[0, 0, 0] == 0
    assert array.ctypes.data != shared.ctypes.data
    capsule, managed = versioned(buffer, copy=True)
    assert managed.flags == IS_COPIED
    del capsule


def test_a_read_only_buffer_says_so():
    buffer = _ext.as_buffer(bytes(range(8)))
    capsule, managed = versioned(buffer)
    assert managed.flags == READ_ONLY
    del capsule
    array = np.from_dlpack(buffer)
    assert not array.flags.writeable
    with pytest.raises(
        BufferError,
        match=r"^a read-only CPUBuffer needs max_version=\(1, 0\): "
        r"older DLPack cannot say read-only$",
    ):
        buffer.__dlpack__()


def test_a_copy_of_a_read_only_buffer_is_writable():
    buffer = _ext.as_buffer(bytes(range(8)))
    capsule, managed = versioned(buffer, copy=True)
    assert managed.flags == IS_COPIED
    assert buffer.__dlpack__(copy=True) is not None
    array = np.from_dlpack(buffer, copy=True)
    array[0] = 9
    assert bytes(buffer) == bytes(range(8))
    del capsule


@pytest.mark.parametrize(
    ("kwargs", "error", "text"),
    [
        (
            {"stream": 1},
            BufferError,
            "stream must be None for memory on the CPU, not 1",
        ),
        (
            {"dl_device": (2, 0)},
            BufferError,
            "CPUBuffer can be exported to the CPU (1, 0), not to (2, 0)",
        ),
        (
            {"max_version": 1},
            TypeError,
            "max_version must be a tuple of two ints or None, not 1",
        ),
        (
            {"dl_device": (1, 0, 0)},
            TypeError,
            "dl_device must be a tuple of two ints or None, not (1, 0, 0)",
        ),
        (
            {"version": 1},
            TypeError,
            "__dlpack__() got an unexpected keyword argument 'version'",
        ),
    ],
)
def test_refusals(buffer, kwargs, error, text):
    with pytest.raises(error) as caught:
        buffer.__dlpack__(**kwargs)
    assert str(caught.value) == text


def test_takes_no_positional_arguments(buffer):
    with pytest.raises(TypeError, match="at most 0 positional arguments"):
        buffer.__dlpack__(None)


def test_torch_shares_the_memory(buffer):
    torch = pytest.importorskip("torch")
    tensor = torch.from_dlpack(buffer)
    assert tensor.data_ptr() == np.asarray(buffer).ctypes.data
    assert tuple(tensor.shape) == buffer.shape
