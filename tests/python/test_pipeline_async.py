"""Coroutine stages give what a plain loop over the same items gives."""

import asyncio
import contextvars
import functools
import itertools
import threading
import time
from collections import Counter

import pytest

from headrace import _ext
from headrace.pipeline import PipelineBuilder, PipelineFailure

ITEMS = 120


def fails(x):
    return x % 7 == 3


async def at_once(x):
    if fails(x):
        raise ValueError(x)
    return None if x % 5 == 4 else 3 * x


async def after_a_turn(x):
    await asyncio.sleep(0)
    return await at_once(x)


async def after_a_while(x):
    await asyncio.sleep(0.0005 * (x % 3))
    return await at_once(x)


async def add(y, x):
    await asyncio.sleep(0)
    return x + y


class Callable:
    async def __call__(self, x):
        return await at_once(x)

    async def method(self, x):
        return await after_a_turn(x)


class Awaitable:
    def __init__(self, x):
        self.x = x

    def __await__(self):
        return at_once(self.x).__await__()


def sometimes(x):
    return after_a_turn(x) if x % 3 == 1 else x


async def spread(x):
    yield x
    yield None
    if x % 2:
        await asyncio.sleep(0.0002)
    if fails(x):
        raise ValueError(x)
    yield x + 1000
    yield x + 2000


class Spreader:
    async def __call__(self, x):
        for i in range(x % 40):
            yield i


SOME = [3 * x for x in range(ITEMS) if not fails(x) and x % 5 != 4]
FAILED = [x for x in range(ITEMS) if fails(x)]
SPREAD = list(
    itertools.chain.from_iterable(
        [x] if fails(x) else [x, x + 1000, x + 2000] for x in range(ITEMS)
    )
)

# op, what it gives, which items fail
OPS = {
    "at once": (at_once, SOME, FAILED),
    "after a turn": (after_a_turn, SOME, FAILED),
    "after a while": (after_a_while, SOME, FAILED),
    "partial": (functools.partial(add, 5), [x + 5 for x in range(ITEMS)], []),
    "nested partial": (
        functools.partial(functools.partial(add), y=5),
        [],
        list(range(ITEMS)),  # add() got multiple values for argument 'y'
    ),
    "callable": (Callable(), SOME, FAILED),
    "partial of a callable": (functools.partial(Callable()), SOME, FAILED),
    "bound method": (Callable().method, SOME, FAILED),
    "lambda": (lambda x: after_a_turn(x), SOME, FAILED),
    "awaitable": (lambda x: Awaitable(x), SOME, FAILED),
    "sometimes": (
        sometimes,
        [
            3 * x if x % 3 == 1 else x
            for x in range(ITEMS)
            if x % 3 != 1 or (not fails(x) and x % 5 != 4)
        ],
        [x for x in FAILED if x % 3 == 1],
    ),
    "generator": (spread, SPREAD, FAILED),
    "callable generator": (
        Spreader(),
        list(itertools.chain.from_iterable(range(x % 40) for x in range(ITEMS))),
        [],
    ),
}


@pytest.mark.parametrize("concurrency", [1, 2, 7])
@pytest.mark.parametrize("output_order", ["completion", "input"])
@pytest.mark.parametrize("kind", OPS)
def test_one_stage(kind, output_order, concurrency):
    op, expected, failed = OPS[kind]
    pipeline = (
        PipelineBuilder()
        .add_source(range(ITEMS))
        .pipe(op, concurrency=concurrency, output_order=output_order)
        .add_sink(5)
        .build(num_threads=2)
    )
    got = list(pipeline)
    if output_order == "input" or concurrency == 1:
        assert got == expected
    else:
        assert Counter(got) == Counter(expected)
    assert sorted(f.index for f in pipeline.failures) == failed
    stage = pipeline.stats().stages[1]
    assert stage.items_in == ITEMS
    assert stage.items_out == len(expected)
    assert stage.failed == len(failed)
    assert stage.running == 0
    pipeline.stop()


async def numbers(n, pause=None):
    for i in range(n):
        if pause is not None:
            await asyncio.sleep(pause)
        yield i


