"""Several sources, each with stages of its own, that become one."""

import asyncio
import itertools
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.io import read_file
from headrace.pipeline import PipelineBuilder
from headrace.pipeline.defs import Merge


def chain(source, *ops, continuous=False, **options):
    builder = PipelineBuilder().add_source(source, continuous=continuous)
    for op in ops:
        builder.pipe(op, **options)
    return builder


def build(branches, *ops, threads=2, sink=4):
    builder = PipelineBuilder().add_source(Merge(branches))
    for op in ops:
        builder.pipe(op)
    return builder.add_sink(sink).build(num_threads=threads)


def add(n):
    return lambda x: x + n


async def negate(x):
    return -x


def twice(x):
    yield x
    yield x


async def numbers(start, n):
    for i in range(start, start + n):
        await asyncio.sleep(0)
        yield i


def iterate(start, n):
    yield from range(start, start + n)


# What a branch is, given its first number and how many, and what comes of it
BRANCHES = {
    "range": (lambda a, n: chain(range(a, a + n)), lambda xs: xs),
    "list": (lambda a, n: chain(list(range(a, a + n))), lambda xs: xs),
    "generator": (lambda a, n: chain(iterate(a, n)), lambda xs: xs),
    "async": (lambda a, n: chain(numbers(a, n)), lambda xs: xs),
    "function": (
        lambda a, n: chain(range(a, a + n), add(1)),
        lambda xs: [x + 1 for x in xs],
    ),
    "coroutine": (
        lambda a, n: chain(range(a, a + n), negate, concurrency=3),
        lambda xs: [-x for x in xs],
    ),
    "expand": (
        lambda a, n: chain(iterate(a, n), twice),
        lambda xs: [x for x in xs for _ in range(2)],
    ),
    "batches": (
        lambda a, n: chain(range(a, a + n)).aggregate(4).disaggregate(),
        lambda xs: xs,
    ),
    "merge": (
        lambda a, n: chain(
            Merge(
                [chain(range(a, a + n // 2)), chain(iterate(a + n // 2, n - n // 2))]
            ),
            add(2),
        ),
        lambda xs: [x + 2 for x in xs],
    ),
    "route": (
        lambda a, n: chain(range(a, a + n)).path_variants(
            lambda x: x % 2, [PipelineBuilder(), PipelineBuilder().pipe(add(0))]
        ),
        lambda xs: xs,
    ),
}


def expected_of(kinds, n):
    parts = [
        BRANCHES[kind][1](list(range(1000 * i, 1000 * i + n)))
        for i, kind in enumerate(kinds)
    ]
    return list(itertools.chain.from_iterable(parts))


def branches_of(kinds, n):
    return [BRANCHES[kind][0](1000 * i, n) for i, kind in enumerate(kinds)]


@pytest.mark.parametrize("n", [0, 1, 150])
@pytest.mark.parametrize(
    "kinds",
    [
        *itertools.combinations(BRANCHES, 2),
        ("range",),
        ("async", "async"),
        ("range", "list", "generator", "async", "function", "merge", "expand"),
        ("range",) * 20,
    ],
    ids=" ".join,
)
def test_branches(kinds, n):
    pipeline = build(branches_of(kinds, n), add(0))
    assert Counter(pipeline) == Counter(expected_of(kinds, n))
    assert not pipeline.failures
    assert all(stage.running == 0 for stage in pipeline.stats().stages)
    pipeline.stop()


def test_each_branch_keeps_its_order():
    pipeline = build([chain(range(300)), chain(iterate(1000, 300)), chain([2000])])
    got = list(pipeline)
    assert [x for x in got if x < 1000] == list(range(300))
    assert [x for x in got if 1000 <= x < 2000] == list(range(1000, 1300))
    pipeline.stop()


def test_a_source_that_waits_does_not_hold_up_the_others():
    go_on = threading.Event()

    def waits():
        yield 1
        assert go_on.wait(10)
        yield 2

    pipeline = build([chain(waits()), chain(range(100, 140))], threads=1)
    got = [pipeline.get_item(timeout=10) for _ in range(41)]
    assert sorted(got) == [1, *range(100, 140)]
    go_on.set()
    assert list(pipeline) == [2]
    pipeline.stop()


def test_each_source_has_its_own_thread():
    where = {}

    def source(name):
        for i in range(20):
            where.setdefault(name, set()).add(threading.get_ident())
            yield i

    pipeline = build([chain(source("a")), chain(source("b")), chain(source("c"))])
    assert len(list(pipeline)) == 60
    pipeline.stop()
    assert [len(threads) for threads in where.values()] == [1, 1, 1]
    assert len(set.union(*where.values()) | {threading.get_ident()}) == 4


def test_endless_sources_are_held_back():
    made = Counter()

    def endless(name):
        for i in itertools.count():
            made[name] += 1
            yield name, i

    pipeline = build([chain(endless("a")), chain(endless("b"))], sink=2)
    got = list(itertools.islice(pipeline, 200))
    while len({name for name, _ in got}) < 2:  # the other's thread may be late
        got.append(next(iter(pipeline)))
        assert len(got) < 100_000
    time.sleep(0.05)
    for name in "ab":
        mine = [i for n, i in got if n == name]
        assert mine == list(range(len(mine)))
        assert made[name] <= len(mine) + 64
    pipeline.stop()


@pytest.mark.parametrize("batch", [1, 4])
def test_epochs_end_together(batch):
    pipeline = (
        PipelineBuilder()
        .add_source(
            Merge(
                [
                    chain(range(10), continuous=True),
                    chain([100, 101], add(1), continuous=True),
                    chain((), continuous=True),
                ]
            )
        )
        .aggregate(batch)
        .add_sink(2)
        .build(num_threads=2)
    )
    for _ in range(5):
        epoch = list(pipeline)
        items = sorted(itertools.chain.from_iterable(epoch))
        assert items == [*range(10), 101, 102]
        assert all(len(b) == batch for b in epoch[:-1])
    pipeline.stop()


def test_native_stages_in_branches_and_behind(tmp_path):
    for i in range(4):
        (tmp_path / str(i)).write_bytes(bytes([i]))
    paths = [tmp_path / str(i) for i in range(4)]
    pipeline = build(
        [chain(paths[:2], read_file, bytes), chain(paths[2:], str), chain([])],
        lambda x: x if isinstance(x, bytes) else int(x[-1]),
    )
    assert Counter(pipeline) == Counter([b"\0", b"\1", 2, 3])
    pipeline.stop()
    pipeline = build([chain(paths[:2]), chain(map(str, paths[2:]))], read_file, bytes)
    assert Counter(pipeline) == Counter(bytes([i]) for i in range(4))
    pipeline.stop()


def test_records_and_columns():
    pipeline = (
        PipelineBuilder()
        .add_source(
            Merge(
                [
                    chain([(i, str(i)) for i in range(6)]),
                    chain([(-i, str(-i)) for i in range(1, 5)], abs, key=0),
                ]
            )
        )
        .aggregate(10, columns=True)
        .add_sink()
        .build(num_threads=2)
    )
    ((xs, names),) = pipeline
    assert sorted(zip(xs, names, strict=True)) == sorted(
        [(i, str(i)) for i in range(6)] + [(i, str(-i)) for i in range(1, 5)]
    )
    pipeline.stop()


# ---- failures ----


def test_a_source_that_fails_is_told_when_the_others_have_ended():
    def fails():
        yield 1
        yield 2
        raise OSError("gone")

    pipeline = build([chain(fails()), chain(range(100, 200))])
    got = []
    with pytest.raises(OSError, match="gone") as raised:
        for x in pipeline:
            got.append(x)
    assert sorted(got) == [1, 2, *range(100, 200)]
    assert any("'source', item 2" in note for note in raised.value.__notes__)
    assert list(pipeline) == []
    pipeline.stop()


def test_a_branch_that_raises_leaves_the_others_running():
    def fail(x):
        if x == 5:
            raise ValueError(x)
        return x

    pipeline = build(
        [
            chain(itertools.count(), fail, on_error="raise"),
            chain(range(100, 160)),
        ]
    )
    got = []
    with pytest.raises(ValueError, match="5"):
        for x in pipeline:
            got.append(x)
    assert sorted(got) == [0, 1, 2, 3, 4, *range(100, 160)]
    pipeline.stop()


def test_failures_are_numbered_by_source():
    def fail(x):
        raise ValueError(x)

    pipeline = build(
        [chain(["a", "b"], fail, name="first"), chain(["c", "d"], fail, name="second")]
    )
    assert list(pipeline) == []
    assert {(f.stage, f.index, str(f.exception)) for f in pipeline.failures} == {
        ("first", 0, "a"),
        ("first", 1, "b"),
        ("second", 0, "c"),
        ("second", 1, "d"),
    }
    pipeline.stop()


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_exceptions_that_end_programs(kind):
    def ends():
        yield 1
        raise kind

    pipeline = build([chain(ends()), chain(itertools.count())])
    with pytest.raises(kind):
        list(pipeline)
    pipeline.stop()


# ---- ends ----


@pytest.mark.parametrize("taken", [0, 1, 10])
@pytest.mark.parametrize("source", [itertools.count, lambda: numbers(0, 10**9)])
def test_stop_at_any_moment(source, taken):
    closed = []

    def endless():
        try:
            yield from itertools.count()
        finally:
            closed.append(1)

    for threads in (1, 2, 3):
        pipeline = build(
            [chain(source(), add(1)), chain(endless()), chain([1, 2])], threads=threads
        )
        pipeline.start()
        for _ in range(taken):
            pipeline.get_item(timeout=10)
        pipeline.stop(timeout=10)
        assert all(stage.running == 0 for stage in pipeline.stats().stages)
    assert len(closed) <= 3


def test_random_merges_against_a_loop():
    rng = random.Random(7)
    for _ in range(25):
        kinds = [rng.choice(list(BRANCHES)) for _ in range(rng.randint(1, 5))]
        n = rng.choice([0, 1, 17, 100])
        pipeline = build(
            branches_of(kinds, n),
            threads=rng.randint(1, 3),
            sink=rng.choice([1, 3, 50]),
        )
        assert Counter(pipeline) == Counter(expected_of(kinds, n))
        pipeline.stop()


def test_residue(script):
    script(
        """
import itertools
from headrace.pipeline.defs import Merge

def merged(count, source):
    branches = [PipelineBuilder().add_source(source()).pipe(abs) for _ in range(count)]
    return PipelineBuilder().add_source(Merge(branches)).add_sink().build(num_threads=2)

before = threads(), descriptors()
for i in range(10):
    p = merged(1 + i % 4, itertools.count)
    for _ in range(i):
        p.get_item(timeout=10)
    if i % 2:
        p.stop()
    p = None
    gc.collect()
    wait_until(lambda: (threads(), descriptors()) == before)
p = merged(3, itertools.count)
next(iter(p))  # left running at the end of the interpreter
"""
    )


def test_an_idle_merge_costs_no_cpu(script):
    script(
        """
from headrace.pipeline.defs import Merge
gone = threading.Event()
def source():
    gone.wait(60)
    yield 1
p = (
    PipelineBuilder()
    .add_source(Merge([PipelineBuilder().add_source(source()) for _ in range(3)]))
    .add_sink().build(num_threads=2)
)
p.start()
time.sleep(0.2)
begin = time.process_time()
time.sleep(0.5)
assert time.process_time() - begin < 0.05
gone.set()
assert list(p) == [1, 1, 1]
p.stop()
"""
    )


def test_with_an_executor_in_a_branch():
    with ThreadPoolExecutor(2) as pool:
        pipeline = build(
            [chain(range(50), add(1), executor=pool, concurrency=3), chain([-1])]
        )
        assert sorted(pipeline) == [-1, *range(1, 51)]
        pipeline.stop()


# ---- arguments, and what can be seen ----


def test_length():
    assert len(build([chain(range(7)), chain([1, 2], abs)])) == 9
    two = [chain(range(7)).aggregate(2), chain(range(3))]
    assert len(build(two)) == 4 + 3
    with pytest.raises(TypeError, match="its source, a generator, has none"):
        len(build([chain(range(7)), chain(iterate(0, 3))]))


def test_names():
    pipeline = build([chain(range(3), abs), chain([1])], str)
    assert "merge(source → abs | source) → str" in repr(pipeline)
    names = [stage.name for stage in pipeline.stats().stages]
    assert names == ["source", "abs", "source", "merge", "str", "sink"]
    assert repr(Merge([chain([])])).startswith("Merge([<PipelineBuilder")


def test_sinks_of_branches_are_ignored():
    pipeline = build([chain(range(3)).add_sink(), chain([5]).add_sink(1)])
    assert sorted(pipeline) == [0, 1, 2, 5]
    pipeline.stop()


def test_arguments():
    with pytest.raises(ValueError, match="at least one pipeline"):
        Merge([])
    with pytest.raises(ValueError, match="needs a source"):
        Merge([PipelineBuilder()])
    with pytest.raises(TypeError, match="takes PipelineBuilders, got 3"):
        Merge([3])
    with pytest.raises(ValueError, match="either all sources of a merge are"):
        Merge([chain([]), chain([], continuous=True)])
    with pytest.raises(ValueError, match="continuous= is for the sources"):
        PipelineBuilder().add_source(Merge([chain([])]), continuous=True)
    with pytest.raises(TypeError, match="can't be a source in a merge"):
        build([chain(build([chain([])])), chain([])])
    with pytest.raises(ValueError, match="more than 64 branches"):
        build([chain([]) for _ in range(65)])
