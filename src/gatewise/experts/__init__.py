"""Experts: anything with ``predict(X)`` or a callable X -> (n,), and the ones that come with Gatewise."""

from gatewise.experts.affine import AffineExpert
from gatewise.experts.column import ColumnExpert
from gatewise.experts.constant import ConstantExpert
from gatewise.experts.fourier import FourierExpert
from gatewise.experts.polynomial import PolynomialExpert
from gatewise.experts.pool import expert_matrix, expert_predictions
from gatewise.experts.protocol import Expert

__all__ = [
    "AffineExpert",
    "ColumnExpert",
    "ConstantExpert",
    "Expert",
    "FourierExpert",
    "PolynomialExpert",
    "expert_matrix",
    "expert_predictions",
]
