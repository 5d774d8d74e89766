"""Scenarios R1 to R3, R6, R7: threads, memory, descriptors, processors and clocks.

The C tests fail every single call of the core in turn (engine_fault_test.c and others);
here the system itself refuses, or Python's allocator does.
"""

import gc
import os
import resource
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from scenario_kit import (
    SLOWNESS,
    await_threads,
    build,
    consume,
    ledger,
    logged,
    realtime_jumps,
    scenario,
    thread_names,
    together,
    wait_until,
)

from headrace import _ext
from headrace.io import load_image

PICTURE = str(Path(__file__).parents[1] / "data" / "ok.jpg")
MIB = 1 << 20


def inc(x):
    return x + 1


async def async_inc(x):
    return x + 1


@contextmanager
def limited(kind, value):
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def works():
    """And leaves nothing that would count."""
    assert list(build(range(50), inc, async_inc)) == list(range(2, 52))
    await_threads()


# ---- R1: threads ----


def run_with_little():
    """What a pipeline gives that wants six threads; None: it says that it can't."""
    pipeline = build(range(300), inc, threads=4, concurrency=2, output_order="input")
    try:
        pipeline.start()
    except (RuntimeError, OSError, MemoryError) as error:
        assert "thread" in str(error) or isinstance(error, MemoryError), error
        pipeline.stop()
        await_threads()
        return None
    got, raised = consume(pipeline)
    pipeline.stop()
    assert raised is None or isinstance(raised, MemoryError)
    failures = list(pipeline.failures)
    assert all(isinstance(f.exception, MemoryError) for f in failures)
    lost = {f.index for f in failures}
    emitted = pipeline.stats().stages[0].items_out
    assert emitted == 300 or raised
    assert got == [x + 1 for x in range(emitted) if x not in lost]
    ledger(pipeline, emitted)
    return got


@scenario
def test_R1_the_kth_thread_cannot_be_had():
    """By RLIMIT_NPROC, which root is exempt from."""
    works()
    if os.getuid() == 0:
        uid = 50_000 + os.getpid() % 10_000  # nobody else's
        os.setresuid(uid, uid, uid)
    else:
        return  # processes of the user's own would count
    here = len(thread_names())
    outcomes = []
    for k in range(9):
        with limited(resource.RLIMIT_NPROC, here + k):
            outcomes.append(run_with_little())
        works()
    # A timer thread, the source's helper and one worker are needed, six are wanted.
    assert outcomes[:3] == [None] * 3
    assert outcomes[3:] == [list(range(1, 301))] * 6
    warnings = [text for text in logged if "threads could be started" in text]
    assert [text.split(":")[0] for text in warnings] == [
        f"only {n} of 4 threads could be started" for n in (1, 2, 3)
    ]


@scenario(shows="can't start new thread")
def test_R1_the_thread_of_the_event_loop_cannot_be_had():
    if os.getuid() != 0:
        return
    works()
    uid = 50_000 + os.getpid() % 10_000
    os.setresuid(uid, uid, uid)
    here = len(thread_names())
    for op in (async_inc, lambda x: async_inc(x)):
        with limited(resource.RLIMIT_NPROC, here + 4):  # timers, source, 2 workers
            pipeline = build(range(40), op, threads=2)
            got, raised = consume(pipeline)
            assert got == []
            if op is async_inc:
                assert "thread" in str(raised)
            else:
                assert raised is None
                assert len(pipeline.failures) == 40
            pipeline.stop()
        await_threads()
        works()


# ---- R1 and R2: address space ----


def address_space():
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


@scenario(seconds=60)
def test_R2_address_space_runs_out():
    """Stacks, arenas, items: whatever it is that fails, it is told, and heals."""
    if SLOWNESS > 1:
        return  # sanitizers need terabytes of it
    works()
    whole = 0
    for step in range(0, 260, 4):
        with limited(resource.RLIMIT_AS, address_space() + step * MIB):
            got = run_with_little()
        whole += got == list(range(1, 301))
    assert whole > 30
    works()


@scenario
def test_R2_one_picture_is_too_large():
    from PIL import Image

    if SLOWNESS > 1:
        return
    with tempfile.TemporaryDirectory() as folder:
        large = f"{folder}/large.png"
        image = Image.new("L", (12_000, 10_000))
        image.paste(Image.effect_noise((700, 700), 100))  # else it is taken for a bomb
        image.save(large)
        paths = [PICTURE, large, PICTURE, PICTURE, large, PICTURE]
        works()
        before = _ext.pool_stats()["live_count"]
        with limited(resource.RLIMIT_AS, address_space() + 200 * MIB):
            pipeline = build(paths, load_image, output_order="input")
            assert len(list(pipeline)) == 4
        failures = list(pipeline.failures)
        assert [f.index for f in failures] == [1, 4]
        assert all(isinstance(f.exception, MemoryError) for f in failures)
        assert all(f.item == large for f in failures)
        ledger(pipeline, 6)
        assert _ext.pool_stats()["live_count"] == before
        shapes = [image.shape for image in build(paths[:2], load_image)]
        assert shapes[1][:2] == (10_000, 12_000)