class AsyncRange:
    """An async iterable that is no generator."""

    def __init__(self, n):
        self.n = n

    def __aiter__(self):
        self.i = -1
        return self

    async def __anext__(self):
        self.i += 1
        if self.i == self.n:
            raise StopAsyncIteration
        return self.i


@pytest.mark.parametrize(
    "source",
    [
        lambda: numbers(100),
        lambda: numbers(100, 0),
        lambda: numbers(100, 0.0002),
        lambda: AsyncRange(100),
    ],
    ids=["at once", "after a turn", "after a while", "no generator"],
)
@pytest.mark.parametrize("ops", [0, 1, 2])
def test_async_source(source, ops):
    builder = PipelineBuilder().add_source(source())
    for op in [str, at_once_str][:ops]:
        builder.pipe(op, concurrency=3, output_order="input")
    pipeline = builder.add_sink(4).build(num_threads=2)
    expected = list(range(100)) if ops == 0 else [str(x) for x in range(100)]
    assert list(pipeline) == expected
    assert pipeline.stats().stages[0].items_out == 100
    pipeline.stop()


async def at_once_str(x):
    return str(x)


def test_items_of_an_async_source_come_one_by_one():
    """What is there is delivered while the source waits for more."""
    never = asyncio.Event()

    async def source():
        yield "a"
        yield None
        yield "c"
        await never.wait()

    pipeline = PipelineBuilder().add_source(source()).add_sink(8).build(num_threads=1)
    assert [pipeline.get_item(timeout=5) for _ in range(3)] == ["a", None, "c"]
    pipeline.stop()


def test_values_of_a_generator_come_one_by_one():
    async def op(x):
        yield x
        yield x + 1
        await asyncio.Event().wait()

    pipeline = (
        PipelineBuilder().add_source([1]).pipe(op).add_sink(8).build(num_threads=1)
    )
    assert [pipeline.get_item(timeout=5) for _ in range(2)] == [1, 2]
    pipeline.stop()


def test_an_endless_generator_is_held_back():
    made = []

    async def endless(x):
        for i in itertools.count():
            made.append(i)
            yield i

    pipeline = (
        PipelineBuilder().add_source([0]).pipe(endless).add_sink(2).build(num_threads=1)
    )
    assert list(itertools.islice(pipeline, 100)) == list(range(100))
    time.sleep(0.05)
    assert len(made) < 130
    pipeline.stop()


def test_an_async_source_is_held_back():
    made = []

    async def endless():
        for i in itertools.count():
            made.append(i)
            await asyncio.sleep(0)
            yield i

    pipeline = PipelineBuilder().add_source(endless()).add_sink(2).build(num_threads=1)
    assert next(iter(pipeline)) == 0
    time.sleep(0.05)
    assert len(made) <= 16 + 2  # the read-ahead, one that has no place yet, one taken
    pipeline.stop()


def test_an_async_source_that_raises():
    async def source():
        yield 1
        yield 2
        raise OSError("gone")

    pipeline = PipelineBuilder().add_source(source()).add_sink().build(num_threads=1)
    got = []
    with pytest.raises(OSError, match="gone") as raised:
        got.extend(pipeline)
        for x in pipeline:
            got.append(x)
    assert any("source" in note for note in raised.value.__notes__)
    assert list(pipeline) == []
    pipeline.stop()


@pytest.mark.parametrize("concurrency", [1, 2, 7])
@pytest.mark.parametrize("kind", ["coroutine", "lambda", "generator"])
def test_concurrency_is_exact(kind, concurrency):
    inside, most = 0, 0

    async def op(x):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        for _ in range(5000):  # nobody leaves before as many were in as may be
            if most >= concurrency:
                break
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.002)
        inside -= 1
        return x

    async def generator(x):
        yield await op(x)

    chosen = {"coroutine": op, "lambda": lambda x: op(x), "generator": generator}[kind]
    pipeline = (
        PipelineBuilder()
        .add_source(range(60))
        .pipe(chosen, concurrency=concurrency)
        .add_sink(20)
        .build(num_threads=2)
    )
    assert sorted(pipeline) == list(range(60))
    assert most == concurrency
    pipeline.stop()


