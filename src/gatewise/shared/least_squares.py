"""Least squares over shared plus regional columns: rank-revealing, by QR, never by normal equations.

What both shared and routed columns can express, above all the intercept, goes to the routed component: the
shared coefficients come from the shared columns projected off the routed ones (Frisch and Waugh), and a shared column
with nothing left gets the coefficient 0.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import qr, solve_triangular

from gatewise.arrays import Floats, Indices

RANK_TOLERANCE = 1e-10


class Factor(NamedTuple):
    """A rank-revealing factorization A[:, kept] / scale[kept] = q r, of columns that are linearly independent."""

    q: Floats  # (n, r)
    r: Floats  # (r, r)
    kept: Indices  # (r,)
    scale: Floats  # (p,)

    def solve(self, y: Floats) -> Floats:
        """The least-squares coefficients, (p,); columns that were not kept get 0."""
        coefficients = np.zeros(len(self.scale))
        coefficients[self.kept] = solve_triangular(self.r, self.q.T @ y) / self.scale[self.kept]
        return coefficients

    def residual(self, A: Floats) -> Floats:
        """The part of A (n, p) orthogonal to the kept columns; projected twice, as one projection leaves rounding."""
        once = A - self.q @ (self.q.T @ A)
        twice: Floats = once - self.q @ (self.q.T @ once)
        return twice


def factorize(A: Floats, scale: Floats | None = None) -> Factor:
    """QR with column pivoting of A (n, p), where columns that are linear combinations of others are not kept.

    A column is not kept if less than 1e-10 of its ``scale`` (its length unless given) is orthogonal to those kept.

    >>> len(factorize(np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])).kept)
    1
    """
    norms = np.linalg.norm(A, axis=0) if scale is None else scale
    scale = np.where(norms > 0, norms, 1.0)
    if A.shape[1] == 0:
        return Factor(np.zeros((len(A), 0)), np.zeros((0, 0)), np.zeros(0, dtype=np.intp), scale)
    parts: Any = qr(A / scale, mode="economic", pivoting=True, check_finite=False)
    q, r, order = parts
    rank = int((np.abs(np.diag(r)) > RANK_TOLERANCE).sum())
    return Factor(q[:, :rank], r[:rank, :rank], order[:rank].astype(np.intp), scale)


class AdditiveProblem(NamedTuple):
    """y on shared columns S (n, p_S) and, over ``rows[j]`` only, on the columns routed[j] (n_j, p_j)."""

    shared: Floats
    routed: tuple[Floats, ...]
    rows: tuple[Indices, ...]
    y: Floats


class AdditiveFit(NamedTuple):
    """The coefficients of f_S + sum_j 1{x in region j} f_j, and how well they fit."""

    shared: Floats  # (p_S,)
    routed: tuple[Floats, ...]  # (p_j,) each
    rss: float
    df: float  # the trace of the hat matrix; without ridge, the rank
    dropped: tuple[int, ...]  # shared columns that are combinations of routed ones: their coefficient is 0


def joint_fit(problem: AdditiveProblem, ridge: tuple[float, float] = (0.0, 0.0)) -> AdditiveFit:
    """Shared coefficients b and the coefficients a_j of every region in one least-squares fit.

    min ||y - S b - sum_j 1_j R_j a_j||^2 + n ridge[0] ||b||^2 + n ridge[1] sum_j ||a_j||^2, where the coefficients of
    constant columns are not penalised (`prop:supp-joint-shared-upper`). A shared column that is a combination of
    routed ones gets the coefficient 0 and is listed in ``dropped``: in the example, the shared column of ones.

    >>> x = np.arange(6.0)
    >>> rows = (np.arange(3), np.arange(3, 6))
    >>> ones = (np.ones((3, 1)), np.ones((3, 1)))
    >>> fit = joint_fit(AdditiveProblem(np.column_stack([x, np.ones(6)]), ones, rows, 2 * x + 5 * (x > 2)))
    >>> fit.shared.round(9) + 0.0, [a.round(9).tolist() for a in fit.routed], fit.dropped
    (array([2., 0.]), [[0.0], [5.0]], (1,))
    """
    n = len(problem.y)
    penal = penalized(problem, ridge)
    factors = [factorize(R) for R in penal.routed]
    apart = factorize(off_routed(penal.shared, factors, penal.rows), np.linalg.norm(penal.shared, axis=0))
    shared = apart.solve(off_routed(penal.y[:, None], factors, penal.rows)[:, 0])
    rest = penal.y - penal.shared @ shared
    routed = tuple(f.solve(rest[rows]) for f, rows in zip(factors, penal.rows, strict=True))
    leverage = [(f.q[rows < n] ** 2).sum() for f, rows in zip(factors, penal.rows, strict=True)]
    df = float((apart.q[:n] ** 2).sum() + sum(leverage))
    return AdditiveFit(shared, routed, rss_of(problem, shared, routed), df, _left_out(apart))


def two_stage_fit(problem: AdditiveProblem, ridge: tuple[float, float] = (0.0, 0.0)) -> AdditiveFit:
    """First the shared component on shared columns residualized on the routed ones, then the residuals.

    b from y on (I - P_R) S, then a_j from y - S b in region j. Without ridge this is the joint solution.
    """
    penal = penalized(problem, ridge)
    factors = [factorize(R) for R in penal.routed]
    apart = factorize(off_routed(penal.shared, factors, penal.rows), np.linalg.norm(penal.shared, axis=0))
    return _second_stage(problem, penal, apart)


def plain_two_stage_fit(problem: AdditiveProblem, ridge: tuple[float, float] = (0.0, 0.0)) -> AdditiveFit:
    """First y on the shared columns alone, then the residuals: biased where regional parts project on S.

    The limit of b is b_0 + (S'S)^-1 S' sum_j 1_j R_j a_j, so f_S is recovered only if S is orthogonal to the routed
    part of the truth (the paper's remark after `eq:shared_upper`).
    """
    penal = penalized(problem, ridge)
    return _second_stage(problem, penal, factorize(penal.shared))


def pure_fit(problem: AdditiveProblem, ridge: tuple[float, float] = (0.0, 0.0)) -> AdditiveFit:
    """The pure-routed counterpart: the same regional columns, no shared component; its coefficients are 0."""
    fit = joint_fit(problem._replace(shared=problem.shared[:, :0]), ridge)
    return fit._replace(shared=np.zeros(problem.shared.shape[1]))


FITS = {"joint": joint_fit, "two-stage": two_stage_fit, "two-stage-plain": plain_two_stage_fit, "pure": pure_fit}


def off_routed(A: Floats, factors: Sequence[Factor], rows: Sequence[Indices]) -> Floats:
    """The part of A (n, p) that is orthogonal to the routed columns, region by region."""
    rest = A.copy()
    for factor, index in zip(factors, rows, strict=True):
        rest[index] = factor.residual(A[index])
    return rest


def penalized(problem: AdditiveProblem, ridge: tuple[float, float]) -> AdditiveProblem:
    """The problem with the ridge penalties as further rows: sqrt(n ridge) times the identity, with response 0.

    The coefficients of constant columns are not penalised.
    """
    if ridge == (0.0, 0.0):
        return problem
    n, (low_s, low_r) = len(problem.y), ridge
    p_s = problem.shared.shape[1]
    shared, routed, rows = [problem.shared, _penalty(problem.shared, n * low_s)], [], []
    start = n + p_s
    for R, index in zip(problem.routed, problem.rows, strict=True):
        routed.append(np.vstack([R, _penalty(R, n * low_r)]))
        rows.append(np.concatenate([index, np.arange(start, start + R.shape[1])]))
        shared.append(np.zeros((R.shape[1], p_s)))
        start += R.shape[1]
    y = np.concatenate([problem.y, np.zeros(start - n)])
    return AdditiveProblem(np.vstack(shared), tuple(routed), tuple(rows), y)


def rss_of(problem: AdditiveProblem, shared: Floats, routed: Sequence[Floats]) -> float:
    """The residual sum of squares at given coefficients."""
    rest = problem.y - problem.shared @ shared
    for R, index, a in zip(problem.routed, problem.rows, routed, strict=True):
        rest[index] -= R @ a
    return float(rest @ rest)


def _second_stage(problem: AdditiveProblem, penal: AdditiveProblem, first: Factor) -> AdditiveFit:
    n = len(problem.y)
    shared = first.solve(penal.y)
    rest = penal.y - penal.shared @ shared
    factors = [factorize(R) for R in penal.routed]
    routed = tuple(f.solve(rest[rows]) for f, rows in zip(factors, penal.rows, strict=True))
    # Both stages' columns together span no more than this; criteria that count parameters read it.
    df = float((first.q[:n] ** 2).sum()) + sum(
        float((f.q[rows < n] ** 2).sum()) for f, rows in zip(factors, penal.rows, strict=True)
    )
    return AdditiveFit(shared, routed, rss_of(problem, shared, routed), df, _left_out(first))


def _left_out(factor: Factor) -> tuple[int, ...]:
    return tuple(sorted(set(range(len(factor.scale))) - set(factor.kept.tolist())))


def _penalty(A: Floats, strength: float) -> Floats:
    free = np.ptp(A, axis=0) == 0 if len(A) else np.zeros(A.shape[1], dtype=bool)
    return np.diag(np.where(free, 0.0, np.sqrt(strength)))
