"""Bayesian updating over time for every candidate, in log space; the two sweeps of `alg:general`.

The log weight of a candidate before observation t is its log prior plus the log densities of its residuals before t.
The first sweep sums the weights and the weighted residuals at every t, the second averages each weight over time.
Where the log weights of a whole strip are sure to lie below a lower bound of log Z_t by the margin, at a few
observations in a row, the strip is quiet: its exponentials are not taken. Its log weights are still updated, so it
wakes as soon as the data ask for it.
"""

import math
from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats, Integers
from gatewise.kernels.compiled import compiled, compiled_leaf
from gatewise.kernels.loss_kinds import standard_noise
from gatewise.kernels.net.density import add_log_density, set_noise
from gatewise.kernels.net.units import locate, make_work, prepare, residuals, Tables
from gatewise.kernels.simd.elementary import exp_lanes
from gatewise.kernels.simd.lanes import any_above, Lanes, larger, largest, load, store, WIDTH
from gatewise.kernels.simd.tile import aligned_rows, load_strip, MEMBERS, SPAN, store_strip, STRIP, Strip, TILE

RISE = 8.0  # how far log weights may exceed the reference before it is raised
LOOK = 8  # observations for which a strip is quiet, or is not


class Setting(NamedTuple):
    """What turns residuals into weights: scales sigma (S,) or (1,); log_prior (S,), or empty for the constant flat;
    the noise's code and df; how far below log Z a weight is not summed."""

    sigma: Floats
    log_prior: Floats
    flat: float
    code: int
    df: float
    margin: float


class Unit(NamedTuple):
    """The members of one unit, (MEMBERS, TILE) each: log weights, constants of the noise, sums over time.

    rise (MEMBERS,): the margin and the most that a log weight gains during LOOK observations; residual (SPAN, TILE).
    """

    log_weight: Floats
    scale: Floats
    offset: Floats
    total: Floats
    rise: Floats
    residual: Floats


class Sums(NamedTuple):
    """What the first sweep adds up before each of n observations and after the last.

    reference (n + 1,): r_t, given as a lower bound of log Z_t; mass (n + 1, WIDTH): partial sums of
    exp(log w - r_t - RISE); weighted alike: the same times the residual.
    """

    reference: Floats
    mass: Floats
    weighted: Floats


@compiled
def make_unit() -> Unit:
    return Unit(
        aligned_rows(MEMBERS, TILE),
        aligned_rows(MEMBERS, TILE),
        aligned_rows(MEMBERS, TILE),
        aligned_rows(MEMBERS, TILE),
        np.empty(MEMBERS),
        aligned_rows(SPAN, TILE),
    )


@compiled_leaf
def _open_member(
    setting: Setting, standard: tuple[float, float], first: int, count: int, member: int, unit: Unit
) -> None:
    """Prior log weights and the noise's constants of a member; lanes beyond count weigh nothing."""
    for i in range(TILE):
        unit.log_weight[member, i] = -np.inf
    for i in range(count):
        unit.log_weight[member, i] = setting.log_prior[first + i] if setting.log_prior.size > 0 else setting.flat
    set_noise(standard, setting.sigma, first, count, member, unit.scale, unit.offset)
    unit.rise[member] = setting.margin + LOOK * max(0.0, _largest(unit.offset, member * TILE))


@compiled_leaf
def _peak(x: Strip) -> Lanes:
    return larger(larger(x[0], x[1]), larger(x[2], x[3]))


@compiled_leaf
def _largest(array: Floats, at: int) -> float:
    """The largest number of a tile, from position at on."""
    top: float = largest(larger(_peak(load_strip(array, at)), _peak(load_strip(array, at + STRIP))))
    return top


@compiled_leaf
def _lowest(reference: Floats, start: int, stop: int) -> float:
    low = np.inf
    for t in range(start, stop):
        low = min(low, reference[t])
    return low


@compiled_leaf
def _exp_strip(w: Strip, top: float) -> Strip:
    return exp_lanes(w[0] - top), exp_lanes(w[1] - top), exp_lanes(w[2] - top), exp_lanes(w[3] - top)


