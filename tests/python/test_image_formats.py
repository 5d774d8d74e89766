"""Every format and property against Pillow or known pixels; the table in docs/.

Each cell of the table is a picture, how it is loaded, and what must come out. The last
test compares the cells that passed with docs/image-formats.md; with
HEADRACE_WRITE_TABLE=1 it writes that file.
"""

import io
import os
import pathlib
import struct
import threading
import zlib

import image_checks
import numpy as np
import pytest
from image_kit import ink_profile
from PIL import Image, ImageCms, ImageOps, ImageSequence

from headrace.errors import LimitError
from headrace.io import (
    ImageLimits,
    encode_image,
    image_info,
    load_image,
    load_image_frames,
)

TABLE = pathlib.Path(__file__).parents[2] / "docs" / "image-formats.md"
FORMATS = ["JPEG", "PNG", "WebP", "GIF", "BMP", "TIFF", "AVIF"]
WIDTH, HEIGHT = 53, 37

rng = np.random.default_rng(31)
NOISE = rng.integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8)
RGBA = Image.fromarray(NOISE)
# Smooth colours, so that lossy formats are not all error.
RGB = Image.fromarray(NOISE[:4, :6, :3].copy()).resize(
    (WIDTH, HEIGHT), Image.Resampling.BICUBIC
)
GREY = RGB.convert("L")
PALETTE = RGB.quantize(200)
BITS = GREY.convert("1")
DEEP = Image.fromarray(rng.integers(0, 65536, (HEIGHT, WIDTH), np.uint16))
FRAMES = [
    Image.fromarray(rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8))
    for _ in range(4)
]


def save(image, fmt, **kwargs):
    stream = io.BytesIO()
    image.copy().save(stream, "AVIF" if fmt == "AVIF" else fmt, **kwargs)
    return stream.getvalue()


def save_all(fmt, count, **kwargs):
    stream = io.BytesIO()
    first, *rest = [frame.copy() for frame in FRAMES[:count]]
    first.save(stream, fmt, save_all=True, append_images=rest, **kwargs)
    return stream.getvalue()


def pillow(data, mode="RGB"):
    with Image.open(io.BytesIO(data)) as image:
        pixels = np.asarray(image.convert(mode) if mode else image)
    return pixels if pixels.ndim == 3 else pixels[:, :, None]


def equal(data, mode="RGB", **kwargs):
    """load_image gives Pillow's pixels, to the byte."""
    np.testing.assert_array_equal(
        np.asarray(load_image(data, **kwargs)), pillow(data, mode)
    )


def lossless(image):
    return {"WebP": {"lossless": True, "exact": True}}.get(image, {})


def check_grey(fmt):
    equal(save(GREY, fmt))
    equal(save(GREY, fmt), "L", pix_fmt="gray")


def check_colour(fmt):
    data = save(RGB, fmt)
    equal(data)
    expected = pillow(data)
    np.testing.assert_array_equal(
        load_image(data, pix_fmt="bgr24"), expected[:, :, ::-1]
    )
    rgba = np.asarray(load_image(data, pix_fmt="rgba"))
    assert (rgba[:, :, 3] == 255).all()
    np.testing.assert_array_equal(rgba[:, :, :3], expected)


def check_palette(fmt):
    equal(save(PALETTE, fmt))


def check_bits(fmt):
    equal(save(BITS, fmt))


def check_deep(fmt):
    """16 bits stay, or lose the lower eight."""
    data = save(DEEP, fmt)
    expected = np.asarray(DEEP)[:, :, None]
    np.testing.assert_array_equal(load_image(data, pix_fmt="gray16"), expected)
    np.testing.assert_array_equal(load_image(data, pix_fmt="gray"), expected >> 8)
    wide = load_image(data, pix_fmt="rgb48")
    np.testing.assert_array_equal(wide, np.repeat(expected, 3, 2))


