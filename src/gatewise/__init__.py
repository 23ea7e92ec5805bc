"""Gatewise learns where each model is right: gates over a pool of experts."""

import sys
from importlib import import_module
from types import ModuleType

from gatewise import geometry, theory
from gatewise.aggregation import after, Blocks, L2Projection, Particles, Updates
from gatewise.estimators import (
    GateRegressor,
    GateSelector,
    MoEClassifier,
    MoERegressor,
    RouterAggregator,
    ScoreRouter,
    SharedRoutedRegressor,
)
from gatewise.experts import expert_matrix
from gatewise.gates import KernelGate, LinearGate, phi_regularity, QuadraticGate
from gatewise.mixture import MixtureOfExperts, nearest_center_moe
from gatewise.moved import MovedModules
from gatewise.router.settings import MoESettings

sys.meta_path.append(MovedModules())

__version__ = "0.2.0"

__all__ = [
    "Blocks",
    "GateRegressor",
    "GateSelector",
    "KernelGate",
    "L2Projection",
    "LinearGate",
    "MixtureOfExperts",
    "MoEClassifier",
    "MoERegressor",
    "MoESettings",
    "Particles",
    "QuadraticGate",
    "RouterAggregator",
    "ScoreRouter",
    "SharedRoutedRegressor",
    "Updates",
    "__version__",
    "after",
    "expert_matrix",
    "geometry",
    "nearest_center_moe",
    "phi_regularity",
    "theory",
]


def __getattr__(name: str) -> ModuleType:
    # torch takes seconds to import, and only gatewise.nn needs it.
    if name == "nn":
        return import_module("gatewise.nn")
    raise AttributeError(f"module 'gatewise' has no attribute {name!r}")
