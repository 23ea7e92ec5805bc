"""The test of specialization along the rounds of ``MoESettings(specialize=n)``."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import gatewise as gw


def stages(seed, n=300):
    """Three lines on one plane, which is right everywhere: nothing to specialize in."""
    rng = np.random.default_rng([7, seed])
    X = rng.uniform(-1, 1, (n, 2))
    y = X @ [2.0, -1.0] + 0.5 * rng.normal(size=n)
    settings = gw.MoESettings(specialize=2, learners=(), spreads=(1.0,), n_orders=2)
    model = gw.MoERegressor(
        [LinearRegression() for _ in range(3)], gates=["linear"], random_state=seed, settings=settings
    ).fit(X, y)
    return [len(stage.specialization.special) for stage in model.history_]


def test_a_refused_round_is_in_the_history():
    assert len(stages(0, n=120)) >= 2


@pytest.mark.slow
def test_no_specialist_is_found_on_one_plane():
    """At a level of 5 %, more than 6 alarms in 40 fits have a probability of 0.3 %."""
    found = [stages(seed) for seed in range(40)]
    assert sum(count[0] > 0 for count in found) == 0  # twins: all losses are equal
    assert sum(count[1] > 0 for count in found) <= 6
