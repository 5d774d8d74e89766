"""Pictures that are cut off or damaged: errors that say how far it went, and what is
kept of them with allow_truncated."""

import io
import re
import zlib

import numpy as np
import pytest
from image_kit import FORMATS, encode, frames, marker, pillow, put, waves
from PIL import Image, ImageFile

from headrace.errors import FormatError, HeadraceError
from headrace.io import load_image, load_image_batch, load_image_frames

WIDTH, HEIGHT = 160, 120
NOISE = np.random.default_rng(11).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
OPTIONS = {
    "JPEG": {"quality": 90, "subsampling": 0},
    "WebP": {"lossless": True},
    "GIF": {"interlace": False},
}
PICTURES = {fmt: encode(NOISE, fmt, **OPTIONS.get(fmt, {})) for fmt in FORMATS}
# Not all of it can be had before the last byte.
KEEPS = [fmt for fmt in FORMATS if fmt != "AVIF"]


def rows_in(text: str) -> int:
    return int(re.search(r"after (\d+) of 120 rows", text)[1])


def check_kept(fmt: str, part: bytes) -> int:
    """The error tells of as many rows as allow_truncated gives, with right pixels."""
    with pytest.raises(FormatError, match=r"after \d+ of 120 rows") as caught:
        load_image(part)
    kept = load_image(part, allow_truncated=True)
    (cut,) = kept.truncated
    assert (cut.index, cut.name, cut.reason) == (0, "<bytes>", str(caught.value))
    rows = rows_in(cut.reason)
    pixels, whole = np.asarray(kept), pillow(PICTURES[fmt])
    if fmt == "BMP":  # from below
        pixels, whole = pixels[::-1], whole[::-1]
    np.testing.assert_array_equal(pixels[:rows], whole[:rows])
    assert not pixels[rows:].any()
    return rows


@pytest.mark.parametrize("fmt", KEEPS)
@pytest.mark.parametrize("share", [0.35, 0.5, 0.8, 0.97])
def test_rows_of_a_picture_that_is_cut(fmt: str, share: float) -> None:
    data = PICTURES[fmt]
    rows = check_kept(fmt, data[: int(len(data) * share)])
    # Rows of noise take about the same bytes each; WebP's header has its codes.
    assert HEIGHT * share * (0.3 if fmt == "WebP" else 0.6) < rows <= HEIGHT * share + 1


@pytest.mark.parametrize("fmt", ["BMP", "TIFF"])
def test_exact_rows_of_what_is_stored_plainly(fmt: str) -> None:
    """A row takes 480 bytes. Pillow's TIFF has its table first; strips of 17 rows."""
    data = PICTURES[fmt]
    start = 54 if fmt == "BMP" else data.index(NOISE[0].tobytes())
    for rows in (17, 34, 35, 77, 118):
        for extra in (0, 1, 479):
            part = data[: start + 480 * rows + extra]
            want = rows if fmt == "BMP" else rows // 17 * 17
            assert check_kept(fmt, part) == want


def test_exact_rows_of_a_png() -> None:
    """Stored, a row takes 481 bytes, so that zlib gives no row before its last byte."""
    rows = b"".join(b"\0" + row.tobytes() for row in NOISE)
    head = PICTURES["PNG"][:33]
    for keep in (1, 2, 60, 119):
        stream = zlib.compressobj(0)
        stored = stream.compress(rows[: 481 * keep]) + stream.flush(zlib.Z_SYNC_FLUSH)
        chunk = b"IDAT" + stored
        data = head + len(stored).to_bytes(4) + chunk + zlib.crc32(chunk).to_bytes(4)
        assert check_kept("PNG", data) == keep


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_cut_is_an_error_or_the_whole_picture(fmt: str) -> None:
    """At every length: never made-up pixels, and never another kind of exception."""
    data = encode(waves(40, 30), fmt, **OPTIONS.get(fmt, {}))
    whole = np.asarray(load_image(data))
    for length in range(len(data)):
        try:
            pixels = np.asarray(load_image(data[:length]))
        except HeadraceError as error:
            assert str(error).startswith("image: ")  # noqa: PT017
        else:
            np.testing.assert_array_equal(pixels, whole)
    for length in range(0, len(data), 7):
        try:
            kept = load_image(data[:length], allow_truncated=True)
        except HeadraceError:
            continue
        if not kept.truncated:
            np.testing.assert_array_equal(np.asarray(kept), whole)


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_whole_picture_has_no_flag(fmt: str) -> None:
    kept = load_image(PICTURES[fmt], allow_truncated=True)
    assert kept.truncated == ()
    np.testing.assert_array_equal(kept, load_image(PICTURES[fmt]))


