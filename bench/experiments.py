"""The experiments by id, in the order in which they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import b1, b2, b3, b4, b5, b8, b9, b10, b11

if TYPE_CHECKING:
    from bench.common import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.id: module.EXPERIMENT
    for module in (b1, b2, b3, b4, b5, b8, b9, b10, b11)
}
