"""Scenarios C1 to C8: consumers that leave, are slow, come again, or come together."""

import gc
import itertools
import resource
import threading
import time
from pathlib import Path

from scenario_kit import (
    SLOWNESS,
    Counted,
    build,
    consume,
    ledger,
    scenario,
    together,
    wait_until,
)

from headrace.pipeline import PipelineBuilder

HOW = ("how", ["break", "drop", "collect", "raise", "stop", "auto_stop"])


def inc(x):
    return x + 1


async def async_inc(x):
    return x + 1


def twice(x):
    yield x
    yield x


OPS = {"function": inc, "coroutine": async_inc, "generator": twice}


# ---- C1: the consumer breaks off ----


@scenario(cases=HOW)
def test_C1_the_consumer_breaks_off(how):
    """Stages end, sources and generators are closed, the next pipeline is fresh."""
    import weakref

    closed = []

    def source():
        try:
            yield from itertools.count()
        finally:
            closed.append("source")

    class Ring:
        pass

    def leave(pipeline):
        if how == "stop":
            pipeline.stop()
        elif how == "collect":
            ring = Ring()
            ring.me, ring.pipeline = ring, pipeline
        elif how == "raise":
            raise ZeroDivisionError

    def once(op, k):
        pipeline = build(source(), op, concurrency=2)
        if how == "auto_stop":
            with pipeline.auto_stop():
                assert len(list(itertools.islice(pipeline, k + 1))) == k + 1
            return weakref.ref(pipeline)
        for n, _ in enumerate(pipeline):
            if n == k:
                break
        if how in ("raise", "stop", "collect"):
            try:
                leave(pipeline)
            except ZeroDivisionError:
                pass
        return weakref.ref(pipeline)

    for k, op in itertools.product((0, 1, 17), OPS.values()):
        closed.clear()
        reference = once(op, k)
        gc.collect()
        wait_until(lambda: reference() is None and closed == ["source"], seconds=5)
    assert list(build(range(5), inc)) == [1, 2, 3, 4, 5]


@scenario
def test_C1_going_on_after_a_break_loses_nothing():
    got = []
    pipeline = build(range(1000), inc, concurrency=3, output_order="input")
    for k in itertools.cycle((1, 2, 7, 30)):
        part = list(itertools.islice(pipeline, k))
        got += part
        if len(part) < k:
            break
    assert got == list(range(1, 1001))
    assert ledger(pipeline, 1000)["delivered"] == 1000


# ---- C2: slow and fast consumers ----


@scenario(cases=("op", list(OPS)))
def test_C2_a_slow_consumer_bounds_what_is_made(op):
    source = Counted(itertools.count())
    pipeline = build(source, OPS[op], sink=3)
    assert next(iter(pipeline)) in (0, 1)

    def rests():
        before = source.emitted
        time.sleep(0.1)
        return source.emitted == before

    wait_until(rests)
    # sink 3, one task in flight, 16 places before the stage, up to 18 being pulled
    assert source.emitted <= 64
    used = resource.getrusage(resource.RUSAGE_SELF)
    time.sleep(0.5)
    after = resource.getrusage(resource.RUSAGE_SELF)
    busy = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    assert busy < 0.05 * SLOWNESS, busy  # producers sleep
    pipeline.stop()
    if op != "generator":
        ledger(pipeline, source.emitted)


@scenario(cases=("op", list(OPS)))
def test_C2_a_fast_consumer_sleeps_while_it_waits(op):
    gate = threading.Event()

    def source():
        yield 1
        gate.wait()
        yield 2

    pipeline = build(source(), OPS[op])
    pipeline.get_item()
    if op == "generator":
        pipeline.get_item()
    used = time.process_time()
    begin = time.monotonic()
    while time.monotonic() - begin < 1:
        try:
            pipeline.get_item(timeout=0.5)
        except TimeoutError:
            continue
        raise AssertionError("an item out of nowhere")
    assert time.process_time() - used < 0.05 * SLOWNESS
    gate.set()
    assert pipeline.get_item() in (2, 3)


# ---- C3: iterating again ----


@scenario
def test_C3_a_second_iterator_shares_what_is_left():
    pipeline = build(range(100), inc, output_order="input")
    first, second = iter(pipeline), iter(pipeline)
    got = [x for pair in zip(first, second, strict=True) for x in pair]
    assert got == list(range(1, 101))
    assert list(first) == list(second) == list(pipeline) == []
    assert ledger(pipeline, 100)["delivered"] == 100


