"""Files made by hand, for what Pillow does not write, with the pixels worked out."""

import io
import struct

import numpy as np
import pytest
from PIL import Image, ImageSequence

from headrace.errors import FormatError, LimitError, UnsupportedError
from headrace.io import ImageLimits, image_info, load_image, load_image_frames

R, G, B, K = (255, 0, 0), (0, 255, 0), (0, 0, 255), (0, 0, 0)


# ---- GIF ----


def gif(width, height, *frames):
    """frames: (left, top, rows of indices, disposal, transparent index or None)."""
    out = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x81, 0, 0)
    out += bytes(R + G + B + K)
    for left, top, rows, disposal, transparent in frames:
        flags = disposal << 2 | (transparent is not None)
        out += b"\x21\xf9\x04" + struct.pack("<BHBB", flags, 0, transparent or 0, 0)
        out += b"," + struct.pack("<HHHHB", left, top, len(rows[0]), len(rows), 0)
        # Codes of 3 bits, each pixel its own: 4 clears the table before it grows.
        codes = []
        for index in [i for row in rows for i in row]:
            codes += [4, index]
        bits = "".join(f"{code:03b}"[::-1] for code in [*codes, 5])
        bits += "0" * (-len(bits) % 8)
        data = bytes(int(bits[i : i + 8][::-1], 2) for i in range(0, len(bits), 8))
        out += b"\x02" + bytes([len(data)]) + data + b"\0"
    return out + b";"


def test_gif_disposal():
    data = gif(
        *(3, 1),
        (0, 0, [[0, 1, 2]], 1, None),  # R G B, stays
        (1, 0, [[0]], 2, None),  # R R B, then the middle is cleared
        (0, 0, [[2]], 3, None),  # B - B, then taken back
        (2, 0, [[1]], 1, None),  # R - G
    )
    clear = (0, 0, 0, 0)
    opaque = [(*c, 255) for c in (R, G, B)]
    r, g, b = opaque
    expected = [[[r, g, b]], [[r, r, b]], [[b, clear, b]], [[r, clear, g]]]
    frames = load_image_frames(data, pix_fmt="rgba")
    assert np.asarray(frames).tolist() == np.array(expected).tolist()
    assert np.asarray(load_image(data, frame=3))[0].tolist() == [[*R], [*K], [*G]]


def test_gif_transparency_keeps_what_is_there():
    data = gif(2, 1, (0, 0, [[0, 1]], 1, None), (0, 0, [[3, 2]], 1, 3))
    frames = np.asarray(load_image_frames(data))
    assert frames[1].tolist() == [[[*R], [*B]]]


def test_gif_frames_are_cut_at_the_screen():
    data = gif(2, 2, (1, 1, [[0, 1], [2, 3]], 1, None))
    picture = np.asarray(load_image(data, pix_fmt="rgba"))
    assert picture[1, 1].tolist() == [*R, 255]
    assert picture.reshape(-1, 4)[:3].tolist() == [[0, 0, 0, 0]] * 3


def test_gif_of_many_frames_is_refused():
    data = gif(1, 1, *[(0, 0, [[0]], 1, None)] * 10_001)
    assert image_info(data).frames == 10_001
    with pytest.raises(LimitError, match="of 10001 frames, the limit is 10000 frames"):
        load_image_frames(data)
    loaded = load_image_frames(data, limits=ImageLimits(frames=10_001))
    assert loaded.shape == (10_001, 1, 1, 3)


# ---- APNG, which Pillow writes ----


def apng(frames, **kwargs):
    stream = io.BytesIO()
    first, *rest = frames
    first.save(stream, "PNG", save_all=True, append_images=rest, **kwargs)
    return stream


@pytest.mark.parametrize(
    ("disposal", "blend"), [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)]
)
def test_apng_disposal_and_blending(disposal, blend):
    rng = np.random.default_rng(10 * disposal + blend)
    pixels = rng.integers(0, 256, (4, 9, 11, 4), np.uint8)
    # Pillow mixes alpha itself by alpha, so only the extremes can be compared.
    pixels[..., 3] = rng.choice([0, 255], pixels.shape[:3])
    stream = apng(map(Image.fromarray, pixels), disposal=disposal, blend=blend)
    loaded = np.asarray(load_image_frames(stream.getvalue(), pix_fmt="rgba"))
    with Image.open(stream) as image:
        shown = [np.asarray(f.convert("RGBA")) for f in ImageSequence.Iterator(image)]
    assert len(shown) == 4
    seen = np.stack(shown)[..., 3] > 0
    np.testing.assert_array_equal(loaded[seen], np.stack(shown)[seen])
    np.testing.assert_array_equal(loaded[..., 3] > 0, seen)


