"""Pipelines: a source, stages that work on its items in threads, and a sink.

    pipeline = (
        PipelineBuilder()
        .add_source(samples)                 # (path, label) pairs
        .aggregate(32, columns=True)         # ([path, ...], [label, ...])
        .pipe(partial(load_image_batch, width=224, height=224), key=0)
        .add_sink()
        .build(num_threads=8)
    )
    for images, labels in pipeline:
        ...

Functions of `headrace.io`, alone or in `functools.partial`, run in the C engine without
the GIL. Any other callable runs too, in the engine's threads.
"""

from headrace.pipeline._builder import PipelineBuilder
from headrace.pipeline._crash import disable_crash_report, enable_crash_report
from headrace.pipeline._failures import Failure, Failures, PipelineFailure
from headrace.pipeline._per_worker import per_worker
from headrace.pipeline._pipeline import Pipeline
from headrace.pipeline._policy import Retry
from headrace.pipeline._stats import PipelineStats, StageStats

__all__ = [
    "Failure",
    "Failures",
    "Pipeline",
    "PipelineBuilder",
    "PipelineFailure",
    "PipelineStats",
    "Retry",
    "StageStats",
    "disable_crash_report",
    "enable_crash_report",
    "per_worker",
]
