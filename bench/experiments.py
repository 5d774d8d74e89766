"""The experiments by id, in the order in which they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import b1, b2, b3, b4, b5, b8, b9, b10, b11, b12, b13

if TYPE_CHECKING:
    from bench.common import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.id: experiment
    for experiment in (
        b1.EXPERIMENT,
        b2.EXPERIMENT,
        b3.EXPERIMENT,
        b3.MIXED,
        b3.LARGE,
        b4.EXPERIMENT,
        b5.EXPERIMENT,
        b8.EXPERIMENT,
        b9.EXPERIMENT,
        b10.EXPERIMENT,
        b11.EXPERIMENT,
        b12.EXPERIMENT,
        b13.EXPERIMENT,
    )
}
