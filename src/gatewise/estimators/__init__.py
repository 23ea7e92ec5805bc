"""The scikit-learn faces: the only place that wires the rooms together."""

from gatewise.estimators.gate_regressor import GateRegressor
from gatewise.estimators.moe import MoERegressor
from gatewise.estimators.router import RouterAggregator
from gatewise.estimators.selector import GateSelector
from gatewise.estimators.shared import SharedRoutedRegressor

__all__ = ["GateRegressor", "GateSelector", "MoERegressor", "RouterAggregator", "SharedRoutedRegressor"]
