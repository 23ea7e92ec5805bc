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
from gatewise.scores.local_members import fit_category, fit_forest, fit_neighbours, fit_tree
from gatewise.scores.queries import Design, Queries
from gatewise.scores.ridge_members import fit_kernel, fit_linear
from gatewise.solvers.simplex_least_squares import convex_stack

NEIGHBOURS = 100
N_TREES = 40
LEAST_LEAF = 30
DEPTH = 4  # the depth of the single tree
STACK_CELLS = 200_000  # scores that the convex stack is fitted to, at most


class Member(Protocol):
    """A fitted score model."""

    def forecast(self, queries: Queries) -> Floats:
        """Forecasts (n, M) of centred scores."""
        ...


class MemberPlan(NamedTuple):
    """A member's name in words, and the function that fits it to queries and centred scores (n, M)."""

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


def linear_plans(queries: Queries, category_names: Sequence[str], seed: int) -> list[MemberPlan]:
    """The members that are linear in the scores they are fitted to, but for penalties: means, ridges and kernels."""
    plans = [MemberPlan(f"best per {category_names[j]}", partial(fit_category, column=j)) for j in usable(queries)]
    for design, words in designs(queries):
        plans.append(MemberPlan(f"ridge on {words}", partial(fit_linear, design=design)))
        plans.append(MemberPlan(f"kernel on {words}", partial(fit_kernel, design=design, seed=seed)))
    return plans


def local_plans(queries: Queries, seed: int) -> list[MemberPlan]:
    """The members that average over leaves of trees and over neighbours."""
    plans = [MemberPlan(f"{NEIGHBOURS} neighbours", partial(fit_neighbours, k=NEIGHBOURS))]
    plans.append(MemberPlan("extra trees", partial(fit_forest, n_trees=N_TREES, least_leaf=LEAST_LEAF, seed=seed)))
    if queries.plain.shape[1]:
        plans.append(MemberPlan("a tree", partial(fit_tree, depth=DEPTH, least_leaf=LEAST_LEAF, seed=seed)))
    return plans


def usable(queries: Queries) -> list[int]:
    """The categories with more than one level."""
    return [j for j, levels in enumerate(queries.n_levels) if levels > 1]


def designs(queries: Queries) -> list[tuple[Design, str]]:
    """The features that linear members use, in words: without text and with it, as far as there are any."""
    found: list[tuple[Design, str]] = [("plain", "columns")] if queries.plain.shape[1] else []
    return found + ([("full", "columns and text")] if queries.text.shape[1] else [])


def held_out_forecasts(
    plans: Sequence[MemberPlan], queries: Queries, centred: Floats, folds: Sequence[Indices], n_jobs: int | None
) -> Floats:
    """Forecasts (J, n, M) of every row by members that were fitted to the other folds."""

    def forecast(plan: MemberPlan, held_out: Indices) -> Floats:
        rest = np.setdiff1d(np.arange(len(centred)), held_out)
        return plan.fit(queries[rest], centred[rest]).forecast(queries[held_out])

    out = np.empty((len(plans), *centred.shape))
    tasks = [(j, held_out) for j in range(len(plans)) for held_out in folds]
    found = _in_threads([partial(forecast, plans[j], held_out) for j, held_out in tasks], n_jobs)
    for (j, held_out), values in zip(tasks, found, strict=True):
        out[j, held_out] = values
    return out


def fit_members(
    plans: Sequence[MemberPlan], queries: Queries, centred: Floats, n_jobs: int | None
) -> tuple[Member, ...]:
    """All members, fitted to all rows."""
    return tuple(_in_threads([partial(plan.fit, queries, centred) for plan in plans], n_jobs))


def _in_threads(calls: Sequence[Callable[[], Any]], n_jobs: int | None) -> list[Any]:
    """The results of calls that spend their time in compiled code, each with one thread for linear algebra."""
    with threadpool_limits(1, "blas"):  # the result must not depend on the number of threads
        return list(Parallel(n_jobs=n_jobs, prefer="threads")(delayed(call)() for call in calls))


def stack_weights(forecasts: Floats, centred: Floats, seed: int) -> Floats:
    """The convex combination (J,) of forecasts (J, n, M) with least squared error over all scores."""
    J = len(forecasts)
    n, M = centred.shape
    rows = np.arange(n)
    if n * M > STACK_CELLS:
        rows = np.sort(np.random.default_rng(seed).choice(n, STACK_CELLS // M, replace=False))
    cells = forecasts[:, rows].reshape(J, -1).T
    return np.asarray(convex_stack(cells, centred[rows].ravel()).theta[:, 0])


def with_blends(forecasts: Floats, stack: Floats) -> Floats:
    """Forecasts (J, n, M) followed by their mean and their stack, (J + 2, n, M)."""
    mean = forecasts.mean(axis=0)
    return np.concatenate([forecasts, mean[None], np.tensordot(stack, forecasts, axes=1)[None]])
