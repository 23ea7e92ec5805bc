"""The one registry of gate families: estimators, command line, page, docs and tests know a family by its name."""

from typing import TypeAlias

from gatewise.gates.feature import FeatureGate
from gatewise.gates.forecast import ForecastGate
from gatewise.gates.gate import Gate
from gatewise.gates.kernel import KernelGate
from gatewise.gates.linear import LinearGate
from gatewise.gates.quadratic import QuadraticGate
from gatewise.gates.tree_gate import TreeGate

GateChoice: TypeAlias = Gate | type[Gate]

# A new family is one class and one line here, or ``register_gate`` for a family of one's own.
GATES: dict[str, type[Gate]] = {
    "linear": LinearGate,
    "quadratic": QuadraticGate,
    "kernel": KernelGate,
    "forecast": ForecastGate,
    "tree": TreeGate,
    "feature": FeatureGate,
}
AUTOMATIC = ("linear", "quadratic", "kernel", "forecast", "tree")  # the families of ``gates="auto"``


def register_gate(name: str, family: type[Gate]) -> type[Gate]:
    """Add a gate family to `GATES` under a name, so that `MoERegressor` and model files take it; returns the family.

    The family must be built by ``family(n_experts)``; the name must be free, or belong to this family already.
    """
    if not (isinstance(family, type) and issubclass(family, Gate)):
        raise TypeError(f"family must be a class derived from gatewise.gates.Gate, not {family!r}")
    if not (isinstance(name, str) and name and name != "auto"):
        raise ValueError(f"name must be a word other than 'auto', not {name!r}")
    if GATES.setdefault(name, family) is not family:
        raise ValueError(f"name {name!r} belongs to {GATES[name].__name__}; take another")
    return family