def check_alpha(fmt):
    data = save(RGBA, fmt, **lossless(fmt))
    equal(data, "RGBA", pix_fmt="rgba")
    kept = pillow(data, "RGBA")
    np.testing.assert_array_equal(load_image(data), kept[:, :, :3])
    under = Image.new("RGB", RGBA.size, (10, 200, 77))
    picture = Image.fromarray(kept)
    under.paste(picture.convert("RGB"), mask=picture.getchannel("A"))
    np.testing.assert_array_equal(load_image(data, background=(10, 200, 77)), under)
    # Resized with alpha multiplied in, as in Pillow.
    small = picture.resize((20, 9), Image.Resampling.BICUBIC)
    loaded = load_image(data, pix_fmt="rgba", width=20, height=9, scale_mode=None)
    np.testing.assert_array_equal(loaded, small)


def check_cmyk(fmt):
    equal(save(RGB.convert("CMYK"), fmt))


def check_lossless(fmt):
    data = save(RGB, fmt, **lossless(fmt))
    np.testing.assert_array_equal(load_image(data), RGB)


def check_lossy(fmt):
    equal(save(RGB, fmt))


def check_interlaced(fmt):
    how = {"JPEG": {"progressive": True}, "GIF": {"interlace": True}}.get(fmt, {})
    data = (
        interlaced_png()
        if fmt == "PNG"
        else save(PALETTE if fmt == "GIF" else RGB, fmt, **how)
    )
    equal(data)


def interlaced_png():
    """Pillow writes none: the seven passes by hand, without filters."""
    pixels = np.asarray(RGB)
    passes = [
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ]
    rows = b""
    for x, y, across, down in passes:
        part = pixels[y::down, x::across]
        rows += b"".join(b"\0" + row.tobytes() for row in part if row.size)

    def chunk(name, body):
        return (
            struct.pack(">I", len(body))
            + name
            + body
            + struct.pack(">I", zlib.crc32(name + body))
        )

    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 1)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def check_frames(fmt):
    # Of more than two pictures Pillow 13 writes wrong offsets into an MPO.
    count = 2 if fmt == "JPEG" else 4
    data = save_all("MPO" if fmt == "JPEG" else fmt, count)
    with Image.open(io.BytesIO(data)) as image:
        frames = [np.asarray(f.convert("RGB")) for f in ImageSequence.Iterator(image)]
    expected = np.stack(frames)
    assert len(expected) == count
    np.testing.assert_array_equal(load_image_frames(data), expected)
    np.testing.assert_array_equal(load_image(data, frame=count - 1), expected[-1])
    np.testing.assert_array_equal(load_image(data), expected[0])
    assert image_info(data).frames == count
    with pytest.raises(ValueError, match=f"frame {count} of a .* that has {count}"):
        load_image(data, frame=count)
    with pytest.raises(LimitError, match=f"the limit is {count - 1} frames"):
        load_image_frames(data, limits=ImageLimits(frames=count - 1))


def check_orientation(fmt):
    for number in range(1, 9):
        exif = Image.Exif()
        exif[0x112] = number
        data = save(RGB, fmt, exif=exif)
        with Image.open(io.BytesIO(data)) as image:
            # Pillow turns a TIFF as it reads it.
            stored = np.asarray(RGB if fmt == "TIFF" else image.convert("RGB"))
            shown = ImageOps.exif_transpose(image).convert("RGB")
        np.testing.assert_array_equal(load_image(data), shown)
        np.testing.assert_array_equal(load_image(data, orientation="ignore"), stored)
        small = shown.resize((20, 11), Image.Resampling.BICUBIC)
        loaded = load_image(data, width=20, height=11, scale_mode=None, exact=True)
        np.testing.assert_array_equal(loaded, small)
        info = image_info(data)
        assert (info.width, info.height, info.orientation) == (*shown.size, number)
        info = image_info(data, orientation="ignore")
        assert (info.width, info.height) == (WIDTH, HEIGHT)


