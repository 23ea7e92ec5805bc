"""Bayesian updating over time for every candidate, in log space; the two sweeps of `alg:general`.

The log weight of a candidate before observation t is its log prior plus the log densities of its residuals before t.
The first sweep sums the weights and the weighted residuals at every t, the second averages each weight over time.
Where the log weights of a whole tile lie below a lower bound of log Z_t by the margin, their exponentials are not
taken; the log weights are always updated, so a tile returns as soon as the data ask for it.
"""

import math

import numpy as np

from gatewise.kernels.compiled import compiled, compiled_leaf, compiled_sum
from gatewise.kernels.density import add_log_density, set_noise
from gatewise.kernels.exponential import exp_quick
from gatewise.kernels.tile import Floats, Integers, SPAN, TILE
from gatewise.kernels.units import locate, make_work, prepare, residuals, Tables

RISE = 8.0  # how far log weights may exceed the reference before it is raised


@compiled_sum
def _tally(log_weight: Floats, residual: Floats, row: int, ceiling: float) -> tuple[float, float, int]:
    """Sums of w and w r over the tile, w = exp(log_weight - ceiling), and how many log weights exceed the ceiling.

    The sums may be taken in any order, so they vectorise; it is the same order at every call.
    """
    mass, weighted, above = 0.0, 0.0, 0
    for i in range(TILE):
        x = log_weight[i] - ceiling
        w = exp_quick(x)
        mass += w
        weighted += w * residual[row, i]
        above += 1 if x > 0.0 else 0
    return mass, weighted, above


@compiled_leaf
def _count_above(log_weight: Floats, bar: float) -> int:
    above = 0
    for i in range(TILE):
        above += 1 if log_weight[i] > bar else 0
    return above


@compiled_leaf
def _largest(log_weight: Floats) -> float:
    top: float = log_weight[0]
    for i in range(1, TILE):
        top = max(top, log_weight[i])
    return top


@compiled_leaf
def _raise_reference(log_weight: Floats, t: int, totals: Floats) -> None:
    """Move the reference at t to the largest log weight of the tile and rescale the sums taken so far."""
    top = _largest(log_weight)
    factor = math.exp(totals[0, t] - top)
    totals[0, t] = top
    totals[1, t] *= factor
    totals[2, t] *= factor


@compiled_leaf
def _add_tile(log_weight: Floats, residual: Floats, row: int, t: int, totals: Floats) -> None:
    """Add the tile to the sums at t; a tile that rises above the reference first becomes the reference."""
    mass, weighted, above = _tally(log_weight, residual, row, totals[0, t] + RISE)
    if above > 0:
        _raise_reference(log_weight, t, totals)
        mass, weighted, above = _tally(log_weight, residual, row, totals[0, t] + RISE)
    totals[1, t] += mass
    totals[2, t] += weighted


@compiled
def _open_tile(
    first: int,
    count: int,
    sigma: Floats,
    log_prior: Floats,
    code: int,
    df: float,
    flat: float,
    log_weight: Floats,
    scale: Floats,
    offset: Floats,
) -> None:
    """Prior log weights and noise constants of a tile; lanes beyond count weigh nothing.

    sigma (S,) or (1,); log_prior (S,), or empty for the constant flat.
    """
    for i in range(TILE):
        log_weight[i], scale[i], offset[i] = -np.inf, 0.0, 0.0
    for i in range(count):
        log_weight[i] = log_prior[first + i] if log_prior.size > 0 else flat
        if i == 0 or sigma.size > 1:
            scale[i], offset[i] = set_noise(code, df, sigma[first + i if sigma.size > 1 else 0])
        else:
            scale[i], offset[i] = scale[0], offset[0]


