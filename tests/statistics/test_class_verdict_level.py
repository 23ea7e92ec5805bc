"""Level and power of "gating pays" for classes, and the coverage of the gain, over draws of designs."""

import numpy as np
import pytest

from benchmarks.class_designs import CLASS_NULLS, gate_class_design, nats
from benchmarks.class_verdict import fitted, fresh_gain, GAP
from benchmarks.verdict_designs import strength_for
from tests.statistics.bounds import least, most

pytestmark = pytest.mark.statistics
RUNS, POWER_RUNS = 12, 24


def says_gating_pays(design, n, seed):
    return fitted(design, n, np.random.default_rng([seed, n]), seed).verdict_.gates


def test_the_level_is_at_most_five_percent():
    found = [says_gating_pays(design, 100, seed) for design in CLASS_NULLS.values() for seed in range(RUNS)]
    assert sum(found) <= most(len(found), 0.05)


def test_a_gate_that_saves_a_twentieth_of_a_nat_is_found():
    design = gate_class_design(strength_for(GAP, nats))
    assert sum(says_gating_pays(design, 500, seed) for seed in range(POWER_RUNS)) >= least(POWER_RUNS, 0.8)


def test_the_interval_of_the_gain_covers_in_pure_noise():
    design, covered = CLASS_NULLS["noise"], 0
    for seed in range(POWER_RUNS):
        rng = np.random.default_rng([seed, 3])
        model = fitted(design, 300, rng, seed)
        gain = model.verdict_.gain
        covered += gain.low <= fresh_gain(model, *design.draw(5000, rng)) <= gain.high
    assert covered >= least(POWER_RUNS, 0.92)
