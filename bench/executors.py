"""What a stage's own executor costs an item, beside the bare executor.

    .venv/bin/python -m bench.executors

A no-op function; CPU and wall time per item in µs, medians of 5 runs that take turns.
The bare executor has as many calls in flight as the pipeline next to it. The time of
worker processes is not counted.
`engine` is the same stage in the pipeline's own threads.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from statistics import median
from typing import TYPE_CHECKING, Any

from headrace.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THREADS = 2
REPETITIONS = 5


def no_op(x: int) -> int:
    return x


def ten(x: int) -> Iterator[int]:
    yield from range(x, x + 10)


def bare(items: int, executor: Executor, in_flight: int) -> None:
    futures: deque[Any] = deque()
    for i in range(items):
        if len(futures) == in_flight:
            futures.popleft().result()
        futures.append(executor.submit(no_op, i))
    while futures:
        futures.popleft().result()


def pipeline(
    items: int, executor: Executor | None, in_flight: int, op: Any = no_op
) -> None:
    built = (
        PipelineBuilder()
        .add_source(range(items))
        .pipe(op, executor=executor, concurrency=in_flight)
        .aggregate(32)
        .add_sink(8)
        .build(num_threads=THREADS)
    )
    for _ in built:
        pass
    built.stop()


def sides(
    threads: Executor, processes: Executor
) -> dict[str, tuple[int, Callable[[int], None]]]:
    table: dict[str, tuple[int, Callable[[int], None]]] = {
        "engine": (20_000, lambda n: pipeline(n, None, 2)),
        "thread pool, generator of 10": (
            4_000,
            lambda n: pipeline(n // 10, threads, 16, ten),
        ),
    }
    for name, pool, items in (
        ("thread pool", threads, 10_000),
        ("process pool", processes, 2_000),
    ):
        for k in (2, 16, 64):
            table[f"{name}, {k} in flight"] = (
                items,
                lambda n, pool=pool, k=k: pipeline(n, pool, k),
            )
            table[f"bare {name}, {k} in flight"] = (
                items,
                lambda n, pool=pool, k=k: bare(n, pool, k),
            )
    return table


def main() -> None:
    with ThreadPoolExecutor(THREADS) as threads, ProcessPoolExecutor(THREADS) as pool:
        table = sides(threads, pool)
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in table}
        for _ in range(REPETITIONS):
            for name, (items, run) in table.items():
                wall, cpu = time.perf_counter(), time.process_time()
                run(items)
                figures[name].append(
                    (
                        (time.process_time() - cpu) / items * 1e6,
                        (time.perf_counter() - wall) / items * 1e6,
                    )
                )
    print(f"{'µs per item':34}{'CPU':>8}{'wall':>8}")
    for name, runs in figures.items():
        cpu, wall = (median(column) for column in zip(*runs, strict=True))
        print(f"{name:34}{cpu:8.1f}{wall:8.1f}")


if __name__ == "__main__":
    main()
