"""`ScoreRouter`: decisions, prices, gaps, bandit feedback, errors."""

import numpy as np
import pandas as pd
import pytest

import gatewise as gw
from tests.scores.designs import small_table


@pytest.fixture(scope="module")
def fitted():
    X, _, answers, costs = small_table(600)
    router = gw.ScoreRouter(text=["question"], n_components=4, random_state=0)
    return router.fit(X, pd.DataFrame(answers, columns=list("abc")), costs)


def test_it_decides_for_the_better_model(fitted):
    X, chance, _, _ = small_table(300, seed=1)
    decided = fitted.decide(X)
    assert (decided == np.array(list("abc"))[chance.argmax(axis=1)]).mean() > 0.95
    weights = fitted.gate_weights(X)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    np.testing.assert_array_equal(decided, fitted.models_[weights.argmax(axis=1)])
    assert fitted.verdict_.headline == "route"
    assert fitted.verdict_.gain.low > 0.05
    assert "field" in fitted.summary()


def test_one_query_is_decided_as_among_many(fitted):
    X = small_table(40, seed=2)[0]
    queries = fitted.features(X)
    np.testing.assert_array_equal(fitted.decide(queries), [fitted.decide(X.iloc[[i]])[0] for i in range(40)])


def test_prices_and_budgets_lower_the_cost(fitted):
    X, _, _, costs = small_table(1000, seed=3)
    cost = dict(zip("abc", costs, strict=True))
    spent = [np.mean([cost[m] for m in fitted.decide(X, price=price)]) for price in (0.0, 0.2, 100.0)]
    assert spent[0] > spent[1] > spent[2]
    assert spent[2] == pytest.approx(0.1)
    plan = fitted.plan(budget=1.0, n_queries=1000)
    found = np.mean([cost[m] for m in fitted.decide(X, budget=1.0)])
    assert plan.point.cost.low <= found <= plan.point.cost.high
    with pytest.raises(ValueError, match="either a budget or a score"):
        fitted.plan()
    assert fitted.plan(score=0.6).point.score.value >= 0.6


def test_expected_scores_cover_the_chances(fitted):
    X, chance, _, _ = small_table(1000, seed=4)
    found = fitted.expected_scores(X)
    assert np.abs(found.value - chance).mean() < 0.06
    assert ((found.low <= chance) & (chance <= found.high)).mean() > 0.75
    assert (found.low >= 0).all()
    assert (found.high <= 1).all()


def test_explanations_regions_and_reports_agree(fitted):
    import json

    X = small_table(50, seed=5)[0]
    words = fitted.explain(X)
    np.testing.assert_array_equal(words["model"], fitted.decide(X))
    assert (words["weight"] >= words["runner_up_weight"]).all()
    facts = json.loads(json.dumps(fitted.report()))
    assert facts["verdict"]["headline"] == "route"
    assert len(facts["frontier"]["points"]) == len(fitted.frontier())
    shares = [row.share for row in fitted.region_table()]
    np.testing.assert_allclose(sum(shares), 1.0)
    assert {row.level for row in fitted.category_rows_} == {"law", "math", "music", "physics"}


def test_gaps_are_filled_without_bias():
    """The second model is tried more often where it is right: its mean is right with the chances alone."""
    X, chance, answers, _ = small_table(2000, seed=6)
    rng = np.random.default_rng(0)
    hard = np.isin(X["field"], ["math", "physics"])
    propensity = np.tile([1.0, 1.0, 1.0], (2000, 1))
    propensity[:, 1] = np.where(hard, 0.8, 0.2)
    gaps = np.where(rng.random(answers.shape) < propensity, answers, np.nan)
    router = gw.ScoreRouter(n_components=4, random_state=0).fit(X, gaps, propensity=propensity)
    found = router.routes_.held_out.scores.mean(axis=0)
    np.testing.assert_allclose(found, chance.mean(axis=0), atol=0.05)
    assert np.nanmean(gaps[:, 1]) > chance[:, 1].mean() + 0.1
    assert "propensities" in router.assumption_
    assert (router.decide(X[:500]) == router.models_[chance[:500].argmax(axis=1)]).mean() > 0.9
    silent = gw.ScoreRouter(n_components=4, random_state=0).fit(X[:300], gaps[:300])
    assert "assumed" in silent.summary()
    assert silent.routability_ is None


def test_expected_scores_stay_within_the_scores_that_were_given():
    """Pseudo-scores leave their range where not every model was tried; expected scores do not."""
    X, _, answers, _ = small_table(200)
    gaps = np.where(np.random.default_rng(0).random(answers.shape) < 0.4, answers, np.nan)
    for scores in (gaps, answers):
        router = gw.ScoreRouter(n_components=4, random_state=0).fit(X, scores, propensity=[0.4] * 3)
        found = router.expected_scores(X)
        assert min(end.min() for end in found) >= 0.0
        assert max(end.max() for end in found) <= 1.0
        assert (found.low <= found.value).all()
        assert (found.value <= found.high).all()


