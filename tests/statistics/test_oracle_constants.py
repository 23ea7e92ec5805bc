"""Oracle inequalities and rates with their constants, over draws."""

import numpy as np
import pytest

import gatewise as gw
from gatewise import theory
from gatewise.aggregation.fixed_share import begin, fixed_share, SWITCHING
from gatewise.aggregation.selection import weigh
from gatewise.noise import Gaussian
from tests.statistics.draws import draws

pytestmark = pytest.mark.statistics
SIGMA, REACH = 0.5, 1.0


def constants(rng, S, n):
    """Constant candidates within the bound, responses around the first of them, and AFTER's weights over time."""
    levels = rng.uniform(-REACH, REACH, S)
    y = levels[0] + SIGMA * rng.normal(size=n)
    density = Gaussian().log_density((y[:, None] - levels) / SIGMA)
    return levels, y, gw.after(density, np.zeros(S))


@pytest.mark.parametrize(("S", "n"), [(8, 50), (64, 50), (64, 200), (256, 200)])
def test_after_keeps_to_its_explicit_constant_and_is_of_order_log_s_over_n(S, n):
    """100 draws a cell: the risk of the time-averaged aggregate is below the bound of the paper's theorem.

    With the truth among the candidates it is also below 4 sigma^2 log(S) / n, a constant that the theorem does not
    promise; both allow for three standard errors.
    """
    risks = []
    for rng in draws(100, f"after {S} {n}"):
        levels, _, path = constants(rng, S, n)
        risks.append((path[:-1].mean(axis=0) @ levels - levels[0]) ** 2)
    error = np.std(risks, ddof=1) / np.sqrt(len(risks))
    assert np.mean(risks) - 3.0 * error <= theory.after_risk(0.0, np.log(S), n, SIGMA, REACH)
    assert np.mean(risks) - 3.0 * error <= 4.0 * SIGMA**2 * np.log(S) / n


def test_the_regret_of_after_and_of_forgetting_in_every_draw():
    """40 draws: the log loss exceeds that of the best candidate by at most log S; with forgetting by log 4 more."""
    for rng in draws(40, "regret"):
        density = rng.normal(size=(40, 9)) * rng.uniform(0.1, 3.0)
        best = density.sum(axis=0).max()
        path = gw.after(density, np.zeros(9))
        loss = -np.log(np.einsum("ts,ts->t", path[:-1], np.exp(density))).sum()
        assert loss + best <= np.log(9) + 1e-9
        state, total = begin(np.zeros(9)), 0.0
        for row in density:
            total -= np.log(state.weights @ np.exp(row))
            state, _ = fixed_share(state, np.zeros(9), row[None], np.zeros((1, 9)))
        assert total + best <= np.log(9) + np.log(len(SWITCHING)) + 1e-9


def test_particles_keep_the_regret_of_a_fine_net_where_labels_are_chosen_against_them():
    """5 draws, three rounds each: every label is the one that the round before held for least likely.

    The box of the particles holds a net of S = 60^2 gates. The log loss of the particles exceeds that of the best of
    them by at most log S, as that of the net does, and is near the net's own.
    """
    gate, S, gaps = gw.LinearGate(2, intercept=False), 60**2, []
    for rng in draws(5, "adversarial particles"):
        X, tables = rng.normal(size=(120, 2)), rng.dirichlet(np.full(3, 0.5), (2, 5))
        experts = [lambda rows, own=own: own[np.clip(np.floor(rows[:, 0] + 2.5), 0, 4).astype(int)] for own in tables]
        net, labels = gate.net(np.linspace(-2.95, 2.95, 60), d=2), np.arange(120) % 3
        seed, known = int(rng.integers(2**31)), {"blocks": gw.Blocks(order="given")}
        for _ in range(3):
            fine = gw.RouterClassifier(experts, gate, net, **known).fit(X, labels)
            model = gw.RouterClassifier(experts, gate, gw.Particles(600), random_state=seed, **known).fit(X, labels)
            P = model.expert_probabilities(X)[np.arange(120), :, labels]
            gates = gate.weights(X, np.concatenate(list(net.blocks())))
            best = np.log(np.einsum("snm,nm->ns", gates, P)).sum(axis=0).max()
            loss = -np.log(model.online_probabilities_).sum()
            assert loss + best <= np.log(S)
            gaps.append(loss + np.log(fine.online_probabilities_).sum())
            labels = model.predict_proba(X).argmin(axis=1)
            labels[:3] = np.arange(3)
    assert np.abs(gaps).max() < 1.0
    assert np.abs(np.mean(gaps)) < 0.2


def test_the_price_of_a_choice_falls_like_one_over_n():
    """100 draws a size: the excess of the weighted candidates over the best, times n, does not grow with n."""
    scaled = []
    for n in (50, 200, 800):
        excess = []
        for rng in draws(100, f"choice {n}"):
            F = rng.normal(size=(n, 1)) + np.array([0.0, 0.5, 1.0]) * rng.normal(size=(n, 3))
            y = F[:, 0] + rng.normal(size=n)
            found = weigh(F, y, 1.0)
            excess.append(((found.online - F[:, 0]) ** 2).sum())
        scaled.append((np.mean(excess), np.std(excess, ddof=1) / np.sqrt(len(excess))))
    (first, first_error), *_, (last, last_error) = scaled
    assert last - first <= 3.0 * np.hypot(first_error, last_error) + 0.25 * first
