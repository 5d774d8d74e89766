"""The asyncio loop of a pipeline: a thread, and runners that await tasks.

A pipeline has one loop, in a thread of its own, started with the pipeline when a stage
or the source is asynchronous, and otherwise when a function first returns something to
await. The C engine hands out tasks through a `Bridge` (see async_bridge.c); each stage
has up to `concurrency` *runners*, long-lived asyncio tasks that take one after another.
A task per item would cost ten times as much.

The thread is one of Python's, so that whatever looks for the current thread, task,
context or loop finds it. It is a daemon: at the end of the interpreter pipelines are
stopped by a hook of ours (`_exit`), with a bound; a coroutine that blocks its thread
must not hold up the exit for longer. It holds no lock of the engine when it enters
Python, so that its being ended there does no harm.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.errors import DeadlineError
from headrace.pipeline._deadlines import Call, Deadlines, LeftError
from headrace.pipeline._failures import is_fatal
from headrace.pipeline._submit import Stream, Submitter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from headrace._ext import Bridge

_logger = logging.getLogger("headrace.pipeline")

# What Bridge.take and Bridge.give say.
_YIELD = -2
_GIVEN, _GIVEN_YIELD, _GIVEN_WAIT, _NO_ROOM, _UNWANTED = range(5)
# What the run is in; see Bridge.begin.
_CANCELLED, _ENDED = 1, 2


def start_loop(bridge: Bridge) -> threading.Thread | None:
    """Start the thread of a pipeline's loop, unless there is one or the run is over."""
    thread = threading.Thread(
        target=_main, args=(bridge,), name="headrace-asyncio", daemon=True
    )
    # A KeyboardInterrupt may come after any instruction: what was expected is given up.
    try:
        if not bridge.expect():
            return None
        thread.start()
    except BaseException:
        bridge.abandon()
        raise
    return thread


def _main(bridge: Bridge) -> None:
    if not bridge.enter():
        return
    try:
        with asyncio.Runner() as runner:
            loop = _Loop(bridge, runner.get_loop())
            loop.run()
            if loop.left_behind():
                # The runner waits for what is left on its loop; nobody waits for us.
                bridge.part()
    except BaseException as exc:
        bridge.fatal(exc)
    finally:
        bridge.leave()


