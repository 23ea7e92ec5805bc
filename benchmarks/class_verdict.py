"""``python -m benchmarks.class_verdict``: level and power of "gating pays" for classes, in log loss.

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
from benchmarks.verdict_designs import strength_for
from gatewise.app.terminal import console, Jobs, show_progress
from gatewise.backends import processes
from gatewise.paper.runner import run_tasks
from gatewise.paper.store import record_key, Store

RULE = 4  # raise it when the router or its test changes what it finds
GAP = 0.05  # nats a row
GATE = f"a gate, {GAP} nats better"
SIZES, POWER_SIZES = (100, 300, 1000), (500, 2000)


def cells() -> Iterator[tuple[str, int]]:
    """The designs and their sizes."""
    for name in CLASS_NULLS:
        yield from ((name, n) for n in SIZES)
    yield from ((GATE, n) for n in POWER_SIZES)


def fitted(design: ClassDesign, n: int, rng: np.random.Generator, seed: int) -> gw.MoEClassifier:
    """One draw, and the model fitted to it; a draw with one class is drawn again."""
    X, y = design.draw(n, rng)
    while len(np.unique(y)) < 2:
        X, y = design.draw(n, rng)
    cv = "prefit" if design.given else None
    return gw.MoEClassifier(list(design.experts), cv=cv, random_state=seed).fit(X, y)


def run_one(name: str, n: int, seed: int, strength: float, path: Path) -> dict[str, Any]:
    """The verdict of one run, from the store if it is there."""
    store, key = Store(path), record_key(rule=RULE, design=name, n=n, seed=seed)
    found = store.get(key)
    if found is None:
        begun = process_time()
        design = gate_class_design(strength) if name == GATE else CLASS_NULLS[name]
        verdict = fitted(design, n, np.random.default_rng([seed, n, *name.encode()]), seed).verdict_
        found = {
            "headline": verdict.headline,
            "p_value": verdict.p_value,
            "share": verdict.share,
            "gain": verdict.gain.value,
            "seconds": process_time() - begun,
        }
        store.put(key, found)
    return found


def summary(name: str, n: int, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What one cell shows."""
    return {
        "design": name,
        "n": n,
        "runs": len(runs),
        "gating pays": float(np.mean([run["headline"] == "gating pays" for run in runs])),
        "no gate": float(np.mean([run["headline"] == "no gate" for run in runs])),
        "seconds": float(np.mean([run["seconds"] for run in runs])),
    }


def main(
    runs: Annotated[int, typer.Option(min=2, help="Draws of every design and size.")] = 500,
    out: Annotated[Path, typer.Option(help="Folder for finished runs.")] = Path("out/verdict"),
    only: Annotated[str | None, typer.Option(help="nulls or power.")] = None,
    jobs: Jobs = -1,
    file: Annotated[bool, typer.Option(help="File the result with the other benchmarks.")] = False,
) -> None:
    """Level and power, cell by cell."""
    wanted = [cell for cell in cells() if only is None or (cell[0] == GATE) == (only == "power")]
    strength, path = strength_for(GAP, nats), restore("class_verdict", out / "class-verdicts.sqlite").path
    tasks = [(name, n, seed, strength, path) for seed in range(runs) for name, n in wanted]
    found = run_tasks(run_one, tasks, processes(jobs), show_progress)
    by_cell: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for (name, n, *_), one in zip(tasks, found, strict=True):
        by_cell.setdefault((name, n), []).append(one)
    rows = [summary(name, n, runs) for (name, n), runs in by_cell.items()]
    table = Table("design", "n", "gating pays", "no gate", "CPU seconds", title=f"{runs} runs a cell")
    for row in rows:
        parts = f"{row['gating pays']:.1%}", f"{row['no gate']:.1%}", f"{row['seconds']:.2f}"
        table.add_row(row["design"], str(row["n"]), *parts)
    console.print(table)
    nulls = [row["gating pays"] for row in rows if row["design"] != GATE]
    pooled = float(np.mean(nulls)) if nulls else None
    if pooled is not None:
        console.print(f"pooled over the designs without a gate: {pooled:.2%}, largest {max(nulls):.2%}")
    if file:
        keep("class_verdict", path)
        levels = {"pooled_level": pooled, "largest_level": max(nulls, default=None)}
        save("class_verdict", {"rule": RULE, "strength": strength, **levels, "cells": rows})


if __name__ == "__main__":
    start(main)
