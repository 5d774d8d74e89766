"""Calls that take too long: S5, and what becomes of their threads."""

import logging
import threading
import time
from fractions import Fraction
from functools import partial

import pytest

from headrace.errors import DeadlineError
from headrace.io import load_image, load_image_batch
from headrace.pipeline import PipelineBuilder, PipelineFailure, Retry

SHORT = 0.05


def build(source, op, *, threads=2, sink=3, limit=-1, **options):
    builder = PipelineBuilder().add_source(source)
    builder.pipe(op, **{"timeout": SHORT, **options})
    return builder.add_sink(sink).build(num_threads=threads, max_failures=limit)


def stage(pipeline):
    return pipeline.stats().stages[1]


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)


class Stuck:
    """Is stuck at some items until it is told to go on."""

    def __init__(self, *items):
        self.items = items
        self.go_on = threading.Event()
        self.threads = []

    def __call__(self, x):
        if x in self.items:
            self.threads.append(threading.get_ident())
            self.go_on.wait()
        return x


# ---- S5 ----


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("output_order", ["completion", "input"])
def test_s5_a_stuck_function_fails_its_item_alone(output_order, threads):
    op = Stuck(3)
    pipeline = build(
        range(20), op, threads=threads, name="net", output_order=output_order
    )
    got = list(pipeline)
    assert (got if output_order == "input" else sorted(got)) == [
        x for x in range(20) if x != 3
    ]
    (failure,) = pipeline.failures
    assert (failure.stage, failure.index) == ("net", 3)
    assert isinstance(failure.exception, DeadlineError)
    assert isinstance(failure.exception, TimeoutError)
    text = str(failure.exception)
    assert text.startswith("stage 'net' was still working on item 3 after 0.")
    assert text.endswith(" s; its timeout is 0.05 s")
    assert (stage(pipeline).timed_out, stage(pipeline).stuck) == (1, 1)
    assert (stage(pipeline).items_in, stage(pipeline).items_out) == (20, 19)
    assert stage(pipeline).failed == 1
    op.go_on.set()
    wait_until(lambda: stage(pipeline).stuck == 0)
    assert stage(pipeline).late == 1
    pipeline.stop()
    assert stage(pipeline).items_out == 19
    with pytest.raises(EOFError):
        pipeline.get_item()


def test_s5_raised_to_the_consumer_with_a_note():
    op = Stuck("b.jpg")
    pipeline = build(["a.jpg", "b.jpg"], op, name="net", on_error="raise")
    items = iter(pipeline)
    assert next(items) == "a.jpg"
    with pytest.raises(
        TimeoutError, match="'net' was still working on item 1 after 0"
    ) as raised:
        next(items)
    assert raised.value.__notes__ == ["headrace: raised in stage 'net', item 1"]
    assert list(pipeline) == []
    op.go_on.set()


def test_counted_in_max_failures():
    op = Stuck(*range(20))
    pipeline = build(range(20), op, name="net", max_failures=2)
    with pytest.raises(PipelineFailure) as raised:
        list(pipeline)
    assert all(isinstance(e, TimeoutError) for e in raised.value.exceptions)
    assert len(raised.value.exceptions) >= 3
    op.go_on.set()


def test_counted_in_a_fraction():
    op = Stuck(*range(0, 200, 40))  # 5 of 200
    pipeline = build(range(200), op, concurrency=4, max_failures=Fraction(1, 20))
    assert len(list(pipeline)) == 195
    op.go_on.set()


def test_threads_and_concurrency_are_kept():
    """Each of four threads is lost, and four calls are made at a time afterwards."""
    op = Stuck(*range(4))
    barrier = threading.Barrier(4)

    def both(x):
        if x >= 4:
            barrier.wait(10)
        return op(x)

    pipeline = build(range(8), both, threads=4, concurrency=4, timeout=1)
    assert sorted(pipeline) == [4, 5, 6, 7]
    assert len(set(op.threads)) == 4
    assert pipeline.failures.total == 4
    op.go_on.set()


