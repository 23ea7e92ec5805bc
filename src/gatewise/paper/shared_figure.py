"""`fig:fourier-simulation`: prediction error with and without a shared expert, the threshold unknown.

Readings of what the text leaves open: the local coordinates 2x and 2x - 1 stay where they are while the threshold is
searched ("fixed"), or move with it ("moving": x / c and (x - c) / (1 - c)); the integral is a mean over
5,000 midpoints.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gatewise.arrays import as_count, Floats
from gatewise.estimators.shared_routed_regressor import SharedRoutedRegressor
from gatewise.paper.runner import Runner
from gatewise.paper.shared_designs import SHARED_DESIGNS
from gatewise.shared.partition import ThresholdSearch
from gatewise.stats import mean_and_error

NAME = "shared/1"  # the second number goes up when a replication's result would change
SIZES = (200, 400, 800, 1600)
GRID = (np.arange(5000) + 0.5)[:, None] / 5000
THRESHOLDS = tuple(np.linspace(0.1, 0.9, 200).tolist())


@dataclass(frozen=True)
class FigureRow:
    """One point of the figure: mean and standard deviation of both estimators' errors, and the mean difference."""

    design: str
    n: int
    shared_mse: float
    shared_sd: float
    pure_mse: float
    pure_sd: float
    gain: float  # pure minus shared
    gain_se: float

    @property
    def claim(self) -> str:
        """Whether the caption's "lower" is so here: "holds" or "fails" by two standard errors, or "open".

        >>> FigureRow("simple-shared", 200, 0.026, 0.01, 0.027, 0.01, 0.001, 0.002).claim
        'open'
        """
        if abs(self.gain) <= 2.0 * self.gain_se:
            return "open"
        return "holds" if self.gain > 0.0 else "fails"


def replicate(
    design: str, n: int, replication: int, seed: int = 0, coordinates: str = "fixed"
) -> tuple[float, float]:
    """The integrated squared error of the joint and of the pure estimator on one sample."""
    chosen = SHARED_DESIGNS[design]
    key = (seed, list(SHARED_DESIGNS).index(design), n, replication)
    X, y = chosen.sample(n, np.random.default_rng(np.random.SeedSequence(key)))
    routed = chosen.routed if coordinates == "fixed" else replace(chosen.routed, low=0.0, high=1.0)
    partition = ThresholdSearch(0, grid=THRESHOLDS, coordinates=coordinates)
    truth = chosen.truth(GRID)
    errors = []
    for method in ("joint", "pure"):
        model = SharedRoutedRegressor(chosen.shared, routed, partition, method).fit(X, y)
        errors.append(float(((model.predict(GRID) - truth) ** 2).mean()))
    return errors[0], errors[1]


def run(
    sizes: Sequence[int] = SIZES,
    reps: int = 200,
    seed: int = 0,
    coordinates: str = "fixed",
    runner: Runner | None = None,
) -> list[FigureRow]:
    """Both panels of the figure."""
    as_count(reps, "reps", low=2)
    cells = [(design, n) for design in SHARED_DESIGNS for n in sizes]
    # One replication of all cells after the other, so that the time left can be told early.
    tasks = [(design, n, r, seed, coordinates) for r in range(reps) for design, n in cells]
    errors = (runner or Runner()).run(NAME, replicate, tasks)
    return [_summary(design, n, np.array(errors[i :: len(cells)])) for i, (design, n) in enumerate(cells)]


def _summary(design: str, n: int, pairs: Floats) -> FigureRow:
    """One point from the errors (reps, 2) of both estimators."""
    (shared, pure), (shared_sd, pure_sd) = pairs.mean(axis=0).tolist(), pairs.std(axis=0, ddof=1).tolist()
    gain, gain_se = mean_and_error(pairs[:, 1] - pairs[:, 0])
    return FigureRow(design, n, shared, shared_sd, pure, pure_sd, gain, gain_se)
