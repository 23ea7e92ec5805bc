"""An approximation of the Hessian that is cheap to solve with.

In the scores it is a Kronecker product and the penalty: block j of M coefficients, one for each expert, is

    d_j A + penalty I,  A = sum_i c_i a_i a_i',  d_j = sum_i c_i x_ij^2 / sum_i c_i,

with the tilts a_i, the curvatures c_i where they are positive, and features x that have been rotated to be
uncorrelated. One reduction A = Q T Q' to a tridiagonal T serves all blocks. The linear part has its own block of the
Hessian, by Cholesky. No library of linear algebra is called, so no number of threads can change a bit.
"""

from math import copysign, sqrt
from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats
from gatewise.kernels.compiled import compiled, compiled_fma, compiled_reordered
from gatewise.kernels.path.packed_rows import GatePoint, PackedRows
from gatewise.kernels.path.products import add_product
from gatewise.kernels.simd.lanes import WIDTH
from gatewise.kernels.simd.tile import TILE


class Preconditioner(NamedTuple):
    """The reduction and its factors.

    rotation, turned (M, M): Q and its transpose; multiplier, pivot (M, width): the factors L and D of
    d_j T + penalty I = L D L' for every column j; triangle (q, q): the Cholesky factor of the linear part's block;
    gram, linear_gram, heavy, crossed and half are work space.
    """

    rotation: Floats
    turned: Floats
    multiplier: Floats
    pivot: Floats
    triangle: Floats
    gram: Floats
    linear_gram: Floats
    heavy: Floats
    crossed: Floats
    half: Floats


@compiled
def make_preconditioner(n_experts: int, width: int, n_linear: int) -> Preconditioner:
    """Room for M experts, features of a padded width, and q linear columns."""
    most = max(n_experts, n_linear)
    return Preconditioner(
        rotation=np.zeros((n_experts, n_experts)),
        turned=np.zeros((n_experts, n_experts)),
        multiplier=np.zeros((n_experts, width)),
        pivot=np.zeros((n_experts, width)),
        triangle=np.zeros((n_linear, n_linear)),
        gram=np.zeros((n_experts, _padded(n_experts))),
        linear_gram=np.zeros((n_linear, _padded(n_linear))),
        heavy=np.zeros(most * TILE),
        crossed=np.zeros(TILE * _padded(most)),
        half=np.zeros(n_experts * width),
    )


