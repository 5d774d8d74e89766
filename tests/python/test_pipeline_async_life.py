"""Ends of pipelines with coroutines, each in a process of its own."""

import itertools
import os
import signal
import time

import pytest

HEAD = """
import asyncio, contextlib, warnings
warnings.simplefilter("error")
complaints = []
sys.unraisablehook = lambda u: complaints.append((u.err_msg, u.exc_value, u.object))
import logging
logging.basicConfig()
asyncio_log = logging.getLogger("asyncio")
asyncio_log.addFilter(lambda record: complaints.append(record.getMessage()) or True)

def quiet():
    gc.collect()
    assert complaints == [], complaints

async def at_once(x):
    return x

async def short(x):
    await asyncio.sleep(0.001)
    return x

async def long(x):
    await asyncio.sleep(600)

async def spread(x):
    yield x
    await asyncio.sleep(0)
    yield x

async def endless(x):
    i = 0
    while True:
        yield i
        i += 1
        await asyncio.sleep(0)

async def numbers():
    i = 0
    while True:
        yield i
        i += 1
        await asyncio.sleep(0)

KINDS = {
    "at once": ([at_once], iter(int, 1)),
    "short": ([short], iter(int, 1)),
    "long": ([long], iter(int, 1)),
    "lambda": ([lambda x: short(x)], iter(int, 1)),
    "long lambda": ([lambda x: long(x)], iter(int, 1)),
    "generator": ([spread], iter(int, 1)),
    "endless": ([endless], iter(int, 1)),
    "source": ([], numbers()),
    "all": ([short, spread, lambda x: short(x), at_once], numbers()),
}
"""

KINDS = [
    "at once",
    "short",
    "long",
    "lambda",
    "long lambda",
    "generator",
    "endless",
    "source",
    "all",
]


