"""Start, stop, waiting, timeouts, several consumers."""

import itertools
import sys
import threading
import time

import pytest

from headrace import _ext
from headrace.pipeline import PipelineBuilder


def build(source, *ops, threads=2, sink=3, **options):
    builder = PipelineBuilder().add_source(source)
    for op in ops:
        builder.pipe(op, **options)
    return builder.add_sink(sink).build(num_threads=threads)


def wait_until(condition, seconds=5):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)


def test_start_once():
    pipeline = build(range(3))
    pipeline.start()
    with pytest.raises(RuntimeError, match="started before"):
        pipeline.start()
    assert list(pipeline) == [0, 1, 2]
    pipeline.stop()
    with pytest.raises(RuntimeError, match="started before"):
        pipeline.start()


def test_stop_before_start_does_nothing():
    pipeline = build(range(3))
    pipeline.stop()
    assert list(pipeline) == [0, 1, 2]


@pytest.mark.parametrize("moment", ["c_call", "c_return"])
def test_ctrl_c_in_start_leaves_a_pipeline_that_runs(moment):
    pipeline = build(range(5))

    def interrupt(_frame, event, arg):
        if event == moment and getattr(arg, "__name__", "") == "start":
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            pipeline.start()
    finally:
        sys.setprofile(None)
    assert list(pipeline) == [0, 1, 2, 3, 4]
    pipeline.stop()


def test_c5_stop_is_idempotent():
    pipeline = build(itertools.count())
    assert next(iter(pipeline)) == 0
    for _ in range(3):
        pipeline.stop()


def test_items_that_are_ready_survive_stop():
    pipeline = build(range(100), sink=4)
    pipeline.start()
    wait_until(lambda: pipeline.stats().stages[-1].items_in >= 4)
    pipeline.stop()
    rest = list(pipeline)
    assert rest == list(range(len(rest)))
    assert len(rest) >= 4
    with pytest.raises(EOFError):
        pipeline.get_item()


def test_get_item():
    pipeline = build(range(3))
    assert [pipeline.get_item() for _ in range(3)] == [0, 1, 2]
    for timeout in (None, 0, 1):
        with pytest.raises(EOFError, match="no more items"):
            pipeline.get_item(timeout=timeout)


def test_timeouts_lose_nothing():
    gate = threading.Semaphore(0)

    def source():
        for i in range(5):
            gate.acquire()
            yield i

    pipeline = build(source(), lambda x: x)
    got = []
    for _ in range(5):
        for timeout in (0, 0.001, 0.02):
            with pytest.raises(TimeoutError, match="timeout"):
                pipeline.get_item(timeout=timeout)
        gate.release()
        got.append(pipeline.get_item(timeout=5))
    assert got == [0, 1, 2, 3, 4]
    pipeline.stop()


