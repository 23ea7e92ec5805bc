"""AFTER, compiled: the weights of every candidate over time, in log space; the two sweeps of `alg:general`.

The log weight log w of a candidate before observation t is its log prior plus the log densities of its residuals
before t, and Z_t is the sum of all weights w before t. The first sweep adds up the weights and the weighted residuals
at every t. The second sweep averages each normalised weight over time.

Most candidates soon have negligible weights, and their exponentials need not be computed. The candidates of a strip
are skipped for LOOK observations when their log weights are certain to stay below a lower bound of log Z_t by a given
margin during these observations. Their log weights are still updated, so they return as soon as the data favour them.
"""

import math
from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats, Integers
from gatewise.kernels.compiled import compiled, inner, leaf
from gatewise.kernels.loss_kinds import standard_noise
from gatewise.kernels.net.density import add_log_density, set_noise
from gatewise.kernels.net.units import ALL, locate, make_work, prepare, residuals, Tables
from gatewise.kernels.simd.elementary import exp_lanes
from gatewise.kernels.simd.lanes import any_above, Lanes, larger, largest, load, store, WIDTH
from gatewise.kernels.simd.tile import aligned_rows, load_strip, MEMBERS, SPAN, store_strip, STRIP, Strip, TILE

HEADROOM = 8.0  # how far log weights may exceed the lower bound of log Z before the bound is raised
LOOK = 8  # observations for which a strip is skipped, or is not


class WeightRule(NamedTuple):
    """How the residuals of S candidates become weights: scales, prior and noise density.

    sigma (S,) or (1,): the scale of every candidate, or one for all. log_prior (S,); if it is empty, every candidate
    has the log prior flat_prior. noise, df: the code of the noise family in `loss_kinds`, and the degrees of freedom
    of Student t. power (n,): the exponent, at most 1, of the likelihood of each outcome, for the log loss only; empty
    means 1. margin: a candidate is left out of sums where its log weight is below the log of the sum of all weights
    by more than this.
    """

    sigma: Floats
    log_prior: Floats
    flat_prior: float
    noise: int
    df: float
    power: Floats
    margin: float


class UnitState(NamedTuple):
    """The candidates of one unit during a sweep, (MEMBERS, TILE) each unless said otherwise.

    log_weight; scale, offset: the constants of the candidate's noise density (`density`); total: its weights summed
    over time; skip_below (MEMBERS,): how far below log Z a log weight must be for the strip to be skipped, which is
    the margin plus the most that a log weight can gain during LOOK observations; residual (SPAN, TILE): residuals of
    one member at the current observations.
    """

    log_weight: Floats
    scale: Floats
    offset: Floats
    total: Floats
    skip_below: Floats
    residual: Floats


class SweepSums(NamedTuple):
    """The sums of the first sweep before each of n observations and after the last one.

    bound (n + 1,): b_t, a lower bound of log Z_t, which is raised when a log weight exceeds it by HEADROOM;
    mass (n + 1, WIDTH): eight partial sums of exp(log w - b_t - HEADROOM); weighted (n + 1, WIDTH): the same sums
    with each term times the residual.
    """

    bound: Floats
    mass: Floats
    weighted: Floats


@inner
def _make_state() -> UnitState:
    return UnitState(
        log_weight=aligned_rows(MEMBERS, TILE),
        scale=aligned_rows(MEMBERS, TILE),
        offset=aligned_rows(MEMBERS, TILE),
        total=aligned_rows(MEMBERS, TILE),
        skip_below=np.empty(MEMBERS),
        residual=aligned_rows(SPAN, TILE),
    )


@leaf
def _open_member(
    rule: WeightRule, standard: tuple[float, float], first: int, count: int, member: int, state: UnitState
) -> None:
    """Set the log weights of a member's candidates to their priors, and the constants of their noise.

    first, count: the member's candidates; places beyond count get weight 0. standard: from `standard_noise`.
    """
    for i in range(TILE):
        state.log_weight[member, i] = -np.inf
    for i in range(count):
        prior = rule.log_prior[first + i] if rule.log_prior.size > 0 else rule.flat_prior
        state.log_weight[member, i] = prior
    set_noise(standard, rule.sigma, first, count, member, state.scale, state.offset)
    state.skip_below[member] = rule.margin + LOOK * max(0.0, _largest(state.offset, member * TILE))


@leaf
def _peak(x: Strip) -> Lanes:
    """The largest of four numbers, in each of eight lanes."""
    return larger(larger(x[0], x[1]), larger(x[2], x[3]))


@leaf
def _largest(array: Floats, at: int) -> float:
    """The largest number of the tile that starts at place ``at``."""
    top: float = largest(larger(_peak(load_strip(array, at)), _peak(load_strip(array, at + STRIP))))
    return top