def test_apng_frame_that_is_taken_back():
    """The second frame's rectangle is again what it was before that frame."""
    clear = (0, 0, 0, 0)
    rows = [[(*R, 255), (*R, 255)], [(*G, 255), clear], [clear, (*B, 255)]]
    frames = [Image.fromarray(np.array([row], np.uint8)) for row in rows]
    stream = apng(frames, disposal=[0, 2, 0], blend=[0, 1, 1])
    loaded = np.asarray(load_image_frames(stream.getvalue()))
    assert loaded[:, 0].tolist() == [[[*R], [*R]], [[*G], [*R]], [[*R], [*B]]]


def test_apng_translucent_over_opaque():
    """(255 * 128 + 0 * 127) / 255 of red, (0 * 128 + 255 * 127) / 255 of blue."""
    frames = [
        Image.new("RGBA", (1, 2), (*B, 255)),
        Image.new("RGBA", (1, 2), (*R, 128)),
    ]
    loaded = load_image_frames(apng(frames, blend=1).getvalue(), pix_fmt="rgba")
    assert np.asarray(loaded)[1, 0, 0].tolist() == [128, 0, 127, 255]


def test_apng_default_picture_outside_of_the_animation():
    first = Image.new("RGB", (2, 2), R)
    rest = [Image.new("RGB", (2, 2), G), Image.new("RGB", (2, 2), B)]
    stream = apng([first, *rest], default_image=True)
    frames = np.asarray(load_image_frames(stream.getvalue()))
    assert frames[:, 0, 0].tolist() == [[*R], [*G], [*B]]


# ---- BMP ----


def bmp(width, height, bits, compression, rows, *, palette=b"", masks=b"", core=False):
    at = 14 + (12 if core else 40) + len(masks) + len(palette)
    head = b"BM" + struct.pack("<IHHI", at + len(rows), 0, 0, at)
    if core:
        head += struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        used = len(palette) // 4
        sizes = (compression, len(rows), 0, 0, used, 0)
        head += struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, *sizes)
    return head + masks + palette + rows


COLOURS = [R, G, B, K]
PALETTE = b"".join(bytes((b, g, r, 0)) for r, g, b in COLOURS)


def check(data, expected):
    assert np.asarray(load_image(data)).tolist() == np.array(expected).tolist()


def test_bmp_bottom_up_and_top_down():
    rows = b"\0\0\xff\0" + b"\0\xff\0\0"  # red, green: BGR, padded to 4
    check(bmp(1, 2, 24, 0, rows), [[G], [R]])
    check(bmp(1, -2, 24, 0, rows), [[R], [G]])


def test_bmp_of_two_bits():
    check(bmp(4, 1, 2, 0, b"\x1b\0\0\0", palette=PALETTE), [[R, G, B, K]])


def test_bmp_run_lengths():
    # Row 0 (the lowest): 3 x G, then B and R literally. A step over row 1 to (2, 2).
    data = bytes([3, 1, 0, 3, 2, 0, 1, 0]) + bytes([0, 0]) + bytes([0, 2, 2, 1])
    data += bytes([1, 2, 0, 1])
    check(
        bmp(6, 3, 8, 1, data, palette=PALETTE),
        [[R, R, B, R, R, R], [R] * 6, [G, G, G, B, R, G]],
    )
    data = bytes([5, 0x12, 0, 3, 0x01, 0x20, 0, 1])
    check(bmp(8, 1, 4, 2, data, palette=PALETTE), [[G, B, G, B, G, R, G, B]])


