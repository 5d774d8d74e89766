"""Operations of which each thread has its own."""

import contextlib
import functools
import itertools
import multiprocessing
import os
import pickle
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from headrace.pipeline import PipelineBuilder, per_worker


def build(source, op, *, threads=3, **options):
    return (
        PipelineBuilder()
        .add_source(source)
        .pipe(op, **options)
        .add_sink(5)
        .build(num_threads=threads)
    )


class Worker:
    """Notes in which threads it is made, called and closed."""

    made: "list[Worker]"

    def __init__(self, made):
        self.where = threading.get_ident()
        self.calls = Counter()
        self.closed = []
        made.append(self)

    def __call__(self, x):
        self.calls[threading.get_ident()] += 1
        time.sleep(0.001)
        return x

    def close(self):
        self.closed.append(threading.get_ident())


def test_each_thread_has_its_own():
    made = []
    pipeline = build(range(200), per_worker(lambda: Worker(made)), concurrency=3)
    assert sorted(pipeline) == list(range(200))
    pipeline.stop()
    assert 1 <= len(made) <= 3
    assert len({w.where for w in made}) == len(made)
    for w in made:
        assert set(w.calls) == {w.where}
        assert w.closed == [w.where]
    assert sum(sum(w.calls.values()) for w in made) == 200


def test_two_stages_and_two_pipelines_have_their_own():
    made = []
    op = per_worker(lambda: Worker(made))
    builder = PipelineBuilder().add_source(range(20)).pipe(op).pipe(op).add_sink()
    for count in (1, 2):
        pipeline = builder.build(num_threads=1)
        assert list(pipeline) == list(range(20))
        pipeline.stop()
        assert len(made) == count  # the thread is what counts, not the stage
        assert [len(w.closed) for w in made] == [1] * count


def test_in_a_thread_pool():
    made = []
    op = per_worker(lambda: Worker(made))
    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            pipeline = build(range(100), op, executor=pool, concurrency=4)
            assert sorted(pipeline) == list(range(100))
            pipeline.stop()
        assert 1 <= len(made) <= 2
        assert not any(w.closed for w in made)
    for w in made:
        assert set(w.calls) == {w.where}
        assert w.closed == [w.where]


class FileWorker:
    """Leaves a file for each thing that happens to it."""

    def __init__(self, folder):
        self.folder = folder
        self.lock = threading.Lock()  # can't be pickled
        self.note("made")

    def note(self, what):
        name = f"{what}-{os.getpid()}-{time.monotonic_ns()}"
        with open(os.path.join(self.folder, name), "x"):
            pass

    def __call__(self, x):
        with self.lock:
            return x, os.getpid()

    def spread(self, x):
        yield x
        yield -x

    def close(self):
        self.note("closed")


class FileSpreader(FileWorker):
    def __call__(self, x):
        yield x
        yield -x


@pytest.mark.parametrize("generator", [False, True])
def test_in_a_process_pool(tmp_path, generator):
    kind = FileSpreader if generator else FileWorker
    op = per_worker(functools.partial(kind, str(tmp_path)), generator=generator)
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        for _ in range(2):
            pipeline = build(
                range(30), op, executor=pool, concurrency=4, output_order="input"
            )
            got = list(pipeline)
            if generator:
                assert got == [y for x in range(30) for y in (x, -x)]
            else:
                assert [x for x, _ in got] == list(range(30))
            assert not pipeline.failures
            pipeline.stop()
    made = sorted(f.split("-")[1] for f in os.listdir(tmp_path) if f[:4] == "made")
    closed = sorted(f.split("-")[1] for f in os.listdir(tmp_path) if f[:4] == "clos")
    assert 1 <= len(made) <= 2
    assert len(set(made)) == len(made)
    assert closed == made


def test_a_context_manager_is_entered_and_left():
    events = []

    @contextlib.contextmanager
    def factory():
        events.append(("enter", threading.get_ident()))
        yield lambda x: -x
        events.append(("exit", threading.get_ident()))

    pipeline = build(range(5), per_worker(factory), threads=1)
    assert list(pipeline) == [0, -1, -2, -3, -4]
    pipeline.stop()
    (enter, inside), (leave, outside) = events
    assert (enter, leave) == ("enter", "exit")
    assert inside == outside != threading.get_ident()


def test_a_context_manager_that_can_not_be_entered_is_not_left():
    left = []

    class Manager:
        def __enter__(self):
            raise OSError("no")

        def __exit__(self, *exc):
            left.append(exc)

    pipeline = build(range(5), per_worker(Manager), threads=1)
    with pytest.raises(OSError, match="no"):
        list(pipeline)
    pipeline.stop()
    assert left == []


@pytest.mark.parametrize("how", ["stop", "drop", "end", "fail"])
def test_closed_whatever_the_end(how):
    made = []

    def fail(x):
        if x == 3:
            raise ValueError(x)
        return x

    class Other(Worker):
        def __call__(self, x):
            return fail(x) if how == "fail" else x

    source = range(10) if how in ("end", "fail") else itertools.count()
    pipeline = build(
        source,
        per_worker(lambda: Other(made)),
        on_error="raise" if how == "fail" else "skip",
    )
    if how == "fail":
        with pytest.raises(ValueError, match="3"):
            list(pipeline)
    elif how == "end":
        assert list(pipeline) == list(range(10))
    else:
        assert pipeline.get_item(timeout=10) == 0
    if how in ("stop", "fail"):
        pipeline.stop()
    elif how == "drop":
        del pipeline
    end = time.monotonic() + 10
    while not all(w.closed for w in made):
        assert time.monotonic() < end
        time.sleep(0.005)
    assert all(w.closed == [w.where] for w in made)