@scenario(cases=("op", list(OPS)))
def test_C3_after_exhaustion_comes_the_next_epoch(op):
    """With the order of that epoch; what a break left over belongs to the old one."""
    import random

    class Shuffled:
        epoch = 0

        def __iter__(self):
            order = list(range(50))
            random.Random(self.epoch).shuffle(order)
            self.epoch += 1
            return iter(order)

    pipeline = build(
        Shuffled(), OPS[op], continuous=True, concurrency=3, output_order="input"
    )
    for epoch in range(6):
        wanted = list(range(50))
        random.Random(epoch).shuffle(wanted)
        wanted = [
            y for x in wanted for y in ((x, x) if op == "generator" else (x + 1,))
        ]
        if epoch % 2:
            assert list(itertools.islice(pipeline, 10)) == wanted[:10]
            assert list(pipeline) == wanted[10:]
        else:
            assert list(pipeline) == wanted
    pipeline.stop()
    if op != "generator":
        ledger(pipeline)


# ---- C4: several threads take items ----


@scenario(cases=("op", list(OPS)))
def test_C4_two_threads_take_items(op):
    n = 2000
    for order in ("completion", "input"):
        pipeline = build(range(n), OPS[op], concurrency=2, output_order=order)
        lists = together(4, lambda i: list(pipeline))
        got = sorted(x for part in lists for x in part)
        if op == "generator":
            assert got == sorted([*range(n), *range(n)])
        else:
            assert got == list(range(1, n + 1))
            assert ledger(pipeline, n)["delivered"] == n
        if order == "input":  # each thread sees its share in order
            assert all(part == sorted(part) for part in lists)


# ---- C5: stop, from wherever ----


@scenario
def test_C5_stop_twice_and_by_eight_threads():
    for _ in range(10):
        source = Counted(itertools.count())
        pipeline = build(source, inc, concurrency=2)
        pipeline.get_item()
        assert together(8, lambda i: pipeline.stop()) == [None] * 8
        pipeline.stop()
        ledger(pipeline, source.emitted)


