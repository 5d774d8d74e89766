"""Scenarios S1 to S7: sources and operations that fail, block, or are odd."""

import asyncio
import threading
import time
from fractions import Fraction

from scenario_kit import (
    Counted,
    build,
    consume,
    ledger,
    logged,
    scenario,
    thread_names,
    wait_until,
)

from headrace.pipeline import PipelineFailure

ALL_ORDERS = ("order", ["completion", "input"])


def even_fails(x):
    if x % 2 == 0:
        raise ValueError(f"even {x}")
    return x


# ---- S1: the source raises midway ----


@scenario(cases=("kind", ["fast", "slow", "async", "native stage"]))
def test_S1_the_source_raises_midway(kind):
    from headrace import _ext

    error = OSError(5, "gone")

    def plain():
        for i in range(40):
            if kind == "slow":
                time.sleep(0.001)
            yield i
        raise error

    async def asynchronous():
        for i in range(40):
            await asyncio.sleep(0)
            yield i
        raise error

    op = _ext.noop_op() if kind == "native stage" else lambda x: x
    source = asynchronous() if kind == "async" else Counted(plain())
    pipeline = build(source, op, concurrency=3, output_order="input")
    iterator = iter(pipeline)
    got, raised = consume(iterator)
    assert got == list(range(40))
    assert raised is error
    assert raised.__notes__ == ["headrace: raised in stage 'source', item 40"]
    # It is told once; then there is an end, and no hang.
    for again in (iterator, iter(pipeline), pipeline):
        assert consume(again) == ([], None)
    books = ledger(pipeline, 40)
    assert books == {"delivered": 40, "filtered": 0, "failed": 0, "released": 0}


@scenario
def test_S1_the_traceback_leads_into_the_source():
    import traceback

    def source_that_breaks():
        yield 1
        raise LookupError("broken")

    pipeline = build(source_that_breaks(), lambda x: x)
    try:
        list(pipeline)
    except LookupError as error:
        assert "source_that_breaks" in "".join(traceback.format_exception(error))
    else:
        raise AssertionError("not raised")


# ---- S2: an operation raises, policy raise ----


@scenario(cases=("concurrency", [1, 2, 7]))
def test_S2_an_op_raises_and_the_policy_is_raise(concurrency):
    begun = []
    error = KeyError("item 200")

    def op(x):
        begun.append(x)
        if x == 200:
            raise error
        return x

    source = Counted(range(100_000))
    pipeline = build(
        source, op, threads=4, concurrency=concurrency, output_order="input",
        on_error="raise",
    )  # fmt: skip
    got, raised = consume(pipeline)
    assert got == list(range(200))
    assert raised is error
    assert raised.__notes__ == ["headrace: raised in stage 'op', item 200"]
    # Workers stop: what has a place may have begun, nothing after it.
    assert len(begun) <= 201 + 2 * 16 * concurrency
    pipeline.stop()
    books = ledger(pipeline, source.emitted)
    assert books["delivered"] == 200
    assert books["failed"] >= 1


# ---- S3: the same, policy skip ----


@scenario(cases=ALL_ORDERS)
def test_S3_an_op_raises_and_the_policy_is_skip(order):
    pipeline = build(range(101), even_fails, concurrency=3, output_order=order)
    got, raised = consume(pipeline)
    assert raised is None
    assert sorted(got) == list(range(1, 101, 2))
    assert sorted(f.index for f in pipeline.failures) == list(range(0, 101, 2))
    assert {f.stage for f in pipeline.failures} == {"even_fails"}
    books = ledger(pipeline, 101)
    assert books == {"delivered": 50, "filtered": 0, "failed": 51, "released": 0}
    # Told once, then at the 10th, the 100th, ...: not once for each.
    assert len(logged) == 2, logged


