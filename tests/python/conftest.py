"""What the tests share."""

import subprocess
import sys
import textwrap

import pytest

PROLOGUE = """
import gc, os, sys, threading, time

def threads():
    return len(os.listdir("/proc/self/task"))

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def wait_until(condition, seconds=5):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)

from headrace.pipeline import PipelineBuilder

def build(source, *ops, threads=2, sink=3, **options):
    builder = PipelineBuilder().add_source(source)
    for op in ops:
        builder.pipe(op, **options)
    return builder.add_sink(sink).build(num_threads=threads)
"""


@pytest.fixture
def script():
    """Run Python code in a process of its own, with a deadline.

    The code finds `threads`, `descriptors`, `wait_until` and `build`. It must exit with
    `code`; what it wrote is returned.
    """

    def run(body, *, seconds=30, code=0, before=None):
        process = subprocess.Popen(
            [
                sys.executable,
                "-X",
                "faulthandler",
                "-c",
                PROLOGUE + textwrap.dedent(body),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            if before is not None:
                before(process)
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"still running after {seconds} s\n{out}\n{err}")
        assert process.returncode == code, (
            f"exit code {process.returncode}\n{out}\n{err}"
        )
        run.stderr = err
        return out

    return run
