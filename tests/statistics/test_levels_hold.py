"""Tests reject a true hypothesis no more often than their level, and find what is there."""

import numpy as np
import pytest
from scipy import special

from benchmarks.specialists import NULLS, three_special
from gatewise.geometry import alignment, specialization
from gatewise.geometry.grouped_rows import sign_flip_p_values
from gatewise.geometry.two_sample import permutation_p_values
from gatewise.scores.prepared_folds import PreparedFolds
from gatewise.scores.queries import QueryReader
from gatewise.scores.route_test import largest_p_value, routing_p_values
from gatewise.stats import adjusted_p_values
from tests.scores.designs import folds_of, small_table
from tests.statistics.bounds import least, most
from tests.statistics.draws import draws

pytestmark = pytest.mark.statistics


@pytest.mark.parametrize("design", NULLS, ids=lambda design: design.__name__)
def test_no_specialist_is_found_where_there_is_none(design):
    """60 samples of 400 rows and eight experts of a design: any alarm in at most 5 %."""
    runs, alarms = draws(60, design.__name__), 0
    for rng in runs:
        sample = design(rng, 400)
        alarms += bool(specialization(sample.losses, sample.assignments, sample.X, seed=rng).special)
    assert alarms <= most(len(runs), 0.05)


def test_specialists_are_found_and_false_discoveries_are_few():
    """60 samples of 1,200 rows with three specialists of eight: 80 % of them found, false discoveries at most 5 %."""
    runs, found, rates = draws(60, "specialists"), 0, []
    for rng in runs:
        sample = three_special(rng)
        names = specialization(sample.losses, sample.assignments, seed=rng).special
        found += sum(m < 3 for m in names)
        rates.append(sum(m >= 3 for m in names) / max(len(names), 1))
    assert found >= least(3 * len(runs), 0.8)
    assert np.mean(rates) <= 0.05 + 3.1 * np.std(rates) / np.sqrt(len(rates))


def test_permutations_keep_their_level_where_variances_differ():
    """600 samples of 60 rows, a third chosen with three times the noise: the studentized test rejects 5 %."""
    runs, hits = draws(600, "permutations"), 0
    chosen = (np.arange(60) % 3 == 0)[:, None]
    for rng in runs:
        values = rng.normal(size=(60, 1)) * np.where(chosen, 3.0, 1.0)
        hits += permutation_p_values(values, chosen, 199, rng)[0] <= 0.05
    assert hits <= most(len(runs), 0.06)


def test_flipped_signs_of_documents_keep_their_level():
    """1,000 samples of 20 documents with heavy tails: an exact test, at most 5 %."""
    runs = draws(1000, "flips")
    hits = sum(sign_flip_p_values(rng.standard_t(2, size=(20, 1)), 99, rng)[0] <= 0.05 for rng in runs)
    assert hits <= most(len(runs), 0.05)


def test_alignment_by_chance_is_rarely_found():
    """600 gates that know nothing: p-values of at most 5 % in at most 5 %."""
    runs = draws(600, "chance")
    found = (alignment(rng.integers(3, size=50), rng.integers(3, size=50), 3, n_permutations=99, seed=rng)
             for rng in runs)  # fmt: skip
    assert sum(one.p_value <= 0.05 for one in found) <= most(len(runs), 0.05)


def test_false_discoveries_under_dependence():
    """2,000 samples of ten p-values, five of true hypotheses, all strongly correlated: their rate is at most 5 %."""
    rates = []
    for rng in draws(2000, "discoveries"):
        z = 0.8 * rng.normal() + 0.6 * rng.normal(size=10) - np.repeat([0.0, 3.0], 5)
        found = adjusted_p_values(special.ndtr(z)) <= 0.05
        rates.append(found[:5].sum() / max(found.sum(), 1))
    assert np.mean(rates) <= 0.05 + 3.1 * np.std(rates) / np.sqrt(len(rates))


@pytest.fixture(scope="module")
def queries():
    X, _, answers, costs = small_table(300)
    _, seen = QueryReader.fit(X, ["question"], "auto", 3, 0)
    return PreparedFolds.prepare(seen, folds_of(300), 0), answers, np.tile(costs, (300, 1))


def test_routing_is_rarely_said_to_pay_where_queries_tell_nothing(queries):
    """40 tables whose rows are permuted against their queries: false in at most 5 %, for scores and for costs."""
    prepared, answers, costs = queries
    runs = draws(40, "routing")
    found = []
    for rng in runs:
        noise = rng.uniform(0.5, 1.5, size=(300, 1))
        found.append(routing_p_values(prepared, answers[rng.permutation(300)], costs * noise, by_query=True))
    assert sum(p.score <= 0.05 for p in found) <= most(len(runs), 0.05)
    assert sum(p.cost <= 0.05 for p in found) <= most(len(runs), 0.05)


def test_a_router_as_good_as_two_models_is_rarely_said_to_beat_both():
    """2,000 samples of 100 scores: the largest p-value is at most 5 % in at most 5 %."""
    runs, hits = draws(2000, "both"), 0
    for rng in runs:
        singles = rng.normal(size=(100, 2))
        hits += largest_p_value(rng.normal(size=100), singles) <= 0.05
    assert hits <= most(len(runs), 0.05)