@compiled
def _padded(count: int) -> int:
    return -(-count // WIDTH) * WIDTH


@compiled_fma
def prepare_scores(pre: Preconditioner, rows: PackedRows, point: GatePoint, penalty: float) -> None:
    """The factors of the scores' blocks at ``point``."""
    if rows.lines.shape[1] == 0:
        return
    _gram(point.tilts, point.curvature, pre.heavy, pre.crossed, pre.gram)
    diagonal, beside = _tridiagonal(pre.gram, pre.rotation)
    for m in range(diagonal.size):
        for k in range(diagonal.size):
            pre.turned[m, k] = pre.rotation[k, m]
    _factorise(_sizes(rows.lines, point.curvature), diagonal, beside, penalty, pre.multiplier, pre.pivot)


@compiled_fma
def prepare_linear(pre: Preconditioner, rows: PackedRows, point: GatePoint, penalty: float) -> None:
    """The Cholesky factor of the linear part's block; pivots are at least the penalty, as they are in theory."""
    if pre.triangle.shape[0] == 0:
        return
    _gram(rows.linear, point.curvature, pre.heavy, pre.crossed, pre.linear_gram)
    _cholesky(pre.linear_gram, penalty, pre.triangle)


@compiled_fma
def precondition(pre: Preconditioner, r: Floats, out: Floats) -> None:
    """out = P^-1 r, both in the layout of a parameter."""
    n_experts, width = pre.pivot.shape
    add_product(pre.turned.ravel(), 0, n_experts, n_experts, r, 0, n_experts, width, pre.half, False)
    _solve_blocks(pre.multiplier, pre.pivot, pre.half)
    add_product(pre.rotation.ravel(), 0, n_experts, n_experts, pre.half, 0, n_experts, width, out, False)
    first = n_experts * width
    for j in range(pre.triangle.shape[0]):
        out[first + j] = r[first + j]
    _solve_triangle(pre.triangle, first, out)


@compiled_fma
def _gram(values: Floats, curvature: Floats, heavy: Floats, crossed: Floats, out: Floats) -> None:
    """out[j, k] = sum_i c_i values_ij values_ik over all rows of positive curvature c; values (T, count, 64)."""
    n_tiles, count = values.shape[0], values.shape[1]
    width, flat = out.shape[1], out.ravel()
    flat[:] = 0.0
    for tile in range(n_tiles):
        for j in range(count):
            for i in range(TILE):
                here = values[tile, j, i]
                heavy[j * TILE + i] = max(curvature[tile * TILE + i], 0.0) * here
                crossed[i * width + j] = here
        add_product(heavy, 0, TILE, count, crossed, 0, TILE, width, flat, True)


@compiled_reordered
def _sizes(lines: Floats, curvature: Floats) -> Floats:
    """d_j = sum_i c_i lines_ij^2 / sum_i c_i over the rows of positive curvature."""
    out = np.zeros(lines.shape[1])
    total = 0.0
    for i in range(lines.shape[0]):
        c = max(curvature[i], 0.0)
        total += c
        for j in range(lines.shape[1]):
            out[j] += c * lines[i, j] * lines[i, j]
    return out / total if total > 0.0 else out


@compiled_reordered
def _tridiagonal(matrix: Floats, rotation: Floats) -> tuple[Floats, Floats]:
    """The diagonal (M,) and the entries beside it (M,) of T in matrix = Q T Q', by Householder reflections.

    ``matrix`` (M, at least M) is overwritten, ``rotation`` becomes Q.
    """
    size = matrix.shape[0]
    diagonal, beside = np.zeros(size), np.zeros(size)
    v, w = np.zeros(size), np.zeros(size)
    rotation[:] = np.eye(size)
    for k in range(size - 1):
        diagonal[k] = matrix[k, k]
        tail = 0.0
        for i in range(k + 2, size):
            tail += matrix[k, i] * matrix[k, i]
        head = matrix[k, k + 1]
        beside[k] = head
        if tail == 0.0:
            continue
        beside[k] = -copysign(sqrt(head * head + tail), head)
        for i in range(k + 1, size):
            v[i] = matrix[k, i]
        v[k + 1] = head - beside[k]
        _reflect(matrix, rotation, k + 1, v, w, 2.0 / (v[k + 1] * v[k + 1] + tail))
    diagonal[size - 1] = matrix[size - 1, size - 1]
    return diagonal, beside


@compiled_reordered
def _reflect(matrix: Floats, rotation: Floats, first: int, v: Floats, w: Floats, factor: float) -> None:
    """Replace the matrix by H matrix H and the rotation by rotation H, H = I - factor v v', from row ``first`` on."""
    size = matrix.shape[0]
    inner = 0.0
    for i in range(first, size):
        total = 0.0
        for j in range(first, size):
            total += matrix[i, j] * v[j]
        w[i] = factor * total
        inner += w[i] * v[i]
    inner *= 0.5 * factor
    for i in range(first, size):
        w[i] -= inner * v[i]
    for i in range(first, size):
        for j in range(first, size):
            matrix[i, j] -= v[i] * w[j] + w[i] * v[j]
    for i in range(size):
        total = 0.0
        for j in range(first, size):
            total += rotation[i, j] * v[j]
        total *= factor
        for j in range(first, size):
            rotation[i, j] -= total * v[j]


@compiled_fma
def _factorise(
    sizes: Floats, diagonal: Floats, beside: Floats, penalty: float, multiplier: Floats, pivot: Floats
) -> None:
    """L D L' of d_j T + penalty I for every j. The smallest eigenvalue is the penalty, so no pivot is smaller."""
    n_experts = diagonal.size
    for m in range(n_experts):
        for j in range(sizes.size):
            value = sizes[j] * diagonal[m] + penalty
            if m > 0:
                value -= multiplier[m - 1, j] * sizes[j] * beside[m - 1]
            pivot[m, j] = max(value, penalty)
            multiplier[m, j] = sizes[j] * beside[m] / pivot[m, j]


@compiled_fma
def _solve_blocks(multiplier: Floats, pivot: Floats, x: Floats) -> None:
    """x (M width,) becomes the solution of L D L' for the right-hand side x, in every column."""
    n_experts, width = pivot.shape
    for m in range(1, n_experts):
        for j in range(width):
            x[m * width + j] -= multiplier[m - 1, j] * x[(m - 1) * width + j]
    for j in range(width):
        x[(n_experts - 1) * width + j] /= pivot[n_experts - 1, j]
    for m in range(n_experts - 2, -1, -1):
        for j in range(width):
            x[m * width + j] = x[m * width + j] / pivot[m, j] - multiplier[m, j] * x[(m + 1) * width + j]


@compiled_reordered
def _cholesky(matrix: Floats, penalty: float, out: Floats) -> None:
    """The lower triangle of matrix + penalty I = L L'."""
    size = out.shape[0]
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= out[i, k] * out[j, k]
            out[i, j] = sqrt(max(total + penalty, penalty)) if i == j else total / out[j, j]


@compiled_reordered
def _solve_triangle(triangle: Floats, first: int, x: Floats) -> None:
    """The entries of x from ``first`` on become the solution of L L' x."""
    size = triangle.shape[0]
    for i in range(size):
        total = x[first + i]
        for k in range(i):
            total -= triangle[i, k] * x[first + k]
        x[first + i] = total / triangle[i, i]
    for i in range(size - 1, -1, -1):
        value = x[first + i] / triangle[i, i]
        x[first + i] = value
        for k in range(i):
            x[first + k] -= triangle[i, k] * value
