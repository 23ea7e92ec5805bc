"""Candidates given one by one, by their parameters theta (S, M-1, p): scores are linear in the features (n, p).

The 64 candidates of a tile stand side by side. For each of them scores are summed from the first feature to the last,
so equal parameters give equal scores to the bit, as in `gating`. Every expert costs one exponential.
"""

from typing import NamedTuple

from gatewise.arrays import Floats
from gatewise.kernels.compiled import inner, leaf
from gatewise.kernels.simd.elementary import exp_lanes
from gatewise.kernels.simd.lanes import fill, larger, load, store, WIDTH
from gatewise.kernels.simd.tile import aligned_rows, load_strip, store_strip, STRIP, TILE
from gatewise.kernels.top_k import keep_best


class ExplicitTables(NamedTuple):
    """What the kernels read about a list of candidates, for n observations.

    theta (S, M-1, p): parameters; features (n, p); y (n,): responses; F (n, M): predictions of the experts;
    n_experts: M; n_active: K, the experts that a gate activates.
    """

    theta: Floats
    features: Floats
    y: Floats
    F: Floats
    n_experts: int
    n_active: int


class ExplicitWork(NamedTuple):
    """Work space for one tile.

    theta (M-1, p * TILE): parameters, the candidates of one coefficient side by side; scores (M, TILE); active
    (M, TILE): the scores of active experts and -inf for the others.
    """

    theta: Floats
    scores: Floats
    active: Floats


@inner
def explicit_work(tables: ExplicitTables) -> ExplicitWork:
    """Work space for the tiles of a list."""
    _, n_free, p = tables.theta.shape
    theta = aligned_rows(n_free, p * TILE)
    theta[:] = 0.0
    return ExplicitWork(theta=theta, scores=aligned_rows(n_free + 1, TILE), active=aligned_rows(n_free + 1, TILE))


@leaf
def explicit_locate(tables: ExplicitTables, unit: int, _member: int) -> tuple[int, int]:
    """First candidate and number of candidates of a unit, which is one tile."""
    return unit * TILE, min(TILE, tables.theta.shape[0] - unit * TILE)


@leaf
def explicit_prepare(tables: ExplicitTables, work: ExplicitWork, unit: int) -> int:
    """Bring the parameters of the tile into work; returns 1, the number of its members.

    Places beyond the last candidate keep finite numbers that nobody reads.
    """
    first, count = explicit_locate(tables, unit, 0)
    n_free, p = tables.theta.shape[1], tables.theta.shape[2]
    for i in range(count):
        for m in range(n_free):
            for j in range(p):
                work.theta[m, j * TILE + i] = tables.theta[first + i, m, j]
    return 1


@leaf
def _scores(features: Floats, theta: Floats, t: int, scores: Floats) -> None:
    """scores[m] = sum_j features[t, j] theta[m, j], from the first feature to the last; 0 for the reference."""
    n_free, p = theta.shape[0], features.shape[1]
    for m in range(n_free):
        for column in range(0, TILE, STRIP):
            a, b, c, d = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
            for j in range(p):
                x = features[t, j]
                e, f, g, h = load_strip(theta, (m * p + j) * TILE + column)
                a, b, c, d = a + e * x, b + f * x, c + g * x, d + h * x
            store_strip(scores, m * TILE + column, (a, b, c, d))
    for column in range(0, TILE, STRIP):
        store_strip(scores, n_free * TILE + column, (fill(0.0), fill(0.0), fill(0.0), fill(0.0)))


@leaf
def _mix(scores: Floats, F: Floats, y: float, t: int, row: int, out: Floats) -> None:
    """out[row, i] = y - sum_m g_m F[t, m], where g is the softmax of the scores of candidate i."""
    n_experts = scores.shape[0]
    for column in range(0, TILE, WIDTH):
        top = load(scores, column)
        for m in range(1, n_experts):
            top = larger(load(scores, m * TILE + column), top)
        mass, weighted = fill(0.0), fill(0.0)
        for m in range(n_experts):
            e = exp_lanes(load(scores, m * TILE + column) - top)
            mass, weighted = mass + e, weighted + e * (y - F[t, m])
        store(out, row * TILE + column, weighted / mass)


@leaf
def explicit_residuals(
    tables: ExplicitTables, work: ExplicitWork, _member: int, start: int, stop: int, out: Floats
) -> None:
    """out[t - start, i] = y_t - (prediction of candidate i of the tile) at observations start to stop."""
    y, F, n_experts, k = tables.y, tables.F, tables.n_experts, tables.n_active
    for t in range(start, stop):
        _scores(tables.features, work.theta, t, work.scores)
        if k < n_experts:
            keep_best(work.scores, 0, n_experts, TILE, k, work.active)
            _mix(work.active, F, y[t], t, t - start, out)
        else:
            _mix(work.scores, F, y[t], t, t - start, out)
