"""Shared plus routed least squares, section 6 of the paper: what is common and what is local."""

from typing import Any

from gatewise.shared.backfitting import backfit, Backfitting, Convergence
from gatewise.shared.bases import BASES, ConstantBasis, FourierBasis, PolynomialBasis, SplineBasis
from gatewise.shared.dynamic import search_thresholds
from gatewise.shared.least_squares import AdditiveFit, AdditiveProblem, FITS, joint_fit
from gatewise.shared.partition import ThresholdSearch
from gatewise.shared.profile import profile_threshold, ThresholdProfile
from gatewise.shared.sharing_scales import fit_scales, ScaleFit
from gatewise.shared.sieves import SieveSearch

__all__ = [
    "BASES",
    "FITS",
    "AdditiveFit",
    "AdditiveProblem",
    "Backfitting",
    "ConstantBasis",
    "Convergence",
    "FourierBasis",
    "PolynomialBasis",
    "ScaleFit",
    "SieveSearch",
    "SplineBasis",
    "ThresholdProfile",
    "ThresholdSearch",
    "backfit",
    "fit_scales",
    "joint_fit",
    "profile_threshold",
    "search_thresholds",
]

_NEW_NAMES = {"Problem": "AdditiveProblem", "Profile": "ThresholdProfile", "Threshold": "ThresholdSearch"}


def __getattr__(name: str) -> Any:
    if name in _NEW_NAMES:  # an ImportError: `from gatewise.shared import ...` would hide the text of any other
        raise ImportError(f"gatewise.shared.{name} is now gatewise.shared.{_NEW_NAMES[name]}")
    raise AttributeError(f"module 'gatewise.shared' has no attribute {name!r}")