@scenario(seconds=90, shows=None)
def test_R2_each_allocation_of_python_fails_in_turn():
    """While a run is under way: an item fails or none, and nothing is lost.

    Threads have been in Python before: CPython 3.11 crashes without memory for the
    state of a thread.
    """
    try:
        from _testcapi import remove_mem_hooks, set_nomemory
    except ImportError:
        return

    def spread(x):
        yield x

    def attempt(n, failing):
        pipeline = build((x for x in range(100)), inc, spread, threads=1, sink=1)
        iterator = iter(pipeline)
        assert next(iterator) == 1
        got = [1] + [0] * 100  # to write to it takes no memory
        count = 1
        set_nomemory(n, n + failing)
        try:
            for got[count] in iterator:
                count += 1
        except MemoryError:
            remove_mem_hooks()
            for got[count] in iterator:
                count += 1
        finally:
            remove_mem_hooks()
        pipeline.stop()
        return got[:count], pipeline

    outcomes = []
    for failing in (1, 4):
        for n in range(20, 420, 3):
            got, pipeline = attempt(n, failing)
            failures = pipeline.failures
            assert all(type(f.exception) is MemoryError for f in failures)
            lost = {f.index for f in failures}
            emitted = pipeline.stats().stages[0].items_out  # the source may have failed
            assert got == [x + 1 for x in range(emitted) if x not in lost]
            ledger(pipeline, emitted)
            outcomes.append(len(lost))
    assert 0 in outcomes
    assert any(outcomes)
    works()


# ---- R3: descriptors ----


def open_descriptors():
    return len(os.listdir("/proc/self/fd")) - 1


@scenario
def test_R3_no_descriptor_is_left_for_files():
    paths = [PICTURE] * 20
    works()
    for left in range(4):
        with limited(resource.RLIMIT_NOFILE, open_descriptors() + left):
            pipeline = build(paths, load_image, output_order="input")
            got = list(pipeline)
        if left == 0:
            assert got == []
            assert len(pipeline.failures) == 20
            for failure in pipeline.failures:
                assert failure.exception.errno == 24
                assert PICTURE in str(failure.exception)
        else:
            assert len(got) == 20
        ledger(pipeline, 20)
        assert len(list(build(paths, load_image))) == 20


@scenario
def test_R3_no_descriptor_is_left_for_an_event_loop():
    """It needs several, at the start and none for an item."""
    import sys

    sys.unraisablehook = lambda what: None  # asyncio's own, of a loop half made
    works()
    outcomes = []
    for left in range(12):
        descriptors = open_descriptors()
        with limited(resource.RLIMIT_NOFILE, descriptors + left):
            pipeline = build(range(30), async_inc)
            got, raised = consume(pipeline)
            outcomes.append(raised is None)
            if raised is None:
                assert got == list(range(1, 31))
            else:
                assert isinstance(raised, OSError), raised
                assert raised.errno == 24
                assert got == []
            pipeline.stop()
            del pipeline, raised
            gc.collect()
        works()
        assert open_descriptors() == descriptors
    assert outcomes == sorted(outcomes)
    assert outcomes[0] is False
    assert outcomes[-1] is True


# ---- R6: one processor ----


@scenario
def test_R6_one_processor_and_low_priority():
    """Many threads share it: all get on, and who waits does not spin."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.nice(19)

    def op(x):
        time.sleep(0.001)
        return x

    begin, used = time.monotonic(), time.process_time()
    pipelines = [
        build(range(200), op, threads=4, concurrency=4),
        build(range(5000), inc, async_inc, threads=4, concurrency=3),
        build(range(5000), _ext.noop_op(), _ext.noop_op(), threads=4, concurrency=3),
        build([PICTURE] * 40, load_image, threads=4, concurrency=4),
    ]
    counts = together(4, lambda i: len(list(pipelines[i])))
    assert counts == [200, 5000, 5000, 40]
    for pipeline, n in zip(pipelines, counts, strict=True):
        ledger(pipeline, n)
    assert time.monotonic() - begin < 20 * SLOWNESS
    assert time.process_time() - used < 3 * SLOWNESS


# ---- R7: clocks that jump ----


@scenario(preload=True)
def test_R7_the_wall_clock_jumps():
    """By a day, to and fro, every millisecond. All waits are on the monotonic clock."""
    from headrace.pipeline import Retry

    tries = []

    def fails_once(x):
        tries.append((x, time.monotonic()))
        if len(tries) < 3:
            raise OSError
        return x

    with realtime_jumps(86_400):
        gate = threading.Event()
        for op in (inc, async_inc):
            pipeline = build(iter(lambda: gate.wait(20), True), op)
            for timeout in (0.05, 0.2, 0.4):
                begin = time.monotonic()
                try:
                    pipeline.get_item(timeout=timeout)
                except TimeoutError:
                    pass
                took = time.monotonic() - begin
                assert timeout <= took < timeout + 0.3 * SLOWNESS, (timeout, took)
            gate.set()
            pipeline.stop()
            gate.clear()
        pipeline = build([1], fails_once, retry=Retry(5, backoff=0.1))
        assert list(pipeline) == [1]
        assert tries[-1][1] - tries[0][1] < 2 * SLOWNESS  # up to 0.1 and 0.2 s
        stuck = threading.Event()
        pipeline = build([1], lambda x: stuck.wait(20))
        pipeline.start()
        wait_until(lambda: pipeline.stats().stages[1].running == 1)
        begin = time.monotonic()
        try:
            pipeline.stop(timeout=0.2)
        except TimeoutError:
            pass
        assert 0.2 <= time.monotonic() - begin < 0.5 * SLOWNESS
        stuck.set()
        pipeline.stop()
        assert list(build(range(2000), inc, async_inc)) == list(range(2, 2002))
        assert 0 < pipeline.stats().elapsed < 20
