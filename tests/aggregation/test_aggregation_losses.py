"""Exact nets under any loss: the two-line oracle of AFTER, and what aggregation may lose on every path."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_expit, softmax

from gatewise.aggregation.engine import aggregate_loss
from gatewise.aggregation.gate_candidates import KernelCandidates, ListCandidates, ProductCandidates
from gatewise.losses import LogLoss, ResidualLoss, ScoreLoss
from gatewise.noise import DoubleExponential, Gaussian, StudentT

RNG = np.random.default_rng(0)
N, P, M = 30, 3, 3
FACTORS = (RNG.normal(size=(5, P)), RNG.normal(size=(7, P)))
GRID = np.stack([np.repeat(FACTORS[0], 7, axis=0), np.tile(FACTORS[1], (5, 1))], axis=1)
FEATURES, Y, F = RNG.normal(size=(N, P)), RNG.uniform(size=N), RNG.uniform(size=(N, M))
THETA = RNG.dirichlet(np.ones(M), size=(35, P)).swapaxes(1, 2)  # of kernel gates over rows of sum one
KINDS = {
    "product": ProductCandidates(FACTORS),
    "list": ListCandidates(GRID),
    "sigmoid": ListCandidates(GRID, log_phi=log_expit),
    "kernel": KernelCandidates(THETA),
}
LOSSES = {
    "log": LogLoss(),
    "score": ScoreLoss(rate=0.7),
    "gaussian": ResidualLoss(Y, Gaussian(), 0.4),
    "laplace": ResidualLoss(Y, DoubleExponential(), 0.4),
    "student": ResidualLoss(Y, StudentT(5.0), RNG.uniform(0.3, 0.6, 35)),
}


def features_of(kind):
    return softmax(FEATURES, axis=1) if kind == "kernel" else FEATURES


def mixtures(kind):
    """z_s(t) of every candidate, (n, S)."""
    if kind == "kernel":
        gates = np.einsum("smc,tc->stm", THETA, features_of(kind))
    else:
        scores = np.concatenate([np.einsum("smp,tp->stm", GRID, FEATURES), np.zeros((35, N, 1))], axis=2)
        gates = softmax(log_expit(scores) if kind == "sigmoid" else scores, axis=2)
    return np.einsum("stm,tm->ts", gates, F)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LOSSES)
def test_any_loss_gives_the_two_lines(kind, name):
    loss, z = LOSSES[name], mixtures(kind)
    cumulated = np.vstack([np.zeros(35), np.cumsum(loss.log_density(z), axis=0)])
    weights = softmax(cumulated, axis=1)
    found = aggregate_loss(KINDS[kind], features_of(kind), F, loss, edges=[0, 10, N])
    np.testing.assert_allclose(found.predictions, (weights[:-1] * z).sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(np.exp(found.log_weights), weights[-1], rtol=1e-9)
    np.testing.assert_allclose(found.mean_weights, [weights[:10].mean(axis=0), weights[10:N].mean(axis=0)], rtol=1e-9)
    np.testing.assert_allclose(found.log_z, np.log(np.exp(cumulated).mean(axis=1)), rtol=1e-9, atol=1e-12)


def test_a_prior_excludes():
    prior = np.full(35, -np.inf)
    prior[[4, 8]] = np.log(0.5)
    found = aggregate_loss(KINDS["list"], FEATURES, F, LogLoss(), log_prior=prior)
    assert found.mean_weights[0, [4, 8]].sum() == pytest.approx(1.0)


def log_losses(F):
    """The cumulated log loss of the aggregate, and of every candidate of the list (S,)."""
    found = aggregate_loss(KINDS["list"], FEATURES[: len(F)], F, LogLoss())
    scores = np.concatenate([np.einsum("smp,tp->stm", GRID, FEATURES[: len(F)]), np.zeros((35, len(F), 1))], axis=2)
    z = np.einsum("stm,tm->st", softmax(scores, axis=2), F)
    return -np.log(found.predictions).sum(), -np.log(z).sum(axis=1), found


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-12, 1e-3, 0.5]))
def test_log_loss_regret_is_at_most_log_s_on_random_paths(seed, least):
    rng = np.random.default_rng(seed)
    F = np.where(rng.random((N, M)) < 0.3, least, rng.uniform(least, 1.0, (N, M)))
    own, others, found = log_losses(F)
    assert own <= others.min() + np.log(35) + 1e-9
    assert found.log_z[-1] - found.log_z[0] == pytest.approx(-own)  # the mixture's densities multiply to the evidence


@pytest.mark.parametrize("least", [0.0, 1e-9, 0.1])
def test_log_loss_regret_is_at_most_log_s_against_an_adversary(least):
    """What comes is always what the expert of largest aggregated weight thought least likely."""
    F = np.empty((0, M))
    for t in range(N):
        weights = log_losses(F)[2].log_weights if t else np.full(35, -np.log(35))
        scores = np.append(np.einsum("smp,p->sm", GRID, FEATURES[t]), np.zeros((35, 1)), axis=1)
        leading = np.argmax(np.exp(weights) @ softmax(scores, axis=1))
        F = np.vstack([F, np.where(np.arange(M) == leading, least, 1.0)])
    own, others, _ = log_losses(F)
    assert own <= others.min() + np.log(35) + 1e-9


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 5.0))
def test_regret_of_scores_is_that_of_exponential_weights(seed, rate):
    scores = np.random.default_rng(seed).integers(0, 2, size=(N, M)).astype(float)
    found = aggregate_loss(KINDS["kernel"], softmax(FEATURES, axis=1), scores, ScoreLoss(rate))
    z = np.einsum("smc,tc,tm->ts", THETA, softmax(FEATURES, axis=1), scores)
    assert found.predictions.sum() >= z.sum(axis=0).max() - np.log(35) / rate - rate * N / 8 - 1e-9


def test_a_loss_that_is_not_a_number_is_named():
    with pytest.raises(ValueError, match="returned a NaN"):
        aggregate_loss(KINDS["list"], FEATURES, -F, LogLoss())
