"""The findings about a classifier: gains with the verdict's intervals, and which expert is better for which class."""

import numpy as np
import pandas as pd
import pytest

from gatewise.app.models.class_method_scores import compare_classes
from gatewise.app.page.class_findings import class_regions
from gatewise.app.page.scored_classes import ScoredClasses
from gatewise.stats import mean_interval


def scored(experts, y):
    """Rows of classes y (n,) with the probabilities (n, M, C) of the experts."""
    n, M, C = experts.shape
    return ScoredClasses(
        X=pd.DataFrame({"x": np.zeros(n)}),
        y=y,
        experts=experts,
        weights=np.full((n, M), 1.0 / M),
        probabilities=experts.mean(axis=1),
        stack=experts.mean(axis=1),
        seen=np.ones(n, dtype=bool),
        place=np.arange(n),
        n_file=n,
        names=tuple("ab"),
        classes=tuple(f"class {c}" for c in range(C)),
    )


def random_experts(rng, y, C):
    P = rng.dirichlet(np.full(C, 5.0), (len(y), 2))
    return np.asarray(P)


def test_no_expert_is_shown_to_be_better_for_a_class_by_chance():
    """Two experts alike, 40 classes: without adjustment some class would show one of them in most of the draws."""
    any_shown, any_apart = 0, 0
    for seed in range(40):
        rng, y = np.random.default_rng(seed), np.repeat(np.arange(40), 25)
        found = class_regions(scored(random_experts(rng, y, 40), y))
        any_shown += any(row.shown for row in found)
        any_apart += any(row.advantage.low > 0.0 for row in found)
    assert any_apart > 20
    assert any_shown <= 6


def test_an_expert_that_is_better_for_a_class_is_shown():
    rng, y = np.random.default_rng(0), np.repeat(np.arange(10), 25)
    experts = random_experts(rng, y, 10)
    here = y == 3
    experts[here, 0] = 0.5 * experts[here, 0] + 0.5 * np.eye(10)[3]
    found = class_regions(scored(experts, y))
    assert [row.label for row in found if row.shown] == ["class 3"]
    assert found[3].expert == "a"


def test_a_class_of_one_row_shows_nothing():
    y = np.append(np.zeros(30, dtype=np.intp), 1)
    experts = random_experts(np.random.default_rng(0), y, 2)
    assert class_regions(scored(experts, y))[1].p_value == 1.0


@pytest.mark.parametrize("widened", [1.0, 1.8])
def test_intervals_of_gains_are_widened_as_in_the_verdict(widened):
    rng, y = np.random.default_rng(0), np.arange(50) % 2
    experts = random_experts(rng, y, 2)
    ours, stack = experts[:, 0], experts[:, 1]
    gain = compare_classes(y, ours, stack, experts, ["a", "b"], widened)[1].gain
    plain = mean_interval(np.log(ours[np.arange(50), y]) - np.log(stack[np.arange(50), y]))
    assert gain.value == pytest.approx(plain.value)
    assert gain.high - gain.low == pytest.approx(widened * (plain.high - plain.low))
