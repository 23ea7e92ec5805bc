"""``python -m benchmarks.real.ablations``: what each part of the router brings, on both halves of the data sets.

The router as it ships is beside routers that lack one part each, on the same forecasts. Experts are fitted once, and
results are kept by data set, split and ablation: a run that was stopped goes on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import typer
from rich.table import Table

from benchmarks.command import start
from benchmarks.real.competitors import Competitor, Contest, OURS, ROUTER_VERSION
from benchmarks.real.run import run, SplitResult
from benchmarks.real.suites import DATA_SETS, HALVES, select
from benchmarks.real.summary import mean_errors
from benchmarks.timing import provenance
from gatewise.app.files import write_json
from gatewise.app.terminal import console, Jobs, show_progress
from gatewise.arrays import Floats, Indices
from gatewise.estimators import MoERegressor
from gatewise.gates.registry import AUTOMATIC
from gatewise.router import training
from gatewise.router.fitted_router import ForecastGuard
from gatewise.router.settings import MoESettings


class UnguardedRouter(MoERegressor):
    """The router without its guard: every forecast is taken as it is."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> "UnguardedRouter":
        """As `MoERegressor.fit`."""

        def opened(F: Floats, _y: Floats, voters: Indices) -> ForecastGuard:
            return replace(ForecastGuard.open(F.shape[1]), voters=voters)

        with patch.object(ForecastGuard, "fit", opened):
            super().fit(X, y, sample_weight, groups)
        return self


