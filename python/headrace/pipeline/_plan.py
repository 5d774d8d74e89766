"""From a builder's stages to those of a plan of the C engine."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from headrace import _ext
from headrace.pipeline._per_worker import PerWorker
from headrace.pipeline._shapes import MergedShapes, RouteShapes, resolve_shapes
from headrace.pipeline._stages import (
    Aggregate,
    Disaggregate,
    Fold,
    Pipe,
    Route,
    Source,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.pipeline._shapes import Shape, StageShape
    from headrace.pipeline._stages import MaxFailures, Merged, Stage


@dataclass(frozen=True, slots=True)
class Policy:
    """What stages do about failures that say nothing about them."""

    max_failures: MaxFailures
    raises: bool

    def limit(self, own: MaxFailures | None) -> int | tuple[int, int] | None:
        """Return a limit of failures as the engine takes it."""
        value = self.max_failures if own is None else own
        if isinstance(value, Fraction):
            return value.numerator, value.denominator
        return None if value < 0 else value


def add_chain(
    plan: _ext.Plan, source: Source | Merged, stages: Sequence[Stage], policy: Policy
) -> None:
    """Add a source, or several that are merged, and stages up to the sink."""
    shape, shapes = resolve_shapes(source, stages)
    _add_source(plan, source, shape, policy)
    _add_stages(plan, stages, shapes, policy)


def _add_source(
    plan: _ext.Plan,
    source: Source | Merged,
    shape: Shape | MergedShapes,
    policy: Policy,
) -> None:
    if isinstance(source, Source):
        assert not isinstance(shape, MergedShapes)
        plan.source(
            source.iterable, str(source), shape, source.continuous, source.is_async
        )
        return
    assert isinstance(shape, MergedShapes)
    for i, (branch, of) in enumerate(zip(source.branches, shape.branches, strict=True)):
        if i > 0:
            plan.branch()
        _add_source(plan, branch[0], of.source, policy)
        _add_stages(plan, branch[1], of.stages, policy)
    if len(source.branches) > 1:
        plan.merge(len(source.branches))


def _add_stages(
    plan: _ext.Plan,
    stages: Sequence[Stage],
    shapes: Sequence[StageShape],
    policy: Policy,
) -> None:
    for stage, shape in zip(stages, shapes, strict=True):
        _add_stage(plan, stage, shape, policy)


def _add_stage(
    plan: _ext.Plan, stage: Stage, shape: StageShape, policy: Policy
) -> None:
    raises = policy.raises
    if isinstance(stage, Route):
        _add_route(plan, stage, shape, policy)
        return
    if isinstance(stage, Aggregate):
        plan.aggregate(stage.n, stage.drop_last, stage.columns)
    elif isinstance(stage, Fold):
        _add_fold(plan, stage, shape, policy)
    elif isinstance(stage, Disaggregate):
        _add_disaggregate(plan, stage, shape, policy)
    else:
        _add_pipe(plan, stage, shape, policy)
        raises = policy.raises if stage.raises is None else stage.raises
        # A limit of its own says that failures are tolerated.
        raises = raises and stage.max_failures is None
    if raises:
        plan.on_error(True)


def _add_route(
    plan: _ext.Plan, stage: Route, shape: StageShape, policy: Policy
) -> None:
    assert isinstance(shape, RouteShapes)
    plan.route(stage.router, stage.name, shape.routed)
    plan.on_error(True)
    for path, shapes in zip(stage.paths, shape.paths, strict=True):
        plan.path()
        _add_stages(plan, path, shapes, policy)
    plan.join()


def _add_fold(plan: _ext.Plan, stage: Fold, shape: StageShape, policy: Policy) -> None:
    assert shape is not None
    assert not isinstance(shape, RouteShapes)
    rule = stage.copy()
    limit = policy.limit(None)
    plan.fold(rule.accumulate, rule.flush, str(stage), stage.drop_last, limit, shape)


def _add_disaggregate(
    plan: _ext.Plan, stage: Disaggregate, shape: StageShape, policy: Policy
) -> None:
    if shape is None:
        plan.disaggregate()
        return
    assert not isinstance(shape, RouteShapes)
    limit = policy.limit(None)
    plan.pipe_python(None, "iterate", str(stage), 1, True, None, limit, shape)


def _add_pipe(plan: _ext.Plan, stage: Pipe, shape: StageShape, policy: Policy) -> None:
    limit = policy.limit(stage.max_failures)
    options = (stage.name, stage.concurrency, stage.input_order, stage.key, limit)
    retry = stage.retry
    if isinstance(stage.op, _ext.Op):
        plan.pipe_native(stage.op, *options)
    else:
        assert shape is not None
        assert not isinstance(shape, RouteShapes)
        assert stage.kind != "native"
        own = isinstance(stage.op, PerWorker)
        call = stage.op.get if isinstance(stage.op, PerWorker) else stage.op
        plan.pipe_python(call, stage.kind, *options, shape, own)
    if stage.timeout_ns is not None:
        plan.timeout(stage.timeout_ns)
    if retry is not None:
        native = stage.kind == "native"
        plan.retry(
            retry.times,
            int(retry.backoff * 1e9),
            int(retry.backoff_max * 1e9),
            retry.statuses() if native else 0,
            None if native else retry.on,
        )
