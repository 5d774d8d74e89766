"""Paths, of which each item takes one."""

import itertools
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.io import load_image, read_file
from headrace.pipeline import PipelineBuilder


def path(*ops, **options):
    builder = PipelineBuilder()
    for op in ops:
        builder.pipe(op, **options)
    return builder


def build(source, router, paths, *, threads=2, sink=4, **options):
    return (
        PipelineBuilder()
        .add_source(source, **options)
        .path_variants(router, paths)
        .add_sink(sink)
        .build(num_threads=threads)
    )


def add(n):
    return lambda x: x + n


async def negate(x):
    return -x


def twice(x):
    yield x
    yield x


def drop_multiples_of_4(x):
    return None if x % 4 == 0 else x


# name: what stands in a path, and what comes of an item there
PATHS = {
    "nothing": (path, lambda x: [x]),
    "function": (lambda: path(add(1000)), lambda x: [x + 1000]),
    "two": (lambda: path(add(1000), str), lambda x: [str(x + 1000)]),
    "coroutine": (lambda: path(negate, concurrency=3), lambda x: [-x]),
    "generator": (lambda: path(twice), lambda x: [x, x]),
    "filter": (lambda: path(drop_multiples_of_4), lambda x: [x] if x % 4 else []),
    "concurrent": (
        lambda: path(add(5), concurrency=3, output_order="input"),
        lambda x: [x + 5],
    ),
    "route": (
        lambda: PipelineBuilder().path_variants(
            lambda x: x // 2 % 2, [path(add(1)), path()]
        ),
        lambda x: [x] if x // 2 % 2 else [x + 1],
    ),
    "batches": (
        lambda: PipelineBuilder().aggregate(3).disaggregate(),
        lambda x: [x],
    ),
}


@pytest.mark.parametrize("n", [0, 1, 100])
@pytest.mark.parametrize(
    "kinds",
    [
        *itertools.combinations(PATHS, 2),
        ("function",),
        ("nothing",),
        ("nothing", "nothing", "nothing"),
        ("function", "nothing", "two", "coroutine", "generator", "route"),
    ],
    ids=" ".join,
)
def test_paths(kinds, n):
    count = len(kinds)
    pipeline = build(range(n), lambda x: x % count, [PATHS[k][0]() for k in kinds])
    expected = [y for x in range(n) for y in PATHS[kinds[x % count]][1](x)]
    assert Counter(pipeline) == Counter(expected)
    assert not pipeline.failures
    for stage in pipeline.stats().stages:
        assert stage.running == 0
    pipeline.stop()


def test_each_path_keeps_its_order():
    pipeline = build(
        range(300), lambda x: x % 3, [path(), path(add(0)), path(add(0), add(0))]
    )
    got = list(pipeline)
    for i in range(3):
        assert [x for x in got if x % 3 == i] == list(range(i, 300, 3))
    pipeline.stop()


def test_names():
    paths = {"even": path(add(1)), "odd": path(str)}
    names = ["even", "odd"]
    pipeline = build(range(10), lambda x: names[x % 2], paths)
    assert Counter(pipeline) == Counter([1, 3, 5, 7, 9, "1", "3", "5", "7", "9"])
    pipeline.stop()


@pytest.mark.parametrize(
    "router",
    [[0, 1, 1], {0: 0, 1: 1, 2: 1}, bool, "011".__getitem__],
    ids=["list", "dict", "type", "str"],
)
def test_routers(router):
    call = (lambda x: int(router(x))) if callable(router) else router
    pipeline = build(range(3), call, [path(add(10)), path(add(20))])
    assert sorted(pipeline) == [10, 21, 22]
    pipeline.stop()


def test_a_stage_and_a_batch_after_the_paths():
    pipeline = (
        PipelineBuilder()
        .add_source(range(50))
        .pipe(add(1))
        .path_variants(lambda x: x % 2, [path(add(100)), path()], name="parity")
        .pipe(add(1), concurrency=2)
        .aggregate(8)
        .add_sink()
        .build(num_threads=3)
    )
    batches = list(pipeline)
    assert [len(b) for b in batches] == [8] * 6 + [2]
    expected = [x + 2 if x % 2 == 0 else x + 102 for x in range(50)]
    assert sorted(itertools.chain.from_iterable(batches)) == sorted(expected)
    stats = {stage.name: stage for stage in pipeline.stats().stages}
    assert (stats["parity"].items_in, stats["parity"].items_out) == (50, 50)
    assert stats["join"].items_out == 50
    pipeline.stop()


@pytest.mark.parametrize("batch", [1, 4])
def test_epochs_do_not_mix(batch):
    pipeline = (
        PipelineBuilder()
        .add_source(range(10), continuous=True)
        .path_variants(lambda x: x % 2, [path(add(100), add(0)), path(negate)])
        .aggregate(batch)
        .add_sink(2)
        .build(num_threads=2)
    )
    expected = sorted(x + 100 if x % 2 == 0 else -x for x in range(10))
    for _ in range(5):
        epoch = list(pipeline)
        assert sorted(itertools.chain.from_iterable(epoch)) == expected
        assert all(len(b) == batch for b in epoch[:-1])
    pipeline.stop()


