"""Score models: each against a slow, obvious twin."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import Ridge

from gatewise.scores.leaders import centre, leading_models
from gatewise.scores.leaf_members import fit_boosted, fit_forest, fit_tree
from gatewise.scores.local_members import fit_category, fit_neighbours, SHRINKAGE
from gatewise.scores.logistic_members import fit_logistic
from gatewise.scores.prepared_folds import PreparedFolds
from gatewise.scores.queries import QueryReader
from gatewise.scores.ridge_members import fit_linear, fit_observed_ridge, fit_ridge, fit_score_ridge, spectrum
from gatewise.scores.score_list import fit_members, held_out_forecasts, quick_plans, stack_weights
from gatewise.scores.tried_scores import pseudo_scores
from tests.scores.designs import folds_of, small_table


@pytest.fixture(scope="module")
def rows():
    X, _, answers, _ = small_table(240)
    reader, queries = QueryReader.fit(X, ["question"], "auto", 4, 0)
    return reader, queries, answers - answers.mean(axis=1, keepdims=True)


def test_one_direction_is_a_ridge_regression(rows):
    _, queries, centred = rows
    y = centred[:, :1]
    fit = fit_ridge(spectrum(queries.plain), y)
    penalty = float((fit.precision - spectrum(queries.plain).values[:, None]).mean())
    slow = Ridge(alpha=penalty).fit(queries.plain, y[:, 0])
    np.testing.assert_allclose(fit.forecast(queries.plain)[:, 0], slow.predict(queries.plain), atol=1e-8)


def test_relabelling_models_relabels_forecasts_and_variances(rows):
    _, queries, centred = rows
    order = [2, 0, 1]
    one, other = fit_linear(queries, centred, "full"), fit_linear(queries, centred[:, order], "full")
    np.testing.assert_allclose(one.forecast(queries)[:, order], other.forecast(queries), atol=1e-7)
    np.testing.assert_allclose(one.variance(queries)[:, order], other.variance(queries), rtol=1e-5)


def test_the_posterior_variance_is_that_of_the_forecast(rows):
    """With one direction of noise variance s^2: s^2 (x' (X'X + penalty)^-1 x + 1 / n)."""
    _, queries, centred = rows
    X = queries.plain - queries.plain.mean(axis=0)
    fit = fit_ridge(spectrum(queries.plain), centred[:, :1])
    penalty = float((fit.precision - spectrum(queries.plain).values[:, None]).mean())
    inverse = np.linalg.inv(X.T @ X + penalty * np.eye(X.shape[1]))
    slow = fit.noise[0, 0] * (np.einsum("ij,jk,ik->i", X, inverse, X) + 1 / len(X))
    np.testing.assert_allclose(fit.variance(queries.plain)[:, 0], slow)


def test_forecasts_of_all_folds_at_once_are_those_of_the_members(rows):
    reader, queries, centred = rows
    folds = folds_of(len(centred))
    slow = held_out_forecasts(quick_plans(queries, reader.category_names, 0), queries, centred, folds, 1)
    np.testing.assert_allclose(PreparedFolds.prepare(queries, folds, 0).forecasts(centred), slow, atol=1e-8)


def test_best_per_category_is_a_shrunk_mean(rows):
    _, queries, centred = rows
    found = fit_category(queries, centred, 0)
    level = centred.mean(axis=0)
    for code in range(queries.n_levels[0]):
        inside = queries.codes[:, 0] == code
        mean = centred[inside].mean(axis=0)
        ratio = (found.means[code] - level) / (mean - level)
        np.testing.assert_allclose(ratio, ratio[0])
        assert 0.5 < ratio[0] < 1.0
    np.testing.assert_allclose(found.means[-1], level)


def test_neighbours_are_the_nearest(rows):
    _, queries, centred = rows
    found = fit_neighbours(queries, centred, 7).forecast(queries[:5])
    level = centred.mean(axis=0)
    for i in range(5):
        distance = np.sum((queries.full.astype(np.float32) - queries.full[i].astype(np.float32)) ** 2, axis=1)
        near = np.sort(distance)[6]
        if (distance <= near).sum() == 7:  # no ties
            mean = (centred[distance <= near] - level).sum(axis=0) / (7 + SHRINKAGE)
            np.testing.assert_allclose(found[i], level + mean, atol=1e-6)


def test_leaves_hold_shrunk_means(rows):
    _, queries, centred = rows
    member = fit_tree(queries, centred, depth=1, seed=0)
    level = centred.mean(axis=0)
    left = member.columns.of(queries)[:, member.trees.feature[0]] <= member.trees.threshold[0]
    for inside in (left, ~left):
        mean = (centred[inside] - level).sum(axis=0) / (inside.sum() + SHRINKAGE)
        np.testing.assert_allclose(member.forecast(queries)[inside], level + np.tile(mean, (inside.sum(), 1)))


def test_boosted_trees_fit_what_is_left(rows):
    _, queries, centred = rows
    errors = [
        np.mean((fit_boosted(queries, centred, n_trees, 3, 0.3, 0).forecast(queries) - centred) ** 2)
        for n_trees in (1, 5, 20)
    ]
    assert errors[0] > errors[1] > errors[2]
    forest = fit_forest(queries, centred, 20, 0).forecast(queries)
    assert np.mean((forest - centred) ** 2) < np.mean((centred.mean(axis=0) - centred) ** 2)


def test_a_logistic_model_finds_effects_beside_difficulty(rows):
    """Effects in logits are found beside a difficulty that hides them; scores that never differ are no trouble."""
    _, queries, _ = rows
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2))
    effect = np.c_[x[:, 0], -x[:, 0], 0.5 * x[:, 1]]
    b = 1.2 * rng.normal(size=(4000, 1))
    right = (rng.random((4000, 3)) < expit(effect + b)).astype(float)
    fit = fit_logistic(spectrum(x), right)
    slopes = fit.logits.coefficients
    np.testing.assert_allclose(slopes[0, 0] - slopes[0, 1], 2.0, atol=0.3)
    np.testing.assert_allclose(slopes[1, 2] - slopes[1, :2].mean(), 0.5, atol=0.2)
    chances = expit(effect + b)
    expected = chances - chances.mean(axis=1, keepdims=True)
    assert np.corrcoef(fit.forecast(x)[:, 0], expected[:, 0])[0, 1] > 0.85
    assert np.isfinite(
        fit_logistic(spectrum(queries.plain), np.ones((len(queries), 3))).forecast(queries.plain)
    ).all()


def test_leaders_differ_as_in_their_own_fit():
    """Forecasts of the other models, and of the leaders' mean, are those of the fit to all."""
    X, _, answers, _ = small_table(240)
    rng = np.random.default_rng(0)
    weak = (rng.random((240, 3)) < 0.05).astype(float)
    _, queries = QueryReader.fit(X, ["question"], "auto", 4, 0)
    scores = np.concatenate([answers, weak, answers[:, :1]], axis=1)
    centred, leaders = centre(scores), leading_models(scores)
    assert leaders.tolist() == [0, 1, 2, 6]
    seen = spectrum(queries.plain)
    both, own = fit_ridge(seen, centred), fit_ridge(seen, centre(scores[:, leaders]))
    found = fit_score_ridge(seen, centred).forecast(queries.plain)
    slow = both.forecast(queries.plain)
    np.testing.assert_allclose(found[:, 3:6], slow[:, 3:6])
    np.testing.assert_allclose(found[:, leaders].mean(axis=1), slow[:, leaders].mean(axis=1))
    np.testing.assert_allclose(centre(found[:, leaders]), centre(own.forecast(queries.plain)), atol=1e-12)
    tree = fit_tree(queries, centred, 2, 0).forecast(queries)
    np.testing.assert_allclose(tree.sum(axis=1), 0.0, atol=1e-12)


