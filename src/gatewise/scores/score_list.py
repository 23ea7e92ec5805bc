"""The list: every score model that takes part, its forecasts on rows that it has not seen, and its fit to all rows.

A candidate is a gate that picks one model: the best by a member's forecast less price times forecast cost. Beside the
members there are every single model, the mean of all members, and the convex stack of their forecasts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from joblib import delayed, Parallel
from threadpoolctl import threadpool_limits

from gatewise.arrays import Floats, Indices
from gatewise.experts.pool import bounded_jobs
from gatewise.progress import each
from gatewise.scores.leaders import centre, leading_models
from gatewise.scores.leaf_members import fit_boosted, fit_forest, fit_tree
from gatewise.scores.local_members import fit_category, fit_neighbours
from gatewise.scores.logistic_members import fit_logistic_member
from gatewise.scores.queries import Design, Queries
from gatewise.scores.ridge_members import fit_kernel, fit_linear
from gatewise.solvers.simplex_least_squares import convex_stack

NEIGHBOURS = 100
N_TREES = 24  # of the extremely randomised ones
DEPTH = 3  # of the single tree and of the boosted ones
N_BOOSTED, STEP = 30, 0.1
STACK_CELLS = 200_000  # scores that the convex stack is fitted to, at most


class Member(Protocol):
    """A fitted score model."""

    def forecast(self, queries: Queries) -> Floats:
        """Forecasts (n, M) of centred scores."""
        ...


class MemberPlan(NamedTuple):
    """A member's name in words, and the function that fits it to queries and scores (n, M)."""

    name: str
    fit: Callable[[Queries, Floats], Member]


@dataclass(frozen=True, eq=False)
class FittedScores:
    """All members, fitted to all rows, and the weights (J,) of their convex stack."""

    names: tuple[str, ...]
    members: tuple[Member, ...]
    stack: Floats

    def forecasts(self, queries: Queries) -> Floats:
        """Forecasts (J + 2, n, M) of centred scores: of every member, of their mean, and of their stack."""
        return with_blends(np.stack([member.forecast(queries) for member in self.members]), self.stack)


def quick_plans(queries: Queries, category_names: Sequence[str], seed: int) -> list[MemberPlan]:
    """The members whose work on the queries can be done once for many scores (`prepared_folds`), in its order."""
    plans = [
        MemberPlan(f"best per {category_names[j]}", _on_centred(partial(fit_category, column=j)))
        for j in usable(queries)
    ]
    for design, words in designs(queries):
        ridge, kernel = partial(fit_linear, design=design), partial(fit_kernel, design=design, seed=seed)
        plans.append(MemberPlan(f"ridge on {words}", _on_centred(ridge)))
        plans.append(MemberPlan(f"kernel on {words}", _on_centred(kernel)))
        plans.append(MemberPlan(f"logistic on {words}", partial(fit_logistic_member, design=design)))
    return [*plans, MemberPlan(f"{NEIGHBOURS} neighbours", _on_centred(partial(fit_neighbours, k=NEIGHBOURS)))]


def tree_plans(seed: int) -> list[MemberPlan]:
    """One shallow tree, extremely randomised trees and boosted ones."""
    boosted = partial(fit_boosted, n_trees=N_BOOSTED, depth=DEPTH, shrinkage=STEP, seed=seed)
    return [
        MemberPlan("a tree", _on_centred(partial(fit_tree, depth=DEPTH, seed=seed))),
        MemberPlan("extra trees", _on_centred(partial(fit_forest, n_trees=N_TREES, seed=seed))),
        MemberPlan("boosted trees", _on_centred(boosted)),
    ]


def _on_centred(fit: Callable[[Queries, Floats], Member]) -> Callable[[Queries, Floats], Member]:
    """A fit to centred scores as one to scores."""
    return lambda queries, scores: fit(queries, centre(scores))


def usable(queries: Queries) -> list[int]:
    """The categories with more than one level."""
    return [j for j, levels in enumerate(queries.n_levels) if levels > 1]


def designs(queries: Queries) -> list[tuple[Design, str]]:
    """The features that linear members use, in words: without text and with it, as far as there are any."""
    found: list[tuple[Design, str]] = [("plain", "columns")] if queries.plain.shape[1] else []
    return found + ([("full", "columns and text")] if queries.text.shape[1] else [])


def held_out_forecasts(
    plans: Sequence[MemberPlan], queries: Queries, scores: Floats, folds: Sequence[Indices], n_jobs: int | None
) -> Floats:
    """Forecasts (J, n, M) of centred scores at every row by members that were fitted to the other folds."""

    def forecast(plan: MemberPlan, held_out: Indices) -> Floats:
        rest = np.setdiff1d(np.arange(len(scores)), held_out)
        return plan.fit(queries[rest], scores[rest]).forecast(queries[held_out])

    out = np.empty((len(plans), *scores.shape))
    tasks = [(j, held_out) for j in range(len(plans)) for held_out in folds]
    found = in_threads([partial(forecast, plans[j], held_out) for j, held_out in tasks], n_jobs)
    for (j, held_out), values in zip(tasks, found, strict=True):
        out[j, held_out] = values
    return out


def fit_members(
    plans: Sequence[MemberPlan], queries: Queries, scores: Floats, n_jobs: int | None
) -> tuple[Member, ...]:
    """All members, fitted to all rows."""
    return tuple(in_threads([partial(plan.fit, queries, scores) for plan in plans], n_jobs))


def in_threads(calls: Sequence[Callable[[], Any]], n_jobs: int | None) -> list[Any]:
    """The results of calls that spend their time in compiled code, each with one thread for linear algebra."""
    with threadpool_limits(1, "blas"):  # the result must not depend on the number of threads
        pool = Parallel(n_jobs=bounded_jobs(n_jobs), prefer="threads", return_as="generator")
        return list(each(pool(delayed(call)() for call in calls), len(calls)))


def stack_weights(forecasts: Floats, scores: Floats) -> Floats:
    """The convex combination (J,) of forecasts (J, n, M) that best tells the leading models from one another.

    It has the least squared error of their scores, centred among them, on at most STACK_CELLS of these.
    """
    leaders = leading_models(scores)
    rows = np.arange(len(scores))
    if len(rows) * len(leaders) > STACK_CELLS:
        rows = np.sort(np.random.default_rng(0).choice(len(rows), STACK_CELLS // len(leaders), replace=False))
    own = forecasts[:, rows][:, :, leaders]
    cells = (own - own.mean(axis=2, keepdims=True)).reshape(len(forecasts), -1).T
    return np.asarray(convex_stack(cells, centre(scores[np.ix_(rows, leaders)]).ravel()).theta[:, 0])


def with_blends(forecasts: Floats, stack: Floats) -> Floats:
    """Forecasts (J, n, M) followed by their mean and their stack, (J + 2, n, M)."""
    mean = forecasts.mean(axis=0)
    return np.concatenate([forecasts, mean[None], np.tensordot(stack, forecasts, axes=1)[None]])
