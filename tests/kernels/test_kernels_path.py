"""The compiled objective of a softmax gate against its formula, and the preconditioner against a dense solve."""

import numpy as np
import pytest
from scipy.special import softmax

from gatewise.kernels.compiled import compiled_fma
from gatewise.kernels.path import packed_rows, preconditioner, products
from gatewise.kernels.path.packed_rows import LINEAR, LOGARITHM, PackedRows, QUADRATIC
from gatewise.solvers.softmax_path import make_work

KINDS = {"quadratic": QUADRATIC, "log": LOGARITHM, "linear": LINEAR}
PENALTIES = 0.3, 1.7


@compiled_fma
def value_at(rows, offset, x, kind, penalty, linear_penalty, point):
    packed_rows.mix(rows, offset, x, point)
    loss = packed_rows.row_losses(kind, rows, point)
    return loss + packed_rows.penalty_of(x, rows.n_experts * rows.width, penalty, linear_penalty)


@compiled_fma
def derivatives_at(rows, point, x, v, penalty, linear_penalty, gradient, product):
    packed_rows.gradient(rows, point, x, penalty, linear_penalty, gradient)
    packed_rows.hessian_product(rows, point, v, penalty, linear_penalty, product)


@compiled_fma
def solve_with(pre, rows, point, penalty, linear_penalty, r, out):
    preconditioner.prepare_scores(pre, rows, point, penalty)
    preconditioner.prepare_linear(pre, rows, point, linear_penalty)
    preconditioner.precondition(pre, rows, r, out)


@compiled_fma
def add_product(left, stride, count, right, at, depth, width, out, add):
    products.add_product(left, stride, count, right, at, depth, width, out, add)


