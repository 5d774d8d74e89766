"""What a run tells about itself: figures, the table in the log."""

import itertools
import threading
import time

import pytest

from headrace.pipeline import PipelineBuilder

SPLIT = ("starved", "blocked", "ready", "full", "ended")
GROWING = ("items_in", "items_out", "filtered", "failed", "busy", *SPLIT)


def sieve(x):
    if x % 10 == 0:
        raise ValueError(x)
    return None if x % 7 == 0 else x


def build(source, *, sink=3):
    return (
        PipelineBuilder()
        .add_source(source)
        .pipe(sieve, concurrency=2)
        .aggregate(4)
        .add_sink(sink)
        .build(num_threads=2)
    )


def check(stats):
    source, sifted, batches, sink = stats.stages
    for stage in stats.stages:
        split = sum(getattr(stage, name) for name in SPLIT)
        assert split == pytest.approx(stats.elapsed, abs=1e-9)
        assert stage.p50 <= stage.p90 <= stage.p99
        assert stage.queued <= stage.capacity
        if stats.elapsed > 0:
            assert stage.rate == pytest.approx(stage.items_out / stats.elapsed)
    assert source.items_out == sifted.items_in + sifted.queued
    done = sifted.items_out + sifted.filtered + sifted.failed
    assert sifted.items_in == done + sifted.running
    assert sifted.items_out == batches.items_in + batches.queued
    assert batches.items_out == sink.items_in >= stats.delivered


def test_snapshots_of_a_run_are_consistent_and_grow():
    pipeline = build(range(30_000))
    done = threading.Event()
    shots = []

    def watch():
        while not done.is_set():
            shots.append(pipeline.stats())
            time.sleep(0.001)

    thread = threading.Thread(target=watch)
    thread.start()
    # of 30,000 3,000 fail; of the 4,286 multiples of 7 429 had failed
    batches = list(pipeline)
    done.set()
    thread.join()
    shots.append(pipeline.stats())
    assert sum(map(len, batches)) == 30_000 - 3_000 - (4_286 - 429)
    assert len(shots) > 1
    for shot in shots:
        check(shot)
    for before, after in itertools.pairwise(shots):
        assert before.elapsed <= after.elapsed
        assert before.delivered <= after.delivered
        for old, new in zip(before.stages, after.stages, strict=True):
            for name in GROWING:
                assert getattr(old, name) <= getattr(new, name), name


def test_percentiles_of_task_times():
    def op(x):
        time.sleep(0.2 if x == 7 else 0.001)
        return x

    pipeline = PipelineBuilder().add_source(range(20)).pipe(op).add_sink().build()
    assert len(list(pipeline)) == 20
    stage = pipeline.stats().stages[1]
    # ranks of 20: the 10th, the 18th, and for 99 % the slowest; a figure is within 6 %
    assert 0.00094 <= stage.p50 <= stage.p90 < 0.188 <= stage.p99


def test_nothing_is_known_before_the_start():
    stats = build(range(3)).stats()
    assert stats.elapsed == 0
    for stage in stats.stages:
        assert [getattr(stage, name) for name in GROWING] == [0] * len(GROWING)
        assert (stage.p50, stage.p99, stage.rate) == (0, 0, 0)
