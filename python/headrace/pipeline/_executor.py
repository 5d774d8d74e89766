"""Stages that run in an executor of their own.

The engine hands their tasks to the thread of the pipeline's event loop, like those of
coroutines, and that thread submits them (`Submitter` in _submit). What makes a call is
the executor; here is what it is given. Functions are submitted as they are, so that
nothing but them has to be pickled for a process pool. Generators are advanced step by
step where the threads share our memory. Where they do not, a generator can't be sent to
and fro, so it is run to its end in one go.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import sys
import threading
from collections import deque
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from headrace.pipeline._failures import is_fatal, mark_fatal
from headrace.pipeline._per_worker import PerWorker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from concurrent.futures import Future

    from headrace._ext import Bridge
    from headrace.pipeline._stages import Kind

_YIELD = -2  # of Bridge.take
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
        submit: Callable[..., Future[Any]] = executor.submit
        return functools.partial(submit, op), "submit"
    if isinstance(executor, ThreadPoolExecutor):
        return functools.partial(_stream_steps, executor, op), "async generator"
    return functools.partial(_stream_whole, executor, op), "async generator"


# ---- submitting; in the loop's thread ----


def _cancelled_by_executor() -> Exception:
    exc = concurrent.futures.CancelledError(
        "the executor cancelled the call before it began: was it shut down?"
    )
    mark_fatal(exc)
    return exc


def _check_future(future: object) -> None:
    if not hasattr(future, "add_done_callback"):
        exc = TypeError(
            "the executor's submit() must return a concurrent.futures.Future, it "
            f"returned {future!r}"
        )
        mark_fatal(exc)
        raise exc


class Submitter:
    """Submits the tasks of a pipeline's stages, and hands in what comes back.

    A future that is done leaves a note, in whichever thread that is, and rings the bell
    unless it was rung since the loop looked last: so a batch of them costs one wake-up.
    """

    def __init__(self, bridge: Bridge, loop: asyncio.AbstractEventLoop) -> None:
        self._bridge = bridge
        self._loop = loop
        self._landed: deque[tuple[Callable[[Future[Any]], None], Future[Any]]] = deque()
        self._futures: dict[int, Future[Any]] = {}
        self._awaiting: dict[int, asyncio.Task[None]] = {}
        self._due: set[int] = set()
        self._cancelled = False
        _here.submitter = self

    def _land(
        self, receive: Callable[[Future[Any]], None], future: Future[Any]
    ) -> None:
        self._landed.append((receive, future))
        self._bridge.ring()

    def follow(
        self, future: Future[Any], receive: Callable[[Future[Any]], None]
    ) -> None:
        """Call receive(future) in the loop's thread when the future is done."""
        future.add_done_callback(functools.partial(self._land, receive))

    def wake(self, index: int) -> None:
        """There are tasks of this stage, in the next turn of the loop."""
        self._loop.call_soon(self._submit_all, index)

    def _submit_all(self, index: int) -> None:
        take = self._bridge.take
        while (task := take(index)) >= 0:
            self._submit(index, task)
        self._bridge.woken(index)
        if task == _YIELD:
            self.wake(index)

    def _submit(self, index: int, task: int) -> None:
        try:
            future = self._bridge.call(task)
            _check_future(future)
        except BaseException as exc:
            # A pool that was shut down, or has broken, takes nothing any more. It may
            # say so here before the tasks say it that were in it.
            self._note_broken(exc)
            fatal = isinstance(exc, RuntimeError) or is_fatal(exc)
            self._bridge.fail(task, exc, fatal)
            self._due.add(index)
            return
        self._futures[task] = future
        self.follow(future, functools.partial(self._finish, index, task))

    def drain(self) -> None:
        """Hand in what came back, and submit what there is room for now."""
        landed = self._landed
        while landed:
            receive, future = landed.popleft()
            receive(future)
        due, self._due = self._due, set()
        for index in due:
            self._submit_all(index)

    def cancel(self) -> None:
        """Take back what has not begun; what has is waited for."""
        self._cancelled = True
        for future in list(self._futures.values()):
            future.cancel()
        for task in list(self._awaiting.values()):
            task.cancel()

    # ---- one task ----

    def _finish(self, index: int, task: int, future: Future[Any]) -> None:
        self._due.add(index)
        if future.cancelled():
            del self._futures[task]
            self._finish_cancelled(task)
            return
        exc = future.exception()
        if exc is not None:
            self._finish_failed(task, exc)
            return
        del self._futures[task]
        result = future.result()
        if hasattr(type(result), "__await__"):
            self._awaiting[task] = self._loop.create_task(self._await(task, result))
        else:
            self._bridge.done(task, result)

    def _finish_cancelled(self, task: int) -> None:
        if self._cancelled:
            self._bridge.release(task)
            return
        self._bridge.fail(task, _cancelled_by_executor(), True)

    def _note_broken(self, exc: BaseException) -> None:
        if not isinstance(exc, BrokenExecutor) or is_fatal(exc):  # one for all of them
            return
        mark_fatal(exc)
        items = sorted(map(self._bridge.item, self._futures))
        exc.add_note(
            "headrace: items in the executor when it broke: "
            + ", ".join(map(str, items))
        )

    def _finish_failed(self, task: int, exc: BaseException) -> None:
        self._note_broken(exc)
        del self._futures[task]
        self._bridge.fail(task, exc, is_fatal(exc))

    async def _await(self, task: int, result: Any) -> None:
        """Wait for what a function has returned to be awaited."""
        try:
            result = await result
        except BaseException as exc:
            if self._cancelled and isinstance(exc, asyncio.CancelledError):
                self._bridge.release(task)
            else:
                self._bridge.fail(task, exc)
        else:
            self._bridge.done(task, result)
        finally:
            del self._awaiting[task]


