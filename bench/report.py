"""Medians, the table, and the JSON of a run."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from bench.common import Experiment, Figures, Goal

# Figures of each side's repetitions; a side that failed has none, and a reason.
Runs = dict[str, list[Figures]]

HEADER = ("id", "side", "figure", "median", "min … max", "first aim", "to reach")


@dataclass(frozen=True)
class Row:
    id: str
    side: str
    figure: str
    median: str
    spread: str = ""
    first: str = ""
    reach: str = ""

    def cells(self) -> tuple[str, ...]:
        return (
            self.id,
            self.side,
            self.figure,
            self.median,
            self.spread,
            self.first,
            self.reach,
        )


def _number(value: float) -> str:
    """Three digits or more, so that 0.0391 and 1463 both read well."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def _spread(values: list[float]) -> str:
    return f"{_number(min(values))} … {_number(max(values))}" if values[1:] else ""


def _values(runs: Runs, side: str, figure: str) -> list[float]:
    return [run[figure] for run in runs.get(side, ()) if figure in run]


def _goal_values(goal: Goal, runs: Runs) -> tuple[float, list[float]] | None:
    """The goal's value from the medians, and its value in each repetition."""
    values = _values(runs, goal.side, goal.figure)
    if not values:
        return None
    if goal.over is None:
        return statistics.median(values), values
    base = _values(runs, goal.over, goal.figure)
    if not base:
        return None
    ratios = [a / b for a, b in zip(values, base, strict=False)]
    return statistics.median(values) / statistics.median(base), ratios


def _verdict(goal: Goal, value: float, limit: float | None) -> str:
    if limit is None:
        return ""
    word = "yes" if goal.reached(value, limit) else "NO"
    return f"{goal.sign} {_number(limit)} {word}"


def _goal_row(experiment: Experiment, goal: Goal, runs: Runs) -> Row:
    side = goal.side if goal.over is None else f"{goal.side} ÷ {goal.over}"
    found = _goal_values(goal, runs)
    if found is None:
        missing = f"{goal.sign} {_number(goal.limit)} NOT MEASURED"
        return Row(experiment.id, side, goal.figure, "–", reach=missing)
    value, values = found
    return Row(
        experiment.id,
        side,
        goal.figure,
        _number(value),
        _spread(values),
        _verdict(goal, value, goal.first),
        _verdict(goal, value, goal.limit),
    )


def rows(experiment: Experiment, runs: Runs, failures: dict[str, str]) -> list[Row]:
    """One row for each figure of each side; then those that have something to reach."""
    out = []
    for side in experiment.sides:
        if side.name in failures:
            out.append(Row(experiment.id, side.name, "failed, see below", "–"))
        for figure in experiment.figures:
            if values := _values(runs, side.name, figure):
                median = _number(statistics.median(values))
                row = Row(experiment.id, side.name, figure, median, _spread(values))
                out.append(row)
    return out + [_goal_row(experiment, goal, runs) for goal in experiment.goals]


def table(group: list[Row]) -> str:
    """The rows of an experiment as plain text."""
    every = [HEADER] + [row.cells() for row in group]
    widths = [max(len(cells[i]) for cells in every) for i in range(len(HEADER))]
    lines = [_line(HEADER, widths), _line(tuple("-" * w for w in widths), widths)]
    return "\n".join(lines + [_line(row.cells(), widths) for row in group])


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    """Text to the left, numbers (the median) to the right."""
    padded = [
        cell.rjust(width) if HEADER[i] == "median" else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def as_json(
    experiment: Experiment, runs: Runs, failures: dict[str, str]
) -> dict[str, Any]:
    goals = []
    for goal in experiment.goals:
        found = _goal_values(goal, runs)
        goals.append(
            {
                "side": goal.side,
                "over": goal.over,
                "figure": goal.figure,
                "sign": goal.sign,
                "limit": goal.limit,
                "first": goal.first,
                "value": found and found[0],
                "reached": found and goal.reached(found[0], goal.limit),
            }
        )
    return {
        "title": experiment.title,
        "repetitions": runs,
        "failures": failures,
        "goals": goals,
    }