@leaf
def _lowest(bound: Floats, start: int, stop: int) -> float:
    """min of bound[start:stop]."""
    low = np.inf
    for t in range(start, stop):
        low = min(low, bound[t])
    return low


@leaf
def _exp_strip(w: Strip, top: float) -> Strip:
    """exp(w - top)."""
    return exp_lanes(w[0] - top), exp_lanes(w[1] - top), exp_lanes(w[2] - top), exp_lanes(w[3] - top)


@leaf
def _sums(e: Strip, r: Strip) -> tuple[Lanes, Lanes]:
    """Eight partial sums of e and eight of e r."""
    return (e[0] + e[1]) + (e[2] + e[3]), (e[0] * r[0] + e[1] * r[1]) + (e[2] * r[2] + e[3] * r[3])


@leaf
def _rescale_sums(top: float, t: int, sums: SweepSums) -> None:
    """Replace the lower bound of log Z_t by a larger one, ``top``, and rescale the sums that were taken with it."""
    factor = math.exp(sums.bound[t] - top)
    sums.bound[t] = top
    store(sums.mass, t * WIDTH, load(sums.mass, t * WIDTH) * factor)
    store(sums.weighted, t * WIDTH, load(sums.weighted, t * WIDTH) * factor)


@leaf
def _add_strip(w: Strip, r: Strip, t: int, sums: SweepSums) -> None:
    """Add the weights exp(w) of a strip, and the weights times the residuals r, to the sums at observation t.

    If the weights exceed the lower bound of Z_t by more than the headroom, the bound is first raised to the largest.
    """
    mass, weighted = _sums(_exp_strip(w, sums.bound[t] + HEADROOM), r)
    if any_above(mass, 1.0):
        _rescale_sums(largest(_peak(w)), t, sums)
        mass, weighted = _sums(_exp_strip(w, sums.bound[t] + HEADROOM), r)
    store(sums.mass, t * WIDTH, load(sums.mass, t * WIDTH) + mass)
    store(sums.weighted, t * WIDTH, load(sums.weighted, t * WIDTH) + weighted)


@leaf
def _sweep_member(
    rule: WeightRule, state: UnitState, member: int, begin: int, end: int, sums: SweepSums, until: int
) -> int:
    """Add one member's terms at observations begin to end to the sums, and update its log weights.

    Its residuals at these observations must be in state.residual. Returns the end of the last stretch of observations
    at which some strip of it was not skipped; ``until`` is what this function returned for earlier observations.
    """
    for look in range(begin, end, LOOK):
        stop = min(look + LOOK, end)
        bar = _lowest(sums.bound, look, stop) - state.skip_below[member]
        for column in range(0, TILE, STRIP):
            at = member * TILE + column
            w, z, o = load_strip(state.log_weight, at), load_strip(state.scale, at), load_strip(state.offset, at)
            if any_above(_peak(w), bar):
                until = stop
                for t in range(look, stop):
                    r = load_strip(state.residual, (t - begin) * TILE + column)
                    _add_strip(w, r, t, sums)
                    w = add_log_density(rule.noise, rule.df, rule.power, t, w, r, z, o)
            else:
                for t in range(look, stop):
                    r = load_strip(state.residual, (t - begin) * TILE + column)
                    w = add_log_density(rule.noise, rule.df, rule.power, t, w, r, z, o)
            store_strip(state.log_weight, at, w)
    return until


@leaf
def _close_member(rule: WeightRule, state: UnitState, member: int, sums: SweepSums) -> None:
    """Add a member's weights after the last observation to the sums."""
    n = sums.bound.size - 1
    for at in range(member * TILE, (member + 1) * TILE, STRIP):
        w = load_strip(state.log_weight, at)
        if any_above(_peak(w), sums.bound[n] - rule.margin):
            _add_strip(w, w, n, sums)


@leaf
def _add_weights(total: Strip, w: Strip, top: float, inverse_mass: float) -> Strip:
    """total + exp(w - top) * inverse_mass."""
    e = _exp_strip(w, top)
    return (
        total[0] + e[0] * inverse_mass,
        total[1] + e[1] * inverse_mass,
        total[2] + e[2] * inverse_mass,
        total[3] + e[3] * inverse_mass,
    )


@leaf
def _mean_member(
    rule: WeightRule, state: UnitState, member: int, begin: int, end: int, top: Floats, inverse_mass: Floats
) -> None:
    """Add a member's weights before each of the observations begin to end to its totals, and update its log weights.

    Its residuals at these observations must be in state.residual.
    """
    for look in range(begin, end, LOOK):
        stop = min(look + LOOK, end)
        bar = _lowest(top, look, stop) - state.skip_below[member]
        for column in range(0, TILE, STRIP):
            at = member * TILE + column
            w, z, o = load_strip(state.log_weight, at), load_strip(state.scale, at), load_strip(state.offset, at)
            if any_above(_peak(w), bar):
                total = load_strip(state.total, at)
                for t in range(look, stop):
                    total = _add_weights(total, w, top[t], inverse_mass[t])
                    r = load_strip(state.residual, (t - begin) * TILE + column)
                    w = add_log_density(rule.noise, rule.df, rule.power, t, w, r, z, o)
                store_strip(state.total, at, total)
            else:
                for t in range(look, stop):
                    r = load_strip(state.residual, (t - begin) * TILE + column)
                    w = add_log_density(rule.noise, rule.df, rule.power, t, w, r, z, o)
            store_strip(state.log_weight, at, w)


