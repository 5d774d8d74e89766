"""What a second worker brings to stages in pure Python where there is no GIL.

    tools/setup --venv .venv-3.13t --python "$(tools/freethreaded)"
    .venv-3.13t/bin/python -m bench.freethreaded [WORD ...]

WORD: only the stages whose name has it.

One and two workers take turns, 15 short runs each; the best of each counts, for on a
machine with other work most runs share their cores. `CPU` is what an item costs two
workers over what it costs one (medians): above 1 they are in each other's way, whatever
the machine does. A call takes some 20 µs. `threads` is the limit: the same calls in
bare threads, which get their items beforehand. `headrace` has as many tasks as workers,
`4x` four times as many, so that a full channel keeps no worker waiting.

What all workers touch costs reference counts that both cores write; a copy for each
worker does not. Constants are shared too: CPython 3.13 makes them immortal when it
loads a module from its .pyc file, and not when it compiles one; so there are none above
256 here.
"""

from __future__ import annotations

import sys
import threading
import time
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from headrace.pipeline import PipelineBuilder, per_worker

if TYPE_CHECKING:
    from collections.abc import Callable

ITEMS = 8_000
REPETITIONS = 15


def function(x: int) -> int:
    """Some 20 µs of arithmetic on locals."""
    total = x
    for i in range(256):
        total = (total * 31 + i) & 0xFF
    return total


class Scale:
    """A callable with state that is read once per call, and a method of it."""

    def __init__(self) -> None:
        self.by = 31

    def __call__(self, x: int) -> int:
        by, total = self.by, x
        for i in range(256):
            total = (total * by + i) & 0xFF
        return total

    method = __call__


class Shared:
    """A callable whose loop reads an object that all workers share."""

    def __init__(self) -> None:
        self.scale = Scale()

    def __call__(self, x: int) -> int:
        total = x
        for i in range(256):
            total = (total * self.scale.by + i) & 0xFF
        return total


OPS: dict[str, Callable[[], Callable[[int], int]]] = {
    "function": lambda: function,
    "callable object": Scale,
    "bound method": lambda: Scale().method,
    "shared object in a loop": Shared,
    "the same, one per worker": lambda: per_worker(Shared),
}


def by_pipeline(op: Callable[[int], Any], workers: int, tasks: int = 1) -> None:
    pipeline = (
        PipelineBuilder()
        .add_source(range(ITEMS))
        .pipe(op, concurrency=tasks * workers)
        .aggregate(32)
        .add_sink(8)
        .build(num_threads=workers)
    )
    assert sum(len(batch) for batch in pipeline) == ITEMS


def by_threads(op: Callable[[int], Any], workers: int) -> None:
    def work(share: range) -> None:
        for x in share:
            op(x)

    threads = [
        threading.Thread(target=work, args=(range(i, ITEMS, workers),))
        for i in range(workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


WAYS: dict[str, Callable[[Callable[[int], Any], int], None]] = {
    "headrace": by_pipeline,
    "headrace, 4x": partial(by_pipeline, tasks=4),
    "threads": by_threads,
}


def measure(way: Callable[[Callable[[int], Any], int], None], op: Any) -> str:
    """One line: items per second of one and of two workers, and the ratios."""
    wall: dict[int, list[float]] = {1: [], 2: []}
    cpu: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(REPETITIONS):
        for workers in (1, 2):
            begin, cpu_begin = time.perf_counter(), time.process_time()
            way(op, workers)
            wall[workers].append(time.perf_counter() - begin)
            cpu[workers].append(time.process_time() - cpu_begin)
    one, two = min(wall[1]), min(wall[2])
    ratio = median(cpu[2]) / median(cpu[1])
    return f"{ITEMS / one:9.0f} {ITEMS / two:9.0f} {one / two:6.2f} {ratio:6.2f}"


def main() -> None:
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"Python {sys.version.split()[0]}, the GIL is {'on' if gil else 'off'}")
    print(f"{'items per second':38} {'1 worker':>9} {'2':>9} {'2 ÷ 1':>6} {'CPU':>6}")
    for name, make in OPS.items():
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        for way_name, way in WAYS.items():
            print(f"{name:25} {way_name:12} {measure(way, make())}", flush=True)


if __name__ == "__main__":
    main()
