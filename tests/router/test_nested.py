"""Nested forecasts: a list that is judged on a fold has learned nothing of the responses of the fold."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

import gatewise as gw
from gatewise.aggregation import convex_stack
from gatewise.experts.pool import Pool
from gatewise.router import learning, training
from gatewise.router.settings import MoESettings

n = 90
EXPERTS = [("near", KNeighborsRegressor(3)), ("line", LinearRegression())]
TREES = [(f"depth {depth}", DecisionTreeRegressor(max_depth=depth, random_state=0)) for depth in (1, 3)]
SETTINGS = MoESettings(n_orders=2, spreads=(0.3, 1.0), test=False)


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] > 0, X[:, 1], -X[:, 1]) + 0.5 * rng.normal(size=n)


def five(X):
    return list(KFold(5, shuffle=True, random_state=0).split(X))


def mixed_up(y, rows):
    """The same responses, other places within these rows: ranges and means of y stay."""
    changed = y.copy()
    changed[rows] = y[np.roll(rows, 1)]
    return changed


class TestForecasts:
    def test_they_are_those_of_fits_without_both_folds(self, rows):
        X, y = rows
        splits = five(X)
        _, held = Pool(EXPERTS).fit_nested(X, y, splits)
        for g in range(5):
            for h in range(5):
                known = np.sort(np.concatenate([test for k, (_, test) in enumerate(splits) if k not in (g, h)]))
                here = held.fold == h
                for m, (_, expert) in enumerate(EXPERTS):
                    twin = clone(expert).fit(X[known], y[known]).predict(X[held.rows[here]])
                    np.testing.assert_allclose(held.nested[g, here, m], held.F[here, m] if g == h else twin)

    def test_the_rest_is_as_without_them(self, rows):
        X, y = rows
        models, held = Pool(EXPERTS).fit_nested(X, y, five(X))
        plain_models, plain = Pool(EXPERTS).fit(X, y, five(X))
        np.testing.assert_array_equal(held.F, plain.F)
        assert plain.nested is None
        for one, two in zip(models, plain_models, strict=True):
            np.testing.assert_array_equal(one.predict(X), two.predict(X))

    def test_an_error_says_which_fit_it_was(self, rows):
        X, y = rows

        class Fails(LinearRegression):
            def fit(self, X, y):
                if len(X) < 60:
                    raise ValueError("too few")
                return super().fit(X, y)

        with pytest.raises(ValueError, match="too few") as caught:
            Pool([("line", LinearRegression()), ("proud", Fails())]).fit_nested(X, y, five(X))
        assert "raised by the expert 'proud' (without two folds)" in caught.value.__notes__

    def test_groups_of_rows_are_not_divided(self, rows):
        X, y = rows
        groups = np.arange(n) // 6
        splits = list(GroupKFold(5).split(X, y, groups))
        seen = []

        class Noting(LinearRegression):
            def fit(self, X, y):
                seen.append(X)
                return super().fit(X, y)

        Pool([("line", Noting())]).fit_nested(X, y, splits)
        assert len(seen) == 16
        places = {row.tobytes(): i for i, row in enumerate(X)}
        for own in seen:
            inside = np.bincount(groups[[places[row.tobytes()] for row in own]], minlength=15)
            assert set(inside) <= {0, 6}


def lists_of(X, y, cv):
    """The list's forecasts of every fold, and the call that made them."""
    calls, fit_lists = [], learning.fit_lists

    def listening(*given):
        calls.append((given, fit_lists(*given)))
        return calls[-1][1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(learning, "fit_lists", listening)
        gw.MoERegressor(EXPERTS, cv=cv, random_state=0, settings=SETTINGS).fit(X, y)
    return calls[0]


def exact(candidate):
    """Whether no unit of a member comes from the forecasts of all rows."""
    return candidate.family in ("plain", "softmax") and candidate.name != "forecast"


class TestLists:
    def test_a_list_has_not_seen_the_responses_of_its_fold(self, rows):
        X, y = rows
        splits = five(X)
        changed = mixed_up(y, splits[2][1])
        (candidates, *_), before = lists_of(X, y, splits)
        _, after = lists_of(X, changed, splits)
        kept = np.array([exact(c) for c in candidates])
        assert 10 < kept.sum() < len(kept)
        np.testing.assert_array_equal(before[2][1][:, kept], after[2][1][:, kept])
        gaps = np.sqrt(np.mean((before[2][1] - after[2][1]) ** 2, axis=0)) / y.std()
        assert gaps.max() < 0.05  # means and widths of forecasts at all rows are the units of the others
        for other in (0, 1, 3, 4):
            assert np.abs(before[other][1] - after[other][1]).max() > 0.5

    def test_without_nesting_it_has(self, rows, monkeypatch):
        monkeypatch.setattr(training, "MOST_NESTED", 0)
        X, y = rows
        splits = five(X)
        (candidates, *_), before = lists_of(X, y, splits)
        _, after = lists_of(X, mixed_up(y, splits[2][1]), splits)
        kept = np.array([exact(c) for c in candidates])
        assert np.abs(before[2][1] - after[2][1])[:, kept].max() > 0.1

    def test_all_views_at_once_are_as_one_by_one(self, rows):
        X, y = rows
        (candidates, seen, loss, weight, splits, seed, purpose, _), found = lists_of(X, y, 5)
        assert (seen.n_views, len(splits)) == (6, 6)
        for view, ((known, out), (_, forecasts)) in enumerate(zip(splits, found, strict=True)):
            start = 0 if view == 5 else n * (1 + view)  # the last split is that of all rows, the first view
            alone = seen.part(np.arange(start, start + n))
            assert alone.n_views == 1
            here = loss.part(np.arange(start, start + n))
            one = learning.fit_lists(
                candidates, alone, here, weight[:n], [(known - start, out - start)], seed, purpose
            )
            gaps = np.abs(forecasts - one[0][1]) / y.std()
            near = 1e-4 if view < 5 else 0.01  # the last one starts where the others end, within their accuracy
            assert gaps[:, [exact(c) for c in candidates]].max() < near
            smooth = np.sqrt(np.mean(gaps**2, axis=0))[[c.name != "forest" for c in candidates]]
            assert (
                smooth.max() < 0.1
            )  # the units are those of the first view; a forest draws its columns by their order

    def test_the_gain_is_over_the_stack_of_ordinary_forecasts(self, rows):
        X, y = rows
        splits = five(X)
        held = gw.MoERegressor(EXPERTS, cv=splits, random_state=0, settings=SETTINGS).fit(X, y).out_of_fold_
        _, plain = Pool(EXPERTS).fit(X, y, splits)
        for k, (_, test) in enumerate(splits):
            others = plain.fold != k
            weights = convex_stack(plain.F[others], y[plain.rows[others]]).theta[:, 0]
            here = np.isin(held.rows, test)
            np.testing.assert_allclose(held.stack[here], held.F[here] @ weights, atol=1e-6)


class LearnsLate(LinearRegression):
    """A line that is useless if it has seen fewer than 60 rows."""

    def predict(self, X):
        return super().predict(X) if self.n_seen_ >= 60 else np.full(len(X), 100.0)

    def fit(self, X, y):
        self.n_seen_ = len(X)
        return super().fit(X, y)


class TestWhere:
    """Nested forecasts are told by the width of the gain's interval: 1.5 in the place of 1.8."""

    def widened(self, rows, experts=EXPERTS, **given):
        fitting = {name: given.pop(name) for name in ("sample_weight", "groups") if name in given}
        model = gw.MoERegressor(experts, random_state=0, **{"settings": SETTINGS, **given})
        return model.fit(*rows, **fitting).verdict_.widened

    @pytest.mark.parametrize("cv", [4, 5, 6, KFold(5), GroupKFold(5)], ids=str)
    def test_a_few_folds_that_hold_every_row_out_once(self, rows, cv):
        groups = {"groups": np.arange(n) // 3} if isinstance(cv, GroupKFold) else {}
        assert self.widened(rows, cv=cv, **groups) == 1.5

    @pytest.mark.parametrize("cv", [3, 7, RepeatedKFold(n_splits=5, n_repeats=2, random_state=0)], ids=str)
    def test_not_fewer_or_more_and_not_repeated_ones(self, rows, cv):
        assert self.widened(rows, cv=cv) == 1.8

    def test_not_where_splits_leave_rows_out(self, rows):
        blocks = np.array_split(np.arange(n), 6)
        circle = [(blocks[(k + 1) % 6], blocks[k]) for k in range(6)]
        order = np.random.default_rng(0).permutation(n)
        in_time = [(order[train], order[test]) for train, test in TimeSeriesSplit(5).split(order)]
        empty = [*five(rows[0]), (np.arange(n), np.arange(0))]
        some = five(rows[0])[:4]
        for cv in (circle, in_time, empty, some):
            assert self.widened(rows, cv=cv) == 1.8

    def test_not_where_two_folds_have_most_of_the_rows_or_weight(self, rows):
        fold = np.repeat(np.arange(5), [40, 30, 7, 7, 6])
        uneven = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
        assert self.widened(rows, cv=uneven) == 1.8
        weight = np.ones(n)
        for _, test in five(rows[0])[2:]:
            weight[test] = 0.0
        assert self.widened(rows, cv=five(rows[0]), sample_weight=weight) == 1.8

    def test_not_with_shared_experts_or_specialists(self, rows):
        assert self.widened(rows, shared=[("rest", LinearRegression())]) == 1.8
        assert self.widened(rows, settings=replace(SETTINGS, specialize=1), experts=TREES) == 1.8

    def test_not_where_an_expert_needs_more_rows_than_pairs_of_folds_leave(self, rows):
        late = [("near", KNeighborsRegressor(3)), ("late", LearnsLate())]
        X, y = rows
        assert self.widened((X, X[:, 0] + 0.1 * y), experts=late) == 1.8
        assert self.widened((X, X[:, 0] + 0.1 * y)) == 1.5

    def test_not_rows_in_time_and_not_very_few_or_many(self, rows, monkeypatch):
        X, y = rows
        fits, fit_nested = [], Pool.fit_nested
        monkeypatch.setattr(Pool, "fit_nested", lambda *given: fits.append(given) or fit_nested(*given))
        model = gw.MoERegressor(EXPERTS, random_state=0, settings=SETTINGS)
        clone(model).set_params(cv=TimeSeriesSplit(5)).fit(X, y)
        clone(model).fit(X[:39], y[:39])
        monkeypatch.setattr(training, "MOST_NESTED", n - 1)
        clone(model).fit(X, y)
        assert not fits
        monkeypatch.setattr(training, "MOST_NESTED", n)
        clone(model).fit(X, y)
        assert len(fits) == 1