@compiled_leaf
def _sums(e: Strip, r: Strip) -> tuple[Lanes, Lanes]:
    """e and e r, each added up to eight partial sums."""
    return (e[0] + e[1]) + (e[2] + e[3]), (e[0] * r[0] + e[1] * r[1]) + (e[2] * r[2] + e[3] * r[3])


@compiled_leaf
def _raise_reference(top: float, t: int, sums: Sums) -> None:
    """Move the reference at t and rescale the sums taken so far."""
    factor = math.exp(sums.reference[t] - top)
    sums.reference[t] = top
    store(sums.mass, t * WIDTH, load(sums.mass, t * WIDTH) * factor)
    store(sums.weighted, t * WIDTH, load(sums.weighted, t * WIDTH) * factor)


@compiled_leaf
def _add_strip(w: Strip, r: Strip, t: int, sums: Sums) -> None:
    """Add weights exp(w) and weighted residuals to the sums at t; what is above the reference first becomes it."""
    mass, weighted = _sums(_exp_strip(w, sums.reference[t] + RISE), r)
    if any_above(mass, 1.0):
        _raise_reference(largest(_peak(w)), t, sums)
        mass, weighted = _sums(_exp_strip(w, sums.reference[t] + RISE), r)
    store(sums.mass, t * WIDTH, load(sums.mass, t * WIDTH) + mass)
    store(sums.weighted, t * WIDTH, load(sums.weighted, t * WIDTH) + weighted)


@compiled_leaf
def _sweep_member(setting: Setting, unit: Unit, member: int, begin: int, end: int, sums: Sums, until: int) -> int:
    """Pass a member through observations begin to end, whose residuals are there; the time it was last not quiet."""
    for look in range(begin, end, LOOK):
        stop = min(look + LOOK, end)
        bar = _lowest(sums.reference, look, stop) - unit.rise[member]
        for column in range(0, TILE, STRIP):
            at = member * TILE + column
            w, z, o = load_strip(unit.log_weight, at), load_strip(unit.scale, at), load_strip(unit.offset, at)
            if any_above(_peak(w), bar):
                until = stop
                for t in range(look, stop):
                    r = load_strip(unit.residual, (t - begin) * TILE + column)
                    _add_strip(w, r, t, sums)
                    w = add_log_density(setting.code, setting.df, w, r, z, o)
            else:
                for t in range(look, stop):
                    r = load_strip(unit.residual, (t - begin) * TILE + column)
                    w = add_log_density(setting.code, setting.df, w, r, z, o)
            store_strip(unit.log_weight, at, w)
    return until


@compiled
def sweep_units(
    tables: Tables, start: int, stop: int, setting: Setting, sums: Sums, log_weights: Floats, until: Integers
) -> None:
    """Sums over the candidates of units start to stop before each observation, and their final log weights.

    log_weights (S,); until (units, MEMBERS): the time from which on a member is quiet.
    """
    n = sums.reference.size - 1
    work, unit, standard = make_work(tables), make_unit(), standard_noise(setting.code, setting.df)
    for number in range(start, stop):
        n_members = prepare(tables, work, number)
        for member in range(n_members):
            first, count = locate(tables, number, member)
            _open_member(setting, standard, first, count, member, unit)
        for begin in range(0, n, SPAN):
            end = min(begin + SPAN, n)
            for member in range(n_members):
                residuals(tables, work, member, begin, end, unit.residual)
                until[number, member] = _sweep_member(setting, unit, member, begin, end, sums, until[number, member])
        for member in range(n_members):
            for at in range(member * TILE, (member + 1) * TILE, STRIP):
                w = load_strip(unit.log_weight, at)
                if any_above(_peak(w), sums.reference[n] - setting.margin):
                    _add_strip(w, w, n, sums)
            first, count = locate(tables, number, member)
            for i in range(count):
                log_weights[first + i] = unit.log_weight[member, i]


