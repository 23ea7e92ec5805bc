"""How rows are shared out."""

import numpy as np
import pytest

from gatewise.aggregation.blocks import Blocks
from gatewise.aggregation.l2_projection import L2Projection


@pytest.mark.parametrize(
    ("blocks", "ready", "cross_entropy", "expected"),
    [
        (Blocks(), True, False, (0, 50, 50, 0)),
        (Blocks(), False, False, (33, 33, 34, 0)),
        (Blocks(), True, True, (0, 37, 38, 25)),
        (Blocks(burn_in=1 / 3, calibration=1 / 3), True, False, (33, 33, 34, 0)),
        (Blocks(burn_in=10, calibration=20), True, False, (10, 20, 70, 0)),
        (Blocks(sigma=1.0), True, False, (0, 0, 100, 0)),
        (Blocks(sigma=1.0, calibration=0.5), True, False, (0, 50, 50, 0)),
        (Blocks(projection=40), True, True, (0, 30, 30, 40)),
    ],
)
def test_counts(blocks, ready, cross_entropy, expected):
    assert tuple(blocks.counts(100, ready, cross_entropy)) == expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Blocks().counts(3, True, False), "every block needs at least 2 rows"),
        (lambda: Blocks(calibration=1).counts(10, True, False), "every block needs at least 2 rows"),
        (lambda: Blocks(calibration=99).counts(100, True, False), "every block needs at least 2 rows"),
        (lambda: Blocks(calibration=0).counts(100, True, False), "calibration may be 0 only when sigma is given"),
        (lambda: Blocks(burn_in=0).counts(100, False, False), "burn_in may be 0 only when every expert is fitted"),
        (lambda: Blocks(projection=0).counts(100, True, True), "projection must not be 0"),
        (
            lambda: Blocks(calibration=1.5).counts(100, True, False),
            "calibration must be a fraction from 0 to below 1",
        ),
        (lambda: Blocks(burn_in=101).counts(100, True, False), "burn_in must be a whole number from 0 to 100"),
        (lambda: Blocks(sigma=0.0), "sigma must be a finite number above 0"),
        (lambda: Blocks(sigma_bounds=(2.0, 1.0)), "sigma_bounds must satisfy 0 < low <= high"),
        (lambda: Blocks(updates=0), "updates must be a whole number at least 1"),
        (lambda: Blocks(order="last"), "order must be 'random' or 'given', not 'last'"),
        (lambda: Blocks(order="given", n_orders=2), "n_orders must be 1 where order is 'given'"),
        (lambda: Blocks(n_orders=0), "n_orders must be a whole number at least 1"),
        (lambda: L2Projection(points=np.zeros((1, 1)), box=(0.0, 1.0)), "points or box, not both"),
        (lambda: L2Projection(box=(1.0, 0.0)).rule(np.zeros((1, 2))), "low below high"),
    ],
)
def test_bad_blocks_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_default_bounds_follow_the_response_and_survive_a_constant_one():
    low, high = Blocks().scale_bounds(np.array([0.0, 2.0]))
    assert (low, high) == (1e-3, 10.0)
    for constant in (0.0, 5.0, 1e9):
        low, high = Blocks().scale_bounds(np.full(5, constant))
        assert 0 < low < high
    assert Blocks(sigma_bounds=(1.0, 2.0)).scale_bounds(np.zeros(3)) == (1.0, 2.0)


@pytest.mark.parametrize(("d", "n_points"), [(1, 100), (2, 4096), (3, 4096), (5, 4096)])
def test_the_box_rule_integrates_over_the_box(d, n_points):
    low, high = np.full(d, -1.0), np.arange(1.0, d + 1.0)
    points, weights = L2Projection(box=(low, high), n_points=n_points).rule(np.zeros((1, d)))
    assert weights.sum() == pytest.approx(1.0)
    mean = weights @ np.prod(points, axis=1)
    tolerance = 1e-9 if d <= 3 else 0.02
    assert mean == pytest.approx(np.prod((low + high) / 2), abs=tolerance)


def test_the_measure_is_the_sample_or_given_points():
    X, points = np.ones((4, 2)), np.zeros((3, 2))
    assert L2Projection().rule(X)[0] is X
    chosen, weights = L2Projection(points=points).rule(X)
    assert chosen is points
    np.testing.assert_allclose(weights, 1 / 3)


def test_words_of_before_are_named():
    with pytest.raises(TypeError, match="update_every is now called updates"):
        Blocks(update_every=3)
    with pytest.raises(TypeError, match=r"n_snapshots is now called updates=Updates"):
        Blocks(n_snapshots=3)
