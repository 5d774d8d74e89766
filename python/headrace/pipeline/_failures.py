"""What failed: the ledger of a pipeline, and the error that ends its run."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from headrace.pipeline._exit import until_exit

if TYPE_CHECKING:
    from headrace._ext import Engine

_CAUSES_MAX = 10
_FATAL = "_headrace_fatal"


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that a stage could not process.

    Attributes:
        stage: The stage's name.
        index: The item's place in the source, from 0; -1 if it is not known.
        item: What the item is, e.g. its path; empty if it has no short name.
        exception: What was raised: for Python operations the object itself.

    """

    stage: str
    index: int
    item: str
    exception: BaseException


class Failures(Sequence[Failure]):
    """The failed items of a pipeline in the order of failing; grows while it runs.

    The first 10,000 are kept. `total` counts all.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: list[Failure] = []
        self._lock = threading.Lock()

    @until_exit
    def _update(self) -> list[Failure]:
        with self._lock:
            new = self._engine.failures(len(self._known))
            self._known.extend(Failure(*entry) for entry in new)
            return self._known

    @property
    def total(self) -> int:
        """The number of failed items, those not kept included."""
        return self._engine.summary()["failed"]

    def __len__(self) -> int:
        return len(self._update())

    @overload
    def __getitem__(self, index: int) -> Failure: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Failure]: ...
    def __getitem__(self, index: int | slice) -> Failure | Sequence[Failure]:
        return self._update()[index]

    def __repr__(self) -> str:
        return repr(self._update())


def mark_fatal(exc: BaseException) -> None:
    """Mark an exception that no further item can escape from: it ends the run.

    It does so across processes as well, as far as it takes attributes.
    """
    with suppress(Exception):
        setattr(exc, _FATAL, True)


def is_fatal(exc: BaseException) -> bool:
    """Return whether it was marked."""
    return getattr(exc, _FATAL, False) is True


class PipelineFailure(ExceptionGroup[Exception]):
    """A stage failed more often than its ``max_failures`` allows.

    The group holds the first failures of the stage, at most 10.
    """

    def derive(self, excs: Sequence[Exception]) -> PipelineFailure:  # type: ignore[override]
        """Return a group of the same class, as `split` and ``except*`` need it."""
        return PipelineFailure(self.message, excs)


def note_stage(exception: BaseException, stage: str, index: int, item: str) -> None:
    """Note on an exception which stage and which item it comes from."""
    which = f", item {index}" if index >= 0 else ""
    name = f" ({item!r})" if item else ""
    # A class may define add_note() as it likes; the exception matters more.
    with suppress(Exception):
        exception.add_note(f"headrace: raised in stage {stage!r}{which}{name}")


@until_exit
def too_many_failures(
    message: str, failing: str, failures: list[tuple[str, int, str, BaseException]]
) -> PipelineFailure:
    """Make the error of a stage that failed too often, with its first causes."""
    causes: list[Exception] = []
    for stage, index, item, exception in failures:
        if stage != failing or len(causes) == _CAUSES_MAX:
            continue
        cause = exception
        if not isinstance(cause, Exception):  # GeneratorExit, say
            cause = RuntimeError(repr(exception))
        note_stage(cause, stage, index, item)
        causes.append(cause)
    return PipelineFailure(message, causes or [RuntimeError(message)])
