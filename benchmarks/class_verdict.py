"""``python -m benchmarks.class_verdict``: level and power of "gating pays" for classes, and the coverage of the gain.

Every run is stored as soon as it has ended; a run that was stopped goes on. In the design with a gate its log loss
lies 0.05 nats a row below that of the best constant weights.
"""

from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

import gatewise as gw
from benchmarks.archive import keep, restore
from benchmarks.class_designs import CLASS_NULLS, ClassDesign, gate_class_design, nats
from benchmarks.command import start
from benchmarks.timing import save
from benchmarks.verdict import covered_by_size
from benchmarks.verdict_designs import strength_for
from gatewise.app.terminal import console, Jobs, show_progress
from gatewise.arrays import Floats, Indices
from gatewise.backends import processes
from gatewise.paper.runner import run_tasks
from gatewise.paper.store import record_key, Store

RULE = 5  # raise it when the router or its test changes what it finds
GAP = 0.05  # nats a row
GATE = f"a gate, {GAP} nats better"
SIZES, POWER_SIZES = (100, 300, 1000), (500, 2000)
LARGE = ("noise", "exact blend"), 3000
FRESH = 20_000


def cells() -> Iterator[tuple[str, int]]:
    """The designs and their sizes."""
    for name in CLASS_NULLS:
        yield from ((name, n) for n in SIZES)
    yield from ((name, LARGE[1]) for name in LARGE[0])
    yield from ((GATE, n) for n in POWER_SIZES)


def fitted(design: ClassDesign, n: int, rng: np.random.Generator, seed: int) -> gw.MoEClassifier:
    """One draw, and the model fitted to it; a draw with one class is drawn again."""
    X, y = design.draw(n, rng)
    while len(np.unique(y)) < 2:
        X, y = design.draw(n, rng)
    cv = "prefit" if design.given else None
    return gw.MoEClassifier(list(design.experts), cv=cv, random_state=seed).fit(X, y)


def fresh_gain(model: gw.MoEClassifier, X: Floats, y: Indices) -> float:
    """The part of the log loss of the verdict's baseline that the model saves on fresh rows of its classes."""
    known = np.isin(y, model.classes_)
    X, place = X[known], (np.arange(known.sum()), np.searchsorted(model.classes_, y[known]))
    P, baseline = model.expert_probabilities(X), model.verdict_.baseline
    other = np.einsum("m,imc->ic", model.stack_weights_, P)
    if baseline != "the convex stack":
        other = P[:, list(model.get_feature_names_out()).index(baseline.rsplit(", ", maxsplit=1)[1])]
    return float(1.0 - np.log(model.predict_proba(X)[place]).mean() / np.log(other[place]).mean())


def run_one(name: str, n: int, seed: int, strength: float, path: Path) -> dict[str, Any]:
    """The verdict of one run, from the store if it is there."""
    store, key = Store(path), record_key(rule=RULE, design=name, n=n, seed=seed)
    found = store.get(key)
    if found is None:
        begun, rng = process_time(), np.random.default_rng([seed, n, *name.encode()])
        design = gate_class_design(strength) if name == GATE else CLASS_NULLS[name]
        model = fitted(design, n, rng, seed)
        verdict, seconds = model.verdict_, process_time() - begun
        found = {
            "headline": verdict.headline,
            "p_value": verdict.p_value,
            "share": verdict.share,
            "gain": list(verdict.gain),
            "true_gain": fresh_gain(model, *design.draw(FRESH, rng)),
            "seconds": seconds,
        }
        store.put(key, found)
    return found


def summary(name: str, n: int, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What one cell shows."""
    gains, true = np.array([run["gain"] for run in runs]), np.array([run["true_gain"] for run in runs])
    return {
        "design": name,
        "n": n,
        "runs": len(runs),
        "gating pays": float(np.mean([run["headline"] == "gating pays" for run in runs])),
        "no gate": float(np.mean([run["headline"] == "no gate" for run in runs])),
        "covered": float(np.mean((gains[:, 1] <= true) & (true <= gains[:, 2]))),
        "gain": float(gains[:, 0].mean()),
        "true gain": float(true.mean()),
        "seconds": float(np.mean([run["seconds"] for run in runs])),
    }


def main(
    runs: Annotated[int, typer.Option(min=2, help="Draws of every design and size.")] = 500,
    out: Annotated[Path, typer.Option(help="Folder for finished runs.")] = Path("out/verdict"),
    only: Annotated[str | None, typer.Option(help="nulls or power.")] = None,
    jobs: Jobs = -1,
    file: Annotated[bool, typer.Option(help="File the result with the other benchmarks.")] = False,
) -> None:
    """Level, power and coverage, cell by cell."""
    wanted = [cell for cell in cells() if only is None or (cell[0] == GATE) == (only == "power")]
    strength, path = strength_for(GAP, nats), restore("class_verdict", out / "class-verdicts.sqlite").path
    tasks = [(name, n, seed, strength, path) for seed in range(runs) for name, n in wanted]
    found = run_tasks(run_one, tasks, processes(jobs), show_progress)
    by_cell: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for (name, n, *_), one in zip(tasks, found, strict=True):
        by_cell.setdefault((name, n), []).append(one)
    rows = [summary(name, n, runs) for (name, n), runs in by_cell.items()]
    shown = ("gating pays", "no gate", "covered", "gain", "true gain")
    table = Table("design", "n", *shown, "CPU seconds", title=f"{runs} runs a cell")
    for row in rows:
        table.add_row(row["design"], str(row["n"]), *(f"{row[one]:.1%}" for one in shown), f"{row['seconds']:.2f}")
    console.print(table)
    nulls = [row["gating pays"] for row in rows if row["design"] != GATE]
    pooled = float(np.mean(nulls)) if nulls else None
    if pooled is not None:
        console.print(f"pooled over the designs without a gate: {pooled:.2%}, largest {max(nulls):.2%}")
    coverage = covered_by_size(rows)
    console.print("gains covered by n: " + ", ".join(f"{n}: {one:.1%}" for n, one in coverage.items()))
    if file:
        keep("class_verdict", path)
        levels = {"pooled_level": pooled, "largest_level": max(nulls, default=None), "covered_by_size": coverage}
        save("class_verdict", {"rule": RULE, "strength": strength, **levels, "cells": rows})


if __name__ == "__main__":
    start(main)
