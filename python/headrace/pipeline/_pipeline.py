"""A pipeline that was built: start, take items, stop, look inside."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.pipeline._crash import follow_faulthandler
from headrace.pipeline._exit import stop_at_exit
from headrace.pipeline._failures import Failures
from headrace.pipeline._stages import check_count
from headrace.pipeline._stats import PipelineStats, find_bottleneck, read_stats

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from headrace._ext import Engine
    from headrace.pipeline._stages import Merged, Source

_logger = logging.getLogger("headrace.pipeline")

_GRACE = 10.0
"""Seconds that `Pipeline.stop` waits by default for running operations to end."""


class Pipeline:
    """A pipeline that was built by `PipelineBuilder.build`.

    ``for item in pipeline`` starts it when needed and gives what is left of the run,
    or, if the source is continuous, of the epoch. A `break` loses nothing: the next
    loop goes on with the next item. A loop after the last item gives nothing. When the
    last reference goes, the pipeline stops.

    All methods may be called from any thread; several threads that take items share
    them. A pipeline does not survive `os.fork`: the child's copy raises on use.
    """

    def __init__(
        self,
        engine: Engine,
        stages: str,
        source: Source | Merged,
        length: Callable[[], int],
    ) -> None:
        self._engine = engine
        self._continuous = source.continuous
        inner = getattr(source, "iterable", None)  # a merge has none
        self._inner = inner if isinstance(inner, Pipeline) else None
        self._length = length
        self._stages = stages
        self._lock = threading.Lock()
        self._stopped = False
        self._failures = Failures(engine)

    def __repr__(self) -> str:
        state = "created"
        if self._engine.started:
            state = "stopped" if self._stopped else "running"
        return f"<Pipeline {self._stages}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a pipeline can't be pickled or copied, for its threads can't; pickle its "
            "PipelineBuilder, and build there"
        )

    # ---- life ----

    def start(self) -> None:
        """Start the threads. Iteration and `get_item` do it by themselves.

        Raises:
            RuntimeError: The pipeline was started before.

        """
        with self._lock:
            if self._engine.started:
                raise RuntimeError("the pipeline was started before; build a new one")
            self._start_locked()

    def _start_locked(self) -> None:
        # The engine knows whether it was started: a flag kept here would be wrong after
        # a KeyboardInterrupt on either side of the call.
        follow_faulthandler()
        stop_at_exit(self._engine)
        self._engine.start()

    def _ensure_started(self) -> None:
        if not self._engine.started:
            with self._lock:
                if not self._engine.started:
                    self._start_locked()

    def stop(self, *, timeout: float | None = None) -> None:
        """End the run and wait for the threads. Items that are ready can be taken.

        Before `start` it does nothing, and a second time neither. Inside an operation
        it only requests the end. A pipeline that is the source of this one is stopped,
        too.

        Args:
            timeout: Seconds to wait for operations that are running; None: 10.

        Raises:
            TimeoutError: An operation did not end in time; the message names stage and
                item. `stop` may be called again. What is stuck is left behind: letting
                the pipeline go does not wait for it any more.

        """
        if not self._engine.started:
            return
        self._stopped = True
        try:
            self._engine.stop(_GRACE if timeout is None else timeout)
        finally:
            if self._inner is not None:
                self._inner.stop(timeout=timeout)

    @contextmanager
    def auto_stop(self, *, timeout: float | None = None) -> Iterator[Pipeline]:
        """Start the pipeline, and stop it at the end of the ``with`` block.

        An exception in the block is never replaced by one of `stop`, which is logged.

        Args:
            timeout: As of `stop`.

        """
        self.start()
        try:
            yield self
        except BaseException:
            try:
                self.stop(timeout=timeout)
            except Exception:
                _logger.warning("the pipeline did not stop", exc_info=True)
            raise
        self.stop(timeout=timeout)

    # ---- items ----

    def get_item(self, *, timeout: float | None = None) -> Any:
        """Take the next item, waiting for it.

        Args:
            timeout: Seconds to wait; 0 takes what is ready; None waits until the end.

        Raises:
            EOFError: There are no more items, or the pipeline was stopped. Also at the
                end of each epoch, once; the next call goes on with the next epoch.
            TimeoutError: No item came in time. None is lost.
            PipelineFailure: A stage failed too often. Told once, after the last item.
            Exception: What the source raised. Told once, after the last item.

        """
        self._ensure_started()
        return self._engine.next(timeout)

    def get_iterator(self, *, timeout: float | None = None) -> Iterator[Any]:
        """Return an iterator over what is left of the run, or of the current epoch.

        It raises what `get_item` raises, but for the end.

        Args:
            timeout: Seconds to wait for each item; None waits until the end.

        """
        self._ensure_started()
        return self._engine.iterate(timeout)

    def __iter__(self) -> Iterator[Any]:
        return self.get_iterator()

    def __len__(self) -> int:
        """Return how many items the whole run gives, or each epoch.

        An upper bound: it does not count items out that operations drop (by returning
        ``None``) or that fail.

        Raises:
            TypeError: It is not known, because the source has no length, or a stage
                gives any number of items.

        """
        return self._length()

    def __bool__(self) -> bool:
        return True

    # ---- what can be seen ----

    @property
    def failures(self) -> Failures:
        """The items that failed so far; grows while the pipeline runs."""
        return self._failures

    def stats(self) -> PipelineStats:
        """Return what each stage has done so far. A snapshot."""
        return read_stats(self._engine)

    def trace(
        self, path: str | os.PathLike[str], *, max_events: int = 65_536
    ) -> AbstractContextManager[None]:
        """Record what each thread does, for ui.perfetto.dev or chrome://tracing.

        Recording begins at once: before the start of the run or in its midst. It ends,
        and the file is written, at the end of the ``with`` block, if the call stands in
        one, or else when the pipeline is stopped or dropped::

            with pipeline.trace("run.json"):
                for batch in itertools.islice(pipeline, 100):
                    ...

        A track per thread shows tasks (by stage, with number and label of the item),
        slots of batches, pulls of the source, waits for the GIL, for work and for
        items, and `next` of the consumer. Times are microseconds of `time.monotonic`.
        The memory (128 bytes an event) is kept until the pipeline is dropped.

        Args:
            path: The file; an existing one is replaced.
            max_events: Events kept of each thread, up to 16,777,216: the first ones.
                What does not fit is counted in the file, with a warning in the log.

        Raises:
            RuntimeError: A trace is going on.
            OSError: The file can't be written.
            ValueError: max_events is out of range.

        """
        self._engine.trace_start(path, check_count("max_events", max_events))
        return self._end_trace()

    @contextmanager
    def _end_trace(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            try:
                self._engine.trace_stop()
            except Exception:
                _logger.warning("the trace was not written", exc_info=True)
            raise
        self._engine.trace_stop()

    def bottleneck(self) -> str:
        """Say in one sentence which stage limits the speed, and why."""
        return find_bottleneck(self.stats())
