"""Coroutines that take too long: cancelled, or given up if they ignore it."""

import asyncio
import time
import traceback

import pytest

from headrace.pipeline import PipelineBuilder, Retry

SHORT = 0.05


def build(source, op, *, threads=1, limit=-1, **options):
    builder = PipelineBuilder().add_source(source)
    builder.pipe(op, **{"timeout": SHORT, **options})
    return builder.add_sink(3).build(num_threads=threads, max_failures=limit)


def stage(pipeline):
    return pipeline.stats().stages[1]


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)


async def ignore_cancellation(seconds):
    """Sleep as long as it likes."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue


def as_function(op):
    """The same as a function that is not known to be a coroutine function."""
    return lambda x: op(x)


KINDS = [lambda op: op, as_function]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("output_order", ["completion", "input"])
def test_s5_a_coroutine_is_cancelled(kind, concurrency, output_order):
    cancelled = []

    async def op(x):
        if x % 5 == 3:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                cancelled.append(x)
                raise
        await asyncio.sleep(0)
        return x

    pipeline = build(
        range(20),
        kind(op),
        name="net",
        concurrency=concurrency,
        output_order=output_order,
    )
    got = list(pipeline)
    assert (got if output_order == "input" else sorted(got)) == [
        x for x in range(20) if x % 5 != 3
    ]
    assert sorted(cancelled) == [3, 8, 13, 18]
    assert sorted(f.index for f in pipeline.failures) == [3, 8, 13, 18]
    for failure in pipeline.failures:
        assert isinstance(failure.exception, TimeoutError)
        text = str(failure.exception)
        assert text.startswith(
            f"stage 'net' was still working on item {failure.index} after 0."
        )
        assert text.endswith(" s; its timeout is 0.05 s")
        # where it was
        cause = failure.exception.__cause__
        assert "asyncio.sleep(1000)" in "".join(traceback.format_exception(cause))
    stats = stage(pipeline)
    assert (stats.timed_out, stats.stuck, stats.late, stats.failed) == (4, 0, 0, 4)
    pipeline.stop()


def test_what_was_given_up_is_not_tried_again():
    """It has the item still. One that ends when it is cancelled is."""
    attempts = []
    go_on = asyncio.Event()

    async def op(x):
        attempts.append(x)
        if x == 0:
            await ignore_cancellation(1000)
        await go_on.wait()

    pipeline = build(range(2), op, concurrency=2, retry=Retry(2, TimeoutError, 0))
    assert list(pipeline) == []
    assert sorted(attempts) == [0, 1, 1, 1]
    assert sorted(failure.index for failure in pipeline.failures) == [0, 1]
    pipeline.stop()


def test_each_attempt_has_the_whole_time():
    attempts = []

    async def op(x):
        attempts.append(x)
        await asyncio.sleep(1000 if len(attempts) < 3 else 0)
        return x

    pipeline = build(["a"], op, retry=Retry(2, backoff=0))
    assert list(pipeline) == ["a"]
    assert attempts == ["a"] * 3
    assert (stage(pipeline).timed_out, stage(pipeline).retried) == (2, 2)
    assert stage(pipeline).failed == 0


def test_s5_raised_to_the_consumer():
    async def op(x):
        await asyncio.sleep(1000 if x == 2 else 0)
        return x

    pipeline = build(range(5), op, on_error="raise", output_order="input", name="net")
    items = iter(pipeline)
    assert [next(items), next(items)] == [0, 1]
    with pytest.raises(TimeoutError) as raised:
        next(items)
    assert raised.value.__notes__ == ["headrace: raised in stage 'net', item 2"]


def test_what_an_operation_makes_of_its_cancellation():
    """A result that comes too late is none; what ends the run ends it."""

    async def returns(x):
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            return x

    async def raises(x):
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            raise ValueError(x) from None

    async def leaves(x):
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            raise SystemExit(x) from None

    pipeline = build(range(2), returns)
    assert list(pipeline) == []
    assert [type(f.exception.__cause__) for f in pipeline.failures] == [type(None)] * 2
    pipeline = build(range(2), raises)
    assert list(pipeline) == []
    assert [str(f.exception.__cause__) for f in pipeline.failures] == ["0", "1"]
    with pytest.raises(SystemExit):
        list(build(range(2), leaves))


def test_a_timeout_of_its_own():
    """An inner timeout is the operation's affair, as long as it is shorter."""

    async def op(x):
        async with asyncio.timeout(0.01):
            await asyncio.sleep(1000)

    pipeline = build(range(3), op, timeout=5)
    assert list(pipeline) == []
    assert stage(pipeline).timed_out == 0
    assert {type(f.exception) for f in pipeline.failures} == {TimeoutError}


