"""Stages with an executor of their own give what a plain loop over the items gives."""

import concurrent.futures
import functools
import itertools
import multiprocessing
import operator
import os
import threading
import time
from collections import Counter
from concurrent.futures import (
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from concurrent.futures.process import BrokenProcessPool

import pytest

from headrace.pipeline import PipelineBuilder, PipelineFailure, Retry

ITEMS = 60


@pytest.fixture(scope="module")
def threads():
    with ThreadPoolExecutor(3, "pool") as pool:
        yield pool


def processes(count=2):
    return ProcessPoolExecutor(
        count, mp_context=multiprocessing.get_context("forkserver")
    )


@pytest.fixture(scope="module")
def forked():
    with processes() as pool:
        yield pool


def build(source, op, executor, *, sink=5, **options):
    return (
        PipelineBuilder()
        .add_source(source)
        .pipe(op, executor=executor, **options)
        .add_sink(sink)
        .build(num_threads=1)
    )


class ReturnsNoFuture(Executor):
    def submit(self, function, /, *args, **kwargs):
        return function(*args, **kwargs)


def spread(x):
    yield x


@pytest.mark.parametrize("op", [abs, spread])
def test_an_executor_that_returns_no_future(op):
    pipeline = build(range(ITEMS), op, ReturnsNoFuture())
    with pytest.raises(TypeError, match=r"must return a concurrent.futures.Future, it"):
        list(pipeline.get_iterator(timeout=10))
    pipeline.stop()


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)


# ---- each kind of operation ----


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
    yield x + 2000


class Callable:
    def __call__(self, x):
        return some(x)

    def method(self, x):
        return some(x)


class Spreader:
    def __call__(self, x):
        yield from range(x % 40)


class Both(list):
    """Callable and indexable: it is called."""

    def __call__(self, x):
        return some(x)


SOME = [3 * x for x in range(ITEMS) if not fails(x) and x % 5 != 4]
FAILED = [x for x in range(ITEMS) if fails(x)]
SPREAD = list(
    itertools.chain.from_iterable(
        [x] if fails(x) else [x, x + 1000, x + 2000] for x in range(ITEMS)
    )
)
SQUARES = [x * x for x in range(40)]

# op, what it gives, which items fail
OPS = {
    "function": (some, SOME, FAILED),
    "partial": (functools.partial(operator.add, 5), [x + 5 for x in range(ITEMS)], []),
    "callable": (Callable(), SOME, FAILED),
    "bound method": (Callable().method, SOME, FAILED),
    "both": (Both(), SOME, FAILED),
    "list": (SQUARES, SQUARES, list(range(40, ITEMS))),
    "dict": ({x: -x for x in range(0, ITEMS, 2)}, list(range(0, -ITEMS, -2)), None),
    "type": (str, [str(x) for x in range(ITEMS)], []),
    "generator": (spread, SPREAD, FAILED),
    "callable generator": (
        Spreader(),
        list(itertools.chain.from_iterable(range(x % 40) for x in range(ITEMS))),
        [],
    ),
}


def check_one_stage(kind, executor, output_order, concurrency):
    op, expected, failed = OPS[kind]
    failed = list(range(1, ITEMS, 2)) if failed is None else failed
    pipeline = build(
        range(ITEMS),
        op,
        executor,
        output_order=output_order,
        concurrency=concurrency,
    )
    got = list(pipeline)
    if output_order == "input" or concurrency == 1:
        assert got == expected
    else:
        assert Counter(got) == Counter(expected)
    assert sorted(f.index for f in pipeline.failures) == failed
    stage = pipeline.stats().stages[1]
    assert (stage.items_in, stage.items_out) == (ITEMS, len(expected))
    assert (stage.failed, stage.running) == (len(failed), 0)
    pipeline.stop()


@pytest.mark.parametrize("concurrency", [1, 2, 7])
@pytest.mark.parametrize("output_order", ["completion", "input"])
@pytest.mark.parametrize("kind", OPS)
def test_in_threads(kind, output_order, concurrency, threads):
    check_one_stage(kind, threads, output_order, concurrency)


