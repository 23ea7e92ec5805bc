"""Gates of boosted trees: trees that compiled code grows, and scikit-learn's, in one run on one thread.

Both boost the scores of a softmax gate on the squared error of the mixture: a tree for all experts a round, Newton
leaves clipped at 4, shrinkage 0.3. ``ours`` is what the learned list fits, of more than 20,000 rows with trees on
some of them; ``scikit-learn`` grows a `DecisionTreeRegressor` with an output for every expert. Errors are squared
distances to the truth at fresh rows; seconds are CPU seconds.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from benchmarks.resolution import DESIGNS, FRESH
from benchmarks.timing import save
from gatewise import kernels
from gatewise.arrays import Floats
from gatewise.router.tree_members import GATE_BAGS, GATE_DEPTHS, GATE_ROUNDS, GATE_SHRINKAGE

CASES = (("board 4 x 4", 1000), ("board 4 x 4", 10_000), ("board 4 x 4", 60_000), ("16 regions, 8 experts", 10_000))
LARGEST_STEP, LEAST_LEAF, PRECISION = 4.0, 5, 1.0
DRAWS = 5
Way = Callable[[Floats, Floats, Floats, float, Floats], Floats]


def with_scikit_learn(X: Floats, F: Floats, y: Floats, scale: float, new: Floats) -> Floats:
    """The scores (rows, M) at new rows."""
    scores, found = np.zeros(F.shape), np.zeros((len(new), F.shape[1]))
    for _ in range(GATE_ROUNDS[-1]):
        g = softmax(scores, axis=1)
        z = (g * F).sum(axis=1)
        tilts = g * (F - z[:, None])
        gradient, curvature = (z - y)[:, None] * tilts / scale**2, (tilts / scale) ** 2
        tree = DecisionTreeRegressor(max_depth=GATE_DEPTHS[-1], min_samples_leaf=LEAST_LEAF).fit(X, -gradient)
        leaf, n_nodes = tree.apply(X), tree.tree_.node_count
        sums = [np.stack([np.bincount(leaf, one, n_nodes) for one in part.T]) for part in (gradient, curvature)]
        step = np.clip(-sums[0] / (sums[1] + PRECISION), -LARGEST_STEP, LARGEST_STEP).T
        scores += GATE_SHRINKAGE * step[leaf]
        found += GATE_SHRINKAGE * step[tree.apply(new)]
    return found


def compiled(X: Floats, F: Floats, y: Floats, scale: float, new: Floats) -> Floats:
    """The same with trees that compiled code grows."""
    M = F.shape[1]
    sample = kernels.BoostingSample(np.full(M, 1.0 / M), np.ones(len(y)), scale, np.arange(1))
    plan = kernels.Boosting(GATE_DEPTHS[-1], GATE_SHRINKAGE, GATE_ROUNDS[-1:], GATE_BAGS)
    (fit,) = kernels.boost(kernels.BoostingProblem(X, F, y), [sample], "scores", plan, 0)
    return kernels.tree_sums(new, fit.trees, None)


def case(name: str, n: int) -> dict[str, Any]:
    """Seconds and errors of both, means over some draws."""
    ways: dict[str, Way] = {"ours": compiled, "scikit-learn": with_scikit_learn}
    spent: dict[str, list[float]] = {way: [] for way in ways}
    errors: dict[str, list[float]] = {way: [] for way in ways}
    for seed in range(DRAWS):
        design, rng = DESIGNS[name], np.random.default_rng([seed, n])
        X, y = design.draw(n, rng)
        new, _ = design.draw(FRESH, rng)
        F, new_F, truth = design.forecasts(X), design.forecasts(new), design.truth(new)
        scale = float(np.sqrt(np.mean((y - F.mean(axis=1)) ** 2)))
        for way, learn in ways.items():
            learn(X[:200], F[:200], y[:200], scale, new[:1])  # compiled code is loaded
            start = time.process_time()
            scores = learn(X, F, y, scale, new)
            spent[way].append(time.process_time() - start)
            errors[way].append(float(np.mean(((softmax(scores, axis=1) * new_F).sum(axis=1) - truth) ** 2)))
    row: dict[str, Any] = {"design": name, "n": n, "draws": DRAWS}
    row |= {way: {"cpu_seconds": np.mean(spent[way]), "error": np.mean(errors[way])} for way in ways}
    row["faster"] = float(np.median(np.divide(spent["scikit-learn"], spent["ours"])))
    return row


def main() -> None:
    with threadpool_limits(1):
        rows = [case(name, n) for name, n in CASES]
    save("tree_gates", {"rows": rows})


if __name__ == "__main__":
    main()
