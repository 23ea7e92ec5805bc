"""How many experts to activate: best mixtures, the Top-1 barrier, the recommended K (`prop: Top-1 mixing`)."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.geometry import activation, best_mixtures
from gatewise.geometry.activation import _cross_fitted
from gatewise.nets import simplex_lattice


def pairs_by_region(rng, n=4000, noise=0.0):
    """Two regions; on each the mean of its own two experts is the truth, and each alone is 1 away (delta_r = 1/2)."""
    region = rng.integers(2, size=n)
    truth = rng.normal(size=n)
    signs = rng.choice([-1.0, 1.0], size=n)
    predictions = np.full((n, 5), 30.0)
    for r in range(2):
        here = region == r
        predictions[here, 2 * r] = (truth + signs)[here]
        predictions[here, 2 * r + 1] = (truth - signs)[here]
    return predictions, truth + noise * rng.normal(size=n), region


@given(st.integers(0, 10_000))
def test_best_mixtures_beat_every_lattice_point_and_are_feasible(seed):
    rng = np.random.default_rng(seed)
    residuals = rng.normal(size=(30, 4)) + rng.normal(size=4)
    gram = residuals.T @ residuals / 30
    lattice = simplex_lattice(4, 12)
    values = np.einsum("gj,jk,gk->g", lattice, gram, lattice)
    for k, mixture in enumerate(best_mixtures(gram, 4), start=1):
        assert (mixture.weights >= 0).all()
        assert mixture.weights.sum() == pytest.approx(1.0)
        assert (mixture.weights > 0).sum() <= k
        assert mixture.loss == pytest.approx(mixture.weights @ gram @ mixture.weights)
        assert mixture.loss <= values[(lattice > 0).sum(axis=1) <= k].min() + 1e-12


@given(st.integers(0, 10_000))
def test_the_best_pair_has_a_closed_form(seed):
    rng = np.random.default_rng(seed)
    residuals = rng.normal(size=(20, 5)) + 0.5
    gram = residuals.T @ residuals / 20
    best = np.inf
    for i, j in itertools.combinations(range(5), 2):
        w = np.clip((gram[j, j] - gram[i, j]) / (gram[i, i] + gram[j, j] - 2 * gram[i, j]), 0, 1)
        best = min(best, w**2 * gram[i, i] + (1 - w) ** 2 * gram[j, j] + 2 * w * (1 - w) * gram[i, j])
    assert best_mixtures(gram, 2)[1].loss == pytest.approx(best)


@pytest.mark.parametrize("gram", [np.zeros((3, 3)), np.ones((3, 3)), np.diag([0.0, 1.0, 1.0])])
def test_experts_that_agree_or_are_perfect_break_nothing(gram):
    for mixture in best_mixtures(gram, 3):
        assert mixture.loss == pytest.approx(gram.min())
        assert mixture.weights.sum() == pytest.approx(1.0)


def test_the_barrier_of_a_known_design():
    predictions, truth, region = pairs_by_region(np.random.default_rng(0))
    found = activation(predictions, truth, region)
    assert found.barrier.value == pytest.approx(1.0, abs=1e-3)  # the pair is exact, up to the weights' error
    assert (found.k, found.k_low) == (2, 2)
    for r, report in enumerate(found.regions):
        assert report.pair == (2 * r, 2 * r + 1)
        assert report.weights == pytest.approx((0.5, 0.5), abs=0.05)
        assert report.barrier.low <= 0.5 <= report.barrier.high
    assert sum(report.barrier.value for report in found.regions) == pytest.approx(found.barrier.value)
    assert sum(report.gain.value for report in found.regions) == pytest.approx(found.steps[0].value)
    assert found.steps[0].low > 0.9
    assert found.steps[1].low <= 0.0


def test_with_noise_the_barrier_is_a_lower_bound_and_the_gain_stays():
    rng = np.random.default_rng(1)
    predictions, y, region = pairs_by_region(rng, noise=0.7)
    found = activation(predictions, y, region)
    assert found.barrier.high < 1.0
    assert found.steps[0].low <= 1.0 <= found.steps[0].high
    assert found.k == 2


def test_where_each_region_has_its_specialist_one_expert_is_enough():
    rng = np.random.default_rng(2)
    region = rng.integers(3, size=3000)
    predictions = np.full((3000, 3), 4.0)
    predictions[np.arange(3000), region] = 0.0
    found = activation(predictions, rng.normal(size=3000), region)
    assert (found.k, found.k_low) == (1, 1)
    assert found.barrier.high < 0.1


def test_three_experts_where_three_are_needed():
    rng = np.random.default_rng(3)
    corners = np.array([[2.0, 0.0], [-1.0, np.sqrt(3)], [-1.0, -np.sqrt(3)]])  # their mean is 0
    predictions = np.broadcast_to(corners, (500, 3, 2))
    found = activation(predictions, rng.normal(scale=0.1, size=(500, 2)), np.zeros(500, dtype=int))
    assert found.k == 3
    assert [step.value for step in found.steps] == pytest.approx([3.0, 1.0], abs=0.1)  # 4, then 1, then 0


def test_little_data_leaves_the_question_open():
    rng = np.random.default_rng(4)
    predictions, y, region = pairs_by_region(rng, n=24, noise=3.0)
    found = activation(predictions, y, region)
    assert found.k_low < found.k


def test_a_mixture_is_judged_on_the_half_that_it_was_not_fitted_to():
    """Each of two experts is right on one half and off on the other: the one that a half prefers is off elsewhere."""
    half = np.arange(40) % 2
    residuals = np.where(half[:, None] == [0, 1], 0.0, [5.0, 1.0])[:, :, None]
    curve = _cross_fitted(residuals, np.zeros(40, dtype=np.intp), half, 1)
    np.testing.assert_allclose(curve[:, 0], np.where(half == 1, 25.0, 1.0))


def test_intervals_that_compare_two_counts_share_the_level():
    """Of three counts there are three pairs: each interval is that of a single pair at a third of the error."""
    rng = np.random.default_rng(8)
    given = rng.normal(size=(80, 3)), rng.normal(size=80), np.zeros(80, dtype=int)
    three, two = activation(*given, k_max=3), activation(*given, k_max=2, level=1.0 - 0.05 / 3)
    assert three.steps[0] == pytest.approx(two.steps[0])


def test_a_gain_is_rarely_shown_by_chance():
    """No mixture helps: beyond K = 1 no gain is shown in all but a few of the runs."""
    large = 0
    for run in range(200):
        rng = np.random.default_rng([5, run])
        predictions = np.column_stack([np.zeros(200), np.ones(200), np.full(200, 2.0)])
        large += activation(predictions, rng.normal(size=200), np.zeros(200, dtype=int)).k_low > 1
    assert large / 200 <= 0.05


def test_where_triples_are_too_many_pairs_are_tried():
    rng = np.random.default_rng(7)
    assert len(activation(rng.normal(size=(60, 120)), rng.normal(size=60), np.zeros(60, dtype=int)).steps) == 1
    assert len(activation(rng.normal(size=(60, 2)), rng.normal(size=60), np.zeros(60, dtype=int)).steps) == 1


def test_a_region_of_one_row_and_a_seed():
    predictions, y, region = pairs_by_region(np.random.default_rng(6), n=50)
    region[7] = 9
    first, second = (activation(predictions, y, region, seed=2) for _ in range(2))
    assert first == second
    assert first.regions[-1].n_rows == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: activation(np.ones((5, 2)), np.ones(4), [0] * 5), r"not \(5, 2\) and \(4,\)"),
        (lambda: activation(np.ones((5, 2)), np.ones(5), [0] * 4), r"regions must hold one whole number a row"),
        (
            lambda: activation(np.ones((5, 2)), np.ones(5), [0] * 5, k_max=3),
            "k_max must be a whole number from 2 to 2",
        ),
        (lambda: activation(np.ones((5, 2)), np.ones(5), [0] * 5, k_max=2, tolerance=-1), "tolerance must be 0"),
        (lambda: activation(np.ones((5, 2)), np.ones(5), [0] * 5, k_max=2, level=0), "level must lie strictly"),
        (lambda: best_mixtures(np.eye(400), 3), "more than 200,000 sets"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
