"""Scenarios: tests that run in a process of their own and leave nothing behind.

`scenario` makes a test of a function whose body runs in a fresh interpreter:

    @scenario
    def test_S1_the_source_raises():
        pipeline = build(failing())
        ...
        assert ledger(pipeline) == {"delivered": 3, "failed": 0, ...}

The parent, under pytest, starts ``python -c``, waits with a deadline, and fails the
test with what the child says. The child imports the test's module, measures what it has
(threads, child processes, descriptors, shared memory, buffers of the pool), calls the
function, and waits until it has no more than that again. When it hangs, faulthandler
prints all stacks (asked by a signal: its own watchdog does not survive a fork). Nothing
may be written to stderr, and no process be left over.

A scenario about the end of the process itself (`exits`) skips the second measurement:
there the parent sees that the process is gone in time, with the expected exit code.

The child does not import pytest: that takes longer than most scenarios. So modules of
scenarios import this one and what they test.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib.util
import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

_HERE = Path(__file__).parent
_is_child = False

_PRELOADED = os.environ.get("LD_PRELOAD", "")
SLOWNESS = 10 if "tsan" in _PRELOADED or "asan" in _PRELOADED else 1
"""How many times longer everything may take: sanitizers."""

SETTLE = 5.0 * SLOWNESS
"""Seconds in which threads and the like must have gone."""


# ---- tests ----


def scenario(
    body=None, /, *, cases=None, seconds=30, exits=False, code=0, within=5, shows="",
    preload=False,
):  # fmt: skip
    """Make a test of a function that runs in a process of its own.

    Args:
        body: The function. What follows can be given instead: ``@scenario(...)``.
        cases: ``(name, values)``: one test for each value, which the function gets as
            the argument of that name. Values are what JSON has.
        seconds: The deadline.
        exits: The end of the process is what is tested.
        code: Its exit code.
        within: Seconds from the end of the function to that of the process (`exits`).
        shows: A text that must be in what the process writes to stderr; "": it must
            write nothing; None: whatever it likes.
        preload: The wall clock is one that `realtime_jumps` can move.
    """
    if body is None:
        return functools.partial(
            scenario, cases=cases, seconds=seconds, exits=exits, code=code,
            within=within, shows=shows, preload=preload,
        )  # fmt: skip
    if _is_child:
        return body

    import pytest

    @functools.wraps(body)
    def test(**arguments):
        task = {
            "file": sys.modules[body.__module__].__file__,
            "name": body.__name__,
            "arguments": arguments,
            "exits": exits,
        }
        ended = run_child(
            _command(task), seconds=seconds * SLOWNESS,
            preload=_clock_library() if preload else "",
        )  # fmt: skip
        _judge(ended, code=code, within=within * SLOWNESS if exits else None)
        if shows:
            assert shows in ended.err, str(ended)
        elif shows is not None:
            assert ended.err == "", str(ended)

    test = pytest.mark.thread_unsafe(reason="runs in a process of its own")(test)
    return test if cases is None else pytest.mark.parametrize(*cases)(test)


def _command(task):
    code = (
        f"import sys; sys.path.insert(0, {str(_HERE)!r}); "
        "import scenario_kit; scenario_kit._run_task(sys.argv[1])"
    )
    return [sys.executable, "-c", code, json.dumps(task)]


_CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
_Atomic long realtime_offset;
int clock_gettime(clockid_t id, struct timespec *out)
{
    int result = (int)syscall(SYS_clock_gettime, id, out);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        out->tv_sec += realtime_offset;
    return result;
}
int gettimeofday(struct timeval *out, void *zone)
{
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return result;
}
time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
"""


