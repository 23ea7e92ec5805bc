"""Discretized aggregation in plain NumPy, three ways: what the kernels are tested and measured against.

The plain one is an oracle. The other two are as fast as we could make NumPy: no needless pass or new array, scores of
many rows from one matrix product, and exponentials only of weights that are not lost beside the largest.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

FEWEST_NUMBERS, ROWS, LOST = 16_000, 50, 45.0


@dataclass(frozen=True)
class Problem:
    """theta (S, M-1, p) = the product of factors (G_m, p); two blocks of rows: features, y, F for each."""

    factors: tuple[np.ndarray, ...]
    blocks: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]

    @property
    def theta(self) -> np.ndarray:
        grid = np.meshgrid(*(np.arange(len(f)) for f in self.factors), indexing="ij")
        return np.stack([f[i.ravel()] for f, i in zip(self.factors, grid, strict=True)], axis=1)


def plain(theta: np.ndarray, blocks: Any, bounds: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """As a user would write it: observation by observation, vectors over the candidates."""

    size, n_free, p = theta.shape
    flat = theta.reshape(-1, p)

    def residual(x: np.ndarray, y: float, f: np.ndarray) -> np.ndarray:
        scores = np.concatenate([(flat @ x).reshape(size, n_free), np.zeros((size, 1))], axis=1)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        return y - weights @ f

    return _online(residual, size, blocks, bounds)


def _online(residual: Any, size: int, blocks: Any, bounds: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    calibration, aggregation = blocks
    square = np.zeros(size)
    for x, y, f in zip(*calibration, strict=True):
        square += residual(x, y, f) ** 2
    sigma = np.sqrt(np.clip(square / len(calibration[1]), bounds[0] ** 2, bounds[1] ** 2))
    log_weights, mean = np.zeros(size), np.zeros(size)
    predictions = []
    for x, y, f in zip(*aggregation, strict=True):
        r = residual(x, y, f)
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        mean += weights
        predictions.append(y - weights @ r)
        log_weights += -0.5 * (r / sigma) ** 2 - np.log(sigma)
    return np.array(predictions), mean / len(predictions)


def with_blas(theta: np.ndarray, blocks: Any, bounds: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """A list in NumPy: residuals of ROWS rows at once, for as many candidates as stay in the cache."""
    size, n_free, p = theta.shape
    step = max(1, FEWEST_NUMBERS // (ROWS * n_free))
    parts = [
        (slice(start, start + step), theta[start : start + step].transpose(2, 1, 0).reshape(p, -1))
        for start in range(0, size, step)
    ]  # (p, M-1 * B) each

    def table(features: np.ndarray, y: np.ndarray, F: np.ndarray) -> np.ndarray:
        out, gaps = np.empty((len(y), size)), y[:, None] - F
        for here, columns in parts:
            scores = (features @ columns).reshape(len(y), n_free, -1)  # (R, M-1, B)
            top = np.maximum(scores.max(axis=1), 0.0)
            scores -= top[:, None]
            np.exp(scores, out=scores)
            reference = np.exp(-top)
            pull = np.matmul(gaps[:, None, :-1], scores)[:, 0]
            pull += gaps[:, -1:] * reference
            pull /= scores.sum(axis=1) + reference
            out[:, here] = pull
        return out

    def rows(block: Any) -> Any:
        features, y, F = block
        for start in range(0, len(y), ROWS):
            here = slice(start, start + ROWS)
            yield from table(features[here], y[here], F[here])

    residuals, mean = _online_lean(rows(blocks[0]), rows(blocks[1]), size, len(blocks[0][1]), bounds)
    return blocks[1][1] - residuals, mean


def with_product(problem: Problem, bounds: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """A product of two factors in NumPy: no exponential per candidate and row but those of the weights."""
    first, second = problem.factors
    shape = len(first), len(second)
    buffer = np.empty(shape)

    def rows(block: Any) -> Any:
        features, y, F = block
        e, last = np.exp(features @ first.T), np.exp(features @ second.T)
        pull = e * (F[:, 1] - F[:, 0])[:, None] + (F[:, 1] - F[:, 2])[:, None]
        mass, gap = 1.0 + e, y - F[:, 1]
        for t in range(len(y)):
            np.add(mass[t][:, None], last[t], out=buffer)
            np.divide(pull[t][:, None], buffer, out=buffer)
            np.add(buffer, gap[t], out=buffer)
            yield buffer.reshape(-1)

    calibration, aggregation = problem.blocks
    size, n = shape[0] * shape[1], len(calibration[1])
    residuals, mean = _online_lean(rows(calibration), rows(aggregation), size, n, bounds)
    return aggregation[1] - residuals, mean


def _online_lean(
    calibration: Any, aggregation: Any, size: int, n: int, bounds: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Residuals (T,) of the online predictions, and mean weights (S,), from the residuals (S,) of row after row.

    They may be overwritten. Weights that are lost beside the largest are taken as zero without an exponential.
    """
    square = np.zeros(size)
    for r in calibration:
        np.multiply(r, r, out=r)
        square += r
    sigma = np.sqrt(np.clip(square / n, bounds[0] ** 2, bounds[1] ** 2))
    scale, offset = np.sqrt(0.5) / sigma, np.log(sigma)
    log_weights, mean, weights = np.zeros(size), np.zeros(size), np.empty(size)
    out, few = [], False
    for r in aggregation:
        top = log_weights.max()
        kept = np.flatnonzero(log_weights > top - LOST) if few else None
        if kept is None:
            np.subtract(log_weights, top, out=weights)
            np.exp(weights, out=weights)
            few = np.count_nonzero(weights > np.exp(-LOST)) < size // 4
            weights *= 1.0 / weights.sum()
            mean += weights
            out.append(weights @ r)
        else:
            some = np.exp(log_weights[kept] - top)
            some *= 1.0 / some.sum()
            mean[kept] += some
            out.append(some @ r[kept])
        np.multiply(r, scale, out=r)
        np.multiply(r, r, out=r)
        log_weights -= r
        log_weights -= offset
    return np.array(out), mean / len(out)
