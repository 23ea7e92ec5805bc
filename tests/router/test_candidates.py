"""The list of candidates, fitted."""

import numpy as np
import pytest

from gatewise.gates.inputs import Inputs
from gatewise.gates.registry import AUTOMATIC, GATES
from gatewise.losses import ResidualLoss
from gatewise.router.candidates import candidate_list, FittedList, gate_features, log_prior, reference


def features(sample, fade=1.0):
    inputs, F, _ = sample
    maps = {name: GATES[name].feature_map.fit(GATES[name], inputs, F, 0) for name in AUTOMATIC}
    return gate_features(maps, Inputs(inputs.Z, fade * inputs.inside), F)


@pytest.fixture
def fitted(sample):
    _, F, y = sample
    ks = {name: (None,) if GATES[name].needs_forecasts else (None, 1, 2) for name in AUTOMATIC}
    candidates = candidate_list(["a", "b", "c"], ks, (0.3, 3.0), corrected=True)
    return FittedList.fit(candidates, features(sample), F, ResidualLoss(y), np.ones(len(y)))


def test_every_gate_lies_on_the_simplex_with_its_k(fitted, sample):
    for s, c in enumerate(fitted.candidates):
        weights = fitted.mean_weights(np.eye(len(fitted.candidates))[s], features(sample), 300)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0)
        assert (weights >= 0.0).all()
        if c.k is not None:
            assert ((weights > 0).sum(axis=1) == c.k).all()


def test_the_mean_gate_is_the_mean_of_the_gates(fitted, sample):
    shares = np.random.default_rng(0).dirichlet(np.ones(len(fitted.candidates)))
    ready = features(sample)
    slow = sum(
        share * fitted.mean_weights(one, ready, 300) for share, one in zip(shares, np.eye(len(shares)), strict=True)
    )
    np.testing.assert_allclose(fitted.mean_weights(shares, ready, 300), slow, atol=1e-12)


def test_forecasts_are_gate_times_experts_plus_what_is_always_on(fitted, sample):
    _, F, _ = sample
    forecasts = fitted.forecasts(features(sample), F)
    for s in range(len(fitted.candidates)):
        share = np.eye(len(fitted.candidates))[s]
        whole = (fitted.mean_weights(share, features(sample), 300) * F).sum(axis=1) + fitted.corrections(share, F)
        np.testing.assert_allclose(forecasts[:, s], whole)


def test_far_from_the_data_a_gate_is_the_stack_up_to_the_floor(fitted, sample):
    far = features(sample, fade=0.0)
    for s, c in enumerate(fitted.candidates):
        if c.kind == "gate" and c.k is None:
            weights = fitted.mean_weights(np.eye(len(fitted.candidates))[s], far, 300)
            np.testing.assert_allclose(weights, np.tile(reference(fitted.stack), (300, 1)))


def test_a_corrected_stack_is_at_least_as_good_on_its_rows(fitted, sample):
    _, F, y = sample
    errors = ((y[:, None] - fitted.forecasts(features(sample), F)) ** 2).mean(axis=0)
    by_name = {str(c): error for c, error in zip(fitted.candidates, errors, strict=True)}
    assert by_name["convex stack, corrected by 3"] <= by_name["convex stack"]


def test_the_prior_is_half_on_plain_answers(fitted):
    prior = np.exp(log_prior(fitted.candidates))
    plain = np.array([c.kind != "gate" for c in fitted.candidates])
    assert prior[plain].sum() == pytest.approx(0.5)
    assert prior.sum() == pytest.approx(1.0)