class _Here(threading.local):
    submitter: Submitter  # of the loop that runs in this thread


_here = _Here()


async def _run(executor: Executor, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in the executor. When cancelled it ends no sooner than the call.

    So nothing of the user's runs any more once the task has ended.
    """
    try:
        future = executor.submit(function, *args)
    except RuntimeError as exc:
        mark_fatal(exc)
        raise
    _check_future(future)
    done = asyncio.get_running_loop().create_future()
    _here.submitter.follow(future, functools.partial(_set_done, done))
    cancelled = False
    while not future.done():
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            cancelled = True
            future.cancel()
    if cancelled:
        raise asyncio.CancelledError
    if future.cancelled():
        raise _cancelled_by_executor()
    failure = future.exception()
    if isinstance(failure, BrokenExecutor):
        mark_fatal(failure)
    return future.result()


def _set_done(done: asyncio.Future[None], _: Future[Any]) -> None:
    done.set_result(None)


# ---- generators ----


def _own(op: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return op.get() if isinstance(op, PerWorker) else op


def _open(op: Callable[[Any], Iterable[Any]], item: Any) -> Iterator[Any]:
    return iter(_own(op)(item))


def _step(values: Iterator[Any]) -> Any:
    return next(values, _END)


async def _stream_steps(
    executor: Executor, op: Callable[[Any], Iterable[Any]], item: Any
) -> AsyncIterator[Any]:
    """Advance a generator in a thread pool, a call for each value."""
    values = await _run(executor, _open, op, item)
    ended = False
    try:
        while (value := await _run(executor, _step, values)) is not _END:
            yield value
        ended = True
    finally:
        close = None if ended else getattr(values, "close", None)
        if close is not None:
            try:
                await _run(executor, close)
            except RuntimeError:  # the pool was shut down
                close()


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


async def _stream_whole(
    executor: Executor, op: Callable[[Any], Iterable[Any]], item: Any
) -> AsyncIterator[Any]:
    """Run a generator to its end, elsewhere, and give its values then."""
    values, exc = await _run(executor, _run_whole, op, item)
    for value in values:
        yield value
    if exc is not None:
        raise exc
