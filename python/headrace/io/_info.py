"""What pictures' headers say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import _ext
from headrace.io._ops import native

if TYPE_CHECKING:
    from headrace.io._images import Orientation
    from headrace.io._limits import ImageLimits
    from headrace.io._ops import Source


@native(_ext.image_info_op)
def image_info(
    src: Source,
    *,
    orientation: Orientation = "apply",
    limits: ImageLimits | None = None,
) -> _ext.ImageInfo:
    """Read a picture's header, and none of its pixels. The GIL is released.

    Args:
        src: As for `load_image`.
        orientation: With ``"apply"``, width and height are those of the picture that
            `load_image` gives; with ``"ignore"`` those that are stored.
        limits: Of these, ``encoded_bytes`` counts. Default: ``ImageLimits()``.

    Returns:
        A named tuple `ImageInfo`: ``width``, ``height``, ``format`` (``"JPEG"``,
        ``"PNG"``, ``"WebP"``, ``"GIF"``, ``"BMP"``, ``"TIFF"`` or ``"AVIF"``),
        ``channels`` (stored ones: 1 for grey or a palette, alpha included),
        ``bit_depth`` (of a stored sample), ``frames``, ``orientation`` (EXIF's number,
        1 to 8), ``has_icc``.

    Raises:
        OSError, headrace.errors.HeadraceError, TypeError, ValueError: As `load_image`.
    """
    return _ext.image_info(src, orientation, limits)


@native(_ext.image_info_batch_op)
def image_info_batch(
    srcs: list[Source] | tuple[Source, ...],
    *,
    orientation: Orientation = "apply",
    limits: ImageLimits | None = None,
    strict: bool = True,
) -> list[_ext.ImageInfo | None]:
    """Read the headers of many pictures, at some microseconds each.

    Called directly it works in the calling thread, with the GIL released; in a pipeline
    all idle workers share the pictures.

    Args:
        srcs: A list or tuple of sources, each as for `load_image`.
        orientation: As for `image_info`.
        limits: As for `image_info`.
        strict: With `True` the first source that fails, in order, fails the call, after
            all were tried. With `False` it gives `None`.

    Returns:
        A list of `ImageInfo`, in the order of `srcs`.

    Raises:
        OSError, headrace.errors.HeadraceError: With ``strict=True``, as `load_image`.
        TypeError: `srcs` is no list or tuple, or an item of it is no source.
        ValueError: An argument has no such value.
    """
    return _ext.image_info_batch(srcs, orientation, limits, strict)
