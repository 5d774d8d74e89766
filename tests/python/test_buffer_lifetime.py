"""Memory lives as long as anybody looks at it, in every order of deletion."""

import ctypes
import gc
import itertools
import sys
import threading

import numpy as np
import pytest

from headrace import _ext
from headrace.io import convert_frames

pytestmark = pytest.mark.thread_unsafe(reason="counts live buffers of the process")


def live():
    gc.collect()
    return _ext.pool_stats()["live_count"]


VIEWS = {
    "memoryview": memoryview,
    "asarray": np.asarray,
    "dlpack": np.from_dlpack,
    "capsule": lambda buffer: buffer.__dlpack__(),
    "versioned capsule": lambda buffer: buffer.__dlpack__(max_version=(1, 0)),
}


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_any_order_of_deletion(order):
    before = live()
    buffer = convert_frames([np.full((8, 8), 5, np.uint8)])
    holders = [buffer, memoryview(buffer), np.asarray(buffer), np.from_dlpack(buffer)]
    del buffer
    assert live() == before + 1
    for step, i in enumerate(order):
        for holder in holders:
            if holder is not None:
                assert bytes(holder) == b"\5" * 64
        holder = holders[i] = None
        assert live() == before + (1 if step < 3 else 0)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_a_view_outlives_the_buffer(view):
    before = live()
    buffer = convert_frames([np.full((8, 8), 5, np.uint8)])
    seen = view(buffer)
    del buffer
    assert live() == before + 1
    del seen
    assert live() == before


def test_a_copy_does_not_hold_the_buffer():
    before = live()
    buffer = convert_frames([np.full((8, 8), 5, np.uint8)])
    copy = np.from_dlpack(buffer, copy=True)
    assert live() == before + 2
    del buffer
    assert live() == before + 1
    assert copy.sum() == 320
    del copy
    assert live() == before


def test_a_wrapped_object_lives_as_long_as_its_views():
    before = live()
    source = bytes(range(100))
    references = sys.getrefcount(source)
    buffer = _ext.as_buffer(source)
    array = np.from_dlpack(buffer)
    assert sys.getrefcount(source) > references
    del buffer
    assert sys.getrefcount(source) > references
    assert array[99] == 99
    del array
    assert live() == before
    assert sys.getrefcount(source) == references


def test_a_wrapped_bytearray_keeps_its_size_meanwhile():
    source = bytearray(b"abcd")
    buffer = _ext.as_buffer(source)
    assert not buffer.readonly
    np.asarray(buffer)[0] = ord("z")
    assert source == b"zbcd"
    with pytest.raises(BufferError):
        source.append(1)
    del buffer
    source.append(1)
    assert source == b"zbcd\1"


def deleter_of(capsule):
    """Take a capsule's tensor as a consumer does: (deleter address, tensor address)."""
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
    tensor = api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
    api.PyCapsule_SetName(capsule, USED)
    deleter = ctypes.c_void_p.from_address(tensor + 16).value
    return deleter, tensor


USED = ctypes.create_string_buffer(b"used_dltensor_versioned")


def call_detached(deleter, tensor):
    """Call it in this thread without the GIL, as ctypes calls foreign functions."""
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(tensor)


def call_in_foreign_thread(deleter, tensor):
    """Call it in a thread that Python knows nothing of."""
    libc = ctypes.CDLL(None)
    thread = ctypes.c_ulong()
    libc.pthread_create.argtypes = [ctypes.c_void_p] * 4
    libc.pthread_join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
    assert libc.pthread_create(ctypes.addressof(thread), None, deleter, tensor) == 0
    assert libc.pthread_join(thread, None) == 0


@pytest.mark.parametrize("call", [call_detached, call_in_foreign_thread])
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_a_release_without_python_is_queued(call, kind):
    before = live()
    source = kind(bytearray(b"abcd"))  # no constant, which lives for ever
    references = sys.getrefcount(source)
    deleter, tensor = deleter_of(_ext.as_buffer(source).__dlpack__(max_version=(1, 0)))
    call(deleter, tensor)
    assert sys.getrefcount(source) == references + 1
    assert live() == before
    assert sys.getrefcount(source) == references
    if kind is bytearray:
        source.append(1)
        assert source == b"abcd\1"


def test_many_queued_releases_are_all_drained():
    before = live()
    sources = [bytes([i % 256]) * 3 for i in range(1000)]
    references = [sys.getrefcount(s) for s in sources]
    for source in sources:
        capsule = _ext.as_buffer(source).__dlpack__(max_version=(1, 0))
        call_detached(*deleter_of(capsule))
    del source
    assert live() == before
    assert [sys.getrefcount(s) for s in sources] == references


def test_a_destructor_may_call_back():
    """What a drained release runs may itself enter the extension and be drained."""
    before = live()
    events = []

    class Loud(bytearray):
        def __del__(self):
            events.append(_ext.as_buffer(b"xyz").shape)

    for _ in range(3):
        capsule = _ext.as_buffer(Loud(b"abcd")).__dlpack__(max_version=(1, 0))
        call_detached(*deleter_of(capsule))
    del capsule
    assert live() == before
    assert events == [(3,)] * 3


def test_threads_share_and_drop_buffers():
    before = live()

    def work():
        for i in range(200):
            buffer = convert_frames([np.full((16, 16), i % 250, np.uint8)] * 2)
            array = np.from_dlpack(buffer)
            del buffer
            assert array.min() == array.max() == i % 250

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert live() == before