@pytest.mark.parametrize("concurrency", [1, 7])
@pytest.mark.parametrize("output_order", ["completion", "input"])
@pytest.mark.parametrize("kind", OPS)
def test_in_processes(kind, output_order, concurrency, forked):
    check_one_stage(kind, forked, output_order, concurrency)


@pytest.mark.parametrize("order", ["completion", "input"])
@pytest.mark.parametrize("op", [operator.neg, spread], ids=["function", "generator"])
def test_keys(op, order, threads):
    source = [{"x": i, "name": str(i)} for i in range(40)]
    pipeline = build(source, op, threads, key="x", concurrency=4, output_order=order)
    expected = []
    for i in range(40):
        if op is operator.neg:
            expected.append((-i, str(i)))
        elif fails(i):
            expected.append((i, str(i)))
        else:
            expected += [(i + 1000 * k, str(i)) for k in range(3)]
    assert sorted((r["x"], r["name"]) for r in pipeline) == sorted(expected)
    pipeline.stop()


def test_a_key_that_does_not_fit(threads):
    pipeline = build([(1,), (1, 2), 3], operator.neg, threads, key=1)
    assert list(pipeline) == [(1, -2)]
    assert [f.index for f in pipeline.failures] == [0, 2]
    pipeline.stop()


def test_chains_of_all_kinds(threads, forked):
    async def halve(x):
        return x // 2

    pipeline = (
        PipelineBuilder()
        .add_source(range(100))
        .pipe(operator.neg, executor=threads, concurrency=3, output_order="input")
        .pipe(abs)
        .aggregate(7)
        .pipe(sum, executor=forked, concurrency=2, output_order="input")
        .pipe(halve, concurrency=2, output_order="input")
        .pipe(range, executor=threads)
        .disaggregate()
        .aggregate(1000)
        .add_sink()
        .build(num_threads=2)
    )
    sums = [sum(range(i, min(i + 7, 100))) // 2 for i in range(0, 100, 7)]
    expected = list(itertools.chain.from_iterable(map(range, sums)))
    assert list(itertools.chain.from_iterable(pipeline)) == expected
    pipeline.stop()


@pytest.mark.parametrize("concurrency", [1, 2, 7])
@pytest.mark.parametrize("kind", ["function", "generator"])
@pytest.mark.parametrize("output_order", ["completion", "input"])
def test_concurrency_is_exact(kind, concurrency, output_order):
    inside, most, lock = 0, 0, threading.Lock()
    full = threading.Barrier(concurrency)  # nobody leaves before all are in

    def op(x):
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        full.wait(60)
        with lock:
            inside -= 1
        return x

    def generator(x):
        yield op(x)

    chosen = op if kind == "function" else generator
    with ThreadPoolExecutor(12) as pool:
        pipeline = build(
            range(56),
            chosen,
            pool,
            concurrency=concurrency,
            output_order=output_order,
            sink=20,
        )
        assert sorted(pipeline) == list(range(56))
        assert most == concurrency
        pipeline.stop()


def test_the_window_of_input_order_is_bounded():
    """While the first item takes its time no more than the window is begun."""
    begun = []
    go_on = threading.Event()

    def op(x):
        begun.append(x)
        if x == 0:
            assert go_on.wait(10)
        return x

    with ThreadPoolExecutor(4) as pool:
        pipeline = build(
            range(1000), op, pool, concurrency=3, output_order="input", sink=2
        )
        pipeline.start()
        wait_until(lambda: len(begun) >= 3)
        time.sleep(0.05)
        assert len(begun) <= 2 * 3 + 2
        go_on.set()
        assert list(pipeline) == list(range(1000))
        pipeline.stop()


def test_it_runs_in_the_executor(threads):
    pipeline = build(range(30), lambda _: threading.current_thread().name, threads)
    assert all(name.startswith("pool") for name in pipeline)
    pipeline.stop()


def test_native_operations_are_called_like_others(threads, tmp_path):
    from headrace.io import read_file

    path = tmp_path / "x"
    path.write_bytes(b"abc")
    pipeline = build([path, tmp_path / "y"], read_file, threads)
    assert [bytes(x) for x in pipeline] == [b"abc"]
    assert isinstance(pipeline.failures[0].exception, FileNotFoundError)
    pipeline.stop()


def test_what_a_function_returns_is_awaited(threads):
    async def double(x):
        if fails(x):
            raise ValueError(x)
        return 2 * x

    pipeline = build(
        range(30), lambda x: double(x), threads, concurrency=4, output_order="input"
    )
    assert list(pipeline) == [2 * x for x in range(30) if not fails(x)]
    assert sorted(f.index for f in pipeline.failures) == [
        x for x in range(30) if fails(x)
    ]
    pipeline.stop()


def test_the_executor_is_the_users(threads):
    pipeline = build(range(5), operator.neg, threads)
    assert list(pipeline) == [0, -1, -2, -3, -4]
    pipeline.stop()
    del pipeline
    assert threads.submit(operator.neg, 3).result(10) == -3


class Inline(Executor):
    """Runs what it is given at once, in the calling thread."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as exc:
            future.set_exception(exc)
        return future


@pytest.mark.parametrize("op", [some, spread], ids=["function", "generator"])
def test_any_executor(op):
    pipeline = build(range(ITEMS), op, Inline(), concurrency=3, output_order="input")
    assert list(pipeline) == (SOME if op is some else SPREAD)
    assert [f.index for f in pipeline.failures] == FAILED
    pipeline.stop()


# ---- arguments ----


async def coroutine(x):
    return x


async def async_generator(x):
    yield x


@pytest.mark.parametrize("op", [coroutine, async_generator])
def test_coroutines_take_no_executor(op, threads):
    with pytest.raises(ValueError, match="coroutines run on the pipeline's event loop"):
        PipelineBuilder().add_source([]).pipe(op, executor=threads)


def test_what_is_no_executor():
    with pytest.raises(TypeError, match="executor must be a concurrent.futures.Exec"):
        PipelineBuilder().add_source([]).pipe(abs, executor=4)


def test_an_interpreter_pool(monkeypatch):
    class InterpreterPoolExecutor(ThreadPoolExecutor):
        pass

    monkeypatch.setattr(
        concurrent.futures,
        "InterpreterPoolExecutor",
        InterpreterPoolExecutor,
        raising=False,
    )
    with InterpreterPoolExecutor(2) as pool:
        pipeline = build(range(20), operator.neg, pool, output_order="input")
        assert list(pipeline) == [-x for x in range(20)]
        with pytest.raises(ValueError, match="no generator function"):
            build(range(20), spread, pool)
        pipeline.stop()


@pytest.mark.parametrize("op", [lambda x: x, threading.Lock().acquire])
def test_an_operation_that_does_not_pickle(op, forked):
    with pytest.raises(TypeError, match="stage 'mine'.*can't be pickled"):
        PipelineBuilder().add_source([]).pipe(op, executor=forked, name="mine")


# ---- failures ----


def test_the_exception_is_the_original(threads):
    raised = {}

    class Mine(Exception):
        pass

    def op(x):
        raised[x] = Mine(x)
        raise raised[x]

    pipeline = build(["a", "b"], op, threads)
    assert list(pipeline) == []
    assert [f.exception for f in pipeline.failures] == [raised["a"], raised["b"]]
    pipeline.stop()


def test_the_first_failure_is_raised_with_a_note(threads):
    pipeline = build(
        range(20), some, threads, concurrency=4, output_order="input", on_error="raise"
    )
    got = []
    with pytest.raises(ValueError, match="3") as raised:
        for x in pipeline:
            got.append(x)
    assert got == [0, 3, 6]
    assert any("some" in n and "3" in n for n in raised.value.__notes__)
    pipeline.stop()


def test_too_many_failures(threads):
    pipeline = build(range(100), some, threads, max_failures=2, concurrency=2)
    with pytest.raises(PipelineFailure, match="some"):
        list(pipeline)
    pipeline.stop()


@pytest.mark.parametrize("kind", [StopIteration, GeneratorExit, StopAsyncIteration])
def test_exceptions_that_end_iterations(kind, threads):
    def op(x):
        if x == 2:
            raise kind
        return x

    pipeline = build(range(5), op, threads)
    assert list(pipeline) == [0, 1, 3, 4]
    assert [(f.index, type(f.exception)) for f in pipeline.failures] == [(2, kind)]
    pipeline.stop()


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_exceptions_that_end_programs(kind, threads):
    def op(x):
        if x == 2:
            raise kind
        return x

    pipeline = build(range(1000), op, threads)
    with pytest.raises(kind):
        list(pipeline)
    assert list(pipeline) == []
    pipeline.stop()


def test_retries(threads):
    attempts = Counter()

    def op(x):
        attempts[x] += 1
        if attempts[x] <= x % 3:
            raise OSError(x)
        return x

    pipeline = build(
        range(20), op, threads, concurrency=4, retry=Retry(1, backoff=0.001)
    )
    assert sorted(pipeline) == [x for x in range(20) if x % 3 < 2]
    assert attempts == {x: min(x % 3, 1) + 1 for x in range(20)}
    assert sorted(f.index for f in pipeline.failures) == [
        x for x in range(20) if x % 3 == 2
    ]
    pipeline.stop()


def raise_value_error(x):
    raise ValueError(x)


def test_failures_of_another_process(forked):
    pipeline = build([5], raise_value_error, forked, on_error="raise")
    with pytest.raises(ValueError, match="5") as raised:
        list(pipeline)
    assert "raise_value_error" in str(raised.value.__cause__)
    assert any("item 0" in note for note in raised.value.__notes__)
    pipeline.stop()


def make_lock(x):
    return threading.Lock() if x == 1 else x


def test_items_and_results_that_do_not_pickle(forked):
    pipeline = build([0, 1, 2, threading.Lock(), 4], make_lock, forked)
    assert list(pipeline) == [0, 2, 4]
    assert [f.index for f in pipeline.failures] == [1, 3]
    assert all("pickle" in str(f.exception) for f in pipeline.failures)
    pipeline.stop()


class NeedsTwo(Exception):
    def __init__(self, a, b):
        super().__init__(a)


def raise_needs_two(x):
    raise NeedsTwo(x, x)


def die(x):
    if x == 3:
        os._exit(1)
    return x


@pytest.mark.parametrize("op", [die, raise_needs_two])
@pytest.mark.parametrize("on_error", ["skip", "raise"])
def test_a_pool_that_breaks(op, on_error):
    """It can't be used any more, so the run ends, whatever is tolerated."""
    with processes(1) as pool:
        pipeline = build(itertools.count(), op, pool, concurrency=2, on_error=on_error)
        with pytest.raises(BrokenProcessPool) as raised:
            list(pipeline)
        notes = "\n".join(raised.value.__notes__)
        assert "items in the executor when it broke" in notes
        assert ("3" if op is die else "0") in notes.split("broke:")[1]
        assert op.__name__ in notes
        pipeline.stop()


def die_amid(x):
    yield x
    if x == 2:
        os._exit(1)


def test_a_pool_that_breaks_amid_a_generator():
    with processes(1) as pool:
        pipeline = build(itertools.count(), die_amid, pool)
        got = []
        with pytest.raises(BrokenProcessPool) as raised:
            for x in pipeline:
                got.append(x)
        assert got == [0, 1]
        assert any("stage 'die_amid', item 2" in n for n in raised.value.__notes__)
        pipeline.stop()


@pytest.mark.parametrize("op", [some, spread], ids=["function", "generator"])
def test_a_pool_that_was_shut_down(op):
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    pipeline = build(range(100), op, pool)
    with pytest.raises(RuntimeError, match="after shutdown") as raised:
        list(pipeline)
    assert any(op.__name__ in note for note in raised.value.__notes__)
    assert pipeline.failures.total == 1
    pipeline.stop()


@pytest.mark.parametrize("cancel", [True, False])
def test_a_pool_that_is_shut_down_meanwhile(cancel):
    pool = ThreadPoolExecutor(1)
    begun, go_on = threading.Event(), threading.Event()

    def op(x):
        begun.set()
        assert go_on.wait(10)
        return x

    pipeline = build(itertools.count(), op, pool, concurrency=3)
    pipeline.start()
    assert begun.wait(10)
    pool.shutdown(wait=False, cancel_futures=cancel)
    go_on.set()
    kinds = (RuntimeError, concurrent.futures.CancelledError)
    with pytest.raises(kinds, match="shut"):
        list(pipeline)
    pipeline.stop()


# ---- generators ----


def test_a_generator_is_advanced_in_the_executor_one_by_one(threads):
    names, go_on = [], threading.Event()

    def op(x):
        names.append(threading.current_thread().name)
        yield 1
        names.append(threading.current_thread().name)
        assert go_on.wait(10)
        yield 2

    pipeline = build([0], op, threads)
    assert pipeline.get_item(timeout=10) == 1
    wait_until(lambda: len(names) == 2)
    with pytest.raises(TimeoutError):
        pipeline.get_item(timeout=0)
    go_on.set()
    assert list(pipeline) == [2]
    assert all(name.startswith("pool") for name in names)
    pipeline.stop()


def test_an_endless_generator_is_held_back(threads):
    made = []

    def endless(_):
        for i in itertools.count():
            made.append(i)
            yield i

    pipeline = build([0], endless, threads, sink=2)
    assert list(itertools.islice(pipeline, 100)) == list(range(100))
    time.sleep(0.05)
    assert len(made) < 130
    pipeline.stop()


def test_a_generator_is_closed_in_the_executor(threads):
    where = []

    def endless(_):
        try:
            yield from itertools.count()
        finally:
            where.append(threading.current_thread().name)

    pipeline = build([0], endless, threads)
    assert next(iter(pipeline)) == 0
    pipeline.stop()
    assert len(where) == 1
    assert where[0].startswith("pool")


# ---- stop ----


def test_stop_takes_back_what_has_not_begun():
    begun, go_on = [], threading.Event()

    def op(x):
        begun.append(x)
        assert go_on.wait(10)
        return x

    with ThreadPoolExecutor(1) as pool:
        pipeline = build(itertools.count(), op, pool, concurrency=8)
        pipeline.start()
        wait_until(lambda: begun)
        with pytest.raises(TimeoutError, match=r"'op' still awaits item 0"):
            pipeline.stop(timeout=0.1)
        go_on.set()
        pipeline.stop(timeout=10)
        assert begun == [0]
        stage = pipeline.stats().stages[1]
        assert stage.running == 0
        assert stage.items_in == stage.released >= 8
        assert list(pipeline) == []


def test_stop_waits_for_the_step_of_a_generator():
    begun, go_on, over = threading.Event(), threading.Event(), []

    def op(x):
        yield x
        begun.set()
        assert go_on.wait(10)
        over.append(x)
        yield x

    with ThreadPoolExecutor(1) as pool:
        pipeline = build(itertools.count(), op, pool)
        pipeline.start()
        assert begun.wait(10)
        with pytest.raises(TimeoutError, match="'op' still awaits item 0"):
            pipeline.stop(timeout=0.1)
        go_on.set()
        pipeline.stop(timeout=10)
        assert over == [0]


@pytest.mark.parametrize("taken", [0, 1, 7])
@pytest.mark.parametrize("op", [operator.neg, spread], ids=["function", "generator"])
def test_stop_at_any_moment(op, taken, threads):
    for concurrency in range(1, 5):
        pipeline = build(itertools.count(), op, threads, concurrency=concurrency)
        pipeline.start()
        for _ in range(taken):
            pipeline.get_item(timeout=10)
        pipeline.stop(timeout=10)
        stage = pipeline.stats().stages[1]
        assert stage.running == 0
        if op is operator.neg:
            assert stage.items_in == (
                stage.items_out + stage.filtered + stage.failed + stage.released
            )
        assert not [f for f in pipeline.failures if not fails(f.index)]
