"""What the builder accepts, and how it refuses the rest."""

import copy
import functools
import pickle
import re
from fractions import Fraction

import numpy as np
import pytest

from headrace import _ext
from headrace.pipeline import PipelineBuilder, Retry, defs


def double(x):
    return 2 * x


async def coroutine(x):
    return x


async def agenerator(x):
    yield x


class AsyncCallable:
    async def __call__(self, x):
        return x


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2", 2**31])
def test_counts(value):
    builder = PipelineBuilder().add_source([])
    with pytest.raises(ValueError, match="concurrency"):
        builder.pipe(double, concurrency=value)
    with pytest.raises(ValueError, match="buffer_size"):
        builder.add_sink(value)
    with pytest.raises(ValueError, match="num_threads"):
        builder.add_sink().build(num_threads=value)


def test_numbers_of_numpy():
    """They come out of arrays and configurations, and mean what ints and floats do."""
    two = np.int64(2)
    options = {"max_failures": two, "retry": two, "timeout": np.float32(60)}
    pipeline = (
        PipelineBuilder()
        .add_source([(i, i) for i in range(6)])
        .pipe(double, key=np.int8(1), concurrency=two, output_order="input", **options)
        .aggregate(two)
        .add_sink(two)
        .build(num_threads=two, report_stats_interval=np.float64(-1))
    )
    expected = [[(0, 0), (1, 2)], [(2, 4), (3, 6)], [(4, 8), (5, 10)]]
    assert list(pipeline) == expected
    assert Retry(two, backoff=np.float32(0.5)) == Retry(2, backoff=0.5)


@pytest.mark.parametrize(
    ("argument", "error", "text"),
    [
        ({"timeout": 1e9}, ValueError, "less than 1e9"),
        ({"timeout": 10**400}, ValueError, "less than 1e9"),
        ({"retry": 2**31}, ValueError, "times must be from 0 to 2"),
        ({"retry": "3"}, TypeError, "a Retry or a number of retries, got '3'"),
        ({"retry": True}, TypeError, "a Retry or a number of retries, got True"),
    ],
)
def test_what_is_wrong_with_a_number(argument, error, text):
    with pytest.raises(error, match=re.escape(text)):
        PipelineBuilder().pipe(double, **argument)


@pytest.mark.parametrize("name", ["backoff", "backoff_max"])
def test_times_of_a_retry(name):
    with pytest.raises(TypeError, match=f"{name} must be seconds, got '1'"):
        Retry(1, **{name: "1"})
    with pytest.raises(ValueError, match=f"{name} must be seconds >= 0 and less than"):
        Retry(1, **{name: float("inf")})


@pytest.mark.parametrize("paths", [None, 3, double])
def test_what_are_no_paths(paths):
    with pytest.raises(TypeError, match="paths must be a sequence or a mapping, got"):
        PipelineBuilder().path_variants(double, paths)


@pytest.mark.parametrize("pipelines", [None, 3, PipelineBuilder().add_source([])])
def test_what_cannot_be_merged(pipelines):
    with pytest.raises(TypeError, match="takes a sequence of PipelineBuilders, got"):
        defs.Merge(pipelines)


def test_a_source_that_has_items_but_no_iterator():
    class Dataset:
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return 10 * i

    dataset = Dataset()
    advice = re.escape("add_source(range(len(it))).pipe(it)")
    with pytest.raises(ValueError, match=advice):
        PipelineBuilder().add_source(dataset)
    builder = PipelineBuilder().add_source(range(len(dataset))).pipe(dataset)
    assert list(builder.add_sink().build(num_threads=1)) == [0, 10, 20]


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_pipelines_are_not_copied(way):
    builder = PipelineBuilder().add_source(range(3)).pipe(double).add_sink()
    with pytest.raises(TypeError, match="pickle its PipelineBuilder"):
        way(builder.build(num_threads=1))
    other = pickle.loads(pickle.dumps(builder))
    assert list(other.build(num_threads=1)) == [0, 2, 4]


def test_order():
    with pytest.raises(ValueError, match="'completion' or 'input', got 'inputs'"):
        PipelineBuilder().pipe(double, output_order="inputs")


@pytest.mark.parametrize("limit", [Fraction(0), Fraction(3, 2), Fraction(-1, 2)])
def test_fractions(limit):
    with pytest.raises(ValueError, match="max_failures"):
        PipelineBuilder().pipe(double, max_failures=limit)
    with pytest.raises(ValueError, match="max_failures"):
        PipelineBuilder().add_source([]).add_sink().build(max_failures=limit)


@pytest.mark.parametrize("limit", [0.5, "1", True])
def test_max_failures_type(limit):
    with pytest.raises(TypeError, match="max_failures must be an int or a Fraction"):
        PipelineBuilder().pipe(double, max_failures=limit)


@pytest.mark.parametrize("key", [1.0, True, b"k", (0,)])
def test_key(key):
    with pytest.raises(TypeError, match="key must be an int"):
        PipelineBuilder().pipe(double, key=key)


