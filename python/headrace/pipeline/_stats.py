"""Statistics of a pipeline, and what they say about its speed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace._ext import Engine

_NS = 1e-9


@dataclass(frozen=True, slots=True)
class StageStats:
    """What a stage has done so far.

    Counters add up: ``items_in`` = ``items_out`` + ``filtered`` + ``failed`` + items in
    work, for a stage that makes one item of one. Times are seconds.

    Attributes:
        name: The stage's name.
        concurrency: Tasks it may have in flight.
        items_in: Items taken.
        items_out: Items handed on.
        filtered: Items dropped on purpose: ``None`` was returned, or the last batch
            was not full.
        failed: Tasks that failed.
        released: Items discarded because the run was stopped.
        retried: Calls that failed and were made again, or are going to be.
        timed_out: Calls that took longer than the stage's ``timeout``.
        stuck: Calls that were given up for it and have not come back yet; each keeps a
            thread, which has been replaced, or a coroutine.
        late: Calls that were given up and have come back since. Their results were
            dropped.
        running: Tasks in flight now.
        queued: Items waiting for the stage now; at the sink, for the consumer.
        capacity: Items that may wait there, with those being made.
        busy: Time in its tasks, summed over threads.
        awaited: Time its tasks were in flight on the event loop, from the call of a
            coroutine function to its result, summed over tasks. Tasks are in flight
            together, so it may be far more than the time that passed; it is not part
            of ``busy``.
        starved: Time in which one more task could have run, but there was no item.
        blocked: ... but there was no room for its result.
        ready: ... but no thread was free.
        full: Time in which as many tasks ran as ``concurrency`` allows.
        gil_wait: Time its tasks waited for the GIL in the engine's threads.
        gil_held: Time its tasks ran attached to Python there. How the tasks on the
            event loop share its thread is not known.
        ended: Time since it had nothing left to do. ``starved + blocked + ready + full
            + ended`` is the time since the start.
        p50: Half of its tasks took at most this long; within 6 %. Of a source it is the
            time for an item, of a generator for a step of up to 16 items.
        p90: The same for 90 % of the tasks. Short tasks that a thread ran together
            count with their mean.
        p99: The same for 99 % of the tasks.
        rate: Items handed on, per second of the run.

    """

    name: str
    concurrency: int
    items_in: int
    items_out: int
    filtered: int
    failed: int
    released: int
    retried: int
    timed_out: int
    stuck: int
    late: int
    running: int
    queued: int
    capacity: int
    busy: float
    awaited: float
    starved: float
    blocked: float
    ready: float
    full: float
    gil_wait: float
    gil_held: float
    ended: float
    p50: float
    p90: float
    p99: float
    rate: float


@dataclass(frozen=True, slots=True)
class PipelineStats:
    """What a pipeline has done so far. Times are seconds.

    Attributes:
        stages: From the source to the sink.
        num_threads: Threads that run stages.
        elapsed: Time since the start, to the end of the run or to now.
        consumer_wait: Time the consumer waited for items.
        delivered: Items the consumer got.
        failed: Items that failed.

    """

    stages: tuple[StageStats, ...]
    num_threads: int
    elapsed: float
    consumer_wait: float
    delivered: int
    failed: int


def read_stats(engine: Engine) -> PipelineStats:
    """Take a snapshot."""
    summary, stages = engine.stats()
    elapsed = summary["elapsed_ns"] * _NS
    return PipelineStats(
        stages=tuple(
            StageStats(
                name=s["name"],
                concurrency=s["concurrency"],
                items_in=s["items_in"],
                items_out=s["items_out"],
                filtered=s["filtered"],
                failed=s["failed"],
                released=s["released"],
                retried=s["retried"],
                timed_out=s["timed_out"],
                stuck=s["stuck"],
                late=s["late"],
                running=s["running"],
                queued=s["queued"],
                capacity=s["capacity"],
                busy=s["busy_ns"] * _NS,
                awaited=s["awaited_ns"] * _NS,
                starved=s["starved_ns"] * _NS,
                blocked=s["blocked_ns"] * _NS,
                ready=s["ready_ns"] * _NS,
                full=s["full_ns"] * _NS,
                gil_wait=s["attach_ns"] * _NS,
                gil_held=s["attached_ns"] * _NS,
                ended=s["ended_ns"] * _NS,
                p50=s["task_p50_ns"] * _NS,
                p90=s["task_p90_ns"] * _NS,
                p99=s["task_p99_ns"] * _NS,
                rate=s["items_out"] / elapsed if elapsed > 0 else 0.0,
            )
            for s in stages
        ),
        num_threads=summary["num_threads"],
        elapsed=elapsed,
        consumer_wait=summary["consumer_wait_ns"] * _NS,
        delivered=summary["delivered"],
        failed=summary["failed"],
    )


_SPAN_COUNTERS = (
    *("items_in", "items_out", "filtered", "failed", "released", "retried", "busy"),
    *("timed_out", "late"),
    *("starved", "blocked", "ready", "full", "gil_wait", "gil_held", "ended"),
)


def between(before: PipelineStats, after: PipelineStats) -> PipelineStats:
    """Return what happened between two snapshots of a run.

    What is no count and no sum of time (percentiles, running, queued) is as in `after`.
    """
    elapsed = after.elapsed - before.elapsed
    stages = []
    for old, new in zip(before.stages, after.stages, strict=True):
        grown = {
            name: getattr(new, name) - getattr(old, name) for name in _SPAN_COUNTERS
        }
        rate = grown["items_out"] / elapsed if elapsed > 0 else 0.0
        stages.append(replace(new, **grown, rate=rate))
    return replace(
        after,
        stages=tuple(stages),
        elapsed=elapsed,
        consumer_wait=after.consumer_wait - before.consumer_wait,
        delivered=after.delivered - before.delivered,
        failed=after.failed - before.failed,
    )


def _load(stage: StageStats, stats: PipelineStats) -> float:
    """How busy the stage was, waiting for the GIL included: 1.0 is all it may be."""
    tasks = min(stage.concurrency, stats.num_threads)
    on_threads = (stage.busy + stage.gil_wait) / (tasks * stats.elapsed)
    return max(on_threads, stage.awaited / (stage.concurrency * stats.elapsed))


def find_bottleneck(stats: PipelineStats) -> str:
    """Say in one sentence which stage limits the speed, and why."""
    if stats.elapsed <= 0:
        return "No bottleneck is known yet: the pipeline was not started."
    waited = min(1.0, stats.consumer_wait / stats.elapsed)
    if stats.delivered == 0 and waited < 0.1:
        return "No bottleneck is known yet: nothing was delivered."
    if waited < 0.1:
        return (
            "The consumer is the bottleneck: it waited for items only "
            f"{waited:.0%} of the time, and stages were blocked by it."
        )
    source, *stages = stats.stages[:-1]
    stage = max([source, *stages], key=lambda s: _load(s, stats))
    name, load = f"'{stage.name}'", min(1.0, _load(stage, stats))
    if stage.gil_wait > stage.busy:
        return (
            f"Stage {name} is the bottleneck, by the GIL: its tasks waited "
            f"{stage.gil_wait:.2f} s for it and worked {stage.busy:.2f} s."
        )
    if stage is source:
        return f"The source is the bottleneck: it was busy {load:.0%} of the time."
    if stage.awaited > stage.busy:
        tasks = stage.awaited / stats.elapsed
        reason = (
            f"what it awaits: {tasks:.1f} tasks were in flight at a time; its "
            f"concurrency is {stage.concurrency}"
        )
    else:
        reason = f"computation: {_reason(stage, stats)}"
    return f"Stage {name} is the bottleneck, by {reason}."


def _reason(stage: StageStats, stats: PipelineStats) -> str:
    """Are the threads all busy, or does the stage's concurrency keep them idle?"""
    total = sum(s.busy for s in stats.stages[1:])
    threads = min(1.0, total / (stats.num_threads * stats.elapsed))
    several = f"the {stats.num_threads} threads are"
    if stats.num_threads == 1:
        several = "the one thread is"
    if threads < 0.8 and stage.concurrency < stats.num_threads:
        return (
            f"its concurrency is {stage.concurrency}, and {several} busy only "
            f"{threads:.0%} of the time; a higher concurrency would use them"
        )
    share = stage.busy / total
    reason = f"{several} busy {threads:.0%} of the time, {share:.0%} of that here"
    blocked = stage.blocked / stats.elapsed
    if blocked > 0.2:
        reason += f"; {blocked:.0%} of the time the consumer blocked it"
    return reason
