"""Deadlines of coroutines: one timer of the loop for all calls of a stage."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_GRACE_MIN, _GRACE_MAX = 0.1, 1.0
"""Seconds for a coroutine to end once it was cancelled: its timeout, within these."""


class LeftError(Exception):
    """What was awaited has come back after it was given up."""


class Call:
    """What one runner awaits.

    Attributes:
        task: Its number.
        runner: Who awaits it; the only thing on its stack that can be cancelled.
        began: When.
        due: Until when it may take.
        late: It was cancelled since it took longer.
        left: It was given up since it did not end for that.

    """

    __slots__ = ("began", "due", "late", "left", "runner", "task")

    def __init__(self, task: int, began: float, due: float) -> None:
        runner = asyncio.current_task()
        assert runner is not None
        self.task = task
        self.runner = runner
        self.began = began
        self.due = due
        self.late = False
        self.left = False


class Deadlines:
    """The calls of a stage that are under way."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeout: float,
        leave: Callable[[Call], None],
    ) -> None:
        self.timeout = timeout
        self._loop = loop
        self._grace = min(max(timeout, _GRACE_MIN), _GRACE_MAX)
        self._leave = leave
        self._calls: dict[Call, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, task: int) -> Call:
        """Note that the current runner begins a call."""
        now = self._loop.time()
        call = Call(task, now, now + self.timeout)
        self._calls[call] = None
        if self._timer is None:
            self._timer = self._loop.call_at(call.due, self._look)
        return call

    def end(self, call: Call) -> None:
        """Note that it has ended, one way or the other."""
        self._calls.pop(call, None)

    def took(self, call: Call) -> float:
        """Return the seconds since it began."""
        return self._loop.time() - call.began

    def _look(self) -> None:
        now = self._loop.time()
        for call in [call for call in self._calls if call.due <= now]:
            if not call.late:
                call.late = True
                call.due = now + self._grace
                call.runner.cancel()
            else:
                call.left = True
                self.end(call)
                self._leave(call)
        # What begins later is due later: nothing but these has to be looked at.
        self._timer = None
        if self._calls:
            due = min(call.due for call in self._calls)
            self._timer = self._loop.call_at(due, self._look)