@scenario(cases=ALL_ORDERS)
def test_S3_the_limit_ends_the_run_and_names_the_first_causes(order):
    source = Counted(range(10_000))
    pipeline = build(source, even_fails, output_order=order, max_failures=4)
    got, raised = consume(pipeline)
    assert got == [1, 3, 5, 7]
    assert isinstance(raised, PipelineFailure)
    assert "'even_fails' failed 5 times" in str(raised)
    causes = [str(e) for e in raised.exceptions]
    assert causes == [f"even {x}" for x in (0, 2, 4, 6, 8)]
    pipeline.stop()
    books = ledger(pipeline, source.emitted)
    assert (books["delivered"], books["failed"]) == (4, 5)


@scenario
def test_S3_a_limit_by_rate():
    source = Counted(range(100_000))
    pipeline = build(source, even_fails, max_failures=Fraction(1, 4))
    got, raised = consume(pipeline)
    assert isinstance(raised, PipelineFailure)
    assert got == list(range(1, 100, 2))  # rates count from the 100th call on
    pipeline.stop()
    assert ledger(pipeline, source.emitted)["failed"] == 50


# ---- S4: empty, all fail, endless failing ----


@scenario
def test_S4_empty_sources_end_at_once():
    async def nothing():
        return
        yield

    begin = time.monotonic()
    for source in [[], (), iter(()), (x for x in ()), {}, range(0)] * 3:
        pipeline = build(source, lambda x: x)
        assert list(pipeline) == []
        assert ledger(pipeline, 0)["delivered"] == 0
    assert list(build(nothing(), lambda x: x)) == []
    assert list(build([], even_fails, max_failures=0)) == []
    assert time.monotonic() - begin < 2


@scenario
def test_S4_all_fail():
    def op(x):
        raise ValueError(x)

    pipeline = build(range(5000), op, concurrency=2)
    assert consume(pipeline) == ([], None)
    books = ledger(pipeline, 5000)
    assert books == {"delivered": 0, "filtered": 0, "failed": 5000, "released": 0}


@scenario
def test_S4_an_endless_source_whose_items_all_fail():
    """It runs, holds no more than it lists, and can be stopped; a limit ends it."""
    import itertools

    def op(x):
        raise ValueError("always the same")

    pipeline = build(itertools.count(), op)
    pipeline.start()
    wait_until(lambda: pipeline.failures.total > 12_000)
    assert len(pipeline.failures) == 10_000
    pipeline.stop()
    assert ledger(pipeline)["delivered"] == 0
    limited = build(itertools.count(), op, max_failures=100)
    got, raised = consume(limited)
    assert got == []
    assert isinstance(raised, PipelineFailure)
    assert len(raised.exceptions) == 10


# ---- S6: wrong results, and exceptions that mean something else elsewhere ----


@scenario(cases=("kind", ["function", "async function", "generator", "keyed"]))
def test_S6_ends_of_iteration_are_failures_of_an_item(kind):
    kinds = [StopIteration, StopAsyncIteration, GeneratorExit, asyncio.CancelledError]

    def function(x):
        if x < 4:
            raise kinds[x]("not an end")
        return x

    async def coroutine(x):
        await asyncio.sleep(0)
        return function(x)

    def generator(x):
        if x < 4:
            raise kinds[x]("not an end")
        yield x

    op = {"async function": coroutine, "generator": generator}.get(kind, function)
    source = [(x, "label") for x in range(8)] if kind == "keyed" else range(8)
    key = 0 if kind == "keyed" else None
    pipeline = build(source, op, key=key, name="odd", output_order="input")
    got, raised = consume(pipeline)
    assert raised is None
    assert [x[0] if key == 0 else x for x in got] == [4, 5, 6, 7]
    failures = list(pipeline.failures)
    assert [f.index for f in failures] == [0, 1, 2, 3]
    for failure, expected in zip(failures, kinds, strict=True):
        exception = failure.exception
        if type(exception) is RuntimeError:  # Python's own rule for what raised it
            exception = exception.__cause__
        assert type(exception) is expected
    books = ledger(pipeline, 8)
    assert books == {"delivered": 4, "filtered": 0, "failed": 4, "released": 0}


