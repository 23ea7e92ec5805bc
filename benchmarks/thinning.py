"""Is the error of keeping only some states told honestly? Its upper bound against the true error, 200 fits.

A network and a line are learned along 420 rows with memory for a few states. The truth needs all states: the same fit
with enough memory, on the same rows in the same order, at fresh points. ``python -m benchmarks.thinning`` files how
often the 95 % bound is at least the true error; the bar is 184 of 200.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.neural_network import MLPRegressor

from benchmarks.timing import save
from gatewise import LinearGate, RouterAggregator
from gatewise.aggregation import Blocks, Updates
from gatewise.experts import AffineExpert

GATE = LinearGate(2, intercept=False)
NET = GATE.net([-4.0, 0.0, 4.0], d=2)
N, EVERY, MEMORY = 420, 5, 0.03  # rows, rows between updates, MiB for states
SEEDS = range(1000, 1200)


class ThinningError(NamedTuple):
    """The error that was reported, its upper bound, and the true one."""

    reported: float
    bound: float
    true: float


def sample(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, 2))
    truth = np.where(X[:, 0] > 0, 2.0 * X[:, 1] + 1.0, -X[:, 0] - X[:, 1])
    return X, truth + rng.normal(scale=0.3, size=n)


def thinning_error(seed: int, n_fresh: int = 4000) -> ThinningError:
    """One fit with little memory and the same with enough."""
    X, y = sample(N, seed)
    network = MLPRegressor(hidden_layer_sizes=(3,), random_state=0, learning_rate_init=0.05)
    experts = [network.partial_fit(X[:1], y[:1]), AffineExpert((0.0, 2.0), 1.0)]
    little = Blocks(60, 60, updates=Updates(EVERY, memory=MEMORY))
    thin = RouterAggregator(experts, GATE, NET, blocks=little, random_state=seed).fit(X, y)
    used = thin.order_[: sum(thin.blocks_)]
    enough = Blocks(60, 60, updates=EVERY, order="given")
    exact = RouterAggregator(experts, GATE, NET, blocks=enough, random_state=seed).fit(X[used], y[used])
    fresh, _ = sample(n_fresh, 10_000 + seed)
    true = float(np.sqrt(np.mean((thin.predict(fresh) - exact.predict(fresh)) ** 2)))
    return ThinningError(thin.thinning_error_, thin.thinning_bound_, true)


def run(seeds: Iterable[int] = SEEDS, n_fresh: int = 4000) -> dict[str, Any]:
    found = np.array([thinning_error(seed, n_fresh) for seed in seeds])
    reported, bound, true = found.T
    return {
        "runs": len(found),
        "covered": int((bound >= true).sum()),
        "reported_over_true": np.quantile(reported / true, [0.05, 0.5, 0.95]).round(3).tolist(),
        "bound_over_true": np.quantile(bound / true, [0.05, 0.5, 0.95]).round(3).tolist(),
        "mean_true": float(true.mean().round(5)),
    }


def main() -> None:
    save("thinning", run())


if __name__ == "__main__":
    main()
