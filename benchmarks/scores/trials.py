"""The trials: accuracy against rivals, pools, level and power of the verdict, promises, bandit feedback."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.scores.answers import Answers
from benchmarks.scores.rivals import best_per_category, RIVALS
from gatewise.arrays import Floats, Indices
from gatewise.scores import bandit
from gatewise.scores.cost_frontier import FrontierPoint, measure_frontier, price_for_budget, price_for_score
from gatewise.scores.prepared_folds import PreparedFolds
from gatewise.scores.price_weights import candidate_values, choices, votes
from gatewise.scores.queries import Queries, QueryReader
from gatewise.scores.route_fit import learn_router, LearnedRoutes
from gatewise.scores.route_test import routing_p_values
from gatewise.scores.tried_scores import score_table
from gatewise.stats import Interval

N_TRAIN = 6000
LESS = 0.01  # accuracy below the best single model at which costs are compared


def split(n: int, n_train: int, seed: int, n_test: int | None = None) -> tuple[Indices, Indices]:
    """Training and test rows."""
    order = np.random.default_rng(seed).permutation(n)
    return order[:n_train], order[n_train:] if n_test is None else order[n_train : n_train + n_test]


def fit_part(
    reader: QueryReader, queries: Queries, answers: Answers, rows: Indices, models: Indices
) -> LearnedRoutes:
    """The router of some rows and models, as `ScoreRouter.fit` learns it from features that are there."""
    own = queries[rows]
    folds = np.array_split(np.random.default_rng(0).permutation(len(rows)), 5)
    table = score_table(
        own.full, answers.right[np.ix_(rows, models)], answers.costs[np.ix_(rows, models)], None, folds
    )
    return learn_router(reader, own, table, folds, 0, None)


def accuracy_trial(reader: QueryReader, queries: Queries, answers: Answers, seed: int) -> dict[str, Any]:
    """One split with all models: which test questions every router gets right, and what its promises were worth."""
    train, test = split(len(queries), N_TRAIN, seed)
    right, new = answers.right, queries[test]
    found = fit_part(reader, queries, answers, train, np.arange(len(answers.names)))
    weights = found.routes.gate_weights(new, 0.0)
    marks = {"ScoreRouter": _marks(weights, right[test])}
    for name, rival in RIVALS.items():
        marks[name] = _marks(rival(queries[train], right[train], new), right[test])
    marks["perfect router"] = right[test].max(axis=1).astype(int).tolist()
    return {"test": test.tolist(), "marks": marks, **_cost_at_accuracy(found, new, answers, test)}


def _marks(forecasts: Floats, right: Floats) -> list[int]:
    """1 for every question whose chosen model was right, else 0."""
    return [int(mark) for mark in right[np.arange(len(right)), forecasts.argmax(axis=1)]]


def _cost_at_accuracy(found: LearnedRoutes, new: Queries, answers: Answers, test: Indices) -> dict[str, float]:
    """The cost on test questions, relative to the best single model, at its training accuracy less 0.01."""
    held_out, prices = found.routes.held_out, found.routes.weights.prices
    best = int(held_out.scores.mean(axis=0).argmax())
    place = price_for_score(held_out, float(held_out.scores[:, best].mean()) - LESS)
    decided = found.routes.gate_weights(new, float(prices[place])).argmax(axis=1)
    rows = np.arange(len(test))
    return {
        "relative_cost": float(answers.costs[test][rows, decided].mean() / answers.costs[test, best].mean()),
        "accuracy_at_cost": float(answers.right[test][rows, decided].mean()),
        "accuracy_of_single": float(answers.right[test, best].mean()),
    }


def named_pools(names: Sequence[str]) -> dict[str, list[int]]:
    """Twenty pools: without the strongest, small models only, families, and random sixes."""

    def of(test: Callable[[str], bool]) -> list[int]:
        return [m for m, name in enumerate(names) if test(name)]

    small = ("7B", "7b", "8B", "6B", "6b", "13b", "Phi")
    pools = {
        "without the strongest": of(lambda name: "gemini-1.5-pro" not in name),
        "without both gemini": of(lambda name: "gemini" not in name),
        "small models": of(lambda name: any(part in name for part in small) and "8x7B" not in name),
        "Llama": of(lambda name: "Llama" in name),
        "Llama 3": of(lambda name: "Llama-3" in name),
        "Mistral": of(lambda name: any(part in name for part in ("Mistral", "Mixtral", "mathstral"))),
        "Qwen and Yi": of(lambda name: "Qwen" in name or "Yi" in name),
        "chat and instruct": of(lambda name: any(part in name.lower() for part in ("chat", "instruct"))),
    }
    for draw in range(12):
        chosen = np.random.default_rng(1000 + draw).choice(len(names), 6, replace=False)
        pools[f"random six {draw + 1}"] = sorted(chosen.tolist())
    return pools


def pool_trial(
    reader: QueryReader, queries: Queries, answers: Answers, models: Sequence[int], seed: int
) -> dict[str, float]:
    """Accuracy of the router and of the best per category on one split with some models."""
    train, test = split(len(queries), N_TRAIN, seed)
    chosen = np.array(models)
    found = fit_part(reader, queries, answers, train, chosen)
    right, new = answers.right[np.ix_(test, chosen)], queries[test]
    base = best_per_category(queries[train], answers.right[np.ix_(train, chosen)], new)
    router = found.routes.gate_weights(new, 0.0)
    return {
        "router": float(np.mean(_marks(router, right))),
        "best per category": float(np.mean(_marks(base, right))),
        "best single": float(right[:, answers.right[np.ix_(train, chosen)].mean(axis=0).argmax()].mean()),
        "p_value": found.verdict.p_value,
    }


def level_trial(prepared: PreparedFolds, answers: Answers, chances: Floats, null: str, seed: int) -> dict[str, float]:
    """The p-values of the verdict's tests on a table in which nothing can be routed.

    The rows of answers and of their costs are permuted together against the questions; or answers are drawn with
    ``chances`` (n, M) whose logit is a_model + b_question, and only the rows of costs are permuted. The second table
    says nothing on the test for cost: on an easy question a cheap model is right as well, so there cost can be saved.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(answers.right))
    right = answers.right[order] if null == "permuted" else (rng.random(chances.shape) < chances).astype(np.float64)
    return routing_p_values(prepared, right, answers.costs[order], by_query=True)._asdict()


