from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from os import PathLike
from threading import Thread
from typing import Any, Final, Literal, TypeAlias, TypedDict, final

from _typeshed import structseq
from typing_extensions import CapsuleType

from headrace.errors import SlotFailure
from headrace.io._limits import ImageLimits
from headrace.io._ops import ArrayLike, Source

VERSION: Final[str]

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
    def truncated(self) -> tuple[SlotFailure, ...]: ...
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
class ImageInfo(structseq[Any], tuple[int, int, str, int, int, int, int, bool]):
    __match_args__: Final = (
        "width",
        "height",
        "format",
        "channels",
        "bit_depth",
        "frames",
        "orientation",
        "has_icc",
    )
    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def format(self) -> str: ...
    @property
    def channels(self) -> int: ...
    @property
    def bit_depth(self) -> int: ...
    @property
    def frames(self) -> int: ...
    @property
    def orientation(self) -> int: ...
    @property
    def has_icc(self) -> bool: ...

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

class _JpegCounts(TypedDict):
    headrace: int
    libjpeg: int

def load_image(
    src: Source,
    width: int | None = None,
    height: int | None = None,
    pix_fmt: str = "rgb24",
    scale_mode: str | None = "pad",
    scale_algo: str = "bicubic",
    background: tuple[int, int, int] | None = None,
    orientation: str = "apply",
    frame: int = 0,
    icc: str | None = None,
    allow_truncated: bool = False,
    limits: ImageLimits | None = None,
    crop: object = None,
    flip: object = False,
    seed: int = 0,
    epoch: int = 0,
    layout: str = "HWC",
    dtype: object = None,
    mean: object = None,
    std: object = None,
    exact: bool = False,
    draft: bool = False,
    name: str | None = None,
    index: int = 0,
    out: ArrayLike | None = None,
) -> CPUBuffer: ...
def load_image_op(
    *,
    width: int | None = None,
    height: int | None = None,
    pix_fmt: str = "rgb24",
    scale_mode: str | None = "pad",
    scale_algo: str = "bicubic",
    background: tuple[int, int, int] | None = None,
    orientation: str = "apply",
    frame: int = 0,
    icc: str | None = None,
    allow_truncated: bool = False,
    limits: ImageLimits | None = None,
    crop: object = None,
    flip: object = False,
    seed: int = 0,
    epoch: int = 0,
    layout: str = "HWC",
    dtype: object = None,
    mean: object = None,
    std: object = None,
    exact: bool = False,
    draft: bool = False,
    name: None = None,
    index: int = 0,
    out: None = None,
) -> Op: ...
def load_image_batch(
    srcs: Sequence[Source],
    width: int,
    height: int,
    pix_fmt: str = "rgb24",
    scale_mode: str | None = "pad",
    scale_algo: str = "bicubic",
    background: tuple[int, int, int] | None = None,
    orientation: str = "apply",
    frame: int = 0,
    icc: str | None = None,
    allow_truncated: bool = False,
    limits: ImageLimits | None = None,
    crop: object = None,
    flip: object = False,
    seed: int = 0,
    epoch: int = 0,
    layout: str = "HWC",
    dtype: object = None,
    mean: object = None,
    std: object = None,
    exact: bool = False,
    draft: bool = False,
    strict: bool = True,
    index: int = 0,
    out: ArrayLike | None = None,
) -> CPUBuffer: ...
def load_image_batch_op(
    *,
    width: int,
    height: int,
    pix_fmt: str = "rgb24",
    scale_mode: str | None = "pad",
    scale_algo: str = "bicubic",
    background: tuple[int, int, int] | None = None,
    orientation: str = "apply",
    frame: int = 0,
    icc: str | None = None,
    allow_truncated: bool = False,
    limits: ImageLimits | None = None,
    crop: object = None,
    flip: object = False,
    seed: int = 0,
    epoch: int = 0,
    layout: str = "HWC",
    dtype: object = None,
    mean: object = None,
    std: object = None,
    exact: bool = False,
    draft: bool = False,
    strict: bool = True,
    index: int = 0,
    out: None = None,
) -> Op: ...
def load_image_frames(
    src: Source,
    width: int | None = None,
    height: int | None = None,
    pix_fmt: str = "rgb24",
    scale_mode: str | None = "pad",
    scale_algo: str = "bicubic",
    background: tuple[int, int, int] | None = None,
    orientation: str = "apply",
    frame: int = 0,
    icc: str | None = None,
    allow_truncated: bool = False,
    limits: ImageLimits | None = None,
    crop: object = None,
    flip: object = False,
    seed: int = 0,
    epoch: int = 0,
    layout: str = "HWC",
    dtype: object = None,
    mean: object = None,
    std: object = None,
    exact: bool = False,
    draft: bool = False,
    name: str | None = None,
    index: int = 0,
    out: ArrayLike | None = None,
) -> CPUBuffer: ...
def load_image_frames_op(
    *,
    width: int | None = None,
    height: int | None = None,
    pix_fmt: str = "rgb24",
    scale_mode: str | None = "pad",
    scale_algo: str = "bicubic",
    background: tuple[int, int, int] | None = None,
    orientation: str = "apply",
    frame: int = 0,
    icc: str | None = None,
    allow_truncated: bool = False,
    limits: ImageLimits | None = None,
    crop: object = None,
    flip: object = False,
    seed: int = 0,
    epoch: int = 0,
    layout: str = "HWC",
    dtype: object = None,
    mean: object = None,
    std: object = None,
    exact: bool = False,
    draft: bool = False,
    name: None = None,
    index: int = 0,
    out: None = None,
) -> Op: ...
def image_info(
    src: Source, orientation: str = "apply", limits: ImageLimits | None = None
) -> ImageInfo: ...
def image_info_op(
    *, orientation: str = "apply", limits: ImageLimits | None = None
) -> Op: ...
def image_info_batch(
    srcs: Sequence[Source],
    orientation: str = "apply",
    limits: ImageLimits | None = None,
    strict: bool = True,
) -> list[ImageInfo | None]: ...
def image_info_batch_op(
    *,
    orientation: str = "apply",
    limits: ImageLimits | None = None,
    strict: bool = True,
) -> Op: ...
def encode_image(
    image: ArrayLike,
    format: str = "jpeg",  # noqa: A002
    quality: int = 75,
    compression: int = 6,
    lossless: bool = False,
    pix_fmt: str | None = None,
) -> CPUBuffer: ...
def encode_image_op(
    *,
    format: str = "jpeg",  # noqa: A002
    quality: int = 75,
    compression: int = 6,
    lossless: bool = False,
    pix_fmt: str | None = None,
) -> Op: ...
def transform(
    image: ArrayLike,
    width: int | None = None,
    height: int | None = None,
    scale_mode: str | None = None,
    scale_algo: str = "bicubic",
    crop: object = None,
    flip: object = False,
    seed: int = 0,
    epoch: int = 0,
    layout: str = "HWC",
    dtype: object = None,
    mean: object = None,
    std: object = None,
    index: int = 0,
    out: ArrayLike | None = None,
) -> CPUBuffer: ...
def transform_op(
    *,
    width: int | None = None,
    height: int | None = None,
    scale_mode: str | None = None,
    scale_algo: str = "bicubic",
    crop: object = None,
    flip: object = False,
    seed: int = 0,
    epoch: int = 0,
    layout: str = "HWC",
    dtype: object = None,
    mean: object = None,
    std: object = None,
    index: int = 0,
    out: None = None,
) -> Op: ...
def draw_box(
    width: int, height: int, crop: object, seed: int, epoch: int, index: int, /
) -> tuple[int, int, int, int]: ...
def draw_flip(p: float, seed: int, epoch: int, index: int, /) -> bool: ...
def resize(
    image: ArrayLike, width: int, height: int, scale_algo: str = "bicubic"
) -> CPUBuffer: ...
def resize_op(*, width: int, height: int, scale_algo: str = "bicubic") -> Op: ...
def read_file(path: str | PathLike[str] | PathLike[bytes], /) -> CPUBuffer: ...
def read_file_op() -> Op: ...
def convert_frames_op() -> Op: ...
def convert_frames(frames: Sequence[ArrayLike], /) -> CPUBuffer: ...
def as_buffer(obj: ArrayLike, /) -> CPUBuffer: ...
def pool_stats() -> _PoolStats: ...
def pool_trim() -> None: ...
def image_simd() -> str: ...
def jpeg_counts() -> _JpegCounts: ...

