"""Where each expert leads, in numbers and in words."""

import numpy as np
import pytest

from gatewise.router.verdict import _joined, describe, MOST_DESCRIBED, region_table
from tests.statistics.bounds import most


def test_words_name_the_region():
    rng = np.random.default_rng(0)
    columns = np.column_stack([rng.uniform(0, 10, 500), rng.integers(2, size=500)])
    leader = np.where((columns[:, 0] > 5) & (columns[:, 1] == 1), 1, 0)
    words, fidelity = describe(leader, columns, ["age", "town = Ulm"], 3)
    assert fidelity == 1.0
    assert words[1].startswith("town = Ulm and age > 5") or words[1].startswith("age > 5")
    assert words[2] == "leads nowhere"


def test_ranges_that_touch_are_told_as_one():
    age = np.random.default_rng(0).uniform(15, 30, 900)
    leader = np.select([age <= 21.5, age <= 24.5, age <= 27], [0, 1, 1], 2)  # a tree needs two cuts within expert 1
    leader[:9] = 2
    words, fidelity = describe(leader, age[:, None], ["age"], 3)
    assert words[0].startswith("age <= 21")
    assert " or " not in " ".join(words)
    assert words[1].count("age") == 1
    assert fidelity > 0.95
    boxes = [(5, {0: (1.0, np.inf)}), (3, {0: (0.0, 1.0), 1: (2.0, 3.0)}), (2, {0: (0.0, 1.0), 1: (3.0, np.inf)})]
    joined = _joined(boxes)  # the last two become one box, which then differs from the first in two columns
    assert joined == [boxes[0], (5, {0: (0.0, 1.0), 1: (2.0, np.inf)})]
    assert _joined([*boxes, (4, {0: (0.0, 1.0), 1: (-np.inf, 2.0)})]) == [(14, {0: (0.0, np.inf)})]


def test_the_table_counts_rows_and_compares_losses_there():
    weights = np.array([[0.9, 0.1]] * 30 + [[0.2, 0.8]] * 10)
    losses = np.where(weights > 0.5, 1.0, 3.0)
    table = region_table(["a", "b"], weights, losses, np.arange(40.0)[:, None], ["t"], np.ones(40))
    assert [row.share for row in table] == [0.75, 0.25]
    assert [row.advantage.value for row in table] == pytest.approx([2.0, 2.0])
    assert [row.runner_up for row in table] == ["b", "a"]
    assert "t <= 29.5" in str(table)
    head, *lines, _ = str(table).splitlines()
    assert len({len(one[: head.index("region")].rstrip()) for one in lines}) == 1
    assert all(one[head.index("region") :] == row.description for one, row in zip(lines, table, strict=True))


def test_a_leader_that_loses_is_told():
    weights = np.array([[0.9, 0.1]] * 30 + [[0.2, 0.8]] * 30)
    losses = np.column_stack([np.linspace(2, 3, 60), np.linspace(0, 1, 60)])
    table = region_table(["a", "b"], weights, losses, np.arange(60.0)[:, None], ["t"], np.ones(60))
    assert [row.wins for row in table] == ["no", "yes"]
    assert "wins there" in str(table)


def test_of_many_columns_the_tree_sees_those_that_tell_leaders_apart():
    rng = np.random.default_rng(5)
    columns = rng.normal(size=(400, MOST_DESCRIBED + 60))
    leader = (columns[:, 230] > 0.3).astype(np.intp)
    names = [f"x{j}" for j in range(columns.shape[1])]
    words, fidelity = describe(leader, columns, names, 2)
    assert fidelity == 1.0
    assert [word.split()[0] for word in words] == ["x230", "x230"]
    np.testing.assert_array_equal(describe(leader, columns[:, 230:], names[230:], 2)[0], words)


def test_rows_count_by_their_weights():
    rng = np.random.default_rng(0)
    weights, losses = rng.dirichlet(np.ones(3), size=50), rng.chisquare(1, size=(50, 3))
    times, t = rng.integers(0, 4, size=50), np.arange(50.0)[:, None]
    weighed = region_table(list("abc"), weights, losses, t, ["t"], times * 2.0)
    copies = [np.repeat(values, times, axis=0) for values in (weights, losses, t)]
    repeated = region_table(list("abc"), *copies, ["t"], np.ones(times.sum()))
    for one, other in zip(weighed, repeated, strict=True):
        assert one.runner_up == other.runner_up
        numbers = [(row.share, row.mean_weight, row.loss.value, row.advantage.value) for row in (one, other)]
        np.testing.assert_allclose(*numbers)


def test_equal_experts_seldom_lose_where_they_lead():
    rng, regions, lost = np.random.default_rng(0), 0, 0
    for _ in range(30):
        weights, losses = rng.dirichlet(np.ones(20), size=400), rng.chisquare(1, size=(400, 20))
        table = region_table([str(m) for m in range(20)], weights, losses, np.zeros((400, 0)), [], np.ones(400))
        regions, lost = regions + len(table), lost + sum(row.wins == "no" for row in table)
    assert lost <= most(regions, 0.05)
