"""Forgetting: fixed share against the sum over all sequences of best candidates."""

from itertools import product

import numpy as np

from gatewise.aggregation.fixed_share import begin, fixed_share, SWITCHING


def test_the_weights_are_those_of_the_sum_over_all_sequences():
    rng = np.random.default_rng(0)
    T, S = 4, 3
    density, prior = rng.uniform(0.1, 1.0, (T, S)), rng.dirichlet(np.ones(S))
    state, _ = fixed_share(begin(np.log(prior)), np.log(prior), np.log(density), np.zeros((T, S)))
    weights, rates = np.zeros((len(SWITCHING), S)), np.zeros(len(SWITCHING))
    for number, chance in enumerate(SWITCHING):
        move = (1 - chance) * np.eye(S) + chance * prior
        for path in product(range(S), repeat=T + 1):
            mass = prior[path[0]] * np.prod([density[t, path[t]] * move[path[t], path[t + 1]] for t in range(T)])
            weights[number, path[-1]] += mass
        rates[number] = weights[number].sum()
        weights[number] /= rates[number]
    np.testing.assert_allclose(np.exp(state.log_weights), weights, rtol=1e-10)
    np.testing.assert_allclose(np.exp(state.log_rates), rates / rates.sum(), rtol=1e-10)


def swap(rng, n, changes):
    """Two forecasts that swap their quality halfway through if ``changes``."""
    y = rng.normal(size=n)
    errors = np.column_stack([0.2 * rng.normal(size=n), 2.0 * rng.normal(size=n)])
    if changes:
        errors[n // 2 :] = errors[n // 2 :, ::-1]
    forecasts = y[:, None] + errors
    scale = np.array([0.2, 2.0])
    return y, forecasts, -0.5 * (errors / scale) ** 2 - np.log(scale)


def test_it_follows_a_swap_and_costs_little_without_one():
    rng = np.random.default_rng(1)
    y, forecasts, log_density = swap(rng, 600, changes=True)
    _, online = fixed_share(begin(np.zeros(2)), np.zeros(2), log_density, forecasts)
    assert np.sqrt(np.mean((online - y)[350:] ** 2)) < 0.3
    y, forecasts, log_density = swap(rng, 600, changes=False)
    _, online = fixed_share(begin(np.zeros(2)), np.zeros(2), log_density, forecasts)
    assert np.sqrt(np.mean((online - y)[50:] ** 2)) < 1.05 * 0.2


def test_rows_in_pieces_end_where_all_rows_end():
    rng = np.random.default_rng(2)
    _, forecasts, log_density = swap(rng, 60, changes=True)
    whole, online = fixed_share(begin(np.zeros(2)), np.zeros(2), log_density, forecasts)
    first, early = fixed_share(begin(np.zeros(2)), np.zeros(2), log_density[:25], forecasts[:25])
    later, late = fixed_share(first, np.zeros(2), log_density[25:], forecasts[25:])
    np.testing.assert_allclose(later.log_weights, whole.log_weights)
    np.testing.assert_allclose(np.concatenate([early, late]), online)


def test_two_half_rows_switch_as_one_does():
    start, prior = begin(np.log([0.8, 0.2])), np.log([0.3, 0.7])
    nothing, forecasts = np.zeros((1, 2)), np.zeros((1, 2))
    whole, _ = fixed_share(start, prior, nothing, forecasts)
    half, _ = fixed_share(start, prior, nothing, forecasts, 0.5)
    twice, _ = fixed_share(half, prior, nothing, forecasts, 0.5)
    np.testing.assert_allclose(twice.log_weights, whole.log_weights)
    assert not np.allclose(half.log_weights, whole.log_weights)
