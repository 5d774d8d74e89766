"""Native stages: recognised, fed with native values, and free of the GIL."""

import ctypes
import functools
import io
import re
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from headrace.io import (
    ImageLimits,
    convert_frames,
    encode_image,
    image_info,
    image_info_batch,
    load_image,
    load_image_batch,
    load_image_frames,
    read_file,
    resize,
)
from headrace.pipeline import PipelineBuilder


def jpeg(path, size, colour):
    Image.new("RGB", size, colour).save(path, quality=95)
    return path


@pytest.fixture
def pictures(tmp_path):
    """Eight pictures of 16×12 pixels; the red of number i is 30·i."""
    return [jpeg(tmp_path / f"{i}.jpg", (16, 12), (30 * i, 0, 0)) for i in range(8)]


def build(source, *stages, sink=4, threads=2):
    builder = PipelineBuilder().add_source(source)
    for stage in stages:
        stage(builder)
    return builder.add_sink(sink).build(num_threads=threads)


def pipe(op, **options):
    return lambda builder: builder.pipe(op, output_order="input", **options)


def aggregate(n, **options):
    return lambda builder: builder.aggregate(n, **options)


def disaggregate(builder):
    builder.disaggregate()


def reds(image):
    """The red of each picture, from its middle pixel."""
    pixels = np.asarray(image)
    middle = pixels[..., pixels.shape[-3] // 2, pixels.shape[-2] // 2, 0]
    return [round(int(red) / 30) for red in np.atleast_1d(middle)]


SOURCES = {
    "str": str,
    "Path": lambda path: path,
    "bytes": Path.read_bytes,
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "memoryview": lambda path: memoryview(path.read_bytes()),
    "array": lambda path: np.frombuffer(path.read_bytes(), np.uint8),
    "buffer": read_file,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_one_picture_per_item(pictures, kind):
    items = [SOURCES[kind](path) for path in pictures]
    pipeline = build(items, pipe(load_image, concurrency=3))
    images = list(pipeline)
    assert [image.shape for image in images] == [(12, 16, 3)] * 8
    assert [reds(image) for image in images] == [[i] for i in range(8)]
    assert pipeline.stats().stages[1].gil_held == 0


LOAD = functools.partial(load_image_batch, width=8, height=6)


def test_batches(pictures):
    pipeline = build(map(str, pictures), aggregate(3), pipe(LOAD))
    batches = list(pipeline)
    assert [batch.shape for batch in batches] == [(3, 6, 8, 3)] * 2 + [(2, 6, 8, 3)]
    assert [reds(batch) for batch in batches] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert [s.gil_held for s in pipeline.stats().stages[1:]] == [0, 0, 0]


def test_lists_from_the_source(pictures):
    (batch,) = build([[str(p) for p in pictures]], pipe(LOAD))
    assert reds(batch) == list(range(8))


def test_single_pictures_gathered(pictures):
    """No stage enters Python, whether it is given pictures or makes them."""
    small = functools.partial(load_image, width=8, height=6, scale_mode=None)
    pipeline = build(pictures, pipe(small), aggregate(3), pipe(convert_frames))
    batches = list(pipeline)
    assert [batch.shape for batch in batches] == [(3, 6, 8, 3)] * 2 + [(2, 6, 8, 3)]
    assert [reds(batch) for batch in batches] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert [s.gil_held for s in pipeline.stats().stages[1:]] == [0] * 4

    arrays = [np.full((2, 3), i, np.float32) for i in range(5)]
    pipeline = build(arrays, aggregate(2), pipe(convert_frames))
    got = [np.asarray(batch).tolist() for batch in pipeline]
    assert got == [np.stack(arrays[i : i + 2]).tolist() for i in (0, 2, 4)]


def test_pictures_gathered_after_python(pictures):
    def arrays(path):
        return np.asarray(load_image(path)), memoryview(b"12")

    pipeline = build(
        pictures,
        pipe(arrays),
        aggregate(4, columns=True),
        pipe(convert_frames, key=0),
        pipe(convert_frames, key=1),
    )
    first, second = pipeline
    assert [reds(first[0]), reds(second[0])] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert np.asarray(second[1]).tolist() == [[49, 50]] * 4

    pair = build([0], pipe(lambda _: (np.zeros(2), np.ones(2))), pipe(convert_frames))
    assert np.asarray(next(iter(pair))).tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([[np.zeros(2), np.zeros(3)]], r"frames\[1\] is \(3,\) float64, but frames"),
        ([[np.zeros(2), 5]], r"expected an array .*found int"),
        ([np.zeros((2, 2))], "expected a list or tuple of arrays, found numpy"),
        ([[]], "frames is empty"),
    ],
)
def test_pictures_that_cannot_be_gathered(items, text):
    pipeline = build([*items, [np.ones(1)]], pipe(convert_frames))
    (batch,) = pipeline
    assert np.asarray(batch).tolist() == [[1]]
    (failure,) = pipeline.failures
    assert re.search(text, str(failure))