@functools.cache
def _clock_library():
    """A library with a wall clock that can be moved, for LD_PRELOAD."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    path = f"{folder.name}/clock.so"
    compiler = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-x", "c", "-"]
    subprocess.run([*compiler, "-o", path], input=_CLOCK.encode(), check=True)
    return path


class Ended:
    """What a process left: exit code, output, its report, when it ended, others."""

    def __init__(self, code, out, err, report, at, orphans):
        self.code = code
        self.out = out
        self.err = err
        self.report = report
        self.at = at
        self.orphans = orphans

    def __str__(self):
        return f"exit code {self.code}\n{self.out}\n{self.err}"


def run_child(command, *, seconds, talk=None, preload=""):
    """Run a process in a session of its own; pytest fails if it does not end in time.

    Its output goes to files: a process that it leaves behind would keep pipes open.
    `talk` is called with the process while it runs.
    """
    import pytest

    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
        tempfile.NamedTemporaryFile("r") as report,
    ):
        os.chmod(report.name, 0o666)  # a child may become another user
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=err, start_new_session=True,
            stdout=subprocess.PIPE if talk else out, text=True,
            env={
                **os.environ, "SCENARIO_REPORT": report.name,
                "LD_PRELOAD": f"{_PRELOADED} {preload}".strip(),
            },
        )  # fmt: skip
        late = False
        said = ""
        try:
            if talk:
                talk(process)
                said = process.communicate(timeout=seconds)[0]
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            late = True
            process.send_signal(signal.SIGUSR1)  # faulthandler prints all stacks
            time.sleep(1)
        at = time.monotonic()
        orphans = _session(process.pid) - {process.pid}
        if late or orphans:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        ended = Ended(
            process.returncode, said or out.read(), err.read(), report.read(), at,
            orphans,
        )  # fmt: skip
    if late:
        pytest.fail(f"still running after {seconds} s\n{ended}", pytrace=False)
    return ended


def _session(leader):
    """The processes of a session."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[3]) == leader and fields[0] != "Z":
            found.add(int(pid))
    return found


def _judge(ended, *, code, within):
    import pytest

    report = json.loads(ended.report or "{}")
    if "failure" in report:
        pytest.fail(f"{report['failure']}\n{ended}", pytrace=False)
    assert ended.code == code, str(ended)
    assert not ended.orphans, "processes are left over"
    if within is not None and "over" in report:
        took = ended.at - report["over"]
        assert took < within, f"the process ended {took:.1f} s after its main code"


# ---- in the child ----


def _run_task(text):
    """Run one scenario: the main program of the child."""
    import faulthandler
    import traceback

    global _is_child
    _is_child = True
    task = json.loads(text)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # by a parent that waits no longer
    logging.getLogger().addHandler(_Collector())
    # With the first thread ThreadSanitizer starts one of its own: before we count.
    first = threading.Thread(target=int)
    first.start()
    first.join()
    spec = importlib.util.spec_from_file_location("scenarios", task["file"])
    module = importlib.util.module_from_spec(spec)
    sys.modules["scenarios"] = module
    spec.loader.exec_module(module)
    body = getattr(module, task["name"])
    try:
        before = residue()
        _at_first.update(before["threads"])
        body(**task["arguments"])
        if task["exits"]:
            report(over=time.monotonic())
            return
        sys.last_value = None
        await_residue(before)
    except AssertionError:
        report(failure=traceback.format_exc())
        os._exit(3)
    except Exception:
        if not task["exits"]:
            report(failure=traceback.format_exc())
            os._exit(3)
        report(over=time.monotonic())
        raise


def report(**what):
    """Tell the parent."""
    Path(os.environ["SCENARIO_REPORT"]).write_text(json.dumps(what))


logged: list[str] = []
"""What was logged, at WARNING and above."""


class _Collector(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)

    def emit(self, record):
        logged.append(record.getMessage())


def thread_names():
    """The tasks of this process: {id: name}."""
    found = {}
    for task in os.listdir("/proc/self/task"):
        try:
            found[int(task)] = Path(f"/proc/self/task/{task}/comm").read_text().strip()
        except OSError:
            continue  # it has just ended
    return found


def _children():
    found = []
    for task in os.listdir("/proc/self/task"):
        try:
            pids = Path(f"/proc/self/task/{task}/children").read_text().split()
        except OSError:
            continue
        for pid in pids:
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                tasks = len(os.listdir(f"/proc/{pid}/task"))
            except OSError:
                continue
            found.append(f"{b' '.join(words)[:80].decode()} with {tasks} threads")
    return sorted(found)


def _descriptors():
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue  # that of the listing
    return sorted(found)


