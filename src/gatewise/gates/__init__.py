"""Gate families: table -> inputs -> features -> scores -> weights on the simplex."""

from gatewise.gates.feature import FeatureGate
from gatewise.gates.forecast import ForecastGate
from gatewise.gates.gate import Gate
from gatewise.gates.kernel import KernelGate
from gatewise.gates.linear import LinearGate
from gatewise.gates.phi import phi_regularity, PhiRegularity
from gatewise.gates.quadratic import QuadraticGate
from gatewise.gates.registry import GATES, register_gate
from gatewise.gates.score import ScoreGate
from gatewise.gates.tree_gate import TreeGate

__all__ = [
    "GATES",
    "FeatureGate",
    "ForecastGate",
    "Gate",
    "KernelGate",
    "LinearGate",
    "PhiRegularity",
    "QuadraticGate",
    "ScoreGate",
    "TreeGate",
    "phi_regularity",
    "register_gate",
]


def __getattr__(name: str) -> None:
    if name == "FAMILIES":
        raise AttributeError("gatewise.gates.FAMILIES is now gatewise.gates.GATES, families by their names")
    raise AttributeError(f"module 'gatewise.gates' has no attribute {name!r}")
