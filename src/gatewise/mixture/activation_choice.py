"""The number of active experts as a function of the input, chosen under a budget of experts asked per row.

The list holds Top-K, active sets by accumulated weight, by margin, and by regions that a tree finds, each with its
parameter set so that it asks the given number of experts on average. One of them takes the place of Top-K only if it
is ahead by more than the price of the list, log S, in the likelihood of rows that no part of it was fitted to.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.tree import DecisionTreeRegressor

from gatewise.arrays import as_positive, as_rows, as_vector, Floats
from gatewise.gates.active_sets import (
    AccumulatedWeight,
    ActivationRule,
    CountByRegion,
    FixedCount,
    restricted,
    WithinMargin,
)

LEAVES = (2, 4, 8)


class ActivationChoice(NamedTuple):
    """The chosen rule, its name, and the whole list.

    ``gains``: by name, the log likelihood ratio to Top-K at the same mean number of experts asked, on the rows of
    the choice; ``price`` = log S is what a rule must gain. ``asked``: the mean number of experts that each asks.
    """

    rule: ActivationRule | None
    name: str
    gains: dict[str, float]
    asked: dict[str, float]
    price: float
    low: int
    share: float

    def active(self, weights: Floats, X: Any, rng: np.random.Generator) -> Any:
        """The experts that are asked, (n, M); where Top-K was chosen, a coin decides between two values of K."""
        if self.rule is not None:
            return self.rule.active(weights, X)
        high = rng.uniform(size=len(weights)) < self.share
        few, many = FixedCount(self.low).active(weights, X), FixedCount(min(self.low + 1, weights.shape[1]))
        return np.where(high[:, None], many.active(weights, X), few)


def choose_activation(
    weights: ArrayLike, F: ArrayLike, y: ArrayLike, X: Any, budget: float, seed: int = 0
) -> ActivationChoice:
    """Which experts to ask at every row, ``budget`` of them on average; section 7, input-adaptive activation.

    ``weights`` (n, M) are a gate's at rows X that it was not fitted to, F (n, M) the experts' predictions and y (n,)
    the responses. The trees are fitted to half of the rows, and all rules compared on the other half: squared errors
    e_i of a rule against t_i of Top-K, with the gain sum_i (t_i - e_i) / (2 s^2), where s^2 is the mean error of
    Top-K. Top-K asks floor(budget) experts, and one more at a fraction of the rows drawn at random.
    """
    g, forecasts, rows = as_rows(weights, "weights"), as_rows(F, "F"), as_rows(X)
    response, k = as_vector(y, "y", len(g)), as_positive(budget, "budget")
    if not 1.0 <= k <= g.shape[1]:
        raise ValueError(f"budget must be from 1 to the number of experts, {g.shape[1]}, not {budget!r}")
    order = np.random.default_rng(seed).permutation(len(g))
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    rules = {
        "accumulated weight": _tuned(AccumulatedWeight, g, rows, k, 0.0, 1.0),
        "margin": _tuned(WithinMargin, g, rows, k, 0.0, 50.0),
    }
    errors_by_count = fixed_count_errors(g, forecasts, response)
    for leaves in LEAVES:
        rules[f"tree of {leaves}"] = _tree(errors_by_count[first], rows[first], rows, k, leaves, seed)
    low, share = int(np.floor(k)), float(k - np.floor(k))
    high = min(low, g.shape[1] - 1)
    base = (1 - share) * errors_by_count[second, low - 1] + share * errors_by_count[second, high]
    noise = base.mean()
    gains = {
        name: float((base - _errors(rule, g[second], forecasts[second], response[second], rows[second])).sum())
        / (2 * noise)
        for name, rule in rules.items()
    }
    asked = {name: float(rule.active(g, rows).sum(axis=1).mean()) for name, rule in rules.items()}
    price = float(np.log(len(rules)))
    best = max((name for name in gains if asked[name] <= k + 0.02), key=lambda name: gains[name], default="")
    won = best != "" and gains[best] > price
    return ActivationChoice(rules[best] if won else None, best if won else "Top-K", gains, asked, price, low, share)


def fixed_count_errors(weights: Floats, F: Floats, y: Floats) -> Floats:
    """The squared error of Top-K at every row, for K = 1, ..., M: (n, M)."""
    return np.stack([_errors(FixedCount(k), weights, F, y, None) for k in range(1, weights.shape[1] + 1)], axis=1)


def _errors(rule: ActivationRule, weights: Floats, F: Floats, y: Floats, X: Any) -> Floats:
    mixture = (restricted(weights, rule.active(weights, X)) * F).sum(axis=1)
    return np.asarray((y - mixture) ** 2)


def _tuned(
    make: Callable[[float], ActivationRule], weights: Floats, X: Floats, budget: float, low: float, high: float
) -> ActivationRule:
    """The rule with the largest parameter that asks at most ``budget`` experts on average; by bisection."""
    for _ in range(50):
        middle = (low + high) / 2
        if make(middle).active(weights, X).sum(axis=1).mean() <= budget:
            low = middle
        else:
            high = middle
    return make(low)


def _tree(errors: Floats, X: Floats, rows: Floats, budget: float, leaves: int, seed: int) -> CountByRegion:
    """Regions of a tree for the errors by K, and the K of each: least error plus a price per expert.

    The price is the smallest at which ``budget`` experts are asked on average at ``rows``.
    """
    tree = DecisionTreeRegressor(max_leaf_nodes=leaves, min_samples_leaf=20, random_state=seed).fit(X, errors)
    inner = tree.tree_.value[:, :, 0]  # (nodes, M), the mean errors by K
    where, counts = tree.apply(rows), np.arange(1, errors.shape[1] + 1)

    def chosen(price: float) -> Any:
        return counts[(inner + price * counts).argmin(axis=1)]

    low, high = 0.0, float(np.ptp(inner)) + 1e-12
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if chosen(middle)[where].mean() <= budget else (middle, high)
    return CountByRegion(tree, chosen(high))