def make_profile():
    """A profile with gamma 1 and the primaries of Rec. 2020, made of tags by hand."""

    def fixed(value):
        return struct.pack(">i", round(value * 65536))

    def xyz(*values):
        return b"XYZ \0\0\0\0" + b"".join(map(fixed, values))

    text = b"desc\0\0\0\0" + struct.pack(">I", 5) + b"wide\0" + bytes(78)
    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, 256) + b"\0\0"  # gamma 1.0
    tags = {
        b"desc": text,
        b"cprt": b"text\0\0\0\0none\0\0\0\0",
        b"wtpt": xyz(0.9642, 1.0, 0.8249),
        b"rXYZ": xyz(0.6734, 0.2790, -0.0019),
        b"gXYZ": xyz(0.1656, 0.6753, 0.0299),
        b"bXYZ": xyz(0.1251, 0.0456, 0.7969),
        b"rTRC": curve,
        b"gTRC": curve,
        b"bTRC": curve,
    }
    body = b""
    table = struct.pack(">I", len(tags))
    at = 128 + 4 + 12 * len(tags)
    for name, data in tags.items():
        data += bytes(-len(data) % 4)
        table += name + struct.pack(">II", at + len(body), len(data))
        body += data
    size = at + len(body)
    header = struct.pack(
        ">I4sI4s4s4s", size, b"lcms", 0x02400000, b"mntr", b"RGB ", b"XYZ "
    )
    header += (
        bytes(12) + b"acsp" + bytes(28) + fixed(0.9642) + fixed(1.0) + fixed(0.8249)
    )
    return header.ljust(128, b"\0") + table + body


def check_profile(fmt):
    profile = make_profile()
    data = save(RGB, fmt, icc_profile=profile, **lossless(fmt))
    with Image.open(io.BytesIO(data)) as image:
        converted = ImageCms.profileToProfile(
            image.convert("RGB"),
            ImageCms.ImageCmsProfile(io.BytesIO(profile)),
            ImageCms.createProfile("sRGB"),
            renderingIntent=ImageCms.Intent.PERCEPTUAL,
        )
    got = np.asarray(load_image(data, icc="srgb")).astype(int)
    # Two builds of Little CMS: they round differently.
    assert np.abs(got - np.asarray(converted)).max() <= 1
    assert np.abs(got - pillow(data).astype(int)).max() > 20  # it did something
    equal(data)
    assert image_info(data).has_icc
    assert not image_info(save(RGB, fmt)).has_icc


def check_inks(fmt):
    profile = ink_profile()
    data = save(RGB.convert("CMYK"), fmt, icc_profile=profile)
    with Image.open(io.BytesIO(data)) as image:
        converted = ImageCms.profileToProfile(
            image,
            ImageCms.ImageCmsProfile(io.BytesIO(profile)),
            ImageCms.createProfile("sRGB"),
            renderingIntent=ImageCms.Intent.PERCEPTUAL,
            outputMode="RGB",
        )
    got = np.asarray(load_image(data, icc="srgb")).astype(int)
    assert np.abs(got - np.asarray(converted)).max() <= 1
    equal(data)


def check_info(fmt):
    info = image_info(save(PALETTE if fmt == "GIF" else RGB, fmt))
    assert info[:5] == (WIDTH, HEIGHT, fmt, 3, 8)
    assert info[5:] == (1, 1, False)


def check_compressions(fmt):
    """What the format's encoders can do, but for what has a row of its own."""
    for options in COMPRESSIONS[fmt]:
        fax = options.get("compression") in {"group3", "group4", "ccitt"}
        equal(save(BITS if fax else RGB, fmt, **options))


