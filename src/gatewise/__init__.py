"""Gatewise learns where each model is right: gates over a pool of experts."""

import sys
from importlib import import_module
from typing import Any, TYPE_CHECKING

from gatewise.moved import MovedModules

if TYPE_CHECKING:
    from gatewise import geometry, theory
    from gatewise.aggregation import after, Blocks, L2Projection, Particles, Updates
    from gatewise.estimators import (
        GateClassifier,
        GateRegressor,
        GateSelector,
        MoEClassifier,
        MoERegressor,
        RouterAggregator,
        RouterClassifier,
        ScoreRouter,
        SelectorClassifier,
        SharedRoutedRegressor,
    )
    from gatewise.experts import expert_matrix
    from gatewise.gates import KernelGate, LinearGate, phi_regularity, QuadraticGate
    from gatewise.mixture import MixtureOfExperts, nearest_center_moe
    from gatewise.router.settings import MoESettings

sys.meta_path.append(MovedModules())

__version__ = "0.2.0"

__all__ = [
    "Blocks",
    "GateClassifier",
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
    "RouterClassifier",
    "ScoreRouter",
    "SelectorClassifier",
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

HOMES = ("estimators", "aggregation", "experts", "gates", "mixture", "router.settings")  # of the public names


def __getattr__(name: str) -> Any:
    """A module of the package or a public name, imported at its first use: the command line must start at once."""
    if not name.startswith("_"):
        try:
            return import_module(f"gatewise.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"gatewise.{name}":
                raise
    for home in HOMES if name in __all__ else ():
        module = import_module(f"gatewise.{home}")
        if hasattr(module, name):
            return globals().setdefault(name, getattr(module, name))
    raise AttributeError(f"module 'gatewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