def test_a_generator_is_asked_for_each_item_in_time():
    go_on = threading.Event()

    def op(x):
        for i in range(4):
            time.sleep(0.02)  # all of it takes longer than the timeout
            if (x, i) == (1, 2):
                go_on.wait()
            yield 10 * x + i

    pipeline = build(range(3), op, timeout=0.07 * 3, output_order="input")
    assert list(pipeline) == [0, 1, 2, 3, 10, 11, 20, 21, 22, 23]
    (failure,) = pipeline.failures
    assert failure.index == 1
    assert isinstance(failure.exception, TimeoutError)
    go_on.set()
    wait_until(lambda: stage(pipeline).late == 1)


def test_a_late_exception_is_dropped_too():
    go_on = threading.Event()

    def op(x):
        if x == 1:
            go_on.wait()
            raise ValueError(x)
        return x

    pipeline = build(range(3), op, retry=Retry(3, on=(ValueError, TimeoutError)))
    assert sorted(pipeline) == [0, 2]
    go_on.set()
    wait_until(lambda: stage(pipeline).late == 1)
    (failure,) = pipeline.failures
    assert isinstance(failure.exception, TimeoutError)
    assert stage(pipeline).retried == 0  # its thread has the item still


def test_each_attempt_has_the_whole_time():
    attempts = []

    def op(x):
        attempts.append(x)
        time.sleep(0.2)
        if len(attempts) < 4:
            raise OSError(x)
        return x

    pipeline = build([7], op, timeout=0.5, retry=Retry(3, backoff=0))
    assert list(pipeline) == [7]
    assert stage(pipeline).timed_out == 0


def test_keys():
    op = Stuck(1)
    pipeline = build([(x, str(x)) for x in range(3)], op, key=0)
    assert sorted(pipeline) == [(0, "0"), (2, "2")]
    op.go_on.set()
    wait_until(lambda: stage(pipeline).late == 1)


def test_epochs():
    op = Stuck(1)
    builder = PipelineBuilder().add_source(range(4), continuous=True)
    pipeline = builder.pipe(op, timeout=SHORT).add_sink().build(num_threads=2)
    for _ in range(3):
        assert sorted(pipeline) == [0, 2, 3]
    op.go_on.set()
    pipeline.stop()


def test_quick_calls_are_not_touched():
    pipeline = build(range(20_000), lambda x: x + 1, threads=2, timeout=30)
    assert sorted(pipeline) == list(range(1, 20_001))
    assert stage(pipeline).timed_out == 0


def test_ledger_around_the_deadline():
    """Calls end about when they are given up; each item is told of once."""

    def op(x):
        time.sleep(x % 7 * 0.002)
        return x

    pipeline = build(range(300), op, threads=3, concurrency=3, timeout=0.006)
    got = list(pipeline)
    failed = [f.index for f in pipeline.failures]
    assert sorted(got + failed) == list(range(300))
    stats = stage(pipeline)
    assert stats.timed_out == stats.failed == len(failed)
    wait_until(lambda: stage(pipeline).stuck == 0)
    assert stage(pipeline).late == len(failed)


# ---- native operations ----


def test_native_operations_within_their_time(tmp_path):
    paths = [str(tmp_path / f"{i}.jpg") for i in range(3)]
    pipeline = build(paths, partial(load_image, width=8, height=8), timeout=30)
    assert list(pipeline) == []
    assert {type(f.exception) for f in pipeline.failures} == {FileNotFoundError}


def test_s5_a_native_batch_is_told_to_end(tmp_path):
    """A timeout that no batch can keep: all of it fails, not single pictures."""
    builder = PipelineBuilder().add_source([str(tmp_path / "a.jpg")] * 4)
    builder.aggregate(2)
    builder.pipe(
        partial(load_image_batch, width=8, height=8), timeout=1e-9, name="load"
    )
    pipeline = builder.add_sink().build(num_threads=2)
    assert list(pipeline) == []
    assert [f.index for f in pipeline.failures] == [0, 2]
    for failure in pipeline.failures:
        assert isinstance(failure.exception, TimeoutError)
        assert str(failure.exception).startswith("stage 'load' ")
    assert pipeline.stats().stages[2].timed_out == 2
    assert pipeline.stats().stages[2].stuck == 0


# ---- the end ----


