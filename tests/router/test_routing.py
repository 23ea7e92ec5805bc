"""The parts of the practical router: inputs, features, gate paths, the list and its aggregation."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize
from scipy.special import softmax

import gatewise as gw
from gatewise.gates.columns import as_numbers, read_columns
from gatewise.gates.feature_maps import CLASSES
from gatewise.gates.inputs import GateInputs, Inputs
from gatewise.noise import Gaussian
from gatewise.router.candidates import candidate_list, FittedList, log_prior, reference
from gatewise.router.expert_regions import describe, region_table
from gatewise.router.intervals import disagreement, Spread
from gatewise.router.mixing import go_on, mix
from gatewise.router.verdict import gain_interval, HeldOutLosses, no_gain_p_value, reach_verdict
from gatewise.solvers.softmax_path import _Problem, gate_path

FRAME = {
    "size": [1.0, 2.0, None, 4.0, 5.0, 60.0],
    "kind": ["a", "b", "a", None, "c", "a"],
    "same": [1, 1, 1, 1, 1, 1],
    "flag": [True, False, True, True, False, False],
}


@pytest.fixture
def sample():
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(300, 2))
    F = np.column_stack([Z[:, 0], -Z[:, 1], np.ones(300)]) + 0.1 * rng.normal(size=(300, 3))
    y = np.where(Z[:, 0] > 0, F[:, 0], F[:, 1]) + 0.3 * rng.normal(size=300)
    return Inputs(Z, np.ones(300)), F, y


class TestInputs:
    def test_pandas_polars_and_arrays_of_objects_are_seen_alike(self):
        frames = [
            pd.DataFrame(FRAME),
            pl.DataFrame(FRAME, strict=False),
            np.array(list(FRAME.values()), dtype=object).T,
        ]
        seen = [GateInputs.fit(frame, 20, 0.25).transform(frame) for frame in frames]
        for other in seen[1:]:
            np.testing.assert_allclose(other.Z, seen[0].Z)
            np.testing.assert_allclose(other.inside, seen[0].inside)

    def test_a_constant_column_says_nothing_and_missing_values_are_marked(self):
        frame = pd.DataFrame(FRAME)
        assert read_columns(frame)[2] is None
        assert GateInputs.fit(frame, 20, 0.25).names == (
            "size", "size missing", "kind = (missing)", "kind = a", "kind = b", "kind = c", "flag",
        )  # fmt: skip

    def test_training_rows_are_inside_and_far_rows_are_not(self):
        rng = np.random.default_rng(0)
        X = rng.standard_t(2, size=(200, 3))
        inputs = GateInputs.fit(X, 20, 0.25)
        assert (inputs.transform(X).inside == 1.0).all()
        far = np.vstack([X[0] + 1e9, X[1] - 1e9])
        np.testing.assert_array_equal(inputs.transform(far).inside, 0.0)
        assert np.isfinite(inputs.transform(far).Z).all()

    @given(scale=st.floats(1e-6, 1e6), shift=st.floats(-1e3, 1e3))
    def test_units_do_not_matter(self, scale, shift):
        X = np.random.default_rng(1).normal(size=(50, 2))
        one, two = X, X * scale + shift * scale
        Z = [GateInputs.fit(A, 20, 0.25).transform(A).Z for A in (one, two)]
        np.testing.assert_allclose(Z[0], Z[1], atol=1e-6)

    def test_many_columns_become_principal_components_of_unit_variance(self):
        rng = np.random.default_rng(2)
        X = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 30))
        Z = GateInputs.fit(X, 5, 0.25).transform(X).Z
        assert Z.shape == (500, 5)
        np.testing.assert_allclose(np.cov(Z.T, bias=True), np.eye(5), atol=1e-8)

    def test_dates_count_days(self):
        days = as_numbers(np.array(["2020-01-01", "2020-01-02", "NaT"], dtype="datetime64[ns]"))
        assert days[1] - days[0] == 1.0
        assert np.isnan(days[2])

    def test_text_where_numbers_were_is_named(self):
        inputs = GateInputs.fit(pd.DataFrame({"age": [1.0, 2.0, 3.0]}), 5, 0.25)
        with pytest.raises(ValueError, match="'age' held numbers in fit"):
            inputs.transform(pd.DataFrame({"age": ["x", "y"]}))

    def test_no_column_that_says_anything_is_no_error(self):
        inputs = GateInputs.fit(np.ones((10, 2)), 5, 0.25).transform(np.ones((4, 2)))
        assert inputs.Z.shape == (4, 0)


class TestFeatures:
    @pytest.mark.parametrize("name", CLASSES)
    def test_features_are_bounded_and_vanish_far_away(self, name, sample):
        inputs, F, _ = sample
        seen = GateInputs.fit(inputs.Z, 20, 0.25)
        fitted = CLASSES[name].fit(seen.transform(inputs.Z), F, 0)
        near, far = seen.transform(1.2 * inputs.Z), seen.transform(1e9 * inputs.Z)
        assert near.inside.min() < 1.0
        assert np.abs(fitted.features(near, 100.0 * F)).max() <= 4.0
        assert not fitted.features(far, F).any()

    @pytest.mark.parametrize("name", CLASSES)
    def test_scores_have_about_the_spread_of_their_coefficients(self, name, sample):
        inputs, F, _ = sample
        features = CLASSES[name].fit(inputs, F, 0).features(inputs, F)
        theta = np.random.default_rng(0).normal(size=(features.shape[1], 2000))
        assert 0.4 < (features @ theta).std() < 2.0

    def test_a_forecast_gate_says_what_it_needs(self, sample):
        inputs, F, _ = sample
        with pytest.raises(ValueError, match="needs the experts' forecasts"):
            CLASSES["forecast"].fit(inputs, F, 0).features(inputs, None)


def objective(theta, features, F, y, base, spread, weight, linear, linear_spread):
    """The penalised least squares as the docstring states it, by loops."""
    M, p = F.shape[1], features.shape[1]
    coefficients, b = theta[: M * p].reshape(M, p), theta[M * p :]
    sigma2 = np.average((y - F @ base) ** 2, weights=weight)
    total = (theta[: M * p] ** 2).sum() / (2 * spread**2) + (b**2).sum() / (2 * linear_spread**2)
    for i in range(len(y)):
        g = softmax([np.log(base[m]) + features[i] @ coefficients[m] for m in range(M)])
        total += weight[i] * (y[i] - g @ F[i] - linear[i] @ b) ** 2 / (2 * sigma2)
    return total


class TestGatePath:
    @pytest.fixture
    def problem(self, sample):
        inputs, F, y = sample
        features = CLASSES["linear"].fit(inputs, F, 0).features(inputs, F)[:60]
        rng = np.random.default_rng(5)
        return features, F[:60], y[:60], np.array([0.5, 0.3, 0.2]), rng.uniform(0.5, 2, 60), rng.normal(size=(60, 2))

    def test_value_and_gradient_are_those_of_the_formula(self, problem):
        features, F, y, base, weight, linear = problem
        sigma2 = np.average((y - F @ base) ** 2, weights=weight)
        penalty = np.repeat([2.0**-2, 0.7**-2], [9, 2])
        ours = _Problem(features, F, linear, y, np.log(base), weight / sigma2, penalty)
        theta = np.random.default_rng(0).normal(size=11)
        naive = (features, F, y, base, 2.0, weight, linear, 0.7)
        assert ours.at(theta).value == pytest.approx(objective(theta, *naive))
        slope = approx_fprime(theta, lambda t: objective(t, *naive), 1e-7)
        np.testing.assert_allclose(ours.gradient(ours.at(theta), theta), slope, atol=1e-4)

    def test_the_curvature_is_the_hessian_where_residuals_vanish(self, problem):
        features, F, _, base, weight, linear = problem
        theta = 0.3 * np.random.default_rng(1).normal(size=11)
        g = softmax(np.log(base) + features @ theta[:9].reshape(3, 3).T, axis=1)
        y = (g * F).sum(axis=1) + linear @ theta[9:]
        ours = _Problem(features, F, linear, y, np.log(base), weight, np.full(11, 0.5))
        hessian = np.array(
            [approx_fprime(theta, lambda t, j=j: ours.gradient(ours.at(t), t)[j], 1e-6) for j in range(11)]
        )
        np.testing.assert_allclose(ours.curvature(ours.at(theta)), hessian, atol=1e-4)

    @pytest.mark.parametrize("spread", [0.3, 3.0])
    def test_the_path_reaches_what_another_solver_reaches(self, problem, spread):
        features, F, y, base, weight, linear = problem
        path = gate_path(features, F, y, base, [spread], linear=linear, linear_spread=0.7, sample_weight=weight)
        naive = (features, F, y, base, spread, weight, linear, 0.7)
        found = objective(np.concatenate([path.theta[0].ravel(), path.linear[0]]), *naive)
        slow = minimize(objective, np.zeros(11), args=naive, method="L-BFGS-B")
        assert found <= slow.fun + 1e-3

    def test_relabelling_experts_relabels_the_gate(self, problem):
        features, F, y, base, _, _ = problem
        order = [2, 0, 1]
        one = gate_path(features, F, y, base, [1.0]).theta[0]
        two = gate_path(features, F[:, order], y, base[order], [1.0]).theta[0]
        np.testing.assert_allclose(two, one[order], atol=1e-4)

    def test_units_of_the_response_do_not_matter(self, problem):
        features, F, y, base, _, _ = problem
        one, two = (gate_path(features, c * F, c * y, base, [0.3, 3.0]).theta for c in (1.0, 1e6))
        np.testing.assert_allclose(one, two, atol=1e-5)

    def test_a_reference_without_error_is_kept(self):
        F = np.random.default_rng(0).normal(size=(20, 2))
        path = gate_path(np.ones((20, 1)), F, F @ [0.5, 0.5], np.array([0.5, 0.5]), [1.0])
        assert not path.theta.any()


class TestList:
    @pytest.fixture
    def fitted(self, sample):
        inputs, F, y = sample
        maps = {name: kind.fit(inputs, F, 0) for name, kind in CLASSES.items()}
        candidates = candidate_list(["a", "b", "c"], tuple(CLASSES), (0.3, 3.0), (None, 1, 2), corrected=True)
        return FittedList.fit(candidates, maps, inputs, F, y, np.ones(len(y)))

    def test_every_gate_lies_on_the_simplex_with_its_k(self, fitted, sample):
        inputs, F, _ = sample
        for s, c in enumerate(fitted.candidates):
            weights = fitted.mean_weights(np.eye(len(fitted.candidates))[s], inputs, F)
            np.testing.assert_allclose(weights.sum(axis=1), 1.0)
            assert (weights >= 0.0).all()
            if c.k is not None:
                assert ((weights > 0).sum(axis=1) == c.k).all()

    def test_the_mean_gate_is_the_mean_of_the_gates(self, fitted, sample):
        inputs, F, _ = sample
        shares = np.random.default_rng(0).dirichlet(np.ones(len(fitted.candidates)))
        slow = sum(shares[s] * weights for s, weights in fitted._weights(inputs, F, shares))
        np.testing.assert_allclose(fitted.mean_weights(shares, inputs, F), slow, atol=1e-12)

    def test_forecasts_are_gate_times_experts_plus_what_is_always_on(self, fitted, sample):
        inputs, F, _ = sample
        forecasts = fitted.forecasts(inputs, F)
        for s in range(len(fitted.candidates)):
            share = np.eye(len(fitted.candidates))[s]
            whole = (fitted.mean_weights(share, inputs, F) * F).sum(axis=1) + fitted.corrections(share, F)
            np.testing.assert_allclose(forecasts[:, s], whole)

    def test_far_from_the_data_a_gate_is_the_stack_up_to_the_floor(self, fitted, sample):
        inputs, F, _ = sample
        far = Inputs(50.0 * inputs.Z, np.zeros(300))
        for s, c in enumerate(fitted.candidates):
            if c.kind == "gate" and c.k is None:
                weights = fitted.mean_weights(np.eye(len(fitted.candidates))[s], far, F)
                np.testing.assert_allclose(weights, np.tile(reference(fitted.stack), (300, 1)))

    def test_a_corrected_stack_is_at_least_as_good_on_its_rows(self, fitted, sample):
        inputs, F, y = sample
        errors = ((y[:, None] - fitted.forecasts(inputs, F)) ** 2).mean(axis=0)
        by_name = {str(c): error for c, error in zip(fitted.candidates, errors, strict=True)}
        assert by_name["convex stack, corrected by 3"] <= by_name["convex stack"]

    def test_the_prior_is_half_on_plain_answers(self, fitted):
        prior = np.exp(log_prior(fitted.candidates))
        plain = np.array([c.kind != "gate" for c in fitted.candidates])
        assert prior[plain].sum() == pytest.approx(0.5)
        assert prior.sum() == pytest.approx(1.0)


class TestMixing:
    @pytest.fixture
    def data(self):
        rng = np.random.default_rng(7)
        y = rng.normal(size=40)
        return y[:, None] + rng.normal(size=(40, 5)) * [0.5, 0.6, 1.0, 2.0, 0.55], y, rng.uniform(0.5, 2.0, 40)

    def test_it_is_after_averaged_over_time_and_orders(self, data):
        forecasts, y, weight = data
        prior = np.log([0.4, 0.3, 0.1, 0.1, 0.1])
        orders = [np.random.default_rng(j).permutation(40) for j in range(3)]
        found = mix(forecasts, y, prior, Gaussian(), weight, orders)
        sigma = np.sqrt((weight[:, None] * (y[:, None] - forecasts) ** 2).sum(axis=0) / weight.sum())
        np.testing.assert_allclose(found.sigma, sigma)
        shares, online = np.zeros(5), np.zeros(40)
        for order in orders:
            z = (y[order, None] - forecasts[order]) / sigma
            path = gw.after(weight[order, None] * (Gaussian().log_density(z) - np.log(sigma)), prior)
            shares += path[:-1].mean(axis=0) / 3
            online[order] += (path[:-1] * forecasts[order]).sum(axis=1) / 3
        np.testing.assert_allclose(found.shares, shares)
        np.testing.assert_allclose(found.online, online)

    def test_going_on_ends_where_all_rows_at_once_end(self, data):
        forecasts, y, weight = data
        prior = np.zeros(5)
        whole = mix(forecasts, y, prior, Gaussian(), weight, [np.arange(40)])
        first = mix(forecasts[:25], y[:25], prior, Gaussian(), weight[:25], [np.arange(25)])
        first = type(first)(first.shares, first.online, whole.sigma, first.log_weights, first.n_seen)
        z = (y[:25, None] - forecasts[:25]) / whole.sigma
        state = (weight[:25, None] * (Gaussian().log_density(z) - np.log(whole.sigma))).sum(axis=0)
        first = type(first)(first.shares, first.online, whole.sigma, state - state.max(), 25)
        later = go_on(first, forecasts[25:], y[25:], Gaussian(), weight[25:])
        np.testing.assert_allclose(later.log_weights, whole.log_weights, atol=1e-9)
        np.testing.assert_allclose(later.online, whole.online[25:])

    def test_blocks_of_rows_change_nothing(self, data, monkeypatch):
        forecasts, y, weight = data
        one = mix(forecasts, y, np.zeros(5), Gaussian(), weight, [np.arange(40)])
        monkeypatch.setattr("gatewise.aggregation.weights.BLOCK_NUMBERS", 35)
        two = mix(forecasts, y, np.zeros(5), Gaussian(), weight, [np.arange(40)])
        np.testing.assert_allclose(one.shares, two.shares)

    def test_a_perfect_forecast_takes_all(self):
        y = np.linspace(0, 1, 30)
        found = mix(np.column_stack([y, y + 1.0]), y, np.zeros(2), Gaussian(), np.ones(30), [np.arange(30)])
        assert found.shares[0] > 0.95


class TestVerdict:
    CANDIDATES = candidate_list(["a", "b"], ["linear"], [1.0], [None], corrected=False)

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


class TestSpread:
    def test_ninety_percent_of_the_rows_lie_within(self):
        rng = np.random.default_rng(0)
        apart = rng.chisquare(2, 4000)
        residuals = rng.standard_t(4, 4000) * np.sqrt(0.5 + 2.0 * apart)
        spread = Spread.fit(residuals, apart, np.ones(4000))
        assert np.mean(np.abs(residuals) <= 1.645 * spread.sd(apart)) == pytest.approx(0.9, abs=0.005)
        small, large = apart < 1.0, apart > 3.0
        for part in (small, large):  # also where experts agree, and where they do not
            share = np.mean(np.abs(residuals[part]) <= 1.645 * spread.sd(apart[part]))
            assert share == pytest.approx(0.9, abs=0.06)

    def test_disagreement_is_a_variance(self):
        assert disagreement(np.array([[0.5, 0.5]]), np.array([[0.0, 2.0]])) == pytest.approx([1.0])


class TestRegions:
    def test_words_name_the_region(self):
        rng = np.random.default_rng(0)
        columns = np.column_stack([rng.uniform(0, 10, 500), rng.integers(2, size=500)])
        leader = np.where((columns[:, 0] > 5) & (columns[:, 1] == 1), 1, 0)
        words, fidelity = describe(leader, columns, ["age", "town = Ulm"], 3)
        assert fidelity == 1.0
        assert words[1].startswith("town = Ulm and age > 5") or words[1].startswith("age > 5")
        assert words[2] == "leads nowhere"

    def test_the_table_counts_rows_and_compares_losses_there(self):
        weights = np.array([[0.9, 0.1]] * 30 + [[0.2, 0.8]] * 10)
        losses = np.where(weights > 0.5, 1.0, 3.0)
        table = region_table(["a", "b"], weights, losses, np.arange(40.0)[:, None], ["t"])
        assert [row.share for row in table] == [0.75, 0.25]
        assert [row.advantage.value for row in table] == [2.0, 2.0]
        assert [row.runner_up for row in table] == ["b", "a"]
        assert "t <= 29.5" in str(table)
