"""An approximation of the Hessian that is cheap to solve with.

In the scores it is a Kronecker product and the penalty: block j of M coefficients, one for each expert, is

    d_j A + penalty I,  A = sum_i c_i a_i a_i',  d_j = sum_i c_i x_ij^2 / sum_i c_i,

with the tilts a_i, the curvatures c_i where they are positive, and features x that have been rotated to be
uncorrelated. One reduction A = Q T Q' to a tridiagonal T serves all blocks. The linear part has its own block of the
Hessian, by Cholesky. No library of linear algebra is called, so no number of threads can change a bit.
"""

from math import copysign, sqrt
from typing import NamedTuple

from gatewise.arrays import Floats
from gatewise.kernels.compiled import inner_fma, leaf, sum_leaf
from gatewise.kernels.path.packed_rows import GatePoint, PackedRows
from gatewise.kernels.path.products import add_product
from gatewise.kernels.simd.lanes import WIDTH
from gatewise.kernels.simd.tile import TILE

LEAST_ROWS, ROWS_PER_COLUMN = 512, 8  # rows that a Gram matrix is estimated from, at least


class Preconditioner(NamedTuple):
    """The reduction and its factors. All arrays are flat.

    rotation, turned (M, M): Q and its transpose; diagonal, beside (M,): T; sizes (width,): d; multiplier, pivot
    (M, width): the factors L and D of d_j T + penalty I = L D L' for every column j; triangle (q, q): the Cholesky
    factor of the linear part's block. gram, heavy, crossed, half and mirror are work space.
    """

    rotation: Floats
    turned: Floats
    diagonal: Floats
    beside: Floats
    sizes: Floats
    multiplier: Floats
    pivot: Floats
    triangle: Floats
    gram: Floats
    heavy: Floats
    crossed: Floats
    half: Floats
    mirror: Floats


@inner_fma
def prepare_scores(pre: Preconditioner, rows: PackedRows, point: GatePoint, penalty: float) -> None:
    """The factors of the scores' blocks at ``point``."""
    M, width = rows.n_experts, rows.width
    if width == 0:
        return
    stride = _gram(point.tilts, M, point.curvature, pre.heavy, pre.crossed, pre.gram)
    _tridiagonal(pre.gram, stride, M, pre.rotation, pre.diagonal, pre.beside, pre.mirror)
    for m in range(M):
        for k in range(M):
            pre.turned[m * M + k] = pre.rotation[k * M + m]
    _column_sizes(rows.lines, point.curvature, pre.sizes)
    _factorise(pre.sizes, pre.diagonal, pre.beside, penalty, pre.multiplier, pre.pivot)


@inner_fma
def prepare_linear(pre: Preconditioner, rows: PackedRows, point: GatePoint, penalty: float) -> None:
    """The Cholesky factor of the linear part's block; pivots are at least the penalty, as they are in theory."""
    if rows.n_linear > 0:
        stride = _gram(rows.linear, rows.n_linear, point.curvature, pre.heavy, pre.crossed, pre.gram)
        _cholesky(pre.gram, stride, rows.n_linear, penalty, pre.triangle)


@inner_fma
def precondition(pre: Preconditioner, rows: PackedRows, r: Floats, out: Floats) -> None:
    """out = P^-1 r, both in the layout of a parameter."""
    M, width, q = rows.n_experts, rows.width, rows.n_linear
    add_product(pre.turned, M, M, r, 0, M, width, pre.half, False)
    _solve_blocks(pre.multiplier, pre.pivot, M, width, pre.half)
    add_product(pre.rotation, M, M, pre.half, 0, M, width, out, False)
    for j in range(M * width, M * width + q):
        out[j] = r[j]
    _solve_triangle(pre.triangle, q, M * width, out)


