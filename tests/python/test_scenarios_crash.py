"""Scenario E8: the process crashes in an operation, and says where each thread was.

Each test is about a child that really crashes: its code, its end, what it wrote.
"""

import re
import signal
import sys
import textwrap

import pytest
from scenario_kit import run_child

# Does the interpreter report the crash as well?
BOTH = pytest.mark.parametrize("fault_handler", [True, False], ids=["on", "off"])

PROLOGUE = """
import asyncio, ctypes, faulthandler, os, resource, sys, threading, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from headrace.pipeline import (
    PipelineBuilder, disable_crash_report, enable_crash_report
)

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
if not faulthandler.is_enabled():
    enable_crash_report()

def build(source, op, threads=1, **options):
    builder = PipelineBuilder().add_source(source).pipe(op, **options)
    return builder.add_sink().build(num_threads=threads)

def crash_at_seven(item):
    if item == 7:
        ctypes.string_at(0)
    return item
"""


def crash(body, *, fault_handler=False, number=signal.SIGSEGV):
    """Run code that ends by a signal; return headrace's lines and all it wrote."""
    flags = ["-X", "faulthandler"] if fault_handler else []
    code = PROLOGUE + textwrap.dedent(body)
    ended = run_child([sys.executable, *flags, "-c", code], seconds=60)
    assert ended.code == -number, str(ended)
    assert not ended.orphans
    # Python's own report, of the same crash, comes after ours.
    assert ("Fatal Python error" in ended.err) == fault_handler, str(ended)
    lines = [line for line in ended.err.splitlines() if line.startswith("headrace: ")]
    if lines and fault_handler:
        assert ended.err.index(lines[0]) < ended.err.index("Fatal Python error")
    return lines, ended.err


pytestmark = pytest.mark.thread_unsafe(reason="starts processes")


@BOTH
def test_E8_a_function(fault_handler):
    lines, _ = crash(
        "list(build(range(20), crash_at_seven))", fault_handler=fault_handler
    )
    assert lines == [
        "headrace: SIGSEGV in thread hr-work-0: stage 'crash_at_seven', item 7"
    ]


@BOTH
def test_E8_a_generator(fault_handler):
    lines, _ = crash(
        """
        def twice(item):
            yield item
            yield crash_at_seven(item)
        list(build(range(20), twice))
        """,
        fault_handler=fault_handler,
    )
    assert lines == ["headrace: SIGSEGV in thread hr-work-0: stage 'twice', item 7"]


@BOTH
def test_E8_the_source(fault_handler):
    """Which a helper or the consumer advances; a worker may be at the item before."""
    lines, _ = crash(
        "list(build(map(crash_at_seven, range(20)), lambda item: item))",
        fault_handler=fault_handler,
    )
    assert re.fullmatch(
        "headrace: SIGSEGV in (thread hr-source|thread hr-work-0|a consumer's thread)"
        ": stage 'source', item 7",
        lines[0],
    )


@BOTH
def test_E8_a_native_operation(fault_handler, tmp_path):
    """A decoder that reads what is not there: the file behind a mapping has shrunk."""
    (tmp_path / "good.png").write_bytes(_png())
    lines, _ = crash(
        f"""
        import mmap
        from headrace.io import load_image
        path = {str(tmp_path / "shrunk")!r}
        with open(path, "wb+") as file:
            file.truncate(4096)
            gone = mmap.mmap(file.fileno(), 4096)
            file.truncate(0)
        good = {str(tmp_path / "good.png")!r}
        list(build([good, good, memoryview(gone)], load_image))
        """,
        fault_handler=fault_handler,
        number=signal.SIGBUS,
    )
    assert lines == ["headrace: SIGBUS in thread hr-work-0: stage 'load_image', item 2"]


@BOTH
def test_E8_a_slot_of_a_batch(fault_handler, tmp_path):
    lines, _ = crash(
        f"""
        import mmap
        from functools import partial
        from headrace.io import load_image_batch
        with open({str(tmp_path / "shrunk")!r}, "wb+") as file:
            file.truncate(4096)
            gone = mmap.mmap(file.fileno(), 4096)
            file.truncate(0)
        load = partial(load_image_batch, width=8, height=8)
        list(build([[memoryview(gone)]], load))
        """,
        fault_handler=fault_handler,
        number=signal.SIGBUS,
    )
    assert lines == [
        "headrace: SIGBUS in thread hr-work-0: stage 'load_image_batch', item 0, slot 0"
    ]


def _png():
    from io import BytesIO

    from PIL import Image

    out = BytesIO()
    Image.new("RGB", (4, 4)).save(out, "png")
    return out.getvalue()


def test_E8_items_have_their_labels(tmp_path):
    """What a native stage has read is still called by its path in the next one."""
    path = tmp_path / "seven.bin"
    path.write_bytes(b"7")
    lines, _ = crash(
        f"""
        from headrace.io import read_file
        builder = PipelineBuilder().add_source([{str(path)!r}]).pipe(read_file)
        builder.pipe(lambda data: ctypes.string_at(0), name="parse")
        list(builder.add_sink().build(num_threads=1))
        """
    )
    assert lines == [
        f"headrace: SIGSEGV in thread hr-work-0: stage 'parse', item 0 ('{path}')"
    ]


