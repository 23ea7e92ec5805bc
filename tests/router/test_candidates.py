"""The list of candidates, fitted."""

from itertools import product

import numpy as np
import pytest

from gatewise.gates.inputs import Inputs
from gatewise.gates.registry import AUTOMATIC, GATES
from gatewise.losses import ResidualLoss
from gatewise.router.candidates import candidate_list, CONVEX, error_gates, log_prior, PRIOR, promising
from gatewise.router.learning import fit_lists
from gatewise.router.members import ListRows, mixed_with_mean
from gatewise.router.settings import LEARNERS
from gatewise.router.tree_members import shared_learners, tree_gates

ON_FEATURES = [name for name in AUTOMATIC if name != "tree"]


def rows(sample, fade=1.0):
    inputs, F, _ = sample
    maps = {name: GATES[name].feature_map.fit(GATES[name], inputs, F, 0) for name in ON_FEATURES}
    seen = Inputs(inputs.Z, fade * inputs.inside, inputs.columns)
    return ListRows(seen, F, maps=maps)


@pytest.fixture
def listed():
    ks = {name: (None,) if GATES[name].needs_forecasts else (None, 1, 2) for name in ON_FEATURES}
    others = [*error_gates({"linear": (None, 1), "quadratic": (None,)}), *tree_gates(), *shared_learners(LEARNERS)]
    return candidate_list(
        ["a", "b", "c"], {name: list(product((0.3, 3.0), k)) for name, k in ks.items()}, True, others
    )


@pytest.fixture
def fitted(sample, listed):
    _, _, y = sample
    everything = np.arange(len(y)), np.arange(len(y))
    ((found, _),) = fit_lists(listed, rows(sample), ResidualLoss(y), np.ones(len(y)), [everything], 0)
    return found


def test_forecasts_of_rows_that_a_fit_is_asked_for_are_those_of_the_fitted_list(sample, listed):
    _, _, y = sample
    halves = np.arange(150), np.arange(150, 300)
    splits = [halves, halves[::-1]]
    for (found, forecasts), (_, asked) in zip(
        fit_lists(listed, rows(sample), ResidualLoss(y), np.ones(300), splits, 0), splits, strict=True
    ):
        np.testing.assert_allclose(forecasts, found.forecasts(rows(sample).part(asked)), atol=1e-10)


def test_a_fit_does_not_look_at_the_responses_it_is_asked_for(sample, listed):
    _, _, y = sample
    splits = [(np.arange(200), np.arange(200, 300))]
    other = np.where(np.arange(300) < 200, y, 100.0 - y)
    one, two = (
        fit_lists(listed, rows(sample), ResidualLoss(response), np.ones(300), splits, 0)[0][1]
        for response in (y, other)
    )
    np.testing.assert_array_equal(one, two)


def test_every_gate_lies_on_the_simplex_with_its_k(fitted, sample):
    for s, c in enumerate(fitted.candidates):
        weights = fitted.mean_weights(np.eye(len(fitted.candidates))[s], rows(sample))
        np.testing.assert_allclose(weights.sum(axis=1), 1.0)
        assert (weights >= 0.0).all()
        if c.k is not None:
            assert ((weights > 0).sum(axis=1) == c.k).all()


def test_the_mean_gate_is_the_mean_of_the_gates(fitted, sample):
    shares = np.random.default_rng(0).dirichlet(np.ones(len(fitted.candidates)))
    ready = rows(sample)
    slow = sum(
        share * fitted.mean_weights(one, ready) for share, one in zip(shares, np.eye(len(shares)), strict=True)
    )
    np.testing.assert_allclose(fitted.mean_weights(shares, ready), slow, atol=1e-12)


def test_forecasts_are_gate_times_experts_plus_what_is_always_on(fitted, sample):
    _, F, _ = sample
    forecasts = fitted.forecasts(rows(sample))
    for s in range(len(fitted.candidates)):
        share = np.eye(len(fitted.candidates))[s]
        whole = (fitted.mean_weights(share, rows(sample)) * F).sum(axis=1)
        whole += sum(fitted.shared_parts(share, rows(sample)).values())
        np.testing.assert_allclose(forecasts[:, s], whole)