def power_trial(queries: Queries, answers: Answers, n: int, seed: int) -> dict[str, float]:
    """The p-values of the verdict's tests on n questions drawn at random."""
    rows = np.random.default_rng(seed).choice(len(queries), n, replace=False)
    prepared = PreparedFolds.prepare(queries[rows], np.array_split(np.arange(n), 5), 0)
    return routing_p_values(prepared, answers.right[rows], answers.costs[rows], by_query=True)._asdict()


def promise_trial(
    reader: QueryReader, queries: Queries, answers: Answers, n: int, seed: int
) -> dict[str, list[bool]]:
    """Whether the 90 % intervals of a router of n questions hold what it does on n fresh ones.

    At five prices, and at the price that is planned for half the cost of the best single model, and for its score
    less 0.01.
    """
    train, test = split(len(queries), n, seed, n)
    routes = fit_part(reader, queries, answers, train, np.arange(len(answers.names))).routes
    frontier = measure_frontier(routes.held_out, routes.weights.prices, routes.names, n_queries=len(test))
    base = float(answers.costs[test, routes.names.index(frontier.best_single)].mean())

    def found(point: FrontierPoint) -> tuple[float, float]:
        decided = routes.gate_weights(queries[test], point.price).argmax(axis=1)
        rows = np.arange(len(test))
        return float(answers.right[test][rows, decided].mean()), float(answers.costs[test][rows, decided].mean())

    kept: dict[str, list[bool]] = {"score": [], "cost": [], "saving": []}
    for point in frontier.points[0:20:4]:
        score, cost = found(point)
        kept["score"].append(_holds(point.score, score))
        kept["cost"].append(_holds(point.cost, cost))
        kept["saving"].append(_holds(point.saving, 1.0 - cost / base))
    half = frontier.points[price_for_budget(routes.held_out, 0.5 * frontier.single_cost.value)]
    kept["cost of a budget"] = [_holds(half.cost, found(half)[1])]
    near = frontier.points[price_for_score(routes.held_out, frontier.single_score.value - LESS)]
    score, cost = found(near)
    kept["score of a plan"] = [_holds(near.score, score)]
    kept["saving of a plan"] = [_holds(near.saving, 1.0 - cost / base)]
    return kept


def _holds(promised: Interval, value: float) -> bool:
    return bool(promised.low <= value <= promised.high)


def bandit_trial(
    reader: QueryReader, queries: Queries, answers: Answers, exploration: float, seed: int
) -> dict[str, float]:
    """Mean regret against the best candidate over 4,000 questions, one model asked for each, in batches of 50."""
    first, stream = split(len(queries), 400, seed, 4000)
    found = fit_part(reader, queries, answers, first, np.arange(len(answers.names)))
    routes, new, right = found.routes, queries[stream], answers.right[stream]
    picked = choices(routes.scores.forecasts(new), np.zeros(len(routes.names)), 0.0)
    forecasts, all_values = routes.expected_scores(new), candidate_values(picked, right)
    best = float(all_values.mean(axis=0).max())
    out = {}
    for name, near in (("near the border", True), ("uniform", False)):
        rng, gained = np.random.default_rng(seed), 0.0
        state = bandit.begin(np.ones(all_values.shape[1]), 0)
        for start in range(0, len(stream), 50):
            part = np.arange(start, start + 50)
            gate = votes(np.exp(state.log_weights), picked[:, part], len(routes.names))
            gate = bandit.break_ties(gate, forecasts[part])
            chances = bandit.exploration_chances(gate, exploration, near)
            asked = bandit.draw_models(chances, rng)
            scores = right[part, asked]
            gained += float(scores.sum())
            values = bandit.estimated_values(forecasts[part], asked, scores, chances[np.arange(50), asked])
            state = bandit.update_weights(state, candidate_values(picked[:, part], values))
        out[name] = best - gained / len(stream)
    return out
