"""Does gating pay? The rule and its interval."""

import numpy as np

from gatewise.router.candidates import candidate_list
from gatewise.router.verdict import gain_interval, HeldOutLosses, no_gain_p_value, reach_verdict


class TestVerdict:
    CANDIDATES = candidate_list(["a", "b"], {"linear": [None]}, [1.0], corrected=False)

    def reach(self, gate_weight, gain, n=400):
        rng = np.random.default_rng(0)
        stack = rng.chisquare(1, n)
        shares = np.array([0.1, 0.05, 0.85 - gate_weight, 0.0, gate_weight])
        return reach_verdict(self.CANDIDATES, shares, HeldOutLosses(stack * (1 - gain), stack, stack, np.ones(n), 5))

    def test_a_gate_needs_a_gain_beyond_chance(self):
        assert self.reach(0.8, 0.1).kind == "gate"
        assert self.reach(0.5, 0.0).kind == "stack"
        assert self.reach(0.5, -0.1).kind == "stack"
        assert "do not gate" in str(self.reach(0.5, -0.1))

    def test_the_interval_covers_the_gain_of_a_test_set(self):
        rng = np.random.default_rng(1)
        hits = 0
        for _ in range(400):
            stack = rng.chisquare(1, 300)
            own = stack * rng.uniform(0.7, 1.2, 300)
            gain = gain_interval(own[:200], stack[:200], np.ones(200), n_parts=200)
            hits += gain.low <= 1 - own[200:].mean() / stack[200:].mean() <= gain.high
        assert 0.92 <= hits / 400 <= 0.98

    def test_equal_losses_are_no_gain(self):
        same = (np.ones(10), np.ones(10), np.ones(10))
        assert gain_interval(*same, n_parts=5) == (0.0, 0.0, 0.0)
        assert no_gain_p_value(*same) == 1.0
