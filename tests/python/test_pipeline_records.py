"""Tuples and dicts: key= and columns=True."""

from functools import partial
from typing import Any, NamedTuple

import pytest

from headrace import _ext
from headrace.io import load_image, load_image_batch
from headrace.pipeline import PipelineBuilder


class Pair(NamedTuple):
    x: Any
    label: Any


def build(source, *stages, sink=4, threads=2):
    builder = PipelineBuilder().add_source(source)
    for stage in stages:
        stage(builder)
    return builder.add_sink(sink).build(num_threads=threads)


def pipe(op, **options):
    return lambda builder: builder.pipe(op, output_order="input", **options)


def aggregate(n, **options):
    return lambda builder: builder.aggregate(n, **options)


def disaggregate(builder):
    builder.disaggregate()


def test_a_field_of_a_tuple():
    label = object()
    (item,) = build([(3, label)], pipe(lambda x: x * 10, key=0))
    assert item == (30, label)
    assert item[1] is label


def test_a_field_from_the_end():
    assert list(build([(3, 4, 5)], pipe(lambda x: x * 10, key=-1))) == [(3, 4, 50)]


def test_a_field_of_a_dict():
    items = [{"image": i, "label": str(i)} for i in range(20)]
    assert list(build(items, pipe(lambda x: x + 1, key="image", concurrency=3))) == [
        {"image": i + 1, "label": str(i)} for i in range(20)
    ]


def test_several_keys():
    stages = pipe(lambda x: x + 1, key=0), pipe(lambda x: x * 2, key=1)
    assert list(build([(1, 2), (3, 4)], *stages)) == [(2, 4), (4, 8)]


def test_none_drops_the_whole_record():
    keep_even = pipe(lambda x: None if x % 2 else x, key=0)
    assert list(build([(i, str(i)) for i in range(4)], keep_even)) == [
        (0, "0"),
        (2, "2"),
    ]


def test_named_tuples_become_tuples():
    (item,) = build([Pair(1, 2)], pipe(lambda x: x + 1, key=0))
    assert item == (2, 2)
    assert type(item) is tuple


def test_named_tuples_pass_unkeyed_stages():
    pair = Pair(1, 2)
    (item,) = build([pair], pipe(lambda x: x))
    assert item is pair


def test_generators_on_a_field():
    def twice(x):
        yield x
        yield -x

    label = object()
    items = list(build([(1, label), (2, label)], pipe(twice, key=0)))
    assert items == [(1, label), (-1, label), (2, label), (-2, label)]


@pytest.mark.parametrize("last", [4, 3])
def test_columns_of_tuples(last):
    items = [(i, str(i)) for i in range(4 + last)]
    got = list(build(items, aggregate(4, columns=True)))
    assert got == [
        ([0, 1, 2, 3], ["0", "1", "2", "3"]),
        (list(range(4, 4 + last)), [str(i) for i in range(4, 4 + last)]),
    ]


def test_columns_of_dicts_go_by_name():
    items = [{"a": 1, "b": 2}, {"b": 4, "a": 3}]
    assert list(build(items, aggregate(2, columns=True))) == [
        {"a": [1, 3], "b": [2, 4]}
    ]


def test_columns_then_key():
    items = [(i, -i) for i in range(6)]
    got = list(build(items, aggregate(3, columns=True), pipe(sum, key=0)))
    assert got == [(3, [0, -1, -2]), (12, [-3, -4, -5])]


def test_python_stage_makes_records():
    got = list(build(range(4), pipe(lambda i: (i, "x")), aggregate(4, columns=True)))
    assert got == [([0, 1, 2, 3], ["x"] * 4)]


def test_records_through_lists():
    items = [(i, str(i)) for i in range(5)]
    stages = pipe(abs, key=0), aggregate(2), disaggregate, pipe(str, key=0)
    assert list(build(items, *stages)) == [(str(i), str(i)) for i in range(5)]


def test_native_stage_passes_records():
    items = [(i, str(i)) for i in range(5)]
    assert list(build(items, pipe(_ext.noop_op()))) == items
    assert list(build(items, pipe(_ext.noop_op(), key=1))) == items


# ---- what is no record ----


