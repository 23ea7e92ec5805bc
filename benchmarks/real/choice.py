"""Settings chosen on one half of the data and judged on the other, both ways round."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from benchmarks.real.competitors import OURS, STACK
from benchmarks.real.run import SplitResult
from benchmarks.real.summary import Errors, fact_means, mean_errors, Standing, standings
from gatewise.arrays import Floats

Results = Sequence[SplitResult]
ByPool = Mapping[str, Results]
Choose = Callable[[ByPool, Sequence[str], Sequence[str]], str]  # of results, names of data sets and a grid


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


def _log_ratios(results: ByPool, names: Sequence[str], grid: Sequence[str]) -> Floats:
    """log(MSE over the simplex stack's MSE), the mean over the pools, (data sets, entries of the grid)."""
    found = []
    for runs in results.values():
        errors = mean_errors([one for one in runs if one.data in set(names)])
        columns = [errors.competitors.index(entry_name(entry)) for entry in grid]
        rows = [errors.data.index(name) for name in names]
        logs = np.log(errors.mse)[rows]
        found.append(logs[:, columns] - logs[:, [errors.competitors.index(STACK)]])
    return np.asarray(np.mean(found, axis=0))


def losses(results: ByPool, names: Sequence[str], grid: Sequence[str]) -> dict[str, float]:
    """For every entry of the grid the mean over pools and data sets of log(MSE over the simplex stack's MSE)."""
    return dict(zip(grid, _log_ratios(results, names, grid).mean(axis=0).tolist(), strict=True))


def least_mean(results: ByPool, names: Sequence[str], grid: Sequence[str]) -> str:
    """The entry with the least loss on the data sets of these names; the first of the grid among equals."""
    return grid[int(_log_ratios(results, names, grid).mean(axis=0).argmin())]


def best_settings(results: ByPool, names: Sequence[str], grid: Sequence[str]) -> str:
    """The last entry of the grid whose loss is within one standard error of the least.

    The error is that of the difference to the entry with the least loss, over the data sets of these names. Which of
    several nearly equal entries has the least loss is chance; the grid ends with those nearest to the theory.
    """
    ratios = _log_ratios(results, names, grid)
    above = ratios - ratios[:, [int(ratios.mean(axis=0).argmin())]]
    errors = above.std(axis=0, ddof=1) / np.sqrt(len(names))
    return grid[int(np.flatnonzero(above.mean(axis=0) <= errors)[-1])]


def crossed(
    results: ByPool, halves: Sequence[Sequence[str]], grid: Sequence[str], choose: Choose = best_settings
) -> list[Crossed]:
    """For every pool: each half with the settings chosen on the other half, by all pools, and both together."""
    chosen = [choose(results, other, grid) for other in reversed(halves)]
    found = []
    for pool, runs in results.items():
        parts = [_as_ours(runs, names, entry) for names, entry in zip(halves, chosen, strict=True)]
        labels = [*zip(("first half", "second half"), chosen, parts, strict=True)]
        for rows, entry, part in [*labels, ("both halves", " and ".join(chosen), [*parts[0], *parts[1]])]:
            errors = mean_errors(part)
            found.append(Crossed(pool, rows, entry, errors, standings(errors), fact_means(part)))
    return found


def judged(results: ByPool, grid: Sequence[str], entry: str) -> list[dict[str, Any]]:
    """For every pool the table of an entry that was chosen elsewhere, with loss and worst case of all the grid."""
    found = []
    for pool, runs in results.items():
        names = tuple(dict.fromkeys(one.data for one in runs))
        part = _as_ours(runs, names, entry)
        errors = mean_errors(part)
        table = Crossed(pool, "unseen", entry, errors, standings(errors), fact_means(part))
        ratios = np.exp(_log_ratios({pool: runs}, names, grid))
        means = np.exp(np.log(ratios).mean(axis=0))
        rows = [
            {"settings": name, "over_stack": float(mean), "worst": float(worst)}
            for name, mean, worst in zip(grid, means, ratios.max(axis=0), strict=True)
        ]
        found.append({**table.record(), "data_sets": len(names), "grid": rows})
    return found


def _as_ours(runs: Results, names: Sequence[str], entry: str) -> list[SplitResult]:
    """The results on some data sets of the rivals and of one entry, which is called by the router's name."""
    mine = entry_name(entry)
    kept = [one for one in runs if one.data in set(names)]
    kept = [one for one in kept if one.competitor == mine or not one.competitor.startswith(f"{OURS}: ")]
    return [replace(one, competitor=OURS) if one.competitor == mine else one for one in kept]