def _shared_memory():
    """What is mapped of /dev/shm; names there may be other processes'."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split()[-1] for line in lines if "/dev/shm/" in line})


def residue():
    """What this process has that a pipeline might leave behind."""
    from headrace import _ext

    return {
        "threads": thread_names(),
        "children": _children(),
        "descriptors": _descriptors(),
        "shared memory": _shared_memory(),
        "buffers": _ext.pool_stats()["live_count"],
    }


def await_residue(before, seconds=SETTLE):
    """Wait until nothing is there that was not there `before`."""
    gc.collect()
    end = time.monotonic() + seconds
    while (now := residue()) != before:
        assert time.monotonic() < end, f"left behind:\n{now}\nbefore:\n{before}"
        time.sleep(0.005)


# ---- what scenarios need ----


def wait_until(condition, seconds=10):
    """Wait for a condition, but not for ever."""
    end = time.monotonic() + seconds * SLOWNESS
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)


_at_first: dict[int, str] = {}


def await_threads():
    """Wait until no thread is there that was not there when the scenario began."""
    wait_until(lambda: thread_names() == _at_first)


def together(count, work):
    """Call work(0), work(1), ... at once; what they return or raise, in order."""
    results = [None] * count
    barrier = threading.Barrier(count)

    def run(i):
        barrier.wait()
        try:
            results[i] = work(i)
        except BaseException as exception:
            results[i] = exception

    workers = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return results


def build(source, *ops, threads=2, sink=3, limit=-1, continuous=False, **options):
    """A pipeline of stages with the same options."""
    from headrace.pipeline import PipelineBuilder

    builder = PipelineBuilder().add_source(source, continuous=continuous)
    for op in ops:
        builder.pipe(op, **options)
    return builder.add_sink(sink).build(num_threads=threads, max_failures=limit)


def consume(items):
    """What iteration gives, and what it raises."""
    got = []
    try:
        for item in items:
            got.append(item)
    except BaseException as error:
        error.__traceback__ = None  # its frames hold what is tested
        return got, error
    return got, None


def ledger(pipeline, emitted=None):
    """Assert that a pipeline's books are exact; return what became of the items.

    Stages must make one item of one. What the source emitted was delivered, filtered,
    failed, released, or waits for the consumer (items that are ready survive a stop).
    """
    stats = pipeline.stats()
    *stages, sink = stats.stages
    between = stages[1:]  # a source that raised has failed, but lost no item
    for before, after in pairwise([*stages, sink]):
        assert before.items_out == after.items_in + (after is not sink) * after.queued
    for stage in between:
        spent = stage.filtered + stage.failed + stage.released + stage.running
        assert stage.items_in == stage.items_out + spent, stage
    assert sink.items_in == stats.delivered + sink.queued, sink
    books = {
        "delivered": stats.delivered,
        "filtered": sum(stage.filtered for stage in between),
        "failed": sum(stage.failed for stage in between),
        "released": sum(stage.released for stage in [*stages, sink]),
    }
    total = sum(books.values()) + sink.queued
    total += sum(stage.running + stage.queued for stage in between)
    if emitted is not None:
        assert total == emitted, (books, stats)
    assert pipeline.failures.total == books["failed"]
    return books


class Counted:
    """An iterable that counts what it has given."""

    def __init__(self, items):
        self._items = items
        self.emitted = 0

    def __iter__(self):
        for item in self._items:
            self.emitted += 1
            yield item


def send_sum(connection, n):
    """For a child of multiprocessing: the result of a pipeline of its own."""
    connection.send(sum(build(range(n), (1).__add__)))
    connection.close()


@contextmanager
def realtime_jumps(seconds):
    """The wall clock jumps forth and back every millisecond; see `scenario`."""
    import ctypes

    offset = ctypes.c_long.in_dll(ctypes.CDLL(None), "realtime_offset")
    done = threading.Event()

    def jump():
        while not done.wait(0.001):
            offset.value = seconds - offset.value

    before = time.time()
    offset.value = seconds
    assert time.time() - before > seconds / 2  # Python sees it
    jumper = threading.Thread(target=jump)
    jumper.start()
    try:
        yield
    finally:
        done.set()
        jumper.join()
        offset.value = 0


# ---- interrupts ----


class _RaiseAfter:
    """Raise KeyboardInterrupt in the main thread that many seconds from now; 0: never.

    By the clock, so that it comes in the midst of whatever goes on, C code included.
    """

    def __init__(self):
        self._due = 0.0

    def __call__(self, seconds):
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        self._due = time.monotonic() + seconds
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def latency(self):
        """How long ago the last one was due."""
        return time.monotonic() - self._due


raise_after = _RaiseAfter()


class _Step:
    """A block in which one instruction of headrace's raises KeyboardInterrupt."""

    def __init__(self, number):
        self._left = number
        self.reached = False

    def __enter__(self):
        sys.settrace(self._enter_frame)

    def __exit__(self, kind, error, traceback):
        sys.settrace(None)
        return kind is KeyboardInterrupt

    def _enter_frame(self, frame, event, arg):
        if "/headrace/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        return self._count

    def _count(self, frame, event, arg):
        if event == "opcode" and not self.reached:
            self._left -= 1
            if self._left <= 0:
                self.reached = True
                raise KeyboardInterrupt
        return self._count


def interrupts():
    """Blocks that raise at the 1st, 2nd, 3rd, ... instruction; the last does not."""
    for number in itertools.count(1):
        step = _Step(number)
        yield step
        if not step.reached:
            return
