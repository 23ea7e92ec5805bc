"""Experts and a gate as one predictor."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from gatewise.checks import as_rows
from gatewise.experts import Expert, expert_predictions
from gatewise.gates import Gate

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MixtureOfExperts:
    """F(x) = sum_l shared_l(x) + sum_m g_m(x; theta) routed_m(x) (`eq:formulation_MoE_shared`).

    ``gate`` and ``theta`` weigh the ``routed`` experts, one for each of the gate's; the ``shared`` ones are always
    on. An expert is anything with ``predict(X)`` or a callable X -> (n,), and gets X as it was handed in, an array
    or a data frame. With a sparse gate each routed expert is asked once, for the rows that selected it, and not at
    all when none did.

    >>> from gatewise import LinearGate
    >>> from gatewise.experts import ConstantExpert
    >>> model = MixtureOfExperts(LinearGate(2), [[np.log(3.0), 0.0]], [ConstantExpert(4.0), ConstantExpert(8.0)])
    >>> model.predict([[0.0], [1.0]])
    array([6., 5.])
    """

    gate: Gate
    theta: Any
    routed: Sequence[Expert]
    shared: Sequence[Expert] = ()

    def __post_init__(self) -> None:
        if len(self.routed) != self.gate.n_experts:
            raise ValueError(
                f"routed must hold one expert for each of the gate's {self.gate.n_experts}, not {len(self.routed)}"
            )

    def gate_weights(self, X: Any) -> Floats:
        """The weight of every routed expert at every row, (n, M)."""
        return self.gate.weights(X, self.theta)

    def predict(self, X: Any) -> Floats:
        """The mixture at every row, (n,)."""
        rows = as_rows(X)
        X = X if hasattr(X, "shape") else rows
        total = np.zeros(len(rows))
        if len(rows) == 0:
            return total
        for number, expert in enumerate(self.shared):
            total += expert_predictions(expert, X, f"shared[{number}]")
        weights = self.gate_weights(rows)
        for m, chosen in self._selected_rows(rows):
            part = X if len(chosen) == len(rows) else _safe_indexing(X, chosen)
            total[chosen] += weights[chosen, m] * expert_predictions(self.routed[m], part, f"routed[{m}]")
        return total

    def _selected_rows(self, rows: Floats) -> Iterator[tuple[int, NDArray[np.intp]]]:
        """(m, the rows that selected expert m), for every expert that any row selected."""
        if self.gate.n_active == self.gate.n_experts:
            everyone = np.arange(len(rows))
            yield from ((m, everyone) for m in range(self.gate.n_experts))
            return
        active = self.gate.active(rows, self.theta)  # (n, K)
        order = np.argsort(active, axis=None, kind="stable")
        experts, starts = np.unique(active.ravel()[order], return_index=True)
        for m, chosen in zip(experts, np.split(order // active.shape[1], starts[1:]), strict=True):
            yield int(m), chosen