def test_a_function_that_awaits_late_keeps_its_concurrency():
    """Results come at once first, so that several tasks ride on one slot."""
    inside, most = 0, 0
    lock = threading.Lock()

    async def wait(x):
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        await asyncio.sleep(0.001)
        with lock:
            inside -= 1
        return x

    def op(x):
        return wait(x) if x > 300 else x

    pipeline = (
        PipelineBuilder()
        .add_source(range(400))
        .pipe(op, concurrency=3, output_order="input")
        .add_sink(64)
        .build(num_threads=2)
    )
    assert list(pipeline) == list(range(400))
    assert most <= 3
    pipeline.stop()


@pytest.mark.thread_unsafe(reason="measures how long it takes")
def test_sleeping_scales_with_concurrency():
    async def op(x):
        await asyncio.sleep(0.01)
        return x

    def seconds(concurrency):
        pipeline = (
            PipelineBuilder()
            .add_source(range(40))
            .pipe(op, concurrency=concurrency)
            .add_sink(8)
            .build(num_threads=1)
        )
        begin = time.monotonic()
        assert len(list(pipeline)) == 40
        pipeline.stop()
        return time.monotonic() - begin

    assert seconds(20) < seconds(1) / 4


@pytest.mark.parametrize("order", ["completion", "input"])
def test_keys(order):
    async def double(x):
        await asyncio.sleep(0)
        return 2 * x

    async def twice(x):
        yield x
        await asyncio.sleep(0)
        yield -x

    def records(stage):
        return (
            PipelineBuilder()
            .add_source({"x": i, "name": str(i)} for i in range(30))
            .pipe(stage, key="x", concurrency=4, output_order=order)
            .add_sink()
            .build(num_threads=2)
        )

    got = sorted((r["x"], r["name"]) for r in records(double))
    assert got == sorted((2 * i, str(i)) for i in range(30))
    got = sorted((r["x"], r["name"]) for r in records(lambda x: double(x)))
    assert got == sorted((2 * i, str(i)) for i in range(30))
    got = sorted((r["x"], r["name"]) for r in records(twice))
    assert got == sorted((s * i, str(i)) for i in range(30) for s in (1, -1))


def test_a_key_that_does_not_fit():
    pipeline = (
        PipelineBuilder()
        .add_source([(1,), (1, 2), {"a": 1}])
        .pipe(after_a_turn, key=1)
        .add_sink()
        .build(num_threads=1)
    )
    assert list(pipeline) == [(1, 6)]
    assert [f.index for f in pipeline.failures] == [0, 2]


CHAINS = "aslng"


@pytest.mark.parametrize(
    "chain", ["".join(c) for c in itertools.product(CHAINS, repeat=2)] + ["aslnga"]
)
def test_mixed_chains(chain):
    async def awaited(x):
        await asyncio.sleep(0)
        return x + 1

    async def both(x):
        yield x
        await asyncio.sleep(0)
        yield x + 500

    expected = list(range(40))
    builder = PipelineBuilder().add_source(range(40))
    for letter in chain:
        op = {
            "a": awaited,
            "s": lambda x: x + 1,
            "l": lambda x: awaited(x),
            "n": _ext.noop_op(),
            "g": both,
        }[letter]
        builder.pipe(op, concurrency=3, output_order="input")
        if letter == "g":
            expected = [y for x in expected for y in (x, x + 500)]
        elif letter != "n":
            expected = [x + 1 for x in expected]
    pipeline = builder.aggregate(7).disaggregate().add_sink().build(num_threads=2)
    assert list(pipeline) == expected
    pipeline.stop()


class Odd(BaseException):
    pass