@leaf
def _raise_member(rule: WeightRule, state: UnitState, member: int, begin: int, end: int, bound: Floats) -> None:
    """Raise bound[t + 1] to the largest log weight of a member after each of the observations begin to end.

    Its residuals at these observations must be in state.residual; its log weights are updated.
    """
    for t in range(begin, end):
        for column in range(0, TILE, STRIP):
            at = member * TILE + column
            w, r = load_strip(state.log_weight, at), load_strip(state.residual, (t - begin) * TILE + column)
            z, o = load_strip(state.scale, at), load_strip(state.offset, at)
            store_strip(state.log_weight, at, add_log_density(rule.noise, rule.df, rule.power, t, w, r, z, o))
        bound[t + 1] = max(bound[t + 1], _largest(state.log_weight, member * TILE))


class Means(NamedTuple):
    """What the second sweep reads and writes.

    top, inverse_mass (n + 1,): Z_t = exp(top[t]) / inverse_mass[t], and top is near log Z, so that no digit is lost;
    edges (segments + 1,); out (segments, S).
    """

    top: Floats
    inverse_mass: Floats
    edges: Integers
    out: Floats


FIRST, SECOND, PROBE = range(3)  # what `weight_units` is asked to do


@leaf
def _step(
    task: int,
    rule: WeightRule,
    state: UnitState,
    member: int,
    begin: int,
    end: int,
    sums: SweepSums,
    means: Means,
    until: int,
) -> int:
    """What a task does with a member at observations begin to end; ``until``, moved on by the first sweep."""
    if task == FIRST:
        until = _sweep_member(rule, state, member, begin, end, sums, until)
    elif task == SECOND:
        _mean_member(rule, state, member, begin, end, means.top, means.inverse_mass)
    else:
        _raise_member(rule, state, member, begin, end, sums.bound)
    return until


@compiled
def weight_units(
    task: int,
    tables: Tables,
    homes: Integers,
    rule: WeightRule,
    sums: SweepSums,
    means: Means,
    until: Integers,
    log_weights: Floats,
) -> None:
    """Follow the weights of the candidates of homes (., 2), units and their members, over the observations.

    FIRST sweep: add their terms to ``sums``. Writes log_weights (S,), the log weights after the last observation, and
    until (units, MEMBERS): from this observation on, all candidates of the member were skipped.
    SECOND sweep: means.out[j, s] = mean over edges[j] <= t < edges[j + 1] of the weight of candidate s before t,
    exp(log w - top[t]) * inverse_mass[t]; ``until`` comes from the first sweep.
    PROBE: raise sums.bound[t] to the largest log weight before observation t; lower bounds of log Z_t remain so.

    They are one function because most of what takes time to compile is common to them.
    """
    work, state, standard = make_work(tables), _make_state(), standard_noise(rule.noise, rule.df)
    edges = means.edges
    for number in range(homes.shape[0]):
        unit, only = homes[number, 0], homes[number, 1]
        n_members, last = prepare(tables, work, unit), 0
        low, high = (0, n_members) if only == ALL else (only, only + 1)
        for member in range(low, high):
            first, count = locate(tables, unit, member)
            _open_member(rule, standard, first, count, member, state)
            last = max(last, until[unit, member] if task == SECOND else edges[edges.size - 1])
            if task == PROBE:
                sums.bound[0] = max(sums.bound[0], _largest(state.log_weight, member * TILE))
        for j in range(edges.size - 1):
            state.total[:] = 0.0
            for begin in range(edges[j], min(edges[j + 1], last), SPAN):
                for member in range(low, high):
                    end = min(begin + SPAN, edges[j + 1], until[unit, member] if task == SECOND else edges[j + 1])
                    if begin < end:
                        residuals(tables, work, member, begin, end, state.residual)
                        moved = _step(task, rule, state, member, begin, end, sums, means, until[unit, member])
                        until[unit, member] = moved
            for member in range(low, high if task == SECOND else low):
                first, count = locate(tables, unit, member)
                for i in range(count):
                    means.out[j, first + i] = state.total[member, i] / (edges[j + 1] - edges[j])
        for member in range(low, high if task == FIRST else low):
            _close_member(rule, state, member, sums)
            first, count = locate(tables, unit, member)
            for i in range(count):
                log_weights[first + i] = state.log_weight[member, i]
