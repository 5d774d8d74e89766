"""Operations that each thread has a copy of: `per_worker`."""

from __future__ import annotations

import inspect
import sys
import threading
import uuid
from typing import TYPE_CHECKING, Any

from headrace.pipeline._failures import mark_fatal

if TYPE_CHECKING:
    from collections.abc import Callable

_of_process: dict[str, PerWorker] = {}
"""In a process of a pool: what has come here by pickle, so that it is made once."""


class _Made:
    """What a factory made for one thread; closed when the thread lets go of it."""

    def __init__(self, factory: Callable[[], Any], *, generator: bool) -> None:
        self._close: Callable[[], Any] | None = None
        made = factory()
        kind = type(made)
        if hasattr(kind, "__enter__") and hasattr(kind, "__exit__"):
            op = made.__enter__()
            self._close = lambda: made.__exit__(None, None, None)
        else:
            op = made
            close = getattr(made, "close", None)
            self._close = close if callable(close) else None
        self.op = _as_op(op, generator=generator)

    def close(self) -> None:
        close, self._close = self._close, None
        if close is not None:
            close()

    __del__ = close


def _as_op(made: Any, *, generator: bool) -> Callable[[Any], Any]:
    if not callable(made):
        lookup = getattr(made, "__getitem__", None)
        if lookup is None:
            raise TypeError(
                f"the factory must make a callable or an object with __getitem__, it "
                f"made {made!r}"
            )
        made = lookup
    yields = inspect.isgeneratorfunction(made) or inspect.isgeneratorfunction(
        type(made).__call__
    )
    if yields and not generator:
        raise TypeError(
            "the factory made a generator function; say so: "
            "per_worker(factory, generator=True)"
        )
    return made  # type: ignore[no-any-return]


class PerWorker:
    """An operation that is made anew for each thread; see `per_worker`."""

    def __init__(self, factory: Callable[[], Any], *, generator: bool = False) -> None:
        self.factory = factory
        self.generator = generator
        self._token = uuid.uuid4().hex
        self._local = threading.local()

    def __repr__(self) -> str:
        return f"per_worker({self.factory!r})"

    def get(self) -> Callable[[Any], Any]:
        """Return the operation of the calling thread; call the factory if need be."""
        made: _Made | None = getattr(self._local, "made", None)
        if made is None:
            try:
                made = _Made(self.factory, generator=self.generator)
            except BaseException as exc:
                exc.add_note(
                    f"headrace: raised by {self.factory!r}, the factory of a "
                    "per_worker() operation, in thread "
                    f"{threading.current_thread().name!r}"
                )
                mark_fatal(exc)
                raise
            self._local.made = made
        return made.op

    def __call__(self, item: Any) -> Any:
        """Apply the operation of the calling thread."""
        return self.get()(item)

    def close(self) -> None:
        """Close what was made for the calling thread."""
        made: _Made | None = self._local.__dict__.pop("made", None)
        if made is not None:
            made.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, (self._token, self.factory, self.generator)


def _arrive(token: str, factory: Callable[[], Any], generator: bool) -> PerWorker:
    """Return the one of this process that has been pickled as this."""
    there = _of_process.get(token)
    if there is None:
        there = _of_process[token] = PerWorker(factory, generator=generator)
        there._token = token
        _close_with_process(there)
    return there


def _close_with_process(op: PerWorker) -> None:
    # Processes of multiprocessing end without atexit; this is what they do run.
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, op.close, exitpriority=10)


def per_worker(factory: Callable[[], Any], /, *, generator: bool = False) -> PerWorker:
    """Make an operation of which each thread has its own: ``pipe(per_worker(load))``.

    For what is not safe to share between threads, or slow when shared: models, database
    handles, decoders, random generators. ``factory()`` is called by each thread that
    runs the stage, when it is about to do so for the first time, and what it returns is
    the operation of that thread alone. Without an executor these are the pipeline's own
    threads, up to ``num_threads``, whatever the stage's ``concurrency``; an
    ``executor`` with few threads or processes makes fewer.

    When the thread ends, in that thread, the object's ``close()`` is called, if it has
    one. A context manager is entered instead, what ``__enter__`` returns is the
    operation, and it is left at the end. The pipeline's threads end with its run (by
    `Pipeline.stop` at the latest), those of an executor when that is shut down.

    When the factory raises, the run ends, and the exception, with a note, is raised to
    the consumer: it is neither retried nor skipped.

    Args:
        factory: Called without arguments. For a process pool it must be picklable; what
            it returns need not be.
        generator: The factory makes generator functions, or others whose results are to
            be iterated: each value is an item.

    Raises:
        TypeError: The factory is not callable.

    """
    if not callable(factory):
        raise TypeError(f"factory must be callable, got {factory!r}")
    return PerWorker(factory, generator=bool(generator))
