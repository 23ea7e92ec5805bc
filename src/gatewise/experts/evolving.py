"""Experts that are updated while they are used: a row is always predicted by a state that has not seen it."""

import copy
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone

from gatewise.arrays import Floats
from gatewise.experts.gated import GatedExperts
from gatewise.experts.joint_update import fit_jointly, Updates
from gatewise.experts.pool import expert_matrix, expert_predictions, Pool, weight_params
from gatewise.experts.protocol import can_predict, Expert


class EvolvingExpert:
    """An expert with an update rule that the user gives: ``update(expert, X, y)`` returns the next expert.

    >>> from gatewise.experts import ConstantExpert
    >>> last = EvolvingExpert(ConstantExpert(0.0), lambda expert, X, y: ConstantExpert(y[-1]))
    >>> last.partial_fit(np.zeros((2, 1)), np.array([3.0, 5.0])).predict(np.zeros((1, 1)))
    array([5.])
    """

    def __init__(self, expert: Expert, update: Callable[[Any, Any, Floats], Expert]) -> None:
        self.expert = expert
        self.update = update

    def partial_fit(self, X: Any, y: Floats) -> "EvolvingExpert":
        """Update the expert with these rows by the update rule."""
        self.expert = self.update(self.expert, X, y)
        return self

    def predict(self, X: Any) -> Floats:
        """The predictions of the expert as it is now, (n,)."""
        return expert_predictions(self.expert, X)


@dataclass(frozen=True)
class AveragedExpert:
    """f(x) = sum_i shares_i experts_i(x): a time-averaged expert of `remark3.2`."""

    experts: tuple[Expert, ...]
    shares: tuple[float, ...]

    def predict(self, X: Any) -> Floats:
        """f at every row of X, (n,)."""
        prediction: Floats = expert_matrix(self.experts, X) @ np.asarray(self.shares)
        return prediction


def after_burn_in(
    pools: GatedExperts,
    X: Any,
    y: Floats,
    updates: Updates | None,
    gate_weights: Floats,
    sample_weight: Floats | None = None,
) -> GatedExperts:
    """Copies of the experts as they are after the burn-in rows X and responses y (n,).

    An expert that was not fitted is fitted to these rows, jointly with the others (`fit_jointly`). One that was is
    updated if there are ``updates`` and it has ``partial_fit``. ``gate_weights`` (n, M) are the gate's.
    """
    own = GatedExperts(*(_copied(pool) for pool in (pools.experts, pools.shared)))
    if len(y) == 0:
        return own
    return fit_jointly(weighted(own, sample_weight), X, y, gate_weights, by_update=updates is not None)


def _copied(pool: Pool) -> Pool:
    return pool.with_models(
        [copy.deepcopy(expert) if can_predict(expert) else clone(expert) for expert in pool.models]
    )


def _weight_params(expert: Any, sample_weight: Floats) -> dict[str, Floats]:
    """The keyword that passes sample weights to whichever of ``fit`` and ``partial_fit`` an expert has."""
    if hasattr(expert, "partial_fit") and "sample_weight" not in signature(expert.partial_fit).parameters:
        return {}
    return weight_params(expert, sample_weight) if hasattr(expert, "fit") else {}


def weighted(pools: GatedExperts, sample_weight: Floats | None) -> GatedExperts:
    """The experts with the keywords that pass sample weights (n,) on to those that take them."""
    if sample_weight is None:
        return pools
    params = [
        {name: _weight_params(expert, sample_weight) for name, expert in pool.experts}
        for pool in (pools.experts, pools.shared)
    ]
    return GatedExperts(
        Pool(pools.experts.experts, params[0], kind=pools.experts.kind),
        Pool(pools.shared.experts, params[1], kind=pools.shared.kind),
    )


def update_blocks(n: int, every: int) -> Iterator[slice]:
    """Slices of at most ``every`` rows between updates, of n rows in all.

    >>> list(update_blocks(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(start, min(start + every, n)) for start in range(0, n, every))


def state_bytes(model: Any) -> int:
    """About how many bytes a copy of a model takes: its pickled size, or the sizes of its attributes.

    >>> state_bytes(np.zeros(1000)) > 8000
    True
    """
    try:
        return len(pickle.dumps(model, protocol=5))
    except Exception:  # a function of one's own, say; anything may be raised here
        parts = vars(model).values() if hasattr(model, "__dict__") else ()
        return sys.getsizeof(model) + sum(state_bytes(part) for part in parts)
