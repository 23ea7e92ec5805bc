"""The statistics of the X-ray: twins by enumeration, derivatives by differences, levels by simulation."""

import json
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.xray_levels import documents, FILE, level, sticky_labels, sticky_losses, table
from benchmarks.xray_study import table as study_table
from gatewise.geometry import alignment, specialization
from gatewise.geometry.grouped_rows import halves, ratio_and_error, ratio_interval, sign_flip_p_values
from gatewise.nn.xray.class_information import class_counts, information, largest_p_values, permuted_topics, shifted
from gatewise.nn.xray.coactivation import expected_pairs, pair_probabilities
from gatewise.nn.xray.document_bootstrap import bootstrap_intervals, entropy_bits
from gatewise.nn.xray.gate_regret import measured_regret
from gatewise.nn.xray.layer_trace import LayerTrace
from gatewise.nn.xray.pruning import certified
from gatewise.nn.xray.random_routers import expert_load, random_choices
from gatewise.nn.xray.usage import beyond_initial, beyond_table

ADJUSTED = ("any specialist", "any redundant", "any pair")  # conservative, as the guide says


def counts_at(weights, counts):
    return information(np.asarray(weights)[:, None, None] * counts)


def test_information_is_the_mean_surprise_and_its_influence_a_derivative():
    rng = np.random.default_rng(0)
    places, classes, units = rng.integers(3, size=(60, 2)), rng.integers(4, size=60), np.arange(60) % 5
    counts = class_counts(places, classes, units, (5, 4, 3))
    found, joint = information(counts), counts.sum(axis=0) / counts.sum()
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    assert found.layer == pytest.approx((joint * np.log2(joint / product)).sum())
    assert found.layer == pytest.approx(joint.sum(axis=0) @ found.experts)
    for g in range(5):
        step = 1e-6 * np.eye(5)[g]
        up, down = counts_at(1 + step, counts), counts_at(1 - step, counts)
        np.testing.assert_allclose(found.experts_influence[g], (up.experts - down.experts) / 2e-6, atol=1e-7)
        assert found.layer_influence[g] == pytest.approx((up.layer - down.layer) / 2e-6, abs=1e-7)


def test_shifts_stay_within_documents_and_topics_move_between_them():
    rng = np.random.default_rng(1)
    units = rng.permutation(np.repeat(np.arange(4), [5, 1, 7, 3]))
    classes = rng.integers(3, size=16)
    moved = shifted(classes, units, rng)
    for g in range(4):
        before, after = classes[units == g].tolist(), moved[units == g].tolist()
        assert after in [before[k:] + before[:k] for k in range(len(before))]
    topics = permuted_topics(np.array([0, 1, 2, 3])[units], units, rng)
    assert all(len(set(topics[units == g])) == 1 for g in range(4))
    assert sorted({int(topics[units == g][0]) for g in range(4)}) == [0, 1, 2, 3]


def test_pairs_of_sets_of_largest_entropy_by_enumeration():
    weights = np.array([0.2, 1.0, 3.0, 0.7, 1.5])
    sets = list(combinations(range(5), 3))
    chance = np.array([weights[list(one)].prod() for one in sets])
    chance /= chance.sum()
    load = np.array([sum(p for p, one in zip(chance, sets, strict=True) if m in one) for m in range(5)])
    pairs = pair_probabilities(load, 3)
    for i, j in combinations(range(5), 2):
        expected = sum(p for p, one in zip(chance, sets, strict=True) if {i, j} <= set(one))
        assert pairs[i, j] == pytest.approx(expected, abs=1e-8)
    chosen = np.zeros((6, 3), dtype=bool)
    chosen[:, 0] = True  # always active: its pairs are the loads of the others
    chosen[:2, 1] = chosen[2:, 2] = True
    np.testing.assert_allclose(expected_pairs(chosen, np.zeros(6, dtype=int), 2)[0][0], [1.0, 1 / 3, 2 / 3])


def test_random_routers_have_the_load_of_the_layer():
    rng = np.random.default_rng(2)
    indices = np.array([rng.choice(6, 2, replace=False, p=[0.4, 0.2, 0.15, 0.1, 0.1, 0.05]) for _ in range(3000)])
    hidden = rng.normal(size=(3000, 12)).astype(np.float32)
    layer = LayerTrace("layer", 6, indices, np.ones(indices.shape), hidden)
    found = next(random_choices(layer, 1, rng))
    assert found.shape == indices.shape
    assert (found[:, 0] != found[:, 1]).all()
    other = LayerTrace("layer", 6, found, np.ones(found.shape), hidden)
    np.testing.assert_allclose(expert_load(other), expert_load(layer), atol=0.02)


def test_the_largest_of_many_statistics_decides():
    draws = np.random.default_rng(3).normal(size=(99, 4))
    observed = np.array([9.0, 0.0, -3.0, 9.0])
    p = largest_p_values(observed, draws, np.array([True, True, True, False]))
    assert p[0] == pytest.approx(0.01)
    assert p[1] > 0.5
    assert p[3] == 1.0


