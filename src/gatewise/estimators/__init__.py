"""The scikit-learn faces: the only place that wires the rooms together."""

from gatewise.estimators.gate_regressor import GateRegressor
from gatewise.estimators.gate_selector import GateSelector
from gatewise.estimators.moe_classifier import MoEClassifier
from gatewise.estimators.moe_regressor import MoERegressor
from gatewise.estimators.router_aggregator import RouterAggregator
from gatewise.estimators.score_router import ScoreRouter
from gatewise.estimators.shared_routed_regressor import SharedRoutedRegressor

__all__ = [
    "GateRegressor",
    "GateSelector",
    "MoEClassifier",
    "MoERegressor",
    "RouterAggregator",
    "ScoreRouter",
    "SharedRoutedRegressor",
]
