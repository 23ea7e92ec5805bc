"""Least squares for one gate along experts that are updated on the way (`prop:supp-erm-subgaussian`)."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing

from gatewise.aggregation.time_average import averaged, kept_states, StateKeeper, TimeBlock
from gatewise.arrays import Floats
from gatewise.experts.evolving import after_burn_in, update_blocks
from gatewise.experts.gated import GatedExperts
from gatewise.experts.joint_update import Updates
from gatewise.experts.pool import Noting


class ExpertTrajectory(NamedTuple):
    """Experts along the rows after the burn-in.

    F (n, M_S + M): every row predicted by the state before it, shared experts first; ``average``: the time-averaged
    experts.
    """

    F: Floats
    average: GatedExperts


def expert_trajectory(pools: GatedExperts, X: Any, y: Floats, burn_in: int, updates: Updates) -> ExpertTrajectory:
    """Fit or update copies of the experts on the first rows, then predict and update them along the others.

    The gate is not known before its fit, so the update rule is given equal weights; a rule that depends on them is
    refused.
    """
    updates.check(pools)
    if updates.rule not in ("all", "residual"):
        raise ValueError(
            f"the update rule {updates.rule!r} needs a gate on the way, and least squares has one only at the end; "
            "take the rule 'residual', or RouterAggregator, which has a gate at every time"
        )
    equal = np.full((len(y), len(pools.experts)), 1.0 / len(pools.experts))
    rows = np.arange(len(y))
    pools = after_burn_in(pools, _safe_indexing(X, rows[:burn_in]), y[:burn_in], updates, equal[:burn_in])
    blocks = list(update_blocks(len(y) - burn_in, updates.every))
    keeper = StateKeeper(updates, len(blocks), _all_states(pools, updates, len(blocks)))
    F = np.empty((len(y) - burn_in, len(pools.joined())))
    for block in blocks:
        place = rows[burn_in:][block]
        part = _safe_indexing(X, place)
        with Noting(f"at observation {block.start}"):
            F[block] = np.column_stack([pools.shared.predict(part), pools.experts.predict(part)])
        keeper.add(TimeBlock((block.stop - block.start) / len(F), np.zeros(0), pools))
        if block.stop < len(F):
            pools = updates.apply(pools, part, y[place], equal[place])
    return ExpertTrajectory(F, averaged(keeper.states, keeper.fractions, updates))


def _all_states(pools: GatedExperts, updates: Updates, n_blocks: int) -> int:
    if kept_states(pools, updates, n_blocks, 0) < n_blocks:
        raise ValueError(
            f"the {n_blocks} states of the experts do not fit into {updates.memory:g} MiB, and without all of them "
            "their average would not be exact; raise Updates(memory=...) or update less often (every=...)"
        )
    return n_blocks
