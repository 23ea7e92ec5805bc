"""``python -m benchmarks.real.weighing``: ways to weigh the members of the router's list, on real data.

Every way sees the same fitted list with the same held-out forecasts, and ends with one share for every member; but
for two, whose held-out forecasts come from other fits of experts and list. The file has test errors over those of the
rule that ships: AFTER on nested held-out forecasts with a small power of the likelihood, averaged over random orders
of the rows.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from unittest.mock import patch

import numpy as np
import typer
from rich.table import Table
from scipy.special import softmax
from sklearn.base import BaseEstimator, clone, RegressorMixin

from benchmarks.command import start
from benchmarks.real.competitors import Competitor, Contest, OURS, router, ROUTER_VERSION
from benchmarks.real.run import run, SplitResult
from benchmarks.real.suites import DATA_SETS
from benchmarks.real.summary import mean_errors
from benchmarks.real.weighted import best_single, simplex
from benchmarks.timing import provenance
from gatewise.app.files import write_json
from gatewise.app.terminal import console, Jobs, show_progress
from gatewise.arrays import Floats, Indices
from gatewise.estimators import MoERegressor
from gatewise.losses import ResidualLoss
from gatewise.router import learning, training
from gatewise.router.candidates import Candidate, CONVEX, log_prior
from gatewise.router.settings import MoESettings
from gatewise.router.training import FITTED_RATE, NESTED_RATE

POWERS = (0.05, 0.1, 0.2, 1.0)
ORDERS = 10
FRESH = 5  # one row in so many is held back by "fresh rows"


class HeldOutList(NamedTuple):
    """Members, their held-out forecasts (N, S), the responses (N,) and the number of each entry's fold (N,)."""

    members: tuple[Candidate, ...]
    forecasts: Floats
    y: Floats
    fold: Indices

    def part(self, kept: Indices) -> "HeldOutList":
        """Some of the entries."""
        return self._replace(forecasts=self.forecasts[kept], y=self.y[kept], fold=self.fold[kept])


Rule = Callable[[HeldOutList], Floats]


def after(held: HeldOutList, power: float = NESTED_RATE, orders: int = ORDERS) -> Floats:
    """Shares (S,) by the rule of the router, with a power of the likelihood and a number of random orders."""
    n, rng = len(held.y), np.random.default_rng(0)
    shuffled = [rng.permutation(n) for _ in range(orders)]
    given = learning.ListForecasts(held.forecasts, ResidualLoss(held.y), np.ones(n), power, shuffled)
    (found,) = learning.mix(given, log_prior(held.members)[None])
    return found.shares


def over_powers(held: HeldOutList) -> Floats:
    """A list over the powers, itself aggregated with the power one; a fold is judged with shares of the others."""
    judged = np.empty((len(held.y), len(POWERS)))
    for number in np.unique(held.fold):
        here, others = held.fold == number, held.part(np.flatnonzero(held.fold != number))
        judged[here] = np.stack([held.forecasts[here] @ after(others, power) for power in POWERS], axis=1)
    misses = np.square(held.y[:, None] - judged).mean(axis=0)
    shares = softmax(-0.5 * len(held.y) * misses / misses.min())
    return np.asarray(shares @ [after(held, power) for power in POWERS])


def checked(held: HeldOutList) -> Floats:
    """Shares from one half of the folds, if they beat the convex stack on the other half; else the convex stack."""
    first = held.fold % 2 == 0
    shares, other = after(held.part(np.flatnonzero(first))), held.part(np.flatnonzero(~first))
    stack = np.eye(len(held.members))[held.members.index(CONVEX)]
    errors = [np.mean((other.y - other.forecasts @ one) ** 2) for one in (shares, stack)]
    return shares if errors[0] < errors[1] else stack


def unlearned(held: HeldOutList) -> Floats:
    """The prior."""
    return np.asarray(softmax(log_prior(held.members)))


RULES: Mapping[str, Rule] = {
    **{f"AFTER, power {power:g}": partial(after, power=power) for power in POWERS},
    "AFTER, one order": partial(after, orders=1),
    "AFTER over the powers": over_powers,
    "weights from one half, checked on the other": checked,
    "convex weights": lambda held: simplex(held.forecasts, held.y),
    "the best member": lambda held: best_single(held.forecasts, held.y),
    "the prior": unlearned,
}