def failures_of(source, *stages):
    pipeline = build(source, *stages)
    delivered = list(pipeline)
    return delivered, [
        (f.index, type(f.exception), str(f.exception)) for f in pipeline.failures
    ]


@pytest.mark.parametrize("bad", [7, "text", [1, 2], None])
def test_key_on_something_else(bad):
    delivered, failures = failures_of([(1, 2), bad, (3, 4)], pipe(str, key=0))
    assert delivered == [("1", 2), ("3", 4)]
    ((index, kind, message),) = failures
    assert (index, kind) == (1, TypeError)
    assert type(bad).__name__ in message
    assert "a tuple or a dict" in message


def test_key_that_is_not_there():
    items = [(1, 2), (1, 2, 3), {"a": 1}]
    delivered, failures = failures_of(items, pipe(str, key=2))
    assert delivered == [(1, 2, "3")]
    assert [(i, kind) for i, kind, _ in failures] == [(0, TypeError), (2, TypeError)]
    assert "2 fields" in failures[0][2]
    delivered, failures = failures_of([{"a": 1}, {"b": 1}], pipe(str, key="a"))
    assert delivered == [{"a": "1"}]
    assert "'a'" in failures[0][2]


def test_dict_keys_must_be_text():
    delivered, failures = failures_of([{1: 2}, {"a": 2}], pipe(str, key="a"))
    assert delivered == [{"a": "2"}]
    assert "must be str, found int" in failures[0][2]


class Understated(dict[str, int]):
    def __len__(self):
        return 1


def names(n):
    return {str(i): 0 for i in range(n)}


@pytest.mark.parametrize(("key", "make"), [(0, lambda n: (0,) * n), ("0", names)])
def test_a_record_may_have_64_fields(key, make):
    stages = pipe(make), pipe(lambda x: x + 1, key=key)
    (item,) = build([64], *stages)
    assert len(item) == 64
    assert item[key] == 1


@pytest.mark.parametrize("n", [65, 10_000])
@pytest.mark.parametrize(
    ("key", "make"),
    [(0, lambda n: (0,) * n), ("0", names), ("0", lambda n: Understated(names(n)))],
)
def test_more_fields_are_refused(key, make, n):
    stages = pipe(make), pipe(lambda x: x + 1, key=key)
    delivered, failures = failures_of([n], *stages)
    assert delivered == []
    assert failures == [(0, TypeError, f"a record has at most 64 fields, found {n}")]


def test_python_result_that_is_no_record():
    stages = pipe(lambda x: x or 0), pipe(str, key=0)
    delivered, failures = failures_of([(1,), ()], *stages)
    assert delivered == [("1",)]
    ((index, kind, message),) = failures
    assert (index, kind) == (1, TypeError)
    assert "found int" in message


# ---- stages that can't fit together are refused when the pipeline is built ----


NATIVE = {
    "source": load_image,
    "list": partial(load_image_batch, width=8, height=8),
}


def test_native_stage_on_records_needs_a_key():
    with pytest.raises(TypeError, match=r"'load_image' .* pass key="):
        build([], pipe(str, key=0), pipe(NATIVE["source"]))
    with pytest.raises(TypeError, match=r"'load_image_batch' .* pass key="):
        build([], aggregate(2, columns=True), pipe(NATIVE["list"]))


def test_native_stage_for_one_item_gets_lists():
    with pytest.raises(TypeError, match="gets lists"):
        build([], aggregate(2), pipe(NATIVE["source"]))


@pytest.mark.parametrize(
    "stages",
    [
        [aggregate(2), pipe(str, key=0)],
        [aggregate(2), aggregate(2, columns=True)],
        [pipe(NATIVE["source"]), pipe(str, key=0)],
        [pipe(NATIVE["source"]), aggregate(2, columns=True)],
    ],
)
def test_records_are_needed(stages):
    with pytest.raises(TypeError, match="needs tuples or dicts"):
        build([], *stages)


def test_a_key_with_a_nul_is_refused_not_cut():
    pipeline = build([{"a": -1, "b\0c": 1, "b\0d": 2}, {"a": -1}], pipe(abs, key="a"))
    assert list(pipeline) == [{"a": 1}]
    assert "must not contain a NUL character" in str(pipeline.failures[0].exception)