COMPRESSIONS = {
    "JPEG": [
        {"quality": quality, "subsampling": subsampling, "optimize": optimize}
        for quality in (1, 60, 100)
        for subsampling in (0, 1, 2)
        for optimize in (False, True)
    ],
    "PNG": [{"compress_level": level} for level in (0, 1, 9)],
    "WebP": [{"quality": quality, "method": 4} for quality in (1, 60, 100)],
    "TIFF": [
        {"compression": name}
        for name in (
            *("raw", "packbits", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate"),
            *("lzma", "zstd", "jpeg", "group3", "group4", "ccitt"),
        )
    ],
    "AVIF": [
        {"quality": 80, "subsampling": sampling, "speed": 8}
        for sampling in ("4:4:4", "4:2:2", "4:2:0")
    ],
}


def check_encoded(fmt):
    for mode in ["L", "RGB"] + (["RGBA"] if fmt != "JPEG" else []):
        image = RGBA.convert(mode)
        data = encode_image(
            np.asarray(image), format=fmt.lower(), quality=80, lossless=fmt == "WebP"
        )
        with Image.open(io.BytesIO(bytes(data))) as back:
            assert back.format == fmt.upper()
            if fmt != "JPEG":
                np.testing.assert_array_equal(back.convert(mode), image)
        if fmt == "JPEG":
            assert bytes(data) == save(image, "JPEG", quality=80)


def alike(check):
    """A property of image_checks.py, of a picture in colour."""

    def run(fmt):
        check(fmt, save(PALETTE if fmt == "GIF" else RGB, fmt))

    return run


ALL = " ".join(FORMATS)
CHECKS = {
    "grey": (check_grey, "JPEG PNG BMP TIFF"),
    "colour": (check_colour, "JPEG PNG WebP BMP TIFF AVIF"),
    "palette": (check_palette, "PNG GIF BMP TIFF"),
    "1 bit": (check_bits, "PNG GIF BMP TIFF"),
    "16 bits": (check_deep, "PNG TIFF"),
    "alpha": (check_alpha, "PNG WebP BMP TIFF AVIF"),
    "CMYK": (check_cmyk, "JPEG TIFF"),
    "lossless": (check_lossless, "PNG WebP BMP TIFF"),
    "compressions, samplings": (check_compressions, "JPEG PNG WebP TIFF AVIF"),
    "progressive, interlaced": (check_interlaced, "JPEG PNG GIF"),
    "frames, pages": (check_frames, "JPEG PNG WebP GIF TIFF AVIF"),
    "orientation": (check_orientation, "JPEG PNG WebP TIFF AVIF"),
    "profile to sRGB": (check_profile, "JPEG PNG WebP TIFF AVIF"),
    "profile of CMYK": (check_inks, "JPEG TIFF"),
    "`image_info`": (check_info, ALL),
    "each `pix_fmt`": (alike(image_checks.check_pix_fmts), ALL),
    "`layout`, `dtype`, `mean`, `std`": (alike(image_checks.check_forms), ALL),
    "`scale_mode`": (alike(image_checks.check_resize), ALL),
    "`crop`, `flip`, given and drawn": (alike(image_checks.check_crops), ALL),
    "`out`": (alike(image_checks.check_out), ALL),
    "any number of threads": (alike(image_checks.check_pipeline), ALL),
    "cut off: an error": (alike(image_checks.check_cut_off), ALL),
    "`allow_truncated`": (
        alike(image_checks.check_rows_kept),
        "JPEG PNG WebP GIF BMP TIFF",
    ),
    "damaged": (alike(image_checks.check_damage), ALL),
    "`limits`": (alike(image_checks.check_limits), ALL),
    "bombs": (alike(image_checks.check_bomb), ALL),
    "`encode_image`": (check_encoded, "JPEG PNG WebP"),
}
CELLS = [(name, fmt) for name, (_, fmts) in CHECKS.items() for fmt in fmts.split()]
passed = set()
guard = threading.Lock()


@pytest.mark.parametrize(("name", "fmt"), CELLS)
def test_cell(name, fmt):
    CHECKS[name][0](fmt)
    with guard:
        passed.add((name, fmt))


def table():
    lines = [
        "# Formats and properties",
        "",
        "Each mark is a test of `tests/python/test_image_formats.py` against Pillow,",
        "NumPy or known pixels. Tests write this page (HEADRACE_WRITE_TABLE=1)",
        "and fail when it shows other marks than those of the tests that passed. Where",
        "there is none, the format has no such thing, or headrace does not do it;",
        "[images.md](images.md) has the rules. `make sheet` makes the picture below.",
        "",
        "| | " + " | ".join(FORMATS) + " |",
        "| --- |" + " :---: |" * len(FORMATS),
    ]
    for name in CHECKS:
        marks = ["✓" if (name, fmt) in passed else "" for fmt in FORMATS]
        lines.append(f"| {name} | " + " | ".join(marks) + " |")
    lines += ["", "![A house, a sun and a tree, in each format](image-sheet.webp)"]
    return "\n".join(lines) + "\n"


def test_the_table_shows_what_was_tested():
    if passed != set(CELLS):
        pytest.skip("not all cells were tested in this run, or not all passed")
    if os.environ.get("HEADRACE_WRITE_TABLE"):
        TABLE.write_text(table())
    assert TABLE.read_text() == table()
