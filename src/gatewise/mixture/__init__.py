"""The mixture predictor: shared experts plus the experts that a gate weighs."""

from gatewise.mixture.nearest_center import nearest_center_moe
from gatewise.mixture.predictor import MixtureOfExperts

__all__ = ["MixtureOfExperts", "nearest_center_moe"]
