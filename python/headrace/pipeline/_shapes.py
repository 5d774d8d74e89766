"""What the values between stages have to be.

Native stages take native values, and Python objects become native where they enter: at
the source, and at the output of each Python stage. What they have to become is decided
by the stages that follow, up to the next Python stage. So the needs are worked out from
the sink backwards, and handed to the source and to each Python stage as its *shape*:

- a word: ``"object"`` (left as it is), ``"source"``, ``"list"`` (of sources),
  ``"array"`` or ``"arrays"`` (a list of them);
- a tuple of ``(key, word)``: tuples and dicts become records with these fields; the
  others stay objects.

On the way forward stages that do not fit together are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from headrace._ext import Op
from headrace.pipeline._stages import Aggregate, Fold, Merged, Pipe, Route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.pipeline._stages import Source, Stage

Shape: TypeAlias = "str | tuple[tuple[int | str, str], ...]"


@dataclass(frozen=True, slots=True)
class _ListOf:
    """A list that a native stage takes apart."""

    element: _Need


_Fields: TypeAlias = "dict[int | str, str]"
_Need: TypeAlias = "str | _Fields | _ListOf"


# What the items of a list have to be.
_ITEM = {"list": "source", "arrays": "array"}


# ---- forward: what is known of the values ----

_ANY, _VALUE, _RECORD = "any", "value", "record"


@dataclass(frozen=True, slots=True)
class _Lists:
    """Lists made by aggregate(), of values of this kind."""

    of: _Kind


_Kind: TypeAlias = "str | _Lists"


def _describe(kind: _Kind) -> str:
    return "lists" if isinstance(kind, _Lists) else "native values"


def _after_pipe(stage: Pipe, kind: _Kind) -> _Kind:
    if stage.key is not None:
        if kind == _VALUE or isinstance(kind, _Lists):
            raise TypeError(
                f"stage {stage.name!r} has key={stage.key!r}, which needs tuples or "
                f"dicts, but gets {_describe(kind)}"
            )
        return _RECORD
    if not isinstance(stage.op, Op):
        return _ANY
    wants = stage.op.wants
    if wants == "object":
        return kind
    if kind == _RECORD:
        raise TypeError(
            f"stage {stage.name!r} is a native operation and gets records (tuples or "
            "dicts); pass key= to apply it to one field"
        )
    if isinstance(kind, _Lists) and wants not in _ITEM:
        raise TypeError(
            f"stage {stage.name!r} takes one item at a time, but gets lists from "
            "aggregate()"
        )
    return _VALUE


def _after_aggregate(stage: Aggregate, kind: _Kind) -> _Kind:
    if not stage.columns:
        return _Lists(kind)
    if kind == _VALUE or isinstance(kind, _Lists):
        raise TypeError(
            f"aggregate(columns=True) needs tuples or dicts, but gets {_describe(kind)}"
        )
    return _RECORD


def _after(stage: Stage, kind: _Kind) -> _Kind:
    if isinstance(stage, Pipe):
        return _after_pipe(stage, kind)
    if isinstance(stage, Aggregate):
        return _after_aggregate(stage, kind)
    if isinstance(stage, Route):
        ends = [_kinds(path, _ANY)[-1] for path in stage.paths]
        return ends[0] if all(end == ends[0] for end in ends) else _ANY
    if isinstance(stage, Fold):
        return _ANY
    return kind.of if isinstance(kind, _Lists) else _ANY


def _kinds(stages: Sequence[Stage], kind: _Kind) -> list[_Kind]:
    """Return the kind of values that each stage gets, and that of the last one's."""
    kinds = [kind]
    for stage in stages:
        kinds.append(_after(stage, kinds[-1]))
    return kinds


# ---- backward: what values have to be ----


def _with_field(need: _Need, key: int | str, want: str) -> _Need:
    fields = need if isinstance(need, dict) else {}
    return {**fields, key: want}


def _element(need: _Need) -> _Need:
    if isinstance(need, _ListOf):
        return need.element
    return _ITEM.get(need, "object") if isinstance(need, str) else "object"