@pytest.mark.parametrize(
    "make", [tuple, lambda pair: dict(zip("ab", pair, strict=True))]
)
def test_records_of_columns(pictures, make):
    items = [make((path, object())) for path in pictures]
    image, label = (0, 1) if make is tuple else ("a", "b")
    pipeline = build(items, aggregate(4, columns=True), pipe(LOAD, key=image))
    batches = list(pipeline)
    assert [reds(batch[image]) for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    labels = [x for batch in batches for x in batch[label]]
    assert all(a is item[label] for a, item in zip(labels, items, strict=True))
    assert [s.gil_held for s in pipeline.stats().stages[1:]] == [0, 0, 0]


def test_native_after_native(pictures):
    small = functools.partial(resize, width=4, height=3)
    images = list(build(pictures, pipe(load_image), pipe(small)))
    assert [image.shape for image in images] == [(3, 4, 3)] * 8
    assert [reds(image) for image in images] == [[i] for i in range(8)]


def test_python_between_native(pictures):
    def brighter(image):
        return np.asarray(image) // 2 + 15

    stages = pipe(load_image), pipe(brighter), pipe(resize_to(4))
    images = list(build(pictures, *stages))
    assert [np.asarray(image)[0, 0, 0] // 2 * 2 for image in images][:2] == [14, 30]


def resize_to(side):
    return functools.partial(resize, width=side, height=side)


def test_python_before_native(pictures):
    def path_of(i):
        return str(pictures[i]), i

    items = list(build(range(8), pipe(path_of), pipe(load_image, key=0)))
    assert [(reds(image), i) for image, i in items] == [([i], i) for i in range(8)]


def test_generator_before_native(pictures):
    def spread(paths):
        yield from paths

    images = list(build([pictures[:3], pictures[3:]], pipe(spread), pipe(load_image)))
    assert [reds(image) for image in images] == [[i] for i in range(8)]


def test_disaggregate_before_native(pictures):
    images = list(build([pictures[:3], pictures[3:]], disaggregate, pipe(load_image)))
    assert [reds(image) for image in images] == [[i] for i in range(8)]
    stages = aggregate(3), disaggregate, pipe(load_image)
    assert [reds(image) for image in build(pictures, *stages)] == [
        [i] for i in range(8)
    ]


def test_two_fields(pictures):
    items = [(p, q) for p, q in zip(pictures, reversed(pictures), strict=True)]
    stages = pipe(load_image, key=0), pipe(load_image, key=1)
    got = [(reds(a), reds(b)) for a, b in build(items, *stages)]
    assert got == [([i], [7 - i]) for i in range(8)]


# ---- recognition ----


def runs_natively(op, pictures, **options):
    pipeline = build(pictures, pipe(op, **options))
    list(pipeline)
    stage = pipeline.stats().stages[1]
    assert stage.failed == 0, pipeline.failures
    return stage.gil_held == 0


def test_what_runs_natively(pictures):
    partial = functools.partial
    assert runs_natively(load_image, pictures)
    assert runs_natively(partial(load_image, width=4, height=4), pictures)
    nested = partial(partial(load_image, width=4), height=4)
    assert runs_natively(nested, pictures)
    assert not runs_natively(lambda path: load_image(path), pictures)


def test_a_bound_positional_argument_makes_a_python_stage(pictures):
    pipeline = build([4], pipe(functools.partial(load_image, str(pictures[5]))))
    assert list(pipeline) == []
    # It is called as load_image(path, 4), and load_image takes one by position.
    (failure,) = pipeline.failures
    assert "positional" in str(failure.exception)
    assert pipeline.stats().stages[1].gil_held > 0


def test_arguments_are_bound_once_and_early():
    with pytest.raises(ValueError, match="pix_fmt"):
        PipelineBuilder().pipe(functools.partial(load_image, pix_fmt="nonsense"))
    with pytest.raises(TypeError):
        PipelineBuilder().pipe(functools.partial(load_image, size=3))


def test_nested_partials_prefer_the_outer(pictures):
    inner = functools.partial(load_image, width=4, height=4)
    (image, *_) = build(pictures, pipe(functools.partial(inner, width=6)))
    assert image.shape == (4, 6, 3)


# ---- failures ----


def test_a_bad_file_is_named(pictures, tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"<html>nothing</html>")
    pipeline = build([*pictures[:2], bad, *pictures[2:]], pipe(load_image))
    assert [reds(image) for image in pipeline] == [[i] for i in range(8)]
    (failure,) = pipeline.failures
    assert (failure.stage, failure.index) == ("load_image", 2)
    assert failure.item == str(bad)
    assert "HTML" in str(failure.exception)


def test_a_missing_file(pictures, tmp_path):
    pipeline = build([tmp_path / "none.jpg"], pipe(load_image))
    assert list(pipeline) == []
    (failure,) = pipeline.failures
    assert isinstance(failure.exception, FileNotFoundError)
    assert failure.item.endswith("none.jpg")


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        (7, "int"),
        (None, "NoneType"),
        (("a.jpg", 3), "pass key="),
        ({"path": "a.jpg"}, "pass key="),
        ("a\0b.jpg", "NUL"),
    ],
)
def test_what_is_no_picture_fails_alone(pictures, bad, found):
    pipeline = build([pictures[0], bad, pictures[1]], pipe(load_image))
    assert [reds(image) for image in pipeline] == [[0], [1]]
    (failure,) = pipeline.failures
    assert failure.index == 1
    assert isinstance(failure.exception, TypeError)
    assert found in str(failure.exception)


