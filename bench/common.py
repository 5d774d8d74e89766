"""What every experiment is made of: sides, goals, and a stopwatch."""

from __future__ import annotations

import os
import resource
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "bench"

Figures = dict[str, float]


@dataclass(frozen=True)
class Side:
    """One way to do an experiment's work.

    `run` does the work once, in a process of its own, and gives its figures by name.
    """

    name: str
    run: Callable[[], Figures]


@dataclass(frozen=True)
class Goal:
    """A figure of one side, alone or as a ratio, and what it has to reach.

    With `over`, the value is `side` ÷ `over`. `first` is the aim on the way there.
    """

    side: str
    figure: str
    over: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    first: float | None = None

    def reached(self, value: float, limit: float) -> bool:
        return value >= limit if self.at_least is not None else value <= limit

    @property
    def limit(self) -> float:
        limit = self.at_least if self.at_least is not None else self.at_most
        assert limit is not None
        return limit

    @property
    def sign(self) -> str:
        return "≥" if self.at_least is not None else "≤"


@dataclass(frozen=True)
class Experiment:
    """`figures` is the order in which a side's figures are shown."""

    id: str
    title: str
    figures: tuple[str, ...]
    sides: tuple[Side, ...]
    goals: tuple[Goal, ...]
    prepare: Callable[[], str] = field(default=lambda: "")


@dataclass
class Cost:
    """Seconds of CPU (this process and its ended children) and of wall time."""

    cpu_s: float = 0.0
    wall_s: float = 0.0


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def costing() -> Iterator[Cost]:
    """Measure the body. Worker processes count once they have been waited for."""
    cost = Cost()
    children_s, cpu_s = _children_cpu_s(), time.process_time()
    wall_s = time.perf_counter()
    yield cost
    cost.wall_s = time.perf_counter() - wall_s
    cost.cpu_s = time.process_time() - cpu_s + _children_cpu_s() - children_s


def _processes() -> list[Path]:
    """This process and its children, in /proc."""
    found = [Path("/proc/self")]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = status.read_text().split("PPid:\t")[1]
        except (OSError, IndexError):  # it has ended meanwhile
            continue
        if int(fields.split()[0]) == os.getpid():
            found.append(status.parent)
    return found


def _memory_mib(field_name: str) -> float:
    total = 0
    for process in _processes():
        text = (process / "status").read_text()
        total += int(text.split(f"{field_name}:")[1].split()[0])
    return total / 1024


def resident_mib() -> float:
    """Memory that this process and its children hold; what they share counts twice."""
    return _memory_mib("VmRSS")


def peak_resident_mib() -> float:
    """The sum of the most that each of them has held."""
    return _memory_mib("VmHWM")


@dataclass(frozen=True)
class Engine:
    """headrace or SPDL: the same names with the same meaning in both."""

    name: str
    builder: Callable[[], Any]
    io: Any

    def stretch(self, width: int, height: int) -> dict[str, Any]:
        """Arguments of load_image: fill the target, antialiased bilinear filter."""
        if self.name == "headrace":
            return {
                "width": width,
                "height": height,
                "scale_mode": None,
                "scale_algo": "bilinear",
            }
        filter_desc = self.io.get_video_filter_desc(
            scale_width=width,
            scale_height=height,
            scale_mode=None,
            scale_algo="bilinear",
            pix_fmt="rgb24",
        )
        return {"filter_desc": filter_desc}

    def stretch_batch(self, width: int, height: int) -> dict[str, Any]:
        """The same for load_image_batch, where width and height are required."""
        size = {"width": width, "height": height}
        return size | self.stretch(width, height)


def engine(name: str, *, with_io: bool = True) -> Engine:
    builder = import_module(f"{name}.pipeline").PipelineBuilder
    return Engine(name, builder, import_module(f"{name}.io") if with_io else None)


def identity(item: Any) -> Any:
    """The no-op stage."""
    return item
