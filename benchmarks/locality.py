"""``python -m benchmarks.locality``: every competitor on the designs on which a gate is the truth.

The experts are known, n = 1,000, and the error is the mean squared distance from the regression function.
"""

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.command import start
from benchmarks.local_designs import KnownExpert, LOCAL_DESIGNS
from benchmarks.real.competitors import Competitor, COMPETITORS, Contest
from benchmarks.timing import provenance
from gatewise.app.files import write_json
from gatewise.app.terminal import console, Jobs, Json, Reps, Seed, show_progress
from gatewise.arrays import as_count
from gatewise.backends import processes
from gatewise.paper.runner import Progress, run_tasks, silent
from gatewise.paper.store import record_key, Store

N, N_TEST, NAMES = 1000, 10_000, ("x1", "x2")
GLOBAL = ("best single", "mean", "simplex stack", "ridge stack", "greedy")  # the same weights everywhere
FOREST = "forest stack"


@dataclass(frozen=True)
class LocalityRow:
    """The mean squared distance of one competitor from the truth, over the replications."""

    design: str
    competitor: str
    mse: float
    se: float


def entrants() -> tuple[Competitor, ...]:
    """All but DESReg, which brings its own fits of the experts and so cannot take known ones."""
    return tuple(one for one in COMPETITORS if one.name != "DESReg")


def replicate(
    name: str, replication: int, competitors: Sequence[Competitor], seed: int = 0, store: Path | None = None
) -> dict[str, float]:
    """MSE to the truth of every competitor on one sample, fixed by (seed, design, replication)."""
    kept = None if store is None else Store(store)
    keys = {
        one.name: record_key(
            locality=1, design=name, seed=seed, replication=replication, competitor=one.name, version=one.version
        )
        for one in competitors
    }
    found = {} if kept is None else {who: kept.get(key) for who, key in keys.items()}
    missing = [one for one in competitors if found.get(one.name) is None]
    for who, mse in _errors(name, replication, missing, seed).items():
        found[who] = {"mse": mse}
        if kept is not None:
            kept.put(keys[who], found[who])
    return {one.name: found[one.name]["mse"] for one in competitors}


def run(
    reps: int = 20,
    seed: int = 0,
    jobs: int = 1,
    competitors: Sequence[Competitor] | None = None,
    store: Path | None = None,
    progress: Progress = silent,
) -> list[LocalityRow]:
    """Mean errors with standard errors, by design and competitor."""
    as_count(reps, "reps", low=2)
    chosen = entrants() if competitors is None else tuple(competitors)
    tasks = [(name, r, chosen, seed, store) for name in LOCAL_DESIGNS for r in range(reps)]
    found = run_tasks(replicate, tasks, processes(jobs), progress)
    rows = []
    for i, name in enumerate(LOCAL_DESIGNS):
        for one in chosen:
            values = np.array([part[one.name] for part in found[i * reps : (i + 1) * reps]])
            se = float(values.std(ddof=1) / np.sqrt(reps))
            rows.append(LocalityRow(name, one.name, float(values.mean()), se))
    return rows


def ratios(rows: Sequence[LocalityRow], ours: str = "gatewise") -> dict[str, dict[str, float]]:
    """By design: our mean error over the best global stack's and over the forest stack's.

    >>> some = [("greedy", 2.0), ("mean", 4.0), ("forest stack", 0.5), ("gatewise", 1.0)]
    >>> ratios([LocalityRow("linear", who, mse, 0.1) for who, mse in some])
    {'linear': {'best global': 0.5, 'forest stack': 2.0}}
    """
    found = {}
    for design in dict.fromkeys(row.design for row in rows):
        mse = {row.competitor: row.mse for row in rows if row.design == design}
        best = min(mse[name] for name in GLOBAL if name in mse)
        if ours in mse:
            found[design] = {"best global": mse[ours] / best, FOREST: mse[ours] / mse[FOREST]}
    return found


def _errors(name: str, replication: int, competitors: Sequence[Competitor], seed: int) -> dict[str, float]:
    design = LOCAL_DESIGNS[name]
    number = zlib.crc32(name.encode())
    rng = np.random.default_rng([seed, number, replication])
    X, y = design.sample(N, rng)
    new = rng.uniform(-1.0, 1.0, size=(N_TEST, 2))
    rows, new_rows = pd.DataFrame(X, columns=NAMES), pd.DataFrame(new, columns=NAMES)
    experts = [(f"f{m + 1}", KnownExpert(expert)) for m, expert in enumerate(design.experts)]
    contest = Contest(experts, rows, y, number + replication, prefit=True)
    errors = {}
    with threadpool_limits(1):
        for one in competitors:
            miss = one.build(contest).fit(rows, y).predict(new_rows) - design.truth(new)
            errors[one.name] = float(np.mean(miss**2))
    return errors


def locality_table(rows: Sequence[LocalityRow]) -> Table:
    """MSE to the truth on the designs with true locality: a row per competitor."""
    designs = list(dict.fromkeys(row.design for row in rows))
    table = Table(title="MSE to the truth, its standard error below")
    table.add_column("competitor")
    for design in designs:
        table.add_column(design, justify="right")
    for name in dict.fromkeys(row.competitor for row in rows):
        mine = {row.design: row for row in rows if row.competitor == name}
        table.add_row(name, *(f"{mine[d].mse:.4g}\n±{mine[d].se:.1g}" for d in designs))
    return table


def main(
    reps: Reps = 20,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Annotated[Path, typer.Option(help="Folder for what is done so far.")] = Path("out/bench"),
) -> None:
    """Designs on which a gate is the truth, the experts known: distance from the truth at n = 1,000."""
    rows = run(reps, seed, jobs, store=out / "locality.sqlite", progress=show_progress)
    found = ratios(rows)
    console.print(locality_table(rows))
    for design, values in found.items():
        console.print(f"{design}: gatewise over {json.dumps(values)}", soft_wrap=True)
    write_json(
        json_file, {"benchmark": "locality", **provenance(), "rows": [asdict(row) for row in rows], "ratios": found}
    )


if __name__ == "__main__":
    start(main)
