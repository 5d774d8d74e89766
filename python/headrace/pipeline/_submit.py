"""Tasks in executors: submitted, awaited, given up; in the thread of the loop.

A future that is done leaves a note, in whichever thread that is, and rings the bell of
the loop unless it was rung since the loop looked last: a batch of them costs one
wake-up.

A call that is past its stage's timeout can't be ended, only *given up*: its item fails,
what it returns is dropped. Its thread or process stays with it, so the executor has one
less. Time counts from when the call was first seen to run: what waits in the executor
for a thread is not late. Unless no thread is left: if calls that were given up hold
them all, as far as can be seen, the run ends instead of waiting for ever.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
from collections import Counter, deque
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.errors import DeadlineError
from headrace.pipeline._failures import is_fatal, mark_fatal

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor, Future

    from headrace._ext import Bridge
    from headrace.pipeline._deadlines import Call, Deadlines

_YIELD = -2  # of Bridge.take

_LOOKS = 8
"""In the time of the shortest timeout: so much later a call may be given up."""


class _Here(threading.local):
    submitter: Submitter  # of the loop that runs in this thread


_here = _Here()


class Submission:
    """What a stage's operation becomes: its calls are submitted, and give futures."""

    def __init__(self, executor: Executor, op: Callable[[Any], Any]) -> None:
        self._executor = executor
        self._op = op

    def __call__(self, item: Any) -> Future[Any]:
        _here.submitter.executor = self._executor
        return self._executor.submit(self._op, item)


@dataclass(slots=True, eq=False)
class Handed:
    """A call in an executor that has a timeout.

    Attributes:
        future: Its future.
        executor: Where it is.
        index: Of its stage.
        task: Its number.
        handed: When it was submitted.
        receive: What to do with the error it is given up with.
        began: When it was first seen to run.

    """

    future: Future[Any]
    executor: Executor
    index: int
    task: int
    handed: float
    receive: Callable[[DeadlineError], None]
    began: float | None = None


def _check_future(future: object) -> None:
    if not hasattr(future, "add_done_callback"):
        exc = TypeError(
            "the executor's submit() must return a concurrent.futures.Future, it "
            f"returned {future!r}"
        )
        mark_fatal(exc)
        raise exc


def _cancelled_by_executor() -> Exception:
    exc = concurrent.futures.CancelledError(
        "the executor cancelled the call before it began: was it shut down?"
    )
    mark_fatal(exc)
    return exc