def _before_aggregate(stage: Aggregate, need: _Need) -> _Need:
    if not stage.columns:
        return _element(need)
    fields = need if isinstance(need, dict) else {}
    return {k: _ITEM.get(want, "object") for k, want in fields.items()}


def _before_native(stage: Pipe, op: Op, need: _Need) -> _Need:
    if stage.key is not None:
        if op.wants == "object":
            return need if isinstance(need, dict) else {}
        return _with_field(need, stage.key, op.wants)
    return need if op.wants == "object" else op.wants


def _shape(need: _Need) -> Shape:
    if isinstance(need, dict):
        return tuple(need.items())
    assert isinstance(need, str), "only aggregate() makes lists for native stages"
    return need


StageShape: TypeAlias = "Shape | RouteShapes | None"


@dataclass(frozen=True, slots=True)
class RouteShapes:
    """The shapes of a route: what its paths get, and those of their stages."""

    routed: tuple[Shape, ...]
    paths: tuple[list[StageShape], ...]


def _before_pipe(stage: Pipe, need: _Need) -> tuple[Shape | None, _Need]:
    if isinstance(stage.op, Op):
        return None, _before_native(stage, stage.op, need)
    if stage.key is None:
        return _shape(need), "object"
    field = need.get(stage.key, "object") if isinstance(need, dict) else "object"
    return field, _with_field(need, stage.key, "object")


def _of_route(stage: Route, need: _Need) -> RouteShapes:
    needs, shapes = zip(
        *(_resolve(path, _ANY, need) for path in stage.paths), strict=True
    )
    return RouteShapes(tuple(map(_shape, needs)), shapes)


def _before(stage: Stage, kind: _Kind, need: _Need) -> tuple[StageShape, _Need]:
    """Return the stage's shape, and what is needed before it."""
    if isinstance(stage, Aggregate):
        return None, _before_aggregate(stage, need)
    if isinstance(stage, Fold):
        return _shape(need), "object"
    if isinstance(stage, Route):
        return _of_route(stage, need), "object"
    if isinstance(stage, Pipe):
        return _before_pipe(stage, need)
    if isinstance(kind, _Lists):
        return None, _ListOf(need)
    return _shape(need), "object"


def _resolve(
    stages: Sequence[Stage], kind: _Kind, need: _Need
) -> tuple[_Need, list[StageShape]]:
    kinds = _kinds(stages, kind)
    shapes: list[StageShape] = [None] * len(stages)
    for i in reversed(range(len(stages))):
        shapes[i], need = _before(stages[i], kinds[i], need)
    return need, shapes


@dataclass(frozen=True, slots=True)
class ChainShapes:
    """The shapes of one branch of a merge: of its source, and of its stages."""

    source: Shape | MergedShapes
    stages: list[StageShape]


@dataclass(frozen=True, slots=True)
class MergedShapes:
    """Those of its branches."""

    branches: tuple[ChainShapes, ...]


def _kind_of(source: Source | Merged) -> _Kind:
    if not isinstance(source, Merged):
        return _ANY
    ends = [_kinds(stages, _kind_of(of))[-1] for of, stages in source.branches]
    return ends[0] if all(end == ends[0] for end in ends) else _ANY


def _of_source(source: Source | Merged, need: _Need) -> Shape | MergedShapes:
    if not isinstance(source, Merged):
        return _shape(need)
    return MergedShapes(
        tuple(_of_chain(of, stages, need) for of, stages in source.branches)
    )


def _of_chain(
    source: Source | Merged, stages: Sequence[Stage], need: _Need
) -> ChainShapes:
    before, shapes = _resolve(stages, _kind_of(source), need)
    return ChainShapes(_of_source(source, before), shapes)


def resolve_shapes(
    source: Source | Merged, stages: Sequence[Stage]
) -> tuple[Shape | MergedShapes, list[StageShape]]:
    """Return the shapes of the source's items and of the results of each stage.

    None stands for stages that run natively. A disaggregate() runs natively where
    aggregate() made the lists.

    Raises:
        TypeError: Two stages do not fit together.

    """
    chain = _of_chain(source, stages, "object")
    return chain.source, chain.stages
