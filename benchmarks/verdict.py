"""``python -m benchmarks.verdict``: level and power of "gating pays", and the coverage of the gain's interval.

Every run is stored as soon as it has ended; a run that was stopped goes on.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

import gatewise as gw
from benchmarks.archive import keep, restore
from benchmarks.command import start
from benchmarks.timing import save
from benchmarks.verdict_designs import gate_design, NULLS, strength_for, VerdictDesign
from gatewise.app.terminal import console, Jobs, show_progress
from gatewise.backends import processes
from gatewise.paper.runner import run_tasks
from gatewise.paper.store import record_key, Store

RULE, FITTED_RULE = 8, 10  # raise them when the router or its test changes what it finds, of given or fitted experts
GAP = 0.15  # of the truth below the best constant weights, where a gate is true
GATE = f"a gate, {GAP:.0%} better"
SIZES = (100, 300, 1000)
LARGE = ("noise", "exact blend"), 3000
FRESH = 20_000


def cells() -> Iterator[tuple[str, int]]:
    """The designs and their sizes."""
    for name in NULLS:
        yield from ((name, n) for n in SIZES)
    yield from ((name, LARGE[1]) for name in LARGE[0])
    yield from ((GATE, n) for n in SIZES)


def fitted(design: VerdictDesign, n: int, rng: np.random.Generator, seed: int) -> gw.MoERegressor:
    """One draw, and the model fitted to it."""
    X, y = design.draw(n, rng)
    cv = "prefit" if design.given else None
    return gw.MoERegressor(list(design.experts), cv=cv, random_state=seed).fit(X, y)


def run_one(name: str, n: int, seed: int, strength: float, path: Path) -> dict[str, Any]:
    """One run: the verdict, and the gain of the same fit on fresh rows. It is read from the store if it is there."""
    design = gate_design(strength) if name == GATE else NULLS[name]
    rule = RULE if design.given else FITTED_RULE
    store, key = Store(path), record_key(rule=rule, design=name, n=n, seed=seed)
    found = store.get(key)
    if found is None:
        rng = np.random.default_rng([seed, n, *name.encode()])
        model = fitted(design, n, rng, seed)
        X, y = design.draw(FRESH, rng)
        verdict, F = model.verdict_, model.transform(X)
        other = F @ model.stack_weights_
        if verdict.baseline != "the convex stack":
            best = verdict.baseline.rsplit(", ", maxsplit=1)[1]
            other = F[:, [expert for expert, _ in design.experts].index(best)]
        errors = np.mean((y - other) ** 2), np.mean((y - model.predict(X)) ** 2)
        gain = verdict.gain
        found = {
            "headline": verdict.headline,
            "p_value": verdict.p_value,
            "share": verdict.share,
            "gain": list(gain),
            "true_gain": float(1.0 - errors[1] / errors[0]),
        }
        store.put(key, found)
    return found


def summary(name: str, n: int, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What one cell shows."""
    gains = np.array([run["gain"] for run in runs])
    true = np.array([run["true_gain"] for run in runs])
    return {
        "design": name,
        "n": n,
        "runs": len(runs),
        "gating pays": float(np.mean([run["headline"] == "gating pays" for run in runs])),
        "no gate": float(np.mean([run["headline"] == "no gate" for run in runs])),
        "covered": float(np.mean((gains[:, 1] <= true) & (true <= gains[:, 2]))),
        "below": float(np.mean(true < gains[:, 1])),
        "gain": float(gains[:, 0].mean()),
        "true gain": float(true.mean()),
    }


def covered_by_size(rows: list[dict[str, Any]]) -> dict[str, float]:
    """How often intervals of the gain cover, by the number of rows: the mean over the cells of that size.

    >>> covered_by_size([{"n": 100, "covered": 0.9}, {"n": 100, "covered": 1.0}, {"n": 300, "covered": 0.96}])
    {'100': 0.95, '300': 0.96}
    """
    sizes = sorted({row["n"] for row in rows})
    return {str(n): float(np.mean([row["covered"] for row in rows if row["n"] == n])) for n in sizes}


def main(
    runs: Annotated[int, typer.Option(min=2, help="Draws of every design and size.")] = 500,
    out: Annotated[Path, typer.Option(help="Folder for finished runs.")] = Path("out/verdict"),
    jobs: Jobs = -1,
    file: Annotated[bool, typer.Option(help="File the result with the other benchmarks.")] = False,
) -> None:
    """Level, power and coverage, cell by cell."""
    strength, path = strength_for(GAP), restore("verdict", out / "verdicts.sqlite").path
    tasks = [(name, n, seed, strength, path) for seed in range(runs) for name, n in cells()]
    found = run_tasks(run_one, tasks, processes(jobs), show_progress)
    by_cell: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for (name, n, *_), one in zip(tasks, found, strict=True):
        by_cell.setdefault((name, n), []).append(one)
    rows = [summary(name, n, runs) for (name, n), runs in by_cell.items()]
    nulls = [row["gating pays"] for row in rows if row["design"] != GATE]
    pooled = float(np.mean(nulls))
    table = Table(
        "design", "n", "gating pays", "no gate", "covered", "gain", "true gain", title=f"{runs} runs a cell"
    )
    for row in rows:
        shares = (f"{row[part]:.1%}" for part in ("gating pays", "no gate", "covered", "gain", "true gain"))
        table.add_row(row["design"], str(row["n"]), *shares)
    console.print(table)
    coverage = covered_by_size(rows)
    console.print(f"pooled over the designs without a gate: {pooled:.2%}, largest {max(nulls):.2%}")
    console.print("gains covered by n: " + ", ".join(f"{n}: {one:.1%}" for n, one in coverage.items()))
    if file:
        keep("verdict", path)
        levels = {"pooled_level": pooled, "largest_level": max(nulls), "covered_by_size": coverage}
        save("verdict", {"rules": [RULE, FITTED_RULE], "strength": strength, **levels, "cells": rows})


if __name__ == "__main__":
    start(main)