@pytest.mark.parametrize("kind", KINDS)
def test_stop_at_any_moment(script, kind):
    script(
        HEAD
        + f"""
before = threads(), descriptors()
for i in range(12):
    ops, source = KINDS["{kind}"]
    if "source" == "{kind}" or "all" == "{kind}":
        source = numbers()
    p = build(source, *ops, concurrency=1 + i % 4)
    p.start()
    time.sleep(0.002 * i)
    for _ in range(i if "long" not in "{kind}" else 0):
        p.get_item(timeout=5)
    begin = time.monotonic()
    p.stop(timeout=5)
    assert time.monotonic() - begin < 1
    for s in p.stats().stages[1:-1]:
        assert s.running == 0
        if s.name != "spread" and s.name != "endless":
            assert s.items_in == s.items_out + s.filtered + s.failed + s.released, s
    assert not p.failures, p.failures
    wait_until(lambda: (threads(), descriptors()) == before)
    list(p)
del p, source, ops
quiet()
"""
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("taken", [0, 3])
def test_dropped_without_stop(script, kind, taken):
    script(
        HEAD
        + f"""
gc.disable()
before = threads(), descriptors()
ops, source = KINDS["{kind}"]
KINDS.clear()
p = build(source, *ops, concurrency=2)
p.start()
time.sleep(0.01)
for _ in range({taken} if "long" not in "{kind}" else 0):
    p.get_item(timeout=5)
import weakref
gone = weakref.ref(p)
del p, source, ops
assert gone() is None
wait_until(lambda: (threads(), descriptors()) == before)
quiet()
"""
    )


@pytest.mark.parametrize("kind", KINDS)
def test_e3_exit_with_a_running_pipeline(script, kind):
    begin = time.monotonic()
    out = script(
        HEAD
        + f"""
ops, source = KINDS["{kind}"]
p = build(source, *ops, concurrency=2)
p.start()
time.sleep(0.05)
print("end")
""",
        seconds=15,
    )
    assert out == "end\n"
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("kind", ["blocks", "ignores"])
def test_e3_exit_with_a_stuck_coroutine(script, kind):
    begin = time.monotonic()
    script(
        HEAD
        + f"""
async def blocks(x):
    time.sleep(600)

async def ignores(x):
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(600)

p = build([1], {kind})
p.start()
wait_until(lambda: p.stats().stages[1].running == 1)
time.sleep(0.05)
""",
        seconds=20,
    )
    assert time.monotonic() - begin < 7


def test_e3_exit_while_another_thread_consumes(script):
    out = script(
        HEAD
        + """
p = build(numbers(), short)

def consume():
    sum(1 for x in p)
    print("ended")

threading.Thread(target=consume).start()
time.sleep(0.1)
""",
        seconds=15,
    )
    assert out == "ended\n"


def test_a_coroutine_that_ignores_its_cancellation_is_named(script):
    script(
        HEAD
        + """
release = False

async def stubborn(x):
    while x == 2 and not release:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.05)
    return x

p = build(range(10), stubborn, concurrency=3)
assert [p.get_item() for _ in range(2)] == [0, 1]
time.sleep(0.1)
try:
    p.stop(timeout=0.3)
except TimeoutError as error:
    assert "'stubborn'" in str(error) and "item 2" in str(error), error
else:
    raise AssertionError("not told")
release = True
p.stop(timeout=5)
quiet()
"""
    )


def test_what_is_open_is_closed(script):
    """Cleanup code of coroutines and generators runs, on the loop, before stop ends."""
    script(
        HEAD
        + """
closed = []

async def op(x):
    try:
        await asyncio.sleep(600)
    finally:
        await asyncio.sleep(0)
        closed.append(threading.current_thread().name)

async def generator(x):
    try:
        while True:
            yield x
    finally:
        await asyncio.sleep(0.01)
        closed.append(threading.current_thread().name)

async def source():
    try:
        while True:
            yield 1
    finally:
        await asyncio.sleep(0.01)
        closed.append(threading.current_thread().name)

for src, ops in [
    (iter(int, 1), [op]),
    (iter(int, 1), [lambda x: op(x)]),
    (iter(int, 1), [generator]),
    (source(), []),
]:
    p = build(src, *ops)
    p.start()
    time.sleep(0.05)
    p.stop(timeout=5)
    assert closed == ["headrace-asyncio"], (closed, ops)
    closed.clear()
quiet()
"""
    )


def test_a_failing_stage_further_down_closes_generators(script):
    script(
        HEAD
        + """
from headrace.pipeline import PipelineFailure
closed = []

async def generator(x):
    try:
        i = 0
        while True:
            yield i
            i += 1
            await asyncio.sleep(0)
    finally:
        closed.append(x)

def bad(x):
    if x >= 5:
        raise ValueError(x)
    return x

p = (
    PipelineBuilder().add_source([7, 8, 9]).pipe(generator)
    .pipe(bad, max_failures=0).add_sink().build(num_threads=2)
)
got = []
try:
    for x in p:
        got.append(x)
except PipelineFailure as failure:
    assert failure.exceptions[0].args == (5,)
else:
    raise AssertionError
assert got == [0, 1, 2, 3, 4]
assert closed == [7]
p.stop(timeout=5)
quiet()
"""
    )


@pytest.mark.parametrize("kind", ["coroutine", "lambda", "generator"])
def test_p3_last_reference_dropped_inside_a_coroutine(script, kind):
    script(
        HEAD
        + f"""
before = threads()
for dropped_at in (0, 1, 5):
    holder = []
    done = threading.Event()

    async def op(x):
        if x == dropped_at:
            while holder and sys.getrefcount(holder[0]) > 2:
                await asyncio.sleep(0.001)
            holder.clear()
            gc.collect()
            done.set()
        return x

    async def generator(x):
        yield await op(x)

    chosen = dict(
        coroutine=op, generator=generator, **{{"lambda": lambda x: op(x)}}
    )["{kind}"]
    holder.append(build(range(1000), chosen, sink=10))
    holder[0].start()
    assert done.wait(10)
    del chosen
    wait_until(lambda: threads() == before)
quiet()
"""
    )


def test_c5_stop_inside_a_coroutine(script):
    script(
        HEAD
        + """
before = threads()

async def op(x):
    if x == 3:
        p.stop()
    await asyncio.sleep(0.001)
    return x

p = build(range(1000), op, concurrency=2, output_order="input")
got = list(p)
assert got == list(range(len(got))) and len(got) < 20, got
p.stop(timeout=5)
wait_until(lambda: threads() == before)
quiet()
"""
    )


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        *itertools.product(["coroutine", "lambda"], [False, True]),
        # A generator that waits for room, and the items of this source, lead back to
        # the pipeline.
        *itertools.product(["generator", "source"], [False]),
    ],
)
def test_rings_are_collected(script, kind, start):
    script(
        HEAD
        + f"""
import weakref
before = threads()

# Not inside of ring: CPython 3.13 without a GIL keeps all classes that are made after
# the first thread was started, and so what their methods refer to.
class Source:
    def __init__(self, holder):
        self.i = 0
        self.holder = holder
    def __aiter__(self):
        return self
    async def __anext__(self):
        self.i += 1
        return self.i, self.holder

def ring():
    holder = []

    async def op(x):
        return x, len(holder)

    async def generator(x):
        yield len(holder)

    if "{kind}" == "source":
        pipeline = build(Source(holder))
    else:
        pipeline = build(range(100), dict(
            coroutine=op, generator=generator, **{{"lambda": lambda x: op(x)}}
        )["{kind}"])
    holder.append(pipeline)
    if {start}:
        next(iter(pipeline))
    return weakref.ref(pipeline)

pipeline = ring()
time.sleep(0.1)
gc.collect()
wait_until(lambda: pipeline() is None)
wait_until(lambda: threads() == before)
"""
    )


