"""The gates of `tab:mc-summary` in every design: nets of linear and quadratic gates, and kernel gates.

No parametric gate has an intercept and no quadratic one a cross term: so the text's grids give the stated numbers of
candidates (section `sec:supp-simulation-details`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gatewise.gates import KernelGate, LinearGate, QuadraticGate
from gatewise.gates.score import ScoreGate
from gatewise.nets import Net

GATES = ("linear", "quadratic", "kernel")
LINEAR = LinearGate(3, intercept=False)
QUADRATIC = QuadraticGate(3, intercept=False, cross=False)


@dataclass(frozen=True)
class NetGate:
    """A gate and the values of each of its coefficients.

    >>> [NETS[design, gate].net().size for design in ("linear", "quadratic", "nonlinear") for gate in GATES[:2]]
    [2401, 1679616, 225, 57600, 2401, 390625]
    """

    gate: ScoreGate
    values: tuple[Sequence[float], ...]

    def net(self) -> Net:
        """The product net: every combination of the coefficients' values is one candidate."""
        return self.gate.net(self.values)

    @property
    def radius(self) -> float:
        """The largest absolute coefficient: the box that the values span."""
        return max(abs(value) for values in self.values for value in values)


_HALVES = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
_SIXTHS = (0.0, 0.6, 1.2, 1.8, 2.4, 3.0)
_STRONG, _WEAK, _SQUARES = (-2.5, -1.25, 0.0, 1.25, 2.5), (-1.0, 0.0, 1.0), (-1.6, -1.2, -0.8, 0.0)
_WIDE, _NARROW = (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0), (-2.0, -1.0, 0.0, 1.0, 2.0)

# Coefficients of expert 1, then of expert 2: x1, x2 for the linear gate, x1^2, x2^2, x1, x2 for the quadratic one.
NETS = {
    ("linear", "linear"): NetGate(LINEAR, (_HALVES,) * 4),
    ("linear", "quadratic"): NetGate(QUADRATIC, (_SIXTHS,) * 8),
    ("quadratic", "linear"): NetGate(LINEAR, (_STRONG, _WEAK, _WEAK, _STRONG)),
    ("quadratic", "quadratic"): NetGate(
        QUADRATIC, (_SQUARES, _SQUARES, _STRONG, _WEAK, _SQUARES, _SQUARES, _WEAK, _STRONG)
    ),
    ("nonlinear", "linear"): NetGate(LINEAR, (_WIDE,) * 4),
    ("nonlinear", "quadratic"): NetGate(QUADRATIC, (_NARROW,) * 8),
}

_NINE = KernelGate(3, mesh=1.0, kappa=0.75, low=-1.0, high=1.0)
KERNELS = {
    "linear": _NINE,
    "quadratic": _NINE,
    "nonlinear": KernelGate(3, mesh=2 / 3, kappa=0.5, low=-1.0, high=1.0),
}