@pytest.mark.parametrize(
    "exception",
    [
        ValueError("x"),
        StopIteration(1),
        StopAsyncIteration(1),
        GeneratorExit(),
        asyncio.CancelledError("own"),
        TimeoutError(),
        Odd(),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("kind", ["coroutine", "awaited late", "lambda", "generator"])
def test_exceptions_are_failures_of_their_item(kind, exception):
    async def op(x):
        if x == 3:
            raise exception
        return x

    async def late(x):
        await asyncio.sleep(0)
        return await op(x)

    async def generator(x):
        yield await late(x)

    chosen = {
        "coroutine": op,
        "awaited late": late,
        "lambda": lambda x: late(x),
        "generator": generator,
    }[kind]
    pipeline = (
        PipelineBuilder()
        .add_source(range(10))
        .pipe(chosen, concurrency=2, output_order="input")
        .add_sink()
        .build(num_threads=2)
    )
    assert list(pipeline) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    (failure,) = pipeline.failures
    assert failure.index == 3
    found = failure.exception
    if isinstance(exception, (StopIteration, StopAsyncIteration)):
        # Python itself makes this of it, at the border of a coroutine.
        while isinstance(found, RuntimeError):
            found = found.__cause__
    assert found is exception
    pipeline.stop()


@pytest.mark.parametrize("exception", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("kind", ["coroutine", "lambda", "generator", "child task"])
def test_exceptions_that_end_the_run(kind, exception):
    async def op(x):
        await asyncio.sleep(0)
        if x == 3:
            raise exception(x)
        return x

    async def generator(x):
        yield await op(x)

    async def child(x):
        return await asyncio.create_task(op(x))

    chosen = {
        "coroutine": op,
        "lambda": lambda x: op(x),
        "generator": generator,
        "child task": child,
    }[kind]
    pipeline = (
        PipelineBuilder()
        .add_source(itertools.count())
        .pipe(chosen)
        .add_sink()
        .build(num_threads=2)
    )
    with pytest.raises(exception):
        list(pipeline)
    pipeline.stop(timeout=5)


def test_max_failures():
    pipeline = (
        PipelineBuilder()
        .add_source(range(100))
        .pipe(at_once, max_failures=2)
        .add_sink()
        .build(num_threads=2)
    )
    with pytest.raises(PipelineFailure) as raised:
        list(pipeline)
    assert [e.args for e in raised.value.exceptions] == [(3,), (10,), (17,)]
    pipeline.stop()


def test_a_result_that_does_not_fit_the_next_stage():
    from headrace.io import read_file

    async def op(x):
        await asyncio.sleep(0)
        return x

    pipeline = (
        PipelineBuilder()
        .add_source([__file__, 7])
        .pipe(op)
        .pipe(read_file)
        .pipe(len)
        .add_sink()
        .build(num_threads=2)
    )
    with open(__file__, "rb") as file:
        assert list(pipeline) == [len(file.read())]
    (failure,) = pipeline.failures
    assert isinstance(failure.exception, TypeError)
    assert failure.index == 1


def test_a_coroutine_finds_its_surroundings():
    variable = contextvars.ContextVar("variable", default=0)

    async def op(x):
        assert asyncio.current_task() is not None
        assert threading.current_thread().name == "headrace-asyncio"
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            child = group.create_task(asyncio.to_thread(threading.get_ident))
        assert child.result() != threading.get_ident()
        variable.set(x)
        await asyncio.sleep(0)
        assert await asyncio.create_task(read()) == variable.get()
        return asyncio.get_running_loop()

    async def read():
        return variable.get()

    pipeline = (
        PipelineBuilder()
        .add_source(range(20))
        .pipe(op, concurrency=3)
        .pipe(lambda x: op(x))
        .add_sink()
        .build(num_threads=2)
    )
    assert len(set(pipeline)) == 1
    assert not pipeline.failures
    pipeline.stop()


def test_timeouts_in_an_operation():
    async def op(x):
        if x % 2:
            async with asyncio.timeout(0.005):
                await asyncio.sleep(60)
        return x

    pipeline = (
        PipelineBuilder()
        .add_source(range(10))
        .pipe(op, concurrency=2, output_order="input")
        .add_sink()
        .build(num_threads=1)
    )
    assert list(pipeline) == [0, 2, 4, 6, 8]
    assert all(isinstance(f.exception, TimeoutError) for f in pipeline.failures)
    pipeline.stop()


def test_p7_an_operation_that_cancels_every_task():
    async def op(x):
        await asyncio.sleep(0)
        if x == 5:
            for task in asyncio.all_tasks():
                task.cancel()
            await asyncio.sleep(0)
        return x

    pipeline = (
        PipelineBuilder()
        .add_source(range(50))
        .pipe(op, concurrency=3, output_order="input")
        .add_sink()
        .build(num_threads=1)
    )
    got = list(pipeline)
    failed = [f.index for f in pipeline.failures]
    assert 5 in failed
    assert len(failed) <= 3
    assert got == [x for x in range(50) if x not in failed]
    pipeline.stop()


def test_fair_to_other_tasks():
    """Coroutines that never suspend let others have a turn."""
    ticks = []

    async def tick():
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0)

    async def op(x):
        if x == 0:
            op.task = asyncio.create_task(tick())
        end = time.perf_counter() + 20e-6
        while time.perf_counter() < end:
            pass
        return x

    pipeline = (
        PipelineBuilder()
        .add_source(range(5000))
        .pipe(op, concurrency=4)
        .aggregate(100)
        .add_sink()
        .build(num_threads=1)
    )
    assert sum(map(len, pipeline)) == 5000
    pipeline.stop()
    assert len(ticks) > 20


@pytest.mark.parametrize("kind", ["coroutine", "generator"])
def test_a_slow_native_stage_behind(kind):
    """Blocked by what follows, nothing is lost, and no more than has room is begun."""
    begun = []

    async def op(x):
        begun.append(x)
        return x

    async def generator(x):
        begun.append(x)
        yield x

    pipeline = (
        PipelineBuilder()
        .add_source(itertools.count())
        .pipe(op if kind == "coroutine" else generator, concurrency=2)
        .add_sink(1)
        .build(num_threads=1)
    )
    assert next(iter(pipeline)) == 0
    time.sleep(0.05)
    assert len(begun) <= 2 + 1 + 2 + 1
    assert list(itertools.islice(pipeline, 50)) == list(range(1, 51))
    pipeline.stop()


def test_statistics():
    async def op(x):
        await asyncio.sleep(0.02)
        return x

    def function(x):
        time.sleep(0.001)
        return op(x)

    pipeline = (
        PipelineBuilder()
        .add_source(range(20))
        .pipe(op, concurrency=4)
        .pipe(function, concurrency=10, name="function")
        .add_sink(30)
        .build(num_threads=1)
    )
    assert len(list(pipeline)) == 20
    pipeline.stop()
    _, awaits, both, _ = pipeline.stats().stages
    assert 0.4 <= awaits.awaited < 2
    assert awaits.busy == 0
    assert 0.4 <= both.awaited < 2
    assert 0.02 <= both.busy < 0.2
    assert pipeline.bottleneck().startswith("Stage 'op' is the bottleneck, by what it")
    assert "its concurrency is 4" in pipeline.bottleneck()


def test_two_pipelines_with_loops():
    async def op(x):
        await asyncio.sleep(0)
        return x + 1

    def make(source):
        return (
            PipelineBuilder()
            .add_source(source)
            .pipe(op, concurrency=2, output_order="input")
            .add_sink()
            .build(num_threads=1)
        )

    inner = make(range(50))
    outer = make(inner)
    assert list(outer) == list(range(2, 52))
    outer.stop()
    inner.stop()


def test_idle_costs_nothing():
    async def op(x):
        await asyncio.sleep(30)

    pipeline = (
        PipelineBuilder().add_source([1]).pipe(op).add_sink().build(num_threads=1)
    )
    pipeline.start()
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.02
    pipeline.stop()


def test_empty_source():
    for _ in range(20):
        pipeline = (
            PipelineBuilder()
            .add_source([])
            .pipe(at_once, concurrency=3)
            .pipe(spread)
            .add_sink()
            .build(num_threads=1)
        )
        assert list(pipeline) == []
        pipeline.stop()


class Passes:
    """Gives another async iterator for each pass."""

    def __init__(self, *lengths):
        self.lengths = list(lengths)

    def __aiter__(self):
        n = self.lengths.pop(0) if self.lengths else 2
        return numbers(n, 0)


@pytest.mark.parametrize("stages", [0, 1])
def test_a_continuous_async_source(stages):
    builder = PipelineBuilder().add_source(Passes(3, 0, 20, 1), continuous=True)
    if stages:
        builder.pipe(after_a_turn_plain, concurrency=3, output_order="input")
    pipeline = builder.add_sink(4).build(num_threads=2)
    epochs = [list(pipeline) for _ in range(6)]
    assert epochs == [list(range(n)) for n in (3, 0, 20, 1, 2, 2)]
    pipeline.stop()


async def after_a_turn_plain(x):
    await asyncio.sleep(0)
    return x


def test_a_continuous_async_source_that_has_one_iterator():
    pipeline = (
        PipelineBuilder()
        .add_source(numbers(3), continuous=True)
        .add_sink()
        .build(num_threads=1)
    )
    assert list(pipeline) == [0, 1, 2]
    with pytest.raises(ValueError, match="can be iterated again"):
        list(pipeline)
    pipeline.stop()


@pytest.mark.parametrize("order", ["completion", "input"])
@pytest.mark.parametrize("kind", ["coroutine", "lambda"])
def test_retries(kind, order):
    from headrace.pipeline import Retry

    calls = Counter()

    async def flaky(x):
        calls[x] += 1
        await asyncio.sleep(0)
        if x % 4 == 1 and calls[x] <= 2:
            raise OSError(x)
        if x % 4 == 2:
            raise OSError(x)
        if x % 4 == 3:
            raise ValueError(x)
        return x

    pipeline = (
        PipelineBuilder()
        .add_source(range(40))
        .pipe(
            flaky if kind == "coroutine" else lambda x: flaky(x),
            concurrency=3,
            output_order=order,
            retry=Retry(2, backoff=0.001, on=(OSError,)),
        )
        .add_sink()
        .build(num_threads=2)
    )
    got = list(pipeline)
    expected = [x for x in range(40) if x % 4 < 2]
    assert (got if order == "input" else sorted(got)) == expected
    assert calls == {x: (1, 3, 3, 1)[x % 4] for x in range(40)}
    assert sorted(f.index for f in pipeline.failures) == [
        x for x in range(40) if x % 4 > 1
    ]
    assert pipeline.stats().stages[1].retried == 40
    pipeline.stop()


def test_a_generator_is_not_retried():
    with pytest.raises(ValueError, match="generator can't be run again"):
        PipelineBuilder().pipe(spread, retry=2)


def test_on_error_raise():
    pipeline = (
        PipelineBuilder()
        .add_source(range(20))
        .pipe(at_once, concurrency=2, output_order="input", on_error="raise")
        .add_sink()
        .build(num_threads=2)
    )
    got = []
    with pytest.raises(ValueError, match="3"):
        for x in pipeline:
            got.append(x)
    assert got == [0, 3, 6]
    pipeline.stop()


def test_len():
    def build(*ops):
        builder = PipelineBuilder().add_source(range(10))
        for op in ops:
            builder.pipe(op)
        return builder.add_sink().build(num_threads=1)

    assert len(build(at_once)) == 10
    with pytest.raises(TypeError, match="any number of items"):
        len(build(spread))


def test_streams_that_a_later_failure_ends_have_not_failed():
    """Nor has what their runners go on with: each is cancelled where it stands."""

    async def spread(x):
        for y in range(x % 4):
            await asyncio.sleep(0)
            yield x, y

    def then(x):
        if x == (41, 0):
            raise LookupError
        return x

    for _ in range(60):
        pipeline = (
            PipelineBuilder()
            .add_source(range(120))
            .pipe(spread, concurrency=7)
            .pipe(then, on_error="raise")
            .add_sink(4)
            .build(num_threads=3)
        )
        with pytest.raises(LookupError):
            list(pipeline)
        pipeline.stop()
        assert [f.stage for f in pipeline.failures] == ["then"]
