"""Gatewise learns where each model is right: gates over a pool of experts."""

from gatewise import theory
from gatewise.experts import expert_matrix
from gatewise.gates import KernelGate, LinearGate, phi_regularity, QuadraticGate
from gatewise.mixture import MixtureOfExperts, nearest_center_moe

__version__ = "0.1.0"

__all__ = [
    "KernelGate",
    "LinearGate",
    "MixtureOfExperts",
    "QuadraticGate",
    "__version__",
    "expert_matrix",
    "nearest_center_moe",
    "phi_regularity",
    "theory",
]
