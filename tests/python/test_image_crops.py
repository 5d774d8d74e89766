"""Crops and flips, given and drawn, against Pillow, NumPy and torchvision's rules."""

import io
import math
from functools import partial

import numpy as np
import pytest
from PIL import Image

import headrace.io
from headrace.io import CenterCrop, RandomResizedCrop, random_horizontal_flip
from headrace.pipeline import PipelineBuilder

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15
Box = tuple[int, int, int, int]


def picture(width: int, height: int, seed: int = 0) -> np.ndarray:
    y, x = np.mgrid[0:height, 0:width] + seed * 31
    planes = [np.sin(x / 9) + np.cos(y / 7), np.sin((x + y) / 15), np.cos(x / 21)]
    return np.stack([plane * 45 + 128 for plane in planes], axis=2).astype(np.uint8)


def encoded(pixels: np.ndarray, kind: str = "JPEG", **options: object) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()


def load(data: bytes, **arguments: object) -> np.ndarray:
    return np.asarray(headrace.io.load_image(data, **arguments))


def cut(pixels: np.ndarray, box: Box) -> np.ndarray:
    top, left, height, width = box
    return pixels[top : top + height, left : left + width]


def pillow(pixels: np.ndarray, width: int, height: int) -> np.ndarray:
    resized = Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(resized)


def random_boxes(width: int, height: int, count: int, seed: int) -> list[Box]:
    rng = np.random.default_rng(seed)
    boxes = [(0, 0, height, width), (height - 1, width - 1, 1, 1), (0, 0, 1, width)]
    for _ in range(count):
        h, w = int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1))
        top, left = rng.integers(0, height - h + 1), rng.integers(0, width - w + 1)
        boxes.append((int(top), int(left), h, w))
    return boxes


# ---- boxes ----


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_a_part_of_a_jpeg_is_that_part_of_the_whole(
    subsampling: int, progressive: bool
) -> None:
    options = {"subsampling": subsampling, "progressive": progressive, "quality": 92}
    data = encoded(picture(133, 101), **options)
    whole = load(data)
    for box in random_boxes(133, 101, 60, subsampling):
        assert np.array_equal(load(data, crop=box), cut(whole, box)), box


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_a_part_of_other_jpegs(mode: str) -> None:
    out = io.BytesIO()
    Image.fromarray(picture(90, 70)).convert(mode).save(out, "JPEG")
    whole = load(out.getvalue())
    for box in random_boxes(90, 70, 20, 1):
        assert np.array_equal(load(out.getvalue(), crop=box), cut(whole, box)), box


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_crop_comes_before_resize(kind: str) -> None:
    data = encoded(picture(160, 120), kind)
    whole = load(data)
    for box in random_boxes(160, 120, 20, 3):
        want = pillow(cut(whole, box), 31, 23)
        size = {"width": 31, "height": 23, "scale_mode": None}
        assert np.array_equal(load(data, crop=box, exact=True, **size), want), box
        off = abs(load(data, crop=box, **size).astype(int) - want)
        assert off.max() <= 4, box  # quality 75: chroma is quantised, and overshoots