@scenario
def test_S6_none_filters_and_a_wrong_type_fails():
    from headrace.io import load_image

    pipeline = build(range(10), lambda x: None if x % 3 else x)
    assert list(pipeline) == [0, 3, 6, 9]
    assert ledger(pipeline, 10)["filtered"] == 6
    wrong = build([1, object(), None, 2.5], load_image)
    assert list(wrong) == []
    assert all(isinstance(f.exception, TypeError) for f in wrong.failures)
    assert ledger(wrong, 4)["failed"] == 4


@scenario
def test_S6_a_wrong_signature_is_no_silent_end():
    """Nothing comes out, and it is told: in the log, in failures, by a limit."""

    def two(x, y):
        return x

    pipeline = build(range(3), two)
    assert list(pipeline) == []
    assert [type(f.exception) for f in pipeline.failures] == [TypeError] * 3
    assert len(logged) == 1
    _, raised = consume(build(range(3), two, max_failures=0))
    assert isinstance(raised, PipelineFailure)


@scenario(cases=("kind", ["SystemExit", "KeyboardInterrupt"]))
def test_S6_what_ends_a_process_ends_the_run(kind):
    import builtins

    error = getattr(builtins, kind)("enough")

    def op(x):
        if x == 5:
            raise error
        return x

    async def coroutine(x):
        return op(x)

    for each in (op, coroutine):
        source = Counted(range(10_000))
        pipeline = build(source, each, output_order="input")
        got, raised = consume(pipeline)
        assert raised is error
        assert got == list(range(5))[: len(got)]
        pipeline.stop()
        ledger(pipeline, source.emitted)


# ---- S7: sources that are not thread-safe, or come back in ----


class Touchy:
    """An iterator that minds a second thread, and notes which ones came."""

    def __init__(self, n, pause=0.0):
        self._lock = threading.Lock()
        self._n = n
        self._pause = pause

    def __iter__(self):
        return self

    def __next__(self):
        assert self._lock.acquire(blocking=False), "two threads at once"
        try:
            if self._pause:
                time.sleep(self._pause)
            if self._n == 0:
                raise StopIteration
            self._n -= 1
            return self._n
        finally:
            self._lock.release()


@scenario(cases=("pause", [0.0, 0.0005]))
def test_S7_one_thread_at_a_time_advances_the_source(pause):
    import sys

    sys.setswitchinterval(1e-5)
    n = 400 if pause else 5000
    pipeline = build(Touchy(n, pause), lambda x: x, threads=4, concurrency=4)
    lists = []
    consumers = [
        threading.Thread(target=lambda: lists.append(list(pipeline))) for _ in range(3)
    ]
    for consumer in consumers:
        consumer.start()
    for consumer in consumers:
        consumer.join(20)
    assert sorted(x for part in lists for x in part) == list(range(n))
    ledger(pipeline, n)


@scenario(cases=("use", ["get_item", "iterate", "stop", "start", "stats"]))
def test_S7_a_source_that_uses_its_own_pipeline(use):
    """To wait for it can't end: RuntimeError. To stop it, or look, is allowed."""
    pipelines = []
    uses = {
        "get_item": lambda p: p.get_item(),
        "iterate": list,
        "stop": lambda p: p.stop(),
        "start": lambda p: p.start(),
        "stats": lambda p: p.stats(),
    }

    def source():
        yield 1
        uses[use](pipelines[0])
        yield 2

    pipeline = build(source())
    pipelines.append(pipeline)
    got, raised = consume(pipeline)
    if use in ("get_item", "iterate"):
        assert got == [1]
        assert isinstance(raised, RuntimeError)
        assert "its own pipeline" in str(raised)
    elif use == "start":
        assert isinstance(raised, RuntimeError)
        assert "started before" in str(raised)
    else:
        assert raised is None
        assert got == ([1, 2] if use == "stats" else got[:1])
    pipeline.stop()
    pipelines.clear()
    ledger(pipeline)
    del pipeline
    wait_until(lambda: "hr-source" not in thread_names().values())