class RouterWithoutErrorGates(MoERegressor):
    """The router without gates whose weights fall with expected errors."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> "RouterWithoutErrorGates":
        """As `MoERegressor.fit`."""
        with patch.object(training, "error_gates", lambda _names: []):
            super().fit(X, y, sample_weight, groups)
        return self


@dataclass(frozen=True)
class Ablation:
    """One part less: other settings, other gates, or another class. The test of gates touches no prediction."""

    settings: MoESettings = field(default_factory=lambda: MoESettings(test=False))
    gates: Any = "auto"
    kind: type[MoERegressor] = MoERegressor


ABLATIONS: Mapping[str, Ablation] = {
    OURS: Ablation(),
    "gates off": Ablation(gates=()),
    "error gates off": Ablation(kind=RouterWithoutErrorGates),
    "trees off": Ablation(
        MoESettings(test=False, learners=("products",)), tuple(name for name in AUTOMATIC if name != "tree")
    ),
    "shared parts off": Ablation(MoESettings(test=False, learners=(), correct=False)),
    "power 1": Ablation(MoESettings(test=False, rate=1.0)),
    "one order": Ablation(MoESettings(test=False, n_orders=1)),
    "no guard": Ablation(kind=UnguardedRouter),
}


def _build(ablation: Ablation, contest: Contest) -> MoERegressor:
    return ablation.kind(
        contest.experts,
        gates=ablation.gates,
        cv="prefit" if contest.prefit else contest.folds,
        random_state=contest.seed,
        settings=ablation.settings,
    )


def competitors() -> list[Competitor]:
    """The router and its ablations."""
    return [
        Competitor(f"ablation: {name}", partial(_build, one), version=f"{ROUTER_VERSION} {one!r}")
        for name, one in ABLATIONS.items()
    ]


@dataclass(frozen=True)
class Brought:
    """The router's mean squared error over that of the ablation: below one where the part helps.

    ``ratio`` is the geometric mean over data sets, ``low`` and ``high`` are its ends by two standard errors, if there
    are several; ``helps`` and ``hurts`` count the data sets whose errors differ by more than 0.2 %, ``best`` and
    ``worst`` name the ends.
    """

    part: str
    rows: str
    data_sets: int
    ratio: float
    low: float | None
    high: float | None
    helps: int
    hurts: int
    best: tuple[str, float]
    worst: tuple[str, float]


def brought(part: str, rows: str, data: Sequence[str], full: Floats, less: Floats) -> Brought:
    """What a part brings from the mean errors (D,) with it and without it.

    >>> brought("gates off", "all", ["a", "b"], np.array([1.0, 2.0]), np.array([1.1, 2.0])).helps
    1
    """
    logs = np.log(full / less)
    mean, several = float(logs.mean()), len(logs) > 1
    error = float(logs.std(ddof=1) / np.sqrt(len(logs))) if several else 0.0
    first, last = int(logs.argmin()), int(logs.argmax())
    ends = [float(np.exp(mean + times * error)) for times in (-2.0, 2.0)]
    return Brought(
        part=part,
        rows=rows,
        data_sets=len(logs),
        ratio=float(np.exp(mean)),
        low=ends[0] if several else None,
        high=ends[1] if several else None,
        helps=int((logs < -0.002).sum()),
        hurts=int((logs > 0.002).sum()),
        best=(data[first], float(np.exp(logs[first]))),
        worst=(data[last], float(np.exp(logs[last]))),
    )


def table_of(results: Sequence[SplitResult]) -> list[Brought]:
    """Every ablation on each half and on both."""
    errors = mean_errors(results)
    columns = {name: errors.competitors.index(f"ablation: {name}") for name in ABLATIONS}
    parts = {"both halves": [one.name for one in DATA_SETS]}
    parts |= {
        f"{word} half": [one.name for one in half] for word, half in zip(("first", "second"), HALVES, strict=True)
    }
    found = []
    for name in list(ABLATIONS)[1:]:
        for rows, names in parts.items():
            here = [i for i, data in enumerate(errors.data) if data in set(names)]
            if here:
                data = [errors.data[i] for i in here]
                found.append(
                    brought(name, rows, data, errors.mse[here, columns[OURS]], errors.mse[here, columns[name]])
                )
    return found


def shown(rows: Sequence[Brought]) -> Table:
    """The table for a terminal."""
    table = Table(title="MSE of the router over that without a part", caption="geometric means, two standard errors")
    for name in ("part", "data sets", "ratio", "helps", "hurts", "most help", "most harm"):
        table.add_column(name, justify="left" if name == "part" else "right")
    for one in rows:
        table.add_row(
            f"{one.part}, {one.rows}",
            str(one.data_sets),
            f"{one.ratio:.4f}" + ("" if one.low is None else f" ({one.low:.4f} to {one.high:.4f})"),
            str(one.helps),
            str(one.hurts),
            f"{one.best[1]:.3f} {one.best[0]}",
            f"{one.worst[1]:.3f} {one.worst[0]}",
        )
    return table


def main(
    only: Annotated[
        list[str] | None, typer.Option(help="Only these data sets; repeat the option for several.")
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Only data sets with at most so many rows.")] = None,
    splits: Annotated[int | None, typer.Option(min=1, help="At most so many splits of every data set.")] = 1,
    pool: Annotated[str, typer.Option(help="default or strong.")] = "default",
    jobs: Jobs = -1,
    json_file: Annotated[Path, typer.Option("--json", help="Where the table goes.")] = Path(
        "benchmarks/results/ablations.json"
    ),
    out: Annotated[Path, typer.Option(help="Folder for what is done so far.")] = Path("out/bench"),
) -> None:
    """What gates, trees, shared parts, the power, several orders and the guard bring. Goes on where it stopped."""
    chosen = [select("all", name)[0] for name in only] if only else list(DATA_SETS)
    chosen = sorted((one for one in chosen if rows is None or one.rows <= rows), key=lambda one: one.rows)
    results = run(chosen, splits, competitors(), jobs, out, show_progress, pool)
    table = table_of(results)
    console.print(shown(table))
    write_json(json_file, record(table, results, pool, splits))


def record(rows: Sequence[Brought], results: Sequence[SplitResult], pool: str, splits: int | None) -> dict[str, Any]:
    """The table and every error, as JSON can hold it: places by part and by rows."""
    errors = mean_errors(results)
    table: dict[str, dict[str, Any]] = {}
    for one in rows:
        own = {key: value for key, value in vars(one).items() if key not in ("part", "rows")}
        table.setdefault(one.part, {})[one.rows] = own
    mse = {
        data: dict(zip(errors.competitors, row, strict=True))
        for data, row in zip(errors.data, errors.mse.tolist(), strict=True)
    }
    return {"benchmark": "ablations", **provenance(), "pool": pool, "splits": splits, "table": table, "mse": mse}


if __name__ == "__main__":
    start(main)