def test_far_from_the_data_a_gate_is_the_stack_up_to_the_floor(fitted, sample):
    far = rows(sample, fade=0.0)
    for s, c in enumerate(fitted.candidates):
        if c.kind == "gate" and c.k is None and c.start == "stack":
            weights = fitted.mean_weights(np.eye(len(fitted.candidates))[s], far)
            np.testing.assert_allclose(weights, np.tile(mixed_with_mean(fitted.stack), (300, 1)))


def test_one_part_in_twenty_of_the_reference_is_the_mean():
    np.testing.assert_allclose(mixed_with_mean(np.array([1.0, 0.0, 0.0, 0.0])), [0.9625, 0.0125, 0.0125, 0.0125])


def test_a_corrected_stack_is_at_least_as_good_on_its_rows(fitted, sample):
    _, _, y = sample
    errors = ((y[:, None] - fitted.forecasts(rows(sample))) ** 2).mean(axis=0)
    by_name = {str(c): error for c, error in zip(fitted.candidates, errors, strict=True)}
    assert by_name["convex stack, corrected by 3"] <= by_name["convex stack"]


def test_the_prior_is_divided_by_family(fitted):
    prior = np.exp(log_prior(fitted.candidates))
    assert prior.sum() == pytest.approx(1.0)
    families = {c.family for c in fitted.candidates}
    assert families == set(PRIOR) - {"class stack"}
    for family in families:
        assert prior[[c.family == family for c in fitted.candidates]].sum() == pytest.approx(PRIOR[family])


def test_a_family_that_is_left_out_leaves_its_prior_to_the_others():
    few = candidate_list(["a", "b"], {}, corrected=False)
    np.testing.assert_allclose(np.exp(log_prior(few)), 0.25)


def test_error_gates_are_powers_of_the_errors_that_ridge_regressions_expect(sample):
    inputs, F, y = sample
    weight = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    seen, candidates = rows(sample), candidate_list(["a", "b", "c"], {}, False, error_gates({"quadratic": (None, 2)}))
    split = np.flatnonzero(weight), np.arange(300)
    ((fitted, forecasts),) = fit_lists(candidates, seen, ResidualLoss(y), weight, [split], 0)
    phi, expected = seen.maps["quadratic"].features(inputs, F), np.empty((300, 3))
    levels = []
    for m in range(3):
        squares = (y - F[:, m]) ** 2
        logs = np.log(squares + 1e-3 * np.average(squares, weights=weight))
        level = np.average(logs, weights=weight)
        heavy = np.sqrt(weight)[:, None] * np.vstack([phi])
        rows_of_prior = np.pi / np.sqrt(2.0) * np.eye(phi.shape[1])
        target = np.concatenate([np.sqrt(weight) * (logs - level), np.zeros(phi.shape[1])])
        expected[:, m] = phi @ np.linalg.lstsq(np.vstack([heavy, rows_of_prior]), target, rcond=None)[0]
        levels.append(level)
    for s, c in enumerate(candidates):
        if c.steepness:
            start = mixed_with_mean(fitted.stack) if c.start == "stack" else np.exp(levels) ** -c.steepness
            weights = start * np.exp(expected) ** -c.steepness
            if c.k:
                weights[np.arange(300), weights.argmin(axis=1)] = 0.0
            weights /= weights.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(fitted.mean_weights(np.eye(len(candidates))[s], seen), weights, atol=1e-9)
            np.testing.assert_allclose(forecasts[:, s], (weights * F).sum(axis=1), atol=1e-9)


def test_an_expert_without_any_error_has_all_the_weight(sample):
    inputs, F, y = sample
    exact = (inputs, np.column_stack([F[:, 0], y, F[:, 2]]), y)
    candidates = candidate_list(["a", "b", "c"], {}, False, error_gates({"linear": (None,)}))
    ((fitted, _),) = fit_lists(
        candidates, rows(exact), ResidualLoss(y), np.ones(300), [(np.arange(300), np.arange(300))], 0
    )
    equal = [c.start == "equal" for c in candidates]
    assert fitted.mean_weights(np.array(equal, float), rows(exact))[:, 1].min() > 0.99


def test_error_gates_are_always_worth_fitting():
    few = error_gates({"linear": (None, 1)})
    tried = (CONVEX, *few)
    assert promising(tried, tried, np.array([1.0, *[5.0] * len(few)]), 10_000) == tried