def test_a_bad_field_fails_alone(pictures):
    items = [(pictures[0], 0), (7, 1), (pictures[2], 2)]
    pipeline = build(items, pipe(load_image, key=0))
    assert [(reds(image), label) for image, label in pipeline] == [([0], 0), ([2], 2)]
    (failure,) = pipeline.failures
    assert failure.index == 1
    assert "int" in str(failure.exception)


def test_slots_of_a_batch_fail_alone(pictures):
    op = functools.partial(LOAD, strict=False)
    items = [pictures[0], "/nonexistent.jpg", pictures[2], 7]
    (batch,) = build(items, aggregate(4), pipe(op))
    assert reds(batch) == [0, 0, 2, 0]
    assert [f.index for f in batch.failures] == [1, 3]


# ---- the GIL ----


@pytest.fixture
def large(tmp_path):
    """The bytes of a picture that takes some 10 ms to decode."""
    noise = np.random.default_rng(1).integers(0, 255, (700, 1000, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(noise).save(out, "JPEG", quality=90)
    path = tmp_path / "large.jpg"
    path.write_bytes(out.getvalue())
    return str(path)


def hold_the_gil(seconds):
    """Sleep in C without releasing the GIL."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def test_one_slow_item_does_not_make_a_list_a_slow_source(tmp_path):
    """The consumer goes on to advance it; else a helper would, waiting for the GIL."""
    by_consumer = []
    consumer = threading.get_ident()
    path = str(tmp_path / "a")
    Path(path).write_bytes(b"x")

    class Slow:
        """A path that is made when it is asked for."""

        def __init__(self, seconds):
            self.seconds = seconds

        def __fspath__(self):
            if self.seconds:
                time.sleep(self.seconds)
            by_consumer.append(threading.get_ident() == consumer)
            return path

    items = [Slow(0) for _ in range(600)] + [Slow(0.05)] + [Slow(0) for _ in range(900)]
    pipeline = build(items, pipe(read_file), sink=8)
    with pipeline.auto_stop():
        for _ in pipeline:
            time.sleep(0.0001)
    assert len(by_consumer) == 1501
    after = by_consumer[650:]
    assert sum(after) >= 0.8 * len(after)


@pytest.mark.thread_unsafe(reason="measures time")
@pytest.mark.parametrize("records", [False, True])
def test_r1_native_stages_go_on_while_the_gil_is_held(large, records):
    """For two seconds nobody can enter Python; the sink fills all the same."""
    if records:
        items, key = ((large, object()) for _ in range(100)), 0
    else:
        items, key = (large for _ in range(100)), None
    pipeline = build(items, pipe(load_image, key=key, concurrency=2), sink=10)
    pipeline.start()
    while pipeline.stats().stages[0].items_out < 14:  # they are in the read-ahead
        time.sleep(0.0001)
    before = pipeline.stats().stages[-1]
    hold_the_gil(2)
    after = pipeline.stats().stages[-1]
    assert before.items_in < 8
    assert after.items_in >= 10
    assert sum(1 for _ in pipeline) == 100
    pipeline.stop()
    assert pipeline.stats().stages[1].gil_held == 0


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no GIL"
)
def test_r1_a_python_stage_cannot(large):
    """The same measurement sees the GIL where a stage needs it."""
    pipeline = build(
        (large for _ in range(100)),
        pipe(lambda path: load_image(path), concurrency=2),
        sink=10,
    )
    pipeline.start()
    while pipeline.stats().stages[0].items_out < 14:
        time.sleep(0.0001)
    before = pipeline.stats().stages[-1]
    hold_the_gil(1)
    after = pipeline.stats().stages[-1]
    assert after.items_in - before.items_in <= 4
    pipeline.stop()


def test_headers_frames_and_encoding_are_native(pictures):
    data = [path.read_bytes() for path in pictures]
    partial = functools.partial
    assert runs_natively(image_info, data)
    assert runs_natively(load_image_frames, data)
    infos = list(build(data, pipe(image_info)))
    assert infos == [image_info(item) for item in data]
    many = partial(image_info_batch, strict=False)
    [infos] = build([[*data, b"no picture"]], pipe(many))
    assert infos == [*map(image_info, data), None]
    options = {"pix_fmt": "gray", "orientation": "ignore", "limits": ImageLimits()}
    load = partial(load_image, background=(1, 2, 3), **options)
    encode = partial(encode_image, format="png")
    pipeline = build(data, pipe(load), pipe(encode), pipe(load_image))
    expected = [np.asarray(load(item)) for item in data]
    for image, grey in zip(pipeline, expected, strict=True):
        np.testing.assert_array_equal(image, np.repeat(grey, 3, 2))
    assert [s.gil_held for s in pipeline.stats().stages[1:4]] == [0, 0, 0]


def test_a_picture_that_is_cut_off_goes_on(tmp_path):
    data = jpeg(tmp_path / "tall.jpg", (16, 64), (90, 0, 0)).read_bytes()
    cut = data[: len(data) - 4]
    load = functools.partial(load_image, allow_truncated=True)
    small = functools.partial(resize, width=4, height=3)
    whole, part = build([data, cut], pipe(load))
    assert whole.truncated == ()
    assert "JPEG ends after" in part.truncated[0].reason
    assert [i.shape for i in build([data, cut], pipe(load), pipe(small))] == [
        (3, 4, 3)
    ] * 2