def test_a_slow_path_is_passed_by_the_other():
    """As long as there is room in it."""
    go_on = threading.Event()

    def wait(x):
        assert go_on.wait(10)
        return x

    pipeline = build(range(6), lambda x: int(x > 0), [path(wait), path()], threads=2)
    assert [pipeline.get_item(timeout=10) for _ in range(5)] == [1, 2, 3, 4, 5]
    go_on.set()
    assert list(pipeline) == [0]
    pipeline.stop()


def test_the_bound_holds_across_paths():
    begun = []
    go_on = threading.Event()

    def wait(x):
        begun.append(x)
        assert go_on.wait(10)
        return x

    source = iter(range(10_000))
    pipeline = build(source, lambda _: 0, [path(wait), path()], sink=1)
    pipeline.start()
    end = time.monotonic() + 10
    while not begun:
        assert time.monotonic() < end
        time.sleep(0.002)
    time.sleep(0.05)
    assert begun == [0]
    assert next(source) < 1024 + 64  # the read-ahead, and the channels of one path
    go_on.set()
    pipeline.stop()


# ---- native stages in paths ----


def test_native_stages_in_a_path(tmp_path):
    """Each path gets items in the form that its first stage needs."""
    files = []
    for i in range(6):
        files.append(tmp_path / f"{i}.{'txt' if i % 2 else 'bin'}")
        files[-1].write_bytes(bytes([i]) * 4)

    def suffix(x):
        return x.suffix

    paths = {".bin": path(read_file, bytes), ".txt": path(lambda p: p.read_text())}
    pipeline = build(files, suffix, paths)
    assert Counter(pipeline) == Counter(
        [bytes([i]) * 4 for i in (0, 2, 4)] + [chr(i) * 4 for i in (1, 3, 5)]
    )
    pipeline.stop()


def test_native_values_go_through_a_router(tmp_path):
    sizes = [3, 30, 5, 50]
    for i, size in enumerate(sizes):
        (tmp_path / str(i)).write_bytes(b"x" * size)
    pipeline = (
        PipelineBuilder()
        .add_source([tmp_path / str(i) for i in range(4)])
        .pipe(read_file)
        .path_variants(lambda b: int(b.nbytes > 10), [path(len), path()])
        .add_sink()
        .build(num_threads=2)
    )
    got = list(pipeline)
    assert sorted(x for x in got if isinstance(x, int)) == [3, 5]
    assert sorted(x.nbytes for x in got if not isinstance(x, int)) == [30, 50]
    pipeline.stop()