def _forget_cancellation() -> None:
    """Go on after a CancelledError that was meant for what the runner awaited."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


class _Loop:
    """The runners of a pipeline, and how they are woken."""

    def __init__(self, bridge: Bridge, loop: asyncio.AbstractEventLoop) -> None:
        self._bridge = bridge
        self._loop = loop
        self._stages = {stage[0]: stage for stage in bridge.stages()}
        self._idle: dict[int, deque[asyncio.Future[None]]] = {
            index: deque() for index in self._stages
        }
        self._runners: dict[int, list[asyncio.Task[None]]] = {
            index: [] for index in self._stages
        }
        self._streams: dict[int, asyncio.Task[None]] = {}
        self._stalled: dict[int, asyncio.Future[None]] = {}
        self._deadlines = {
            stage[0]: Deadlines(loop, stage[5], partial(self._leave, stage[0]))
            for stage in self._stages.values()
            if stage[5] > 0
        }
        self._behind: list[asyncio.Task[None]] = []
        self._submitter = Submitter(bridge, loop, self._deadlines, self._late)
        self._cancelled = False
        self._ended = False
        self._end: asyncio.Future[None] = loop.create_future()

    # ---- the loop ----

    def run(self) -> None:
        """Serve the pipeline to its end."""
        serving = self._loop.create_task(self._serve(), name="headrace")
        while not serving.done():
            try:
                self._loop.run_until_complete(serving)
            except BaseException as exc:
                # SystemExit or KeyboardInterrupt of a task that an operation created.
                self._bridge.fatal(exc)

    async def _serve(self) -> None:
        bridge = self._bridge
        self._loop.add_reader(bridge.fileno(), self._on_bell)
        bridge.begin(self._loop.call_soon, self._wake, self._resume, self._on_state)
        bridge.pump()
        while not self._ended:
            try:
                await self._end
            except asyncio.CancelledError:  # an operation cancelled all tasks
                _forget_cancellation()
                self._end = self._loop.create_future()
        self._loop.remove_reader(bridge.fileno())
        runners = [task for tasks in self._runners.values() for task in tasks]
        for task in runners:
            task.cancel()
        await asyncio.gather(*runners, return_exceptions=True)

    def _on_bell(self) -> None:
        self._bridge.hush()
        self._submitter.drain()
        self._bridge.rung()

    # ---- what the bridge calls ----

    def _wake(self, index: int) -> bool:
        """Wake a runner of the stage, or make one. False: all of them are at work."""
        idle = self._idle[index]
        while idle:
            future = idle.pop()
            if not future.done():
                future.set_result(None)
                return True
        _, name, kind, concurrency, on_loop, timeout = self._stages[index]
        if kind == "submit":
            self._submitter.wake(index)
            return True
        runners = self._runners[index]
        if len(runners) == concurrency:
            return False
        if kind == "map" and timeout > 0:
            run = self._run_timed_map(index, on_loop)
        elif kind == "map":
            run = self._run_map(index, on_loop)
        else:
            run = self._run_streams(index)
        task = self._loop.create_task(run, name=f"headrace: {name}")
        task.add_done_callback(partial(self._runner_ended, index))
        runners.append(task)
        return True

    def _resume(self, number: int) -> None:
        """There is room for a stream, or it is not wanted any more."""
        future = self._stalled.get(number)
        if future is not None:
            if not future.done():
                future.set_result(None)
        elif not self._bridge.wanted(number):
            runner = self._streams[number]
            # One that is handing in just now sees it by itself; a cancellation would
            # hit what it does next.
            if runner is not asyncio.current_task(self._loop):
                runner.cancel()

    def _on_state(self, state: int) -> None:
        if state == _ENDED:
            self._ended = True
            if not self._end.done():
                self._end.set_result(None)
        elif state == _CANCELLED:
            self._cancelled = True
            self._submitter.cancel()
            for runners in self._runners.values():
                for task in runners:
                    task.cancel()

    def _runner_ended(self, index: int, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            exc = task.exception()
            if exc is not None:
                self._bridge.fatal(exc)
        elif not self._ended:
            # An operation cancelled it before its first step: another one for it.
            self._runners[index].remove(task)
            self._bridge.woken(index)
            self._wake(index)

    # ---- runners ----

    async def _pause(self, index: int, why: int) -> bool:
        """Wait for a task, or let others have a turn. False: the run has ended."""
        try:
            if why == _YIELD:
                await asyncio.sleep(0)
            elif not self._ended:
                future = self._loop.create_future()
                self._idle[index].append(future)
                try:
                    await future
                finally:
                    self._bridge.woken(index)
        except asyncio.CancelledError:
            _forget_cancellation()
        return not self._ended

    async def _run_map(self, index: int, on_loop: bool) -> None:
        """Await what one call gives, item after item."""
        bridge = self._bridge
        take, call, done = bridge.take, bridge.call, bridge.done
        bridge.woken(index)
        while True:
            task = take(index)
            if task < 0:
                if await self._pause(index, task):
                    continue
                return
            try:
                result = call(task)
                if on_loop or inspect.isawaitable(result):
                    result = await result
            except BaseException as exc:
                self._failed(task, exc)
            else:
                done(task, result)
            result = None  # it may be the last reference to something large

    async def _run_timed_map(self, index: int, on_loop: bool) -> None:
        """Do the same, each call with a deadline."""
        bridge, deadlines = self._bridge, self._deadlines[index]
        bridge.woken(index)
        while True:
            task = bridge.take(index)
            if task < 0:
                if await self._pause(index, task):
                    continue
                return
            result, failure = None, None
            call = deadlines.begin(task)
            try:
                result = bridge.call(task)
                if on_loop or inspect.isawaitable(result):
                    result = await result
            except BaseException as exc:
                failure = exc
            deadlines.end(call)
            if call.left:
                bridge.left(index, True)
                return
            if call.late:
                failure = self._late(index, call, failure)
            if failure is None:
                bridge.done(task, result)
            else:
                self._failed(task, failure)
            del result, failure  # they may be the last references to something large

    def _late(
        self, index: int, call: Call, failure: BaseException | None
    ) -> BaseException:
        """Return what a call failed with that was cancelled for its deadline."""
        _forget_cancellation()
        cancelled = isinstance(failure, asyncio.CancelledError)
        if failure is not None and (
            isinstance(failure, SystemExit | KeyboardInterrupt)
            or (cancelled and self._cancelled)
        ):
            return failure
        if failure is not None and failure.__traceback__ is not None:
            failure.__traceback__ = failure.__traceback__.tb_next  # the runner's frame
        deadlines = self._deadlines[index]
        error = DeadlineError(
            f"stage {self._stages[index][1]!r} was still working on "
            f"{self._bridge.late(call.task)} after {deadlines.took(call):.3g} s; its "
            f"timeout is {deadlines.timeout:.3g} s"
        )
        error.__cause__ = failure
        return error

    def _leave(self, index: int, call: Call) -> None:
        """Give a call up that goes on in spite of its cancellation."""
        runner, task = call.runner, call.task
        kind = self._stages[index][2]
        if kind == "submit":
            self._submitter.leave(task)
        else:
            self._runners[index].remove(runner)
        self._behind.append(runner)
        runner.add_done_callback(self._behind.remove)
        self._bridge.left(index, False)
        failure = self._late(index, call, None)
        if kind == "expand":
            ender = self._end_left_stream(task, failure)
            self._streams[task] = self._loop.create_task(ender)
        elif self._cancelled:
            self._bridge.release(task)
        else:
            self._bridge.fail(task, failure, False, False)

    def left_behind(self) -> bool:
        """Return whether something is awaited still that was given up."""
        for runner in self._behind:
            _logger.warning("%s was given up and has not ended", runner.get_name())
        return bool(self._behind)

    def _failed(self, task: int, exc: BaseException) -> None:
        if isinstance(exc, asyncio.CancelledError):
            _forget_cancellation()
            if self._cancelled:
                self._bridge.release(task)
                return
        self._bridge.fail(task, exc)

    # ---- streams: async generators, and the source ----

    async def _run_streams(self, index: int) -> None:
        bridge = self._bridge
        bridge.woken(index)
        while True:
            task = bridge.take(index)
            if task >= 0:
                current = asyncio.current_task()
                assert current is not None
                self._streams[task] = current
                try:
                    await self._stream(index, task)
                except LeftError:
                    bridge.left(index, True)
                    return
                del self._streams[task]
            elif not await self._pause(index, task):
                return

    async def _stream(self, index: int, task: int) -> None:
        """Advance one stream to its end."""
        deadlines = self._deadlines.get(index)
        values: AsyncIterator[Any] | None = None
        failure: BaseException | None = None
        try:
            values = self._bridge.open(task)
            if deadlines is not None and isinstance(values, Stream):
                values.give_time(index, task)
            elif deadlines is not None:
                values = self._timed(index, task, values, deadlines)
            given = await self._advance(task, values)
            if given is not None and self._bridge.repeats(task):
                values = await self._repeat(task, values)
            elif given is not None:
                values = None  # it came to its end
        except LeftError:
            raise
        except BaseException as exc:
            failure = exc
            if isinstance(exc, asyncio.CancelledError):
                _forget_cancellation()
        failure = await self._close(values, failure)
        try:
            await self._end_stream(task, failure)
        finally:
            del failure  # its traceback leads to this frame

    async def _timed(
        self, index: int, task: int, values: AsyncIterator[Any], deadlines: Deadlines
    ) -> AsyncIterator[Any]:
        """Give the values of a stream, each in time."""
        left = False
        try:
            while True:
                call = deadlines.begin(task)
                value, failure = None, None
                try:
                    value = await anext(values)
                except BaseException as exc:
                    failure = exc
                deadlines.end(call)
                left = call.left
                if left:
                    raise LeftError
                if isinstance(failure, StopAsyncIteration):
                    return
                if call.late:
                    failure = self._late(index, call, failure)
                if failure is not None:
                    raise failure
                yield value
        finally:
            aclose = getattr(values, "aclose", None)
            if aclose is not None and not left:
                await aclose()

    async def _end_left_stream(self, task: int, failure: BaseException) -> None:
        await self._end_stream(task, failure)
        del self._streams[task]

    async def _repeat(
        self, task: int, values: AsyncIterator[Any]
    ) -> AsyncIterator[Any] | None:
        """Go on with a continuous source, until no more is wanted of an iterator."""
        while True:
            while (said := self._bridge.epoch(task)) == _NO_ROOM:
                await self._room(task)
            if said == _GIVEN_WAIT:
                await self._room(task)
            if said == _UNWANTED or not self._bridge.wanted(task):
                return None
            last, values = values, self._bridge.open(task)
            given = await self._advance(task, values)
            if given is None:
                return values
            if values is last and not given:
                raise ValueError(
                    "continuous=True needs a source that can be iterated again, but "
                    "it gave the same iterator a second time, which is exhausted"
                )

    async def _advance(self, task: int, values: AsyncIterator[Any]) -> int | None:
        """Give a stream's values to its end; how many, None: no more are wanted."""
        give = self._bridge.give
        given = 0
        while True:
            try:
                value = await anext(values)
            except StopAsyncIteration:
                return given
            said = give(task, value)
            while said == _NO_ROOM:
                await self._room(task)
                said = give(task, value)
            value = None
            given += 1
            if said == _GIVEN_YIELD:
                await asyncio.sleep(0)
            elif said == _GIVEN_WAIT:
                await self._room(task)
            if said == _UNWANTED or not self._bridge.wanted(task):
                return None

    async def _room(self, task: int) -> None:
        future = self._loop.create_future()
        self._stalled[task] = future
        try:
            await future
        except asyncio.CancelledError:
            _forget_cancellation()
        finally:
            del self._stalled[task]

    async def _close(
        self, values: AsyncIterator[Any] | None, failure: BaseException | None
    ) -> BaseException | None:
        """Close an async generator that has not ended; return what failed first."""
        aclose = getattr(values, "aclose", None)
        if aclose is None:
            return failure
        try:
            await aclose()
        except BaseException as exc:
            if isinstance(exc, asyncio.CancelledError):
                _forget_cancellation()
            return exc if failure is None else failure
        return failure

    async def _end_stream(self, task: int, failure: BaseException | None) -> None:
        bridge = self._bridge
        if isinstance(failure, (SystemExit, KeyboardInterrupt)):
            bridge.fatal(failure)
        while not bridge.may_end(task):
            await self._room(task)
        if failure is None:
            bridge.release(task)
        elif bridge.wanted(task) and not (
            self._cancelled and isinstance(failure, asyncio.CancelledError)
        ):
            bridge.fail(task, failure, is_fatal(failure))
        else:
            if not isinstance(failure, asyncio.CancelledError):
                _logger.warning("an async generator failed to close", exc_info=failure)
            bridge.release(task)
