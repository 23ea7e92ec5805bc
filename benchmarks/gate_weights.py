"""The mean gate of 10,000 and of 1,000 candidates at 1,000 rows, M = 8, d = 10, on one thread, against blocked NumPy.

The rivals compute scores by one matrix product per block, lay them out with the rows contiguous and work in place:
the fastest of the layouts and block sizes tried. For Top-K one finds the K largest scores by running maxima, another
by `argpartition`; the faster one of the same run is the rival. Memory is the peak beyond the inputs.
"""

import tracemalloc
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.timing import in_turn, save
from gatewise import LinearGate

SIZES, N, M, D = (10_000, 1_000), 1_000, 8, 10
BLOCK = 10  # the rival's best: 10 x 8 x 1,000 numbers stay in the second-level cache


def running_mean_gate(features: np.ndarray, thetas: np.ndarray, k: int) -> np.ndarray:
    """The same with the k largest scores of every row from running maxima; the leader of k = 1 has all the weight."""
    total = np.zeros((M, len(features)))
    columns = np.ascontiguousarray(features.T)
    scores = np.zeros((BLOCK, M, len(features)))
    for start in range(0, len(thetas), BLOCK):
        np.matmul(thetas[start : start + BLOCK], columns, out=scores[:, :-1])
        scores[:, -1] = 0.0
        largest = [np.full((BLOCK, len(features)), -np.inf) for _ in range(k)]
        for m in range(M):
            left = scores[:, m]
            for j in range(k):
                largest[j], left = np.maximum(largest[j], left), np.minimum(largest[j], left)
        if k == 1:
            total += (scores == largest[0][:, None]).sum(axis=0)
            continue
        chosen = scores >= largest[-1][:, None]
        scores -= largest[0][:, None]
        np.exp(scores, out=scores)
        scores *= chosen
        scores /= scores.sum(axis=1, keepdims=True)
        total += scores.sum(axis=0)
    return total.T / len(thetas)


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


def measure(S: int, k: int, rounds: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X, thetas = rng.normal(size=(N, D)), rng.normal(size=(S, M - 1, D + 1))
    features = np.column_stack([X, np.ones(N)])
    gate = LinearGate(M, k=k)
    jobs = {
        "gatewise": lambda: gate.mean_weights(X, thetas),
        "argpartition": lambda: numpy_mean_gate(features, thetas, k),
        "running maxima": lambda: running_mean_gate(features, thetas, k),
    }
    if k == M:
        del jobs["running maxima"]
    for rival in list(jobs)[1:]:
        np.testing.assert_allclose(jobs["gatewise"](), jobs[rival](), atol=1e-12)
    times = in_turn(jobs, rounds)
    rival = times.fastest(*list(jobs)[1:])
    return {
        "S": S,
        "k": k,
        "seconds": times.medians(),
        "rival": rival if k < M else "dense",
        "times_faster": times.ratio(rival, "gatewise"),
        "gatewise_peak_mb": peak_bytes(jobs["gatewise"]) / 1e6,
        "numpy_peak_mb": peak_bytes(jobs[rival]) / 1e6,
    }


def run(rounds: int = 5) -> dict[str, Any]:
    rows = [measure(S, k, rounds) for S in SIZES for k in (M, 1, 2, 4)]
    return {"n": N, "M": M, "d": D, "threads": 1, "rows": rows}


def main() -> None:
    with threadpool_limits(1):
        save("gate_weights", run())


if __name__ == "__main__":
    main()
