"""Experts and a gate as one predictor."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import as_rows, Floats, renamed
from gatewise.experts.gated import GatedExperts
from gatewise.gates import Gate


@renamed(routed="experts")
@dataclass(frozen=True, eq=False)
class MixtureOfExperts:
    """F(x) = sum_l shared_l(x) + sum_m g_m(x; theta) f_m(x) (`eq:formulation_MoE_shared`).

    ``gate`` and ``theta`` weigh the ``experts`` f_m, one for each of the gate's; the ``shared`` ones are always on.
    Both are sequences of experts or of (name, expert) pairs. An expert is anything with ``predict(X)`` or a callable
    X -> (n,), and gets X as it was handed in, an array or a data frame. With a sparse gate each expert is asked once,
    for the rows that selected it, and not at all when none did.

    >>> from gatewise import LinearGate
    >>> from gatewise.experts import ConstantExpert
    >>> model = MixtureOfExperts(LinearGate(2), [[np.log(3.0), 0.0]], [ConstantExpert(4.0), ConstantExpert(8.0)])
    >>> model.predict([[0.0], [1.0]])
    array([6., 5.])
    """

    gate: Gate
    theta: Any
    experts: Sequence[Any]
    shared: Sequence[Any] = ()

    def __post_init__(self) -> None:
        self.pools  # noqa: B018 - raises if the experts do not fit the gate

    @cached_property
    def pools(self) -> GatedExperts:
        """The experts and the shared ones, all with names."""
        return GatedExperts.of(self.experts, self.shared, self.gate.n_experts)

    def gate_weights(self, X: Any) -> Floats:
        """The weight of every expert at every row, (n, M)."""
        return self.gate.weights(X, self.theta)

    def predict(self, X: Any) -> Floats:
        """The mixture at every row, (n,)."""
        rows = as_rows(X)
        if len(rows) == 0:
            return np.zeros(0)
        X = X if hasattr(X, "shape") else rows
        return self.pools.shared.total(X) + self.pools.experts.mix(X, self._assignments(rows))

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
