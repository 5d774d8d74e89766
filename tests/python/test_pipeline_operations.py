"""Each kind of operation in the engine's threads, alone and on a field of a record."""

import asyncio
import functools
import itertools
import operator
import threading
import time
from collections import Counter

import pytest

from headrace.pipeline import PipelineBuilder
from headrace.pipeline.defs import Aggregator

ITEMS = 60


def fails(x):
    return x % 7 == 3


def some(x):
    if fails(x):
        raise ValueError(x)
    return None if x % 5 == 4 else 3 * x


def spread(x):
    yield x
    yield None
    if fails(x):
        raise ValueError(x)
    yield x + 1000


async def later(x):
    return some(x)


async def spread_later(x):
    for y in (x, None):
        yield y
    if fails(x):
        raise ValueError(x)
    yield x + 1000


class Callable:
    def __call__(self, x):
        return some(x)

    def method(self, x):
        return some(x)

    @staticmethod
    def static(x):
        return some(x)

    @classmethod
    def of_class(cls, x):
        return some(x)


class Spreader:
    def __call__(self, x):
        yield from spread(x)


class AsyncCallable:
    async def __call__(self, x):
        return some(x)


class Both(list):
    """Callable and indexable, as torch's nn.Sequential is: it is called."""

    def __call__(self, x):
        return some(x)


class Wrapped:
    """A type that is called, although types have __getitem__ of their own."""

    def __init__(self, x):
        self.x = some(x) if not fails(x) and x % 5 != 4 else x

    def __class_getitem__(cls, x):
        raise AssertionError("it was indexed")

    def __eq__(self, other):
        return self.x == other.x

    def __hash__(self):
        return hash(self.x)

    def __lt__(self, other):
        return self.x < other.x


SOME = {x: [] if fails(x) or x % 5 == 4 else [3 * x] for x in range(ITEMS)}
SPREAD = {x: [x] if fails(x) else [x, x + 1000] for x in range(ITEMS)}
FAILED = [x for x in range(ITEMS) if fails(x)]

# op, what it gives for each item, which items fail
OPS = {
    "function": (some, SOME, FAILED),
    "lambda": (lambda x: some(x), SOME, FAILED),
    "partial": (functools.partial(some), SOME, FAILED),
    "builtin": (operator.neg, {x: [-x] for x in range(ITEMS)}, []),
    "callable": (Callable(), SOME, FAILED),
    "bound method": (Callable().method, SOME, FAILED),
    "static method": (Callable.static, SOME, FAILED),
    "class method": (Callable.of_class, SOME, FAILED),
    "both": (Both(), SOME, FAILED),
    "str": (str, {x: [str(x)] for x in range(ITEMS)}, []),
    "list": (list, {x: [] for x in range(ITEMS)}, list(range(ITEMS))),
    "type": (Wrapped, {x: [Wrapped(x)] for x in range(ITEMS)}, []),
    "indexed": (
        [10 * x for x in range(50)],
        {x: [10 * x] if x < 50 else [] for x in range(ITEMS)},
        list(range(50, ITEMS)),
    ),
    "looked up": (
        {x: -x for x in range(0, ITEMS, 2)},
        {x: [] if x % 2 else [-x] for x in range(ITEMS)},
        list(range(1, ITEMS, 2)),
    ),
    "generator": (spread, SPREAD, FAILED),
    "partial of a generator": (functools.partial(spread), SPREAD, FAILED),
    "callable generator": (Spreader(), SPREAD, FAILED),
    "coroutine": (later, SOME, FAILED),
    "async callable": (AsyncCallable(), SOME, FAILED),
    "lambda of a coroutine": (lambda x: later(x), SOME, FAILED),
    "async generator": (spread_later, SPREAD, FAILED),
}


@pytest.mark.parametrize("concurrency", [1, 2, 7])
@pytest.mark.parametrize("output_order", ["completion", "input"])
@pytest.mark.parametrize("key", [None, 0, -1, "x"])
@pytest.mark.parametrize("kind", OPS)
def test_one_stage(kind, key, output_order, concurrency):
    op, gives, failed = OPS[kind]

    def wrap(y, x):
        if key is None:
            return y
        if key == "x":
            return {"x": y, "name": str(x)}
        return (y, str(x)) if key == 0 else (str(x), y)

    pipeline = (
        PipelineBuilder()
        .add_source([wrap(x, x) for x in range(ITEMS)])
        .pipe(op, key=key, concurrency=concurrency, output_order=output_order)
        .add_sink(5)
        .build(num_threads=3)
    )
    expected = [wrap(y, x) for x in range(ITEMS) for y in gives[x]]
    got = list(pipeline)
    if output_order == "input" or concurrency == 1:
        assert got == expected
    else:
        assert sorted(map(repr_of, got)) == sorted(map(repr_of, expected))
    assert sorted(f.index for f in pipeline.failures) == failed
    stage = pipeline.stats().stages[1]
    assert (stage.items_in, stage.items_out) == (ITEMS, len(expected))
    assert (stage.failed, stage.running) == (len(failed), 0)
    pipeline.stop()


def repr_of(value):
    if isinstance(value, dict):
        return repr_of(value["x"]), value["name"]
    if isinstance(value, tuple):
        return tuple(map(repr_of, value))
    return repr(value.x) if isinstance(value, Wrapped) else repr(value)


