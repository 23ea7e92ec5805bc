"""The list of candidates, fitted."""

from itertools import product

import numpy as np
import pytest

from gatewise.gates.inputs import Inputs
from gatewise.gates.registry import AUTOMATIC, GATES
from gatewise.losses import ResidualLoss
from gatewise.router.candidates import candidate_list, log_prior, PRIOR
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
    trees = [*tree_gates(), *shared_learners(LEARNERS)]
    return candidate_list(
        ["a", "b", "c"], {name: list(product((0.3, 3.0), k)) for name, k in ks.items()}, True, trees
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
        if c.kind == "gate" and c.k is None:
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
