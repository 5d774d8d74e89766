"""The loader's augmentations as functions on arrays, by torchvision's names."""

from __future__ import annotations

import operator
from collections.abc import Sized
from typing import TYPE_CHECKING

from headrace import _ext
from headrace.io._crops import CenterCrop
from headrace.io._ops import native, writable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.io._images import (
        Box,
        Crop,
        DType,
        Layout,
        PerChannel,
        ScaleAlgo,
        ScaleMode,
    )
    from headrace.io._ops import ArrayLike, Writable


@native(_ext.transform_op)
def transform(
    image: ArrayLike,
    *,
    width: int | None = None,
    height: int | None = None,
    scale_mode: ScaleMode = None,
    scale_algo: ScaleAlgo = "bicubic",
    crop: Crop | Sequence[Box] | None = None,
    flip: bool | float | Sequence[bool] = False,
    seed: int = 0,
    epoch: int = 0,
    layout: Layout = "HWC",
    dtype: DType | None = None,
    mean: PerChannel | None = None,
    std: PerChannel | None = None,
    index: int = 0,
    out: Writable | None = None,
) -> _ext.CPUBuffer:
    """Crop, resize, flip and normalise pixels in one pass, as `load_image` does.

    The other functions of this page are short ways to it.

    Args:
        image: uint8 pixels of shape (H, W), (H, W, C) or (N, H, W, C), with C from 1 to
            4: a `CPUBuffer`, a NumPy array, or any object with the buffer protocol or a
            ``numpy()`` method. It is read while the GIL is released. If it is strided,
            a copy is made before.
        width: Target width in pixels. `None` keeps that of the picture or the crop.
        height: Target height in pixels. `None` keeps that of the picture or the crop.
        scale_mode: As for `load_image`.
        scale_algo: As for `resize`.
        crop: As for `load_image`; of a stack also one box for each picture.
        flip: As for `load_image`; of a stack also one bool for each picture.
        seed: As for `load_image`.
        epoch: As for `load_image`.
        layout: As for `load_image`.
        dtype: As for `load_image`.
        mean: As for `load_image`.
        std: As for `load_image`.
        index: The number of the (first) picture for draws. In a pipeline it is that of
            the item in the source, times the number of pictures in a stack.
        out: As for `load_image`.

    Returns:
        A new, writable `CPUBuffer`, shaped as `image`, or as `layout` says.

    Raises:
        TypeError: `image` is no array, or not uint8.
        ValueError: It has another shape, a crop leaves it, or an argument has no such
            value.
        headrace.errors.LimitError: The result would be larger than 1 GiB.
    """
    return _ext.transform(
        image,
        width,
        height,
        scale_mode,
        scale_algo,
        crop,
        flip,
        seed,
        epoch,
        layout,
        dtype,
        mean,
        std,
        index,
        writable(out),
    )


def _crop_op(*, top: int, left: int, height: int, width: int) -> _ext.Op:
    return _ext.transform_op(crop=(top, left, height, width))


@native(_crop_op)
def crop(
    image: ArrayLike, top: int, left: int, height: int, width: int
) -> _ext.CPUBuffer:
    """Cut a rectangle out of pictures, see `transform`.

    Args:
        image: As for `transform`.
        top: Its first row.
        left: Its first column.
        height: Its rows.
        width: Its columns. It must lie inside: unlike torchvision's it is not padded.

    Returns:
        A copy, shaped as `image` with that height and width.

    Raises:
        TypeError, ValueError, headrace.errors.LimitError: As `transform`.
    """
    return _ext.transform(image, crop=(top, left, height, width))


def _sides(size: int | Sequence[int]) -> tuple[int, int]:
    """Height and width of torchvision's sizes."""
    if not isinstance(size, Sized):
        return operator.index(size), operator.index(size)
    sides = tuple(size)
    if len(sides) not in (1, 2):
        raise ValueError(f"a size must be one number or (height, width), not {size!r}")
    return sides[0], sides[-1]


def _center_crop_op(*, output_size: int | Sequence[int]) -> _ext.Op:
    height, width = _sides(output_size)
    return _ext.transform_op(width=width, height=height, crop=CenterCrop())


@native(_center_crop_op)
def center_crop(image: ArrayLike, output_size: int | Sequence[int]) -> _ext.CPUBuffer:
    """Cut out the middle of pictures, or surround small ones by black; see `transform`.

    Args:
        image: As for `transform`.
        output_size: (height, width), or one number for both.

    Returns:
        A copy, shaped as `image` with that height and width.

    Raises:
        TypeError, ValueError, headrace.errors.LimitError: As `transform`.
    """
    height, width = _sides(output_size)
    return _ext.transform(image, width, height, crop=CenterCrop())


def _resized_crop_op(
    *,
    top: int,
    left: int,
    height: int,
    width: int,
    size: int | Sequence[int],
    scale_algo: ScaleAlgo = "bicubic",
) -> _ext.Op:
    rows, columns = _sides(size)
    return _ext.transform_op(
        width=columns,
        height=rows,
        scale_algo=scale_algo,
        crop=(top, left, height, width),
    )


@native(_resized_crop_op)
def resized_crop(  # noqa: PLR0917 (torchvision's)
    image: ArrayLike,
    top: int,
    left: int,
    height: int,
    width: int,
    size: int | Sequence[int],
    *,
    scale_algo: ScaleAlgo = "bicubic",
) -> _ext.CPUBuffer:
    """Cut a rectangle out of pictures and stretch it to a size, see `transform`.

    Args:
        image: As for `transform`.
        top: As for `crop`.
        left: As for `crop`.
        height: As for `crop`.
        width: As for `crop`.
        size: (height, width) of the result, or one number for both.
        scale_algo: As for `resize`.

    Returns:
        A new array, shaped as `image` with that size.

    Raises:
        TypeError, ValueError, headrace.errors.LimitError: As `transform`.
    """
    rows, columns = _sides(size)
    return _ext.transform(
        image,
        columns,
        rows,
        scale_algo=scale_algo,
        crop=(top, left, height, width),
    )


def _horizontal_flip_op() -> _ext.Op:
    return _ext.transform_op(flip=True)


@native(_horizontal_flip_op)
def horizontal_flip(image: ArrayLike) -> _ext.CPUBuffer:
    """Mirror pictures left to right, see `transform`.

    Args:
        image: As for `transform`.

    Returns:
        A copy, shaped as `image`.

    Raises:
        TypeError, ValueError, headrace.errors.LimitError: As `transform`.
    """
    return _ext.transform(image, flip=True)


def _normalize_op(
    *,
    mean: PerChannel,
    std: PerChannel,
    dtype: DType = "float32",
    layout: Layout = "HWC",
) -> _ext.Op:
    return _ext.transform_op(layout=layout, dtype=dtype, mean=mean, std=std)


@native(_normalize_op)
def normalize(
    image: ArrayLike,
    mean: PerChannel,
    std: PerChannel,
    *,
    dtype: DType = "float32",
    layout: Layout = "HWC",
) -> _ext.CPUBuffer:
    """Give ``(v / 255 - mean) / std`` of uint8 pixels, see `transform`.

    Args:
        image: As for `transform`.
        mean: One number, or one for each channel, in units of 0 to 1.
        std: Alike.
        dtype: ``"float32"``, ``"float16"`` or ``"bfloat16"``.
        layout: ``"HWC"``: as `image`; ``"CHW"``: channels before height and width.

    Returns:
        A new array of that dtype.

    Raises:
        TypeError, ValueError, headrace.errors.LimitError: As `transform`.
    """
    return _ext.transform(image, layout=layout, dtype=dtype, mean=mean, std=std)