@pytest.mark.parametrize("executor", [False, True])
@pytest.mark.parametrize("output_order", ["completion", "input"])
@pytest.mark.parametrize("concurrency", [1, 2, 7])
def test_generators(concurrency, output_order, executor):
    made = []

    class Spreader(Worker):
        def __call__(self, x):
            self.calls[threading.get_ident()] += 1
            for i in range(x % 5):
                yield 10 * x + i

    expected = [10 * x + i for x in range(50) for i in range(x % 5)]
    with ThreadPoolExecutor(2) as pool:
        pipeline = build(
            range(50),
            per_worker(lambda: Spreader(made), generator=True),
            concurrency=concurrency,
            output_order=output_order,
            executor=pool if executor else None,
        )
        got = list(pipeline)
        assert got == expected or (
            (output_order, concurrency > 1) == ("completion", True)
            and sorted(got) == expected
        )
        pipeline.stop()
    assert 1 <= len(made) <= 3
    assert sum(sum(w.calls.values()) for w in made) == 50
    assert all(w.closed == [w.where] for w in made)


def test_with_a_key_and_with_retries():
    tried = Counter()

    def factory():
        def op(x):
            tried[x] += 1
            if tried[x] == 1:
                raise OSError(x)
            return -x

        return op

    pipeline = build(
        [(x, str(x)) for x in range(20)], per_worker(factory), key=0, retry=2
    )
    assert sorted(pipeline) == sorted((-x, str(x)) for x in range(20))
    pipeline.stop()


def test_what_it_makes_may_be_looked_up_or_awaited():
    async def double(x):
        return 2 * x

    pipeline = build(range(3), per_worker(lambda: ["a", "b"]))
    assert list(pipeline) == ["a", "b"]
    assert [type(f.exception) for f in pipeline.failures] == [IndexError]
    pipeline.stop()
    pipeline = build(range(3), per_worker(lambda: double), output_order="input")
    assert list(pipeline) == [0, 2, 4]
    pipeline.stop()


def give_up():
    raise LookupError("no model")


@pytest.mark.parametrize("where", ["workers", "threads", "processes"])
@pytest.mark.parametrize("generator", [False, True])
def test_a_factory_that_raises(where, generator):
    """It ends the run, and is not asked for ever."""
    with contextlib.ExitStack() as stack:
        pool = None
        if where == "threads":
            pool = stack.enter_context(ThreadPoolExecutor(2))
        elif where == "processes":
            context = multiprocessing.get_context("forkserver")
            pool = stack.enter_context(ProcessPoolExecutor(2, mp_context=context))
        pipeline = build(
            itertools.count(),
            per_worker(give_up, generator=generator),
            name="model",
            concurrency=2,
            executor=pool,
            retry=None if generator else 5,
        )
        with pytest.raises(LookupError, match="no model") as raised:
            list(pipeline)
        pipeline.stop()
        notes = "\n".join(raised.value.__notes__)
        assert "the factory of a per_worker() operation" in notes
        assert "'model'" in notes
        assert pipeline.failures.total <= 3


def test_a_factory_is_asked_a_few_times():
    asked = []

    def factory():
        asked.append(threading.get_ident())
        raise LookupError

    pipeline = build(itertools.count(), per_worker(factory), threads=2, concurrency=2)
    with pytest.raises(LookupError):
        list(pipeline)
    pipeline.stop()
    assert 1 <= len(asked) <= 2
    assert len(set(asked)) == len(asked)


def spread(x):
    yield x


class Spread:
    def __call__(self, x):
        yield x


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (lambda: 3, "must make a callable"),
        (lambda: spread, "generator=True"),
        (lambda: functools.partial(spread), "generator=True"),
        (Spread, "generator=True"),
    ],
)
def test_a_factory_that_makes_something_else(factory, message):
    pipeline = build(range(3), per_worker(factory))
    with pytest.raises(TypeError, match=message):
        list(pipeline)
    pipeline.stop()


def test_what_is_no_factory():
    with pytest.raises(TypeError, match="factory must be callable, got 3"):
        per_worker(3)


def test_outside_of_a_pipeline():
    made = []
    op = per_worker(lambda: Worker(made))
    assert [op(1), op(2)] == [1, 2]
    assert len(made) == 1
    other = threading.Thread(target=op, args=(3,))
    other.start()
    other.join()
    assert [w.closed for w in made] == [[], [made[1].where]]
    op.close()
    assert made[0].closed == [threading.get_ident()]
    op.close()
    assert repr(op).startswith("per_worker(<function")


def test_pickled_it_is_one_in_each_process():
    op = per_worker(dict)
    once, twice = (pickle.loads(pickle.dumps(op)) for _ in range(2))
    assert once is twice
    assert once.factory is dict
