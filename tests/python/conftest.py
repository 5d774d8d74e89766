"""What the tests share."""

import gc
import os
import signal
import subprocess
import sys
import sysconfig
import textwrap
import time
from pathlib import Path

import pytest

from headrace import _ext

# Deadlines are so many times longer, for a Python that is so much slower.
SLOWNESS = float(os.environ.get("HEADRACE_TEST_SLOWNESS", "1"))

PROLOGUE = f"""
import gc, os, sys, threading, time

sys.path.insert(0, {str(Path(__file__).parent)!r})

SLOWNESS = float(os.environ.get("HEADRACE_TEST_SLOWNESS", "1"))

def threads():
    return len(os.listdir("/proc/self/task"))

# With the first thread ThreadSanitizer starts one of its own: before any is counted.
first = threading.Thread(target=int)
first.start()
first.join()

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def wait_until(condition, seconds=5):
    end = time.monotonic() + seconds * SLOWNESS
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)

from scenario_kit import together
from headrace.pipeline import PipelineBuilder

def build(source, *ops, threads=2, sink=3, **options):
    builder = PipelineBuilder().add_source(source)
    for op in ops:
        builder.pipe(op, **options)
    return builder.add_sink(sink).build(num_threads=threads)
"""


@pytest.fixture(scope="session", autouse=True)
def _the_gil_stays_off():
    """Whatever the tests imported: a Python that is built to have no GIL has none."""
    yield
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert not sys._is_gil_enabled()


def live_buffers():
    return _ext.pool_stats()["live_count"]


@pytest.fixture(autouse=True)
def _no_buffer_leaks(request):
    """As many buffers are alive after a test as before it."""
    before, failed = live_buffers(), request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        return  # the traceback keeps what the test had
    request.node.funcargs.clear()  # what its fixtures gave
    end = time.monotonic() + 5 * SLOWNESS
    while live_buffers() != before:
        gc.collect()
        assert time.monotonic() < end, f"{live_buffers() - before} buffers are left"


@pytest.fixture
def script():
    """Run Python code in a process of its own, with a deadline.

    The code finds `threads`, `descriptors`, `wait_until`, `together` and `build`. It
    must exit with `code`; what it wrote is returned.
    """

    def run(body, *, seconds=30, code=0, before=None):
        seconds *= SLOWNESS
        process = subprocess.Popen(
            [
                sys.executable,
                "-X",
                "faulthandler",
                # Nothing that it imports may turn a GIL on: the warning is an error.
                "-W",
                "error:The global interpreter lock:RuntimeWarning",
                "-c",
                PROLOGUE + textwrap.dedent(body),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            if before is not None:
                before(process)
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its children too
            out, err = process.communicate()
            pytest.fail(f"still running after {seconds} s\n{out}\n{err}")
        assert process.returncode == code, (
            f"exit code {process.returncode}\n{out}\n{err}"
        )
        run.stderr = err
        return out

    return run


def pytest_collection_modifyitems(items):
    """Mark tests that must not run in several threads, by the fixtures they use."""
    reasons = {
        "script": "runs in a process of its own",
        "caplog": "reads the log of the process",
    }
    for item in items:
        for fixture, reason in reasons.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.thread_unsafe(reason=reason))
