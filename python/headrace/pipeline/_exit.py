"""The end of the interpreter: pipelines stop while Python can still run.

Python ends in this order: `threading._register_atexit` callbacks, the join of
non-daemon threads, `atexit`, teardown. A thread that consumes a pipeline must get its
end before it is joined, so `atexit` is too late; but the first is a private function,
so both are registered, and the second call finds nothing left to do.

In the teardown each module that something still refers to loses its globals: they
become None. Objects of the user may go later than these, and use a pipeline in their
``__del__``. What stops it and takes items needs no globals; for the rest see
`until_exit`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from headrace import _ext

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace._ext import Engine

_P = ParamSpec("_P")
_T = TypeVar("_T")

_GRACE = 3.0
"""Seconds for running operations to end; what is stuck longer is left behind."""

_running: weakref.WeakSet[Engine] = weakref.WeakSet()


def stop_at_exit(engine: Engine) -> None:
    """Stop the engine at the end of the interpreter, if it is still there."""
    _running.add(engine)


def until_exit(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Make a method say why it fails when globals that it needs are gone."""
    is_finalizing = sys.is_finalizing

    @functools.wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return method(*args, **kwargs)
        except (AttributeError, TypeError) as exc:  # of None
            if not is_finalizing():
                raise
            raise RuntimeError("the interpreter is at its end") from exc

    return call


def _take_all() -> list[Engine]:
    while True:
        # RuntimeError: another thread started a pipeline while they were listed. No
        # lock, which a forked child might inherit held.
        with contextlib.suppress(RuntimeError):
            engines = list(_running)
            _running.difference_update(engines)
            return engines


def _stop_all() -> None:
    deadline = time.monotonic() + _GRACE
    engines = _take_all()
    # RuntimeError: a pipeline of the parent process, in a forked child.
    for engine in engines:
        engine.request_stop()
    for engine in engines:
        with contextlib.suppress(TimeoutError, RuntimeError):
            engine.stop(max(0.0, deadline - time.monotonic()))
    _ext.end_runtime()


def _register() -> None:
    atexit.register(_stop_all)
    early = getattr(threading, "_register_atexit", None)
    if early is not None:
        with contextlib.suppress(RuntimeError):  # the interpreter is ending already
            early(_stop_all)


_register()
