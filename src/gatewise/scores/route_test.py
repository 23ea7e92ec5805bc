"""The test behind the verdict: do held-out decisions score more than every single model, without and with prices?

It is made with the quick members of the list (`prepared_folds`), so that its level can be checked on hundreds of
simulated tables of any size.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from gatewise.arrays import Floats
from gatewise.scores.cost_model import held_out_costs
from gatewise.scores.prepared_folds import PreparedFolds
from gatewise.scores.price_weights import candidate_values, choices, held_out_votes, learn_weights, price_grid
from gatewise.scores.score_list import stack_weights, with_blends

N_COST_TESTS = 5  # prices at which routing for cost is tested


class RoutePValues(NamedTuple):
    """The p-values of two null hypotheses: no routing beats every single model.

    ``score`` is that for the mean score, ``cost`` that for the mean of score less price times cost, at all of some
    prices.
    """

    score: float
    cost: float


def routing_p_values(
    prepared: PreparedFolds, scores: Floats, costs: Floats, by_query: bool, forecasts: Floats | None = None
) -> RoutePValues:
    """Both p-values from scores and costs (n, M).

    ``forecasts`` are `PreparedFolds.forecasts` of the scores, if they are there already. The test for cost is made at
    N_COST_TESTS prices of the grid; its p-value is the smallest of theirs times their number, 1 without costs.
    """
    found = prepared.forecasts(scores) if forecasts is None else forecasts
    found = with_blends(found, stack_weights(found, scores))
    prices, cost_forecasts = price_grid(scores, costs), held_out_costs(prepared, costs, by_query)

    def p_value(price: float) -> float:
        picked, values = choices(found, cost_forecasts, price), scores - price * costs
        learned = learn_weights(candidate_values(picked, values), prepared.held_out)
        decided = held_out_votes(learned, picked, prepared.held_out, scores.shape[1]).argmax(axis=1)
        return largest_p_value(values[np.arange(len(values)), decided], values)

    tested = np.unique(np.linspace(1, len(prices) - 1, N_COST_TESTS + 2).round().astype(int)[1:-1])
    for_cost = [p_value(float(prices[place])) for place in tested] if len(prices) > 1 else [1.0]
    return RoutePValues(p_value(0.0), min(1.0, len(for_cost) * min(for_cost)))


def largest_p_value(value: Floats, singles: Floats) -> float:
    """The largest one-sided p-value that values (n,) have no larger mean than each column of singles (n, M).

    Against the single model m the statistic is Student's t of the n differences. Routing pays only if it beats every
    m, so the p-value is the largest, and the level needs no correction.

    >>> largest_p_value(np.array([1.0, 1.0, 0.0]), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    1.0
    """
    n = len(value)
    if n < 3:
        return 1.0
    differences = value[:, None] - singles
    means, errors = differences.mean(axis=0), differences.std(axis=0, ddof=1) / np.sqrt(n)
    same = errors == 0.0
    if (means[same] <= 0.0).any():
        return 1.0
    statistic = np.where(same, np.inf, means / np.where(same, 1.0, errors))
    return float(special.stdtr(n - 1, -statistic.min()))
