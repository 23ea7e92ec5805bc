"""Shared plus routed least squares, section 6 of the paper: what is common and what is local."""

from gatewise.shared.backfitting import backfit, Backfitting, Convergence
from gatewise.shared.bases import BASES, ConstantBasis, FourierBasis, PolynomialBasis, SplineBasis
from gatewise.shared.dynamic import search_thresholds
from gatewise.shared.least_squares import AdditiveFit, FITS, joint_fit, Problem
from gatewise.shared.partition import Threshold
from gatewise.shared.profile import Profile, profile_threshold
from gatewise.shared.sharing_scales import fit_scales, ScaleFit
from gatewise.shared.sieves import SieveSearch

__all__ = [
    "BASES",
    "FITS",
    "AdditiveFit",
    "Backfitting",
    "ConstantBasis",
    "Convergence",
    "FourierBasis",
    "PolynomialBasis",
    "Problem",
    "Profile",
    "ScaleFit",
    "SieveSearch",
    "SplineBasis",
    "Threshold",
    "backfit",
    "fit_scales",
    "joint_fit",
    "profile_threshold",
    "search_thresholds",
]
