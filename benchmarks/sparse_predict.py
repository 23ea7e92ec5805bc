"""A Top-1 mixture of 16 experts against the dense one: experts that cost 1 ms per 1,000 rows, 100,000 rows."""

import time
from typing import Any

import numpy as np

from benchmarks.timing import in_turn, save
from gatewise import LinearGate, MixtureOfExperts

N, M, D = 100_000, 16, 4


class SlowExpert:
    """Predicts a constant and takes 1 microsecond a row, on the processor, to do it."""

    def __init__(self, value: float) -> None:
        self.value = value

    def predict(self, X: np.ndarray) -> np.ndarray:
        until = time.perf_counter() + 1e-6 * len(X)
        while time.perf_counter() < until:
            pass
        return np.full(len(X), self.value)


def run() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X, theta = rng.normal(size=(N, D)), rng.normal(size=(M - 1, D + 1))
    experts = [SlowExpert(float(m)) for m in range(M)]
    models = {k: MixtureOfExperts(LinearGate(M, k=k), theta, experts) for k in (None, 1, 2)}
    names = {None: "dense", 1: "top1", 2: "top2"}
    times = in_turn({names[k]: (lambda m=m: m.predict(X)) for k, m in models.items()}, rounds=7)
    return {
        "n": N,
        "M": M,
        "seconds": times.medians(),
        "top1_over_dense": times.ratio("top1", "dense"),
        "top2_over_dense": times.ratio("top2", "dense"),
    }


def main() -> None:
    save("sparse_predict", run())


if __name__ == "__main__":
    main()
