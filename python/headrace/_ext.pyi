from collections.abc import Sequence
from os import PathLike
from typing import Any, TypedDict, final

from typing_extensions import CapsuleType

from headrace.errors import SlotFailure
from headrace.io._ops import ArrayLike, Source

@final
class CPUBuffer:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def ndim(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    @property
    def failures(self) -> tuple[SlotFailure, ...]: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __dlpack_device__(self, /) -> tuple[int, int]: ...

@final
class Op:
    @property
    def name(self) -> str: ...
    @property
    def wants(self) -> str: ...
    def __call__(self, item: object, /) -> Any: ...

class _PoolStats(TypedDict):
    live_bytes: int
    cached_bytes: int
    live_count: int
    mapped_total: int

def load_image(
    src: Source,
    width: int | None = None,
    height: int | None = None,
    pix_fmt: str = "rgb24",
    scale_mode: str | None = "pad",
    scale_algo: str = "bicubic",
    name: str | None = None,
) -> CPUBuffer: ...
def load_image_op(
    *,
    width: int | None = None,
    height: int | None = None,
    pix_fmt: str = "rgb24",
    scale_mode: str | None = "pad",
    scale_algo: str = "bicubic",
    name: None = None,
) -> Op: ...
def load_image_batch(
    srcs: Sequence[Source],
    width: int,
    height: int,
    pix_fmt: str = "rgb24",
    scale_mode: str | None = "pad",
    scale_algo: str = "bicubic",
    strict: bool = True,
) -> CPUBuffer: ...
def load_image_batch_op(
    *,
    width: int,
    height: int,
    pix_fmt: str = "rgb24",
    scale_mode: str | None = "pad",
    scale_algo: str = "bicubic",
    strict: bool = True,
) -> Op: ...
def resize(
    image: ArrayLike, width: int, height: int, scale_algo: str = "bicubic"
) -> CPUBuffer: ...
def resize_op(*, width: int, height: int, scale_algo: str = "bicubic") -> Op: ...
def read_file(path: str | PathLike[str] | PathLike[bytes], /) -> CPUBuffer: ...
def read_file_op() -> Op: ...
def convert_frames(frames: Sequence[ArrayLike], /) -> CPUBuffer: ...
def as_buffer(obj: ArrayLike, /) -> CPUBuffer: ...
def pool_stats() -> _PoolStats: ...
def pool_trim() -> None: ...
def image_simd() -> str: ...
