"""Files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import _ext
from headrace.io._ops import native

if TYPE_CHECKING:
    from os import PathLike


@native(_ext.read_file_op)
def read_file(path: str | PathLike[str] | PathLike[bytes]) -> _ext.CPUBuffer:
    """Read a whole file into pooled memory. The GIL is released.

    Args:
        path: Path of a regular file.

    Returns:
        A new, writable `CPUBuffer` of shape (bytes,), dtype uint8. ``bytes(buffer)``
        copies it into a `bytes` object.

    Raises:
        OSError: The file could not be read (`FileNotFoundError` and so on).
        headrace.errors.FormatError: It is no regular file, or changed size meanwhile.
        headrace.errors.LimitError: It is larger than 256 MiB.
        TypeError: `path` is no path.
        ValueError: `path` contains a NUL character.
    """
    return _ext.read_file(path)