class Submitter:
    """Submits the tasks of a pipeline's stages, and hands in what comes back.

    Args:
        bridge: To the engine.
        loop: The one of this thread.
        deadlines: Of what stages await, by their index.
        late: Makes an error of what was awaited for too long.

    """

    def __init__(
        self,
        bridge: Bridge,
        loop: asyncio.AbstractEventLoop,
        deadlines: dict[int, Deadlines],
        late: Callable[[int, Call, BaseException | None], BaseException],
    ) -> None:
        self.executor: Executor | None = None  # that of the last submission
        self._bridge = bridge
        self._loop = loop
        self._deadlines = deadlines
        self._late = late
        self._names = {stage[0]: stage[1] for stage in bridge.stages()}
        self._landed: deque[tuple[Callable[[Future[Any]], None], Future[Any]]] = deque()
        self._futures: dict[int, Future[Any]] = {}
        self._handed: dict[Future[Any], Handed] = {}
        self._given_up: dict[Future[Any], Handed] = {}
        self._lost: Counter[int] = Counter()  # calls that hold a thread, by executor
        self._look_at: asyncio.TimerHandle | None = None
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
        if index in self._deadlines:
            assert self.executor is not None
            receive = functools.partial(self._give_up_task, index, task)
            self.watch(future, self.executor, index, task, receive)
        self.follow(future, functools.partial(self._finish, index, task))

    def drain(self) -> None:
        """Hand in what came back, and submit what there is room for now."""
        landed = self._landed
        while landed:
            receive, future = landed.popleft()
            if future in self._given_up:
                self._come_late(self._given_up.pop(future))
                continue
            self._handed.pop(future, None)
            receive(future)
        self._submit_due()

    def _submit_due(self) -> None:
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
            run = self._await(index, task, result)
            self._awaiting[task] = self._loop.create_task(run)
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

    async def _await(self, index: int, task: int, result: Any) -> None:
        """Wait for what a function has returned to be awaited."""
        deadlines = self._deadlines.get(index)
        call = None if deadlines is None else deadlines.begin(task)
        failure: BaseException | None = None
        try:
            result = await result
        except BaseException as exc:
            failure = exc
        if call is not None and deadlines is not None:
            deadlines.end(call)
            if call.left:
                self._bridge.left(index, True)
                return
            if call.late:
                failure = self._late(index, call, failure)
        del self._awaiting[task]
        if failure is None:
            self._bridge.done(task, result)
        elif self._cancelled and isinstance(failure, asyncio.CancelledError):
            self._bridge.release(task)
        else:
            self._bridge.fail(task, failure)
        del failure  # its traceback leads to this frame

    def leave(self, task: int) -> None:
        """Forget what is awaited: it was given up, and its task handed in."""
        del self._awaiting[task]

    # ---- calls that take too long ----

    def watch(
        self,
        future: Future[Any],
        executor: Executor,
        index: int,
        task: int,
        receive: Callable[[DeadlineError], None],
    ) -> None:
        """Call receive(error) if the call is not done by its stage's timeout."""
        now = self._loop.time()
        self._handed[future] = Handed(future, executor, index, task, now, receive)
        if self._look_at is None:
            self._look_later()

    def _look_later(self) -> None:
        shortest = min(
            self._deadlines[call.index].timeout for call in self._handed.values()
        )
        self._look_at = self._loop.call_later(shortest / _LOOKS, self._look)

    def _look(self) -> None:
        self._look_at = None
        now = self._loop.time()
        waiting: list[Handed] = []
        at_work: set[int] = set()
        for call in list(self._handed.values()):
            timeout = self._deadlines[call.index].timeout
            if call.future.done():
                continue  # it has a note on its way
            if call.began is None and call.future.running():
                call.began = now
            if call.began is None:
                if now - call.handed >= timeout:
                    waiting.append(call)
            elif now - call.began >= timeout:
                self._give_up(call, now - call.began)
            else:
                at_work.add(id(call.executor))
        for call in waiting:
            executor = id(call.executor)
            if self._lost[executor] and executor not in at_work:
                self._end_without_threads(call, now - call.handed)
        self._submit_due()
        if self._handed and self._look_at is None:
            self._look_later()

    def _give_up(self, call: Handed, took: float) -> None:
        del self._handed[call.future]
        self._given_up[call.future] = call
        self._lost[id(call.executor)] += 1
        self._bridge.left(call.index, False)
        call.receive(
            DeadlineError(
                f"stage {self._names[call.index]!r} was still working on "
                f"{self._bridge.late(call.task)} after {took:.3g} s; its timeout is "
                f"{self._deadlines[call.index].timeout:.3g} s; a worker of "
                "the executor is lost to it"
            )
        )

    def _end_without_threads(self, call: Handed, waited: float) -> None:
        if not call.future.cancel():
            return  # it has just begun
        del self._handed[call.future]
        self._given_up[call.future] = call
        error = DeadlineError(
            f"stage {self._names[call.index]!r}: {self._bridge.late(call.task)} has "
            f"not begun after {waited:.3g} s: calls that were given up, "
            f"{self._lost[id(call.executor)]} by now, hold the executor's workers"
        )
        mark_fatal(error)
        call.receive(error)

    def _give_up_task(self, index: int, task: int, error: DeadlineError) -> None:
        del self._futures[task]
        self._due.add(index)
        if self._cancelled:
            self._bridge.release(task)
        else:
            self._bridge.fail(task, error, is_fatal(error), False)

    def _come_late(self, call: Handed) -> None:
        if call.future.cancelled():
            return  # it never began
        self._lost[id(call.executor)] -= 1
        self._bridge.left(call.index, True)


# ---- streams ----


class Stream:
    """An async iterator over what calls in an executor give."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._error: DeadlineError | None = None
        self._stage: tuple[int, int] | None = None

    @property
    def given_up(self) -> bool:
        """A call took too long, and goes on."""
        return self._error is not None

    def __aiter__(self) -> Stream:
        return self

    def give_time(self, index: int, task: int) -> None:
        """Let each call have the time of the stage, of which this is a task."""
        self._stage = (index, task)

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function in the executor. When cancelled it ends after the call.

        So nothing of the user's runs any more once the task has ended, unless the call
        was given up.
        """
        try:
            future = self._executor.submit(function, *args)
        except RuntimeError as exc:
            mark_fatal(exc)
            raise
        _check_future(future)
        submitter = _here.submitter
        done = asyncio.get_running_loop().create_future()
        if self._stage is not None:
            receive = functools.partial(self._set_given_up, done)
            submitter.watch(future, self._executor, *self._stage, receive)
        submitter.follow(future, functools.partial(_set_done, done))
        cancelled = False
        while not (future.done() or self.given_up):
            try:
                await asyncio.shield(done)
            except asyncio.CancelledError:
                cancelled = True
                future.cancel()
        if cancelled:
            raise asyncio.CancelledError
        if self._error is not None:
            raise self._error
        if future.cancelled():
            raise _cancelled_by_executor()
        failure = future.exception()
        if isinstance(failure, BrokenExecutor):
            mark_fatal(failure)
        return future.result()

    def _set_given_up(self, done: asyncio.Future[None], error: DeadlineError) -> None:
        self._error = error
        done.set_result(None)


def _set_done(done: asyncio.Future[None], _: Future[Any]) -> None:
    done.set_result(None)
