"""The scikit-learn faces: the only place that wires the rooms together."""

from gatewise.estimators.moe import MoERegressor
from gatewise.estimators.router import RouterAggregator
from gatewise.estimators.shared import SharedRoutedRegressor

__all__ = ["MoERegressor", "RouterAggregator", "SharedRoutedRegressor"]