def test_bmp_masks():
    masks = struct.pack("<III", 0xF800, 0x07E0, 0x001F)
    row = struct.pack("<HH", 0xF800 | 0x001F, 16 << 5)  # magenta; green 16 of 63
    check(bmp(2, 1, 16, 3, row, masks=masks), [[(255, 0, 255), (0, 16 * 255 // 63, 0)]])
    row = struct.pack("<HH", 31 << 10, 3)  # without masks: 5 bits each
    check(bmp(2, 1, 16, 0, row), [[R, (0, 0, 3 * 255 // 31)]])


def test_bmp_of_os2():
    palette = b"".join(bytes((b, g, r)) for r, g, b in COLOURS[:2])
    check(bmp(4, 1, 1, 0, b"\x50\0\0\0", palette=palette, core=True), [[R, G, R, G]])


def test_bmp_that_ends_early():
    rows = b"\0\0\xff\0" * 3
    with pytest.raises(FormatError, match="BMP ends after 3 of 5 rows"):
        load_image(bmp(1, 5, 24, 0, rows))
    kept = load_image(bmp(1, 5, 24, 0, rows), allow_truncated=True)
    assert np.asarray(kept).tolist() == np.array([[K], [K], [R], [R], [R]]).tolist()
    with pytest.raises(UnsupportedError, match="24 bits with compression 4"):
        load_image(bmp(1, 1, 24, 4, rows))


# ---- TIFF ----


def tiff(tags, data, order="<"):
    """tags: number -> (type, values); offsets of data are counted from its start."""
    at = 8 + len(data)
    entries = b""
    extra = b""
    table_size = 2 + 12 * len(tags) + 4
    for number, (kind, values) in sorted(tags.items()):
        code = {3: "H", 4: "I"}[kind]
        if number in {273, 324}:
            values = [v + 8 for v in values]
        packed = struct.pack(f"{order}{len(values)}{code}", *values)
        if len(packed) > 4:
            value = struct.pack(order + "I", at + table_size + len(extra))
            extra += packed
        else:
            value = packed.ljust(4, b"\0")
        entries += struct.pack(order + "HHI", number, kind, len(values)) + value
    mark = b"II*\0" if order == "<" else b"MM\0*"
    head = mark + struct.pack(order + "I", at) + data
    return head + struct.pack(order + "H", len(tags)) + entries + bytes(4) + extra


def base_tags(width, height, bits, photometric, samples):
    return {
        256: (4, [width]),
        257: (4, [height]),
        258: (3, [bits] * samples),
        259: (3, [1]),
        262: (3, [photometric]),
        277: (3, [samples]),
    }


PICTURE = np.random.default_rng(4).integers(0, 256, (20, 37, 3), np.uint8)


def test_tiff_tiles():
    tags = base_tags(37, 20, 8, 2, 3)
    padded = np.zeros((32, 48, 3), np.uint8)
    padded[:20, :37] = PICTURE
    tiles = [
        padded[y : y + 16, x : x + 16].tobytes() for y in (0, 16) for x in (0, 16, 32)
    ]
    size = len(tiles[0])
    tags |= {322: (4, [16]), 323: (4, [16])}
    tags |= {324: (4, [i * size for i in range(6)]), 325: (4, [size] * 6)}
    check(tiff(tags, b"".join(tiles)), PICTURE)


@pytest.mark.parametrize("order", "<>")
def test_tiff_planes_of_sixteen_bits(order):
    wide = PICTURE.astype(np.uint16) * 255 + 7
    tags = base_tags(37, 20, 16, 2, 3)
    planes = [wide[:, :, c].astype(order + "u2").tobytes() for c in range(3)]
    size = len(planes[0])
    tags |= {284: (3, [2]), 278: (4, [20])}
    tags |= {273: (4, [0, size, 2 * size]), 279: (4, [size] * 3)}
    data = tiff(tags, b"".join(planes), order)
    np.testing.assert_array_equal(load_image(data, pix_fmt="rgb48"), wide)
    np.testing.assert_array_equal(load_image(data), wide >> 8)
    assert image_info(data)[3:5] == (3, 16)


def strip(tags, data):
    return tiff(tags | {273: (4, [0]), 279: (4, [len(data)])}, data)


def test_tiff_where_white_is_nought():
    data = strip(base_tags(4, 1, 2, 0, 1), b"\x1b")  # 0 1 2 3
    check(data, [[(255,) * 3, (170,) * 3, (85,) * 3, (0,) * 3]])


def test_tiff_with_alpha_in_its_colours():
    tags = base_tags(2, 1, 8, 2, 4) | {338: (3, [1])}
    data = strip(tags, bytes([50, 20, 0, 100, 0, 0, 0, 0]))
    expected = [[[50 * 255 // 100, 20 * 255 // 100, 0, 100], [0, 0, 0, 0]]]
    assert np.asarray(load_image(data, pix_fmt="rgba")).tolist() == expected


def test_tiff_kinds_that_are_refused():
    tags = base_tags(1, 1, 32, 1, 1)
    with pytest.raises(UnsupportedError, match="sample format 3 is not supported"):
        load_image(strip(tags | {339: (3, [3])}, bytes(4)))
    with pytest.raises(UnsupportedError, match="a sample depth of 32"):
        load_image(strip(tags, bytes(4)))
    with pytest.raises(UnsupportedError, match="compression 6 is not supported"):
        load_image(strip(base_tags(1, 1, 8, 1, 1) | {259: (3, [6])}, bytes(4)))


def test_tiff_pages_of_two_sizes():
    first, second = Image.new("RGB", (4, 3), R), Image.new("RGB", (5, 3), G)
    stream = io.BytesIO()
    first.save(stream, "TIFF", save_all=True, append_images=[second])
    data = stream.getvalue()
    with pytest.raises(UnsupportedError, match="frame 1 has 5 x 3 pixels, the first 4"):
        load_image_frames(data)
    assert load_image(data, frame=1).shape == (3, 5, 3)
    frames = load_image_frames(data, width=2, height=2, scale_mode=None)
    assert np.asarray(frames)[:, 0, 0].tolist() == [[*R], [*G]]


def test_tiff_sizes_are_refused_before_memory_is_spent():
    tags = base_tags(60_000, 60_000, 8, 2, 3)
    with pytest.raises(LimitError, match="of 60000 x 60000 pixels, the limit is"):
        load_image(strip(tags, bytes(4)))