@pytest.mark.parametrize("orientation", range(1, 9))
def test_boxes_and_flips_are_of_the_shown_picture(orientation: int) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    data = encoded(picture(96, 64), exif=exif)
    whole = load(data)
    height, width = whole.shape[:2]
    for box in random_boxes(width, height, 12, orientation):
        assert np.array_equal(load(data, crop=box), cut(whole, box)), box
        mirrored = cut(whole, box)[:, ::-1]
        assert np.array_equal(load(data, crop=box, flip=True), mirrored), box
        size = {"width": 20, "height": 25, "scale_mode": None, "crop": box}
        want = pillow(cut(whole, box), 20, 25)
        assert np.array_equal(load(data, exact=True, **size), want), box
        got = load(data, exact=True, flip=True, **size)
        assert np.array_equal(got, want[:, ::-1]), box
        off = abs(load(data, flip=True, **size).astype(int) - want[:, ::-1])
        assert off.max() <= 4, box


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("scale_mode", ["pad", "crop", None])
def test_a_flip_mirrors_the_result(scale_mode: str | None, exact: bool) -> None:
    data = encoded(picture(101, 75))
    for size in ({"width": 40, "height": 40}, {"height": 75, "width": 40}, {}):
        arguments = {"scale_mode": scale_mode, "exact": exact} | size
        plain = load(data, **arguments)
        if scale_mode == "pad" and size:  # an odd free column is at the right
            plain = plain[:, : plain.shape[1] // 2 * 2]
        flipped = load(data, flip=True, **arguments)[:, : plain.shape[1]]
        assert np.array_equal(flipped, plain[:, ::-1])


def test_a_box_outside_is_an_error() -> None:
    data = encoded(picture(20, 10))
    for box in [
        (0, 0, 11, 5),
        (0, 0, 5, 21),
        (5, 0, 6, 1),
        (-1, 0, 2, 2),
        (0, 0, 0, 1),
    ]:
        with pytest.raises(ValueError, match=r"leaves the picture of 20 x 10"):
            load(data, crop=box)
    with pytest.raises(ValueError, match=r"leaves the picture"):
        load(data, crop=(2**62, 2**62, 2**62, 2**62))


def test_rows_below_a_crop_are_not_read() -> None:
    data = encoded(picture(64, 640), quality=90)
    half = data[: len(data) // 2]
    with pytest.raises(headrace.errors.FormatError, match="ends after"):
        load(half)
    box = (0, 0, 100, 64)
    assert np.array_equal(load(half, crop=box), load(data, crop=box))


# ---- the middle ----


def torchvision_centre(
    pixels: np.ndarray, size: int | None, w: int, h: int
) -> np.ndarray:
    """Resize(size) and CenterCrop((h, w)), as documented for v2."""
    height, width = pixels.shape[:2]
    if size is not None:
        if width <= height:
            new = (size, int(size * height / width))
        else:
            new = (int(size * width / height), size)
        pixels = pillow(pixels, *new)
        height, width = pixels.shape[:2]
    left, top = max(w - width, 0) // 2, max(h - height, 0) // 2
    right, bottom = (max(w - width, 0) + 1) // 2, (max(h - height, 0) + 1) // 2
    pixels = np.pad(pixels, ((top, bottom), (left, right), (0, 0)))
    height, width = pixels.shape[:2]
    top, left = round((height - h) / 2), round((width - w) / 2)
    return pixels[top : top + h, left : left + w]


@pytest.mark.parametrize("size", [(160, 120), (75, 133), (31, 31), (5, 200)])
@pytest.mark.parametrize("resize_size", [None, 64, 33])
@pytest.mark.parametrize("target", [(32, 32), (33, 20), (64, 91), (1, 1)])
def test_centre_crop_is_torchvisions(
    size: tuple[int, int], resize_size: int | None, target: tuple[int, int]
) -> None:
    data = encoded(picture(*size))
    want = torchvision_centre(load(data), resize_size, *target)
    target_size = {"width": target[0], "height": target[1]}
    crop = CenterCrop(resize_size)
    got = load(data, crop=crop, exact=True, **target_size)
    assert np.array_equal(got, want)
    off = abs(load(data, crop=crop, **target_size).astype(int) - want)
    assert off.max() <= 4


# ---- draws: worked out again, from the definition in headrace/image.h ----


def mix(z: int) -> int:
    z = (z + GAMMA) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def draw(k: int, seed: int, epoch: int, index: int) -> float:
    key = mix((mix((mix(seed) + epoch) & MASK) + index) & MASK)
    return (mix((key + (k + 1) * GAMMA) & MASK) >> 11) / 2**53


def random_resized_crop(
    width: int, height: int, crop: RandomResizedCrop, **key: int
) -> Box:
    """torchvision's get_params over these draws."""
    area = width * height
    low, high = math.log(crop.ratio[0]), math.log(crop.ratio[1])
    for attempt in range(10):
        u = [draw(1 + 4 * attempt + i, **key) for i in range(4)]
        target = area * (crop.scale[0] + u[0] * (crop.scale[1] - crop.scale[0]))
        ratio = math.exp(low + u[1] * (high - low))
        w, h = round(math.sqrt(target * ratio)), round(math.sqrt(target / ratio))
        if 0 < w <= width and 0 < h <= height:
            return int(u[2] * (height - h + 1)), int(u[3] * (width - w + 1)), h, w
    w, h = width, height
    if width / height < crop.ratio[0]:
        h = round(w / crop.ratio[0])
    elif width / height > crop.ratio[1]:
        w = round(h * crop.ratio[1])
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize("size", [(640, 400), (37, 300), (3, 2), (1000, 10)])
@pytest.mark.parametrize(
    "crop",
    [
        RandomResizedCrop(),
        RandomResizedCrop(scale=(0.5, 0.9)),
        RandomResizedCrop(scale=(1, 1), ratio=(1, 1)),
    ],
)
def test_random_crops_are_those_of_the_definition(
    size: tuple[int, int], crop: RandomResizedCrop
) -> None:
    for index in range(200):
        key = {"seed": 2**63 + 5, "epoch": index % 3, "index": index}
        want = random_resized_crop(*size, crop, **key)
        assert crop.get_params(*size, **key) == want, key


def test_random_flips_are_those_of_the_definition() -> None:
    for index in range(300):
        want = draw(0, seed=9, epoch=1, index=index) < 0.3
        assert random_horizontal_flip(0.3, seed=9, epoch=1, index=index) == want
    assert not random_horizontal_flip(0.0)
    assert random_horizontal_flip(1.0)


def test_draws_are_spread_evenly() -> None:
    """300 each side of 1,000 fair flips would be off by 12 standard deviations."""
    flips = sum(random_horizontal_flip(0.5, seed=s, index=s) for s in range(1000))
    assert 300 < flips < 700
    boxes = [RandomResizedCrop().get_params(100, 100, seed=s) for s in range(400)]
    areas = [height * width / 10_000 for _, _, height, width in boxes]
    assert 0.4 < sum(areas) / 400 < 0.65
    assert min(areas) > 0.07


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_draws_do_not_depend_on_threads(threads: int) -> None:
    datas = [encoded(picture(90 + 7 * i, 70 + 3 * i, i)) for i in range(16)]
    augment = {"crop": RandomResizedCrop(), "flip": 0.5, "seed": 7, "epoch": 2}
    size = {"width": 24, "height": 20, "exact": True}
    want = []
    for index, data in enumerate(datas):
        key = {"seed": 7, "epoch": 2, "index": index}
        whole = load(data)
        box = random_resized_crop(
            whole.shape[1], whole.shape[0], RandomResizedCrop(), **key
        )
        pixels = pillow(cut(whole, box), 24, 20)
        want.append(pixels[:, ::-1] if draw(0, **key) < 0.5 else pixels)
    load_batch = partial(headrace.io.load_image_batch, **size, **augment)
    load_one = partial(headrace.io.load_image, **size, **augment)
    batches = (
        PipelineBuilder()
        .add_source(datas)
        .aggregate(4)
        .pipe(load_batch, concurrency=2)
        .add_sink(2)
        .build(num_threads=threads)
    )
    singles = (
        PipelineBuilder()
        .add_source(datas)
        .pipe(load_one, concurrency=threads, output_order="input")
        .add_sink(2)
        .build(num_threads=threads)
    )
    with batches.auto_stop(), singles.auto_stop():
        got = np.concatenate([np.array(batch) for batch in batches])
        alone = np.stack([np.array(one) for one in singles])
    assert np.array_equal(alone, want)
    assert {tuple(p.ravel()[:9]) for p in got} == {tuple(p.ravel()[:9]) for p in want}
    direct = headrace.io.load_image_batch(datas, **size, **augment)
    assert np.array_equal(np.asarray(direct), want)
    rest = headrace.io.load_image_batch(datas[5:], **size, **augment, index=5)
    assert np.array_equal(np.asarray(rest), want[5:])
    one = headrace.io.load_image(datas[11], **size, **augment, index=11)
    assert np.array_equal(np.asarray(one), want[11])


def test_boxes_and_flips_of_slots() -> None:
    data = encoded(picture(60, 50))
    boxes = random_boxes(60, 50, 5, 1)
    flips = [i % 3 == 0 for i in range(8)]
    size = {"width": 16, "height": 12, "scale_mode": None, "exact": True}
    for given in (boxes, np.array(boxes)):
        batch = headrace.io.load_image_batch([data] * 8, crop=given, flip=flips, **size)
        for slot, box, flip in zip(np.asarray(batch), boxes, flips, strict=True):
            assert np.array_equal(slot, load(data, crop=box, flip=flip, **size))


def test_a_slot_whose_box_does_not_fit_fails_alone() -> None:
    datas = [encoded(picture(30, 30)), encoded(picture(10, 10))]
    batch = headrace.io.load_image_batch(
        datas, width=4, height=4, crop=(0, 0, 20, 20), strict=False
    )
    assert [failure.index for failure in batch.failures] == [1]
    assert "leaves the picture of 10 x 10" in batch.failures[0].reason


# ---- draft ----


def test_draft_takes_the_smallest_that_is_enough() -> None:
    data = encoded(picture(400, 320))
    for width, height, denominator in (
        (50, 40, 8),
        (51, 40, 4),
        (90, 70, 4),
        (201, 9, 1),
    ):
        image = Image.open(io.BytesIO(data))
        if denominator > 1:
            image.draft("RGB", (400 // denominator, 320 // denominator))
        want = pillow(np.asarray(image), width, height)
        size = {"width": width, "height": height, "scale_mode": None}
        got = load(data, draft=True, exact=True, **size)
        assert np.array_equal(got, want), (width, height)


def test_draft_keeps_a_crop_in_its_place() -> None:
    data = encoded(picture(400, 320))
    arguments = {"crop": (100, 40, 200, 240), "width": 25, "height": 20}
    exact = load(data, scale_mode=None, **arguments).astype(int)
    draft = load(data, scale_mode=None, draft=True, **arguments)
    assert abs(exact - draft).mean() < 6


# ---- out ----


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16"])
def test_out_is_written(dtype: str) -> None:
    data = encoded(picture(50, 40))
    form = {"layout": "CHW", "dtype": dtype, "width": 20, "height": 10}
    out = np.zeros((3, 10, 20), dtype)
    result = headrace.io.load_image(data, out=out, **form)
    assert np.shares_memory(np.asarray(result), out)
    assert np.array_equal(out, load(data, **form))
    batch = np.zeros((3, 3, 10, 20), dtype)
    again = headrace.io.load_image_batch([data] * 3, out=batch, **form)
    assert np.shares_memory(np.asarray(again), batch)
    assert np.array_equal(batch, np.stack([out] * 3))


def test_out_may_be_a_buffer_of_ours() -> None:
    data = encoded(picture(50, 40))
    first = headrace.io.load_image(data, width=8, height=8, dtype="bfloat16")
    want = np.array(first)
    np.asarray(first)[:] = 0
    headrace.io.load_image(data, width=8, height=8, dtype="bfloat16", out=first)
    assert np.array_equal(np.asarray(first), want)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (
            np.zeros((10, 20, 3), np.float32),
            r"\(10, 20, 3\) of uint8, but has .*float32",
        ),
        (np.zeros((20, 10, 3), np.uint8), r"\(10, 20, 3\) of uint8, but has \(20, 10"),
        (np.zeros((1, 10, 20, 3), np.uint8), "but has"),
        (memoryview(bytes(600)).cast("B", (10, 20, 3)), "out is read-only"),
    ],
)
def test_an_unfit_out_is_refused(out: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(encoded(picture(50, 40)), width=20, height=10, out=out)


def test_out_must_be_contiguous() -> None:
    out = np.zeros((10, 40, 3), np.uint8)[:, ::2]
    with pytest.raises((TypeError, ValueError, BufferError)):
        load(encoded(picture(50, 40)), width=20, height=10, out=out)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"crop": (1, 2, 3)}, ValueError, "crop must be .top, left, height, width., "),
        ({"crop": "middle"}, TypeError, "crop must be None, .*not str"),
        ({"crop": 3}, TypeError, "crop must be None, .*not int"),
        ({"crop": CenterCrop(70_000)}, ValueError, "resize_size must be"),
        ({"crop": RandomResizedCrop((0.5, 0.2))}, ValueError, "scale must rise"),
        ({"crop": RandomResizedCrop((0.5, 1.2))}, ValueError, "scale must rise"),
        ({"crop": RandomResizedCrop(ratio=(0, 1))}, ValueError, "ratio must rise"),
        ({"flip": 1.5}, ValueError, "flip must be 0 to 1, not 1.5"),
        ({"flip": float("nan")}, ValueError, "flip must be 0 to 1"),
        ({"flip": "yes"}, TypeError, "flip must be a bool or a probability, not str"),
        ({"seed": 1.5}, TypeError, "seed must be an int, not float"),
        ({"epoch": "1"}, TypeError, "epoch must be an int, not str"),
    ],
)
def test_bad_arguments_are_named(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        load(encoded(picture(9, 9)), width=4, height=4, **arguments)


def test_a_centre_crop_needs_a_size() -> None:
    with pytest.raises(ValueError, match="a central crop needs a width and a height"):
        load(encoded(picture(9, 9)), width=4, crop=CenterCrop())


def test_counts_of_slots_are_checked() -> None:
    data = encoded(picture(9, 9))
    size = {"width": 4, "height": 4}
    with pytest.raises(ValueError, match="crop has 2 entries for 3 sources"):
        headrace.io.load_image_batch([data] * 3, crop=[(0, 0, 1, 1)] * 2, **size)
    with pytest.raises(ValueError, match="flip has 4 entries for 3 sources"):
        headrace.io.load_image_batch([data] * 3, flip=[True] * 4, **size)


def test_what_belongs_to_one_call_is_refused_in_a_pipeline() -> None:
    out = np.zeros((2, 4, 4, 3), np.uint8)
    for bound, message in (
        ({"out": out}, "out is for direct calls"),
        ({"index": 3}, "index is for direct calls"),
        ({"crop": [(0, 0, 1, 1)] * 2}, "crop must be .top, left, height, width."),
    ):
        op = partial(headrace.io.load_image_batch, width=4, height=4, **bound)
        with pytest.raises((ValueError, TypeError), match=message):
            PipelineBuilder().add_source([b""]).aggregate(1).pipe(op)
