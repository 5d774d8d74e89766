#!/usr/bin/env python3
# ruff: noqa: E501 - the table quotes lines of C as they stand
"""Does the simulation have teeth? Break the scheduler, see that it notices (TAP).

Each mutant is one small change to a file of src/sched: a lost wake-up, a capacity one
too high, a skipped epoch mark. The simulation must fail on it. Every mutant is run
twice: as it is, and with the scheduler's own invariants (hr__sched_check) left out, so
that the driver's independent model has to see it alone. Except for what needs more than
a handful of items, the exploration of small plans (tests/model) must find it too.

    tests/sim/mutants.py [--seeds N] [WORD ...]     only the mutants with WORD in the name
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CHECK = "const char *wrong = hr__sched_check(d->sched);"
AT_ONCE = 2000  # seeds; well under a second of work,
LIMIT_S = 60  # so that this is a hang and not a busy machine
EXPLORE_LIMIT_S = 300  # some ten seconds of work


class Mutant(NamedTuple):
    """A change to src/sched/FILE that must be noticed."""

    name: str
    file: str
    old: str
    new: str
    explored: bool = True  # small plans come to it


MUTANTS = (
    Mutant(
        "capacity one too high",
        "sched_plan.c",
        "edge->capacity = edge->room = plan->edges[i].capacity;",
        "edge->capacity = plan->edges[i].capacity; edge->room = edge->capacity + 1; edge->capacity = edge->room;",
    ),
    Mutant(
        "lost wake of upstream",
        "edge.h",
        "    if (edge->from->watch)\n        hr__stage_touch(sched, edge->from);",
        "",
    ),
    Mutant(
        "lost wake of downstream",
        "edge.h",
        "if (edge->to->watch || handle == 0)",
        "if (handle == 0)",
    ),
    Mutant(
        "mark overtakes tasks (completion)",
        "stage.c",
        "        } else if (first_is_current(stage)) {\n            return;\n        }",
        "        }",
    ),
    Mutant(
        "ordered delivery skipped",
        "sched_state.h",
        "(stage->plan.order == HR_ORDER_COMPLETION || task == stage->first)",
        "(stage->plan.order == HR_ORDER_COMPLETION || stage->first)",
    ),
    Mutant(
        "next epoch delivers early",
        "sched_state.h",
        "return task->epoch == stage->epoch_out &&",
        "return",
    ),
    Mutant(
        "reservation leak: filtered/failed",
        "sched.c",
        "            stage->filtered++;\n        give_back(task, task->places);",
        "            stage->filtered++;",
    ),
    Mutant(
        "reservation leak: route's other paths",
        "sched.c",
        "if (i != path)",
        "if (i > path)",
    ),
    Mutant(
        "reservation leak: stream pauses",
        "sched.c",
        "    if (!task->behind) {\n        give_back(task, task->places);",
        "    if (!task->behind) {\n        if (!more) give_back(task, task->places);",
    ),
    Mutant(
        "behind may take every place",
        "stage.c",
        "stage->behind < stage->behind_max",
        "stage->behind < stage->out->capacity",
    ),
    Mutant(
        "behind leaves one place, not a batch",
        "sched_plan.c",
        "(edge->to->plan.kind == HR_STAGE_AGGREGATE ? edge->to->plan.arity : 1)",
        "1",
    ),
    Mutant(
        "merge: first mark passes",
        "stage.c",
        "        if (in->queued == 0 || in->run > 0)\n            return false;",
        "        if (in->queued == 0 || in->run > 0)\n            continue;",
    ),
    Mutant(
        "merge: closed inputs block the barrier",
        "stage.c",
        "        if (in->queued == 0 && in->closed)\n            continue;\n",
        "",
    ),
    Mutant(
        "aggregate batches across a mark",
        "sched.c",
        "min_u32(stage->plan.arity, stage->in->run);",
        "min_u32(stage->plan.arity, stage->in->queued);",
    ),
    Mutant(
        "drop_last keeps rest at the end",
        "stage.c",
        "stage->in->run > 0 && stage->in->run < stage->plan.arity &&\n           run_is_final(stage->in)",
        "stage->in->run > 0 && stage->in->run < stage->plan.arity &&\n           stage->in->marks > 0",
    ),
    Mutant(
        "fold: no flush before a mark",
        "stage.c",
        "if (stage->plan.kind == HR_STAGE_FOLD && !stage->flushed)\n        return false;\n    for",
        "for",
    ),
    Mutant(
        "policy: >= instead of >",
        "ending.c",
        "stage->failed > (uint64_t)",
        "stage->failed >= (uint64_t)",
    ),
    Mutant(
        "policy: probation of 99",
        "ending.c",
        "stage->tasks >= HR_SCHED_PROBATION",
        "stage->tasks >= HR_SCHED_PROBATION - 1",
        explored=False,
    ),
    Mutant(
        "policy: not judged at end of probation",
        "sched.c",
        "failed || stage->tasks == HR_SCHED_PROBATION",
        "failed",
        explored=False,
    ),
    Mutant(
        "cancel forgets held outputs",
        "ending.c",
        "        discard(sched, task->held);\n        stage->discarded_out++;",
        "        stage->discarded_out++;",
    ),
    Mutant(
        "cancel: outputs still taken",
        "sched.c",
        "    } else if (is_refused(task)) {\n        stage->discarded_out++;",
        "    } else if (stage->cancelled && stage->index > 2) {\n        stage->discarded_out++;",
    ),
    Mutant(
        "failure: upstream goes on",
        "ending.c",
        "cancel_stage(sched, at);\n    }\n}",
        "(void)0;\n    }\n}",
    ),
    Mutant(
        "failure: only the parent is cancelled",
        "ending.c",
        "for (uint32_t k = 0; k < at->in_count; k++)\n            ancestor",
        "for (uint32_t k = 0; at == stage && k < at->in_count; k++)\n            ancestor",
    ),
    Mutant(
        "failed stage takes more input",
        "ending.c",
        "    stage->stopped = true;\n    discard",
        "    discard",
    ),
    Mutant(
        "paused task not closed",
        "sched.c",
        "if (is_refused(task) || (stage->plan.kind == HR_STAGE_SOURCE && stage->over))",
        "if (stage->cancelled && stage->over)",
    ),
    Mutant(
        "credit wakes nobody",
        "sink_edge.c",
        "    edge->lent -= n;\n    hr__edge_free(sched, edge, n);",
        "    edge->lent -= n; edge->room += n;",
    ),
    Mutant(
        "ride takes no slot over",
        "sched.c",
        "    lead->rides = true;",
        "    lead->rides = false;",
    ),
    Mutant(
        "take frees the place at once",
        "sink_edge.c",
        "sink->in->lent++;",
        "sink->in->room++; sink->in->lent += 0;",
    ),
    Mutant(
        "gate ignored",
        "stage.c",
        "return stage->gate_open && stage->out->room > 0",
        "return stage->out->room > 0",
    ),
    Mutant(
        "END while tasks run",
        "sink_edge.c",
        "sched->live == 0 ? HR_TAKE_END",
        "sink->in->closed ? HR_TAKE_END",
    ),
    Mutant(
        "farthest from the sink first",
        "sched.c",
        "(int)(word * 64 + 63) - __builtin_clzll(bits)",
        "(int)(word * 64) + __builtin_ctzll(bits)",
        explored=False,
    ),
    Mutant(
        "concurrency one too high",
        "stage.c",
        "    if (stage->running >= stage->plan.concurrency)\n",
        "    if (stage->running > stage->plan.concurrency)\n",
    ),
    Mutant(
        "paused task loses its slot",
        "sched.c",
        "    task->phase = TASK_PAUSED;",
        "    task->phase = TASK_PAUSED; stage->running--;",
    ),
    Mutant(
        "stage ends with outputs held",
        "stage.c",
        "    if (stage->first)\n        return false;\n    assert",
        "    if (stage->active > 0)\n        return false;\n    (void)",
    ),
    Mutant(
        "drain loses a paused source",
        "ending.c",
        "        stage->paused = (struct task_list){0};\n        hr__task_close(task);",
        "        stage->paused = (struct task_list){0};",
    ),
    Mutant(
        "time not charged on change",
        "stage.c",
        "stage->since_ns = sched->now_ns;\n    stage->state",
        "stage->state",
        explored=False,
    ),
    Mutant(
        "LIFO edge",
        "edge.h",
        "edge->ring[edge->head++ & edge->mask]",
        "edge->ring[(edge->run > 1 ? edge->head + edge->run - 1 : edge->head) & edge->mask]; if (edge->run > 1) edge->ring[(edge->head + edge->run - 1) & edge->mask] = edge->ring[edge->head & edge->mask]; edge->head++",
    ),
    Mutant(
        "cut forgets tasks at work",
        "ending.c",
        "        task->refused = true;",
        "        task->refused = task->phase != TASK_RUNNING;",
    ),
    Mutant(
        "cut keeps the mark",
        "ending.c",
        "    if (!before_mark)\n        return;",
        "    return;",
    ),
    Mutant(
        "cut loses paused tasks before it",
        "ending.c",
        "        list_again(task);\n    for",
        "        (void)list_again;\n    for",
    ),
    Mutant(
        "only the first failure cuts",
        "sched.c",
        "failed && stage->plan.cuts && !is_refused(task)",
        "failed && stage->plan.cuts && !stage->stopped",
    ),
)


def compile_c(folder: Path, sources: list[Path], objects: Path) -> list[Path]:
    """Compile to object files; CalledProcessError when the compiler refuses."""
    made = []
    for source in sources:
        made.append(objects / f"{source.stem}.o")
        subprocess.run(
            [
                "cc",
                "-std=gnu11",
                "-O1",
                "-w",
                "-DNDEBUG",
                "-DHR_TESTING",
                '-DHR_VERSION="0"',
                f"-I{folder / 'include'}",
                f"-I{folder / 'src'}",
                "-c",
                str(source),
                "-o",
                str(made[-1]),
            ],
            check=True,
            capture_output=True,
        )
    return made


def what_it_says(command: list[str], limit_s: float) -> str | None:
    """The line of a failed run that tells why; None: it passed."""
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return "it hangs"
    if run.returncode == 0:
        return None
    for line in (run.stdout + run.stderr).splitlines():
        if not line.startswith(("TAP", "1..", "ok")):
            return line.removeprefix("# ")
    return f"exit status {run.returncode}"


def run_simulation(program: str, seeds: int) -> str | None:
    """How the simulation ended; None: it passed."""
    for first in range(1, seeds + 1, AT_ONCE):
        count = min(AT_ONCE, seeds + 1 - first)
        command = [program, "--first", str(first), "--seeds", str(count)]
        if end := what_it_says(command, LIMIT_S):
            return end
    return None


class Drivers(NamedTuple):
    """Object files that make a test program of the scheduler's."""

    seeing: list[Path]  # the simulation
    blind: list[Path]  # without the scheduler's own check
    explorer: list[Path]


