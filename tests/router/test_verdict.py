"""Does gating pay? The rule and its interval."""

import numpy as np
import pytest
from scipy import special
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import TimeSeriesSplit

from gatewise import MoERegressor, MoESettings
from gatewise.router.candidates import candidate_list
from gatewise.router.verdict import gain_interval, HeldOutLosses, reach_verdict, signal_p_value


class TestVerdict:
    CANDIDATES = candidate_list(["a", "b"], {"linear": [(1.0, None)]}, corrected=False)

    def reach(self, gate_share, signal, gain=0.1, n=400):
        rng = np.random.default_rng(0)
        stack = rng.chisquare(1, n)
        losses = HeldOutLosses(stack * (1 - gain), stack, 2 * stack, signal + rng.normal(size=(n, 3)), np.ones(n))
        shares = np.array([0.0, 0.0, 1.0 - gate_share, 0.0, gate_share])
        return reach_verdict(self.CANDIDATES, shares, 4 if gate_share > 0.5 else 2, "a", losses)

    def test_gating_pays_where_the_signal_is_beyond_chance_and_the_gain_is_positive(self):
        found = self.reach(0.8, 0.5)
        assert found.headline == "gating pays"
        assert found.gates
        assert str(found).startswith("gating pays (share 0.80), nearest to: linear gate")

    def test_a_gate_without_a_shown_gain_is_said_to_be_used(self):
        for found in (self.reach(0.3, 0.0), self.reach(0.3, 0.5, gain=-0.1)):
            assert found.headline == "a gate is used"
            assert "gain not shown (share 0.30)" in str(found)

    def test_without_a_share_there_is_no_gate_and_the_stack_is_held_against_the_best_expert(self):
        found = self.reach(0.0, 0.5)
        assert found.headline == "no gate"
        assert str(found) == (
            "no gate, nearest to: convex stack; gain over the best single expert, a +55.0 % "
            f"({100 * found.gain.low:+.1f} to {100 * found.gain.high:+.1f})"
        )

    def test_equal_losses_are_no_gain(self):
        same = (np.ones(10), np.ones(10), np.ones(10))
        assert gain_interval(*same) == (0.0, 0.0, 0.0)
        assert signal_p_value(np.zeros((10, 3))) == 1.0

    @pytest.mark.parametrize("weakest", range(3))
    def test_every_answer_must_be_beaten_by_more_than_independent_rows_ask(self, weakest):
        rng = np.random.default_rng(2)
        signal = rng.normal(1.0, 1.0, size=(100, 3))
        signal[:, weakest] -= 1.0
        p_values = [special.ndtr(-s.sum() / np.sqrt(2 * (s**2).sum())) for s in signal.T]
        assert sorted(p_values)[1] < 1e-3 < p_values[weakest]
        assert signal_p_value(signal) == pytest.approx(p_values[weakest])

    def test_the_gain_of_one_fit_is_less_certain_than_a_mean(self):
        rng = np.random.default_rng(1)
        ours, other = rng.chisquare(1, 400), rng.chisquare(1, 400)
        found = gain_interval(ours, other, np.ones(400))
        error = (other - ours).std(ddof=1) / np.sqrt(400)
        assert (found.value - found.low) * other.mean() == pytest.approx(1.5 * 1.96 * error, rel=1e-3)

    def test_and_less_certain_still_where_experts_were_fitted_on_folds(self):
        rng = np.random.default_rng(1)
        X, y = rng.normal(size=(90, 2)), rng.normal(size=90)
        experts, settings = [("mean", DummyRegressor()), ("line", LinearRegression())], MoESettings(learners=())
        folds = MoERegressor(experts, cv=3, settings=settings, random_state=0).fit(X, y)
        nested = MoERegressor(experts, settings=settings, random_state=0).fit(X, y)
        ready = [(name, expert.fit(X, y)) for name, expert in experts]
        given = MoERegressor(ready, cv="prefit", settings=settings, random_state=0).fit(X, y)
        in_time = MoERegressor(experts, cv=TimeSeriesSplit(3), settings=settings, random_state=0).fit(X, y)
        assert [model.verdict_.widened for model in (folds, nested, given, in_time)] == [1.8, 1.5, 1.5, 1.5]
        held = folds.out_of_fold_
        ours, stack = ((held.y - forecast) ** 2 for forecast in (held.forecasts, held.stack))
        assert folds.verdict_.gain == pytest.approx(gain_interval(ours, stack, np.ones(90), 1.8))
