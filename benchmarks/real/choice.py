"""Settings chosen on one half of the data and judged on the other, both ways round."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from benchmarks.real.competitors import OURS, STACK
from benchmarks.real.run import SplitResult
from benchmarks.real.summary import Errors, fact_means, mean_errors, Standing, standings

Results = Sequence[SplitResult]
ByPool = Mapping[str, Results]


@dataclass(frozen=True)
class Crossed:
    """One pool on some data sets, with the settings that were chosen without them."""

    pool: str
    rows: str  # which data sets: a half, or both
    settings: str
    errors: Errors
    standings: list[Standing]
    facts: Mapping[str, Any]

    def record(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "pool": self.pool,
            "rows": self.rows,
            "settings": self.settings,
            "standings": [asdict(one) for one in self.standings],
            "facts": dict(self.facts),
            "competitors": list(self.errors.competitors),
            "mse": {data: list(row) for data, row in zip(self.errors.data, self.errors.mse.tolist(), strict=True)},
        }


def entry_name(settings: str) -> str:
    """What the router with these settings is called among the competitors."""
    return f"{OURS}: {settings}"


def losses(results: ByPool, names: Sequence[str], grid: Sequence[str]) -> dict[str, float]:
    """For every entry of the grid the mean over pools and data sets of log(MSE over the simplex stack's MSE)."""
    found: dict[str, list[float]] = {entry: [] for entry in grid}
    for runs in results.values():
        errors = mean_errors([one for one in runs if one.data in set(names)])
        stack = errors.mse[:, errors.competitors.index(STACK)]
        for entry in grid:
            mse = errors.mse[:, errors.competitors.index(entry_name(entry))]
            found[entry].append(float(np.log(mse / stack).mean()))
    return {entry: float(np.mean(values)) for entry, values in found.items()}


def best_settings(results: ByPool, names: Sequence[str], grid: Sequence[str]) -> str:
    """The entry with the least loss on the data sets of these names; the first of the grid among equals."""
    values = losses(results, names, grid)
    return min(grid, key=lambda entry: values[entry])


def crossed(results: ByPool, halves: Sequence[Sequence[str]], grid: Sequence[str]) -> list[Crossed]:
    """For every pool: each half with the settings chosen on the other half, by all pools, and both together."""
    chosen = [best_settings(results, other, grid) for other in reversed(halves)]
    found = []
    for pool, runs in results.items():
        parts = [_as_ours(runs, names, entry) for names, entry in zip(halves, chosen, strict=True)]
        labels = [*zip(("first half", "second half"), chosen, parts, strict=True)]
        for rows, entry, part in [*labels, ("both halves", " and ".join(chosen), [*parts[0], *parts[1]])]:
            errors = mean_errors(part)
            found.append(Crossed(pool, rows, entry, errors, standings(errors), fact_means(part)))
    return found


def _as_ours(runs: Results, names: Sequence[str], entry: str) -> list[SplitResult]:
    """The results on some data sets of the rivals and of one entry, which is called by the router's name."""
    mine = entry_name(entry)
    kept = [one for one in runs if one.data in set(names)]
    kept = [one for one in kept if one.competitor == mine or not one.competitor.startswith(f"{OURS}: ")]
    return [replace(one, competitor=OURS) if one.competitor == mine else one for one in kept]
