"""From buffers to arrays."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace import _ext
from headrace.io._ops import native

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.io._ops import ArrayLike


@native(_ext.convert_frames_op)
def convert_frames(frames: Sequence[ArrayLike]) -> _ext.CPUBuffer:
    """Copy equal pictures into one array, with a new first dimension.

    The GIL is released while copying; in a pipeline it is not taken.

    Args:
        frames: A list or tuple of N arrays of one shape and dtype, e.g. N pictures of
            shape (H, W, C): `CPUBuffer`, NumPy arrays, or any objects with the buffer
            protocol or a ``numpy()`` method.

    Returns:
        A new, writable `CPUBuffer` of shape (N, H, W, C) and the same dtype.

    Raises:
        ValueError: `frames` is empty, or a frame differs from the first in shape or
            dtype; the message names the frame.
        TypeError: `frames` is no list or tuple, or a frame is no array.
    """
    return _ext.convert_frames(frames)


def to_numpy(buffer: ArrayLike) -> npt.NDArray[Any]:
    """Show a buffer as a NumPy array that shares its memory and keeps it alive.

    Args:
        buffer: A `CPUBuffer`, or any object with the buffer protocol, an
            ``__array_interface__`` or a ``numpy()`` method.

    Returns:
        An array of the buffer's shape and dtype; read-only if the buffer is.

    Raises:
        TypeError: `buffer` is none of these.
        ImportError: NumPy is not installed.
    """
    import numpy as np  # noqa: PLC0415 (optional)

    if isinstance(buffer, _ext.CPUBuffer) or hasattr(buffer, "__array_interface__"):
        return np.asarray(buffer)
    if hasattr(buffer, "numpy"):
        return np.asarray(buffer.numpy())
    return np.asarray(memoryview(buffer))


def to_torch(buffer: Any) -> Any:
    """Show a buffer as a `torch.Tensor` that shares its memory and keeps it alive.

    PyTorch has no read-only tensors: do not write to the tensor of a read-only buffer.

    Args:
        buffer: A `CPUBuffer`, or any object with ``__dlpack__``.

    Returns:
        A tensor on the CPU, of the buffer's shape and dtype.

    Raises:
        TypeError: `buffer` has no ``__dlpack__``.
        ImportError: PyTorch is not installed.
    """
    torch = import_module("torch")  # optional, and unknown to type checkers without it

    if not hasattr(buffer, "__dlpack__"):
        raise TypeError(f"expected an object with __dlpack__, found {type(buffer)!r}")
    return torch.from_dlpack(buffer)
