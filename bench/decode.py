"""Ways to turn JPEGs into batches of 224×224 RGB: headrace, SPDL and the others.

Each way gives an iterator of batches, (32, 224, 224, 3) uint8, made by `threads`
threads or worker processes. All stretch; all but `cv2_linear` antialias.
"""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.common import Cost, Engine, costing, engine

BATCH = 32
SIDE = 224

Source = bytes | str
Batches = Iterator[Any]
Way = Callable[[Sequence[Source], int], Batches]


# ---- pipelines: headrace and SPDL ----


def pipeline_by_batch(
    name: str, sources: Sequence[Source], threads: int, *, batch: int = BATCH
) -> Batches:
    """One batch per task."""
    lib = engine(name)
    load = partial(lib.io.load_image_batch, **lib.stretch_batch(SIDE, SIDE))
    builder = lib.builder().add_source(sources).aggregate(batch)
    yield from _arrays(lib, builder.pipe(load, concurrency=threads), threads)


def pipeline_by_item(name: str, sources: Sequence[Source], threads: int) -> Batches:
    """One picture per task, then batched."""
    lib = engine(name)
    load = load_frame(lib)
    builder = lib.builder().add_source(sources).pipe(load, concurrency=threads)
    builder = builder.aggregate(BATCH).pipe(lib.io.convert_frames)
    yield from _arrays(lib, builder, threads)


def load_frame(lib: Engine) -> Callable[[Source], Any]:
    """One picture, such that convert_frames takes a list of them."""
    if lib.name == "headrace":
        return partial(lib.io.load_image, **lib.stretch(SIDE, SIDE))
    filter_desc = lib.stretch(SIDE, SIDE)["filter_desc"]
    demux, decode = lib.io.demux_image, lib.io.decode_packets

    def load(source: Source) -> Any:
        return decode(demux(source), filter_desc)

    return load


def _arrays(lib: Engine, builder: Any, threads: int) -> Batches:
    pipeline = builder.add_sink(3).build(num_threads=threads)
    with pipeline.auto_stop():
        for batch in pipeline:
            yield lib.io.to_numpy(batch)


# ---- libraries in a thread pool ----


def in_threads(
    load: Callable[[Source, Any], None], sources: Sequence[Source], threads: int
) -> Batches:
    """One batch per task; `load` decodes one picture into its slot."""
    numpy = import_module("numpy")

    def load_batch(start: int) -> Any:
        batch = numpy.empty((BATCH, SIDE, SIDE, 3), numpy.uint8)
        for slot, source in zip(batch, sources[start : start + BATCH], strict=True):
            load(source, slot)
        return batch

    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(load_batch, range(0, len(sources), BATCH))


def simplejpeg_cv2(interpolation: str, source: Source, slot: Any) -> None:
    cv2 = import_module("cv2")
    pixels = import_module("simplejpeg").decode_jpeg(source)
    cv2.resize(pixels, (SIDE, SIDE), slot, interpolation=getattr(cv2, interpolation))


def pillow(source: bytes) -> Any:
    image = import_module("PIL.Image")
    picture = image.open(io.BytesIO(source)).convert("RGB")
    return picture.resize((SIDE, SIDE), image.Resampling.BILINEAR)


def pillow_into(source: Source, slot: Any) -> None:
    assert isinstance(source, bytes)
    slot[:] = import_module("numpy").asarray(pillow(source))


def cv2_area(sources: Sequence[Source], threads: int) -> Batches:
    import_module("cv2").setNumThreads(1)
    return in_threads(partial(simplejpeg_cv2, "INTER_AREA"), sources, threads)


def cv2_linear(sources: Sequence[Source], threads: int) -> Batches:
    import_module("cv2").setNumThreads(1)
    return in_threads(partial(simplejpeg_cv2, "INTER_LINEAR"), sources, threads)


def pillow_threads(sources: Sequence[Source], threads: int) -> Batches:
    return in_threads(pillow_into, sources, threads)


# ---- torch ----


class _Pictures:
    """A map-style data set."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sources

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, index: int) -> Any:
        source = self.sources[index]
        picture = source if isinstance(source, bytes) else Path(source).read_bytes()
        pixels = import_module("numpy").array(pillow(picture))
        return import_module("torch").from_numpy(pixels)


def torch_workers(
    sources: Sequence[Source], workers: int, *, batch: int = BATCH
) -> Batches:
    data = import_module("torch.utils.data")
    yield from data.DataLoader(_Pictures(sources), batch, num_workers=workers)


# ---- measuring a way ----


def run(way: Way, sources: Sequence[Source], threads: int) -> Cost:
    """CPU of the whole run; wall time from the start to the last batch's arrival."""
    batches, last_s = 0, 0.0
    with costing() as cost:
        start_s = time.perf_counter()
        for batch in way(sources, threads):
            assert batch.shape == (BATCH, SIDE, SIDE, 3), batch.shape
            batches += 1
            last_s = time.perf_counter()
    assert batches * BATCH == len(sources), f"{batches} batches arrived"
    cost.wall_s = last_s - start_s
    return cost


def warm_up(way: Way, sources: Sequence[Source]) -> None:
    """Run two batches and see that they show the pictures asked for.

    The decoders and filters differ by rounding, and by some levels where antialiasing
    does: on average no more than that.
    """
    numpy = import_module("numpy")
    first = sources[: 2 * BATCH]
    got = numpy.concatenate([numpy.asarray(b) for b in way(first, 1)]).astype(int)
    pictures = [s if isinstance(s, bytes) else Path(s).read_bytes() for s in first]
    off = [
        float(abs(pixels - numpy.asarray(pillow(picture)).astype(int)).mean())
        for pixels, picture in zip(got, pictures, strict=True)
    ]
    mean_off = statistics.mean(off)
    assert mean_off < 4, f"other pictures: off by {mean_off:.1f} levels"
