"""Pictures against Pillow, byte for byte; failures by kind, with their exact words."""

import errno
import os
import pathlib
import re
import threading
import zlib
from functools import partial

import numpy as np
import pytest
from PIL import Image

from headrace import _ext
from headrace.errors import FormatError, LimitError, SlotFailure
from headrace.io import (
    CenterCrop,
    RandomResizedCrop,
    image_info,
    load_image,
    load_image_batch,
    read_file,
    resize,
    to_numpy,
)
from headrace.pipeline import PipelineBuilder

DATA = pathlib.Path(__file__).parents[1] / "data"
FILTERS = {
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
WHOLE = ["ok.jpg", "gray.jpg", "progressive.jpg", "pal4_trns.png", "jpeg_trailing.jpg"]


def pillow(name):
    with Image.open(DATA / name) as image:
        if "transparency" in image.info:  # Pillow then wants to see alpha, or it warns
            image = image.convert("RGBA")
        return image.convert("RGB")


def same(buffer, expected):
    np.testing.assert_array_equal(to_numpy(buffer), np.asarray(expected))


@pytest.mark.parametrize("name", WHOLE)
def test_decodes_as_pillow_does(name):
    buffer = load_image(DATA / name)
    same(buffer, pillow(name))
    assert not buffer.readonly
    assert buffer.failures == ()


def test_known_pixels():
    assert to_numpy(load_image(DATA / "pal4_trns.png")).tolist() == [
        [[17, 34, 51], [68, 85, 102]]
    ]


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("algo", FILTERS)
def test_decodes_and_stretches_as_pillow_does(name, algo):
    buffer = load_image(
        DATA / name,
        width=224,
        height=101,
        scale_mode=None,
        scale_algo=algo,
        exact=True,
    )
    same(buffer, pillow(name).resize((224, 101), FILTERS[algo]))


load_exactly = partial(load_image, exact=True)


def test_pads_on_black_by_default():
    scaled = pillow("ok.jpg").resize((320, 240), Image.Resampling.BICUBIC)
    expected = Image.new("RGB", (320, 320))
    expected.paste(scaled, (0, 40))
    same(load_exactly(DATA / "ok.jpg", width=320, height=320), expected)
    expected = Image.new("RGB", (400, 240))
    expected.paste(scaled, (40, 0))
    same(load_exactly(DATA / "ok.jpg", width=400, height=240), expected)


def test_crops_centrally():
    scaled = pillow("ok.jpg").resize((320, 240), Image.Resampling.BICUBIC)
    buffer = load_exactly(DATA / "ok.jpg", width=240, height=240, scale_mode="crop")
    same(buffer, scaled.crop((40, 0, 280, 240)))
    buffer = load_exactly(DATA / "ok.jpg", width=320, height=200, scale_mode="crop")
    same(buffer, scaled.crop((0, 20, 320, 220)))


def test_a_side_that_is_not_given_keeps_its_size():
    buffer = load_exactly(DATA / "ok.jpg", width=320, scale_mode=None)
    same(buffer, pillow("ok.jpg").resize((320, 480), Image.Resampling.BICUBIC))
    buffer = load_exactly(DATA / "ok.jpg", height=240, scale_mode=None)
    same(buffer, pillow("ok.jpg").resize((640, 240), Image.Resampling.BICUBIC))


def sources(path):
    data = path.read_bytes()
    return {
        "str": str(path),
        "Path": path,
        "bytes": data,
        "bytearray": bytearray(data),
        "memoryview": memoryview(data)[:],
        "ndarray": np.frombuffer(data, np.uint8),
        "CPUBuffer": read_file(path),
        "bytes path": BytesPath(path),
    }


class BytesPath(os.PathLike):
    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return os.fsencode(self.path)


def test_every_kind_of_source():
    path = DATA / "ok.jpg"
    expected = pillow("ok.jpg")
    for kind, source in sources(path).items():
        assert np.array_equal(to_numpy(load_image(source)), expected), kind
    batch = load_image_batch(
        list(sources(path).values()), width=320, height=240, exact=True
    )
    scaled = np.asarray(expected.resize((320, 240), Image.Resampling.BICUBIC))
    same(batch, np.stack([scaled] * len(sources(path))))


@pytest.mark.parametrize("name", ["plain.jpg", "grün 図.jpg", "raw\udcff\udc80.jpg"])
def test_every_kind_of_path(tmp_path, name):
    path = tmp_path / name
    path.write_bytes((DATA / "ok.jpg").read_bytes())
    for source in [path, str(path), BytesPath(path)]:
        same(load_image(source), pillow("ok.jpg"))
        assert bytes(read_file(source)) == path.read_bytes()


OK = (DATA / "ok.jpg").read_bytes()


@pytest.mark.parametrize(
    ("src", "name", "text"),
    [
        (DATA / "html.jpg", "a", "image: not an image (looks like HTML) ('a')"),
        (DATA / "zero.jpg", "a", "image: empty input ('a')"),
        (
            # Pillow, told to go on, shows the whole picture's pixels down to row 270.
            DATA / "truncated.jpg",
            "a",
            "image: JPEG ends after 270 of 480 rows ('a')",
        ),
        (b"", None, "image: empty input ('<bytes>')"),
        (b"hello world", None, "image: not an image (looks like text) ('<bytes>')"),
        (OK[:200], None, "image: JPEG ends in its header ('<bytes>')"),
        (b"", "bild é", "image: empty input ('bild é')"),
    ],
)
def test_bad_data_says_what_was_found(src, name, text):
    with pytest.raises(FormatError) as caught:
        load_image(src, name=name)
    assert str(caught.value) == text


def test_the_path_names_the_picture():
    path = str(DATA / "zero.jpg")
    with pytest.raises(FormatError) as caught:
        load_image(path)
    assert str(caught.value) == f"image: empty input ('{path}')"


@pytest.mark.parametrize("function", [load_image, read_file])
def test_files_that_cannot_be_read(function, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        function("none")
    assert caught.value.errno == errno.ENOENT
    assert caught.value.strerror == (
        "file: cannot open 'none': No such file or directory"
    )
    with pytest.raises(NotADirectoryError):
        function(DATA / "ok.jpg" / "none")
    with pytest.raises(FormatError, match=r"is a directory, expected a regular file"):
        function(".")
    os.mkfifo("fifo")
    with pytest.raises(FormatError, match=r"is a FIFO, expected a regular file"):
        function("fifo")


def test_a_path_that_is_no_text_is_escaped_in_messages(tmp_path):
    path = tmp_path / "raw\udcff.jpg"
    with pytest.raises(FileNotFoundError, match=r"raw\\xff\.jpg"):
        load_image(path)


def test_read_file(tmp_path):
    path = tmp_path / "data"
    for content in [b"", b"a", bytes(range(256)) * 300]:
        path.write_bytes(content)
        buffer = read_file(path)
        assert bytes(buffer) == content
        assert (buffer.shape, buffer.dtype) == ((len(content),), "uint8")
    with pytest.raises(
        TypeError, match=r"^path must be a str or os.PathLike, not bytes"
    ):
        read_file(b"data")


@pytest.mark.parametrize(
    ("image", "error", "text"),
    [
        (
            np.zeros((3, 3, 5), np.uint8),
            ValueError,
            "resize: expected 1 to 4 channels, got 5",
        ),
        (
            np.zeros(3, np.uint8),
            ValueError,
            "resize: expected (H, W), (H, W, C) or (N, H, W, C), got 1 dimensions",
        ),
        (
            np.zeros((3, 3), np.float32),
            TypeError,
            "resize: expected uint8 pixels, got float32",
        ),
    ],
)
def test_what_cannot_be_resized(image, error, text):
    with pytest.raises(error) as caught:
        resize(image, width=3, height=3)
    assert str(caught.value) == text


class TestResize:
    """resize equals Pillow's Image.resize."""

    @pytest.mark.parametrize("algo", FILTERS)
    def test_random_sizes(self, algo):
        rng = np.random.default_rng(20)
        for _ in range(25):
            h, w, height, width = (int(n) for n in rng.integers(1, 90, 4))
            image = rng.integers(0, 256, (h, w, 3), np.uint8)
            expected = Image.fromarray(image).resize((width, height), FILTERS[algo])
            same(resize(image, width=width, height=height, scale_algo=algo), expected)

    @pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB"), (4, "RGBX")])
    def test_channels(self, channels, mode):
        rng = np.random.default_rng(channels)
        image = rng.integers(0, 256, (37, 53, channels), np.uint8)
        pixels = image[:, :, 0] if channels == 1 else image
        picture = Image.frombytes(mode, (53, 37), pixels.tobytes())
        expected = np.asarray(picture.resize((20, 31), Image.Resampling.BICUBIC))
        expected = expected.reshape(31, 20, channels)
        same(resize(image, width=20, height=31), expected)

    def test_every_shape(self):
        rng = np.random.default_rng(9)
        batch = rng.integers(0, 256, (5, 30, 40, 3), np.uint8)
        each = [np.asarray(resize(image, width=17, height=23)) for image in batch]
        same(resize(batch, width=17, height=23), np.stack(each))
        grey = np.ascontiguousarray(batch[0, :, :, 0])
        picture = Image.fromarray(grey).resize((17, 23), Image.Resampling.BICUBIC)
        same(resize(grey, width=17, height=23), picture)

    def test_a_loaded_picture(self):
        buffer = resize(load_image(DATA / "ok.jpg"), width=64, height=48)
        same(buffer, pillow("ok.jpg").resize((64, 48), Image.Resampling.BICUBIC))

    def test_a_read_only_picture(self):
        data = pillow("ok.jpg").tobytes()
        image = np.frombuffer(data, np.uint8).reshape(480, 640, 3)
        buffer = resize(image, width=64, height=48)
        same(buffer, pillow("ok.jpg").resize((64, 48), Image.Resampling.BICUBIC))
        assert not buffer.readonly


class TestBatch:
    """load_image_batch: slots in the order of their sources, failures listed."""

    def test_equals_single_loads(self):
        names = ["ok.jpg", "gray.jpg", "progressive.jpg", "pal4_trns.png"]
        for mode in ["pad", "crop", None]:
            batch = load_image_batch(
                [DATA / n for n in names], width=61, height=47, scale_mode=mode
            )
            each = [
                np.asarray(load_image(DATA / n, width=61, height=47, scale_mode=mode))
                for n in names
            ]
            same(batch, np.stack(each))
            assert batch.failures == ()

    def test_failed_slots_are_zero_and_listed(self):
        srcs = [DATA / "ok.jpg", DATA / "html.jpg", b"", "missing.jpg", DATA / "ok.jpg"]
        batch = load_image_batch(srcs, width=64, height=48, strict=False, exact=True)
        good = pillow("ok.jpg").resize((64, 48), Image.Resampling.BICUBIC)
        zero = np.zeros((48, 64, 3), np.uint8)
        same(batch, np.stack([good, zero, zero, zero, good]))
        assert [(f.index, f.name) for f in batch.failures] == [
            (1, str(DATA / "html.jpg")),
            (2, "<bytes>"),
            (3, "missing.jpg"),
        ]
        for failure in batch.failures:
            assert isinstance(failure, SlotFailure)
        missing = "file: cannot open 'missing.jpg': No such file or directory (slot 3)"
        assert [f.reason for f in batch.failures] == [
            f"image: not an image (looks like HTML) (slot 1, '{DATA / 'html.jpg'}')",
            "image: empty input (slot 2, '<bytes>')",
            missing,
        ]
        assert repr(batch).endswith("dtype='uint8', failed slots: 3)")
        assert hash(batch.failures) == hash(batch.failures)

    def test_strict_raises_for_the_first_failed_slot(self):
        srcs = [DATA / "ok.jpg", DATA / "zero.jpg", "missing.jpg"]
        with pytest.raises(FormatError) as caught:
            load_image_batch(srcs, width=64, height=48)
        assert str(caught.value) == f"image: empty input (slot 1, '{srcs[1]}')"
        with pytest.raises(FileNotFoundError):
            load_image_batch(srcs[::2], width=64, height=48)

    def test_all_slots_may_fail(self):
        batch = load_image_batch([b"", b"x"], width=3, height=2, strict=False)
        assert not to_numpy(batch).any()
        assert [f.index for f in batch.failures] == [0, 1]

    def test_a_name_that_is_no_text(self, tmp_path):
        path = tmp_path / "raw\udcff.jpg"
        path.write_bytes(b"")
        batch = load_image_batch([path], width=3, height=2, strict=False)
        assert os.path.basename(batch.failures[0].name) == "raw\udcff.jpg"
        batch.failures[0].reason.encode()


def test_ops_give_what_the_functions_give():
    path = DATA / "ok.jpg"
    kwargs = {"width": 50, "height": 40, "scale_mode": "crop", "scale_algo": "box"}
    op = load_image.__headrace_op__(**kwargs)
    same(op(path), load_image(path, **kwargs))
    op = load_image_batch.__headrace_op__(**kwargs, strict=False)
    batch = op([path, b"", path])
    expected = load_image_batch([path, b"", path], **kwargs, strict=False)
    same(batch, expected)
    assert batch.failures == expected.failures
    image = load_image(path)
    op = resize.__headrace_op__(width=50, height=40)
    same(op(image), resize(image, width=50, height=40))
    assert bytes(read_file.__headrace_op__()(path)) == path.read_bytes()
    with pytest.raises(FormatError, match="empty"):
        load_image.__headrace_op__()(b"")
    with pytest.raises(TypeError, match="expected a path"):
        load_image.__headrace_op__()(3)


@pytest.mark.thread_unsafe(reason="counts live buffers of the process")
def test_threads_work_side_by_side():
    expected = np.asarray(pillow("ok.jpg"))
    before = _ext.pool_stats()["live_count"]
    failures = []

    def work():
        for _ in range(10):
            if not np.array_equal(to_numpy(load_image(DATA / "ok.jpg")), expected):
                failures.append("pixels")
            try:
                load_image(DATA / "truncated.jpg")
                failures.append("no error")
            except FormatError:
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert _ext.pool_stats()["live_count"] == before


@pytest.mark.thread_unsafe(reason="counts live buffers of the process")
def test_nothing_is_mapped_in_the_steady_state():
    paths = [DATA / "ok.jpg"] * 4
    for _ in range(2):
        load_image_batch(paths, width=224, height=224)
    before = _ext.pool_stats()
    for _ in range(10):
        load_image_batch(paths, width=224, height=224)
    assert _ext.pool_stats() == before


@pytest.mark.parametrize("function", [load_image, image_info])
@pytest.mark.parametrize(("width", "height"), [(60, 0), (0, 60), (0, 0)])
def test_a_picture_without_pixels(function, width, height):
    with pytest.raises(FormatError, match=f"PNG says its size is {width} x {height}"):
        function(png_header(width, height))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"limits": 5}, TypeError, "limits must be an ImageLimits or None, not int"),
        ({"limits": {}}, TypeError, "limits must be an ImageLimits or None, not dict"),
        ({"crop": (0, 0, 4, "x")}, TypeError, "(top, left, height, width) of ints"),
        ({"crop": (0, 0, 4, 4.5)}, TypeError, "of ints, not float"),
        ({"crop": RandomResizedCrop(scale=5)}, TypeError, "scale must be two numbers"),
        ({"crop": RandomResizedCrop(("a", 1))}, TypeError, "scale must be two numbers"),
        ({"crop": RandomResizedCrop((1,))}, ValueError, "two numbers, not (1,)"),
        ({"crop": CenterCrop("x")}, TypeError, "resize_size must be an int, not str"),
        ({"crop": CenterCrop(70_000)}, ValueError, "resize_size must be at most 65535"),
        ({"flip": "x"}, TypeError, "flip must be a bool or a probability, not str"),
        ({"flip": np.float32(1.5)}, ValueError, "flip must be 0 to 1"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(arguments, error, text):
    for load in (load_image, partial(load_image_batch, width=8, height=8)):
        src = DATA / "ok.jpg"
        with pytest.raises(error, match=re.escape(text)):
            load(src if load is load_image else [src], **arguments)
    with pytest.raises(error, match=re.escape(text)):
        PipelineBuilder().pipe(partial(load_image, **arguments))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"index": None}, "index must be an int, not NoneType"),
        ({"index": 0.5}, "index must be an int, not float"),
        ({"out": 5}, "out: expected an array"),
        ({"out": np.zeros((4, 8, 3), np.uint8)[::2]}, "out: expected a C-contiguous"),
    ],
)
def test_arguments_of_direct_calls_are_named(arguments, text):
    with pytest.raises(TypeError, match=re.escape(text)):
        load_image(DATA / "ok.jpg", **arguments)


@pytest.mark.parametrize("index", [2**63, 2**70, -(2**63)])
def test_an_index_has_its_range(index):
    with pytest.raises(ValueError, match="index must be at"):
        load_image(DATA / "ok.jpg", index=index)


@pytest.mark.parametrize("flip", [np.float32(1), np.int64(1), np.bool_(True)])
def test_flips_may_be_numbers_of_numpy(flip):
    same(load_image(DATA / "ok.jpg", flip=flip), load_image(DATA / "ok.jpg", flip=True))


def test_the_limit_on_pixels():
    header = png_header(20_000, 10_000)
    with pytest.raises(LimitError, match="178956970"):
        load_image(header)


def png_header(width, height):
    """Return the start of an 8-bit RGB PNG of that size, with a right checksum."""
    body = b"IHDR" + width.to_bytes(4) + height.to_bytes(4) + b"\x08\x02\0\0\0"
    return (
        b"\x89PNG\r\n\x1a\n"
        + (13).to_bytes(4)
        + body
        + zlib.crc32(body).to_bytes(4)
        + b"\0\0\0\1IDAT\0\0\0\0\0"
    )