def build_drivers(folder: Path, objects: Path) -> Drivers:
    """Compile all that does not change from mutant to mutant."""
    sim = sorted((folder / "tests/sim").glob("*.c"))
    model = sorted((folder / "tests/model").glob("*.c"))
    base = [folder / "src/base" / f"{n}.c" for n in ("mem", "status", "sys")]
    base_objects = compile_c(folder, base, objects)
    seeing = compile_c(folder, sim, objects) + base_objects
    watcher = next(path for path in sim if CHECK in path.read_text())
    blind_source = objects / f"{watcher.stem}_blind.c"
    text = watcher.read_text().replace(CHECK, "const char *wrong = NULL;")
    blind_source.write_text(text)
    for header in (folder / "tests/sim").glob("*.h"):
        shutil.copy(header, objects)
    blind = compile_c(folder, [blind_source], objects)
    rest = [path for path in seeing if path.stem != watcher.stem]
    return Drivers(
        seeing, rest + blind, compile_c(folder, model, objects) + base_objects
    )


def try_mutant(mutant: Mutant, work: Path, drivers: Drivers, seeds: int) -> list[str]:
    """Whatever is wrong with the mutant's tests; empty: it was noticed."""
    folder = work / "tree"
    shutil.copytree(ROOT / "src/sched", folder / "src/sched", dirs_exist_ok=True)
    path = folder / "src/sched" / mutant.file
    text = path.read_text()
    if text.count(mutant.old) < 1:
        return [f"{mutant.file} has no longer the text to change"]
    path.write_text(text.replace(mutant.old, mutant.new, 1))
    objects = work / "mutant"
    objects.mkdir(exist_ok=True)
    sched = compile_c(folder, sorted((folder / "src/sched").glob("*.c")), objects)

    def program(driver: list[Path]) -> str:
        parts = map(str, sched + driver)
        name = str(work / "program")
        subprocess.run(["cc", *parts, "-lpthread", "-lm", "-o", name], check=True)
        return name

    ends = {
        "with its check": run_simulation(program(drivers.seeing), seeds),
        "by the driver alone": run_simulation(program(drivers.blind), seeds),
    }
    if mutant.explored:
        ends["in small plans"] = what_it_says(
            [program(drivers.explorer), "--bail"], EXPLORE_LIMIT_S
        )
    wrong = []
    for how, end in ends.items():
        if end is None:
            wrong.append(f"survived, {how}")
        else:
            print(f"# {how}: {end}")
    return wrong


def main() -> int:
    """Run what was asked for; 0 when every mutant was noticed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=60000)
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()
    chosen = [
        m for m in MUTANTS if not args.words or any(w in m.name for w in args.words)
    ]
    failed = 0
    print(f"TAP version 13\n1..{len(chosen)}")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for part in ("src/base", "src/sched", "include", "tests/sim", "tests/model"):
            shutil.copytree(ROOT / part, work / "tree" / part)
        objects = work / "driver"
        objects.mkdir()
        drivers = build_drivers(work / "tree", objects)
        for number, mutant in enumerate(chosen, 1):
            wrong = try_mutant(mutant, work, drivers, args.seeds)
            failed += bool(wrong)
            print(f"{'not ok' if wrong else 'ok'} {number} - {mutant.name}")
            print("".join(f"# {line}\n" for line in wrong), end="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
