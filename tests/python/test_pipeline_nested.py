"""Pipelines as sources of pipelines, and the length of pipelines."""

import gc
import threading
import time

import pytest

from headrace.pipeline import PipelineBuilder
from headrace.pipeline.defs import Collate


def build(source, *ops, continuous=False, batch=None, drop_last=False, **options):
    builder = PipelineBuilder().add_source(source, continuous=continuous)
    for op in ops:
        builder.pipe(op, **options)
    if batch:
        builder.aggregate(batch, drop_last=drop_last)
    return builder.add_sink().build(num_threads=2)


def double(x):
    return 2 * x


# ---- nested ----


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 17, 300])
def test_c6_nested(n, depth):
    pipeline = build(range(n), double)
    for _ in range(depth):
        pipeline = build(pipeline, double)
    assert list(pipeline) == [x * 2 ** (depth + 1) for x in range(n)]
    pipeline.stop()


def test_nested_epochs():
    inner = build(range(10), double, continuous=True)
    outer = build(inner, double, continuous=True, batch=4)
    for _ in range(5):
        assert list(outer) == [[0, 4, 8, 12], [16, 20, 24, 28], [32, 36]]
    outer.stop()
    assert not running(inner)


def test_an_outer_pipeline_covers_one_epoch_of_the_inner():
    inner = build(range(5), continuous=True)
    for _ in range(3):
        outer = build(inner, double)
        assert list(outer) == [0, 2, 4, 6, 8]
        del outer
    inner.stop()


def test_continuous_over_one_run_is_refused():
    inner = build(range(5))
    with pytest.raises(ValueError, match="its own source is continuous"):
        PipelineBuilder().add_source(inner, continuous=True)


def test_a_failure_of_the_inner_one_reaches_the_consumer():
    def source():
        yield from (1, 2)
        raise OSError("gone")

    outer = build(build(source(), double), double)
    got = []
    with pytest.raises(OSError, match="gone") as caught:
        for item in outer:
            got.append(item)
    assert got == [4, 8]
    assert caught.value.__notes__ == [
        "headrace: raised in stage 'source', item 2",
        "headrace: raised in stage 'source', item 2",
    ]
    assert list(outer) == []


def test_a_raising_stage_of_the_inner_one():
    def op(x):
        if x == 3:
            raise KeyError(x)
        return x

    outer = build(build(range(9), op, on_error="raise", output_order="input"), double)
    got = []
    with pytest.raises(KeyError):
        for item in outer:
            got.append(item)
    assert got == [0, 2, 4]


def blocked():
    """A source that gives one item and then waits, and how to let it go."""
    gate = threading.Event()

    def source():
        yield 1
        gate.wait(20)
        yield 2

    return source(), gate


def running(pipeline):
    return "running" in repr(pipeline)


def test_c6_stopping_the_outer_stops_the_inner():
    """Even if nothing comes from it any more."""
    hold = threading.Event()
    inner = build(range(1000), lambda x: x if x == 0 else hold.wait(5))
    outer = build(inner, double)
    assert outer.get_item(timeout=5) == 0
    hold.set()
    begin = time.monotonic()
    outer.stop()
    assert time.monotonic() - begin < 3
    assert not running(inner)
    with pytest.raises(EOFError):
        while True:
            inner.get_item(timeout=5)


def test_dropping_the_outer_ends_the_wait_for_the_inner():
    source, gate = blocked()
    inner = build(source)
    outer = build(inner, double)
    assert outer.get_item(timeout=5) == 2
    time.sleep(0.05)
    begin = time.monotonic()
    del outer
    gc.collect()
    assert time.monotonic() - begin < 2
    gate.set()
    inner.stop()


def test_dropping_one_that_never_started_leaves_the_inner_alone():
    inner = build(range(3))
    outer = build(inner)
    del outer
    gc.collect()
    assert list(inner) == [0, 1, 2]


def test_a_stop_tells_no_failure_of_the_source():
    for _ in range(20):
        inner = build(range(100))
        outer = build(inner)
        outer.start()
        outer.stop()
        list(outer)


def test_residue(script):
    out = script(
        """
        import itertools
        for i in range(12):
            before = threads()
            inner = build(itertools.count(), lambda x: x)
            outer = build(build(inner, lambda x: x), lambda x: x)
            for _ in range(i):
                outer.get_item(timeout=5)
            if i % 2:
                outer.stop()
            del inner, outer
            gc.collect()
            wait_until(lambda: threads() == before)
        inner = build(itertools.count(), lambda x: x)
        alive = build(inner, lambda x: x)
        assert alive.get_item(timeout=5) == 0
        print("ok")
        """
    )
    assert out == "ok\n"


# ---- length ----


@pytest.mark.parametrize("n", [0, 1, 9, 10, 11])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch", [None, 1, 3, 10])
def test_length_is_what_comes(batch, drop_last, n):
    pipeline = build(range(n), double, batch=batch, drop_last=drop_last)
    assert len(pipeline) == len(list(pipeline))
    assert pipeline


def test_length_of_several_batches():
    builder = PipelineBuilder().add_source(range(25)).aggregate(4).aggregate(Collate(2))
    pipeline = builder.add_sink().build(num_threads=1)
    assert len(pipeline) == 4  # 7 lists, two by two
    assert len(list(pipeline)) == 4


def test_length_of_an_epoch_and_of_a_nested_pipeline():
    inner = build([1, 2, 3], continuous=True)
    assert len(inner) == 3
    assert len(build(inner, batch=2)) == 2


def test_length_follows_the_source():
    source = [1, 2]
    pipeline = build(source)
    source.append(3)
    assert len(pipeline) == 3
    pipeline.stop()


def spread(x):
    yield x


class Mine(Collate):
    pass


def apart(source):
    builder = PipelineBuilder().add_source(source).disaggregate().add_sink()
    return builder.build(num_threads=1)


@pytest.mark.parametrize(
    ("pipeline", "why"),
    [
        (lambda: build(x for x in ()), "a generator, has none"),
        (lambda: build(build(x for x in ()), double), "a generator, has none"),
        (lambda: build([1], spread), "'spread'"),
        (lambda: build([1], batch=Mine(2)), "Mine"),
        (lambda: apart([[1]]), "'disaggregate'"),
    ],
)
def test_no_length(pipeline, why):
    pipeline = pipeline()
    with pytest.raises(TypeError, match=why):
        len(pipeline)
    assert pipeline  # has no length, but is there
    list(pipeline)
