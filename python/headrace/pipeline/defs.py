"""What a pipeline is made of."""

from headrace.pipeline._aggregators import Aggregator, Collate
from headrace.pipeline._merge import Merge

__all__ = ["Aggregator", "Collate", "Merge"]