# ---- pipelines ----

_Shape: TypeAlias = str | tuple[tuple[int | str, str], ...]
_Key: TypeAlias = int | str | None
_MaxFailures: TypeAlias = int | tuple[int, int] | None
_Failure: TypeAlias = tuple[str, int, str, BaseException]

class _StageStats(TypedDict):
    name: str
    concurrency: int
    items_in: int
    items_out: int
    filtered: int
    failed: int
    released: int
    retried: int
    running: int
    queued: int
    capacity: int
    busy_ns: int
    awaited_ns: int
    starved_ns: int
    blocked_ns: int
    ready_ns: int
    full_ns: int
    attach_ns: int
    attached_ns: int
    ended_ns: int
    task_p50_ns: int
    task_p90_ns: int
    task_p99_ns: int
    timed_out: int
    stuck: int
    late: int

class _Summary(TypedDict):
    num_threads: int
    elapsed_ns: int
    consumer_wait_ns: int
    delivered: int
    failed: int

@final
class Plan:
    def __new__(cls) -> Plan: ...
    def source(
        self,
        iterable: Iterable[Any] | AsyncIterable[Any],
        name: str,
        want: _Shape,
        continuous: bool,
        is_async: bool = False,
        /,
    ) -> None: ...
    def pipe_native(
        self,
        op: Op,
        name: str,
        concurrency: int,
        input_order: bool,
        key: _Key,
        max_failures: _MaxFailures,
        /,
    ) -> None: ...
    def pipe_python(
        self,
        op: Callable[..., Any] | None,
        kind: Literal[
            "function", "generator", "iterate", "coroutine", "async generator", "submit"
        ],
        name: str,
        concurrency: int,
        input_order: bool,
        key: _Key,
        max_failures: _MaxFailures,
        want: _Shape,
        per_worker: bool = False,
        /,
    ) -> None: ...
    def aggregate(self, n: int, drop_last: bool, columns: bool, /) -> None: ...
    def fold(
        self,
        accumulate: Callable[[Any], Any],
        flush: Callable[[], Any],
        name: str,
        drop_last: bool,
        max_failures: _MaxFailures,
        want: _Shape,
        /,
    ) -> None: ...
    def disaggregate(self, /) -> None: ...
    def route(
        self,
        router: Callable[[Any], int],
        name: str,
        wants: tuple[_Shape, ...],
        /,
    ) -> None: ...
    def path(self, /) -> None: ...
    def join(self, /) -> None: ...
    def branch(self, /) -> None: ...
    def merge(self, n: int, /) -> None: ...
    def on_error(self, raises: bool, /) -> None: ...
    def retry(
        self,
        times: int,
        backoff_ns: int,
        backoff_max_ns: int,
        statuses: int,
        on: tuple[type[BaseException], ...] | None,
        /,
    ) -> None: ...
    def timeout(self, timeout_ns: int, /) -> None: ...
    def sink(self, buffer_size: int, /) -> None: ...
    def build(
        self,
        num_threads: int,
        note_stage: Callable[[BaseException, str, int, str], None],
        too_many_failures: Callable[[str, str, list[_Failure]], BaseException],
        inner: Engine | None,
        start_loop: Callable[[Bridge], Thread | None],
        /,
    ) -> Engine: ...