@compiled_leaf
def _add_weights(total: Strip, w: Strip, top: float, share: float) -> Strip:
    """total + exp(w - top) share."""
    e = _exp_strip(w, top)
    return total[0] + e[0] * share, total[1] + e[1] * share, total[2] + e[2] * share, total[3] + e[3] * share


@compiled_leaf
def _mean_member(setting: Setting, unit: Unit, member: int, begin: int, end: int, top: Floats, share: Floats) -> None:
    """Pass a member through observations begin to end and add its weights before each to the totals."""
    for look in range(begin, end, LOOK):
        stop = min(look + LOOK, end)
        bar = _lowest(top, look, stop) - unit.rise[member]
        for column in range(0, TILE, STRIP):
            at = member * TILE + column
            w, z, o = load_strip(unit.log_weight, at), load_strip(unit.scale, at), load_strip(unit.offset, at)
            if any_above(_peak(w), bar):
                total = load_strip(unit.total, at)
                for t in range(look, stop):
                    total = _add_weights(total, w, top[t], share[t])
                    r = load_strip(unit.residual, (t - begin) * TILE + column)
                    w = add_log_density(setting.code, setting.df, w, r, z, o)
                store_strip(unit.total, at, total)
            else:
                for t in range(look, stop):
                    r = load_strip(unit.residual, (t - begin) * TILE + column)
                    w = add_log_density(setting.code, setting.df, w, r, z, o)
            store_strip(unit.log_weight, at, w)


@compiled
def mean_weights_units(
    tables: Tables,
    start: int,
    stop: int,
    setting: Setting,
    top: Floats,
    share: Floats,
    until: Integers,
    edges: Integers,
    out: Floats,
) -> None:
    """out[j, s] = mean over edges[j] <= t < edges[j + 1] of the weight of candidate s before observation t.

    The weight is exp(log w - top) share, both (n + 1,), top a lower bound of log Z near the log weights, so that no
    digit is lost; until (units, MEMBERS) from `sweep_units`; edges (segments + 1,); out (segments, S).
    """
    work, unit, standard = make_work(tables), make_unit(), standard_noise(setting.code, setting.df)
    for number in range(start, stop):
        n_members, last = prepare(tables, work, number), 0
        for member in range(n_members):
            first, count = locate(tables, number, member)
            _open_member(setting, standard, first, count, member, unit)
            last = max(last, until[number, member])
        for j in range(edges.size - 1):
            unit.total[:] = 0.0
            for begin in range(edges[j], min(edges[j + 1], last), SPAN):
                for member in range(n_members):
                    end = min(begin + SPAN, edges[j + 1], until[number, member])
                    if begin < end:
                        residuals(tables, work, member, begin, end, unit.residual)
                        _mean_member(setting, unit, member, begin, end, top, share)
            for member in range(n_members):
                first, count = locate(tables, number, member)
                for i in range(count):
                    out[j, first + i] = unit.total[member, i] / (edges[j + 1] - edges[j])


@compiled
def reference_members(tables: Tables, homes: Integers, setting: Setting, reference: Floats) -> None:
    """reference[t] = largest log weight before observation t in the given members, or what it was if larger.

    A lower bound of log Z_t; homes (., 2): unit and member; reference (n + 1,).
    """
    n = reference.size - 1
    work, unit, standard = make_work(tables), make_unit(), standard_noise(setting.code, setting.df)
    for number, member in homes:
        first, count = locate(tables, number, member)
        prepare(tables, work, number)
        _open_member(setting, standard, first, count, 0, unit)
        reference[0] = max(reference[0], _largest(unit.log_weight, 0))
        for begin in range(0, n, SPAN):
            end = min(begin + SPAN, n)
            residuals(tables, work, member, begin, end, unit.residual)
            for t in range(begin, end):
                for at in range(0, TILE, STRIP):
                    w, z, o = load_strip(unit.log_weight, at), load_strip(unit.scale, at), load_strip(unit.offset, at)
                    r = load_strip(unit.residual, (t - begin) * TILE + at)
                    store_strip(unit.log_weight, at, add_log_density(setting.code, setting.df, w, r, z, o))
                reference[t + 1] = max(reference[t + 1], _largest(unit.log_weight, 0))
