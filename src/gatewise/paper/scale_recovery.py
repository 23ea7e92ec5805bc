"""Scales of sharing on a design whose truth is known: is the scale of sharing of every component recovered?

Four regions, quarters of [0, 1] in the first feature, on the tree ((0, 1), (2, 3)). Five components with features to
themselves: a slope that all regions share, a wave that each pair shares, a parabola of each region's own, an offset
by pair, and a slope that is not there. Noise 0.5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gatewise.arrays import as_count, Floats, Indices
from gatewise.paper.runner import Runner
from gatewise.shared.bases import ConstantBasis, FeatureMap, FourierBasis, PolynomialBasis
from gatewise.shared.sharing_scales import fit_scales

TREE = ((0, 1), (2, 3))
COMPONENTS: dict[str, FeatureMap] = {
    "trend": PolynomialBasis(1, feature=1, intercept=False),
    "wave": FourierBasis(1, feature=2, low=0.0, high=1.0, intercept=False),
    "parabola": PolynomialBasis(2, feature=3, intercept=False),
    "offset": ConstantBasis(),
    "nothing": PolynomialBasis(1, feature=4, intercept=False),
}
COEFFICIENTS: dict[str, Floats] = {
    "trend": np.full((4, 1), 1.0),
    "wave": np.array([[0.5, 0.2], [0.5, 0.2], [-0.2, 0.5], [-0.2, 0.5]]),
    "parabola": np.array([[1.0, -1.0], [0.0, 1.0], [-1.0, 0.5], [0.5, 0.5]]),
    "offset": np.array([[0.5], [0.5], [-0.2], [-0.2]]),
    "nothing": np.zeros((4, 1)),
}
TRUTH = {"trend": "all", "wave": "group", "parabola": "local", "offset": "group", "nothing": "absent"}


@dataclass(frozen=True)
class RecoveryRow:
    """How often the scale of sharing of a component, or of all of them at once, was recovered."""

    component: str
    scale: str
    n: int
    runs: int
    recovered: int


def sample(n: int, rng: np.random.Generator) -> tuple[Floats, Indices, Floats]:
    """Rows X (n, 5), uniform; their regions (n,); responses (n,)."""
    X = rng.uniform(size=(n, 5))
    labels = np.minimum((4 * X[:, 0]).astype(np.intp), 3)
    mean = sum((COMPONENTS[name].transform(X) * COEFFICIENTS[name][labels]).sum(axis=1) for name in COMPONENTS)
    return X, labels, mean + rng.normal(scale=0.5, size=n)


def replicate(n: int, replication: int, seed: int = 0) -> dict[str, str]:
    """The scales of sharing found on one sample."""
    X, labels, y = sample(n, np.random.default_rng(np.random.SeedSequence((seed, 3, n, replication))))
    columns = {name: basis.transform(X) for name, basis in COMPONENTS.items()}
    return fit_scales(columns, labels, TREE, y).scales


def run(
    sizes: Sequence[int] = (500, 1000, 2000),
    reps: int = 100,
    seed: int = 0,
    runner: Runner | None = None,
) -> list[RecoveryRow]:
    """How often every component's scale of sharing, and all of them at once, are recovered, at every sample size."""
    as_count(reps, "reps")
    tasks = [(n, r, seed) for n in sizes for r in range(reps)]
    found = (runner or Runner()).run("scales/1", replicate, tasks)
    rows = []
    for i, n in enumerate(sizes):
        runs = found[i * reps : (i + 1) * reps]
        rows += [RecoveryRow(c, s, n, reps, sum(got[c] == s for got in runs)) for c, s in TRUTH.items()]
        rows.append(RecoveryRow("all of them", "", n, reps, sum(got == TRUTH for got in runs)))
    return rows