@final
class Engine:
    @property
    def started(self) -> bool: ...
    def start(self, /) -> None: ...
    def stop(self, timeout: float | None, /) -> None: ...
    def request_stop(self, /) -> None: ...
    def next(self, timeout: float | None, /) -> Any: ...
    def iterate(self, timeout: float | None, /) -> EngineIterator: ...
    def stats(self, /) -> tuple[_Summary, list[_StageStats]]: ...
    def summary(self, /) -> _Summary: ...
    def report_every(
        self, seconds: float, report: Callable[[Engine, bool], None], /
    ) -> None: ...
    def trace_start(
        self, path: str | PathLike[str] | PathLike[bytes], events_max: int, /
    ) -> None: ...
    def trace_stop(self, /) -> None: ...
    def failures(self, start: int, /) -> list[_Failure]: ...

@final
class EngineIterator:
    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...

@final
class Bridge:
    def expect(self, /) -> bool: ...
    def abandon(self, /) -> None: ...
    def enter(self, /) -> bool: ...
    def leave(self, /) -> None: ...
    def part(self, /) -> None: ...
    def begin(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        wake: Callable[[int], bool],
        resume: Callable[[int], None],
        on_state: Callable[[int], None],
        /,
    ) -> None: ...
    def stages(
        self, /
    ) -> list[
        tuple[int, str, Literal["source", "map", "expand", "submit"], int, bool, float]
    ]: ...
    def fileno(self, /) -> int: ...
    def ring(self, /) -> None: ...
    def hush(self, /) -> None: ...
    def rung(self, /) -> None: ...
    def pump(self, /) -> None: ...
    def take(self, stage: int, /) -> int: ...
    def woken(self, stage: int, /) -> None: ...
    def call(self, task: int, /) -> Any: ...
    def open(self, task: int, /) -> AsyncIterator[Any]: ...
    def done(self, task: int, result: Any, /) -> None: ...
    def fail(
        self,
        task: int,
        exception: BaseException,
        fatal: bool = False,
        again: bool = True,
        /,
    ) -> None: ...
    def item(self, task: int, /) -> int: ...
    def release(self, task: int, /) -> None: ...
    def late(self, task: int, /) -> str: ...
    def left(self, stage: int, back: bool, /) -> None: ...
    def give(self, task: int, value: Any, /) -> int: ...
    def repeats(self, task: int, /) -> bool: ...
    def epoch(self, task: int, /) -> int: ...
    def may_end(self, task: int, /) -> bool: ...
    def wanted(self, task: int, /) -> bool: ...
    def fatal(self, exception: BaseException, /) -> None: ...

def noop_op() -> Op: ...
def end_runtime() -> None: ...
def crash_report_enable(fd: int, /) -> None: ...
def crash_report_disable() -> None: ...
