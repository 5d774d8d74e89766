"""Run the experiments: every repetition of every side in a process of its own.

The sides of an experiment take turns, A B C A B C, so that a slow spell of the machine
hits all of them. Called by bench/run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench import report
from bench.common import ROOT, Experiment, Figures
from bench.experiments import EXPERIMENTS

PEERS = (
    "headrace",
    "spdl",
    "torch",
    "pillow",
    "opencv-python-headless",
    "simplejpeg",
    "numpy",
)
DEADLINE_S = 180


def _run_side(experiment: Experiment, side: str) -> Figures:
    """Figures of one run. A side that fails says why in a RuntimeError."""
    command = [sys.executable, "-m", "bench.side", experiment.id, side]
    try:
        done = subprocess.run(
            command,
            check=False,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done after {DEADLINE_S} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"exit status {done.returncode}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def _progress(text: str) -> None:
    """Show what is running, on one line that the next replaces."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _run(
    experiment: Experiment, repetitions: int, until_s: float
) -> tuple[report.Runs, dict[str, str]]:
    """Repeat all sides in turn. None is begun after `until_s`, but for the first."""
    runs: report.Runs = {}
    failures: dict[str, str] = {}
    for repetition in range(repetitions):
        if repetition > 0 and time.monotonic() > until_s:
            break
        for side in experiment.sides:
            if side.name in failures:
                continue
            _progress(f"{experiment.id} {repetition + 1}/{repetitions} {side.name}")
            try:
                figures = _run_side(experiment, side.name)
                runs.setdefault(side.name, []).append(figures)
            except RuntimeError as error:
                failures[side.name] = str(error)
    _progress("")
    return runs, failures


def _versions() -> dict[str, str]:
    found = {}
    for name in PEERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _machine() -> str:
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    cores = len(os.sched_getaffinity(0))
    return f"{cpu}, {cores} cores, Python {platform.python_version()}"


@dataclass(frozen=True)
class _Usage:
    """CPU seconds since start-up: of the whole machine, and of this run's processes."""

    machine_s: float
    own_s: float
    at_s: float

    @classmethod
    def now(cls) -> _Usage:
        # user, nice, system, idle, iowait, irq, softirq, steal
        ticks = [int(n) for n in Path("/proc/stat").read_text().split()[1:9]]
        busy = sum(ticks) - ticks[3] - ticks[4]
        own = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cls(
            busy / os.sysconf("SC_CLK_TCK"),
            own.ru_utime + own.ru_stime + time.process_time(),
            time.monotonic(),
        )

    def of_others(self, since: _Usage) -> float:
        """Cores that other programs and the hypervisor used, on average."""
        machine_s, own_s = self.machine_s - since.machine_s, self.own_s - since.own_s
        return max(0.0, machine_s - own_s) / (self.at_s - since.at_s)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    parser.add_argument(
        "ids", nargs="*", metavar="ID", help=f"of {', '.join(EXPERIMENTS)}; all"
    )
    parser.add_argument("--repetitions", type=int, default=5, metavar="N")
    parser.add_argument(
        "--minutes",
        type=float,
        default=30,
        metavar="M",
        help="repeat less often where the experiments would take longer (default 30)",
    )
    parser.add_argument(
        "--json", type=Path, default=ROOT / "build" / "bench.json", metavar="FILE"
    )
    args = parser.parse_args()
    if unknown := set(args.ids) - set(EXPERIMENTS):
        parser.error(f"no such experiment: {', '.join(sorted(unknown))}")
    return args


def main() -> int:
    args = _parse()
    start = _Usage.now()
    versions = _versions()
    print(_machine())
    print(", ".join(f"{name} {number}" for name, number in versions.items()))
    print(f"Medians of up to {args.repetitions} interleaved runs in fresh processes.")
    notes, documents, failed = [], {}, []
    chosen = [EXPERIMENTS[name] for name in args.ids or EXPERIMENTS]
    for number, experiment in enumerate(chosen):
        prepared = experiment.prepare()
        if prepared and prepared not in notes:
            notes.append(prepared)
            print(prepared)
        share = (number + 1) / len(chosen)
        until_s = start.at_s + 60 * args.minutes * share
        runs, failures = _run(experiment, args.repetitions, until_s)
        failed += [f"{experiment.id} {side}: {failures[side]}" for side in failures]
        print(f"\n{experiment.title}")
        print(report.table(report.rows(experiment, runs, failures)), flush=True)
        documents[experiment.id] = report.as_json(experiment, runs, failures)

    others = _Usage.now().of_others(start)
    print(f"\nOther programs used {others:.2f} cores meanwhile.", end=" ")
    print("Do not trust the wall times." if others > 0.1 else "The machine was quiet.")
    if failed:
        print("\nFailed:", *failed, sep="\n  ")
    args.json.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "machine": _machine(),
        "cores_used_by_others": round(others, 3),
        "versions": versions,
        "experiments": documents,
    }
    args.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
