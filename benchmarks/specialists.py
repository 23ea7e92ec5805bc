"""Designs with known specialists among eight experts, or none: how often does the test raise an alarm?"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gatewise.arrays import Floats
from gatewise.geometry import adjusted_p_values, EstimatedRegions, specialization

M = 8
SHARES = (0.3, 0.2, 0.15, 0.1, 0.1, 0.08, 0.04, 0.03)  # some experts see few rows


@dataclass(frozen=True)
class Sample:
    """Losses (n, M), who is chosen where (labels, or a rule that finds regions from losses), and X."""

    losses: Floats
    assignments: Any
    X: Floats | None = None


def nothing_special(rng: np.random.Generator, n: int = 600) -> Sample:
    """Squared errors with a common part, of one distribution for all experts and rows."""
    losses = (rng.normal(size=(n, 1)) + rng.normal(size=(n, M))) ** 2
    return Sample(losses, rng.choice(M, size=n, p=SHARES))


def better_everywhere(rng: np.random.Generator, n: int = 600) -> Sample:
    """The first expert beats every other everywhere, by the same amount on average."""
    sample = nothing_special(rng, n)
    sample.losses[:, 0] *= 0.2
    return sample


def heavy_tails(rng: np.random.Generator, n: int = 600) -> Sample:
    """Rare, very large losses: an expert seen on few rows escapes them by luck."""
    losses = rng.standard_t(2.5, size=(n, M)) ** 2
    return Sample(losses, rng.choice(M, size=n, p=SHARES))


def noisy_places(rng: np.random.Generator, n: int = 600) -> Sample:
    """Losses six times as variable where x is small, their means equal; the regions are bands of x."""
    x = rng.uniform(size=n)
    losses = 10 + rng.normal(size=(n, M)) * np.where(x < 0.25, 6.0, 1.0)[:, None]
    return Sample(losses, np.digitize(x, np.cumsum(SHARES)[:-1]))


def regions_of_noise(rng: np.random.Generator, n: int = 600) -> Sample:
    """Regions that are found in pure noise, by a rule that sees one half of the rows."""
    return Sample(nothing_special(rng, n).losses, EstimatedRegions, rng.uniform(size=(n, 2)))


# The designs without a specialist.
NULLS: tuple[Callable[[np.random.Generator], Sample], ...] = (
    nothing_special,
    better_everywhere,
    heavy_tails,
    noisy_places,
    regions_of_noise,
)


def three_special(rng: np.random.Generator, n: int = 1200, effect: float = 0.8) -> Sample:
    """The first three experts lose ``effect`` less where they are chosen; the other five are chosen at random.

    The standard deviation of the difference of two experts' losses is about 1.7.
    """
    where = rng.integers(M, size=n)
    losses = (0.7 * rng.normal(size=(n, 1)) + 0.7 * rng.normal(size=(n, M))) ** 2 + effect
    for m in range(3):
        losses[where == m, m] -= effect
    return Sample(losses, where)


def false_alarms(design: Callable[[np.random.Generator], Sample], runs: int, seed: int = 11) -> tuple[float, float]:
    """The share of runs with any false alarm, and with any if only the null of no excess were tested."""
    alarms = np.zeros(2)
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        sample = design(rng)
        found = specialization(sample.losses, sample.assignments, sample.X, seed=rng)
        excess = adjusted_p_values([report.p_value for report in found.experts if report.tested])
        alarms += bool(found.special), bool((excess <= found.alpha).any())
    return float(alarms[0]) / runs, float(alarms[1]) / runs


def power(runs: int, n: int = 1200, effect: float = 0.8, seed: int = 12) -> tuple[float, float]:
    """The share of the three specialists that is found, and the false discovery rate."""
    found, false = 0, 0.0
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        sample = three_special(rng, n, effect)
        special = specialization(sample.losses, sample.assignments, seed=rng).special
        found += sum(m < 3 for m in special)
        false += sum(m >= 3 for m in special) / max(len(special), 1)
    return found / (3 * runs), false / runs
