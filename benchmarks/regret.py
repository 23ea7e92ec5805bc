"""``python -m benchmarks.regret``: what `MoERegressor` loses to the best candidate of its own list.

The best candidate is known only afterwards, from the truth. The experts are known functions, so that a candidate's
distance from the truth is exact. The list is fitted and aggregated on the same rows.
"""

import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from benchmarks.command import start
from benchmarks.local_designs import KnownExpert, LOCAL_DESIGNS
from gatewise.app.files import write_json
from gatewise.app.terminal import console, Jobs, Json, Reps, Seed, show_progress
from gatewise.arrays import as_count
from gatewise.backends import processes
from gatewise.estimators import MoERegressor
from gatewise.paper.runner import Runner
from gatewise.paper.store import Store

SIZES = (100, 400, 1600)
N_TEST = 4000


@dataclass(frozen=True)
class RegretRow:
    """Mean squared distances from the truth, over samples: the aggregate, the single readout, the best of the list.

    ``stack`` is the convex stack; ``excess`` is n (aggregate - best) / noise variance, which an oracle inequality
    bounds by a constant times log S; ``n_candidates`` is S.
    """

    design: str
    n: int
    aggregate: float
    single: float
    best: float
    stack: float
    excess: float
    excess_se: float
    n_candidates: int


def replicate(design: str, n: int, replication: int, seed: int = 0) -> list[float]:
    """One sample: distances of the aggregate, the single readout, the best of the list and the stack; S."""
    made = LOCAL_DESIGNS[design]
    rng = np.random.default_rng([seed, zlib.crc32(design.encode()), n, replication])
    X, y = made.sample(n, rng)
    new = rng.uniform(-1.0, 1.0, size=(N_TEST, X.shape[1]))
    truth = made.truth(new)
    experts = [(f"f{m + 1}", KnownExpert(expert)) for m, expert in enumerate(made.experts)]
    model = MoERegressor(experts, cv="prefit", random_state=replication).fit(X, y)
    risks = ((model.candidate_forecasts(new) - truth[:, None]) ** 2).mean(axis=0)
    stack = [str(candidate) for candidate in model.candidates_].index("convex stack")
    own, single = (float(np.mean((model.predict(new, readout=r) - truth) ** 2)) for r in ("aggregate", "single"))
    return [own, single, float(risks.min()), float(risks[stack]), float(len(risks))]


def run(sizes: Sequence[int] = SIZES, reps: int = 20, seed: int = 0, runner: Runner | None = None) -> list[RegretRow]:
    """Every design at every size."""
    as_count(reps, "reps", low=2)
    cells = [(design, n) for design in LOCAL_DESIGNS for n in sizes]
    tasks = [(*cell, r, seed) for cell in cells for r in range(reps)]
    results = np.array((runner or Runner()).run("regret/1", replicate, tasks)).reshape(len(cells), reps, -1)
    return [_row(design, n, runs) for (design, n), runs in zip(cells, results, strict=True)]


def _row(design: str, n: int, runs: np.ndarray) -> RegretRow:
    variance = LOCAL_DESIGNS[design].noise_sd ** 2
    excess = n * (runs[:, 0] - runs[:, 2]) / variance
    means = runs.mean(axis=0)
    return RegretRow(
        design=design,
        n=n,
        aggregate=float(means[0]),
        single=float(means[1]),
        best=float(means[2]),
        stack=float(means[3]),
        excess=float(excess.mean()),
        excess_se=float(excess.std(ddof=1) / np.sqrt(len(runs))),
        n_candidates=int(runs[0, 4]),
    )


def regret_table(rows: Sequence[RegretRow]) -> Table:
    """The aggregate beside the best of its list; the excess in units of the noise variance over n."""
    table = Table(title="MSE to the truth; best: of the list; excess: n (aggregate - best) / noise variance")
    for name in ("design", "n", "stack", "best", "aggregate", "single", "excess", "log S"):
        table.add_column(name, justify="left" if name == "design" else "right", no_wrap=True)
    for row in rows:
        risks = (f"{value:.4f}" for value in (row.stack, row.best, row.aggregate, row.single))
        excess = f"{row.excess:.1f}±{row.excess_se:.1f}"
        table.add_row(row.design, str(row.n), *risks, excess, f"{np.log(row.n_candidates):.1f}")
    return table


def main(
    reps: Reps = 20,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Annotated[Path, typer.Option(help="Folder for what is done so far.")] = Path("out/bench"),
) -> None:
    """What MoERegressor loses to the best candidate of its own list, on designs with known experts."""
    runner = Runner(processes(jobs), Store(out / "regret.sqlite"), show_progress)
    rows = run(reps=reps, seed=seed, runner=runner)
    console.print(regret_table(rows))
    write_json(json_file, [asdict(row) for row in rows])


if __name__ == "__main__":
    start(main)
