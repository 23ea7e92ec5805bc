"""Which model for which query: `ScoreRouter`."""

from dataclasses import asdict
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gatewise.arrays import (
    as_between,
    as_count,
    as_finite,
    as_floats,
    as_non_negative,
    as_vector,
    Floats,
    Indices,
    refuse_lossy,
)
from gatewise.estimators.validation import all_or_nothing, refuse_huge
from gatewise.router.facts import plain_values
from gatewise.scores import bandit, cost_frontier, route_regions
from gatewise.scores.expected_scores import ExpectedScores, score_intervals
from gatewise.scores.price_weights import candidate_values, choices, votes
from gatewise.scores.queries import Choice, Queries, QueryReader
from gatewise.scores.route_fit import learn_router
from gatewise.scores.tried_scores import score_table

LEAST_QUERIES = 50


class RoutePlan(NamedTuple):
    """A price and what it promises on fresh queries, as a point of the frontier."""

    price: float
    point: cost_frontier.FrontierPoint


class ScoreRouter(BaseEstimator):  # type: ignore[misc]
    """Learns from queries, scores and costs which model to call, and whether that pays.

    The loss is linear in the gate: z = g(x) . (score - price cost). The candidates are every single model, the best
    per category, ridge and kernel regressions of centred scores, logistic models, a tree, extremely randomised and
    boosted trees, nearest neighbours, their mean and their stack, each as the gate that picks the best model by its
    forecasts; they are aggregated by exponential weights with a learned rate, on a grid of prices. Their regret is of
    order sqrt(log S / n), not log(S) / n as for a density.

    Parameters
    ----------
    text, categories
        Columns of X that hold text or categories, by name; "auto" decides by their values. Other columns of strings
        are categories, all others numbers (an array of embeddings is numbers).
    n_components
        Dimension of each text column after TF-IDF and a truncated singular value decomposition.
    cv
        Number of folds that are held out in turn.
    exploration
        Mean chance with which `explore` asks another model than the one it would decide on.
    n_jobs
        Threads of the fit.
    random_state
        Seed of folds, decompositions and trees.
    verbose
        1 shows the stages of the fit, 2 also the pieces of each.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> scores = np.c_[X[:, 0] > 0, X[:, 0] < 0] * 1.0
    >>> router = ScoreRouter(random_state=0).fit(X, scores)
    >>> router.verdict_.headline, router.decide([[1.0, 0.0], [-1.0, 0.0]]).tolist()
    ('route', ['model 0', 'model 1'])
    """

    reader_: QueryReader  # how a query is read, after a fit

    def __init__(
        self,
        text: Choice = "auto",
        categories: Choice = "auto",
        *,
        n_components: int = 60,
        cv: int = 5,
        exploration: float = 0.05,
        n_jobs: int | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.text = text
        self.categories = categories
        self.n_components = n_components
        self.cv = cv
        self.exploration = exploration
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, scores: Any, costs: Any = None, propensity: Any = None) -> Self:
        """Learn from queries X, scores (n, M) or (n, M, R), and costs (M,) or (n, M), all models equal unless given.

        NaN in scores (n, M) stands for a model that was not tried. ``propensity`` (M,) or (n, M) are the chances of
        being tried; without them `assumption_` says what is assumed. A data frame of scores names the models. X may
        be the `features` of this router, which are then not read again.
        """
        as_between(self.exploration, "exploration")
        as_count(self.n_components, "n_components")
        seed = 0 if self.random_state is None else as_count(self.random_state, "random_state", low=0)
        if (n := _n_rows(X)) < LEAST_QUERIES:
            raise ValueError(f"X must have at least {LEAST_QUERIES} queries, not {n}")
        _refuse_lossy(X, scores=scores, costs=costs, propensity=propensity)
        if isinstance(X, Queries):
            check_is_fitted(self, "reader_")
            reader, queries = self.reader_, X
        else:
            reader, queries = QueryReader.fit(X, self.text, self.categories, self.n_components, seed)
        n_folds = as_count(self.cv, "cv", low=2, high=n // 10)
        folds = np.array_split(np.random.default_rng(seed).permutation(n), n_folds)
        table = score_table(queries.full, scores, costs, propensity, folds)
        learned = learn_router(reader, queries, table, folds, seed, self.n_jobs)
        self.reader_, self.routes_ = reader, learned.routes
        self.models_ = np.array(table.names, dtype=object)
        self.assumption_ = table.assumption
        self.verdict_, self.routability_ = learned.verdict, learned.routability
        self.calibration_ = learned.calibration
        self.regions_, self.category_rows_ = learned.regions, learned.categories
        self.online_ = bandit.begin(learned.routes.weights.weights[0], n)
        self.n_features_in_ = len(reader.names)
        return self

    def features(self, X: Any) -> Queries:
        """What the router sees of X. All other methods take it in the place of X, and need not read X again."""
        check_is_fitted(self, "routes_")
        _refuse_lossy(X)
        return self.reader_.transform(X)

    def gate_weights(self, X: Any, price: float = 0.0) -> Floats:
        """Weights (n, M) of the models: of the candidates that pick each, with score less price times cost."""
        queries = self.features(X)
        return self.routes_.gate_weights(queries, as_non_negative(price, "price"))

    def decide(self, X: Any, price: float = 0.0, budget: float | None = None) -> NDArray[np.object_]:
        """The model (n,) to call for each query, at a price for cost, or under a mean cost of at most ``budget``."""
        check_is_fitted(self, "routes_")
        if budget is not None:
            if price:
                raise ValueError(f"give a price or a budget, not both: price={price:g} and budget={budget:g}")
            place = cost_frontier.price_for_budget(self.routes_.held_out, as_non_negative(budget, "budget"))
            price = float(self.routes_.weights.prices[place])
        return np.asarray(self.models_[self.gate_weights(X, price).argmax(axis=1)])

    def plan(
        self, budget: float | None = None, score: float | None = None, n_queries: int | None = None
    ) -> RoutePlan:
        """The price that keeps the mean cost within ``budget``, or costs least at a mean ``score``, and its promise.

        The price is found on held-out queries. The promise has 90 % intervals for mean score and cost over
        ``n_queries`` fresh queries, or in the long run.
        """
        check_is_fitted(self, "routes_")
        held_out = self.routes_.held_out
        if (budget is None) == (score is None):
            raise ValueError("plan needs either a budget or a score")
        if budget is not None:
            place = cost_frontier.price_for_budget(held_out, as_non_negative(budget, "budget"))
        else:
            place = cost_frontier.price_for_score(held_out, as_finite(score, "score"))
        point = self.frontier(n_queries).points[place]
        return RoutePlan(point.price, point)

    def frontier(self, n_queries: int | None = None) -> cost_frontier.Frontier:
        """Mean score against mean cost over all prices, from held-out decisions, with 90 % intervals and a band.

        They are for the means over ``n_queries`` fresh queries, or in the long run.
        """
        check_is_fitted(self, "routes_")
        routes = self.routes_
        if n_queries is not None:
            n_queries = as_count(n_queries, "n_queries")
        return cost_frontier.measure_frontier(routes.held_out, routes.weights.prices, routes.names, n_queries)

    def expected_scores(self, X: Any) -> ExpectedScores:
        """Forecast mean scores (n, M) of queries like these, with 90 % intervals."""
        queries = self.features(X)
        return score_intervals(self.routes_, queries, self.calibration_)

    def explain(self, X: Any, price: float = 0.0) -> dict[str, Any]:
        """The decision, its weight, the runner-up, and the lead in forecast score less price times cost, by query."""
        queries = self.features(X)
        weights = self.gate_weights(queries, price)
        order = np.argsort(-weights, axis=1, kind="stable")
        value = self.routes_.expected_scores(queries) - price * self.routes_.costs.forecast(queries)
        rows = np.arange(len(queries))
        first, second = order[:, 0], order[:, 1]
        return {
            "model": self.models_[first],
            "weight": weights[rows, first],
            "runner_up": self.models_[second],
            "runner_up_weight": weights[rows, second],
            "lead": value[rows, first] - value[rows, second],
        }

    def region_table(self) -> route_regions.RouteRegionTable:
        """Where the router decides for each model, from held-out decisions at price 0."""
        check_is_fitted(self, "routes_")
        return self.regions_

    def summary(self) -> str:
        """Text with the verdict, routability, the leading candidates and the regions."""
        check_is_fitted(self, "routes_")
        weights = self.routes_.weights.weights[0]
        leading = [f"  {weights[s]:.2f}  {self.routes_.candidates[s]}" for s in np.argsort(-weights)[:5]]
        needed = self.verdict_.queries_needed(len(self.routes_.held_out.scores))
        luck = [] if self.routability_ is None else [str(self.routability_)]
        assumed = [f"assumed: {self.assumption_}"] if self.assumption_ else []
        return "\n".join(
            [str(self.verdict_), needed, *luck, *assumed, "leading candidates:", *leading, "", str(self.regions_)]
        )

    def report(self) -> dict[str, Any]:
        """Verdict, routability, candidates, frontier, regions and categories as plain values, ready for JSON."""
        check_is_fitted(self, "routes_")
        weights = self.routes_.weights.weights[0]
        facts: dict[str, Any] = plain_values(
            {
                "models": list(self.models_),
                "verdict": asdict(self.verdict_),
                "routability": None if self.routability_ is None else asdict(self.routability_),
                "assumption": self.assumption_,
                "candidates": [
                    {"candidate": name, "weight": weight}
                    for name, weight in zip(self.routes_.candidates, weights, strict=True)
                ],
                "frontier": asdict(self.frontier()),
                "regions": [asdict(row) for row in self.regions_],
                "categories": [asdict(row) for row in self.category_rows_],
            }
        )
        return facts

    def explore(self, X: Any, random_state: Any = None) -> bandit.RouteDraw:
        """Models to ask with bandit feedback: mostly the decision, others near the border. Also their chances."""
        queries = self.features(X)
        gate = votes(np.exp(self.online_.log_weights), self._picked(queries), len(self.models_))
        gate = bandit.break_ties(gate, self.routes_.expected_scores(queries))
        chances = bandit.exploration_chances(gate, self.exploration)
        numbers = bandit.draw_models(chances, np.random.default_rng(random_state))
        return bandit.RouteDraw(self.models_[numbers], numbers, chances)

    @all_or_nothing
    def partial_fit(self, X: Any, models: ArrayLike, scores: ArrayLike, chances: ArrayLike) -> Self:
        """Learn from the scores (n,) of the models that were asked, by name or number (n,).

        ``chances`` are those of `explore`, (n, M), or of the models that were asked alone, (n,). The candidates stay
        as they were fitted; their weights at price 0 move. `explore` uses them at once.
        """
        queries = self.features(X)
        asked = _asked(models, self.models_, len(queries))
        chance = _chances(chances, asked, len(self.models_))
        seen = as_vector(scores, "scores", len(queries))
        if not len(queries):
            return self
        values = bandit.estimated_values(self.routes_.expected_scores(queries), asked, seen, chance)
        self.online_ = bandit.update_weights(self.online_, candidate_values(self._picked(queries), values))
        self.routes_ = self.routes_.reweighed(np.exp(self.online_.log_weights))
        return self

    def _picked(self, queries: Queries) -> Indices:
        forecasts = self.routes_.scores.forecasts(queries)
        return choices(forecasts, np.zeros(len(self.models_)), 0.0)


def _asked(models: ArrayLike, names: NDArray[np.object_], n: int) -> Indices:
    """The models that were asked, by number (n,)."""
    asked, numbers = np.asarray(models), {name: m for m, name in enumerate(names)}
    if asked.shape == (n,) and asked.dtype.kind not in "iu":
        asked = np.array([numbers.get(name, -1) for name in asked.tolist()], dtype=np.intp)
    if asked.shape != (n,) or not ((asked >= 0) & (asked < len(names))).all():
        raise ValueError(f"models must be {n} names of models, or their numbers from 0 to {len(names) - 1}")
    return asked.astype(np.intp)


def _chances(chances: ArrayLike, asked: Indices, n_models: int) -> Floats:
    """The chances (n,) of the models that were asked."""
    n, given = len(asked), as_floats(chances, "chances")
    own = given[np.arange(n), asked] if given.shape == (n, n_models) else given
    if own.shape != (n,) or not ((own > 0.0) & (own <= 1.0)).all():
        shape = f"({n}, {n_models}) or ({n},)"
        raise ValueError(f"chances must have shape {shape}, above 0 and at most 1 for the models that were asked")
    return np.asarray(own)


def _refuse_lossy(X: Any, **numbers: Any) -> None:
    """Raise an error where queries or numbers would be read as others unnoticed: complex, masked, huge, dates."""
    if not isinstance(X, Queries) and np.ndim(X) == 2:  # of any other shape the reader tells
        refuse_huge(X)
    if np.ma.is_masked(X):
        refuse_lossy(X, "X")
    for name, values in numbers.items():
        if hasattr(values, "dtype") or hasattr(values, "columns"):
            refuse_lossy(values, name)


def _n_rows(X: Any) -> int:
    try:
        return len(X)
    except TypeError:
        raise ValueError("X must be a table or an array of shape (n, d)") from None
