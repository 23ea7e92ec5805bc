"""Is the specialization real? The test keeps its level, finds what is there, and says how sure it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.specialists import false_alarms, M, NULLS, power, three_special
from gatewise.geometry import alignment, best_expert, EstimatedRegions, runners_up, specialization
from gatewise.geometry.specialization import _permutations as default_permutations
from gatewise.geometry.two_sample import (
    difference_interval,
    permutation_p_values,
    positive_p_value,
    welch_statistic,
)
from gatewise.stats import mean_interval

RUNS = 1000
# 5 % plus two standard errors of a share of 1,000 runs.
CEILING = 0.05 + 2 * np.sqrt(0.05 * 0.95 / RUNS)


def eight_experts(seed, n):
    """Losses and labels with three specialists of eight."""
    sample = three_special(np.random.default_rng(seed), n)
    return sample.losses, sample.assignments


@pytest.mark.slow
@pytest.mark.parametrize("design", NULLS, ids=lambda design: design.__name__)
def test_the_level_is_kept_over_a_thousand_runs(design):
    assert max(false_alarms(design, RUNS)) <= CEILING


@pytest.mark.slow
def test_three_specialists_of_eight_are_found():
    """Power: at least 80 % of the specialists; the false discovery rate is below alpha."""
    found, false = power(runs=200)
    assert found >= 0.8
    assert false <= 0.05


def test_three_specialists_are_found_in_a_few_runs():
    assert power(runs=3, effect=1.5)[0] >= 0.8


def test_three_specialists_in_one_run():
    losses, where = eight_experts(1, 4000)
    found = specialization(losses, where)
    assert found.special == (0, 1, 2)
    for report in found.experts[:3]:
        assert report.advantage.low <= 0.8 <= report.advantage.high
        assert report.excess.low > 0
        assert report.p_value <= report.adjusted <= found.alpha
    assert found.alignment.p_value < 0.01
    assert found.alignment.excess.low > 0


def test_one_expert_for_all_rows_is_no_specialist():
    rng = np.random.default_rng(2)
    losses = rng.normal(size=(400, 3)) ** 2 + [0.0, 5.0, 5.0]
    found = specialization(losses, np.zeros(400, dtype=int))
    assert found.special == ()
    assert not any(report.tested for report in found.experts)
    assert found.experts[0].advantage.low > 0  # better, but not in a place
    assert found.alignment.kappa == pytest.approx(0.0)
    assert found.alignment.p_value == 1.0


def test_an_expert_that_is_only_less_bad_where_chosen_is_no_specialist():
    rng = np.random.default_rng(8)
    where = np.arange(2000) % 2
    losses = rng.normal(size=(2000, 2)) ** 2
    losses[:, 1] += np.where(where == 1, 1.0, 5.0)
    found = specialization(losses, where)
    assert found.experts[1].excess.low > 0
    assert found.experts[1].p_value < 0.001
    assert found.experts[1].advantage.high < 0
    assert found.experts[1].p_positive > 0.999
    assert found.special == (0,)


def test_an_expert_seen_on_few_rows_is_not_tested():
    rng = np.random.default_rng(3)
    where = np.where(np.arange(400) < 20, 1, 0)
    losses = rng.normal(size=(400, 2)) ** 2
    losses[where == 1, 1] -= 100.0  # however large the advantage
    found = specialization(losses, where)
    assert not found.experts[1].tested
    assert not found.experts[1].special
    assert found.experts[1].p_value == found.experts[1].adjusted == 1.0
    loose = specialization(losses, where, min_rows=2)
    assert loose.experts[1].tested


def test_runner_up_and_regions_come_from_the_half_that_does_not_test():
    rng = np.random.default_rng(4)
    losses, X = rng.normal(size=(100, 3)) ** 2, rng.uniform(size=(100, 2))
    first = np.random.default_rng(9).permutation(100)[:50]
    seen = []

    def fit(X_half, losses_half):
        seen.append((X_half, losses_half))
        return lambda X: (X[:, 0] > 0.5).astype(int)

    found = specialization(losses, fit, X, seed=9)
    np.testing.assert_array_equal(seen[0][0], X[first])
    np.testing.assert_array_equal(seen[0][1], losses[first])
    chosen = np.eye(3, dtype=bool)[(X[:, 0] > 0.5).astype(int)]
    assert [report.runner_up for report in found.experts] == runners_up(losses[first], chosen[first]).tolist()
    second = np.setdiff1d(np.arange(100), first)
    rows = second[chosen[second, 0]]
    expected = (losses[rows, found.experts[0].runner_up] - losses[rows, 0]).mean()
    assert found.experts[0].advantage.value == pytest.approx(expected)
    assert found.experts[0].n_rows == len(rows)


def test_labels_weights_and_masks_say_the_same():
    losses, where = eight_experts(5, 400)
    onehot = np.eye(M)[where]
    reports = [specialization(losses, form, n_permutations=200) for form in (where, onehot, onehot > 0)]
    assert reports[0] == reports[1] == reports[2]
    soft = 0.6 * onehot + 0.4 / M
    assert specialization(losses, soft, n_permutations=200) == reports[0]


def test_a_top_2_mask_tests_every_active_expert():
    losses, where = eight_experts(6, 1200)
    mask = np.eye(M, dtype=bool)[where] | np.eye(M, dtype=bool)[(where + 4) % M]
    found = specialization(losses, mask, n_permutations=500)
    testing = np.random.default_rng(0).permutation(1200)[600:]
    assert [report.n_rows for report in found.experts] == mask[testing].sum(axis=0).tolist()
    assert all(report.tested for report in found.experts)


def test_many_experts_get_as_many_permutations_as_their_threshold_needs():
    """The least p-value, one over one more than the permutations, is below half of the strictest threshold."""
    for n_experts in (2, 8, 256):
        harmonic = np.sum(1.0 / np.arange(1, n_experts + 1))
        assert 1.0 / (1 + default_permutations(None, n_experts, 0.05)) < 0.5 * 0.05 / (n_experts * harmonic)


def test_a_seed_fixes_the_report():
    losses, where = eight_experts(7, 300)
    assert specialization(losses, where, seed=3) == specialization(losses, where, seed=3)


def test_the_interval_of_a_difference_is_that_of_scipy():
    values = np.random.default_rng(0).normal(size=30)
    chosen = np.arange(30) < 12
    exact = stats.ttest_ind(values[chosen], values[~chosen], equal_var=False).confidence_interval(0.95)
    found = difference_interval(values, chosen, 0.95)
    np.testing.assert_allclose(found[1:], np.array(exact) * 18 / 30)
    assert found.value == pytest.approx(values[chosen].mean() - values.mean())


def test_intervals_without_data_are_the_whole_line():
    assert mean_interval(np.array([1.0]))[1:] == (-np.inf, np.inf)
    nobody = difference_interval(np.ones(5), np.zeros(5, dtype=bool), 0.95)
    assert np.isnan(nobody.value)
    assert nobody[1:] == (-np.inf, np.inf)
    assert difference_interval(np.ones(5), np.arange(5) < 2, 0.95) == (0.0, 0.0, 0.0)


def test_the_permutation_p_value_equals_scipys_on_all_splits():
    rng = np.random.default_rng(1)
    values, chosen = rng.normal(size=(9, 1)), np.arange(9)[:, None] < 4

    def statistic(a, b, axis):
        return stats.ttest_ind(a, b, equal_var=False, axis=axis).statistic

    exact = stats.permutation_test(
        (values[:4, 0], values[4:, 0]), statistic, alternative="greater", n_resamples=np.inf, vectorized=True
    )
    found = permutation_p_values(values, chosen, 40_000, rng)[0]
    assert found == pytest.approx(exact.pvalue, abs=0.01)


def test_the_given_order_counts_as_a_permutation():
    values, chosen = (
        np.arange(40.0)[:, None],
        np.arange(40)[:, None] >= 30,
    )  # no other choice is as large
    assert permutation_p_values(values, chosen, 99, np.random.default_rng(0))[0] == pytest.approx(0.01)


def test_the_one_sided_p_value_is_students():
    values = np.random.default_rng(3).normal(0.3, size=12)
    assert positive_p_value(values) == pytest.approx(stats.ttest_1samp(values, 0, alternative="greater").pvalue)
    assert positive_p_value(np.ones(4)) == 0.0
    assert positive_p_value(np.zeros(4)) == positive_p_value(-np.ones(4)) == 1.0


def test_the_statistic_is_welchs():
    values, chosen = np.random.default_rng(2).normal(size=20), np.arange(20) < 7
    found = welch_statistic(7, values[chosen].sum(), (values[chosen] ** 2).sum(), 20, values.sum(), (values**2).sum())
    exact = stats.ttest_ind(values[chosen], values[~chosen], equal_var=False).statistic
    assert found == pytest.approx(exact)


def test_equal_losses_are_no_evidence():
    where = np.arange(200) % 2
    assert specialization(np.ones((200, 2)), where, n_permutations=100).experts[0].p_value == 1.0
    values, chosen = np.full((60, 1), 3.7), (np.arange(60) < 25)[:, None]
    assert permutation_p_values(values, chosen, 50, np.random.default_rng(0))[0] == 1.0


@given(st.integers(0, 10_000))
def test_alignment_of_a_perfect_and_of_a_shuffled_gate(seed):
    rng = np.random.default_rng(seed)
    best = rng.integers(3, size=60)
    best[:3] = range(3)
    perfect = alignment(best, best, 3, n_permutations=50)
    assert perfect.agreement == perfect.kappa == 1.0
    assert perfect.p_value == pytest.approx(1 / 51)
    weights = rng.dirichlet(np.ones(3), size=60)
    soft = alignment(weights, best, 3, n_permutations=20)
    assert soft.agreement == pytest.approx(np.mean([w[b] for w, b in zip(weights, best, strict=True)]))
    shuffled = np.mean([weights[rng.permutation(60), best].mean() for _ in range(400)])
    assert soft.chance == pytest.approx(shuffled, abs=0.02)
    assert soft.excess.low <= soft.excess.value <= soft.excess.high


def test_the_error_of_the_excess_is_the_jackknife_s():
    """One expert is best at most rows and chosen at most: the chance of agreement then varies as agreement does."""
    rng = np.random.default_rng(3)
    best = (rng.uniform(size=200) < 0.8).astype(int)
    gate = np.where(rng.uniform(size=200) < 0.8, best, 1 - best)

    def excess(rows):
        return np.mean(gate[rows] == best[rows]) - sum(
            np.mean(gate[rows] == m) * np.mean(best[rows] == m) for m in (0, 1)
        )

    rows = np.arange(200)
    without = np.array([excess(np.delete(rows, i)) for i in rows])
    error = np.sqrt(199 / 200 * ((without - without.mean()) ** 2).sum())
    found = alignment(gate, best, 2, n_permutations=1).excess
    assert found.value == pytest.approx(excess(rows))
    assert found.high - found.value == pytest.approx(stats.t.ppf(0.975, 199) * error, rel=0.02)


def test_alignment_of_chance_has_uniform_p_values():
    rng = np.random.default_rng(4)
    p = [alignment(rng.integers(3, size=50), rng.integers(3, size=50), 3, n_permutations=99, seed=rng).p_value
         for _ in range(200)]  # fmt: skip
    assert np.mean(np.array(p) <= 0.05) <= 0.05 + 2.6 * np.sqrt(0.05 * 0.95 / 200)


def test_runners_up_leave_out_the_expert_itself():
    losses = np.random.default_rng(5).uniform(size=(50, 4))
    chosen = np.eye(4, dtype=bool)[best_expert(losses)]
    rivals = runners_up(losses, chosen)
    for m in range(4):
        means = losses[chosen[:, m]].mean(axis=0)
        assert rivals[m] == min((means[j], j) for j in range(4) if j != m)[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: specialization(np.ones((3, 2)), [0, 1, 0]), "losses must hold at least 4 rows"),
        (
            lambda: specialization(np.ones((8, 2)), [0, 1]),
            r"assignments must hold one whole number a row, shape \(8,\)",
        ),
        (lambda: specialization(np.ones((8, 2)), [2] * 8), "assignments must be from 0 to 1"),
        (lambda: specialization(np.ones((8, 2)), np.ones((8, 2))), "assignments must lie on the simplex"),
        (
            lambda: specialization(np.ones((8, 2)), np.ones((8, 3)) / 3),
            r"assignments must have shape \(8,\) or \(8, 2\)",
        ),
        (lambda: specialization(np.ones((8, 2)), EstimatedRegions), "X must be given when assignments is a function"),
        (lambda: specialization(np.ones((8, 2)), EstimatedRegions, np.ones((7, 1))), "X must have 8 rows"),
        (lambda: specialization(np.ones((8, 2)), [0] * 8, alpha=0), "alpha must lie strictly between 0 and 1"),
        (lambda: specialization(np.ones((8, 2)), [0] * 8, min_rows=1), "min_rows must be a whole number at least 2"),
        (lambda: alignment([0], [0], 2), "best must hold at least two rows"),
        (lambda: alignment([0, 1], [0, 2], 2), "best must be from 0 to 1"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
