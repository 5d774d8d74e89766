"""Images: load one, all frames of one, a batch; resize."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from headrace import _ext
from headrace.io._ops import native, writable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.io._crops import CenterCrop, RandomResizedCrop
    from headrace.io._limits import ImageLimits
    from headrace.io._ops import ArrayLike, Source, Writable

PixFmt: TypeAlias = Literal["rgb24", "bgr24", "gray", "rgba", "gray16", "rgb48"]
Orientation: TypeAlias = Literal["apply", "ignore"]
Background: TypeAlias = tuple[int, int, int] | None
Icc: TypeAlias = Literal["srgb"] | None
ScaleMode: TypeAlias = Literal["pad", "crop"] | None
ScaleAlgo: TypeAlias = Literal["box", "bilinear", "bicubic", "lanczos"]
Layout: TypeAlias = Literal["HWC", "CHW"]
# Or such an object: numpy.float32, numpy.dtype("float32"), torch.float32.
DType: TypeAlias = Literal["uint8", "float16", "bfloat16", "float32"] | Any
PerChannel: TypeAlias = "float | Sequence[float]"
# (top, left, height, width) in pixels of the picture as it is shown.
Box: TypeAlias = tuple[int, int, int, int]
Crop: TypeAlias = "Box | CenterCrop | RandomResizedCrop"


@native(_ext.load_image_op)
def load_image(
    src: Source,
    *,
    width: int | None = None,
    height: int | None = None,
    pix_fmt: PixFmt = "rgb24",
    scale_mode: ScaleMode = "pad",
    scale_algo: ScaleAlgo = "bicubic",
    background: Background = None,
    orientation: Orientation = "apply",
    frame: int = 0,
    icc: Icc = None,
    allow_truncated: bool = False,
    limits: ImageLimits | None = None,
    crop: Crop | None = None,
    flip: bool | float = False,
    seed: int = 0,
    epoch: int = 0,
    layout: Layout = "HWC",
    dtype: DType | None = None,
    mean: PerChannel | None = None,
    std: PerChannel | None = None,
    exact: bool = False,
    draft: bool = False,
    name: str | None = None,
    index: int = 0,
    out: Writable | None = None,
) -> _ext.CPUBuffer:
    """Decode one picture, and scale it when a size is given.

    JPEG, PNG, WebP, GIF, BMP, TIFF and AVIF are told by content, never by the file's
    name. The GIL is released. ``docs/images.md`` says what the pixels are.

    Args:
        src: A path (`str` or `os.PathLike`), or the encoded picture itself: `bytes`,
            `bytearray`, `memoryview`, a `CPUBuffer` or another uint8 buffer. It is not
            copied, and must not be written to meanwhile.
        width: Target width in pixels. `None` keeps the picture's own.
        height: Target height in pixels. `None` keeps the picture's own.
        pix_fmt: What a pixel is: ``"rgb24"``, ``"bgr24"`` (3 of uint8), ``"gray"`` (1),
            ``"rgba"`` (4), ``"gray16"`` (1 of uint16), ``"rgb48"`` (3 of uint16, native
            order). Grey and palette pictures are expanded.
        scale_mode: How the picture meets the target. ``"pad"`` fits it inside, centred
            on black; ``"crop"`` covers the target and cuts centrally; `None` stretches.
        scale_algo: The resampling filter, see `resize`.
        background: Red, green and blue, from 0 to 255, that alpha is blended with.
            `None` drops alpha, and the colour beneath stays.
        orientation: ``"apply"`` turns and mirrors the picture as its file says, so that
            it comes as it is meant to be seen; width and height are then those of the
            turned picture. ``"ignore"`` gives the stored pixels.
        frame: Which frame of an animation, or page, from 0.
        icc: ``"srgb"`` converts the colours of a picture that has a colour profile for
            its kind of pixels to sRGB, perceptually. `None` keeps the numbers.
        allow_truncated: Give what there is of a picture that ends early or is damaged:
            its rows as far as they go, then zeros. The result's ``truncated`` says so.
            With `False` such a picture is an error.
        limits: What is refused. Default: ``ImageLimits()``.
        crop: What is taken before it is scaled; the filter does not look beyond it.
            ``(top, left, height, width)``, in pixels of the picture as it is shown,
            inside of it; or a `RandomResizedCrop`, which fills the target; or a
            `CenterCrop`. These two need no ``scale_mode``. Of a JPEG no more than that
            is decoded, so damage below it is not noticed.
        flip: `True` mirrors the result left to right; a number is the probability of
            that.
        seed: For `RandomResizedCrop` and a probability. What is drawn depends on seed,
            epoch and the picture's index, in a pipeline its index in the source, and
            on nothing else.
        epoch: Another number to draw by.
        layout: ``"HWC"``: (height, width, C), or ``"CHW"``: (C, height, width).
        dtype: `None`: the integers that `pix_fmt` says. ``"float32"``, ``"float16"``,
            ``"bfloat16"`` (or the dtype objects of NumPy and PyTorch) give
            ``(v / 255 - mean) / std``, of 16 bits ``(v / 65535 - mean) / std``, as
            torchvision's ``ToDtype(scale=True)`` and ``Normalize`` do but for the last
            bits. What ``"pad"`` leaves free is black, normalised. NumPy has no bfloat16
            and sees its bits as uint16; PyTorch takes it by ``torch.from_dlpack``.
        mean: One number, or one for each channel, in units of 0 to 1. `None`: 0.
        std: Alike. `None`: 1.
        exact: A JPEG, lossy WebP or AVIF that changes its size is resized in its own
            planes and coloured at its final size, which is faster, and differs from
            resizing the decoded RGB by rounding and clamping. `True` gives the bytes of
            the longer way, which are Pillow's (of AVIF those of libavif's RGB).
        draft: A JPEG may be decoded at 1/2, 1/4 or 1/8 of its size, as long as that is
            no smaller than what it is scaled to. Faster, but other pixels: Pillow's
            ``draft``.
        name: Stands for the source in error messages. Default: the path, or
            ``"<bytes>"``.
        index: The picture's number for draws; not in a pipeline, which knows it.
        out: Where to write instead of into a new array: a C-contiguous, writable array
            of the result's shape and dtype, e.g. a NumPy array or a `torch.Tensor`,
            that shares no memory with the source; not in a pipeline. After an error its
            content is unspecified.

    Returns:
        A new, writable `CPUBuffer` of shape (height, width, C), or as `layout` says, C
        and dtype as `pix_fmt` and `dtype` say, rows from top to bottom. ``truncated``
        is a tuple, empty but for what `allow_truncated` kept: then it holds a
        `SlotFailure`. With ``out``, it is a `CPUBuffer` of that one's memory.

    Raises:
        OSError: The file could not be read (`FileNotFoundError` and so on).
        headrace.errors.FormatError: Empty, truncated, corrupt, or not a picture; the
            message says what was found.
        headrace.errors.UnsupportedError: A picture of a kind that is not handled, or
            that needs a library which this build is without.
        headrace.errors.LimitError: The picture exceeds one of `limits`.
        TypeError: `src` is none of the above.
        ValueError: An argument has no such value, there is no such frame, or a path
            contains a NUL character.
    """
    return _ext.load_image(
        src,
        width,
        height,
        pix_fmt,
        scale_mode,
        scale_algo,
        background,
        orientation,
        frame,
        icc,
        allow_truncated,
        limits,
        crop,
        flip,
        seed,
        epoch,
        layout,
        dtype,
        mean,
        std,
        exact,
        draft,
        name,
        index,
        writable(out),
    )


@native(_ext.load_image_frames_op)
def load_image_frames(
    src: Source,
    *,
    width: int | None = None,
    height: int | None = None,
    pix_fmt: PixFmt = "rgb24",
    scale_mode: ScaleMode = "pad",
    scale_algo: ScaleAlgo = "bicubic",
    background: Background = None,
    orientation: Orientation = "apply",
    icc: Icc = None,
    allow_truncated: bool = False,
    limits: ImageLimits | None = None,
    crop: Crop | None = None,
    flip: bool | float = False,
    seed: int = 0,
    epoch: int = 0,
    layout: Layout = "HWC",
    dtype: DType | None = None,
    mean: PerChannel | None = None,
    std: PerChannel | None = None,
    exact: bool = False,
    draft: bool = False,
    name: str | None = None,
    index: int = 0,
    out: Writable | None = None,
) -> _ext.CPUBuffer:
    """Decode all frames of an animation, or all pages, into one array.

    Frames come as they are seen: composed with those before them. The GIL is released.

    Args:
        src: As for `load_image`.
        width: As for `load_image`. `None` needs frames of one width, which only pages
            of a TIFF or pictures of an MPO may lack.
        height: Likewise.
        pix_fmt: As for `load_image`.
        scale_mode: As for `load_image`.
        scale_algo: As for `load_image`.
        background: As for `load_image`.
        orientation: As for `load_image`.
        icc: As for `load_image`.
        allow_truncated: As for `load_image`; frames that are missing are zero.
        limits: As for `load_image`; ``decoded_bytes`` holds for all frames together.
        crop: As for `load_image`; what is drawn holds for all frames.
        flip: Likewise.
        seed: As for `load_image`.
        epoch: As for `load_image`.
        layout: As for `load_image`.
        dtype: As for `load_image`.
        mean: As for `load_image`.
        std: As for `load_image`.
        exact: As for `load_image`.
        draft: As for `load_image`.
        name: As for `load_image`.
        index: As for `load_image`: of the file, not of a frame.
        out: As for `load_image`.

    Returns:
        A new, writable `CPUBuffer` of shape (N, height, width, C), or (N, C, height,
        width), C and dtype as for `load_image`. A still picture gives N = 1.

    Raises:
        headrace.errors.UnsupportedError: Frames differ in size and no target is given.
        OSError, headrace.errors.HeadraceError, TypeError, ValueError: As `load_image`.
    """
    return _ext.load_image_frames(
        src,
        width,
        height,
        pix_fmt,
        scale_mode,
        scale_algo,
        background,
        orientation,
        0,
        icc,
        allow_truncated,
        limits,
        crop,
        flip,
        seed,
        epoch,
        layout,
        dtype,
        mean,
        std,
        exact,
        draft,
        name,
        index,
        writable(out),
    )


@native(_ext.load_image_batch_op)
def load_image_batch(
    srcs: list[Source] | tuple[Source, ...],
    *,
    width: int,
    height: int,
    pix_fmt: PixFmt = "rgb24",
    scale_mode: ScaleMode = "pad",
    scale_algo: ScaleAlgo = "bicubic",
    background: Background = None,
    orientation: Orientation = "apply",
    frame: int = 0,
    icc: Icc = None,
    allow_truncated: bool = False,
    limits: ImageLimits | None = None,
    crop: Crop | Sequence[Box] | None = None,
    flip: bool | float | Sequence[bool] = False,
    seed: int = 0,
    epoch: int = 0,
    layout: Layout = "HWC",
    dtype: DType | None = None,
    mean: PerChannel | None = None,
    std: PerChannel | None = None,
    exact: bool = False,
    draft: bool = False,
    strict: bool = True,
    index: int = 0,
    out: Writable | None = None,
) -> _ext.CPUBuffer:
    """Decode pictures into the slots of one array, in the order of their sources.

    Called directly it works in the calling thread, with the GIL released; in a pipeline
    all idle workers share the slots.

    Args:
        srcs: A list or tuple of sources, each as for `load_image`.
        width: Width of every slot in pixels.
        height: Height of every slot in pixels.
        pix_fmt: As for `load_image`.
        scale_mode: As for `load_image`.
        scale_algo: As for `load_image`.
        background: As for `load_image`.
        orientation: As for `load_image`.
        frame: As for `load_image`.
        icc: As for `load_image`.
        allow_truncated: As for `load_image`; such slots are listed in the result's
            ``truncated``, not in its ``failures``.
        limits: As for `load_image`.
        crop: As for `load_image`, or one box for each source.
        flip: As for `load_image`, or one bool for each source.
        seed: As for `load_image`.
        epoch: As for `load_image`.
        layout: As for `load_image`.
        dtype: As for `load_image`.
        mean: As for `load_image`.
        std: As for `load_image`.
        exact: As for `load_image`.
        draft: As for `load_image`.
        strict: With `True` the first slot that fails, in order, fails the call, after
            all were tried. With `False` failed slots are zero and listed in the
            result's ``failures``: nothing is dropped, so labels stay aligned.
        index: The number of the first source for draws, of which the others follow; not
            in a pipeline, which knows each.
        out: As for `load_image`.

    Returns:
        A new, writable `CPUBuffer` of shape (len(srcs), height, width, C), or
        (len(srcs), C, height, width), C and dtype as for `load_image`, with
        ``failures`` and ``truncated``, tuples of `SlotFailure`
        (index, name, reason).

    Raises:
        ValueError: `srcs` is empty, or an argument has no such value.
        TypeError: `srcs` is no list or tuple, or an item of it is no source.
        OSError, headrace.errors.HeadraceError: With ``strict=True``, as `load_image`.
    """
    return _ext.load_image_batch(
        srcs,
        width,
        height,
        pix_fmt,
        scale_mode,
        scale_algo,
        background,
        orientation,
        frame,
        icc,
        allow_truncated,
        limits,
        crop,
        flip,
        seed,
        epoch,
        layout,
        dtype,
        mean,
        std,
        exact,
        draft,
        strict,
        index,
        writable(out),
    )


@native(_ext.resize_op)
def resize(
    image: ArrayLike,
    *,
    width: int,
    height: int,
    scale_algo: ScaleAlgo = "bicubic",
) -> _ext.CPUBuffer:
    """Resize one picture or a batch of them, stretching to the target.

    The filters are antialiased: their support grows with the down-scaling factor. The
    result equals that of Pillow 13's ``Image.resize`` byte for byte: separable, rounded
    to 8 bits after each pass, the vertical one first where the picture loses more than
    twice as many rows as columns.

    Args:
        image: uint8 pixels of shape (H, W), (H, W, C) or (N, H, W, C), with C from 1 to
            4: a `CPUBuffer`, a NumPy array, or any object with the buffer protocol or a
            ``numpy()`` method. It is read while the GIL is released. If it is strided,
            a copy is made before.
        width: Target width in pixels.
        height: Target height in pixels.
        scale_algo: ``"box"`` (area average), ``"bilinear"`` (triangle), ``"bicubic"``
            (R. Keys, *Cubic Convolution Interpolation for Digital Image Processing*,
            1981, a = -0.5), or ``"lanczos"`` (C. Duchon, *Lanczos Filtering in One and
            Two Dimensions*, 1979; a = 3).

    Returns:
        A new, writable `CPUBuffer` of dtype uint8, shaped as `image` with the target's
        height and width.

    Raises:
        TypeError: `image` is no array, or not uint8.
        ValueError: It has another shape, or an argument has no such value.
        headrace.errors.LimitError: The result would be larger than 1 GiB.
    """
    return _ext.resize(image, width, height, scale_algo)


def jpeg_counts() -> dict[str, int]:
    """Which decoder the JPEGs of this process went to so far.

    headrace's own decoder takes baseline JPEGs that are resized; libjpeg takes all
    others, and whatever the first has a doubt about. Pixels are the same either way.
    With ``HEADRACE_JPEG=libjpeg`` in the environment libjpeg takes all.

    Returns:
        Numbers of pictures: ``{"headrace": ..., "libjpeg": ...}``.
    """
    counts = _ext.jpeg_counts()
    return {"headrace": counts["headrace"], "libjpeg": counts["libjpeg"]}
