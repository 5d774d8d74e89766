"""What tests of pictures share: encoders, and headers changed by hand."""

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image, features

FORMATS = ["JPEG", "PNG", "WebP", "GIF", "BMP", "TIFF", "AVIF"]


def needs(fmt: str) -> None:
    """Skip the test if Pillow lacks a format.

    Its wheels have all. Where there is no wheel, on free-threaded Python, it is built
    with what the system has, and Debian 12's libavif is too old for it.
    """
    if fmt.upper() in {"AVIF", "WEBP"} and not features.check(fmt.lower()):
        pytest.skip(f"Pillow was built without {fmt} here")


class Files(dict[str, bytes]):
    """A file of each format, made when it is first asked for."""

    def __init__(self, make: Callable[[str], bytes]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, fmt: str) -> bytes:
        return self.setdefault(fmt, self._make(fmt))


def waves(width: int, height: int, seed: int = 0) -> np.ndarray:
    """Smooth colours, far from the ends of the scale."""
    y, x = np.mgrid[0:height, 0:width] + seed * 17
    planes = [np.sin(x / 9) + np.cos(y / 7), np.sin((x + y) / 15), np.cos(x / 21)]
    return np.stack([plane * 45 + 128 for plane in planes], axis=2).astype(np.uint8)


def encode(pixels: np.ndarray | Image.Image, fmt: str, **options: Any) -> bytes:
    """Encode by Pillow; GIF gets a palette of 200 colours."""
    needs(fmt)
    image = Image.fromarray(pixels) if isinstance(pixels, np.ndarray) else pixels.copy()
    if fmt == "GIF" and image.mode != "P":
        image = image.quantize(200)
    if fmt == "AVIF":
        options = {"speed": 10} | options  # else it takes seconds
    out = io.BytesIO()
    image.save(out, fmt, **options)
    return out.getvalue()


def frames(fmt: str, pictures: list[np.ndarray], **options: Any) -> bytes:
    """Encode by Pillow; of JPEG an MPO."""
    needs(fmt)
    first, *rest = [Image.fromarray(pixels) for pixels in pictures]
    out = io.BytesIO()
    kind = "MPO" if fmt == "JPEG" else fmt
    if fmt == "AVIF":
        options = {"speed": 10} | options
    first.save(out, kind, save_all=True, append_images=rest, **options)
    return out.getvalue()


def pillow(data: bytes, mode: str = "RGB") -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        pixels = np.asarray(image.convert(mode))
    return pixels if pixels.ndim == 3 else pixels[:, :, None]


def marker(data: bytes, *codes: int) -> int:
    """Where the first JPEG segment with one of these codes begins."""
    at = 2
    while data[at + 1] not in codes:
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
    return at


def put(data: bytes, at: int, field: bytes) -> bytes:
    return data[:at] + field + data[at + len(field) :]


def _claim_jpeg(data: bytes, width: int, height: int) -> bytes:
    at = marker(data, 0xC0, 0xC1, 0xC2)
    return put(data, at + 5, struct.pack(">HH", height, width))


def _claim_png(data: bytes, width: int, height: int) -> bytes:
    data = put(data, 16, struct.pack(">II", width, height))
    return put(data, 29, struct.pack(">I", zlib.crc32(data[12:29])))


def _claim_webp(data: bytes, width: int, height: int) -> bytes:
    """A lossless one: 14 bits of width - 1, 14 of height - 1, behind 0x2f."""
    at = data.index(b"VP8L") + 9
    bits = struct.unpack("<I", data[at : at + 4])[0] & 0xF0000000
    bits |= (width - 1) | (height - 1) << 14
    return put(data, at, struct.pack("<I", bits))


def _claim_tiff(data: bytes, width: int, height: int) -> bytes:
    """Of one that Pillow wrote: little-endian, entries of one LONG or SHORT."""
    at = struct.unpack("<I", data[4:8])[0]
    (count,) = struct.unpack("<H", data[at : at + 2])
    for entry in range(at + 2, at + 2 + 12 * count, 12):
        (tag,) = struct.unpack("<H", data[entry : entry + 2])
        if tag in {256, 257}:
            value = width if tag == 256 else height
            data = put(data, entry + 2, struct.pack("<HII", 4, 1, value))
    return data


def claim(data: bytes, fmt: str, width: int, height: int) -> bytes:
    """Change what a file's header says about its size."""
    match fmt:
        case "JPEG":
            return _claim_jpeg(data, width, height)
        case "PNG":
            return _claim_png(data, width, height)
        case "WebP":
            return _claim_webp(data, width, height)
        case "GIF":
            return put(data, 6, struct.pack("<HH", width, height))
        case "BMP":
            return put(data, 18, struct.pack("<ii", width, height))
        case "TIFF":
            return _claim_tiff(data, width, height)
        case "AVIF":
            at = data.index(b"ispe") + 8
            return put(data, at, struct.pack(">II", width, height))
    raise ValueError(fmt)


def ink_profile(*, space=b"CMYK", tag=b"A2B0"):
    """A profile of four inks, its table of two points a side worked out here.

    L falls with each ink and with black to 0; a and b are those of the inks' colours.
    Of the type lut8, with straight curves: section 10.9 of ICC.1:2001-04.
    """
    table = b""
    for i in range(16):
        c, m, y, k = (i >> bit & 1 for bit in (3, 2, 1, 0))
        light = 0 if k else 100 - 30 * c - 35 * m - 8 * y
        a, b = (0, 0) if k else (-35 * c + 70 * m - 5 * y, -45 * c - 5 * m + 88 * y)
        a, b = max(a, -128), max(b, -128)
        table += bytes((round(light * 255 / 100), a + 128, b + 128))
    straight = bytes(range(256))
    identity = struct.pack(">9i", *[65536 * (i % 4 == 0) for i in range(9)])
    lut = b"mft1\0\0\0\0" + bytes((4, 3, 2, 0)) + identity
    lut += straight * 4 + table + straight * 3
    tags = {
        b"desc": b"desc\0\0\0\0" + struct.pack(">I", 5) + b"inks\0" + bytes(78),
        b"cprt": b"text\0\0\0\0none\0\0\0\0",
        b"wtpt": b"XYZ \0\0\0\0" + struct.pack(">3i", 63190, 65536, 54061),
        tag: lut,
    }
    entries, body = struct.pack(">I", len(tags)), b""
    at = 128 + 4 + 12 * len(tags)
    for name, data in tags.items():
        data += bytes(-len(data) % 4)
        entries += name + struct.pack(">II", at + len(body), len(data))
        body += data
    header = struct.pack(">I4sI4s", at + len(body), b"lcms", 0x02400000, b"prtr")
    header += space + b"Lab " + bytes(12) + b"acsp" + bytes(28)
    header += struct.pack(">3i", 63190, 65536, 54061)
    return header.ljust(128, b"\0") + entries + body