def test_features_that_are_there_are_not_read_again():
    """Beside it, costs that name the models may stand in any order."""
    X, _, answers, costs = small_table(200)
    router = gw.ScoreRouter(text=["question"], n_components=4, random_state=0)
    router.fit(X, pd.DataFrame(answers, columns=list("abc")), {"c": costs[2], "a": costs[0], "b": costs[1]})
    np.testing.assert_array_equal(router.routes_.costs.mean, costs)
    weights = router.gate_weights(X)
    again = router.fit(router.features(X), answers, costs)
    np.testing.assert_allclose(again.gate_weights(X), weights, atol=1e-6)


def test_noise_is_not_routed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    router = gw.ScoreRouter(random_state=0).fit(X, (rng.random((500, 3)) < [0.7, 0.5, 0.3]).astype(float))
    assert router.verdict_.headline == "use model 0 for everything"
    assert (router.decide(X) == "model 0").mean() > 0.9


def test_bandit_feedback_moves_the_weights(fitted):
    import copy

    router = copy.deepcopy(fitted)
    X, _, answers, _ = small_table(500, seed=7)
    draw = router.explore(X, random_state=0)
    assert draw.chances.shape == (500, 3)
    seen = answers[np.arange(500), draw.numbers]
    by_number = copy.deepcopy(router).partial_fit(X, draw.numbers, seen, draw.chances[np.arange(500), draw.numbers])
    router.partial_fit(X, draw.models, seen, draw.chances)
    np.testing.assert_array_equal(by_number.online_.sums, router.online_.sums)
    assert router.online_.n_seen == 1100
    np.testing.assert_allclose(router.routes_.weights.weights[0].sum(), 1.0)
    np.testing.assert_array_equal(fitted.routes_.weights.weights[1:], router.routes_.weights.weights[1:])
    with pytest.raises(ValueError, match="numbers from 0 to 2"):
        router.partial_fit(X, np.full(500, 3), np.zeros(500), draw.chances)
    with pytest.raises(ValueError, match="chances must have shape"):
        router.partial_fit(X, draw.models, np.zeros(500), np.ones(3))
    with pytest.raises(ValueError, match="chances must be an array of numbers"):
        router.partial_fit(X, draw.models, np.zeros(500), ["a"] * 500)


def test_feedback_on_no_query_changes_nothing(fitted):
    import copy

    router, X = copy.deepcopy(fitted), small_table(50, seed=7)[0][:0]
    assert len(router.decide(X)) == len(router.expected_scores(X).value) == len(router.explain(X)["lead"]) == 0
    draw, before = router.explore(X), (router.online_, router.routes_)
    router.partial_fit(X, draw.models, [], draw.chances)
    assert (router.online_, router.routes_) == before
    with pytest.raises(ValueError, match="models must be 0 names"):
        router.partial_fit(X, ["a"], [], draw.chances)


def test_an_update_that_is_interrupted_leaves_the_router_as_it_was(fitted, monkeypatch):
    import copy

    router, X = copy.deepcopy(fitted), small_table(50, seed=7)[0]
    draw, before = router.explore(X, random_state=0), router.online_

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(router.routes_), "reweighed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        router.partial_fit(X, draw.models, np.zeros(len(X)), draw.chances)
    assert router.online_ is before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, s, c: (X, s[:50], c), "scores must have shape"),
        (lambda X, s, c: (X, s[:, :1], c), "two models or more"),
        (lambda X, s, c: (X, s * np.inf, c), "scores"),
        (lambda X, s, c: (X, s, c[:2]), "costs must have shape"),
        (lambda X, s, c: (X, s, -c), "costs must be finite and not negative"),
        (lambda X, s, c: (X, s, {"model 0": 1.0}), "none for the model 'model 1'"),
        (lambda X, s, c: (X[:0], s[:0], c), "at least 50 queries"),
        (lambda X, s, c: (X[:40], s[:40], c), "at least 50 queries"),
        (lambda X, s, c: (X, np.where(np.arange(3) == 1, np.nan, s), c), "'model 1' was tried on 0"),
    ],
)
def test_a_bad_argument_is_named(change, words):
    X, _, answers, costs = small_table(120)
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=words):
        gw.ScoreRouter().fit(*change(X, answers, costs))


def test_a_failed_fit_leaves_the_router_as_it_was(fitted):
    before = dict(vars(fitted))
    with pytest.raises(ValueError, match="scores"):
        fitted.fit(small_table(100)[0], np.zeros((3, 3)))
    assert vars(fitted) == before
