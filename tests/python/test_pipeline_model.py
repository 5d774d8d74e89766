"""Pipelines give what a plain loop over the same items gives."""

import functools
import itertools
import operator
from collections import Counter

import pytest

from headrace.pipeline import PipelineBuilder

ITEMS = 200


def triple(x):
    if x % 7 == 3:
        raise ValueError(x)
    return None if x % 5 == 4 else 3 * x


def expected_triples():
    return [3 * x for x in range(ITEMS) if x % 7 != 3 and x % 5 != 4]


def add(y, x):
    if x % 7 == 3:
        raise ValueError(x)
    return x + y


class Scale:
    def __init__(self, by):
        self.by = by

    def method(self, x):
        if x % 7 == 3:
            raise ValueError(x)
        return x * self.by

    def __call__(self, x):
        return self.method(x) + 1

    def __getitem__(self, x):
        raise AssertionError("a callable is called, not indexed")


class Both(list):
    """Not callable: indexed."""


def spread(x):
    yield x
    yield None
    if x % 7 == 3:
        raise ValueError(x)
    yield from (x + 1000, x + 2000)


class Spreader:
    def __call__(self, x):
        yield from range(x % 4)


def without_failed(values):
    return [v for x, v in enumerate(values) if x % 7 != 3]


OPS = {
    "function": (triple, expected_triples()),
    "lambda": (lambda x: None if x % 2 else x, list(range(0, ITEMS, 2))),
    "partial": (
        functools.partial(add, 5),
        without_failed(x + 5 for x in range(ITEMS)),
    ),
    "nested partial": (
        functools.partial(functools.partial(operator.add), 7),
        [x + 7 for x in range(ITEMS)],
    ),
    "bound method": (
        Scale(4).method,
        without_failed(4 * x for x in range(ITEMS)),
    ),
    "callable": (Scale(4), without_failed(4 * x + 1 for x in range(ITEMS))),
    "type": (str, [str(x) for x in range(ITEMS)]),
    "generator": (
        spread,
        list(
            itertools.chain.from_iterable(
                [x] if x % 7 == 3 else [x, x + 1000, x + 2000] for x in range(ITEMS)
            )
        ),
    ),
    "callable generator": (
        Spreader(),
        list(itertools.chain.from_iterable(range(x % 4) for x in range(ITEMS))),
    ),
    "list": (Both(range(100, 250)), list(range(100, 250))),
    "dict": ({x: -x for x in range(0, ITEMS, 3)}, [-x for x in range(0, ITEMS, 3)]),
}

FAILED = {
    "function": [x for x in range(ITEMS) if x % 7 == 3],
    "partial": [x for x in range(ITEMS) if x % 7 == 3],
    "bound method": [x for x in range(ITEMS) if x % 7 == 3],
    "callable": [x for x in range(ITEMS) if x % 7 == 3],
    "generator": [x for x in range(ITEMS) if x % 7 == 3],
    "list": list(range(150, ITEMS)),
    "dict": [x for x in range(ITEMS) if x % 3],
}


@pytest.mark.parametrize("concurrency", [1, 2, 7])
@pytest.mark.parametrize("output_order", ["completion", "input"])
@pytest.mark.parametrize("kind", OPS)
def test_one_stage(kind, output_order, concurrency):
    op, expected = OPS[kind]
    pipeline = (
        PipelineBuilder()
        .add_source(range(ITEMS))
        .pipe(op, concurrency=concurrency, output_order=output_order)
        .add_sink(5)
        .build(num_threads=3)
    )
    got = list(pipeline)
    if output_order == "input" or concurrency == 1:
        assert got == expected
    else:
        assert Counter(got) == Counter(expected)
    failed = FAILED.get(kind, [])
    assert sorted(f.index for f in pipeline.failures) == failed
    stage = pipeline.stats().stages[1]
    assert stage.items_in == ITEMS
    assert stage.items_out == len(expected)
    assert stage.failed == len(failed)
    assert pipeline.stats().delivered == len(expected)
    pipeline.stop()