def packed(X, F, L, weight, y):
    """The layout of the kernel, by loops."""
    n, p, width = len(X), X.shape[1], -(-X.shape[1] // 8) * 8
    T, M, q = -(-n // 64), F.shape[1], L.shape[1]
    columns, lines = np.zeros((T, p, 64)), np.zeros((64 * T, width))
    experts, linear = np.ones((T, M, 64)), np.zeros((T, q, 64))
    for i in range(n):
        columns[i // 64, :, i % 64] = lines[i, :p] = X[i]
        experts[i // 64, :, i % 64], linear[i // 64, :, i % 64] = F[i], L[i]
    arrays = [array.ravel() for array in (columns, lines, experts, linear)]
    filling = np.zeros(64 * T - n)
    active = np.ones(T, dtype=bool)
    return PackedRows(*arrays, np.append(weight, filling), np.append(y, filling), active, T, M, p, width, q)


class Case:
    """A random problem, with its objective by NumPy and by the kernel."""

    def __init__(self, n, M, p, q, kind, seed=0):
        rng = np.random.default_rng(seed)
        self.kind, self.shape = kind, (M, p, q)
        self.X, self.F = rng.normal(size=(n, p)), np.exp(0.5 * rng.normal(size=(n, M)))
        self.L, self.y = 0.1 * np.abs(rng.normal(size=(n, q))), rng.normal(size=n)
        self.weight, self.offset = rng.uniform(0.5, 2.0, n), rng.normal(size=M)
        self.rows = packed(self.X, self.F, self.L, self.weight, self.y)
        self.width = self.rows.width
        self.point, self.preconditioner, _ = make_work(self.rows)
        self.x = self.padded(0.5 * rng.normal(size=(M, p)), 0.1 * np.abs(rng.normal(size=q)))
        self.v = self.padded(rng.normal(size=(M, p)), rng.normal(size=q))

    def padded(self, theta, b):
        return np.concatenate([np.pad(theta, ((0, 0), (0, self.width - theta.shape[1]))).ravel(), b])

    def plain(self, x):
        M, p, _ = self.shape
        theta, b = x[: M * self.width].reshape(M, -1)[:, :p], x[M * self.width :]
        z = (softmax(self.offset + self.X @ theta.T, axis=1) * self.F).sum(axis=1) + self.L @ b
        loss = {QUADRATIC: 0.5 * (self.y - z) ** 2, LOGARITHM: -np.log(np.abs(z)), LINEAR: -z}[self.kind]
        return self.weight @ loss + 0.5 * PENALTIES[0] * (theta**2).sum() + 0.5 * PENALTIES[1] * (b**2).sum()

    def value(self, x):
        return value_at(self.rows, self.offset, x, self.kind, *PENALTIES, self.point)

    def gradient(self, x):
        return self.derivatives(x, np.zeros(x.size))[0]

    def product(self, x, v):
        return self.derivatives(x, v)[1]

    def derivatives(self, x, v):
        self.value(x)
        gradient, product = np.empty(x.size), np.empty(x.size)
        derivatives_at(self.rows, self.point, x, v, *PENALTIES, gradient, product)
        return gradient, product


SHAPES = [(70, 3, 2, 2), (64, 5, 9, 0), (130, 8, 8, 9), (5, 2, 1, 1), (40, 1, 3, 0), (40, 4, 0, 3)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_value_gradient_and_product_are_those_of_the_formula(shape, kind):
    case = Case(*shape, KINDS[kind])
    assert case.value(case.x) == pytest.approx(case.plain(case.x), rel=1e-12)
    h = 1e-5
    ahead, behind = case.x + h * case.v, case.x - h * case.v
    slope = (case.plain(ahead) - case.plain(behind)) / (2 * h)
    assert case.gradient(case.x) @ case.v == pytest.approx(slope, rel=1e-6, abs=1e-6)
    change = (case.gradient(ahead) - case.gradient(behind)) / (2 * h)
    np.testing.assert_allclose(case.product(case.x, case.v), change, rtol=1e-5, atol=1e-5 * np.abs(change).max())


def test_the_hessian_is_symmetric_and_padding_stays_zero():
    case = Case(130, 3, 5, 4, QUADRATIC)
    H = np.array([case.product(case.x, e) for e in np.eye(case.x.size)])
    np.testing.assert_allclose(H, H.T, atol=1e-11)
    padding = case.padded(np.zeros((3, 5)), np.zeros(4)) == 0
    padding[case.padded(np.ones((3, 5)), np.ones(4)) != 0] = False
    real = ~padding
    assert not H[np.ix_(real, padding)].any()


def test_the_preconditioner_solves_with_the_matrix_it_states():
    M, p, q = 6, 5, 3
    case = Case(150, M, p, q, QUADRATIC)
    case.value(case.x)
    r, out = case.v.copy(), np.empty(case.v.size)
    solve_with(case.preconditioner, case.rows, case.point, *PENALTIES, r, out)
    c = case.weight
    theta = case.x[: M * case.width].reshape(M, -1)[:, :p]
    g = softmax(case.offset + case.X @ theta.T, axis=1)
    a = g * (case.F - (g * case.F).sum(axis=1)[:, None])
    A, d = (a * c[:, None]).T @ a, c @ case.X**2 / c.sum()
    for j in range(p):
        column = slice(j, M * case.width, case.width)
        np.testing.assert_allclose(out[column], np.linalg.solve(d[j] * A + PENALTIES[0] * np.eye(M), r[column]))
    G = (case.L * c[:, None]).T @ case.L + PENALTIES[1] * np.eye(q)
    np.testing.assert_allclose(out[M * case.width :], np.linalg.solve(G, r[M * case.width :]))


@pytest.mark.parametrize("count", [1, 4, 7, 12, 30])
@pytest.mark.parametrize("depth", [0, 3, 8])
def test_a_product_of_matrices(count, depth):
    rng = np.random.default_rng(0)
    left, right, start = (
        rng.normal(size=(count, depth + 1)),
        rng.normal(size=(depth, 16)),
        rng.normal(size=(count, 16)),
    )
    out = start.ravel().copy()
    add_product(left.ravel(), depth + 1, count, right.ravel(), 0, depth, 16, out, True)
    np.testing.assert_allclose(out.reshape(count, 16), start + left[:, :depth] @ right)
    add_product(left.ravel(), depth + 1, count, right.ravel(), 0, depth, 16, out, False)
    np.testing.assert_allclose(out.reshape(count, 16), left[:, :depth] @ right, atol=1e-14)


def test_a_row_that_every_expert_gives_probability_zero_is_left_out():
    case = Case(70, 3, 2, 0, LOGARITHM)
    case.rows.experts[5 : 3 * 64 : 64] = 0.0
    assert np.isfinite(case.value(case.x))
    assert np.isfinite(case.gradient(case.x)).all()
    case.rows.weight[5] = 0.0
    without = case.gradient(case.x)
    case.rows.weight[5] = 3.0
    np.testing.assert_array_equal(case.gradient(case.x), without)


def test_a_tile_without_weight_may_be_passed_over():
    case = Case(200, 3, 2, 2, QUADRATIC)
    case.rows.weight[64:128] = 0.0
    whole = case.value(case.x), case.gradient(case.x), case.product(case.x, case.v)
    case.rows.active[1] = False
    part = case.value(case.x), case.gradient(case.x), case.product(case.x, case.v)
    for one, two in zip(whole, part, strict=True):
        np.testing.assert_array_equal(one, two)