@pytest.mark.parametrize("concurrency", [1, 3])
def test_s5_a_generator_is_asked_for_each_item_in_time(concurrency):
    closed = []

    async def op(x):
        try:
            for i in range(4):
                await asyncio.sleep(0.02)  # all of it takes longer than the timeout
                if (x, i) == (1, 2):
                    await asyncio.sleep(1000)
                yield 10 * x + i
        finally:
            closed.append(x)

    pipeline = build(range(3), op, concurrency=concurrency, timeout=0.2)
    assert sorted(pipeline) == [0, 1, 2, 3, 10, 11, 20, 21, 22, 23]
    (failure,) = pipeline.failures
    assert failure.index == 1
    assert isinstance(failure.exception, TimeoutError)
    assert sorted(closed) == [0, 1, 2]
    assert (stage(pipeline).timed_out, stage(pipeline).stuck) == (1, 0)


def test_waiting_for_room_is_not_counted():
    async def op(x):
        for i in range(40):
            yield i

    pipeline = build([0], op)
    items = iter(pipeline)
    assert next(items) == 0
    time.sleep(3 * SHORT)  # the generator waits for room meanwhile
    assert list(items) == list(range(1, 40))
    assert stage(pipeline).timed_out == 0


@pytest.mark.parametrize("kind", KINDS)
def test_s5_a_coroutine_that_ignores_it_is_given_up(kind):
    async def op(x):
        if x == 1:
            await ignore_cancellation(1.5)
        return x

    pipeline = build(range(6), kind(op), name="net")
    assert sorted(pipeline) == [0, 2, 3, 4, 5]
    (failure,) = pipeline.failures
    assert failure.index == 1
    assert isinstance(failure.exception, TimeoutError)
    stats = stage(pipeline)
    assert (stats.timed_out, stats.failed, stats.items_out) == (1, 1, 5)


def test_s5_its_result_is_dropped():
    async def op(x):
        if x == 0:
            await ignore_cancellation(0.9)
        else:
            await asyncio.sleep(0.2)
        return x

    pipeline = build(range(8), op, timeout=0.3)
    assert sorted(pipeline) == list(range(1, 8))
    assert (stage(pipeline).stuck, stage(pipeline).late) == (0, 1)
    pipeline.stop()


def test_s5_a_generator_that_ignores_it_is_given_up():
    async def op(x):
        yield x
        if x == 1:
            await ignore_cancellation(0.9)
        await asyncio.sleep(0.15)
        yield -x

    pipeline = build(range(1, 7), op, timeout=0.3, output_order="input")
    assert list(pipeline) == [1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6]
    (failure,) = pipeline.failures
    assert failure.index == 0
    assert (stage(pipeline).stuck, stage(pipeline).late) == (0, 1)
    pipeline.stop()


def test_s5_stop_does_not_wait_for_what_was_given_up(script):
    script(
        """
    import asyncio
    async def op(x):
        while x == 1:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                pass
        return x
    pipeline = build(range(4), op, timeout=0.05)
    assert list(pipeline) == [0, 2, 3]
    assert pipeline.stats().stages[1].stuck == 1
    begin = time.monotonic()
    pipeline.stop()
    assert time.monotonic() - begin < 2
    del pipeline
    gc.collect()
    """,
        seconds=15,
    )


@pytest.mark.parametrize("when", ["running", "ended"])
def test_s5_exit_with_a_coroutine_that_was_given_up(script, when):
    script(
        f"""
    import asyncio
    async def op(x):
        while x == 1:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                pass
        return x
    pipeline = build(range(40), op, timeout=0.05)
    items = iter(pipeline)
    assert next(items) == 0
    wait_until(lambda: pipeline.stats().stages[1].stuck == 1)
    if {when!r} == "ended":
        assert list(items) == list(range(2, 40))
    """,
        seconds=15,
    )


def test_items_leave_no_reference(script):
    script("""
    import asyncio, weakref
    class Item:
        pass
    items = [Item() for _ in range(10)]
    refs = [weakref.ref(item) for item in items]
    async def op(item):
        await asyncio.sleep(1000)
    pipeline = build(iter(items), op, timeout=0.05, concurrency=5)
    del items
    assert list(pipeline) == []
    assert len(pipeline.failures) == 10
    gc.collect()
    assert [ref() for ref in refs] == [None] * 10
    pipeline.stop()
    """)
