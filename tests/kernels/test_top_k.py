"""Top-K: the NumPy reference against its definition, and every compiled version against the reference."""

from itertools import product

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from gatewise.arrays import Floats
from gatewise.kernels import add_few_softmax, add_linear_softmax, linear_softmax, softmax_rows, top_k, top_k_rows
from gatewise.kernels.gradient import softmax_residuals
from gatewise.kernels.net.explicit import ExplicitTables
from gatewise.kernels.net.net_tables import explicit_tables, product_tables
from gatewise.kernels.net.prefix import BELOW_ZERO, best_places
from gatewise.kernels.net.residual_rows import residual_rows
from gatewise.kernels.top_k import keep_best
from tests import oracle

SIZES = [(M, k) for M in range(2, 7) for k in range(1, M + 1)]
WIDTH = 32


def tied_scores(n: int, M: int) -> Floats:
    """Whole numbers from -2 to 2: most rows have ties."""
    return np.random.default_rng(M).integers(-2, 3, size=(n, M)).astype(np.float64)


def test_the_reference_is_the_order_by_score_and_then_by_index() -> None:
    for row in product([-1.0, 0.0, 2.0], repeat=4):
        wanted = sorted(range(4), key=lambda m: (-row[m], m))
        for k in range(1, 5):
            assert top_k(np.array(row), k).tolist() == wanted[:k]


@pytest.mark.parametrize(("M", "k"), SIZES)
def test_indices_of_rows(M: int, k: int) -> None:
    scores, out = tied_scores(200, M), np.empty((200, k), dtype=np.intp)
    top_k_rows(scores, k, out)
    assert_array_equal(out, top_k(scores, k))


@njit
def _keep(scores, k, kept):
    for r in range(scores.shape[0]):
        keep_best(scores, r * scores.shape[1] * WIDTH, scores.shape[1], WIDTH, k, kept)


@pytest.mark.parametrize(("M", "k"), SIZES)
def test_scores_of_candidates_side_by_side(M: int, k: int) -> None:
    scores = tied_scores(3 * WIDTH, M).reshape(3, WIDTH, M)
    kept = np.empty((3, M, WIDTH))
    _keep(np.ascontiguousarray(scores.swapaxes(1, 2)), k, kept)
    active = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(active, top_k(scores, k), True, axis=-1)
    assert_array_equal(kept.swapaxes(1, 2), np.where(active, scores, -np.inf))


@pytest.mark.parametrize(("M", "k"), SIZES)
def test_batches_of_rows(M: int, k: int) -> None:
    scores, values = tied_scores(300, M), np.random.default_rng(0).normal(size=(300, M))
    out = np.empty_like(scores)
    softmax_rows(values, scores, k, out)
    assert_allclose(out, oracle.gates(scores, values, k), atol=1e-15)


@njit
def _best_places(scores, rows, k, active):
    return [best_places(scores, rows, k, t, active[t]) for t in range(scores.shape[1])]


@pytest.mark.parametrize(("M", "k"), SIZES)
def test_places_of_a_prefix(M: int, k: int) -> None:
    scores = tied_scores(100, M)
    scores[:, -1] = 0.0  # the reference
    rows, active = np.arange(M)[::-1].copy(), np.empty((100, M), dtype=np.int64)
    thresholds = _best_places(np.ascontiguousarray(scores.T[::-1]), rows, k, active)
    wanted = top_k(scores, k)
    assert_array_equal(active[:, :k], wanted)
    kth = np.take_along_axis(scores, wanted[:, -1:], axis=1)[:, 0]
    assert_array_equal(thresholds, np.where(wanted[:, -1] == M - 1, BELOW_ZERO, kth))


def problem(M: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Parameters, features, responses and predictions: whole numbers, so that scores tie and are exact."""
    rng = np.random.default_rng(M)
    theta, features = rng.integers(-1, 2, size=(70, M - 1, 2)), rng.integers(-1, 2, size=(11, 2))
    return theta.astype(np.float64), features.astype(np.float64), rng.normal(size=11), rng.normal(size=(11, M))


@pytest.mark.parametrize(("M", "k"), SIZES)
def test_gates_of_a_list(M: int, k: int) -> None:
    theta, features, y, F = problem(M)
    scores = oracle.list_scores(theta, features)
    gates = oracle.gates(scores, scores, k)
    wanted = oracle.residuals(gates, y, F)
    weights, residuals = np.empty((70, 11, M)), np.empty((70, 11))
    linear_softmax(features, theta, k, weights)
    assert_allclose(weights, gates, atol=1e-15)
    softmax_residuals(theta, features, y, F, k, residuals)
    assert_allclose(residuals, wanted, atol=1e-13)
    tables = explicit_tables(theta, features, y, F, k)
    assert isinstance(tables, ExplicitTables)
    assert_allclose(residual_rows(tables, np.arange(70)), wanted, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 100.0])  # with 100 the tables hold logarithms
@pytest.mark.parametrize(("M", "k"), SIZES)
def test_gates_of_a_product_net(M: int, k: int, scale: float) -> None:
    rng = np.random.default_rng(M)
    parts = [scale * rng.integers(-2, 3, size=(3, 11)) for _ in range(M - 1)]
    y, F = rng.normal(size=11), rng.normal(size=(11, M))
    scores = oracle.product_scores(parts)
    tables = product_tables(oracle.lay_out(parts, k < M), None, y, F, k)
    found = residual_rows(tables, np.arange(len(scores)))
    assert_allclose(found, oracle.residuals(oracle.gates(scores, scores, k), y, F), atol=1e-11)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_weights_of_few_rows_are_those_of_a_batch(k):
    rng = np.random.default_rng(0)
    features, theta = rng.integers(-2, 3, (5, 3)) / 2.0, rng.integers(-4, 5, (6, 3, 4)) / 4.0  # sums without rounding
    share = rng.uniform(size=6)
    theta[1, 1] = theta[1, 0]  # two experts that tie
    theta[2] = 0.0  # all of them
    share[4] = 0.0
    few, batch = np.ones((5, 4)), np.ones((5, 4))
    add_few_softmax(features, theta, np.full(6, k), share, few)
    add_linear_softmax(np.column_stack([np.ones(5), features]), theta, k, share, batch)
    assert_allclose(few, batch, rtol=1e-13)
    scores = np.stack([np.column_stack([one[:, 0] + features @ one[:, 1:].T, np.zeros(5)]) for one in theta])
    weights = np.zeros(scores.shape)
    for place in np.ndindex(6, 5):
        best = top_k(scores[place], k)
        weights[place][best] = softmax(scores[place][best])
    assert_allclose(few, 1.0 + np.einsum("s,sim->im", share, weights), rtol=1e-12)
