"""Ends of pipelines whose stages have executors, each in a process of its own."""

import time

import pytest

HEAD = """
import itertools, multiprocessing, operator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

def pool_of(kind, count=2):
    if kind == "threads":
        return ThreadPoolExecutor(count)
    return ProcessPoolExecutor(count, multiprocessing.get_context("fork"))

def nap(x):
    time.sleep(0.05)
    return x

def spread(x):
    yield x
    time.sleep(0.01)
    yield x

OPS = {"function": nap, "generator": spread}
"""


@pytest.mark.parametrize("op", ["function", "generator"])
@pytest.mark.parametrize("kind", ["threads", "processes"])
@pytest.mark.parametrize("state", ["running", "blocked", "failing"])
def test_exit_with_a_busy_pool(script, kind, op, state):
    begin = time.monotonic()
    script(
        HEAD
        + f"""
pool = pool_of("{kind}")
def fail(x):
    raise ValueError(x)
p = build(itertools.count(), concurrency=4)
p = (
    PipelineBuilder().add_source(itertools.count())
    .pipe(OPS["{op}"], executor=pool, concurrency=4)
    .pipe(fail if "{state}" == "failing" else abs)
    .add_sink(2).build(num_threads=1)
)
p.start()
if "{state}" == "running":
    p.get_item(timeout=10)
else:
    time.sleep(0.3)
"""
    )
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_exit_when_the_pool_was_made_known_first(script, kind):
    """The hook that ends pools may run before ours does."""
    script(
        """
import itertools
from headrace.pipeline import PipelineBuilder
"""
        + HEAD
        + f"""
pool = pool_of("{kind}")
p = build(itertools.count(), nap, executor=pool, concurrency=3)
p.get_item(timeout=10)
"""
    )


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_ctrl_c_with_a_busy_pool(script, kind):
    script(
        HEAD
        + f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
pool = pool_of("{kind}")
p = build(itertools.count(), nap, executor=pool, concurrency=4)
p.get_item(timeout=10)
def interrupt():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
begin = time.monotonic()
try:
    while True:
        p.get_item()
except KeyboardInterrupt:
    assert time.monotonic() - begin < 1.5
p.stop(timeout=5)
pool.shutdown()
"""
    )


@pytest.mark.parametrize("op", ["function", "generator"])
def test_dropped_without_stop(script, op):
    """Nothing of a pipeline is left, and the pool is there for the next one."""
    script(
        HEAD
        + f"""
import weakref
pool = ThreadPoolExecutor(2)
pool.submit(nap, 0).result()
pool.submit(nap, 0).result()
before = threads(), descriptors()

def make():
    # In a function: CPython 3.13 without a GIL keeps those of a module for ever.
    def own(x):
        return OPS["{op}"](x)
    return own

for i in range(5):
    own = make()
    ref = weakref.ref(own)
    p = build(itertools.count(), own, executor=pool, concurrency=3)
    for _ in range(i):
        p.get_item(timeout=10)
    p = own = None
    gc.collect()
    wait_until(lambda: (threads(), descriptors()) <= (before[0] + 1, before[1]))
    wait_until(lambda: gc.collect() is not None and ref() is None)
assert pool.submit(abs, -3).result(5) == 3
"""
    )


def test_a_pipeline_of_a_pool_is_no_ring_of_garbage(script):
    script(
        HEAD
        + """
gc.disable()
pool = ThreadPoolExecutor(2)
before = descriptors()
p = build(range(10), nap, executor=pool, concurrency=3)
assert sorted(p) == list(range(10))
p.stop()
import weakref
ref = weakref.ref(p)
del p
assert ref() is None
assert descriptors() == before
"""
    )


def test_two_pipelines_share_a_pool(script):
    script(
        HEAD
        + """
pool = ThreadPoolExecutor(2)
pipelines = [build(range(40), nap, executor=pool, concurrency=2) for _ in range(2)]
def consume(i):
    return sorted(pipelines[i])
assert together(2, consume) == [list(range(40))] * 2
for p in pipelines:
    p.stop()
"""
    )


def test_an_idle_pool_costs_no_cpu(script):
    script(
        HEAD
        + """
pool = ThreadPoolExecutor(2)
gone = threading.Event()
def wait(x):
    gone.wait(60)
p = build(itertools.count(), wait, executor=pool, concurrency=2)
p.start()
time.sleep(0.2)
begin = time.process_time()
time.sleep(0.5)
assert time.process_time() - begin < 0.05
gone.set()
p.stop()
"""
    )


def test_a_killed_worker(script):
    script(
        HEAD
        + """
import signal
pool = pool_of("processes")
p = build(itertools.count(), nap, executor=pool, concurrency=4)
p.get_item(timeout=10)
os.kill(next(iter(pool._processes)), signal.SIGKILL)
begin = time.monotonic()
try:
    while True:
        p.get_item(timeout=10)
except Exception as exc:
    assert type(exc).__name__ == "BrokenProcessPool", exc
assert time.monotonic() - begin < 5
p.stop(timeout=5)
"""
    )


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_pipeline_within_a_pool(script, kind):
    """An operation may build a pipeline of its own where it runs."""
    script(
        HEAD
        + f"""
def total(n):
    inner = build(range(n), abs)
    result = sum(inner)
    inner.stop()
    return result
with pool_of("{kind}") as pool:
    p = build(range(5), total, executor=pool, concurrency=2, output_order="input")
    assert list(p) == [0, 0, 1, 3, 6]
    p.stop()
"""
    )