def test_intervals_by_resampling_documents_cover():
    rng, held = np.random.default_rng(4), 0
    for _ in range(200):
        totals = rng.gamma(2.0, size=(30, 1))
        low, high = bootstrap_intervals(totals, lambda sums: sums / 30, rng)[0][1:]
        held += low <= 2.0 <= high
    assert held >= 180
    np.testing.assert_allclose(entropy_bits(np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]])), [1.0, 0.0, 0.0])


def test_the_bound_of_pruning_covers_where_documents_are_skewed_and_of_different_length():
    rng, held = np.random.default_rng(5), 0
    for _ in range(400):
        lengths = rng.integers(5, 60, size=40)
        units = np.repeat(np.arange(40), lengths)
        rise = np.repeat(rng.gamma(2.0, 0.5, size=40), lengths) + rng.normal(size=len(units))
        held += certified(rise, units)[1] >= 1.0
    assert held >= 400 * 0.92 - 2 * np.sqrt(400 * 0.92 * 0.08)


def test_a_better_router_is_found_where_there_is_one_and_not_where_there_is_none():
    rng = np.random.default_rng(6)
    hidden, units = rng.normal(size=(1600, 5)), np.repeat(np.arange(40), 40)
    noise = rng.normal(size=(1600, 3))
    noise[:, 0] = 0.0  # where the token is now
    none = np.zeros((1600, 3), dtype=bool)
    planted = noise + np.column_stack([0 * hidden[:, 0], 2 * hidden[:, 0], 2 * hidden[:, 1]])
    found = measured_regret(0, hidden, planted, none, units, np.random.default_rng(0))
    assert found.gain.low > 0.5
    assert found.oracle > found.gain.value
    nothing = measured_regret(0, hidden, noise + 0.5 * (noise != 0), none, units, np.random.default_rng(0))
    assert abs(nothing.gain.value) < 0.02
    _, second = halves(units, np.random.default_rng(0))
    gains = []
    for shift in (0.0, 1.0, 2.0):  # of an expert's rise in the half that judges: no choice may depend on it
        moved = planted + shift * np.isin(np.arange(1600), second)[:, None] * [0, 1, 0]
        gains.append(measured_regret(0, hidden, moved, none, units, np.random.default_rng(0)).gain.value)
    assert gains[0] - gains[2] > 0.1
    assert gains[0] - 2.0 * gains[1] + gains[2] == pytest.approx(0.0, abs=1e-9)


def test_halves_are_of_whole_groups_and_sign_flips_are_exact():
    units = np.repeat(np.arange(21), 3)
    first, second = halves(units, np.random.default_rng(0))
    assert not set(units[first]) & set(units[second])
    assert len(set(units[first])) == 10
    p = sign_flip_p_values(np.array([[1.0, 0.0]] * 4), 8000, np.random.default_rng(0))
    assert p[0] == pytest.approx(1 / 16, abs=0.01)
    assert p[1] == 1.0


def test_groups_of_one_row_say_what_rows_say():
    rng = np.random.default_rng(7)
    totals, counts = rng.normal(size=50), np.ones(50)
    found = ratio_interval(totals, counts)
    half = (found.high - found.low) / 2
    assert half == pytest.approx(2.0096 * totals.std(ddof=1) / np.sqrt(50), rel=1e-4)


def test_the_error_of_a_ratio_is_the_jackknife_s_and_few_large_groups_have_little_freedom():
    rng = np.random.default_rng(10)
    totals, counts = rng.normal(size=12), rng.integers(1, 30, size=12).astype(float)
    left = np.array([(totals.sum() - t) / (counts.sum() - c) for t, c in zip(totals, counts, strict=True)])
    ratio, error, _ = ratio_and_error(totals, counts)
    assert error == pytest.approx(np.sqrt(11 / 12 * ((left - ratio) ** 2).sum()))
    assert ratio_and_error(totals, np.ones(12))[2] == pytest.approx(11)
    assert ratio_and_error(totals, np.array([1e6, *np.ones(11)]))[2] < 0.001


def test_shares_beyond_what_is_expected_and_beyond_the_first_checkpoint():
    rng = np.random.default_rng(11)
    counts = rng.poisson(5.0, size=(40, 3, 2)).astype(float)
    value, low, high = beyond_table(counts, np.zeros_like(counts))[:, 1, 0]
    assert ratio_interval(counts[:, 1, 0], counts[:, 1].sum(axis=1)).value == pytest.approx(value)
    influence = (counts[:, 1, 0] - value * counts[:, 1].sum(axis=1)) / counts[:, 1].sum()
    assert (high - low) / 2 == pytest.approx(2.0227 * np.sqrt(40 / 39 * influence @ influence), rel=1e-4)
    later = counts.copy()
    later[:, 0, 0] += 20.0  # the first expert has come to know the first class
    every = np.ones(2, dtype=bool)
    grown = beyond_initial([information(later)], [information(counts)], [every])[0]
    assert grown.experts[0].low > 0
    assert grown.p_values[0] < 1e-4
    assert beyond_initial([information(counts)], [information(later)], [every])[0].p_values[0] > 0.9