def test_what_does_not_fit_a_native_path_fails_alone(tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    pipeline = build([1.5, tmp_path / "a"], lambda _: 0, [path(read_file, bytes)])
    assert list(pipeline) == [b"a"]
    assert [(f.stage, f.index) for f in pipeline.failures] == [("read_file", 0)]
    assert "float" in str(pipeline.failures[0].exception)
    pipeline.stop()


def test_records_go_through(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    source = [(tmp_path / "a", i) for i in range(6)]
    pipeline = (
        PipelineBuilder()
        .add_source(source)
        .path_variants(
            lambda r: r[1] % 2,
            [
                PipelineBuilder().pipe(read_file, key=0).pipe(bytes, key=0),
                path(lambda r: (r[0].name, r[1])),
            ],
        )
        .add_sink()
        .build(num_threads=2)
    )
    assert Counter(pipeline) == Counter(
        [(b"abc", i) for i in (0, 2, 4)] + [("a", i) for i in (1, 3, 5)]
    )
    pipeline.stop()


def test_native_stages_that_do_not_fit_are_refused_at_build():
    with pytest.raises(TypeError, match="takes one item at a time"):
        build([], abs, [PipelineBuilder().aggregate(2).pipe(load_image)])


# ---- failures ----


def fail_at(*items):
    def op(x):
        if x in items:
            raise ValueError(x)
        return x

    return op


def test_failures_in_a_path_are_skipped():
    pipeline = build(range(20), lambda x: x % 2, [path(fail_at(4, 8)), path()])
    assert sorted(pipeline) == [x for x in range(20) if x not in (4, 8)]
    assert [(f.stage, f.index) for f in pipeline.failures] == [("op", 4), ("op", 8)]
    pipeline.stop()


def test_a_path_that_raises_ends_the_run():
    pipeline = build(
        itertools.count(),
        lambda x: x % 2,
        [path(fail_at(40), on_error="raise"), path()],
    )
    got = []
    with pytest.raises(ValueError, match="40"):
        for x in pipeline:
            got.append(x)
    assert [x for x in got if x % 2 == 0] == list(range(0, 40, 2))
    odd = [x for x in got if x % 2]
    assert odd == list(range(1, 1 + 2 * len(odd), 2))
    pipeline.stop()


@pytest.mark.parametrize(
    ("router", "kind", "message"),
    [
        (fail_at(5), ValueError, "5"),
        (lambda x: 2 if x == 5 else 0, IndexError, "chose path 2; there are 2"),
        (lambda x: -1 if x == 5 else 0, IndexError, "chose path -1; there are 2"),
        (lambda x: None if x == 5 else 0, TypeError, "number of a path, not None"),
    ],
)
def test_a_router_that_fails_ends_the_run(router, kind, message):
    chosen = router if kind is not ValueError else lambda x: router(x) * 0
    pipeline = build(itertools.count(), chosen, [path(), path()])
    got = []
    with pytest.raises(kind, match=message) as raised:
        for x in pipeline:
            got.append(x)
    assert got == [0, 1, 2, 3, 4]
    assert any("'path_variants', item 5" in note for note in raised.value.__notes__)
    pipeline.stop()


def test_a_name_that_is_not_there():
    pipeline = build(range(3), str, {"0": path(), "1": path()})
    with pytest.raises(LookupError, match="chose path '2'; there are '0', '1'"):
        list(pipeline)
    pipeline.stop()


# ---- ends ----


@pytest.mark.parametrize("taken", [0, 1, 10])
def test_stop_at_any_moment(taken):
    for threads in (1, 2, 3):
        pipeline = build(
            itertools.count(),
            lambda x: x % 3,
            [path(add(1)), path(negate, concurrency=2), path(twice)],
            threads=threads,
        )
        pipeline.start()
        for _ in range(taken):
            pipeline.get_item(timeout=10)
        pipeline.stop(timeout=10)
        stages = pipeline.stats().stages
        router = stages[1]
        assert router.items_in == router.items_out + router.released
        assert all(stage.running == 0 for stage in stages)


def test_random_routes_against_a_loop():
    """Plans of random paths, two deep, on one to three threads."""
    rng = random.Random(5)
    for _ in range(30):
        kinds = [rng.choice(list(PATHS)) for _ in range(rng.randint(1, 5))]
        choice = [rng.randrange(len(kinds)) for _ in range(200)]
        pipeline = build(
            range(200),
            choice.__getitem__,
            [PATHS[k][0]() for k in kinds],
            threads=rng.randint(1, 3),
            sink=rng.choice([1, 3, 50]),
        )
        expected = [y for x in range(200) for y in PATHS[kinds[choice[x]]][1](x)]
        assert Counter(pipeline) == Counter(expected)
        pipeline.stop()


def test_with_an_executor_in_a_path():
    with ThreadPoolExecutor(2) as pool:
        pipeline = build(
            range(60),
            lambda x: x % 2,
            [path(add(1), executor=pool, concurrency=3), path()],
        )
        assert sorted(pipeline) == sorted(x + 1 - x % 2 for x in range(60))
        pipeline.stop()


# ---- arguments, and what can be seen ----


def test_length():
    def length(*paths):
        return len(build(range(7), abs, paths))

    assert length(path(), path(abs, str)) == 7
    with pytest.raises(TypeError, match="any number of items"):
        length(path(), path(twice))
    with pytest.raises(TypeError, match="any number of items"):
        length(PipelineBuilder().aggregate(2))


def test_arguments():
    builder = PipelineBuilder().add_source([])
    with pytest.raises(ValueError, match="at least one path"):
        builder.path_variants(abs, [])
    with pytest.raises(ValueError, match="no source and no sink"):
        builder.path_variants(abs, [PipelineBuilder().add_sink()])
    with pytest.raises(ValueError, match="no source and no sink"):
        builder.path_variants(abs, [PipelineBuilder().add_source([])])
    with pytest.raises(TypeError, match="must be a PipelineBuilder, got 3"):
        builder.path_variants(abs, [3])
    with pytest.raises(TypeError, match="must be callable"):
        builder.path_variants(3, [path()])
    for router in (negate, twice):
        with pytest.raises(TypeError, match="must be a plain function"):
            builder.path_variants(router, [path()])
    builder.path_variants(abs, [path()] * 65).add_sink()
    with pytest.raises(ValueError, match="more than 64 paths"):
        builder.build()


def test_depth():
    inner = path()
    for depth in range(1, 10):
        inner = PipelineBuilder().path_variants(lambda _: 0, [inner])
        builder = PipelineBuilder().add_source(range(3))
        builder._stages += inner._stages
        builder.add_sink()
        if depth <= 8:
            assert list(builder.build(num_threads=1)) == [0, 1, 2]
        else:
            with pytest.raises(ValueError, match="more than 8 deep"):
                builder.build()


def test_repr():
    pipeline = build([], abs, [path(abs, str), path()])
    assert "path_variants(abs → str | -)" in repr(pipeline)