def test_timeout_zero_takes_what_is_ready():
    pipeline = build(range(3), sink=3)
    pipeline.start()
    wait_until(lambda: pipeline.stats().stages[-1].items_in == 3)
    assert [pipeline.get_item(timeout=0) for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("timeout", [-1, float("nan"), -0.5])
def test_timeouts_out_of_range(timeout):
    pipeline = build(range(3))
    with pytest.raises(ValueError, match="timeout must be"):
        pipeline.get_item(timeout=timeout)
    with pytest.raises(ValueError, match="timeout must be"):
        pipeline.get_iterator(timeout=timeout)
    with pytest.raises(TypeError):
        pipeline.get_item(timeout="1")
    assert list(pipeline) == [0, 1, 2]


def test_iterator_timeout_is_for_each_item():
    def slow():
        for i in range(4):
            time.sleep(0.03)
            yield i

    pipeline = build(slow())
    assert list(pipeline.get_iterator(timeout=5)) == [0, 1, 2, 3]
    never = threading.Event()
    stuck = build(iter(never.wait, True))
    iterator = stuck.get_iterator(timeout=0.05)
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        next(iterator)
    assert 0.04 < time.monotonic() - begin < 1
    never.set()
    stuck.stop()


def test_c1_a_break_loses_nothing():
    pipeline = build(range(10), lambda x: x)
    first = list(itertools.islice(pipeline, 4))
    assert first + list(pipeline) == list(range(10))


def test_an_iterator_stays_at_its_end():
    pipeline = build(range(2))
    iterator = iter(pipeline)
    assert list(iterator) == [0, 1]
    assert next(iterator, None) is None
    assert iter(iterator) is iterator


def test_an_iterator_keeps_the_run_alive():
    iterator = iter(build(range(50), lambda x: x))
    assert list(iterator) == list(range(50))


def test_auto_stop():
    pipeline = build(itertools.count(), lambda x: x)
    with pipeline.auto_stop() as same:
        assert same is pipeline
        assert next(iter(pipeline)) == 0
    assert repr(pipeline).endswith("stopped>")
    assert len(list(pipeline)) < 100


def test_auto_stop_keeps_the_exception_of_the_body():
    release = threading.Event()
    pipeline = build([1], lambda _: release.wait(10))

    def body():
        with pipeline.auto_stop(timeout=0.01):
            wait_until(lambda: pipeline.stats().stages[1].running == 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()
    release.set()
    pipeline.stop()


def test_stop_names_what_is_stuck():
    release = threading.Event()
    pipeline = build([5, 6], lambda _: release.wait(10), name="sticky")
    pipeline.start()
    wait_until(lambda: pipeline.stats().stages[1].running == 1)
    with pytest.raises(TimeoutError, match=r"'sticky' .* item 0"):
        pipeline.stop(timeout=0.05)
    release.set()
    pipeline.stop()


def test_c5_stop_from_another_thread_ends_the_wait():
    never = threading.Event()
    pipeline = build(iter(never.wait, True))
    pipeline.start()
    got = []

    def consume():
        try:
            pipeline.get_item()
        except EOFError:
            got.append("end")

    consumer = threading.Thread(target=consume)
    consumer.start()
    time.sleep(0.05)
    with pytest.raises(TimeoutError):
        pipeline.stop(timeout=0.05)  # the source is stuck
    never.set()
    pipeline.stop()
    consumer.join(5)
    assert got == ["end"]


def test_c5_stop_inside_an_op_requests_the_end():
    pipelines = []

    def op(x):
        if x == 3:
            pipelines[0].stop()
        return x

    pipeline = build(itertools.count(), op)
    pipelines.append(pipeline)
    got = list(pipeline)
    assert got == list(range(len(got)))
    assert len(got) < 100
    pipelines.clear()
    pipeline.stop()


def test_c5_stop_inside_the_loop():
    pipeline = build(itertools.count(), lambda x: x)
    got = []
    for item in pipeline:
        got.append(item)
        if item == 5:
            pipeline.stop()
    assert got == list(range(len(got)))


def test_stop_closes_the_source():
    closed = threading.Event()

    def source():
        try:
            yield from itertools.count()
        finally:
            closed.set()

    pipeline = build(source(), lambda x: x)
    assert next(iter(pipeline)) == 0
    pipeline.stop()
    assert closed.is_set()


def test_stop_closes_generators_of_ops():
    closed = threading.Event()

    def op(x):
        try:
            yield from itertools.count()
        finally:
            closed.set()

    pipeline = build([1], op)
    assert next(iter(pipeline)) == 0
    pipeline.stop()
    assert closed.wait(5)


def test_c4_consumers_share_the_items():
    pipeline = build(range(3000), lambda x: x, concurrency=2)
    lists = [[], [], []]

    def consume(into):
        into.extend(pipeline)

    threads = [threading.Thread(target=consume, args=(into,)) for into in lists]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(itertools.chain(*lists)) == list(range(3000))


def test_c2_memory_is_bounded_by_the_plan():
    pulled = []

    def source():
        for i in range(1000):
            pulled.append(i)
            yield i

    pipeline = build(source(), lambda x: x, sink=3)
    assert next(iter(pipeline)) == 0
    time.sleep(0.3)
    # sink 3, one task in flight, 16 places before the stage, some in the read-ahead
    assert len(pulled) <= 64
    pipeline.stop()


def test_how_far_a_source_is_ahead():
    """16 items of one that may wait, 1,024 of what is in memory anyway."""
    made = []

    def source():
        for i in range(1000):
            made.append(i)
            yield i

    with build(source(), _ext.noop_op(), sink=1).auto_stop() as pipeline:
        wait_until(lambda: pipeline.stats().stages[1].queued == 16)
        time.sleep(0.05)
        stats = pipeline.stats()
        assert stats.stages[1].queued == stats.stages[1].capacity == 16
        assert len(made) == stats.stages[1].items_in + 16
        assert stats.stages[0].starved == 0
        assert stats.stages[0].blocked > 0
        assert list(pipeline) == list(range(1000))

    with build(range(1000), _ext.noop_op(), sink=1).auto_stop() as pipeline:
        wait_until(lambda: pipeline.stats().stages[1].queued > 32)
        assert pipeline.stats().stages[1].capacity == 1024
        assert list(pipeline) == list(range(1000))


@pytest.mark.thread_unsafe(reason="measures time")
@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("order", ["completion", "input"])
def test_a_function_that_waits_scales_with_its_concurrency(threads, order):
    """As many are asleep at a time as may be, on average over the whole run."""
    asleep = []  # seconds of each call; longer where the machine has other things to do

    def wait(x):
        begin = time.perf_counter()
        time.sleep(0.003)
        asleep.append(time.perf_counter() - begin)
        return x

    builder = PipelineBuilder().add_source(range(60 * threads))
    builder.pipe(wait, concurrency=threads, output_order=order)
    pipeline = builder.add_sink(4).build(num_threads=threads)
    begin = time.perf_counter()
    assert sorted(pipeline) == list(range(60 * threads))
    assert sum(asleep) / (time.perf_counter() - begin) >= 0.7 * threads
    pipeline.stop()


@pytest.mark.thread_unsafe(reason="measures CPU time of the process")
def test_c2_waiting_costs_no_cpu():
    never = threading.Event()
    pipeline = build(iter(never.wait, True), lambda x: x)
    pipeline.start()
    before = time.process_time()
    with pytest.raises(TimeoutError):
        pipeline.get_item(timeout=0.5)
    assert time.process_time() - before < 0.1
    never.set()
    pipeline.stop()


def test_c6_a_pipeline_inside_an_op():
    def op(x):
        return sum(build(range(x), lambda y: y, threads=1))

    assert list(build(range(12), op)) == [sum(range(x)) for x in range(12)]


def test_c6_a_pipeline_as_source():
    inner = build(range(40), lambda x: x + 1)
    outer = build(inner, lambda x: x * 2)
    assert list(outer) == [2 * (x + 1) for x in range(40)]


def test_stats_add_up():
    def op(x):
        if x % 10 == 0:
            raise ValueError(x)
        return None if x % 10 == 1 else x

    pipeline = (
        PipelineBuilder()
        .add_source(range(95))
        .pipe(op, name="sift", concurrency=2)
        .aggregate(10, drop_last=True)
        .add_sink()
        .build(num_threads=2)
    )
    assert len(list(pipeline)) == 7
    stats = pipeline.stats()
    source, sift, aggregate, sink = stats.stages
    assert source.items_out == sift.items_in == 95
    assert (sift.items_out, sift.filtered, sift.failed) == (75, 10, 10)
    assert (aggregate.items_in, aggregate.items_out) == (75, 7)
    assert (sink.items_in, stats.delivered, stats.failed) == (7, 7, 10)
    assert sift.concurrency == 2
    assert stats.num_threads == 2
    assert 0 < sift.busy < 60
    assert 0 < stats.elapsed < 60
    with pytest.raises(AttributeError):
        stats.delivered = 0


@pytest.mark.thread_unsafe(reason="the generator is a parameter; it runs once")
@pytest.mark.parametrize(
    ("source", "op", "pause", "expected"),
    [
        (
            range(20),
            lambda x: time.sleep(0.01) or 1,
            0,
            "Stage 'slow' is the bottleneck",
        ),
        (
            (time.sleep(0.01) or i for i in range(20)),
            lambda x: x,
            0,
            "The source is the bottleneck",
        ),
        (range(20), lambda x: x, 0.01, "The consumer is the bottleneck"),
    ],
)
def test_bottleneck(source, op, pause, expected):
    pipeline = build(source, op, name="slow")
    assert pipeline.bottleneck().startswith("No bottleneck is known yet")
    for _ in pipeline:
        time.sleep(pause)
    assert pipeline.bottleneck().startswith(expected)


def test_native_stages_run_beside_python_stages():
    noop = _ext.noop_op()
    pipeline = build(range(500), noop, lambda x: x + 1, noop, output_order="input")
    assert list(pipeline) == list(range(1, 501))


def test_a_source_that_pauses_overruns_no_timeout():
    def source():
        for i in range(1500 * 6):
            if i % 1500 == 1499:
                time.sleep(0.3)
            yield i

    pipeline = build(source(), sink=100)
    slowest, count = 0.0, 0
    while count < 1500 * 6:
        begin = time.monotonic()
        try:
            assert pipeline.get_item(timeout=0.02) == count
            count += 1
        except TimeoutError:
            pass
        slowest = max(slowest, time.monotonic() - begin)
    assert slowest < 0.25


def test_timeouts_that_are_none():
    pipeline = build(range(3))
    for call in (pipeline.get_item, pipeline.get_iterator, pipeline.stop):
        with pytest.raises(TypeError, match=r"^timeout must be None or seconds >= 0"):
            call(timeout="1")
