"""``python -m benchmarks.specialists``: designs with known specialists among eight experts, or none.

How often does the test of specialization raise a false alarm, and how many of the specialists does it find?
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command import start
from gatewise.arrays import Floats
from gatewise.geometry import adjusted_p_values, EstimatedRegions, specialization

M = 8
SHARES = (0.3, 0.2, 0.15, 0.1, 0.1, 0.08, 0.04, 0.03)  # some experts see few rows


@dataclass(frozen=True)
class LossSample:
    """Losses (n, M), who is chosen where (labels, or a rule that finds regions from losses), and X."""

    losses: Floats
    assignments: Any
    X: Floats | None = None


def nothing_special(rng: np.random.Generator, n: int = 600) -> LossSample:
    """Squared errors with a common part, of one distribution for all experts and rows."""
    losses = (rng.normal(size=(n, 1)) + rng.normal(size=(n, M))) ** 2
    return LossSample(losses, rng.choice(M, size=n, p=SHARES))


def better_everywhere(rng: np.random.Generator, n: int = 600) -> LossSample:
    """The first expert beats every other everywhere, by the same amount on average."""
    sample = nothing_special(rng, n)
    sample.losses[:, 0] *= 0.2
    return sample


def heavy_tails(rng: np.random.Generator, n: int = 600) -> LossSample:
    """Rare, very large losses: an expert seen on few rows escapes them by luck."""
    losses = rng.standard_t(2.5, size=(n, M)) ** 2
    return LossSample(losses, rng.choice(M, size=n, p=SHARES))


def noisy_places(rng: np.random.Generator, n: int = 600) -> LossSample:
    """Losses six times as variable where x is small, their means equal; the regions are bands of x."""
    x = rng.uniform(size=n)
    losses = 10 + rng.normal(size=(n, M)) * np.where(x < 0.25, 6.0, 1.0)[:, None]
    return LossSample(losses, np.digitize(x, np.cumsum(SHARES)[:-1]))


def regions_of_noise(rng: np.random.Generator, n: int = 600) -> LossSample:
    """Regions that are found in pure noise, by a rule that sees one half of the rows."""
    return LossSample(nothing_special(rng, n).losses, EstimatedRegions, rng.uniform(size=(n, 2)))


# The designs without a specialist.
NULLS: tuple[Callable[[np.random.Generator], LossSample], ...] = (
    nothing_special,
    better_everywhere,
    heavy_tails,
    noisy_places,
    regions_of_noise,
)


def three_special(rng: np.random.Generator, n: int = 1200, effect: float = 0.8) -> LossSample:
    """The first three experts lose ``effect`` less where they are chosen; the other five are chosen at random.

    The standard deviation of the difference of two experts' losses is about 1.7.
    """
    where = rng.integers(M, size=n)
    losses = (0.7 * rng.normal(size=(n, 1)) + 0.7 * rng.normal(size=(n, M))) ** 2 + effect
    for m in range(3):
        losses[where == m, m] -= effect
    return LossSample(losses, where)


def false_alarms(
    design: Callable[[np.random.Generator], LossSample], runs: int, seed: int = 11
) -> tuple[float, float]:
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


def level_and_power(level_runs: int, power_runs: int) -> dict[str, Any]:
    """False alarms on every design without specialists, and the share of three specialists found at five settings."""
    rows = []
    for n, effect in ((800, 0.8), (1200, 0.8), (2400, 0.8), (1200, 0.5), (1200, 1.2)):
        found, false = power(power_runs, n, effect)
        rows.append({"n": n, "effect": effect, "found": found, "false_discovery_rate": false})
    level = {}
    for design in NULLS:
        any_alarm, any_excess = false_alarms(design, level_runs)
        level[design.__name__] = {"any_alarm": any_alarm, "any_alarm_excess_only": any_excess}
    return {"level_runs": level_runs, "power_runs": power_runs, "level": level, "power": rows}


def main(
    level_runs: Annotated[int, typer.Option(min=1, help="Samples of every design without specialists.")] = 100,
    power_runs: Annotated[int, typer.Option(min=1, help="Samples of every setting with three of them.")] = 50,
) -> None:
    """Level and power of the test of specialization; `python -m benchmarks.specialization` files a longer run."""
    print(json.dumps(level_and_power(level_runs, power_runs), indent=2))


if __name__ == "__main__":
    start(main)
