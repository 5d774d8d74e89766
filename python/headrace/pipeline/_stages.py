"""What a builder collects: the source, stages and sink, with checked arguments."""

from __future__ import annotations

import copy
import functools
import inspect
import types
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from headrace._ext import Op
from headrace.pipeline._numbers import as_float, as_int
from headrace.pipeline._per_worker import PerWorker

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Hashable, Iterable
    from concurrent.futures import Executor

    from headrace.pipeline._aggregators import Aggregator
    from headrace.pipeline._policy import Retry

Key: TypeAlias = "int | str | None"
MaxFailures: TypeAlias = "int | Fraction"
Kind: TypeAlias = Literal[
    "native", "function", "generator", "coroutine", "async generator", "submit"
]


@dataclass(frozen=True, slots=True)
class Source:
    """Where items come from."""

    iterable: Iterable[Any] | AsyncIterable[Any]
    continuous: bool

    @property
    def is_async(self) -> bool:
        """Whether it is advanced on the event loop. What is both is not."""
        return not hasattr(self.iterable, "__iter__")

    def __str__(self) -> str:
        return "source"


@dataclass(frozen=True, slots=True)
class Merged:
    """Several sources, each with stages of its own, that become one."""

    branches: tuple[tuple[Source | Merged, tuple[Stage, ...]], ...]

    @property
    def sources(self) -> list[Source]:
        """The sources, of merges inside of it, too."""
        found: list[Source] = []
        for source, _ in self.branches:
            found += source.sources if isinstance(source, Merged) else [source]
        return found

    @property
    def continuous(self) -> bool:
        """Whether there are epochs, which all of its sources agree on."""
        return self.sources[0].continuous

    def __str__(self) -> str:
        branches = (" → ".join(map(str, (b[0], *b[1]))) for b in self.branches)
        return f"merge({' | '.join(branches)})"


@dataclass(frozen=True, slots=True)
class Pipe:
    """A stage that applies an operation to each item, or to one field of it."""

    op: Callable[[Any], Any] | Op
    kind: Kind
    name: str
    key: Key
    concurrency: int
    input_order: bool
    max_failures: MaxFailures | None
    raises: bool | None
    retry: Retry | None
    timeout_ns: int | None

    def __str__(self) -> str:
        times = f"[{self.concurrency}]" if self.concurrency > 1 else ""
        return self.name + times


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A stage that makes one item of n."""

    n: int
    drop_last: bool
    columns: bool

    def __str__(self) -> str:
        return f"aggregate({self.n}{', columns' if self.columns else ''})"


@dataclass(frozen=True, slots=True)
class Fold:
    """A stage that makes items of others by an aggregator's own rule."""

    aggregator: Aggregator[Any, Any]
    drop_last: bool

    def __str__(self) -> str:
        return f"aggregate({type(self.aggregator).__name__})"

    def copy(self) -> Aggregator[Any, Any]:
        """Return an aggregator for one pipeline, which shares no state with others."""
        try:
            return copy.deepcopy(self.aggregator)
        except Exception as exc:
            exc.add_note(
                f"headrace: each build() works on a copy of {self.aggregator!r}, "
                "made by copy.deepcopy; define __deepcopy__ if it can't be copied so"
            )
            raise


@dataclass(frozen=True, slots=True)
class Disaggregate:
    """A stage that makes an item of each element."""

    def __str__(self) -> str:
        return "disaggregate"


@dataclass(frozen=True, slots=True)
class Route:
    """Paths, of which each item takes one."""

    router: Callable[[Any], int]
    name: str
    paths: tuple[tuple[Stage, ...], ...]

    def __str__(self) -> str:
        paths = (" → ".join(map(str, path)) or "-" for path in self.paths)
        return f"{self.name}({' | '.join(paths)})"


@dataclass(frozen=True, slots=True)
class Sink:
    """Where items wait for the consumer."""

    buffer_size: int

    def __str__(self) -> str:
        return f"sink({self.buffer_size})"


Stage: TypeAlias = Pipe | Aggregate | Fold | Disaggregate | Route


# ---- arguments ----


def check_count(name: str, value: int) -> int:
    """Return a count that is at least 1, or raise ValueError."""
    count = as_int(value)
    if count is None or count < 1:
        raise ValueError(f"{name} must be an int of at least 1, got {value!r}")
    if count >= 2**31:
        raise ValueError(f"{name} must be less than 2**31, got {value!r}")
    return count


def check_source(source: object) -> None:
    """Raise ValueError if it can't be iterated, in either way."""
    if hasattr(source, "__iter__") or hasattr(source, "__aiter__"):
        return
    advice = ""
    if hasattr(source, "__getitem__"):
        advice = "; it has items: add_source(range(len(it))).pipe(it) looks them up"
    raise ValueError(f"source must be iterable, got {source!r}{advice}")


