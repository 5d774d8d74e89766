"""Calls in executors that take too long: given up, with the worker they run in.

The calls that shall be late wait for an event, or for ever; the others have `AMPLE`.
"""

import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from conftest import SLOWNESS

from headrace.errors import DeadlineError
from headrace.pipeline import PipelineBuilder, PipelineFailure, Retry

SHORT = 0.1 * SLOWNESS
AMPLE = 60.0


def build(source, op, *, limit=-1, **options):
    builder = PipelineBuilder().add_source(source).pipe(op, **options)
    return builder.add_sink(3).build(num_threads=1, max_failures=limit)


def stage(pipeline):
    return pipeline.stats().stages[1]


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds * SLOWNESS
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)


def assert_adds_up(pipeline, emitted):
    stats = stage(pipeline)
    assert stats.items_in == emitted
    assert emitted == (
        stats.items_out + stats.filtered + stats.failed + stats.released + stats.running
    )


class Stuck:
    """An operation that waits at some items until it may go on."""

    def __init__(self, *items):
        self.items = items
        self.go_on = threading.Event()
        self.calls = []

    def __call__(self, x):
        self.calls.append(x)
        if x in self.items:
            self.go_on.wait(AMPLE)
        return x


class StuckGenerator(Stuck):
    """The same before the second value of such items."""

    def __call__(self, x):
        yield x * 10
        if x in self.items:
            self.go_on.wait(AMPLE)
        yield x * 10 + 1


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.mark.parametrize("output_order", ["completion", "input"])
def test_s5_a_call_is_given_up(pool, output_order):
    op = Stuck(3, 8)
    pipeline = build(
        range(20), op, name="wait", executor=pool, concurrency=2, timeout=SHORT,
        output_order=output_order,
    )  # fmt: skip
    got = list(pipeline)
    left = [x for x in range(20) if x not in (3, 8)]
    assert (got if output_order == "input" else sorted(got)) == left
    assert sorted(failure.index for failure in pipeline.failures) == [3, 8]
    for failure in pipeline.failures:
        assert type(failure.exception) is DeadlineError
        assert isinstance(failure.exception, TimeoutError)
        assert failure.stage == "wait"
        begin, _, rest = str(failure.exception).partition(" after ")
        assert begin == f"stage 'wait' was still working on item {failure.index}"
        seconds, _, rest = rest.partition(" s; ")
        assert float(seconds) >= SHORT * 0.99
        assert rest == (
            f"its timeout is {SHORT:.3g} s; a worker of the executor is lost to it"
        )
    stats = stage(pipeline)
    assert (stats.timed_out, stats.stuck, stats.late) == (2, 2, 0)
    assert_adds_up(pipeline, 20)
    pipeline.stop()
    assert sorted(op.calls) == list(range(20))
    op.go_on.set()


def test_late_results_are_dropped_and_counted(pool):
    op = Stuck(0, 2)
    held = threading.Event()

    def source():
        yield from range(4)
        held.wait(AMPLE)  # so that the run goes on
        yield 4

    pipeline = build(source(), op, executor=pool, concurrency=4, timeout=SHORT)
    items = iter(pipeline)
    assert sorted([next(items), next(items)]) == [1, 3]
    wait_until(lambda: stage(pipeline).stuck == 2)
    op.go_on.set()
    wait_until(lambda: stage(pipeline).stuck == 0)
    assert stage(pipeline).late == 2
    held.set()
    assert list(items) == [4]
    assert stage(pipeline).timed_out == 2
    assert_adds_up(pipeline, 5)


def test_waiting_for_a_thread_is_no_time():
    """One thread, calls of half the timeout each: the last waits for many of them."""

    def op(x):
        time.sleep(SHORT / 2)
        return x

    with ThreadPoolExecutor(1) as pool:
        pipeline = build(range(8), op, executor=pool, concurrency=8, timeout=20 * SHORT)
        assert sorted(pipeline) == list(range(8))
        assert stage(pipeline).timed_out == 0


def test_it_ends_when_no_thread_is_left():
    op = Stuck(0, 1)
    with ThreadPoolExecutor(2) as pool:
        pipeline = build(
            range(20), op, name="wait", executor=pool, concurrency=4, timeout=SHORT
        )
        with pytest.raises(DeadlineError, match="wait': item [23] has not begun"):
            list(pipeline)
        assert op.calls == [0, 1]  # what had not begun never does
        pipeline.stop()
        stats = stage(pipeline)
        assert (stats.stuck, stats.items_out) == (2, 0)
        assert_adds_up(pipeline, stats.items_in)
        op.go_on.set()


def test_a_failure_like_any_other(pool):
    op = Stuck(1)
    pipeline = build(range(9), op, executor=pool, timeout=SHORT, on_error="raise")
    got = []
    with pytest.raises(DeadlineError, match="item 1"):
        got.extend(pipeline)
    assert got in ([], [0])
    op.go_on.set()
    op = Stuck(1)
    pipeline = build(range(9), op, executor=pool, timeout=SHORT, limit=0)
    with pytest.raises(PipelineFailure):
        list(pipeline)
    op.go_on.set()


