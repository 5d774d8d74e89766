"""What the functions of `headrace.io` share: argument types, and their second life.

A native function is a plain Python function with the attribute ``__headrace_op__``: a
callable that takes the function's keyword arguments (what `functools.partial` bound,
without the first positional argument), checks them, and returns a `headrace._ext.Op`.
The pipeline builder looks for it and runs the op in C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Buffer

    from headrace._ext import Op

    ArrayLike: TypeAlias = "Buffer | SupportsNumpy"
    Source: TypeAlias = "str | PathLike[str] | PathLike[bytes] | ArrayLike"


class SupportsNumpy(Protocol):
    """An object that shows itself as a NumPy array, as `torch.Tensor` does."""

    def numpy(self) -> Any:
        """Return a NumPy array that shares the object's memory."""


F = TypeVar("F", bound=Callable[..., object])


def native(op: Callable[..., Op]) -> Callable[[F], F]:
    """Mark the decorated function as native: `op` binds its keyword arguments."""

    def mark(function: F) -> F:
        function.__headrace_op__ = op  # type: ignore[attr-defined]
        return function

    return mark