class OtherWeights(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The router with shares by another rule from the same held-out forecasts."""

    def __init__(self, model: MoERegressor, rule: Rule) -> None:
        self.model = model
        self.rule = rule

    def fit(self, X: Any, y: Floats) -> "OtherWeights":
        """Fit the router, and weigh its members anew."""
        seen, fit_lists = [], learning.fit_lists

        def listening(*given: Any) -> Any:
            seen.append((given, fit_lists(*given)))
            return seen[-1][1]

        with patch.object(learning, "fit_lists", listening):
            self.model_ = clone(self.model).fit(X, y)
        ((members, _, loss, _, splits, *_), found) = seen[0]
        out = [rows for _, rows in splits[:-1]]  # the last one is the fit to all rows
        fold = np.repeat(np.arange(len(out)), [len(rows) for rows in out])
        forecasts = np.concatenate([one for _, one in found[:-1]])
        self.shares_ = self.rule(HeldOutList(members, forecasts, loss.y[np.concatenate(out)], fold))
        return self

    def predict(self, X: Any) -> Floats:
        """(n,)."""
        return np.asarray(self.model_.candidate_forecasts(X) @ self.shares_)


class FreshWeights(OtherWeights):
    """Shares from rows that nothing behind a forecast has seen: a fifth of them, held back from experts and list."""

    def fit(self, X: Any, y: Floats) -> "FreshWeights":
        """Fit the router to all rows, and once more without the rows that weigh its members."""
        fresh = np.arange(len(y)) % FRESH == 0
        known = clone(self.model).fit(X.loc[~fresh].reset_index(drop=True), y[~fresh])
        held = HeldOutList(
            known.candidates_, known.candidate_forecasts(X.loc[fresh]), y[fresh], np.zeros(fresh.sum())
        )
        shares = dict(zip(held.members, self.rule(held), strict=True))
        self.model_ = clone(self.model).fit(X, y)
        self.shares_ = np.array([shares.get(one, 0.0) for one in self.model_.candidates_])
        self.shares_ /= self.shares_.sum()
        return self


class PlainFolds(OtherWeights):
    """Shares from ordinary out-of-fold forecasts: experts of other folds saw the responses that are judged."""

    def fit(self, X: Any, y: Floats) -> "PlainFolds":
        """Fit the router without nested forecasts, and weigh its members."""
        with patch.object(training, "MOST_NESTED", 0):
            super().fit(X, y)
        return self


def competitors() -> list[Competitor]:
    """The router, and every other rule."""

    def built(kind: type[OtherWeights], rule: Rule, contest: Contest) -> OtherWeights:
        settings = MoESettings(test=False)
        model = MoERegressor(contest.experts, cv=contest.folds, random_state=contest.seed, settings=settings)
        return kind(model, rule)

    rules = [(name, partial(built, OtherWeights, rule)) for name, rule in RULES.items()]
    rules += [
        (f"AFTER on plain folds, power {power:g}", partial(built, PlainFolds, partial(after, power=power)))
        for power in (FITTED_RATE, NESTED_RATE, 1.0)
    ]
    rules.append(("AFTER on fresh rows, power 1", partial(built, FreshWeights, partial(after, power=1.0))))
    others = [Competitor(f"weighing: {name}", build, version=f"{ROUTER_VERSION}") for name, build in rules]
    return [router(MoESettings(test=False)), *others]


def table_of(results: Sequence[SplitResult]) -> list[dict[str, Any]]:
    """For every rule its errors over the router's: geometric mean, two standard errors of its log, the worst."""
    errors = mean_errors(results)
    ours, rows = errors.mse[:, errors.competitors.index(OURS)], []
    for name, column in zip(errors.competitors, errors.mse.T, strict=True):
        if name != OURS:
            logs = np.log(column / ours)
            ratio, spread = float(np.exp(logs.mean())), float(2.0 * logs.std(ddof=1) / np.sqrt(len(logs)))
            worst = errors.data[int(logs.argmax())]
            rows.append(
                {
                    "rule": name.removeprefix("weighing: "),
                    "ratio": ratio,
                    "two_errors": spread,
                    "worst": float(np.exp(logs.max())),
                    "worst_data": worst,
                }
            )
    return sorted(rows, key=lambda row: row["ratio"])


def main(
    splits: Annotated[int, typer.Option(min=1, help="At most so many splits of every data set.")] = 1,
    pool: Annotated[str, typer.Option(help="default or strong.")] = "default",
    jobs: Jobs = -1,
    json_file: Annotated[Path, typer.Option("--json", help="Where the table goes.")] = Path(
        "benchmarks/results/weighing.json"
    ),
    out: Annotated[Path, typer.Option(help="Folder for what is done so far.")] = Path("out/bench"),
) -> None:
    """Errors of every way to weigh over those of the shipped one. Goes on where it stopped."""
    results = run(DATA_SETS, splits, competitors(), jobs, out, show_progress, pool)
    rows = table_of(results)
    table = Table("rule", "errors over the shipped rule's", "worst", title=f"{len(DATA_SETS)} data sets, {pool} pool")
    for row in rows:
        spread = f"{row['ratio']:.4f} (+- {row['two_errors']:.4f})"
        table.add_row(row["rule"], spread, f"{row['worst']:.3f} {row['worst_data']}")
    console.print(table)
    write_json(json_file, {"benchmark": "weighing", **provenance(), "pool": pool, "splits": splits, "rows": rows})


if __name__ == "__main__":
    start(main)
