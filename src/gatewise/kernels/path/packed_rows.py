"""The objective of a penalised softmax gate on n rows, its gradient and its products with the Hessian.

With features x_i, experts F_i, scores u_m = offset_m + x_i . theta_m and weights g = softmax(u), the mixture of row i
is z_i = sum_m g_m F_im + linear_i . b, and the objective

    sum_i weight_i phi_i(z_i) + penalty |theta|^2 / 2 + linear_penalty |b|^2 / 2.

With tilts a_m = g_m (F_m - g . F), slope s and curvature c of weight_i phi_i, a direction (v, w) changes the scores
by u_m = x_i . v_m and the mixture by a . u + linear_i . w. The product with the Hessian is, before the penalties, the
gradient's pass with the pulls

    t a_m + s (a_m u_m - a_m (g . u) - g_m (a . u)),  t = c (a . u + linear_i . w),

on the scores in place of s a_m, and t in place of s on the linear part. Every pass takes a tile of 64 rows at a time;
its cost is n M p. No array of size (M p)^2 is made.
"""

from math import log
from typing import NamedTuple

from gatewise.arrays import Booleans, Floats
from gatewise.kernels.compiled import inner_fma, leaf, sum_leaf
from gatewise.kernels.path.products import add_product
from gatewise.kernels.simd.elementary import exp_fine
from gatewise.kernels.simd.lanes import fill, larger, load, load_one, store, WIDTH
from gatewise.kernels.simd.tile import TILE

QUADRATIC, LOGARITHM, LINEAR, FOREIGN = range(4)  # phi: (target - z)^2 / 2, -log z, -z; given by the caller


class PackedRows(NamedTuple):
    """Rows in tiles of 64, the last one filled up with rows of weight zero. All arrays are flat.

    columns (T, p, 64) and lines (64 T, width) hold the features, the latter by row, with zeros up to a multiple of
    eight columns; experts (T, M, 64), with ones in the rows that fill up; linear (T, q, 64); weight and target
    (64 T,). Tiles that are not ``active`` (T,) are passed over: all their weights are zero.
    """

    columns: Floats
    lines: Floats
    experts: Floats
    linear: Floats
    weight: Floats
    target: Floats
    active: Booleans
    n_tiles: int
    n_experts: int
    n_features: int
    width: int
    n_linear: int


class GatePoint(NamedTuple):
    """What the objective leaves behind at a parameter, and work space. All arrays are flat.

    gates, tilts (T, M, 64); mixture, slope, curvature (64 T,); scores, pulls (M, 64); pull (64,); sums (q, 8).
    """

    gates: Floats
    tilts: Floats
    mixture: Floats
    slope: Floats
    curvature: Floats
    scores: Floats
    pulls: Floats
    pull: Floats
    sums: Floats


@inner_fma
def mix(rows: PackedRows, offset: Floats, x: Floats, point: GatePoint) -> None:
    """Weights, tilts and mixture at x: theta (M, width) padded as the lines are, then b (q,)."""
    n_experts, p, width = rows.n_experts, rows.n_features, rows.width
    for tile in range(rows.n_tiles):
        if rows.active[tile]:
            add_product(x, width, n_experts, rows.columns, tile * p * TILE, p, TILE, point.scores, False)
            _softmax_tile(point.scores, offset, rows.experts, tile, point.gates, point.tilts, point.mixture)
            _add_linear(rows.linear, rows.n_linear, tile, x, n_experts * width, point.mixture, tile * TILE)


@leaf
def _softmax_tile(
    scores: Floats, offset: Floats, experts: Floats, tile: int, gates: Floats, tilts: Floats, mixture: Floats
) -> None:
    n_experts = offset.size
    for column in range(0, TILE, WIDTH):
        first = tile * n_experts * TILE + column
        top = load(scores, column) + offset[0]
        for m in range(1, n_experts):
            top = larger(load(scores, m * TILE + column) + offset[m], top)
        mass, mixed = fill(0.0), fill(0.0)
        for m in range(n_experts):
            e = exp_fine((load(scores, m * TILE + column) + offset[m]) - top)
            store(gates, first + m * TILE, e)
            mass, mixed = mass + e, mixed + e * load(experts, first + m * TILE)
        share = 1.0 / mass
        mean = mixed * share
        store(mixture, tile * TILE + column, mean)
        for m in range(n_experts):
            g = load(gates, first + m * TILE) * share
            store(gates, first + m * TILE, g)
            store(tilts, first + m * TILE, g * (load(experts, first + m * TILE) - mean))


@leaf
def _add_linear(linear: Floats, q: int, tile: int, x: Floats, start: int, out: Floats, place: int) -> None:
    """out[place + i] += sum_j x[start + j] linear[tile, j, i]."""
    for column in range(0, TILE, WIDTH):
        total = load(out, place + column)
        for j in range(q):
            total = total + load(linear, (tile * q + j) * TILE + column) * load_one(x, start + j)
        store(out, place + column, total)


