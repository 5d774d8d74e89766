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
from headrace.pipeline._stages import Aggregate, Disaggregate, Fold, Pipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.pipeline._stages import Stage

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


def _kinds(stages: Sequence[Stage]) -> list[_Kind]:
    """Return the kind of values that each stage gets."""
    kind: _Kind = _ANY
    kinds = []
    for stage in stages:
        kinds.append(kind)
        if isinstance(stage, Pipe):
            kind = _after_pipe(stage, kind)
        elif isinstance(stage, Aggregate):
            kind = _after_aggregate(stage, kind)
        elif isinstance(stage, Fold):
            kind = _ANY
        else:
            kind = kind.of if isinstance(kind, _Lists) else _ANY
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


def resolve_shapes(stages: Sequence[Stage]) -> tuple[Shape, list[Shape | None]]:
    """Return the shapes of the source's items and of the results of each stage.

    None stands for stages that run natively. A disaggregate() runs natively where
    aggregate() made the lists.

    Raises:
        TypeError: Two stages do not fit together.

    """
    need: _Need = "object"
    shapes: list[Shape | None] = [None] * len(stages)
    kinds = _kinds(stages)
    for i in reversed(range(len(stages))):
        stage = stages[i]
        if isinstance(stage, Aggregate):
            need = _before_aggregate(stage, need)
        elif isinstance(stage, Fold):
            shapes[i], need = _shape(need), "object"
        elif isinstance(stage, Disaggregate):
            if isinstance(kinds[i], _Lists):
                need = _ListOf(need)
            else:
                shapes[i], need = _shape(need), "object"
        elif isinstance(stage.op, Op):
            need = _before_native(stage, stage.op, need)
        elif stage.key is None:
            shapes[i], need = _shape(need), "object"
        else:
            field = (
                need.get(stage.key, "object") if isinstance(need, dict) else "object"
            )
            shapes[i], need = field, _with_field(need, stage.key, "object")
    return _shape(need), shapes
