"""A report of where each thread was when the process crashes."""

from __future__ import annotations

import faulthandler
import sys
from typing import TYPE_CHECKING, Protocol

from headrace import _ext

if TYPE_CHECKING:

    class HasFileno(Protocol):
        def fileno(self) -> int: ...


_STDERR = 2


class _Report:
    """What was asked for, and the file, which must stay open."""

    wanted: bool | None = None
    file: HasFileno | None = None


def enable_crash_report(file: HasFileno | None = None) -> None:
    """Have each thread's stage and item written to a file when the process crashes.

    A crash is a SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT, of a codec, say, or of an
    extension that an operation uses. The report has one line for each thread that is at
    work, the one that crashed first, and one for each item that is awaited or in an
    executor:

        headrace: SIGSEGV in thread hr-work-1: stage 'decode', item 17 ('a/17.jpg')
        headrace: thread hr-work-0: stage 'decode', item 18 ('a/18.jpg')

    Then the process ends as it would have ended, after the report of `faulthandler`, if
    that is enabled. Where it is (``python -X faulthandler``), a pipeline that is
    started enables this report, too, on stderr; nothing has to be called then.

    Only what a process can say of itself can be reported: to survive a crash, run the
    operation in another one, ``pipe(op, executor=ProcessPoolExecutor(...))``. Items
    that were in an executor when it broke are named in its failure.

    Args:
        file: Something with ``fileno()``, which must stay open; None: `sys.stderr`.

    Raises:
        RuntimeError: There is no `sys.stderr`.

    """
    if file is None:
        file = sys.stderr
        if file is None:
            raise RuntimeError("there is no sys.stderr; give a file")
    _ext.crash_report_enable(file.fileno())
    _Report.file, _Report.wanted = file, True


def disable_crash_report() -> None:
    """Have no report written, nor by pipelines that are started from now on."""
    _ext.crash_report_disable()
    _Report.file, _Report.wanted = None, False


def follow_faulthandler() -> None:
    """Enable the report if faulthandler is enabled and nobody has said otherwise."""
    if _Report.wanted is None and faulthandler.is_enabled():
        _ext.crash_report_enable(_STDERR)
        _Report.wanted = True