@inner_fma
def row_losses(kind: int, rows: PackedRows, point: GatePoint) -> float:
    """The sum of weight_i phi_i at the mixture; fills slope and curvature.

    For -log z a row to which every expert gives probability zero is left out: no gate can change its loss.
    """
    value = 0.0
    for i in range(point.mixture.size):
        weight, z = rows.weight[i], point.mixture[i]
        slope, curvature, loss = -1.0, 0.0, -z
        if kind == QUADRATIC:
            slope, curvature = z - rows.target[i], 1.0
            loss = 0.5 * slope * slope
        elif kind == LOGARITHM:
            slope, curvature, loss = (-1.0 / z, 1.0 / (z * z), -log(z)) if z > 0.0 else (0.0, 0.0, 0.0)
        value += weight * loss
        point.slope[i] = weight * slope
        point.curvature[i] = weight * curvature
    return value


@sum_leaf
def penalty_of(x: Floats, n_scores: int, penalty: float, linear_penalty: float) -> float:
    """penalty |theta|^2 / 2 + linear_penalty |b|^2 / 2, with theta the first ``n_scores`` entries."""
    scores, linear = 0.0, 0.0
    for k in range(n_scores):
        scores += x[k] * x[k]
    for k in range(n_scores, x.size):
        linear += x[k] * x[k]
    return 0.5 * (penalty * scores + linear_penalty * linear)


@inner_fma
def gradient(
    rows: PackedRows, point: GatePoint, x: Floats, penalty: float, linear_penalty: float, out: Floats
) -> None:
    """The gradient of the objective at x, where ``point`` is already."""
    _begin(point.sums, x, rows.n_linear, penalty, linear_penalty, out)
    for tile in range(rows.n_tiles):
        if rows.active[tile]:
            _slope_pulls(point.tilts, rows.n_experts, point.slope, tile, point.pulls, point.pull)
            _pull_back(rows, tile, point.pulls, point.pull, point.sums, out)
    _finish(point.sums, rows.n_linear, out)


@inner_fma
def hessian_product(
    rows: PackedRows, point: GatePoint, v: Floats, penalty: float, linear_penalty: float, out: Floats
) -> None:
    """The product of the Hessian at ``point`` with a direction v, in the layout of x."""
    n_experts, p, width = rows.n_experts, rows.n_features, rows.width
    _begin(point.sums, v, rows.n_linear, penalty, linear_penalty, out)
    for tile in range(rows.n_tiles):
        if not rows.active[tile]:
            continue
        add_product(v, width, n_experts, rows.columns, tile * p * TILE, p, TILE, point.scores, False)
        for i in range(TILE):
            point.pull[i] = 0.0
        _add_linear(rows.linear, rows.n_linear, tile, v, n_experts * width, point.pull, 0)
        _curved_pulls(point, n_experts, tile)
        _pull_back(rows, tile, point.pulls, point.pull, point.sums, out)
    _finish(point.sums, rows.n_linear, out)


@leaf
def _slope_pulls(tilts: Floats, n_experts: int, slope: Floats, tile: int, pulls: Floats, pull: Floats) -> None:
    """pulls[m] = slope tilts[m] and pull = slope."""
    for column in range(0, TILE, WIDTH):
        s = load(slope, tile * TILE + column)
        store(pull, column, s)
        for m in range(n_experts):
            store(pulls, m * TILE + column, s * load(tilts, (tile * n_experts + m) * TILE + column))


@leaf
def _curved_pulls(point: GatePoint, n_experts: int, tile: int) -> None:
    """The pulls of a product with the Hessian, from the changes of the scores and, in pull, of the linear part."""
    gates, tilts, slope, curvature = point.gates, point.tilts, point.slope, point.curvature
    scores, pulls, pull = point.scores, point.pulls, point.pull
    for column in range(0, TILE, WIDTH):
        first = tile * n_experts * TILE + column
        tilted, mean = fill(0.0), fill(0.0)
        for m in range(n_experts):
            u = load(scores, m * TILE + column)
            tilted = tilted + load(tilts, first + m * TILE) * u
            mean = mean + load(gates, first + m * TILE) * u
        s = load(slope, tile * TILE + column)
        t = load(curvature, tile * TILE + column) * (tilted + load(pull, column))
        store(pull, column, t)
        both, bent = t - s * mean, s * tilted
        for m in range(n_experts):
            push = (both + s * load(scores, m * TILE + column)) * load(tilts, first + m * TILE)
            store(pulls, m * TILE + column, push - bent * load(gates, first + m * TILE))


@leaf
def _begin(sums: Floats, x: Floats, q: int, penalty: float, linear_penalty: float, out: Floats) -> None:
    """Start with the derivatives of the penalties."""
    for k in range(x.size - q):
        out[k] = penalty * x[k]
    for k in range(x.size - q, x.size):
        out[k] = linear_penalty * x[k]
    for j in range(sums.size):
        sums[j] = 0.0


@leaf
def _pull_back(rows: PackedRows, tile: int, pulls: Floats, pull: Floats, sums: Floats, out: Floats) -> None:
    """Add the pulls of a tile to the derivatives: pulls . lines to those in theta, linear . pull to the sums."""
    width, q = rows.width, rows.n_linear
    add_product(pulls, TILE, rows.n_experts, rows.lines, tile * TILE * width, TILE, width, out, True)
    for j in range(q):
        total = load(sums, j * WIDTH)
        for column in range(0, TILE, WIDTH):
            total = total + load(rows.linear, (tile * q + j) * TILE + column) * load(pull, column)
        store(sums, j * WIDTH, total)


@leaf
def _finish(sums: Floats, q: int, out: Floats) -> None:
    for j in range(q):
        total = 0.0
        for i in range(WIDTH):
            total += sums[j * WIDTH + i]
        out[out.size - q + j] += total
