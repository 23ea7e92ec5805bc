"""The mean gate of 10,000 candidates at 1,000 rows, M = 8, d = 10, on one thread, against blocked NumPy.

The rival computes scores by one matrix product per block, lays them out with the rows contiguous and works in place:
the fastest of the layouts and block sizes tried. Memory is the peak beyond the inputs.
"""

import tracemalloc
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.timing import best_times, save
from gatewise import LinearGate

S, N, M, D = 10_000, 1_000, 8, 10
BLOCK = 10  # the rival's best: 10 x 8 x 1,000 numbers stay in the second-level cache


def numpy_mean_gate(features: np.ndarray, thetas: np.ndarray, k: int) -> np.ndarray:
    """Blocked NumPy, candidates first and rows contiguous: (B, M, n)."""
    total = np.zeros((M, len(features)))
    columns = np.ascontiguousarray(features.T)
    for start in range(0, len(thetas), BLOCK):
        theta = thetas[start : start + BLOCK]
        scores = np.zeros((len(theta), M, len(features)))
        np.matmul(theta, columns, out=scores[:, :-1])
        if k < M:
            chosen = np.argpartition(-scores, k - 1, axis=1)[:, :k]
            mask = np.zeros(scores.shape, dtype=bool)
            np.put_along_axis(mask, chosen, True, axis=1)
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        if k < M:
            scores *= mask
        scores /= scores.sum(axis=1, keepdims=True)
        total += scores.sum(axis=0)
    return total.T / len(thetas)


def peak_bytes(job: Any) -> int:
    tracemalloc.start()
    job()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def run() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X, thetas = rng.normal(size=(N, D)), rng.normal(size=(S, M - 1, D + 1))
    features = np.column_stack([X, np.ones(N)])
    rows = []
    for k in (M, 1, 2, 4):
        gate = LinearGate(M, k=k)
        jobs = {
            "gatewise": lambda gate=gate: gate.mean_weights(X, thetas),
            "numpy": lambda k=k: numpy_mean_gate(features, thetas, k),
        }
        np.testing.assert_allclose(jobs["gatewise"](), jobs["numpy"](), atol=1e-12)
        seconds = best_times(jobs, rounds=3)
        rows.append(
            {
                "k": k,
                "gatewise_s": seconds["gatewise"],
                "numpy_s": seconds["numpy"],
                "times_faster": seconds["numpy"] / seconds["gatewise"],
                "gatewise_peak_mb": peak_bytes(jobs["gatewise"]) / 1e6,
                "numpy_peak_mb": peak_bytes(jobs["numpy"]) / 1e6,
            }
        )
    return {"S": S, "n": N, "M": M, "d": D, "threads": 1, "rival": "blocked NumPy", "rows": rows}


def main() -> None:
    with threadpool_limits(1):
        save("gate_weights", run())


if __name__ == "__main__":
    main()