def test_a_ridge_on_what_was_tried_needs_no_other_rows(rows):
    _, queries, centred = rows
    scores = centred.copy()
    scores[:100, 0] = np.nan
    found = fit_observed_ridge(queries.plain, scores)(queries.plain)
    scores[100:, 1] += 1.0  # another model's scores do not matter
    np.testing.assert_allclose(fit_observed_ridge(queries.plain, scores)(queries.plain)[:, 0], found[:, 0])


def test_gaps_are_filled_by_forecasts_that_have_not_seen_the_row():
    """With a chance of one half a pseudo-score is twice the score less the forecast: that gives the forecast back."""
    rng = np.random.default_rng(0)
    features, scores, folds = rng.normal(size=(60, 5)), rng.normal(size=(60, 2)), folds_of(60)
    other = scores.copy()
    other[folds[0]] += 3.0 * features[folds[0], :1]
    forecasts = [2.0 * one - pseudo_scores(features, one, np.full((60, 2), 0.5), folds) for one in (scores, other)]
    np.testing.assert_allclose(forecasts[0][folds[0]], forecasts[1][folds[0]], atol=1e-12)
    assert np.abs(forecasts[0] - forecasts[1])[folds[1]].max() > 1e-3


def test_the_stack_is_convex_and_the_number_of_threads_does_not_matter(rows):
    reader, queries, centred = rows
    plans = quick_plans(queries, reader.category_names, 0)
    one, two = (fit_members(plans, queries, centred, jobs)[1].forecast(queries) for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)
    weights = stack_weights(np.stack([centred, np.zeros_like(centred)]), centred)
    np.testing.assert_allclose(weights, [1.0, 0.0], atol=1e-6)
