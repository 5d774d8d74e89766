"""What a pipeline is made of."""

from headrace.pipeline._aggregators import Aggregator, Collate

__all__ = ["Aggregator", "Collate"]