@BOTH
def test_E8_the_other_threads(fault_handler):
    lines, _ = crash(
        """
        waiting = threading.Event()
        def op(item):
            if item == 2:
                waiting.set()
                time.sleep(60)
            if item == 3:
                waiting.wait()
                ctypes.string_at(0)
            return item
        list(build(range(20), op, threads=2, concurrency=2))
        """,
        fault_handler=fault_handler,
    )
    first, *others = lines
    found = re.fullmatch(
        "headrace: SIGSEGV in thread hr-work-([01]): stage 'op', item 3", first
    )
    assert found
    other = 1 - int(found[1])
    assert others == [f"headrace: thread hr-work-{other}: stage 'op', item 2"]


@BOTH
def test_E8_a_coroutine(fault_handler):
    """Those that were in flight are told of, for any of them may be the one."""
    lines, _ = crash(
        """
        async def op(item):
            if item == 1:
                await asyncio.sleep(60)
            await asyncio.sleep(0.01)
            return crash_at_seven(item)
        list(build(range(8), op, concurrency=2))
        """,
        fault_handler=fault_handler,
    )
    assert lines[0] == "headrace: SIGSEGV in thread hr-asyncio: between tasks"
    assert set(lines[1:]) == {
        "headrace: in flight: stage 'op', item 1",
        "headrace: in flight: stage 'op', item 7",
    }


@BOTH
def test_E8_a_thread_of_an_executor(fault_handler):
    lines, _ = crash(
        """
        pool = ThreadPoolExecutor(1)
        list(build([1, 7], crash_at_seven, executor=pool, concurrency=1))
        """,
        fault_handler=fault_handler,
    )
    assert lines == [
        "headrace: SIGSEGV in a thread of no pipeline",
        "headrace: in flight: stage 'crash_at_seven', item 1",
    ]


def test_E8_another_process_is_survived():
    """Isolation: the pool's process dies, ours goes on, and knows the item."""
    code = """
import ctypes, os, resource, sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from headrace.pipeline import PipelineBuilder

def op(item):
    if item == 7:
        ctypes.string_at(0)
    return item

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with ProcessPoolExecutor(1) as pool:
        builder = PipelineBuilder().add_source(range(20))
        builder.pipe(op, executor=pool, concurrency=1)
        pipeline = builder.add_sink().build(num_threads=1)
        got = []
        try:
            got.extend(pipeline)
        except BrokenProcessPool as error:
            print(got, error.__notes__)
        else:
            sys.exit("nothing was raised")
        pipeline.stop()
"""
    ended = run_child([sys.executable, "-X", "faulthandler", "-c", code], seconds=60)
    assert ended.code == 0, str(ended)
    assert "headrace: items in the executor when it broke: 7" in ended.out
    # Nothing of it is reported as a crash of ours: only the pool's process has died.
    assert "headrace: SIG" not in ended.err


@BOTH
def test_E8_an_abort(fault_handler):
    lines, _ = crash(
        "list(build([0], lambda item: os.abort(), name='op'))",
        fault_handler=fault_handler,
        number=signal.SIGABRT,
    )
    assert lines == ["headrace: SIGABRT in thread hr-work-0: stage 'op', item 0"]


def test_E8_enabled_in_any_order():
    """Before faulthandler, after it, twice around it: each report is written once."""
    for order in (
        "enable_crash_report(); faulthandler.enable()",
        "disable_crash_report(); faulthandler.enable(); enable_crash_report()",
        "enable_crash_report(); faulthandler.enable(); enable_crash_report()",
    ):
        code = PROLOGUE + f"{order}\nlist(build(range(20), crash_at_seven))"
        ended = run_child([sys.executable, "-c", code], seconds=60)
        assert ended.code == -signal.SIGSEGV, str(ended)
        assert ended.err.count("Fatal Python error") == 1, (order, ended.err)
        assert ended.err.count("headrace: SIGSEGV in thread hr-work-0") == 1, order


def test_E8_to_a_file_or_not_at_all(tmp_path):
    path = tmp_path / "crash.txt"
    lines, _ = crash(
        f"""
        enable_crash_report(open({str(path)!r}, "w"))
        list(build(range(20), crash_at_seven))
        """
    )
    assert lines == []
    assert path.read_text() == (
        "headrace: SIGSEGV in thread hr-work-0: stage 'crash_at_seven', item 7\n"
    )
    lines, _ = crash(
        """
        disable_crash_report()
        list(build(range(20), crash_at_seven))
        """,
        fault_handler=True,
    )
    assert lines == []


def test_E8_not_a_file():
    code = PROLOGUE + textwrap.dedent(
        """
        sys.stderr = None
        for file, kind in ((None, RuntimeError), (3, AttributeError)):
            try:
                enable_crash_report(file)
            except kind:
                pass
            else:
                sys.exit(f"{file} was taken")
        """
    )
    ended = run_child([sys.executable, "-c", code], seconds=30)
    assert ended.code == 0, str(ended)
