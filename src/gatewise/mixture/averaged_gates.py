"""One gate out of several fitted ones over the same experts."""

from typing import Any

import numpy as np

from gatewise.arrays import Floats
from gatewise.experts.pool import named_experts, Pool


def averaged_gates(pool: Pool, weights: Floats, X: Any) -> Floats:
    """The gate weights of the models of a pool at the rows of X, averaged by ``weights`` (L,): (n, M).

    Every model must have ``gate_weights(X)``, and all must weigh the same ``experts`` and have the same ``shared``.
    """
    for name, model in pool.experts:
        if not hasattr(model, "gate_weights"):
            raise ValueError(f"the {pool.kind} {name!r} ({type(model).__name__}) has no gate_weights")
    experts = [_experts(model) for model in pool.models]
    if any(others != experts[0] for others in experts):
        raise ValueError("an aggregated gate needs candidates with the same experts; take readout='single'")
    gates = [weight * model.gate_weights(X) for weight, model in zip(weights, pool.models, strict=True)]
    return np.asarray(sum(gates))


def _experts(model: Any) -> list[list[Any]]:
    """The experts and the shared experts of a model, without their names."""
    lists = (named_experts(getattr(model, name, ()), name, least=0) for name in ("experts", "shared"))
    return [[expert for _, expert in pairs] for pairs in lists]
