"""The operations of `alg:general` over all candidates: pieces of work handed to threads, their sums put together.

Every function takes the tables of a product net or of a list, and a number of threads that changes no bit of the
result. Nothing of size S x n is made.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats, Integers
from gatewise.kernels.gating import add_linear_softmax
from gatewise.kernels.gating import TILE as ROWS
from gatewise.kernels.net.mean_gate import mean_gate_units
from gatewise.kernels.net.mean_square import least_square_units, mean_square_units
from gatewise.kernels.net.net_tables import count_candidates, count_rows, count_units
from gatewise.kernels.net.product_units import ProductTables
from gatewise.kernels.net.residual_rows import home_of
from gatewise.kernels.net.sweep import mean_weights_units, reference_members, RISE, Setting, Sums, sweep_units
from gatewise.kernels.net.units import Tables
from gatewise.kernels.simd.lanes import WIDTH
from gatewise.kernels.simd.threads import cut, run
from gatewise.kernels.simd.tile import aligned, MEMBERS

SAFE = 30.0  # weights below exp(-SAFE) / S of the total are not summed


class Sweep(NamedTuple):
    """Result of the first sweep over n observations and S candidates.

    residual (n,): y_t - (online prediction of y_t); top + log_mass (n + 1,): log of the sum of all weights before
    each observation and after the last, top a lower bound near it; log_weights (S,): final, normalised; until: see
    `sweep_units`.
    """

    residual: Floats
    top: Floats
    log_mass: Floats
    log_weights: Floats
    until: Integers

    @property
    def log_z(self) -> Floats:
        """Log normalisers, (n + 1,)."""
        return np.asarray(self.top + self.log_mass)


def setting(
    n_candidates: int,
    sigma: Floats | float,
    log_prior: Floats | None,
    code: int,
    df: float,
    margin: float | None = None,
) -> Setting:
    """sigma (S,) or one number for all; log_prior (S,), -inf excludes, None is uniform; the noise's code and df.

    margin: log S + SAFE unless told.
    """
    scales = np.ascontiguousarray(np.atleast_1d(sigma), dtype=np.float64)
    prior = np.empty(0) if log_prior is None else np.ascontiguousarray(log_prior, dtype=np.float64)
    size = math.log(n_candidates)
    return Setting(scales, prior, -size, code, float(df), size + SAFE if margin is None else margin)


def mean_square(tables: Tables, n_threads: int = 1) -> Floats:
    """Mean squared residual of every candidate, (S,)."""
    n, out = count_rows(tables), np.empty(count_candidates(tables))

    def task(_: int, start: int, stop: int) -> None:
        mean_square_units(tables, n, start, stop, out)

    run(task, _pieces(tables), n_threads)
    return out


def least_square(tables: Tables, n_threads: int = 1) -> tuple[int, float]:
    """The candidate of smallest mean squared residual, and that mean; a candidate is left once it cannot win."""
    n, n_units = count_rows(tables), count_units(tables)
    probes = [n_units * i // PROBES for i in range(PROBES)]
    bound = min(least_square_units(tables, n, unit, unit + 1, math.inf)[0] for unit in probes)

    def task(_: int, start: int, stop: int) -> tuple[float, int]:
        found: tuple[float, int] = least_square_units(tables, n, start, stop, bound)
        return found

    total, winner = min(found for found in run(task, _pieces(tables), n_threads) if found[1] >= 0)
    return winner, total / n


def sweep(tables: Tables, weighing: Setting, n_threads: int = 1) -> Sweep:
    """Online residuals, normalisers and final weights."""
    n, n_candidates = count_rows(tables), count_candidates(tables)
    pieces = _pieces(tables)
    reference = np.repeat(_reference(tables, weighing)[None], len(pieces), axis=0)
    totals = np.empty((2, len(pieces), n + 1))
    log_weights = np.empty(n_candidates)
    until = np.zeros((count_units(tables), MEMBERS), dtype=np.int64)

    def task(piece: int, start: int, stop: int) -> None:
        (lanes,) = aligned((2, n + 1, WIDTH))
        lanes[:] = 0.0
        sweep_units(tables, start, stop, weighing, Sums(reference[piece], *lanes), log_weights, until)
        np.einsum("ati->at", lanes, out=totals[:, piece])

    run(task, pieces, n_threads)
    with np.errstate(invalid="ignore", divide="ignore"):  # every density 0 in double precision: NaN, for the caller
        top = reference.max(axis=0)
        mass, weighted = (np.exp(reference - top) * totals).sum(axis=1)
        residual = weighted[:n] / mass[:n]
        log_mass = np.log(mass) + RISE
        log_weights -= top[n]
        log_weights -= log_mass[n]
    return Sweep(residual, top, log_mass, log_weights, until)


def mean_weights(tables: Tables, weighing: Setting, swept: Sweep, edges: Integers, n_threads: int = 1) -> Floats:
    """Weights averaged over the times edges[j] <= t < edges[j + 1], 0 = edges[0] < ... <= n; (segments, S)."""
    out, share = np.empty((len(edges) - 1, count_candidates(tables))), np.exp(-swept.log_mass)

    def task(_: int, start: int, stop: int) -> None:
        mean_weights_units(tables, start, stop, weighing, swept.top, share, swept.until, edges, out)

    run(task, _pieces(tables), n_threads)
    return out


def gate_mean(tables: Tables, weights: Floats, n_threads: int = 1) -> Floats:
    """sum_s weights[s] g(x_q; theta_s) at the rows of the tables, (Q, M); weights (S,)."""
    n_queries = count_rows(tables)
    if isinstance(tables, ProductTables):
        pieces = _pieces(tables)
        parts = np.zeros((len(pieces), n_queries, int(tables.shape[2])))

        def task(piece: int, start: int, stop: int) -> None:
            mean_gate_units(tables, weights, start, stop, parts[piece])

        run(task, pieces, n_threads)
        return np.asarray(parts.sum(axis=0))
    theta, features, k = tables.theta, tables.features, int(tables.shape[1])
    total = np.zeros((n_queries, int(tables.shape[0])))

    def rows(_: int, start: int, stop: int) -> None:
        part = slice(start * ROWS, stop * ROWS)
        add_linear_softmax(features[part], theta, k, weights, total[part])

    run(rows, cut(-(-n_queries // ROWS), n_queries * len(theta)), n_threads)
    return total


PROBES = 8  # units looked at first, for a bound on the minimum or on log Z


def _pieces(tables: Tables) -> list[tuple[int, int]]:
    return cut(count_units(tables), count_candidates(tables) * count_rows(tables))


def _reference(tables: Tables, weighing: Setting) -> Floats:
    """A lower bound of log Z_t from the units of the best candidates, (n + 1,).

    Best by calibrated scale and prior, one in each of a few stripes of the list. A poor bound costs time only:
    `sweep_units` raises it.
    """
    n, n_candidates = count_rows(tables), count_candidates(tables)
    stripes = np.linspace(0, n_candidates, max(1, min(PROBES, count_units(tables) // MEMBERS)) + 1).astype(np.int64)
    best = [start + _best_in(weighing, start, stop, n) for start, stop in pairwise(stripes.tolist())]
    homes = np.unique([home_of(tables, s) for s in best], axis=0).astype(np.int64)
    reference = np.full(n + 1, -np.inf)
    reference_members(tables, homes, weighing, reference)
    return reference


def _best_in(weighing: Setting, start: int, stop: int, n: int) -> int:
    """argmax over start to stop of log prior - n log sigma."""
    sigma, prior = weighing.sigma[start:stop], weighing.log_prior[start:stop]
    if weighing.sigma.size == 1:
        return int(np.argmax(prior)) if prior.size else 0
    return int(np.argmax(prior - n * np.log(sigma))) if prior.size else int(np.argmin(sigma))