@compiled
def sweep_units(
    tables: Tables,
    start: int,
    stop: int,
    sigma: Floats,
    log_prior: Floats,
    code: int,
    df: float,
    flat: float,
    margin: float,
    totals: Floats,
    log_weights: Floats,
    until: Integers,
) -> None:
    """Sums over the candidates of units start to stop before each observation, and their final log weights.

    totals (3, n + 1): reference r_t (given: a lower bound of log Z_t), sum of exp(log w - r_t - RISE), and the same
    times the residual; log_weights (S,); until (units,): the time from which on a unit's weights are negligible.
    """
    n = totals.shape[1] - 1
    work = make_work(tables)
    residual, log_weight = np.zeros((SPAN, TILE)), np.empty(TILE)
    scale, offset = np.empty(TILE), np.empty(TILE)
    for unit in range(start, stop):
        first, count = locate(tables, unit)
        if count == 0:
            continue
        prepare(tables, work, unit)
        _open_tile(first, count, sigma, log_prior, code, df, flat, log_weight, scale, offset)
        alive, last = _count_above(log_weight, totals[0, 0] - margin), 0
        for begin in range(0, n, SPAN):
            end = min(begin + SPAN, n)
            residuals(tables, work, begin, end, residual)
            for row in range(end - begin):
                t = begin + row
                if alive > 0:
                    _add_tile(log_weight, residual, row, t, totals)
                    last = t + 1
                bar = totals[0, t + 1] - margin
                alive = add_log_density(code, df, residual, row, scale, offset, bar, log_weight)
        if alive > 0:
            _add_tile(log_weight, residual, 0, n, totals)
        until[unit] = last
        for i in range(count):
            log_weights[first + i] = log_weight[i]


@compiled_leaf
def _add_weights(log_weight: Floats, top: float, log_mass: float, total: Floats) -> None:
    """total += weights; log Z comes in two parts, the first near the log weights, so that no digit is lost."""
    for i in range(TILE):
        x = (log_weight[i] - top) - log_mass
        total[i] += exp_quick(x if x < 0.0 else 0.0)


@compiled
def mean_weights_units(
    tables: Tables,
    start: int,
    stop: int,
    sigma: Floats,
    log_prior: Floats,
    code: int,
    df: float,
    flat: float,
    margin: float,
    top: Floats,
    log_mass: Floats,
    until: Integers,
    edges: Integers,
    out: Floats,
) -> None:
    """out[j, s] = mean over edges[j] <= t < edges[j + 1] of the weight of candidate s before observation t.

    top + log_mass (n + 1,): log Z, top a lower bound; until (units,) from `sweep_units`;
    edges (segments + 1,); out (segments, S).
    """
    work = make_work(tables)
    residual, log_weight, total = np.zeros((SPAN, TILE)), np.empty(TILE), np.empty(TILE)
    scale, offset = np.empty(TILE), np.empty(TILE)
    for unit in range(start, stop):
        first, count = locate(tables, unit)
        if count == 0:
            continue
        prepare(tables, work, unit)
        _open_tile(first, count, sigma, log_prior, code, df, flat, log_weight, scale, offset)
        alive = _count_above(log_weight, top[0] - margin)
        for j in range(edges.size - 1):
            total[:] = 0.0
            stop_t = min(edges[j + 1], until[unit])
            for begin in range(edges[j], stop_t, SPAN):
                end = min(begin + SPAN, stop_t)
                residuals(tables, work, begin, end, residual)
                for row in range(end - begin):
                    if alive > 0:
                        _add_weights(log_weight, top[begin + row], log_mass[begin + row], total)
                    bar = top[begin + row + 1] - margin
                    alive = add_log_density(code, df, residual, row, scale, offset, bar, log_weight)
            for i in range(count):
                out[j, first + i] = total[i] / (edges[j + 1] - edges[j])


@compiled
def reference_units(
    tables: Tables,
    units: Integers,
    sigma: Floats,
    log_prior: Floats,
    code: int,
    df: float,
    flat: float,
    reference: Floats,
) -> None:
    """reference[t] = largest log weight before observation t in the given units, or what it was if larger.

    A lower bound of log Z_t; reference (n + 1,).
    """
    n = reference.size - 1
    work = make_work(tables)
    residual, log_weight = np.zeros((SPAN, TILE)), np.empty(TILE)
    scale, offset = np.empty(TILE), np.empty(TILE)
    for unit in units:
        first, count = locate(tables, unit)
        prepare(tables, work, unit)
        _open_tile(first, count, sigma, log_prior, code, df, flat, log_weight, scale, offset)
        reference[0] = max(reference[0], _largest(log_weight))
        for begin in range(0, n, SPAN):
            end = min(begin + SPAN, n)
            residuals(tables, work, begin, end, residual)
            for row in range(end - begin):
                add_log_density(code, df, residual, row, scale, offset, 0.0, log_weight)
                reference[begin + row + 1] = max(reference[begin + row + 1], _largest(log_weight))