def test_it_is_not_tried_again(pool):
    """Its thread has the item still. What was in time and failed is."""
    op = Stuck(1)
    tries = []

    def flaky(x):
        tries.append(x)
        if tries.count(x) < 2:
            raise TimeoutError
        return op(x)

    pipeline = build(
        range(3), flaky, executor=pool, timeout=SHORT,
        retry=Retry(5, on=TimeoutError, backoff=0),
    )  # fmt: skip
    assert sorted(pipeline) == [0, 2]
    assert sorted(tries) == [0, 0, 1, 1, 2, 2]
    op.go_on.set()


@pytest.mark.parametrize("stuck", [(), (2,)])
def test_generators(pool, stuck):
    """A call for each value, each in time; what was given stays."""
    op = StuckGenerator(*stuck)
    pipeline = build(
        range(4), op.__call__, name="twice", executor=pool, concurrency=2,
        timeout=SHORT if stuck else AMPLE, output_order="input",
    )  # fmt: skip
    values = [0, 1, 10, 11, 20, 21, 30, 31]
    assert list(pipeline) == [v for v in values if v != 21 or not stuck]
    assert [failure.index for failure in pipeline.failures] == list(stuck)
    stats = stage(pipeline)
    assert (stats.timed_out, stats.stuck) == (len(stuck), len(stuck))
    op.go_on.set()
    pipeline.stop()


def test_a_generator_that_is_stuck_while_it_is_closed(pool):
    """It is given up, too, and nothing fails: it was not wanted any more."""
    go_on, closing = threading.Event(), threading.Event()

    def op(x):
        try:
            while True:
                yield x
        finally:
            closing.set()
            go_on.wait(AMPLE)

    pipeline = build([7], op, executor=pool, timeout=SHORT)
    items = iter(pipeline)
    assert next(items) == 7
    pipeline.stop()
    assert closing.is_set()
    assert pipeline.failures.total == 0
    go_on.set()


def test_what_a_function_gives_to_await(pool):
    """It has its time for the call, and again for what is awaited."""
    import asyncio

    async def wait(x):
        await asyncio.sleep(AMPLE if x == 1 else 0)
        return x

    pipeline = build(range(3), lambda x: wait(x), executor=pool, timeout=SHORT)
    assert sorted(pipeline) == [0, 2]
    (failure,) = pipeline.failures
    assert failure.index == 1
    assert isinstance(failure.exception, DeadlineError)
    stats = stage(pipeline)
    assert (stats.timed_out, stats.stuck) == (1, 0)  # it was cancelled


def test_what_is_awaited_and_ignores_its_cancellation(pool):
    import asyncio

    go_on = threading.Event()

    async def wait(x):
        while x == 1 and not go_on.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        return x

    pipeline = build(range(3), lambda x: wait(x), executor=pool, timeout=SHORT)
    assert sorted(pipeline) == [0, 2]
    assert [failure.index for failure in pipeline.failures] == [1]
    assert stage(pipeline).stuck == 1
    go_on.set()
    pipeline.stop()


def test_stop_gives_up_what_is_stuck(pool):
    op = Stuck(*range(20))
    pipeline = build(range(20), op, executor=pool, concurrency=4, timeout=SHORT)
    pipeline.start()
    wait_until(lambda: len(op.calls) == 4)
    pipeline.stop(timeout=20 * SLOWNESS)  # and raises nothing
    assert_adds_up(pipeline, stage(pipeline).items_in)
    op.go_on.set()


class Elsewhere(Executor):
    """Somebody's own executor: a thread for each call, whose futures say `running`."""

    def submit(self, function, /, *args, **kwargs):
        future = Future()

        def run():
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future


def test_any_executor():
    op = Stuck(1)
    pipeline = build(range(4), op, executor=Elsewhere(), timeout=SHORT, concurrency=4)
    assert sorted(pipeline) == [0, 2, 3]
    assert [failure.index for failure in pipeline.failures] == [1]
    op.go_on.set()


def sleep_at_one(x):
    """Of another process: long enough to be given up."""
    if x == 1:
        time.sleep(4 * SHORT + 2)
    return x


def twice_at_one(x):
    yield x
    yield sleep_at_one(x)


@pytest.mark.thread_unsafe(reason="starts processes")
def test_a_process_pool():
    """The process can't be ended alone: it is lost until it has slept."""
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(abs, range(4)))  # the processes are there
        pipeline = build(
            range(6), sleep_at_one, executor=pool, timeout=1 * SLOWNESS, concurrency=2
        )
        assert sorted(pipeline) == [0, 2, 3, 4, 5]
        (failure,) = pipeline.failures
        assert failure.index == 1
        assert "still working on item 1" in str(failure.exception)
        assert stage(pipeline).timed_out == 1
        pipeline.stop()


@pytest.mark.thread_unsafe(reason="starts processes")
def test_generators_in_a_process_pool():
    """One call for all values: it has the time as a whole."""
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(abs, range(4)))
        pipeline = build(
            range(3), twice_at_one, executor=pool, timeout=1 * SLOWNESS, concurrency=2
        )
        assert sorted(pipeline) == [0, 0, 2, 2]
        assert [failure.index for failure in pipeline.failures] == [1]
        pipeline.stop()


def test_an_exception_in_time_is_itself(pool):
    def op(x):
        raise ValueError(x)

    pipeline = build(range(3), op, executor=pool, timeout=AMPLE)
    assert list(pipeline) == []
    assert {type(failure.exception) for failure in pipeline.failures} == {ValueError}
    assert stage(pipeline).timed_out == 0