def test_p2_freed_without_the_collector(script):
    script(
        HEAD
        + """
import weakref
gc.disable()
before = threads()

class Op:
    async def __call__(self, x):
        await asyncio.sleep(0)
        if x == 3:
            raise ValueError(x)
        return x

def run(consume):
    op = Op()
    pipeline = build(iter(range(100)), op, sink=200)
    consume(pipeline)
    return weakref.ref(pipeline), weakref.ref(op)

def fail(pipeline):
    list(pipeline)
    assert len(pipeline.failures) == 1

for consume in (lambda p: None, lambda p: next(iter(p)), list, fail):
    pipeline, op = run(consume)
    wait_until(lambda: pipeline() is None and op() is None)
    wait_until(lambda: threads() == before)
quiet()
"""
    )


def test_items_leave_no_reference(script):
    script(
        HEAD
        + """
class Item:
    pass

item = Item()
base = sys.getrefcount(item)

async def passing(x):
    yield x

for ops in ([at_once], [lambda x: short(x)], [passing], [at_once, lambda x: x]):
    p = build((item for _ in range(2_000)), *ops, concurrency=2)
    assert sum(1 for _ in p) == 2_000
    p.stop()
    del p
    wait_until(lambda: sys.getrefcount(item) == base)
    p = build((item for _ in range(2_000)), *ops, concurrency=2)
    for _ in range(100):
        p.get_item()
    del p
    list(build(range(3)))  # somebody attaches
    wait_until(lambda: sys.getrefcount(item) == base)
quiet()
"""
    )


