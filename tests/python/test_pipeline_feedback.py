"""Sources and operations that wait until the consumer has used what they gave last.

Nothing may be kept back for the sake of a batch of calls: each of these would wait for
ever (here: until the time-out of its semaphore, which fails the item).
"""

from __future__ import annotations

import threading

import pytest

from headrace.pipeline import PipelineBuilder

N = 40


def consume(pipeline, used):
    got = []
    for item in pipeline:
        got.append(item)
        used.release()
    assert not list(pipeline.failures)
    return got


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("stages", [0, 1])
def test_a_source_waits_for_the_consumer(num_threads, stages):
    used = threading.Semaphore(0)

    def source():
        for i in range(N):
            yield i
            if not used.acquire(timeout=10):
                raise TimeoutError("the item was not delivered")

    builder = PipelineBuilder().add_source(source())
    for _ in range(stages):
        builder.pipe(lambda x: x)
    pipeline = builder.add_sink(3).build(num_threads=num_threads)
    assert consume(pipeline, used) == list(range(N))


@pytest.mark.parametrize("order", ["completion", "input"])
def test_a_generator_waits_for_the_consumer(order):
    used = threading.Semaphore(0)

    def expand(n):
        for i in range(n):
            yield i
            if not used.acquire(timeout=10):
                raise TimeoutError("the item was not delivered")

    pipeline = (
        PipelineBuilder()
        .add_source([N])
        .pipe(expand, output_order=order)
        .add_sink(3)
        .build(num_threads=1)
    )
    assert consume(pipeline, used) == list(range(N))


def test_a_function_waits_for_the_consumer_to_have_the_items_before():
    consumed = 0
    changed = threading.Condition()

    def wait(i):
        if i > N // 2:  # those before are short, so that the engine expects short ones
            with changed:
                if not changed.wait_for(lambda: consumed >= i, timeout=10):
                    raise TimeoutError("the items before were not delivered")
        return i

    pipeline = (
        PipelineBuilder()
        .add_source(range(N))
        .pipe(wait)
        .add_sink(3)
        .build(num_threads=1)
    )
    got = []
    for item in pipeline:
        got.append(item)
        with changed:
            consumed += 1
            changed.notify_all()
    assert not list(pipeline.failures)
    assert got == list(range(N))


def test_a_burst_comes_without_waiting_for_the_next():
    more = threading.Semaphore(1)

    def bursts():
        for burst in range(5):
            assert more.acquire(timeout=10)
            for i in range(4):
                yield 4 * burst + i

    iterator = iter(PipelineBuilder().add_source(bursts()).add_sink(8).build())
    got = []
    for _ in range(5):
        got += [next(iterator) for _ in range(4)]
        more.release()
    assert got == list(range(20))