@pytest.mark.parametrize("fmt", KEEPS)
@pytest.mark.parametrize(
    "options",
    [
        {"width": 64, "height": 48, "scale_mode": None},
        {"crop": (0, 0, 120, 80)},
        {"layout": "CHW", "dtype": "float32", "flip": True},
        {"pix_fmt": "gray", "width": 40, "height": 40},
    ],
)
def test_what_is_kept_goes_through_the_rest(fmt: str, options: dict) -> None:
    """As the picture with zeros in place of what is missing."""
    part = PICTURES[fmt][: len(PICTURES[fmt]) // 2]
    kind = {"pix_fmt": options.get("pix_fmt", "rgb24")}
    whole = np.asarray(load_image(part, allow_truncated=True, **kind)).squeeze()
    got = load_image(part, allow_truncated=True, **options)
    assert len(got.truncated) == 1
    want = load_image(encode(whole, "PNG"), **options)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


@pytest.mark.parametrize("fmt", KEEPS)
def test_in_a_batch_the_neighbours_are_untouched(fmt: str) -> None:
    data = PICTURES[fmt]
    sources = [data, data[: len(data) // 2], data]
    size = {"width": WIDTH, "height": HEIGHT}
    with pytest.raises(FormatError, match=r"rows.*\(slot 1, '<bytes>'\)"):
        load_image_batch(sources, **size)
    strict = load_image_batch(sources, **size, strict=False)
    assert [failure.index for failure in strict.failures] == [1]
    assert not np.asarray(strict)[1].any()
    kept = load_image_batch(sources, **size, allow_truncated=True)
    assert [cut.index for cut in kept.truncated] == [1]
    assert kept.failures == ()
    assert np.asarray(kept)[1].any()
    for batch in (strict, kept):
        for slot in (0, 2):
            np.testing.assert_array_equal(np.asarray(batch)[slot], pillow(data))


@pytest.mark.parametrize("fmt", ["AVIF", "animated WebP"])
def test_what_gives_nothing_before_its_end(fmt: str) -> None:
    pictures = [waves(40, 30, i) for i in range(3)]
    data = encode(NOISE, "AVIF") if fmt == "AVIF" else frames("WebP", pictures)
    with pytest.raises(FormatError, match=fmt.rsplit(maxsplit=1)[-1]):
        load_image(data[: len(data) // 2], allow_truncated=True)


# ---- frames ----


def gif_frames(count: int) -> bytes:
    out = io.BytesIO()
    pictures = [
        Image.fromarray(np.roll(NOISE, 7 * i, axis=1)).quantize(200)
        for i in range(count)
    ]
    pictures[0].save(out, "GIF", save_all=True, append_images=pictures[1:], disposal=1)
    return out.getvalue()


def test_a_gif_that_ends_in_its_second_frame() -> None:
    data = gif_frames(3)
    first = data.index(b"\x21\xf9", 30)  # the control of frame 0 or 1
    second = data.index(b"\x21\xf9", first + 1000)
    third = data.index(b"\x21\xf9", second + 1000)
    part = data[: (second + third) // 2]
    with pytest.raises(
        FormatError, match=r"GIF ends after (\d+) of 120 rows of frame 1"
    ):
        load_image(part, frame=1)
    kept = load_image(part, frame=1, allow_truncated=True)
    rows = rows_in(kept.truncated[0].reason)
    assert 30 < rows < 90
    whole = np.asarray(load_image_frames(data))
    pixels = np.asarray(kept)
    np.testing.assert_array_equal(pixels[:rows], whole[1][:rows])
    np.testing.assert_array_equal(pixels[rows:], whole[0][rows:])  # what lay there
    every = load_image_frames(part, allow_truncated=True)
    assert len(every.truncated) == 1
    np.testing.assert_array_equal(np.asarray(every)[0], whole[0])
    np.testing.assert_array_equal(np.asarray(every)[1], pixels)
    # Frame 0 is whole.
    assert load_image(part, allow_truncated=True).truncated == ()


def test_an_interlaced_gif_gives_the_rows_that_it_has() -> None:
    image = Image.fromarray(NOISE).quantize(200)
    data = encode(image, "GIF", interlace=True)
    kept = load_image(data[: len(data) // 3], allow_truncated=True)
    rows = rows_in(kept.truncated[0].reason)
    assert 30 < rows < 50
    # Every eighth row from 0, then from 4, then every fourth from 2, then the others.
    order = [*range(0, 120, 8), *range(4, 120, 8), *range(2, 120, 4), *range(1, 120, 2)]
    pixels, whole = np.asarray(kept), pillow(data)
    np.testing.assert_array_equal(pixels[order[:rows]], whole[order[:rows]])
    assert not pixels[order[rows:]].any()


# ---- damage ----


def test_jpeg_damaged_in_the_middle() -> None:
    """A restart marker out of turn: libjpeg would go on, with grey."""
    data = encode(NOISE, "JPEG", quality=90, subsampling=0, restart_marker_rows=1)
    where = data.index(b"\xff\xd5")  # before row 48
    bad = put(data, where, b"\xff\xd1")
    with pytest.raises(FormatError, match=r"JPEG is damaged after \d+ of 120 rows: "):
        load_image(bad)
    kept = load_image(bad, allow_truncated=True)
    rows = rows_in(kept.truncated[0].reason)
    assert rows in {40, 48}  # 8 rows for each marker
    np.testing.assert_array_equal(np.asarray(kept)[:rows], pillow(data)[:rows])
    assert not np.asarray(kept)[rows:].any()


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("grey", [False, True])
def test_jpeg_damaged_in_its_codes(subsampling: int, grey: bool) -> None:
    """Sixteen ones are no code of the standard tables. libjpeg-turbo takes it for
    zeros and goes on; what it leaves unread gives it away."""
    pixels = NOISE[:, :, 0] if grey else NOISE
    data = encode(pixels, "JPEG", quality=90, subsampling=subsampling)
    scan = marker(data, 0xDA)
    for share in (0.1, 0.3, 0.5, 0.7, 0.9):
        at = scan + 30 + int((len(data) - scan - 120) * share)
        bad = put(data, at, b"\xff\x00" * 40)
        for options in ({}, {"width": 64, "height": 48}, {"crop": (0, 0, 120, 9)}):
            for exact in (False, True):
                with pytest.raises(FormatError, match="JPEG is damaged after"):
                    load_image(bad, exact=exact, **options)
        kept = load_image(bad, allow_truncated=True)
        assert np.asarray(kept).any()
        assert "damaged" in kept.truncated[0].reason


def test_stray_bytes_before_the_end_of_a_jpeg() -> None:
    """Some cameras leave a few; many are left of a picture that was read wrongly."""
    data = encode(NOISE, "JPEG", quality=90)
    assert data[-2:] == b"\xff\xd9"
    for count in (1, 16):
        stray = data[:-2] + bytes(count) + data[-2:]
        for options in ({}, {"width": 64, "height": 48}):
            want = load_image(data, **options)
            np.testing.assert_array_equal(load_image(stray, **options), want)
    stray = data[:-2] + bytes(40) + data[-2:]  # of which libjpeg has read up to 8
    with pytest.raises(
        FormatError, match="damaged after 120 of 120 rows: .* extraneous"
    ):
        load_image(stray)
    kept = load_image(stray, allow_truncated=True)
    np.testing.assert_array_equal(kept, load_image(data))
    assert len(kept.truncated) == 1


def test_png_with_a_wrong_checksum() -> None:
    data = PICTURES["PNG"]
    idat = data.index(b"IDAT")
    length = int.from_bytes(data[idat - 4 : idat])
    bad = put(data, idat + 4 + length, b"\0\0\0\0")
    with pytest.raises(FormatError, match=r"PNG is damaged after \d+ of 120 rows: "):
        load_image(bad)
    flipped = put(
        data, idat + 4 + length // 2, bytes([data[idat + 4 + length // 2] ^ 1])
    )
    with pytest.raises(FormatError, match=r"PNG is damaged after \d+ of 120 rows: "):
        load_image(flipped)


@pytest.mark.parametrize("fmt", FORMATS)
def test_flipped_bits_never_crash(fmt: str) -> None:
    """One bit in each of many places: a picture of that shape, or an error of ours."""
    data = bytearray(encode(waves(40, 30), fmt, **OPTIONS.get(fmt, {})))
    rng = np.random.default_rng(21)
    failed = 0
    for at in rng.integers(0, len(data), 300):
        bit = 1 << int(rng.integers(8))
        data[at] ^= bit
        try:
            load_image(bytes(data), width=16, height=16)
        except HeadraceError as error:
            failed += 1
            assert "<bytes>" in str(error)  # noqa: PT017
        data[at] ^= bit
    assert failed > 0


@pytest.mark.thread_unsafe(reason="changes how Pillow works")
def test_pillow_reads_as_many_rows_of_a_cut_jpeg() -> None:
    """Told to go on, it gives the same pixels down to there."""
    part = PICTURES["JPEG"][: len(PICTURES["JPEG"]) // 2]
    kept = load_image(part, allow_truncated=True)
    rows = rows_in(kept.truncated[0].reason)
    ImageFile.LOAD_TRUNCATED_IMAGES, before = True, ImageFile.LOAD_TRUNCATED_IMAGES
    try:
        want = pillow(part)
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before
    np.testing.assert_array_equal(np.asarray(kept)[:rows], want[:rows])
