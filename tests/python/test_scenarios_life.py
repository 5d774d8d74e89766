"""The life of pipelines, as figures: what a start, an end and a rest cost."""

import itertools
import random
import resource
import threading
import time

from scenario_kit import (
    SLOWNESS,
    Counted,
    await_threads,
    build,
    ledger,
    scenario,
    together,
    wait_until,
)

from headrace import _ext


def inc(x):
    return x + 1


async def async_inc(x):
    return x + 1


def nothing():
    yield from ()


OPS = {"function": inc, "coroutine": async_inc, "native": _ext.noop_op}


def operation(kind):
    return OPS[kind]() if kind == "native" else OPS[kind]


@scenario(cases=("kind", list(OPS)))
def test_twenty_empty_pipelines_in_less_than_a_second(kind):
    """The end of data is told at once, not when somebody looks next."""
    took = []
    for _ in range(3):
        begin = time.monotonic()
        for _ in range(20):
            assert list(build(nothing(), operation(kind))) == []
        took.append(time.monotonic() - begin)
    assert min(took) < 1 * SLOWNESS, took


@scenario(cases=("kind", list(OPS)))
def test_the_end_of_data_comes_at_once(kind):
    """Also after items, and when the consumer waits already."""
    waits = []
    for _ in range(20):
        told = []

        def source(told=told):
            yield from range(3)
            time.sleep(0.01)
            told.append(time.monotonic())

        pipeline = build(source(), operation(kind))
        assert len(list(pipeline)) == 3
        waits.append(time.monotonic() - told[0])
    waits.sort()
    assert waits[len(waits) // 4] < 0.005 * SLOWNESS, waits


@scenario
def test_a_start_takes_less_than_two_milliseconds():
    took = []
    for _ in range(60):
        pipeline = build(range(9), inc, threads=2)
        begin = time.perf_counter()
        pipeline.start()
        took.append(time.perf_counter() - begin)
        pipeline.stop()
    took.sort()
    # The quickest quarter: others may be at work on this machine.
    assert took[len(took) // 4] < 0.002 * SLOWNESS, took


@scenario
def test_rest_costs_no_processor_time():
    """Full, starved, ended and not started: twelve of them for a second."""
    gate = threading.Event()
    pipelines = []
    for kind in OPS:
        full = build(itertools.count(), operation(kind))
        full.get_item()
        starved = build(iter(gate.wait, True), operation(kind))
        starved.start()
        ended = build(range(2), operation(kind))
        ended.start()
        pipelines += [full, starved, ended, build(range(2), operation(kind))]
    time.sleep(0.3)
    before = resource.getrusage(resource.RUSAGE_SELF)
    time.sleep(1)
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < 0.03 * SLOWNESS, used
    gate.set()
    for pipeline in pipelines:
        pipeline.stop()


@scenario(cases=("kind", list(OPS)))
def test_a_run_that_has_ended_has_no_threads(kind):
    """Even if its last items have not been taken, and it was not stopped."""
    kept = []
    for _ in range(5):
        pipeline = build(range(3), operation(kind), sink=5)
        pipeline.start()
        kept.append(pipeline)
    await_threads()
    for pipeline in kept:
        assert len(list(pipeline)) == 3
        ledger(pipeline, 3)


@scenario(cases=("kind", list(OPS)))
def test_timeouts_of_several_consumers_lose_nothing(kind):
    n = 1500
    source = Counted(range(n))
    pipeline = build(source, operation(kind), concurrency=2)

    def take(i):
        chance = random.Random(i)
        mine = []
        while True:
            try:
                wait = chance.choice([0, 0, 1e-5, 1e-4, 1e-3])
                mine.append(pipeline.get_item(timeout=wait))
            except TimeoutError:
                continue
            except EOFError:
                return mine

    taken = sorted(x for mine in together(4, take) for x in mine)
    shift = 0 if kind == "native" else 1
    assert taken == list(range(shift, n + shift))
    assert ledger(pipeline, n)["delivered"] == n


@scenario(cases=("kind", list(OPS)))
def test_timeout_zero_takes_what_is_ready(kind):
    pipeline = build(range(8), operation(kind), sink=8)
    pipeline.start()
    wait_until(lambda: pipeline.stats().stages[-1].queued == 8)
    begin = time.monotonic()
    assert len([pipeline.get_item(timeout=0) for _ in range(8)]) == 8
    assert time.monotonic() - begin < 1 * SLOWNESS