@pytest.mark.thread_unsafe(reason="reads the log of the process")
def test_s5_stop_says_what_is_stuck_and_returns(caplog):
    op = Stuck(2)
    pipeline = build(range(5), op, name="net")
    with caplog.at_level(logging.WARNING, logger="headrace.pipeline"):
        assert sorted(pipeline) == [0, 1, 3, 4]
        begin = time.monotonic()
        pipeline.stop()
        assert time.monotonic() - begin < 2
    texts = [r.getMessage() for r in caplog.records]
    assert any("net: item 2 failed" in t and "timeout is 0.05 s" in t for t in texts)
    assert any("stuck in stage 'net', item 2" in t for t in texts)
    pipeline.stop()
    op.go_on.set()


def test_s5_a_stop_is_waiting_while_it_is_given_up(script):
    script("""
    go_on = threading.Event()
    def op(x):
        go_on.wait()
        return x
    before = threads()
    pipeline = build(range(50), op, timeout=0.3)
    pipeline.start()
    wait_until(lambda: pipeline.stats().stages[1].running == 1)
    pipeline.stop()
    stats = pipeline.stats().stages[1]
    assert stats.stuck == 1
    assert stats.items_in == stats.items_out + stats.failed + stats.released
    assert threads() == before + 1
    del pipeline
    gc.collect()
    go_on.set()
    wait_until(lambda: threads() == before)
    """)


@pytest.mark.parametrize("when", ["running", "ended", "stopped", "dropped"])
def test_s5_exit_with_a_stuck_thread(script, when):
    script(
        f"""
    when = {when!r}
    def op(x):
        if x == 1:
            time.sleep(1000)
        return x
    pipeline = build(range(4), op, timeout=0.1)
    items = iter(pipeline)
    assert next(items) == 0
    wait_until(lambda: pipeline.stats().stages[1].stuck == 1)
    if when != "running":
        assert sorted(items) == [2, 3]
    if when == "stopped":
        pipeline.stop()
    if when == "dropped":
        del pipeline, items
        gc.collect()
    """,
        seconds=10,
    )


def test_late_threads_leave_nothing_behind(script):
    script("""
    import weakref
    class Item:
        pass
    go_on = threading.Event()
    def op(x):
        go_on.wait()
        return Item()
    before = threads()
    items = [Item() for _ in range(6)]
    refs = [weakref.ref(item) for item in items]
    pipeline = build(items, op, timeout=0.02, threads=3, concurrency=3)
    del items
    assert list(pipeline) == []
    assert pipeline.stats().stages[1].stuck == 6
    go_on.set()
    wait_until(lambda: pipeline.stats().stages[1].late == 6)
    pipeline.stop()
    wait_until(lambda: threads() == before)
    failures = list(pipeline.failures)
    del pipeline, op
    gc.collect()
    assert [ref() for ref in refs] == [None] * 6
    assert len(failures) == 6
    assert threads() == before
    """)


def test_an_operation_that_stops_its_pipeline_late(script):
    script("""
    late = threading.Event()
    def op(x):
        if x == 0:
            wait_until(lambda: pipeline.stats().stages[1].stuck == 1)
            pipeline.stop()
            late.set()
        return x
    pipeline = build(range(3), op, timeout=0.05)
    assert set(pipeline) <= {1, 2}
    assert late.wait(10)
    pipeline.stop()
    """)


def test_too_many_stuck_threads_end_the_run(script):
    script("""
    from headrace.pipeline import PipelineFailure
    go_on = threading.Event()
    pipeline = build(range(10_000), lambda x: go_on.wait(), timeout=1e-3, threads=4,
                     concurrency=4)
    try:
        list(pipeline)
    except PipelineFailure as error:
        assert "threads are stuck" in str(error), error
        assert isinstance(error.exceptions[0], TimeoutError)
    else:
        raise AssertionError
    pipeline.stop()
    go_on.set()
    """)


# ---- arguments ----


@pytest.mark.parametrize(
    ("timeout", "error"),
    [
        (0, ValueError),
        (-1, ValueError),
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        (1e9, ValueError),
        ("1", TypeError),
        (True, TypeError),
    ],
)
def test_timeouts_that_are_none(timeout, error):
    with pytest.raises(error, match="timeout must be seconds"):
        PipelineBuilder().pipe(len, timeout=timeout)


def test_none_is_no_timeout():
    assert list(build(range(3), lambda x: x, timeout=None)) == [0, 1, 2]
