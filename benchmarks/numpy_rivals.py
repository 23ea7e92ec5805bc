"""Discretized aggregation in plain NumPy, three ways: what the kernels are measured against."""

from dataclasses import dataclass
from typing import Any

import numpy as np


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
    """A list in NumPy with all scores of a few rows from one matrix product, and no needless pass."""
    size, n_free, p = theta.shape
    flat = np.ascontiguousarray(theta.transpose(1, 0, 2)).reshape(-1, p)  # (M-1 * S, p)

    def residual(x: np.ndarray, y: float, f: np.ndarray) -> np.ndarray:
        scores = (flat @ x).reshape(n_free, size)
        top = np.maximum(scores.max(axis=0), 0.0)
        scores -= top
        np.exp(scores, out=scores)
        reference = np.exp(-top)
        mass = scores.sum(axis=0)
        mass += reference
        pull = (y - f[:-1]) @ scores
        pull += (y - f[-1]) * reference
        pull /= mass
        return pull

    return _online_lean(residual, size, blocks, bounds)


def with_product(problem: Problem, bounds: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """A product of two factors in NumPy: no exponential per candidate, no needless pass, no new arrays."""
    first, second = problem.factors
    shape = len(first), len(second)
    buffer = np.empty(shape)
    tables = {}
    for features, y, F in problem.blocks:
        e, last = np.exp(features @ first.T), np.exp(features @ second.T)
        pull = e * (F[:, 1] - F[:, 0])[:, None] + (F[:, 1] - F[:, 2])[:, None]
        tables[id(features)] = (1.0 + e, pull, last, y - F[:, 1])
    blocks = [(range(len(y)), [tables[id(features)]] * len(y), F) for features, y, F in problem.blocks]

    def residual(t: int, table: Any, _: np.ndarray) -> np.ndarray:
        mass, pull, last, gap = table
        np.add(mass[t][:, None], last[t], out=buffer)
        np.divide(pull[t][:, None], buffer, out=buffer)
        np.add(buffer, gap[t], out=buffer)
        return buffer.reshape(-1)

    residuals, mean = _online_lean(residual, shape[0] * shape[1], blocks, bounds, errors=True)
    return problem.blocks[1][1] - residuals, mean


def _online_lean(
    residual: Any, size: int, blocks: Any, bounds: tuple[float, float], errors: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    calibration, aggregation = blocks
    square = np.zeros(size)
    for x, y, f in zip(*calibration, strict=True):
        r = residual(x, y, f)
        np.multiply(r, r, out=r)
        square += r
    sigma = np.sqrt(np.clip(square / len(calibration[0]), bounds[0] ** 2, bounds[1] ** 2))
    scale, offset = np.sqrt(0.5) / sigma, np.log(sigma)
    log_weights, mean, weights = np.zeros(size), np.zeros(size), np.empty(size)
    out = np.empty(len(aggregation[0]))
    for t, (x, y, f) in enumerate(zip(*aggregation, strict=True)):
        r = residual(x, y, f)
        np.subtract(log_weights, log_weights.max(), out=weights)
        np.exp(weights, out=weights)
        weights *= 1.0 / weights.sum()
        mean += weights
        online = weights @ r
        out[t] = online if errors else y - online
        np.multiply(r, scale, out=r)
        np.multiply(r, r, out=r)
        log_weights -= r
        log_weights -= offset
    return out, mean / len(out)