@pytest.mark.parametrize("seed", range(12))
def test_chains(seed):
    """Chains of stages, all in input order, against loops over lists."""
    n, a, b = 17 * seed, 1 + seed % 4, 2 + seed % 5
    values = [x + 1 for x in range(n)]
    lists = [values[i : i + a] for i in range(0, n, a)]
    if seed % 2:
        lists = [part for part in lists if len(part) == a]
    sums = [sum(part) for part in lists]
    pairs = [(s, t) for s in sums for t in range(s % 3)]
    batches = [pairs[i : i + b] for i in range(0, len(pairs), b)]

    pipeline = (
        PipelineBuilder()
        .add_source(iter(range(n)))
        .pipe(lambda x: x + 1, concurrency=3, output_order="input")
        .aggregate(a, drop_last=bool(seed % 2))
        .pipe(sum, concurrency=2, output_order="input")
        .pipe(spread_pairs, concurrency=2, output_order="input")
        .aggregate(b)
        .disaggregate()
        .aggregate(b)
        .add_sink(1 + seed % 3)
        .build(num_threads=1 + seed % 3)
    )
    assert list(pipeline) == batches
    assert list(pipeline) == []


def spread_pairs(s):
    return_value = [(s, t) for t in range(s % 3)]
    yield from return_value


def test_disaggregate_of_python_values():
    items = [[1, None, 2], (), (x for x in "ab"), {"k": 0}, 7, "xy"]
    pipeline = (
        PipelineBuilder()
        .add_source(items)
        .disaggregate()
        .add_sink()
        .build(num_threads=2)
    )
    assert list(pipeline) == [1, 2, "a", "b", "k", "x", "y"]
    (failure,) = pipeline.failures
    assert failure.index == 4
    assert isinstance(failure.exception, TypeError)


def test_disaggregate_is_incremental():
    """An endless element does not fill the memory."""
    pipeline = (
        PipelineBuilder()
        .add_source([itertools.count()])
        .disaggregate()
        .add_sink(2)
        .build(num_threads=1)
    )
    assert list(itertools.islice(pipeline, 100)) == list(range(100))
    pipeline.stop()
    assert pipeline.stats().stages[1].items_out < 200


def test_a_none_of_the_source_is_an_item():
    pipeline = (
        PipelineBuilder().add_source([1, None, 2]).add_sink().build(num_threads=1)
    )
    assert list(pipeline) == [1, None, 2]


def test_objects_pass_as_they_are():
    items = [object(), (1, 2), {"a": 1}, [], "text", b"bytes"]
    pipeline = (
        PipelineBuilder()
        .add_source(items)
        .pipe(lambda x: x)
        .add_sink()
        .build(num_threads=2)
    )
    assert all(a is b for a, b in zip(pipeline, items, strict=True))


def test_a_builder_builds_many_times():
    builder = PipelineBuilder().add_source(range(10)).aggregate(4).add_sink()
    first, second = builder.build(num_threads=1), builder.build(num_threads=1)
    assert next(iter(first)) == [0, 1, 2, 3]
    assert list(second) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert list(first) == [[4, 5, 6, 7], [8, 9]]


def test_a_long_generator_does_not_hold_up_the_others():
    """Values of a generator arrive while it is still running."""

    def endless(x):
        yield from itertools.count(x)

    pipeline = (
        PipelineBuilder()
        .add_source([0])
        .pipe(endless)
        .pipe(lambda x: x * 2)
        .add_sink()
        .build(num_threads=1)
    )
    assert list(itertools.islice(pipeline, 50)) == list(range(0, 100, 2))
    pipeline.stop()


@pytest.mark.parametrize("ops", [[], [len], [len, str]])
@pytest.mark.parametrize("n", [5, 40, 300])
def test_aggregate_larger_than_the_read_ahead(n, ops):
    builder = PipelineBuilder().add_source(range(1000)).aggregate(n)
    for op in ops:
        builder.pipe(op)
    got = list(builder.add_sink(1).build(num_threads=2))
    assert len(got) == -(-1000 // n)
