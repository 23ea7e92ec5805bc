"""The scikit-learn faces: the only place that wires the rooms together."""

from gatewise.estimators.gate_classifier import GateClassifier
from gatewise.estimators.gate_regressor import GateRegressor
from gatewise.estimators.gate_selector import GateSelector
from gatewise.estimators.moe_classifier import MoEClassifier
from gatewise.estimators.moe_regressor import MoERegressor
from gatewise.estimators.router_aggregator import RouterAggregator
from gatewise.estimators.router_classifier import RouterClassifier
from gatewise.estimators.score_router import ScoreRouter
from gatewise.estimators.selector_classifier import SelectorClassifier
from gatewise.estimators.shared_routed_regressor import SharedRoutedRegressor

__all__ = [
    "GateClassifier",
    "GateRegressor",
    "GateSelector",
    "MoEClassifier",
    "MoERegressor",
    "RouterAggregator",
    "RouterClassifier",
    "ScoreRouter",
    "SelectorClassifier",
    "SharedRoutedRegressor",
]
