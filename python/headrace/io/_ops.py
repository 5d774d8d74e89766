"""What the functions of `headrace.io` share: argument types, and their second life.

A native function is a plain Python function with the attribute ``__headrace_op__``: a
callable that takes the function's keyword arguments (what `functools.partial` bound,
without the first positional argument), checks them, and returns a `headrace._ext.Op`.
The pipeline builder looks for it and runs the op in C.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Buffer

    from headrace._ext import Op

    ArrayLike: TypeAlias = "Buffer | SupportsNumpy"
    Writable: TypeAlias = ArrayLike
    Source: TypeAlias = "str | PathLike[str] | PathLike[bytes] | ArrayLike"


class SupportsNumpy(Protocol):
    """An object that shows itself as a NumPy array, as `torch.Tensor` does."""

    def numpy(self) -> Any:
        """Return a NumPy array that shares the object's memory."""


def writable(out: ArrayLike | None) -> ArrayLike | None:
    """Show bfloat16 as integers: the protocols of Python have no name for it."""
    shown: Any = out
    if out is None or "bfloat16" not in str(getattr(out, "dtype", "")):
        return out
    if type(out).__module__.startswith("torch"):
        shown = shown.view(import_module("torch").int16)
    elif hasattr(out, "view"):
        shown = shown.view("int16")
    return shown  # type: ignore[no-any-return]


F = TypeVar("F", bound=Callable[..., object])


def native(op: Callable[..., Op]) -> Callable[[F], F]:
    """Mark the decorated function as native: `op` binds its keyword arguments."""

    def mark(function: F) -> F:
        function.__headrace_op__ = op  # type: ignore[attr-defined]
        return function

    return mark
