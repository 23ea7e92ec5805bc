"""Level and power of "gating pays", coverage of the gain and of predictions, over draws of designs."""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsRegressor

import gatewise as gw
from benchmarks.verdict import fitted, GAP
from benchmarks.verdict_designs import gate_design, NULLS, strength_for
from gatewise.experts import ColumnExpert
from gatewise.router import training
from tests.statistics.bounds import least, most
from tests.statistics.draws import SEED

pytestmark = pytest.mark.statistics
RUNS, POWER_RUNS, TRIAL_RUNS, GAIN_RUNS, N = 12, 25, 100, 24, 100


def run(design, n, seed):
    """The verdict of one draw, the gain of the same fit on fresh rows, and how often 90 % intervals cover there."""
    rng = np.random.default_rng([seed, n])
    model = fitted(design, n, rng, seed)
    X, y = design.draw(4000, rng)
    prediction, deviation = model.predict(X, return_std=True)
    covered = np.mean(np.abs(y - prediction) <= 1.645 * deviation)
    stack = model.transform(X) @ model.stack_weights_
    gain = 1.0 - np.mean((y - prediction) ** 2) / np.mean((y - stack) ** 2)
    return model.verdict_, gain, covered


@pytest.fixture(scope="module")
def null_runs():
    return [run(design, N, seed) for design in NULLS.values() for seed in range(SEED, SEED + RUNS)]


def test_the_level_is_at_most_five_percent(null_runs):
    assert sum(verdict.gates for verdict, *_ in null_runs) <= most(len(null_runs), 0.05)


def test_intervals_of_the_gain_cover_the_gain_on_fresh_rows(null_runs):
    against_the_stack = [(v, gain) for v, gain, _ in null_runs if v.baseline == "the convex stack"]
    inside = sum(verdict.gain.low <= gain <= verdict.gain.high for verdict, gain in against_the_stack)
    assert len(against_the_stack) > 0.8 * len(null_runs)
    assert inside >= least(len(against_the_stack), 0.92)


def test_intervals_of_predictions_cover_nine_of_ten(null_runs):
    coverage = np.array([covered for *_, covered in null_runs])
    error = coverage.std(ddof=1) / np.sqrt(len(coverage))
    assert 0.87 - 3.0 * error <= coverage.mean() <= 0.93 + 3.0 * error


def test_a_gate_that_saves_fifteen_percent_is_found():
    design = gate_design(strength_for(GAP))
    found = sum(run(design, 300, seed)[0].gates for seed in range(SEED, SEED + POWER_RUNS))
    assert found >= least(POWER_RUNS, 0.8)


def _friedman(n, rng):
    """Friedman's first design: five of ten inputs matter, and no expert is of the true form."""
    X = rng.uniform(size=(n, 10))
    mean = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, mean + 2.0 * rng.normal(size=n)


def test_the_gain_told_is_the_gain_found_where_experts_are_fitted():
    """Without nested forecasts the neighbours of a held-out row remember its response, and too little is told.

    A little less is told in any case, as the fits behind it have four fifths of the rows, or three.
    """
    experts = [("line", LinearRegression()), ("near", KNeighborsRegressor(5)), ("mean", DummyRegressor())]
    told, found = [], []
    for seed in range(SEED, SEED + GAIN_RUNS):
        rng = np.random.default_rng([seed, 11])
        model = gw.MoERegressor(experts, settings=gw.MoESettings(test=False), random_state=seed)
        model.fit(*_friedman(200, rng))
        X, y = _friedman(4000, rng)
        errors = [np.mean((y - one) ** 2) for one in (model.predict(X), model.transform(X) @ model.stack_weights_)]
        told.append(model.verdict_.gain)
        found.append(1.0 - errors[0] / errors[1])
    gaps = np.array([gain.value for gain in told]) - found
    assert np.mean(found) > 0.1
    assert -0.2 * np.mean(found) <= gaps.mean() <= 3.0 * gaps.std(ddof=1) / np.sqrt(GAIN_RUNS)
    inside = sum(gain.low <= true <= gain.high for gain, true in zip(told, found, strict=True))
    assert inside >= least(GAIN_RUNS, 0.92)


def test_the_level_holds_where_few_rows_choose_the_list(monkeypatch):
    """Two given forecasts whose best weights are one half everywhere; a list that is tried on 212 of 800 rows."""
    monkeypatch.setattr(training, "MOST_TRIED", 300)
    experts = [("first", ColumnExpert(4)), ("second", ColumnExpert(5))]
    settings, found = gw.MoESettings(learners=(), n_orders=4), 0
    for seed in range(SEED, SEED + TRIAL_RUNS):
        X = np.random.default_rng([seed, 800]).normal(size=(800, 7))
        y = X[:, 4:6].mean(axis=1) + X[:, 6]
        model = gw.MoERegressor(
            experts, cv="prefit", gates=["linear", "quadratic"], settings=settings, random_state=seed
        )
        found += model.fit(X[:, :6], y).verdict_.gates
    assert found <= most(TRIAL_RUNS, 0.05)


def test_the_level_holds_where_rows_depend_on_one_another_within_groups():
    found = []
    for seed in range(30):
        rng, group = np.random.default_rng([seed, 7]), np.repeat(np.arange(20), 20)
        X = rng.normal(size=(20, 3))[group] + 0.05 * rng.normal(size=(400, 3))
        y = rng.normal(size=20)[group] + 0.3 * rng.normal(size=400)  # an effect of the group, whatever X is
        experts = [("mean", DummyRegressor()), ("line", LinearRegression()), ("knn", KNeighborsRegressor(10))]
        settings = gw.MoESettings(learners=())
        model = gw.MoERegressor(experts, gates=["linear"], cv=GroupKFold(3), settings=settings, random_state=seed)
        found.append(model.fit(X, y, groups=group).verdict_.gates)
    assert sum(found) <= most(len(found), 0.05)
