"""The mean gate of 10,000 and of 1,000 candidates at 1,000 rows, M = 8, d = 10, on one thread, against blocked NumPy.

The rivals compute scores by one matrix product per block, the rows of a score contiguous, and work in place.
The dense one takes no exponential of the last expert's score, which is zero, and no maximum; for Top-K the other
finds the K largest scores by running maxima and takes exponentials of these alone. Memory is the peak beyond the
inputs.
"""

import tracemalloc
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.timing import in_turn, save
from gatewise import LinearGate

SIZES, N, M, D = (10_000, 1_000), 1_000, 8, 10
BLOCK = 10  # the rival's best of 2 to 20
LARGEST = 700.0  # the exponential of a larger score is infinite


def dense_mean_gate(features: np.ndarray, thetas: np.ndarray) -> np.ndarray:
    """Blocked NumPy without a mask: (B, M-1, n); the last expert's score is zero, and none is too large for exp."""
    total = np.zeros((M, len(features)))
    columns = np.ascontiguousarray(features.T)
    scores, shares = np.empty((BLOCK, M - 1, len(features))), np.empty((BLOCK, len(features)))
    for start in range(0, len(thetas), BLOCK):
        np.matmul(thetas[start : start + BLOCK], columns, out=scores)
        if scores.max() > LARGEST:
            raise ValueError(f"scores must be at most {LARGEST}")
        np.exp(scores, out=scores)
        np.add.reduce(scores, axis=1, out=shares)
        shares += 1.0
        np.divide(1.0, shares, out=shares)
        total[:-1] += np.einsum("bmn,bn->mn", scores, shares)
        total[-1] += shares.sum(axis=0)
    return total.T / len(thetas)


def sparse_mean_gate(features: np.ndarray, thetas: np.ndarray, k: int) -> np.ndarray:
    """Blocked NumPy, the k largest scores by running maxima: exponentials and weights of these alone."""
    total = np.zeros((M, len(features)))
    columns = np.ascontiguousarray(features.T)
    scores = np.zeros((BLOCK, M, len(features)))
    for start in range(0, len(thetas), BLOCK):
        np.matmul(thetas[start : start + BLOCK], columns, out=scores[:, :-1])
        if k == 1:
            total += (scores == scores.max(axis=1, keepdims=True)).sum(axis=0)
            continue
        largest = largest_scores(scores, k)
        lower = [np.exp(one - largest[0]) for one in largest[1:]]
        share = 1.0 / (1.0 + sum(lower))
        for score, weight in zip(largest, [share, *(one * share for one in lower)], strict=True):
            total += ((scores == score[:, None]) * weight[:, None]).sum(axis=0)
    return total.T / len(thetas)


def largest_scores(scores: np.ndarray, k: int) -> list[np.ndarray]:
    """The k largest of the M scores (B, M, n), in falling order, (B, n) each."""
    largest = [scores[:, 0]]
    for m in range(1, M):
        left = scores[:, m]
        for j, one in enumerate(largest):
            largest[j], left = np.maximum(one, left), (np.minimum(one, left) if j < k - 1 else left)
        if len(largest) < k:
            largest.append(left)
    return largest


def peak_bytes(job: Any) -> int:
    tracemalloc.start()
    job()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def measure(S: int, k: int, rounds: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X, thetas = rng.normal(size=(N, D)), rng.normal(size=(S, M - 1, D + 1))
    features = np.column_stack([X, np.ones(N)])
    gate = LinearGate(M, k=k)
    jobs = {
        "gatewise": lambda: gate.mean_weights(X, thetas),
        "numpy": (lambda: sparse_mean_gate(features, thetas, k))
        if k < M
        else lambda: dense_mean_gate(features, thetas),
    }
    np.testing.assert_allclose(jobs["gatewise"](), jobs["numpy"](), atol=1e-12)
    times = in_turn(jobs, rounds)
    return {
        "S": S,
        "k": k,
        "seconds": times.medians(),
        "faster_than_numpy": times.ratio("numpy", "gatewise"),
        "gatewise_peak_mb": peak_bytes(jobs["gatewise"]) / 1e6,
        "numpy_peak_mb": peak_bytes(jobs["numpy"]) / 1e6,
    }


def run(rounds: int = 5) -> dict[str, Any]:
    rows = [measure(S, k, rounds) for S in SIZES for k in (M, 1, 2, 4)]
    return {"n": N, "M": M, "d": D, "threads": 1, "rows": rows}


def main() -> None:
    with threadpool_limits(1):
        save("gate_weights", run())


if __name__ == "__main__":
    main()
