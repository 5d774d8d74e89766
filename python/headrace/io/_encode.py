"""From pixels to files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace import _ext
from headrace.io._ops import native

if TYPE_CHECKING:
    from headrace.io._ops import ArrayLike

ImageFormat: TypeAlias = Literal["jpeg", "png", "webp"]
ChannelOrder: TypeAlias = Literal["bgr24"] | None

_SUFFIXES: dict[str, ImageFormat] = {
    ".jpg": "jpeg",
    ".jpeg": "jpeg",
    ".png": "png",
    ".webp": "webp",
}


@native(_ext.encode_image_op)
def encode_image(
    image: ArrayLike,
    *,
    format: ImageFormat = "jpeg",  # noqa: A002 (Pillow's name)
    quality: int = 75,
    compression: int = 6,
    lossless: bool = False,
    pix_fmt: ChannelOrder = None,
) -> _ext.CPUBuffer:
    """Encode a picture. The GIL is released.

    Args:
        image: Pixels of shape (H, W) or (H, W, C), dtype uint8: C = 1 is grey, 3 RGB,
            4 RGBA (not for JPEG). PNG also takes C = 2, grey and alpha, and uint16. A
            `CPUBuffer`, a NumPy array, or any object with the buffer protocol, a
            ``numpy()`` method or an ``__array_interface__``, as PIL's images have. It
            is read while the GIL is released; if it is strided, a copy is made before.
        format: ``"jpeg"`` (baseline, 4:2:0), ``"png"`` or ``"webp"``.
        quality: Of JPEG and of lossy WebP, from 0 to 100.
        compression: Of PNG: zlib's level, from 0 (none) to 9.
        lossless: WebP without loss; the colour of transparent pixels stays too.
        pix_fmt: ``"bgr24"``: the channels begin with blue.

    Returns:
        A new `CPUBuffer` of shape (bytes,), dtype uint8: the file's content.

    Raises:
        TypeError: `image` is no array, or of another dtype.
        ValueError: It has another shape, or an argument has no such value.
        headrace.errors.LimitError: A side is longer than the format can say: 65,500
            pixels in JPEG, 16,383 in WebP.
        headrace.errors.UnsupportedError: This build is without libwebp.
    """
    return _ext.encode_image(image, format, quality, compression, lossless, pix_fmt)


def save_image(
    path: str | os.PathLike[str] | os.PathLike[bytes],
    image: ArrayLike,
    *,
    format: ImageFormat | None = None,  # noqa: A002 (Pillow's name)
    quality: int = 75,
    compression: int = 6,
    lossless: bool = False,
    pix_fmt: ChannelOrder = None,
) -> None:
    """Encode a picture into a file, which is made or replaced.

    Args:
        path: Where to.
        image: As for `encode_image`.
        format: As for `encode_image`. Default: as the path ends, in ``.jpg``,
            ``.jpeg``, ``.png`` or ``.webp``.
        quality: As for `encode_image`.
        compression: As for `encode_image`.
        lossless: As for `encode_image`.
        pix_fmt: As for `encode_image`.

    Raises:
        OSError: The file could not be written.
        ValueError: The path's ending tells no format; or as `encode_image`.
        TypeError, headrace.errors.HeadraceError: As `encode_image`.
    """
    if format is None:
        suffix = os.path.splitext(os.fsdecode(path))[1]
        format = _SUFFIXES.get(suffix.lower())  # noqa: A001
        if format is None:
            endings = ", ".join(_SUFFIXES)
            raise ValueError(f"path must end in one of {endings}, not {suffix!r}")
    data = _ext.encode_image(image, format, quality, compression, lossless, pix_fmt)
    with open(path, "wb") as file:
        file.write(data)
