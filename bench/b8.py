"""B8: the rate that a training loop in pure Python keeps beside a loader thread."""

from __future__ import annotations

import io
import resource
import statistics
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import decode, pictures
from bench.common import Engine, Experiment, Figures, Goal, Side, engine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BATCH = 8
SIDE = 224
WARM_UP = 15  # steps until the buffers are full
ROUNDS = 10  # of steps alone and then beside the loader,
STEPS = 10  # that many each, after
SETTLE = 3  # steps that do not count: the loader fills its buffers, or begins again
BATCHES = WARM_UP + ROUNDS * (SETTLE + STEPS) + 5
STEP_S = 0.020
BATCH_S = 0.015
ALONE, BESIDE, KEPT = "steps/s alone", "steps/s beside", "rate kept"
KEPT_OWN = "rate kept, queues for a core apart"
WAITS = "waits/step"
WORK = "CPU ms/batch"
HEADRACE = "headrace, source of pictures"
HEADRACE_BATCHES = "headrace, source of batches"
HEADRACE_ITEMS = "headrace, single items"


def _burn(loops: int) -> int:
    """A training step: pure Python that never lets go of the GIL by itself."""
    total = 0
    for i in range(loops):
        total += i & 3
    return total


def _loops_of_a_step() -> int:
    loops = 100_000
    spent = []
    for _ in range(9):
        start_s = time.thread_time()
        _burn(loops)
        spent.append(time.thread_time() - start_s)
    return int(loops * STEP_S / statistics.median(spent))


def _scaled(count: int, area: float) -> list[bytes]:
    """The first pictures of the set with their number of pixels changed."""
    image = import_module("PIL.Image")
    side = area**0.5
    size = round(pictures.WIDTH * side), round(pictures.HEIGHT * side)
    scaled = []
    for picture in pictures.sources(count):
        out = io.BytesIO()
        resized = image.open(io.BytesIO(picture)).resize(size)
        resized.save(out, "JPEG", quality=pictures.QUALITY)
        scaled.append(out.getvalue())
    return scaled


def _batch_cpu_s(load: Callable[[Sequence[bytes]], Any], batch: list[bytes]) -> float:
    spent = []
    for _ in range(9):
        start_s = time.process_time()
        load(batch)
        spent.append(time.process_time() - start_s)
    return statistics.median(spent)


def _calibrated(load: Callable[[Sequence[bytes]], Any]) -> tuple[list[bytes], float]:
    """A batch of 8 that takes 15 ms of CPU to load, by the size of its pictures."""
    area = 1.0
    for _ in range(6):
        batch = _scaled(BATCH, area)
        spent_s = _batch_cpu_s(load, batch)
        if abs(spent_s / BATCH_S - 1) < 0.04:
            break
        area *= BATCH_S / spent_s
    return batch, spent_s


def _queued_s() -> float:
    """Seconds that this thread could have run and no core was free."""
    ns: int = int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    return ns / 1e9


def _timed_steps(step: Callable[[], object]) -> tuple[float, float]:
    """Seconds of a block of steps, without those until things have settled.

    The second number leaves out the time in which no core was free: what is left is
    computing, and waiting for the loader or for the GIL.
    """
    for _ in range(SETTLE):
        step()
    queued_s, start_s = _queued_s(), time.perf_counter()
    for _ in range(STEPS):
        step()
    wall_s = time.perf_counter() - start_s
    return wall_s, wall_s - (_queued_s() - queued_s)


def _waits() -> int:
    """How often this thread has waited for anything, the GIL included."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _steps(pipeline: Any, loops: int) -> Figures:
    """Blocks of steps that take a batch each, in turns with blocks that take none.

    While none is taken the loader fills its buffers, which is over when the block's
    time is taken, and rests. A slow spell of the machine so hits single rounds, and the
    part kept is the median of the rounds' ratios.
    """

    def alone() -> None:
        _burn(loops)

    def beside() -> None:
        next(batches)
        _burn(loops)

    alone_s, beside_s, waits = [], [], 0
    with pipeline.auto_stop():
        batches = iter(pipeline)
        for _ in range(WARM_UP):
            beside()
        for _ in range(ROUNDS):
            alone_s.append(_timed_steps(alone))
            before = _waits()
            beside_s.append(_timed_steps(beside))
            waits += _waits() - before
    rounds = list(zip(alone_s, beside_s, strict=True))
    return {
        ALONE: STEPS / statistics.median(wall_s for wall_s, _ in alone_s),
        BESIDE: STEPS / statistics.median(wall_s for wall_s, _ in beside_s),
        KEPT: statistics.median(a[0] / b[0] for a, b in rounds),
        KEPT_OWN: statistics.median(a[1] / b[1] for a, b in rounds),
        WAITS: waits / (ROUNDS * (SETTLE + STEPS)),
    }


def _load_batch(lib: Engine) -> Callable[[Sequence[bytes]], Any]:
    return partial(lib.io.load_image_batch, **lib.stretch_batch(SIDE, SIDE))


def _by_picture(lib: Engine, batch: list[bytes]) -> Any:
    """A source of pictures; a task decodes a batch of them."""
    builder = lib.builder().add_source(batch * BATCHES)
    return builder.aggregate(BATCH).pipe(_load_batch(lib))


def _by_batch(lib: Engine, batch: list[bytes]) -> Any:
    """A source of batches; a task decodes one."""
    return lib.builder().add_source([batch] * BATCHES).pipe(_load_batch(lib))


def _by_item(lib: Engine, batch: list[bytes]) -> Any:
    """A source of pictures; a task decodes one, and the results are gathered."""
    builder = lib.builder().add_source(batch * BATCHES).pipe(decode.load_frame(lib))
    return builder.aggregate(BATCH).pipe(lib.io.convert_frames)


def _measure(name: str, start: Callable[[Engine, list[bytes]], Any]) -> Figures:
    lib = engine(name)
    batch, batch_s = _calibrated(_load_batch(lib))
    loops = _loops_of_a_step()
    builder = start(lib, batch).add_sink(3)
    return _steps(builder.build(num_threads=1), loops) | {WORK: batch_s * 1e3}


EXPERIMENT = Experiment(
    id="B8",
    title="20 ms steps of pure Python, one loader thread, batches of 8 that need 15 ms",
    figures=(ALONE, BESIDE, KEPT, KEPT_OWN, WAITS, WORK),
    sides=(
        Side(HEADRACE, partial(_measure, "headrace", _by_picture)),
        Side(HEADRACE_BATCHES, partial(_measure, "headrace", _by_batch)),
        Side(HEADRACE_ITEMS, partial(_measure, "headrace", _by_item)),
        Side("SPDL, source of pictures", partial(_measure, "spdl", _by_picture)),
        Side("SPDL, source of batches", partial(_measure, "spdl", _by_batch)),
        Side("SPDL, single items", partial(_measure, "spdl", _by_item)),
    ),
    goals=(
        Goal(HEADRACE, KEPT, at_least=0.99, first=0.97),
        Goal(HEADRACE_BATCHES, KEPT, at_least=0.99, first=0.97),
        Goal(HEADRACE_ITEMS, KEPT, at_least=0.99, first=0.97),
        Goal(HEADRACE, KEPT_OWN, at_least=0.99),
        Goal(HEADRACE_BATCHES, KEPT_OWN, at_least=0.99),
        Goal(HEADRACE_ITEMS, KEPT_OWN, at_least=0.99),
    ),
    prepare=pictures.prepare,
)
