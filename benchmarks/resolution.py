"""``python -m benchmarks.resolution``: does the gate get finer as rows grow?

Designs whose truth is a gate with sharp or curved borders, with known experts; the error is the mean squared distance
from the regression function on 20,000 fresh rows. Rivals are a forest and boosting on inputs and forecasts. Every run
is stored as soon as it has ended.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import gatewise as gw
from benchmarks.archive import keep, restore
from benchmarks.command import start
from benchmarks.local_designs import KnownExpert, LOCAL_DESIGNS
from benchmarks.timing import save
from gatewise.app.terminal import console, Jobs, show_progress
from gatewise.arrays import Floats, Indices
from gatewise.backends import processes
from gatewise.paper.runner import run_tasks
from gatewise.paper.store import record_key, Store

RULE, RIVALS = 9, 8  # raise the first when the router changes what it predicts, the second when a rival does
FRESH = 20_000
WAYS = ("Gatewise", "boosted stack", "forest stack")
Forecasts = Callable[[Floats], Floats]  # (n, d) -> (n, M)


@dataclass(frozen=True)
class Resolution:
    """Experts' forecasts, the number of the expert that is right at each row, the inputs and the noise."""

    forecasts: Forecasts
    right: Callable[[Floats], Indices]
    n_inputs: int = 2
    n_experts: int = 2
    noise: float = 0.5

    def truth(self, X: Floats) -> Floats:
        """The regression function, (n,)."""
        return np.asarray(self.forecasts(X)[np.arange(len(X)), self.right(X)])

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Inputs that are uniform on [-1, 1]^d, and responses."""
        X = rng.uniform(-1.0, 1.0, size=(n, self.n_inputs))
        return X, self.truth(X) + self.noise * rng.normal(size=n)


def _two(X: Floats) -> Floats:
    return np.column_stack([np.sin(3.0 * X[:, 0]) + 1.0, -np.cos(2.0 * X[:, 1]) - 1.0])


def _eight(X: Floats) -> Floats:
    return np.column_stack([np.sin(2.0 * X[:, 0] + m) + 0.5 * m * (-1.0) ** m for m in range(8)])


def _cells(X: Floats, side: int) -> Floats:
    """The cell of each row along both axes, of a board of side x side, (n, 2)."""
    return np.asarray(np.minimum(np.floor((X[:, :2] + 1.0) * side / 2.0), side - 1.0))


def _board(side: int) -> Callable[[Floats], Indices]:
    return lambda X: (_cells(X, side).sum(axis=1) % 2).astype(np.intp)


def _spiral(X: Floats) -> Indices:
    radius, angle = np.hypot(X[:, 0], X[:, 1]), np.arctan2(X[:, 1], X[:, 0])
    return np.asarray(np.sin(angle + 8.0 * radius) > 0.0).astype(np.intp)


def _ring(X: Floats) -> Indices:
    radius = np.hypot(X[:, 0], X[:, 1])
    return np.asarray((radius > 0.4) & (radius < 0.8)).astype(np.intp)


def _sixteen(X: Floats) -> Indices:
    cells = _cells(X, 4)
    return np.asarray((3.0 * cells[:, 0] + 5.0 * cells[:, 1]) % 8).astype(np.intp)


DESIGNS: dict[str, Resolution] = {
    "board 4 x 4": Resolution(_two, _board(4)),
    "board 8 x 8": Resolution(_two, _board(8)),
    "spiral": Resolution(_two, _spiral),
    "ring": Resolution(_two, _ring),
    "2 of 10 inputs": Resolution(_two, _board(2), n_inputs=10),
    "16 regions, 8 experts": Resolution(_eight, _sixteen, n_experts=8),
}


class Column:
    """One expert of a design."""

    def __init__(self, forecasts: Forecasts, m: int) -> None:
        self.forecasts, self.m = forecasts, m

    def __call__(self, X: Floats) -> Floats:
        return self.forecasts(X)[:, self.m]


def sample(name: str, n: int, rng: np.random.Generator) -> tuple[list[KnownExpert], Floats, Floats, Floats, Floats]:
    """Experts, rows and responses, and fresh rows with the regression function there."""
    if name in LOCAL_DESIGNS:
        design = LOCAL_DESIGNS[name]
        X, y = design.sample(n, rng)
        new = rng.uniform(-1.0, 1.0, size=(FRESH, 2))
        return [KnownExpert(expert) for expert in design.experts], X, y, new, design.truth(new)
    fine = DESIGNS[name]
    X, y = fine.draw(n, rng)
    new, _ = fine.draw(FRESH, rng)
    experts = [KnownExpert(Column(fine.forecasts, m)) for m in range(fine.n_experts)]
    return experts, X, y, new, fine.truth(new)


def error(name: str, n: int, seed: int, way: str, path: Path) -> float:
    """The squared distance from the truth; read from the store if it is there."""
    rule = RULE if way == "Gatewise" else RIVALS
    store, key = Store(path), record_key(rule=rule, design=name, n=n, seed=seed, way=way)
    found = store.get(key)
    if found is None:
        experts, X, y, new, truth = sample(name, n, np.random.default_rng([seed, n, *name.encode()]))
        if way == "Gatewise":
            settings = gw.MoESettings(test=False)
            pool = [(f"f{m + 1}", expert) for m, expert in enumerate(experts)]
            answer = gw.MoERegressor(pool, cv="prefit", random_state=seed, settings=settings).fit(X, y).predict(new)
        else:
            both, new_both = (np.column_stack([rows, *(one.predict(rows) for one in experts)]) for rows in (X, new))
            learner = RandomForestRegressor(random_state=seed, min_samples_leaf=3)
            if way == "boosted stack":
                learner = HistGradientBoostingRegressor(random_state=seed, early_stopping=True)
            answer = learner.fit(both, y).predict(new_both)
        found = {"mse": float(np.mean((answer - truth) ** 2))}
        store.put(key, found)
    return float(found["mse"])


def main(
    reps: Annotated[int, typer.Option(min=1, help="Draws of every design and size.")] = 3,
    sizes: Annotated[list[int] | None, typer.Option(help="Numbers of rows.")] = None,
    design: Annotated[list[str] | None, typer.Option(help="Designs; all if none is named.")] = None,
    way: Annotated[list[str] | None, typer.Option(help=f"Some of {', '.join(WAYS)}; all if none is named.")] = None,
    name: Annotated[str, typer.Option(help="What the file of the result is called.")] = "resolution",
    out: Annotated[Path, typer.Option(help="Folder for finished runs.")] = Path("out/resolution"),
    jobs: Jobs = -1,
    file: Annotated[bool, typer.Option(help="File the result with the other benchmarks.")] = False,
) -> None:
    """Errors by design and number of rows, and the slope of their logarithm in that of the rows."""
    ns, path = sizes or [1000, 10_000, 100_000], restore("resolution", out / "errors.sqlite").path
    designs, ways = design or [*DESIGNS, *LOCAL_DESIGNS], way or list(WAYS)
    for one in {*designs} - {*DESIGNS, *LOCAL_DESIGNS} | {*ways} - {*WAYS}:
        raise ValueError(f"design must be one of {', '.join([*DESIGNS, *LOCAL_DESIGNS])}, way of {WAYS}; not {one!r}")
    tasks = [(one, n, seed, how, path) for n in ns for one in designs for seed in range(reps) for how in ways]
    found = run_tasks(error, tasks, processes(jobs), show_progress)
    cells: dict[tuple[str, str, int], list[float]] = {}
    for (which, n, _, how, _), one in zip(tasks, found, strict=True):
        cells.setdefault((which, how, n), []).append(one)
    table = Table("design", "", *(f"n = {n:,}" for n in ns), "slope")
    rows = []
    for which in designs:
        for how in ways:
            means = [float(np.mean(cells[which, how, n])) for n in ns]
            slope = float(np.polyfit(np.log(ns), np.log(means), 1)[0]) if len(ns) > 1 else float("nan")
            table.add_row(which if how == ways[0] else "", how, *(f"{one:.4f}" for one in means), f"{slope:.2f}")
            errors = dict(zip(map(str, ns), means, strict=True))
            rows.append({"design": which, "way": how, "errors": errors, "slope": slope})
    console.print(table)
    if file:
        keep("resolution", path)
        save(name, {"rule": RULE, "reps": reps, "rows": rows})


if __name__ == "__main__":
    start(main)
