"""The scikit-learn faces: the only place that wires the rooms together."""

from gatewise.estimators.router import RouterAggregator

__all__ = ["RouterAggregator"]