def test_specialists_are_found_by_document_too():
    rng = np.random.default_rng(8)
    where = sticky_labels(rng, 4, 0.2)
    losses = sticky_losses(rng, 4, 0.2)
    losses[where == 1, 1] -= 2.0
    found = specialization(losses, where, groups=documents())
    assert found.special == (1,)
    assert found.experts[1].excess.low > 0
    assert found.alignment.p_value < 0.01


def test_fewer_than_twenty_groups_are_refused():
    losses, where = np.random.default_rng(9).normal(size=(190, 2)), np.arange(190) % 2
    with pytest.raises(ValueError, match=r"groups must hold at least 20 different labels, .* not 19"):
        specialization(losses, where, groups=np.arange(190) % 19)
    with pytest.raises(ValueError, match="groups must hold one label a row"):
        alignment(where, where, 2, groups=[1, 2])


def test_the_tables_of_the_guide_are_what_the_commands_print():
    guide = (Path(__file__).parents[3] / "docs" / "xray.md").read_text()
    levels, study = (json.loads(file.read_text()) for file in (FILE, study_table.FILE))
    assert table(levels) in guide
    for row in (*study_table.rows(study), *study_table.second_table(study)):
        assert f"| {' | '.join(row)} |" in guide
    for cells in levels.values():  # with documents as units no level is far above 5 %
        found = [value for one in cells for key, value in one["levels"].items() if value and "tokens" not in key]
        assert max(found, default=0.0) <= 0.065
    held = [one["pruning coverage"] for one in study.values() if "pruning coverage" in one]
    assert len(held) == 4
    assert all(one["repeats"] == 200 and one["held"] >= 184 for one in held)


def numbers(cell):
    return [float(text) for text in re.findall(r"-?\d+\.?\d*", cell)]


def span(values, places):
    return f"{min(values):.{places}f} to {max(values):.{places}f}"


def test_the_words_of_the_guide_say_what_its_tables_have():
    levels, study = (json.loads(file.read_text()) for file in (FILE, study_table.FILE))
    words = " ".join((Path(__file__).parents[3] / "docs" / "xray.md").read_text().split())
    values = [item for cells in levels.values() for one in cells for item in one["levels"].items()]
    single = [100.0 * value for key, value in values if "tokens as" not in key and key not in ADJUSTED]
    assert f"lie between {min(single):.1f} and {max(single):.1f} %" in words
    assert f"up to {100.0 * max(value for key, value in values if 'tokens as' in key):.1f} %" in words
    rows = [[cell.strip() for cell in row] for row in study_table.rows(study)]
    bits = [pair for row in rows if "frozen" not in row[0] for pair in row[2].split(", ")]
    learned, random = (np.array([numbers(pair)[i] for pair in bits]) for i in range(2))
    assert f"({span(learned, 2)} bits where random routers have {span(random, 2)})" in words
    ratio = numbers(re.search(r"trained ones tell ([\d.]+ to [\d.]+) times", words)[1])
    assert np.abs(np.array(ratio) - [(learned / random).min(), (learned / random).max()]).max() < 0.1
    few, many = (
        [cost for row in rows if row[0].endswith(size) for cost in numbers(row[4])] for size in (" 8", " 64")
    )
    assert f"one of 8 experts away costs {span(few, 2)} nats, one of 64 {span(many, 3)};" in words
    needed = [value for row in rows if row[0].endswith(" 64") for value in numbers(row[5])]
    assert {value for row in rows if row[0].endswith(" 8") for value in numbers(row[5])} == {8.0}
    assert f"all of 8 are needed, and {span(needed, 0)} of 64" in words
    pairs = [numbers(cell.replace("+", " ")) for row in rows for cell in row[8].split(", ")]
    more, less, tested = np.array(pairs).T
    assert f"({span(100 * less / tested, 0)} % of those tested)" in words
    assert f"({span(100 * more / tested, 0)} %), in the control" in words
    regret = [value for row in rows for value in numbers(row[9])]
    assert max(regret) <= 0.004
    assert sum(int(row[7]) for row in rows) == 1  # "one expert of all is redundant"


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.2])
@pytest.mark.parametrize(
    ("name", "n_experts"),
    [("specialization", 8), ("usage", 8), ("substitutes", 64), ("better routers", 8), ("pairs", 8)],
)
def test_levels(name, n_experts, correlation):
    found = level(name, n_experts, correlation, 400)["levels"]
    assert max(found.values()) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_levels_in_a_few_draws():
    torch.set_num_threads(1)
    assert max(level("specialization", 8, 0.2, 12)["levels"].values()) <= 0.35
