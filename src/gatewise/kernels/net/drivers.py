"""The operations of `alg:general` over all candidates, divided among threads.

Every function takes the tables of a product net or of a list of candidates. The number of threads changes no bit of
a result. No array of size S x n is made.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats, Integers
from gatewise.kernels.gating import add_linear_softmax, BATCH
from gatewise.kernels.net.mean_gate import mean_gate_units
from gatewise.kernels.net.mean_square import square_units
from gatewise.kernels.net.net_tables import count_candidates, count_rows, count_units
from gatewise.kernels.net.product_units import ProductTables
from gatewise.kernels.net.residual_rows import home_of
from gatewise.kernels.net.sweep import (
    FIRST,
    HEADROOM,
    Means,
    PROBE,
    SECOND,
    SweepSums,
    weight_units,
    WeightRule,
)
from gatewise.kernels.net.units import ALL, Tables
from gatewise.kernels.simd.lanes import WIDTH
from gatewise.kernels.simd.threads import cut, run
from gatewise.kernels.simd.tile import aligned, MEMBERS

NEGLIGIBLE = 30.0  # weights below exp(-NEGLIGIBLE) / S of the total are not summed
NONE, NO_ROWS = np.empty(0), np.empty((0, 0))
NO_SUMS = SweepSums(NONE, NO_ROWS, NO_ROWS)
PROBES = 8  # units that are looked at first, for a bound on the minimum or on log Z


class Sweep(NamedTuple):
    """The result of the first sweep over n observations and S candidates.

    residual (n,): y_t - (online prediction of y_t); top, log_mass (n + 1,): top + log_mass is the log of the sum of
    all weights before each observation and after the last one, and top is near it; log_weights (S,): normalised log
    weights after the last observation; until: see `weight_units`.
    """

    residual: Floats
    top: Floats
    log_mass: Floats
    log_weights: Floats
    until: Integers

    @property
    def log_z(self) -> Floats:
        """Log of the sum of all weights before each observation and after the last one, (n + 1,)."""
        return np.asarray(self.top + self.log_mass)


def weight_rule(
    n_candidates: int,
    sigma: Floats | float,
    log_prior: Floats | None,
    noise: int,
    df: float,
    margin: float | None = None,
    power: Floats | None = None,
) -> WeightRule:
    """A `WeightRule` from plain arguments: the scales, prior and noise density that turn residuals into weights.

    sigma (S,), or one number for all candidates; log_prior (S,), where -inf excludes a candidate, or None for a
    uniform prior; noise, df: a noise family of `loss_kinds` and the degrees of freedom of Student t; margin: a
    candidate is left out of a sum while its log weight is below the log of the sum of all weights by more than this;
    log S + NEGLIGIBLE if None; power (n,), each above 0 and at most 1, or None for 1: of the probabilities of the
    outcomes, where the noise is the log loss.
    """
    scales = np.ascontiguousarray(np.atleast_1d(sigma), dtype=np.float64)
    prior = np.empty(0) if log_prior is None else np.ascontiguousarray(log_prior, dtype=np.float64)
    size = math.log(n_candidates)
    return WeightRule(
        sigma=scales,
        log_prior=prior,
        flat_prior=-size,
        noise=noise,
        df=float(df),
        power=np.empty(0) if power is None else np.ascontiguousarray(power, dtype=np.float64),
        margin=size + NEGLIGIBLE if margin is None else margin,
    )


def mean_square(tables: Tables, n_threads: int = 1) -> Floats:
    """Mean squared residual of every candidate, (S,)."""
    n, out = count_rows(tables), np.empty(count_candidates(tables))

    def task(_: int, start: int, stop: int) -> None:
        square_units(tables, n, start, stop, math.inf, out, ALL, NO_ROWS)

    run(task, _pieces(tables), n_threads)
    return out


def least_square(tables: Tables, n_threads: int = 1) -> tuple[int, float]:
    """The candidate of smallest mean squared residual, and that mean.

    The sums of squares of candidates that can no longer win are not completed.
    """
    n, n_units = count_rows(tables), count_units(tables)
    probes = [n_units * i // PROBES for i in range(PROBES)]
    bound = min(square_units(tables, n, unit, unit + 1, math.inf, NONE, ALL, NO_ROWS)[0] for unit in probes)

    def task(_: int, start: int, stop: int) -> tuple[float, int]:
        found: tuple[float, int] = square_units(tables, n, start, stop, bound, NONE, ALL, NO_ROWS)
        return found

    total, winner = min(found for found in run(task, _pieces(tables), n_threads) if found[1] >= 0)
    return winner, total / n


def sweep(tables: Tables, rule: WeightRule, n_threads: int = 1) -> Sweep:
    """The first sweep: online residuals, sums of the weights, and final weights."""
    n, n_candidates = count_rows(tables), count_candidates(tables)
    pieces, until = _pieces(tables), np.zeros((count_units(tables), MEMBERS), dtype=np.int64)
    bounds = np.repeat(_lower_bound(tables, rule, until)[None], len(pieces), axis=0)  # every piece raises its own
    totals = np.empty((2, len(pieces), n + 1))
    log_weights = np.empty(n_candidates)

    def task(piece: int, start: int, stop: int) -> None:
        (both,) = aligned((2, n + 1, WIDTH))
        both[:] = 0.0
        mass, weighted = both
        sums = SweepSums(bounds[piece], mass, weighted)
        weight_units(FIRST, tables, _whole(start, stop), rule, sums, _no_means(n), until, log_weights)
        np.einsum("ati->at", both, out=totals[:, piece])

    run(task, pieces, n_threads)
    # Where every density is 0 in double precision the results are NaN, and the caller sees to it.
    with np.errstate(invalid="ignore", divide="ignore"):
        top = bounds.max(axis=0)
        mass, weighted = (np.exp(bounds - top) * totals).sum(axis=1)
        residual = weighted[:n] / mass[:n]
        log_mass = np.log(mass) + HEADROOM
        log_weights -= top[n]
        log_weights -= log_mass[n]
    return Sweep(residual, top, log_mass, log_weights, until)


def mean_weights(tables: Tables, rule: WeightRule, swept: Sweep, edges: Integers, n_threads: int = 1) -> Floats:
    """The second sweep: weights averaged over the times edges[j] <= t < edges[j + 1], (segments, S).

    0 = edges[0] < edges[1] < ... <= n; swept: the result of `sweep` for the same tables and the same rule. Where the
    rule has powers, a time counts by its power in the average.
    """
    out = np.empty((len(edges) - 1, count_candidates(tables)))
    inverse_mass = np.exp(-swept.log_mass)
    if rule.power.size:
        inverse_mass[: edges[-1]] *= _relative(rule.power[: edges[-1]], edges)
    means = Means(swept.top, inverse_mass, edges, out)

    def task(_: int, start: int, stop: int) -> None:
        weight_units(SECOND, tables, _whole(start, stop), rule, NO_SUMS, means, swept.until, NONE)

    run(task, _pieces(tables), n_threads)
    return out


def _relative(power: Floats, edges: Integers) -> Floats:
    """Each power divided by the mean of its segment edges[j] <= t < edges[j + 1]."""
    length = np.diff(edges)
    return np.asarray(power * np.repeat(length / np.add.reduceat(power, edges[:-1]), length))


def gate_mean(tables: Tables, weights: Floats, n_threads: int = 1) -> Floats:
    """sum_s weights[s] g(x_q; theta_s) at the rows of the tables, (Q, M); weights (S,)."""
    n_queries = count_rows(tables)
    if isinstance(tables, ProductTables):
        pieces = _pieces(tables)
        parts = np.zeros((len(pieces), n_queries, tables.n_experts))

        def task(piece: int, start: int, stop: int) -> None:
            mean_gate_units(tables, weights, start, stop, parts[piece])

        run(task, pieces, n_threads)
        return np.asarray(parts.sum(axis=0))
    theta, features, k = tables.theta, tables.features, tables.n_active
    total = np.zeros((n_queries, tables.n_experts))

    def batches(_: int, start: int, stop: int) -> None:
        part = slice(start * BATCH, stop * BATCH)
        add_linear_softmax(features[part], theta, k, weights, total[part])

    run(batches, cut(-(-n_queries // BATCH), n_queries * len(theta)), n_threads)
    return total


def _pieces(tables: Tables) -> list[tuple[int, int]]:
    """Ranges of units that threads take one after another."""
    return cut(count_units(tables), count_candidates(tables) * count_rows(tables))


def _lower_bound(tables: Tables, rule: WeightRule, until: Integers) -> Floats:
    """A lower bound of the log of the sum of all weights before each observation and after the last one, (n + 1,).

    It comes from promising candidates: the one of best scale and prior in each of a few stretches of the list. A poor
    bound costs only time, because the first sweep raises it.
    """
    n, n_candidates = count_rows(tables), count_candidates(tables)
    stretches = np.linspace(0, n_candidates, max(1, min(PROBES, count_units(tables) // MEMBERS)) + 1).astype(np.int64)
    best = [start + _best_in(rule, start, stop, n) for start, stop in pairwise(stretches.tolist())]
    homes = np.unique([home_of(tables, s) for s in best], axis=0).astype(np.int64)
    bound = np.full(n + 1, -np.inf)
    weight_units(PROBE, tables, homes, rule, NO_SUMS._replace(bound=bound), _no_means(n), until, NONE)
    return bound


def _whole(start: int, stop: int) -> Integers:
    """The units start to stop as homes, with all their members."""
    homes = np.full((stop - start, 2), ALL)
    homes[:, 0] = np.arange(start, stop)
    return homes


def _no_means(n: int) -> Means:
    """One segment of n observations, of which no means are taken."""
    return Means(NONE, NONE, np.array([0, n]), NO_SUMS.mass)


def _best_in(rule: WeightRule, start: int, stop: int, n: int) -> int:
    """argmax of log prior - n log sigma over the candidates start to stop, counted from start."""
    sigma, prior = rule.sigma[start:stop], rule.log_prior[start:stop]
    if rule.sigma.size == 1:
        return int(np.argmax(prior)) if prior.size else 0
    return int(np.argmax(prior - n * np.log(sigma))) if prior.size else int(np.argmin(sigma))