@pytest.mark.parametrize("concurrency", [1, 2, 4])
@pytest.mark.parametrize("output_order", ["completion", "input"])
@pytest.mark.parametrize("kind", ["function", "generator"])
def test_concurrency_is_exact(kind, output_order, concurrency):
    lock = threading.Lock()
    full = threading.Event()  # as many were in at once as there may be
    inside, most = 0, 0

    def op(x):
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
            if most == concurrency:
                full.set()
        full.wait(10)
        time.sleep(0.003)
        with lock:
            inside -= 1
        return x

    def generator(x):
        yield op(x)
        yield op(-x)

    pipeline = (
        PipelineBuilder()
        .add_source(range(1, 61))
        .pipe(
            op if kind == "function" else generator,
            concurrency=concurrency,
            output_order=output_order,
        )
        .add_sink(20)
        .build(num_threads=6)
    )
    expected = [
        x for i in range(1, 61) for x in ([i] if kind == "function" else (i, -i))
    ]
    got = list(pipeline)
    assert got == expected or output_order == "completion"
    assert sorted(got) == sorted(expected)
    assert most == concurrency
    pipeline.stop()


@pytest.mark.parametrize("kind", ["generator", "async generator"])
def test_the_window_of_generators_in_input_order_is_bounded(kind):
    begun = Counter()
    go_on = threading.Event()

    def generator(x):
        begun[x] += 1
        if x == 0:
            assert go_on.wait(10)
        for i in range(100):
            yield x, i

    async def async_generator(x):
        begun[x] += 1
        while x == 0 and not go_on.is_set():
            await asyncio.sleep(0.001)
        for i in range(100):
            yield x, i

    pipeline = (
        PipelineBuilder()
        .add_source(range(50))
        .pipe(
            generator if kind == "generator" else async_generator,
            concurrency=3,
            output_order="input",
        )
        .add_sink(2)
        .build(num_threads=4)
    )
    pipeline.start()
    end = time.monotonic() + 10
    while len(begun) < 3:
        assert time.monotonic() < end
        time.sleep(0.002)
    time.sleep(0.05)
    assert len(begun) == 3  # the others wait with a value each
    go_on.set()
    assert list(pipeline) == [(x, i) for x in range(50) for i in range(100)]
    pipeline.stop()


# ---- aggregators ----


class Slow(Aggregator):
    """Makes pairs, slowly, and knows in which threads."""

    def __init__(self):
        self.rest = []
        self.threads = THREADS

    def __deepcopy__(self, memo):
        return Slow()

    def accumulate(self, item):
        self.threads.add(threading.current_thread().name)
        time.sleep(0.01)
        self.rest.append(item)
        return self.flush() if len(self.rest) == 2 else None

    def flush(self):
        rest, self.rest = self.rest, []
        return rest or None


THREADS = set()


def test_a_slow_aggregator_blocks_only_itself():
    """Coroutines upstream and other workers go on while it works."""
    done = []

    async def before(x):
        done.append(x)
        return x

    THREADS.clear()
    pipeline = (
        PipelineBuilder()
        .add_source(itertools.count())
        .pipe(before, concurrency=4)
        .aggregate(Slow())
        .add_sink(2)
        .build(num_threads=2)
    )
    first = pipeline.get_item(timeout=10)
    assert sorted(first) == [0, 1]
    assert len(done) > 4
    assert "headrace-asyncio" not in THREADS
    assert threading.current_thread().name not in THREADS
    pipeline.stop()


# ---- sources ----


class Once:
    """Iterable only once, and not its own iterator."""

    def __init__(self, n):
        self.values = iter(range(n))

    def __iter__(self):
        return self.values


async def async_numbers(n):
    for i in range(n):
        yield i


def inner(n):
    return PipelineBuilder().add_source(range(n)).pipe(abs).add_sink().build()


@pytest.mark.parametrize(
    "source",
    [
        lambda: range(10),
        lambda: list(range(10)),
        lambda: dict.fromkeys(range(10)),
        lambda: (x for x in range(10)),
        lambda: iter(range(10)),
        lambda: Once(10),
        lambda: async_numbers(10),
        lambda: inner(10),
    ],
    ids=["range", "list", "dict", "generator", "iterator", "once", "async", "pipeline"],
)
@pytest.mark.parametrize("op", [operator.neg, None], ids=["sync", "async"])
def test_sources(source, op):
    async def negate(x):
        return -x

    pipeline = (
        PipelineBuilder()
        .add_source(source())
        .pipe(op or negate, concurrency=3, output_order="input")
        .add_sink()
        .build(num_threads=2)
    )
    assert list(pipeline) == [-x for x in range(10)]
    pipeline.stop()


@pytest.mark.parametrize(
    "source",
    [lambda: iter(range(3)), lambda: Once(3), lambda: async_numbers(3)],
    ids=["iterator", "once", "async"],
)
def test_a_continuous_source_that_gives_one_iterator_only(source):
    pipeline = (
        PipelineBuilder()
        .add_source(source(), continuous=True)
        .add_sink()
        .build(num_threads=1)
    )
    assert list(pipeline) == [0, 1, 2]
    with pytest.raises(ValueError, match="exhausted"):
        list(pipeline)
    pipeline.stop()