def test_once_each():
    builder = PipelineBuilder().add_source([]).add_sink()
    with pytest.raises(ValueError, match="has a source already"):
        builder.add_source([])
    with pytest.raises(ValueError, match="has a sink already"):
        builder.add_sink()


def test_both_ends():
    with pytest.raises(RuntimeError, match="no source"):
        PipelineBuilder().add_sink().build()
    with pytest.raises(RuntimeError, match="no sink"):
        PipelineBuilder().add_source([]).build()


def test_what_is_no_op():
    with pytest.raises(TypeError, match="callable or have __getitem__"):
        PipelineBuilder().pipe(7)
    with pytest.raises(ValueError, match="source must be iterable, got 7"):
        PipelineBuilder().add_source(7)
    with pytest.raises(TypeError, match="aggregate\\(\\) takes a number"):
        PipelineBuilder().aggregate(2.0)
    with pytest.raises(ValueError, match="n must be"):
        PipelineBuilder().aggregate(0)


@pytest.mark.parametrize(
    "source", [coroutine, agenerator, AsyncCallable(), coroutine.__call__]
)
def test_what_is_no_source(source):
    with pytest.raises(ValueError, match="source must be iterable"):
        PipelineBuilder().add_source(source)


def test_what_is_no_operation_of_the_loop():
    values = agenerator(1)
    with pytest.raises(TypeError, match="op must be callable"):
        PipelineBuilder().pipe(values)
    awaitable = coroutine(1)
    with pytest.raises(TypeError, match="op must be callable"):
        PipelineBuilder().pipe(awaitable)
    awaitable.close()


def test_names():
    class Thing:
        def __call__(self, x):
            return x

    pipeline = (
        PipelineBuilder()
        .add_source([])
        .pipe(functools.partial(functools.partial(double)), concurrency=3)
        .pipe(Thing())
        .pipe([1, 2])
        .pipe(lambda x: x, name="same")
        .aggregate(2)
        .disaggregate()
        .add_sink(7)
        .build(num_threads=1)
    )
    assert repr(pipeline) == (
        "<Pipeline source → double[3] → Thing → list → same → aggregate(2) → "
        "disaggregate → sink(7), created>"
    )
    assert [s.name for s in pipeline.stats().stages] == [
        "source",
        "double",
        "Thing",
        "list",
        "same",
        "aggregate(2)",
        "disaggregate",
        "sink",
    ]
    assert list(pipeline) == []
    assert repr(pipeline).endswith(", running>")
    pipeline.stop()
    assert repr(pipeline).endswith(", stopped>")


def test_plans_are_used_up():
    plan = _ext.Plan()
    plan.source([], "source", "object", False)
    plan.sink(1)
    plan.build(1, lambda *_: None, lambda *_: None, None, lambda *_: None)
    with pytest.raises(RuntimeError, match="built already"):
        plan.sink(1)


@pytest.mark.parametrize("want", ["objects", "", 3, None, ((0, "thing"),), ((0,),)])
def test_wants_of_plans(want):
    with pytest.raises((ValueError, TypeError)):
        _ext.Plan().source([], "source", want, False)


def test_a_long_name_is_cut_between_characters():
    name = "é" * 40
    pipeline = PipelineBuilder().add_source([1]).pipe(str, name=name).add_sink().build()
    assert pipeline.stats().stages[1].name == "é" * 31  # 62 of 63 bytes


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"name": 5}, TypeError, "name must be a str, got 5"),
        ({"name": "a\0b"}, ValueError, "name must not contain a NUL character"),
        ({"name": "\ud800"}, ValueError, "name must not contain surrogates"),
        ({"key": "a\0b"}, ValueError, "key must not contain a NUL character"),
        ({"key": "\ud800"}, ValueError, "key must not contain surrogates"),
        ({"key": 2**63}, ValueError, "key must be from -64 to 63"),
    ],
)
def test_names_and_keys_that_the_engine_cannot_take(options, error, text):
    with pytest.raises(error, match=f"^{text}"):
        PipelineBuilder().pipe(double, **options)


def test_any_number_of_failures_may_be_allowed():
    builder = PipelineBuilder().add_source([1]).pipe(double, max_failures=2**70)
    assert list(builder.add_sink().build(num_threads=1)) == [2]


@pytest.mark.parametrize("concurrency", [1, 8])
def test_the_largest_batch_and_sink(concurrency):
    for before_aggregate in (False, True):
        builder = PipelineBuilder().add_source(range(5))
        if before_aggregate:
            builder.pipe(double, concurrency=concurrency, output_order="input")
        builder.aggregate(2**20).disaggregate()
        builder.pipe(double, concurrency=concurrency, output_order="input")
        pipeline = builder.add_sink(2**20).build(num_threads=1)
        factor = 4 if before_aggregate else 2
        assert list(pipeline) == [factor * x for x in range(5)]


def test_a_batch_over_the_limit_is_refused_by_its_name():
    builder = PipelineBuilder().add_source(range(5)).aggregate(2**20 + 1).add_sink()
    with pytest.raises(ValueError, match=r"^aggregate: n must be 1 to 1,048,576, got"):
        builder.build()
