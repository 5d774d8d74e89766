"""From a builder's stages to those of a plan of the C engine."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from headrace import _ext
from headrace.pipeline._per_worker import PerWorker
from headrace.pipeline._shapes import RouteShapes
from headrace.pipeline._stages import Aggregate, Disaggregate, Fold, Pipe, Route

if TYPE_CHECKING:
    from headrace.pipeline._shapes import StageShape
    from headrace.pipeline._stages import MaxFailures, Stage


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


def add_stage(plan: _ext.Plan, stage: Stage, shape: StageShape, policy: Policy) -> None:
    """Add a stage, or a route with those of its paths, behind what the plan has."""
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
        for inner, inner_shape in zip(path, shapes, strict=True):
            add_stage(plan, inner, inner_shape, policy)
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
    if retry is not None:
        native = stage.kind == "native"
        plan.retry(
            retry.times,
            int(retry.backoff * 1e9),
            int(retry.backoff_max * 1e9),
            retry.statuses() if native else 0,
            None if native else retry.on,
        )
