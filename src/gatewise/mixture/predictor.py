"""Experts and a gate as one predictor."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from gatewise.arrays import as_rows, Floats
from gatewise.experts import Expert, expert_predictions
from gatewise.gates import Gate


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
        for m, chosen, weights in self._assignments(rows):
            part = X if len(chosen) == len(rows) else _safe_indexing(X, chosen)
            total[chosen] += weights * expert_predictions(self.routed[m], part, f"routed[{m}]")
        return total

    def _assignments(self, rows: Floats) -> Iterator[tuple[int, NDArray[np.intp], Floats]]:
        """(m, the rows that selected expert m, its weights there), for every expert that any row selected."""
        n, n_experts, k = len(rows), self.gate.n_experts, self.gate.n_active
        if k == n_experts:
            weights = self.gate_weights(rows)
            yield from ((m, np.arange(n), weights[:, m]) for m in range(n_experts))
            return
        active, weights = self.gate.route(rows, self.theta)  # both (n, K)
        # Short labels are sorted by counting, in linear time.
        labels = active.ravel().astype(np.int16 if n_experts < 2**15 else np.intp)
        order = np.argsort(labels, kind="stable")
        ends = np.cumsum(np.bincount(labels, minlength=n_experts))
        for m in np.flatnonzero(np.diff(ends, prepend=0)):
            places = order[ends[m - 1] if m else 0 : ends[m]]
            yield int(m), places // k, weights.ravel()[places]
