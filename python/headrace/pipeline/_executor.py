"""Stages that run in an executor of their own.

The engine hands their tasks to the thread of the pipeline's event loop, like those of
coroutines, and that thread submits them (_submit). What makes a call is the executor;
here is what it is given. Functions are submitted as they are, so that
nothing but them has to be pickled for a process pool. Generators are advanced step by
step where the threads share our memory. Where they do not, a generator can't be sent to
and fro, so it is run to its end in one go.
"""

from __future__ import annotations

import concurrent.futures
import functools
import sys
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from headrace.pipeline._failures import is_fatal
from headrace.pipeline._per_worker import PerWorker
from headrace.pipeline._submit import Stream, Submission

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headrace.pipeline._stages import Kind

_END = object()


# ---- what is submitted ----


def _is_process_pool(executor: Executor) -> bool:
    module = sys.modules.get("concurrent.futures.process")  # there if one was made
    return module is not None and isinstance(executor, module.ProcessPoolExecutor)


def _is_interpreter_pool(executor: Executor) -> bool:
    kind = getattr(concurrent.futures, "InterpreterPoolExecutor", None)
    return kind is not None and isinstance(executor, kind)


def _check_pickles(op: object, name: str) -> None:
    try:
        sys.modules["multiprocessing.reduction"].ForkingPickler.dumps(op)
    except Exception as exc:
        raise TypeError(
            f"stage {name!r}: its operation can't be pickled, as a process pool needs "
            f"it to be: {exc}"
        ) from exc


def adapt(
    op: Callable[[Any], Any], kind: Kind, executor: Executor, name: str
) -> tuple[Callable[[Any], Any], Kind]:
    """Return what the loop calls for each item of a stage with an executor, and how.

    Raises:
        TypeError: It is no executor, or the operation can't get there.
        ValueError: The operation is one for the event loop, or can't be split into
            what such an executor runs.

    """
    if not (isinstance(executor, Executor) or hasattr(executor, "submit")):
        raise TypeError(
            f"executor must be a concurrent.futures.Executor, got {executor!r}"
        )
    if kind in ("coroutine", "async generator"):
        raise ValueError(
            f"stage {name!r}: coroutines run on the pipeline's event loop and take no "
            "executor"
        )
    elsewhere = _is_interpreter_pool(executor)
    if elsewhere and (kind == "generator" or isinstance(op, PerWorker)):
        raise ValueError(
            f"stage {name!r}: an interpreter pool runs no generator function and no "
            "per_worker(), for headrace can't be imported there"
        )
    if _is_process_pool(executor):
        _check_pickles(op, name)
    if kind != "generator":
        return Submission(executor, op), "submit"
    stream = _Steps if isinstance(executor, ThreadPoolExecutor) else _Whole
    return functools.partial(stream, executor, op), "async generator"


# ---- generators ----


def _own(op: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return op.get() if isinstance(op, PerWorker) else op


def _open(op: Callable[[Any], Iterable[Any]], item: Any) -> Iterator[Any]:
    return iter(_own(op)(item))


def _step(values: Iterator[Any]) -> Any:
    return next(values, _END)


class _Steps(Stream):
    """A generator that is advanced in a thread pool, a call for each value."""

    def __init__(
        self, executor: Executor, op: Callable[[Any], Iterable[Any]], item: Any
    ) -> None:
        super().__init__(executor)
        self._open = functools.partial(_open, op, item)
        self._values: Iterator[Any] | None = None
        self._ended = False

    async def __anext__(self) -> Any:
        if self._values is None:
            self._values = await self.run(self._open)
        value = await self.run(_step, self._values)
        if value is _END:
            self._ended = True
            raise StopAsyncIteration
        return value

    async def aclose(self) -> None:
        close = getattr(self._values, "close", None)
        # One that was given up is being advanced still, and can't be closed.
        if close is None or self._ended or self.given_up:
            return
        self._ended = True
        try:
            await self.run(close)
        except RuntimeError as exc:
            if self.given_up or not is_fatal(exc):
                raise
            close()  # the pool was shut down


def _run_whole(
    op: Callable[[Any], Iterable[Any]], item: Any
) -> tuple[list[Any], BaseException | None]:
    values: list[Any] = []
    try:
        for value in _own(op)(item):
            # extend() need not keep what came before an exception
            values.append(value)  # noqa: PERF402
    except Exception as exc:
        return values, exc
    return values, None


class _Whole(Stream):
    """A generator that is run to its end, elsewhere, and gives its values then."""

    def __init__(
        self, executor: Executor, op: Callable[[Any], Iterable[Any]], item: Any
    ) -> None:
        super().__init__(executor)
        self._call = functools.partial(self.run, _run_whole, op, item)
        self._values: Iterator[Any] | None = None
        self._failure: BaseException | None = None

    async def __anext__(self) -> Any:
        if self._values is None:
            values, self._failure = await self._call()
            self._values = iter(values)
        value = next(self._values, _END)
        if value is not _END:
            return value
        if self._failure is None:
            raise StopAsyncIteration
        failure, self._failure = self._failure, None
        raise failure