@inner_fma
def _gram(values: Floats, count: int, curvature: Floats, heavy: Floats, crossed: Floats, out: Floats) -> int:
    """out[j, k] = sum_i c_i values_ij values_ik over the rows of positive curvature c; values (T, count, 64).

    Where there are many rows, the sum is estimated from some of the tiles, evenly spaced. Returns how far apart the
    rows of ``out`` are.
    """
    n_tiles, width = curvature.size // TILE, -(-count // WIDTH) * WIDTH
    for k in range(count * width):
        out[k] = 0.0
    apart = max(1, curvature.size // max(LEAST_ROWS, ROWS_PER_COLUMN * count))
    total, part = 0.0, 0.0
    for tile in range(n_tiles):
        for i in range(tile * TILE, (tile + 1) * TILE):
            total += max(curvature[i], 0.0)
            part += max(curvature[i], 0.0) if tile % apart == 0 else 0.0
        if tile % apart == 0:
            for j in range(count):
                for i in range(TILE):
                    here = values[(tile * count + j) * TILE + i]
                    heavy[j * TILE + i] = max(curvature[tile * TILE + i], 0.0) * here
                    crossed[i * width + j] = here
            add_product(heavy, TILE, count, crossed, 0, TILE, width, out, True)
    share = total / part if part > 0.0 else 1.0
    for k in range(count * width):
        out[k] *= share
    return width


@sum_leaf
def _column_sizes(lines: Floats, curvature: Floats, out: Floats) -> None:
    """d_j = sum_i c_i lines_ij^2 / sum_i c_i over the rows of positive curvature."""
    for j in range(out.size):
        out[j] = 0.0
    total = 0.0
    for i in range(curvature.size):
        c = max(curvature[i], 0.0)
        total += c
        for j in range(out.size):
            out[j] += c * lines[i * out.size + j] * lines[i * out.size + j]
    share = 1.0 / total if total > 0.0 else 0.0
    for j in range(out.size):
        out[j] *= share


@sum_leaf
def _tridiagonal(
    matrix: Floats, stride: int, size: int, rotation: Floats, diagonal: Floats, beside: Floats, mirror: Floats
) -> None:
    """The diagonal and the entries beside it of T in matrix = Q T Q', by Householder reflections.

    The rows of ``matrix`` (size, size) are ``stride`` apart; it is overwritten. ``rotation`` becomes Q.
    """
    for k in range(size * size):
        rotation[k] = 0.0
    for k in range(size):
        rotation[k * size + k] = 1.0
        beside[k] = 0.0
    for k in range(size - 1):
        row = k * stride
        tail = 0.0
        for i in range(k + 2, size):
            tail += matrix[row + i] * matrix[row + i]
        head = matrix[row + k + 1]
        beside[k] = head
        if tail > 0.0:
            beside[k] = -copysign(sqrt(head * head + tail), head)
            for i in range(k + 1, size):
                mirror[i] = matrix[row + i]
            mirror[k + 1] = head - beside[k]
            factor = 2.0 / (mirror[k + 1] * mirror[k + 1] + tail)
            _reflect(matrix, stride, size, rotation, k + 1, mirror, factor)
    for k in range(size):
        diagonal[k] = matrix[k * stride + k]


@sum_leaf
def _reflect(
    matrix: Floats, stride: int, size: int, rotation: Floats, first: int, mirror: Floats, factor: float
) -> None:
    """Replace the matrix by H matrix H and the rotation by rotation H, H = I - factor v v', from row ``first`` on.

    v is the first half of ``mirror``, the second is work space.
    """
    inner = 0.0
    for i in range(first, size):
        total = 0.0
        for j in range(first, size):
            total += matrix[i * stride + j] * mirror[j]
        mirror[size + i] = factor * total
        inner += mirror[size + i] * mirror[i]
    inner *= 0.5 * factor
    for i in range(first, size):
        mirror[size + i] -= inner * mirror[i]
    for i in range(first, size):
        v, w = mirror[i], mirror[size + i]
        for j in range(first, size):
            matrix[i * stride + j] -= v * mirror[size + j] + w * mirror[j]
    for i in range(size):
        total = 0.0
        for j in range(first, size):
            total += rotation[i * size + j] * mirror[j]
        total *= factor
        for j in range(first, size):
            rotation[i * size + j] -= total * mirror[j]


@leaf
def _factorise(
    sizes: Floats, diagonal: Floats, beside: Floats, penalty: float, multiplier: Floats, pivot: Floats
) -> None:
    """L D L' of d_j T + penalty I for every j. The smallest eigenvalue is the penalty, so no pivot is smaller."""
    width = sizes.size
    for m in range(diagonal.size):
        for j in range(width):
            value = sizes[j] * diagonal[m] + penalty
            if m > 0:
                value -= multiplier[(m - 1) * width + j] * sizes[j] * beside[m - 1]
            pivot[m * width + j] = max(value, penalty)
            multiplier[m * width + j] = sizes[j] * beside[m] / pivot[m * width + j]


@leaf
def _solve_blocks(multiplier: Floats, pivot: Floats, M: int, width: int, x: Floats) -> None:
    """x (M, width) becomes the solution of L D L' for the right-hand side x, in every column."""
    for k in range(width, M * width):
        x[k] -= multiplier[k - width] * x[k - width]
    for k in range((M - 1) * width, M * width):
        x[k] /= pivot[k]
    for m in range(M - 2, -1, -1):
        for k in range(m * width, (m + 1) * width):
            x[k] = x[k] / pivot[k] - multiplier[k] * x[k + width]


@sum_leaf
def _cholesky(matrix: Floats, stride: int, size: int, penalty: float, out: Floats) -> None:
    """The lower triangle of matrix + penalty I = L L'; the rows of ``matrix`` are ``stride`` apart."""
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i * stride + j]
            for k in range(j):
                total -= out[i * size + k] * out[j * size + k]
            out[i * size + j] = sqrt(max(total + penalty, penalty)) if i == j else total / out[j * size + j]


@sum_leaf
def _solve_triangle(triangle: Floats, size: int, first: int, x: Floats) -> None:
    """The entries of x from ``first`` on become the solution of L L' for themselves as the right-hand side."""
    for i in range(size):
        total = x[first + i]
        for k in range(i):
            total -= triangle[i * size + k] * x[first + k]
        x[first + i] = total / triangle[i * size + i]
    for i in range(size - 1, -1, -1):
        value = x[first + i] / triangle[i * size + i]
        x[first + i] = value
        for k in range(i):
            x[first + k] -= triangle[i * size + k] * value
