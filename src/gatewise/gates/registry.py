"""The one registry of gate families: estimators, command line, page, docs and tests know a family by its name."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

from gatewise.gates.feature import FeatureGate
from gatewise.gates.forecast import ForecastGate
from gatewise.gates.gate import Gate
from gatewise.gates.kernel import KernelGate
from gatewise.gates.linear import LinearGate
from gatewise.gates.quadratic import QuadraticGate

GateChoice: TypeAlias = Gate | type[Gate]

# A new family is one class and one line here, or ``register_gate`` for a family of one's own.
GATES: dict[str, type[Gate]] = {
    "linear": LinearGate,
    "quadratic": QuadraticGate,
    "kernel": KernelGate,
    "forecast": ForecastGate,
    "feature": FeatureGate,
}
AUTOMATIC = ("linear", "quadratic", "kernel", "forecast")  # what ``gates="auto"`` stands for


def register_gate(name: str, family: type[Gate]) -> type[Gate]:
    """Make a gate family known by a name, to estimators and to the command line.

    The family must be built by ``family(n_experts)``; the name must be free, or belong to this family already.
    """
    if not (isinstance(family, type) and issubclass(family, Gate)):
        raise TypeError(f"family must be a class derived from gatewise.gates.Gate, not {family!r}")
    if not (isinstance(name, str) and name and name != "auto"):
        raise ValueError(f"name must be a word other than 'auto', not {name!r}")
    if GATES.setdefault(name, family) is not family:
        raise ValueError(f"name {name!r} belongs to {GATES[name].__name__}; take another")
    return family


def chosen_gates(gates: Any, n_experts: int, dense: bool) -> dict[str, GateChoice]:
    """Gates by their names, from "auto", names of the registry and gate objects, alone or in a sequence.

    A name stands for its family with default parameters. ``dense`` tells whether all experts may be asked at every
    row: gates that need the experts' forecasts take part only then.

    >>> list(chosen_gates("auto", 3, dense=False))
    ['linear', 'quadratic', 'kernel']
    >>> list(chosen_gates(["kernel", LinearGate(3), LinearGate(3, intercept=False)], 3, dense=True))
    ['kernel', 'linear-1', 'linear-2']
    """
    if isinstance(gates, str) and gates == "auto":
        return {name: GATES[name] for name in AUTOMATIC if dense or not GATES[name].needs_forecasts}
    wanted = [gates] if isinstance(gates, str | Gate) else gates
    if not isinstance(wanted, Sequence):
        raise ValueError(f"gates must be 'auto', some of {', '.join(GATES)}, or gate objects, not {gates!r}")
    return _numbered([_choice(gate, n_experts, dense) for gate in wanted])


def _choice(gate: Any, n_experts: int, dense: bool) -> tuple[str, GateChoice]:
    if isinstance(gate, Gate):
        name = next((known for known, family in GATES.items() if family is type(gate)), _own_name(gate))
        if gate.n_experts != n_experts:
            raise ValueError(f"gates: {gate!r} is for {gate.n_experts} experts, but there are {n_experts}")
        if getattr(gate, "phi", "exp") != "exp":
            raise ValueError(f"gates: {gate!r} must have phi='exp', as its scores are learned about a reference")
        choice: GateChoice = gate
    elif isinstance(gate, str) and gate in GATES:
        name, choice = gate, GATES[gate]
    else:
        raise ValueError(f"gates must be 'auto', some of {', '.join(GATES)}, or gate objects, not {gate!r}")
    if choice.needs_forecasts and not dense:
        raise ValueError(f"gates: {name!r} asks every expert; it needs k=None or k='auto'")
    return name, choice


def _own_name(gate: Gate) -> str:
    return type(gate).__name__.lower().removesuffix("gate") or "gate"


def _numbered(named: list[tuple[str, GateChoice]]) -> dict[str, GateChoice]:
    """Numbers behind names that occur more than once."""
    counts = Counter(name for name, _ in named)
    seen: Counter[str] = Counter()
    out: dict[str, GateChoice] = {}
    for name, gate in named:
        seen[name] += 1
        out[f"{name}-{seen[name]}" if counts[name] > 1 else name] = gate
    return out