def test_e1_ctrl_c_while_waiting(script):
    def interrupt(process):
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGINT)

    out = script(
        HEAD
        + """
p = build(iter(int, 1), long, concurrency=3)
p.start()
print("waiting", flush=True)
try:
    p.get_item()
except KeyboardInterrupt:
    print("interrupted", flush=True)
p.stop(timeout=5)
quiet()
""",
        before=interrupt,
    )
    assert out.splitlines() == ["interrupted"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("started", [True, False])
def test_e7_fork(script, started):
    script(
        HEAD
        + f"""
warnings.simplefilter("ignore", DeprecationWarning)
p = build(range(1000), short, concurrency=4, output_order="input")
if {started}:
    assert next(iter(p)) == 0
pid = os.fork()
if pid == 0:
    for use in (p.get_item, p.stats, lambda: p.failures[0], lambda: list(p)):
        try:
            use()
        except RuntimeError as error:
            assert "fork" in str(error)
        else:
            os._exit(1)
    fresh = build(range(10), at_once)
    if list(fresh) != list(range(10)):
        os._exit(2)
    del p
    gc.collect()
    sys.exit(0)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert list(p) == list(range({started}, 1000))
"""
    )


def test_r1_no_thread_for_the_loop(script):
    script(
        HEAD
        + """
before = threads(), descriptors()
real = threading.Thread.start

def refuse(self):
    raise RuntimeError("can't start new thread")

threading.Thread.start = refuse
p = build(range(10), at_once)
try:
    list(p)
except RuntimeError as error:
    assert "can't start" in str(error)
else:
    raise AssertionError
p.stop(timeout=5)
p = build(range(10), lambda x: at_once(x) if x % 2 else x)
assert list(p) == [0, 2, 4, 6, 8]
assert len(p.failures) == 5
assert "event loop" in str(p.failures[0].exception)
p.stop(timeout=5)
threading.Thread.start = real
assert list(build(range(10), at_once)) == list(range(10))
del p
gc.collect()
complaints[:] = [c for c in complaints if "can't start" not in str(c)]
quiet()
wait_until(lambda: (threads(), descriptors()) == before)
"""
    )


def test_r3_no_descriptor_for_the_loop(script):
    script(
        HEAD
        + """
import resource
p = build(range(10), at_once)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
for left in (0, 1, 2):
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() - 1 + left, hard))
    p = build(range(10), at_once)
    try:
        list(p)
    except OSError as error:
        pass
    else:
        raise AssertionError(left)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    p.stop(timeout=5)
assert list(build(range(10), at_once)) == list(range(10))
del p
gc.collect()
# asyncio's own, when it finds no descriptors for a new loop
complaints[:] = [c for c in complaints if "unclosed event loop" not in str(c)]
quiet()
"""
    )


def test_failures_keep_nothing_alive(script):
    script(
        HEAD
        + """
import weakref

class Large:
    pass

class Bad(Exception):
    pass

async def op(x):
    local = Large()
    large.append(weakref.ref(local))
    await asyncio.sleep(0)
    raise Bad(x)

async def generator(x):
    local = Large()
    large.append(weakref.ref(local))
    yield 1
    raise Bad(x)

for chosen in (op, lambda x: op(x), generator):
    large = []
    p = build(range(5), chosen, concurrency=2)
    list(p)
    assert len(p.failures) == len(large) == 5
    assert all(f.exception.__traceback__ is not None for f in p.failures)
    assert [r() for r in large] == [None] * 5
    gone = weakref.ref(p.failures[0].exception)
    p.stop()
    del p
    gc.collect()
    assert gone() is None
quiet()
"""
    )


def test_start_is_quick_and_lazy(script):
    script(
        HEAD
        + """
before = threads()
p = build(range(100), lambda x: x)
list(p)
assert "headrace-asyncio" not in [t.name for t in threading.enumerate()]
p.stop()
p = build([], at_once, concurrency=4000)
begin = time.monotonic()
p.start()
assert time.monotonic() - begin < 0.2
assert list(p) == []
p.stop()
wait_until(lambda: threads() == before)
"""
    )


def test_twenty_empty_pipelines(script):
    script(
        HEAD
        + """
begin = time.monotonic()
for _ in range(20):
    p = build([], at_once, spread)
    assert list(p) == []
    p.stop()
assert time.monotonic() - begin < 1
"""
    )