@scenario(cases=("blocked", ["source", "op", "coroutine"]))
def test_C5_stop_while_others_wait_in_next(blocked):
    import asyncio

    gate = threading.Event()

    def source():
        if blocked == "source":
            gate.wait(20)
        yield 1

    async def coroutine(x):
        await asyncio.sleep(20)

    ops = {"source": inc, "op": lambda x: gate.wait(20), "coroutine": coroutine}
    pipeline = build(source(), ops[blocked])
    pipeline.start()
    ends = []

    def wait():
        try:
            pipeline.get_item()
        except EOFError:
            ends.append(time.monotonic())

    waiters = [threading.Thread(target=wait) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    time.sleep(0.1)
    begin = time.monotonic()
    try:
        pipeline.stop(timeout=0)
    except TimeoutError as error:
        assert blocked != "source" or "'source'" in str(error)
    for waiter in waiters:
        waiter.join(5)
    assert len(ends) == 3
    assert max(ends) - begin < 1 * SLOWNESS  # though the stage is still stuck
    gate.set()
    pipeline.stop()
    ledger(pipeline)


@scenario
def test_C5_stop_inside_the_loop_and_inside_an_op():
    got = []
    source = Counted(itertools.count())
    pipeline = build(source, inc)
    for x in pipeline:
        got.append(x)
        if x == 20:
            pipeline.stop()
    assert got == list(range(1, len(got) + 1))
    assert 20 <= len(got) < 64
    ledger(pipeline, source.emitted)

    pipelines = []

    def op(x):
        if x == 30:
            begin = time.monotonic()
            pipelines[0].stop()  # a request: it does not wait for itself
            assert time.monotonic() - begin < 1 * SLOWNESS
        return x

    async def coroutine(x):
        return op(x)

    def generator(x):
        yield op(x)

    for each in (op, coroutine, generator):
        source = Counted(itertools.count())
        pipelines.append(build(source, each))
        got = list(pipelines[0])
        assert got == list(range(len(got)))
        assert not any(f.exception for f in pipelines[0].failures)
        pipelines[0].stop()
        ledger(pipelines.pop(), None)


# ---- C6: pipelines in pipelines ----


@scenario(cases=("where", ["source", "op", "generator", "coroutine"]))
def test_C6_a_pipeline_inside_a_pipeline(where):
    """Each has threads of its own, so that one thread each is enough."""

    def inner(x):
        return build(range(x), inc, threads=1)

    def total(x):
        return sum(inner(x))

    def each(x):
        yield sum(inner(x))

    async def awaited(x):
        import asyncio

        return await asyncio.to_thread(total, x)

    if where == "source":
        pipeline = build(range(200), inc, threads=1)
        for _ in range(8):
            pipeline = build(pipeline, inc, threads=1)
        assert list(pipeline) == [x + 9 for x in range(200)]
        return
    op = {"op": total, "generator": each, "coroutine": awaited}[where]
    for threads in (1, 3):
        pipeline = build(range(40), op, threads=threads, concurrency=3)
        wanted = [sum(range(x + 1)) for x in range(40)]
        assert sorted(pipeline) == wanted
        ledger(pipeline)


@scenario(cases=("how", ["stop", "drop", "raise"]))
def test_C6_closing_the_outer_closes_the_inner(how):
    """Also while the innermost source gives nothing more."""
    gate = threading.Event()

    def source():
        yield from range(20)
        gate.wait(20)

    inner = build(source(), inc)
    pipeline = build(build(inner, inc), inc)
    got = []
    for x in pipeline:
        got.append(x)
        if len(got) == 10:
            break
    assert got == list(range(3, 13))
    begin = time.monotonic()
    if how == "stop":
        try:
            pipeline.stop(timeout=0.2)
        except TimeoutError:
            pass  # the innermost source is stuck, and named
    if how == "raise":
        try:
            raise ZeroDivisionError
        except ZeroDivisionError:
            pass
    del pipeline
    assert time.monotonic() - begin < 3 * SLOWNESS
    assert consume(inner)[1] is None  # it has ended: this does not wait
    gate.set()
    del inner


@scenario
def test_C6_pipelines_in_all_ops_of_all_workers():
    """More levels than threads: nobody waits for a worker of another level."""

    def level(depth):
        def op(x):
            if depth == 0:
                return x
            return sum(build(range(3), level(depth - 1), threads=1))

        return op

    assert list(build(range(3), level(3), threads=2, concurrency=2)) == [27] * 3


# ---- C7 and C8: items larger than the budget ----
#
# A source is read ahead by items and by bytes: 64 MiB, of values whose size the engine
# knows (bytes and buffers for native stages). Once that many are ahead the source
# rests. The last one asked for may go over the bound; and what the next stage needs
# for one task is always read. So nothing waits for room that can't come, and as items
# pass in the order of the source, none waits while later ones go by.

MIB = 1 << 20
PICTURE = (Path(__file__).parents[1] / "data" / "ok.jpg").read_bytes()


def padded(sizes, given):
    """Pictures as (bytes, number), followed by zeros, which a decoder does not read."""
    for i, size in enumerate(sizes):
        given.append(size)
        yield PICTURE.ljust(size, b"\0"), i


def decode(sizes, given, sink, **options):
    """Numbers of the decoded pictures as they come; and the pipeline."""
    from headrace.io import load_image

    source = padded(sizes, given)
    return build(source, load_image, key=0, sink=sink, **options)


@scenario
def test_C7_an_item_larger_than_the_budget_goes_alone():
    given, got = [], []
    pipeline = decode([80 * MIB] * 8, given, 1)
    for _, number in pipeline:
        got.append(number)
        time.sleep(0.02)
        # one taken, one at the sink, one in the stage, and alone ahead: one
        assert len(given) - len(got) <= 3, (given, got)
    assert got == list(range(8))
    assert ledger(pipeline, 8)["delivered"] == 8


@scenario
def test_C7_the_read_ahead_is_bounded_by_bytes():
    """Of 20 MiB each four are more than 64 MiB, and then no more is asked for."""
    given = []
    pipeline = decode([20 * MIB] * 12, given, 1)
    pipeline.get_item()
    wait_until(lambda: pipeline.stats().stages[-1].queued >= 1)

    def rests():
        before = len(given)
        time.sleep(0.1)
        return len(given) == before

    wait_until(rests)
    behind = pipeline.stats().stages[-1]
    assert len(given) <= 1 + behind.items_in + 1 + 4
    assert len([number for _, number in pipeline]) == 11


@scenario
def test_C7_a_batch_larger_than_the_budget_is_collected():
    """Its 12 items are 96 MiB, and all are ahead meanwhile."""
    from functools import partial

    from headrace.io import load_image_batch

    given = []
    pipeline = (
        PipelineBuilder()
        .add_source(padded([8 * MIB] * 30, given))
        .aggregate(12, columns=True)
        .pipe(partial(load_image_batch, width=8, height=8), key=0)
        .add_sink(1)
        .build(num_threads=2)
    )
    got = [(batch.shape[0], numbers) for batch, numbers in pipeline]
    wanted = [list(range(12)), list(range(12, 24)), list(range(24, 30))]
    assert got == [(len(numbers), numbers) for numbers in wanted]


@scenario
def test_C7_a_batch_has_a_largest_size_that_is_told_up_front():
    most = 1 << 20
    builder = PipelineBuilder().add_source(range(most + 5)).aggregate(most).add_sink(1)
    assert [len(x) for x in builder.build(num_threads=1)] == [most, 5]
    builder = PipelineBuilder().add_source([1]).aggregate(most + 1).add_sink()
    try:
        builder.build(num_threads=1)
    except ValueError as error:
        assert str(error) == "aggregate: n must be 1 to 1,048,576, got 1048577"
    else:
        raise AssertionError("not refused")


@scenario
def test_C8_large_and_small_items_pass_in_order():
    sizes = [1, 70 * MIB, 1, 1, 50 * MIB, 30 * MIB, 1, 65 * MIB, 1, 90 * MIB, 1] * 2
    pipeline = decode(sizes, [], 2, concurrency=2, output_order="input")
    assert [number for _, number in pipeline] == list(range(len(sizes)))
    assert ledger(pipeline, len(sizes))["delivered"] == len(sizes)