def check_max_failures(value: MaxFailures) -> MaxFailures:
    """Return a limit of failures, or raise."""
    if isinstance(value, Fraction):
        if not 0 < value <= 1:
            raise ValueError(f"max_failures must be in (0, 1], got {value!r}")
        if value.denominator >= 2**32:
            raise ValueError(f"max_failures is too fine a fraction: {value!r}")
        return value
    count = as_int(value)
    if count is None:
        raise TypeError(f"max_failures must be an int or a Fraction, got {value!r}")
    return min(count, 2**63 - 1)


def check_interval(seconds: float) -> float:
    """Return an interval in seconds; raise TypeError or ValueError if it is none."""
    number = as_float(seconds)
    if number is None:
        raise TypeError(f"report_stats_interval must be seconds, got {seconds!r}")
    if not isfinite(number):
        raise ValueError(f"report_stats_interval must be finite, got {seconds!r}")
    return number


def check_key(key: Key) -> Key:
    """Return a key that selects a field of a tuple or a dict, or raise TypeError."""
    if key is None:
        return None
    if isinstance(key, str):
        return check_text("key", key)
    number = as_int(key)
    if number is None:
        raise TypeError(f"key must be an int (tuples) or a str (dicts), got {key!r}")
    if not -64 <= number < 64:
        raise ValueError(
            f"key must be from -64 to 63 (a tuple has at most 64 fields), got {key!r}"
        )
    return number


def check_text(what: str, text: str) -> str:
    """Return a text that the engine can take, or raise."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str, got {text!r}")
    if "\0" in text:
        raise ValueError(f"{what} must not contain a NUL character, got {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} must not contain surrogates, got {text!r}") from None
    return text


# ---- operations ----


def _native_op(op: object) -> Op | None:
    """Bind the arguments of a native function; None if op is no native operation.

    A native function may be wrapped in partials that bind keywords. One that binds a
    positional argument is an ordinary Python callable.
    """
    if isinstance(op, Op):
        return op
    keywords: dict[str, Any] = {}
    while isinstance(op, functools.partial):
        if op.args:
            return None
        keywords = {**op.keywords, **keywords}
        op = op.func
    if not isinstance(op, types.FunctionType):
        return None
    bind = getattr(op, "__headrace_op__", None)
    return None if bind is None else bind(**keywords)


def _what_runs(op: object) -> object:
    """Return the function that a call of op ends in, as far as can be told."""
    while isinstance(op, functools.partial):
        op = op.func
    if inspect.isroutine(op) or isinstance(op, type):
        return op
    return type(op).__call__ if callable(op) else op


def op_name(op: object) -> str:
    """Return an operation's name: that of the function, or else of the class."""
    while isinstance(op, functools.partial):
        op = op.func
    name = getattr(op, "__name__", None)
    return name if isinstance(name, str) else type(op).__name__


def _python_op(op: object) -> tuple[Callable[[Any], Any], Kind]:
    """Return what to call for each item, and what comes of it.

    A function that is not known to be a coroutine function is a plain one; what it
    returns is awaited if it can be.
    """
    if isinstance(op, PerWorker):
        return op, "generator" if op.generator else "function"
    if not callable(op):
        lookup = getattr(op, "__getitem__", None)
        if lookup is None:
            raise TypeError(f"op must be callable or have __getitem__, got {op!r}")
        return lookup, "function"
    runs = _what_runs(op)
    if inspect.isasyncgenfunction(runs):
        return op, "async generator"
    if inspect.iscoroutinefunction(runs):
        return op, "coroutine"
    return op, "generator" if inspect.isgeneratorfunction(runs) else "function"


def resolve_op(
    op: object, executor: Executor | None, name: str
) -> tuple[Callable[[Any], Any] | Op, Kind]:
    """Return what runs for each item, and how."""
    if executor is not None:
        from headrace.pipeline._executor import adapt  # noqa: PLC0415 (asyncio)

        return adapt(*_python_op(op), executor, name)
    native = _native_op(op)
    return _python_op(op) if native is None else (native, "native")


class _ByKey:
    """A router that gives keys, as one that gives numbers."""

    def __init__(
        self, router: Callable[[Any], Hashable], keys: tuple[Hashable, ...]
    ) -> None:
        self._router = router
        self._numbers = {key: i for i, key in enumerate(keys)}

    def __call__(self, item: Any) -> int:
        key = self._router(item)
        number = self._numbers.get(key)
        if number is None:
            raise LookupError(
                f"the router chose path {key!r}; there are "
                f"{', '.join(map(repr, self._numbers))}"
            )
        return number


def resolve_router(
    router: object, keys: tuple[Hashable, ...] | None
) -> Callable[[Any], int]:
    """Return a function of an item that gives the number of a path."""
    call, kind = _python_op(router)
    if kind != "function" or isinstance(call, PerWorker):
        raise TypeError(f"the router must be a plain function, got {router!r}")
    return call if keys is None else _ByKey(call, keys)
