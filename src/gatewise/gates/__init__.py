"""Gate families: x, theta -> weights on the simplex."""

from gatewise.gates.feature import FeatureGate
from gatewise.gates.gate import Gate
from gatewise.gates.kernel import KernelGate
from gatewise.gates.linear import LinearGate
from gatewise.gates.phi import phi_regularity, PhiRegularity
from gatewise.gates.quadratic import QuadraticGate
from gatewise.gates.score import ScoreGate

# Tests, docs and command line iterate over this: a new family needs a line here and one in tests/families.py.
FAMILIES: tuple[type[Gate], ...] = (LinearGate, QuadraticGate, KernelGate, FeatureGate)

__all__ = [
    "FAMILIES",
    "FeatureGate",
    "Gate",
    "KernelGate",
    "LinearGate",
    "PhiRegularity",
    "QuadraticGate",
    "ScoreGate",
    "phi_regularity",
]
