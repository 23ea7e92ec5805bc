"""CPU seconds of fits of `MoERegressor`: many experts, many columns, many rows.

``python -m benchmarks.large_fits --case experts`` (or another of CASES, or all). Forecasts are ready, except in the
cases "cheap", "long" and "usual": there experts are fitted, cheap ones or a ridge regression, a tree and 30 rounds of
boosting, and `StackingRegressor` with the same experts and folds is the rival. Every case tells the distance to the
truth at fresh rows, root mean square, beside that of the convex stack of the same fit or of the rival: a fast fit
that predicts worse does not count. Beside ready forecasts the rivals are scikit-learn's boosting on inputs and
forecasts, as it comes, and weights by forecast errors (`benchmarks.error_forecasts`), which suit these designs. In
the case "trees" the distance is that of the mean of the tree members fitted to all rows, in both ways, and of their
held-out forecasts. Memory is the largest of a process; beside a rival, whose process does not import Gatewise, also
what the fit adds to it. Threads are one unless ``--threads`` says otherwise. The case "folder" writes Parquet files
of some gigabytes, which it deletes again; a process of its own fits and predicts them as a dask data frame, and tells
its largest memory (Linux only).
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numba
import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

import gatewise as gw
from benchmarks.error_forecasts import by_forecast_errors
from benchmarks.one_fit import FRESH, largest_gigabytes, make_rows, Size, without_trees
from benchmarks.timing import RESULTS, save
from gatewise.arrays import Floats
from gatewise.experts import ColumnExpert
from gatewise.gates.inputs import GateInputs
from gatewise.losses import ResidualLoss
from gatewise.progress import listen, Step
from gatewise.router.learning import fit_lists
from gatewise.router.members import ListRows
from gatewise.router.tree_members import shared_learners, tree_gates

CASES: dict[str, list[tuple[Size, bool]]] = {
    "experts": [(Size(1000, 5, M), trees) for M in (5, 20, 64) for trees in (False, True)],
    "growth": [(Size(1000, 5, M), False) for M in (10, 40)],
    "columns": [(Size(1000, 20_000, 5), True)],
    "many": [(Size(1000, 5, 200), False)],
    "wide": [(Size(4000, 5, 10), False)],
    "rows": [(Size(100_000, 10, 32), True), (Size(1_000_000, 10, 32), True)],
    "cheap": [(Size(534, 5, 30), False)],
    "long": [(Size(500_000, 10, 3), False)],
    "usual": [(Size(500_000, 10, 3), False)],
    "trees": [(Size(n, 5, 5), True) for n in (1000, 4000)],
    "folder": [(Size(16_000_000, 16, 4), True)],
}
FILE_ROWS = 2**17
FITTED = ("cheap", "long", "usual")  # experts are fitted, and a rival is


class Profile:
    """CPU seconds of every stage of a fit, by its name; those of the list by the group of its members."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.process_time()

    def __call__(self, step: Step) -> None:
        now = time.process_time()
        if step.done:
            name = f"{step.stage}: {step.note}" if step.stage.startswith("list") and step.note else step.stage
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now


def measure(size: Size, trees: bool) -> dict[str, Any]:
    """Time, largest memory and accuracy of one fit."""
    rng = np.random.default_rng(0)
    X, y, _ = make_rows(size, rng)
    fresh, _, truth = make_rows(size._replace(n=FRESH if size.d < 1000 else 500), rng)
    experts = [(f"e{m}", ColumnExpert(size.d + m)) for m in range(size.M)]
    model = gw.MoERegressor(experts, cv="prefit", random_state=0, **({} if trees else without_trees()))
    profile = Profile()
    start, wall = time.process_time(), time.perf_counter()
    with listen(profile):
        model.fit(X, y)
    used, waited = time.process_time() - start, time.perf_counter() - wall
    stack = fresh[:, size.d :] @ model.stack_weights_
    start = time.process_time()
    boosted = HistGradientBoostingRegressor(random_state=0).fit(X, y)
    rival = {
        "cpu_seconds": time.process_time() - start,
        "distance": _distance(boosted.predict(fresh), truth),
    }
    start = time.process_time()
    weighed = by_forecast_errors(X[:, : size.d], X[:, size.d :], y)
    plain = {
        "cpu_seconds": time.process_time() - start,
        "distance": _distance(weighed(fresh[:, : size.d], fresh[:, size.d :]), truth),
    }
    return {
        **size._asdict(),
        "trees": trees,
        "boosted": rival,
        "error_forecasts": plain,
        "cpu_seconds": used,
        "seconds": waited,
        "largest_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "distance": _distance(model.predict(fresh), truth),
        "distance_of_stack": _distance(stack, truth),
        "left_out": len(model.left_out_),
        "rows_learned": model.rows_learned_,
        "profile": profile.seconds,
    }


def against_stacking(size: Size, threads: int, usual: bool) -> dict[str, Any]:
    """`MoERegressor` without tree members, and `StackingRegressor`, each in a process of its own."""
    found = {}
    for name in ("stack", "gatewise"):
        command = [sys.executable, "-m", "benchmarks.one_fit", name, *map(str, size), "--threads", str(threads)]
        done = subprocess.run([*command, *(["--usual"] if usual else [])], check=True, capture_output=True, text=True)
        found[name] = json.loads(done.stdout)
    kinds = ("cpu_seconds", "largest_gigabytes", "added_gigabytes")
    ratios = {key: found["gatewise"][key] / found["stack"][key] for key in kinds}
    return {**size._asdict(), **found, "over_stack": ratios}


def tree_members(size: Size) -> dict[str, Any]:
    """CPU seconds of the tree members of a list on five folds and all rows, over those of six fits to all rows.

    Distances are those of the mean of all members to the truth: of the last fit of both ways at fresh rows, and of
    the forecasts of the folds, at the rows that they hold out.
    """
    rng = np.random.default_rng(0)
    X, y, truth = make_rows(size, rng)
    other, _, true = make_rows(size._replace(n=FRESH), rng)
    seen = GateInputs.fit(X[:, : size.d], n_components=20, fade=0.25)
    rows, fresh = (ListRows(seen.transform(one[:, : size.d]), one[:, size.d :]) for one in (X, other))
    everything = np.arange(size.n)
    candidates = (*tree_gates(), *shared_learners(("forest", "boosted")))
    folds = [(everything[everything % 5 != j], everything[everything % 5 == j]) for j in range(5)]
    seconds, distances, held = [], [], np.empty(size.n)
    for splits in ([*folds, (everything, everything)], [(everything, everything)] * 6):
        start = time.process_time()
        lists = fit_lists(candidates, rows, ResidualLoss(y), np.ones(size.n), splits, 0)
        seconds.append(time.process_time() - start)
        distances.append(_distance(lists[-1][0].forecasts(fresh).mean(axis=1), true))
        if len(seconds) == 1:
            for (_, out), (_, forecasts) in zip(folds, lists, strict=False):
                held[out] = forecasts.mean(axis=1)
    return {
        **size._asdict(),
        "list": seconds[0],
        "bare": seconds[1],
        "over_bare": seconds[0] / seconds[1],
        "distance": distances[0],
        "distance_of_bare": distances[1],
        "distance_held_out": _distance(held, truth),
    }


def _distance(forecasts: Floats, truth: Floats) -> float:
    """The root of the mean squared difference."""
    return float(np.sqrt(np.mean((forecasts - truth) ** 2)))


def larger_than_memory(size: Size, threads: int) -> dict[str, Any]:
    """Time, largest memory and accuracy of a fit and of predictions, from a folder of Parquet files."""
    with tempfile.TemporaryDirectory() as folder, get_context("spawn").Pool(1) as pool:
        written = write_folder(size, Path(folder))
        return {**size._asdict(), "table_gigabytes": written, **pool.apply(fit_folder, (size, folder, threads))}


def write_folder(size: Size, folder: Path) -> float:
    """Write the rows of `make_rows` in files of FILE_ROWS rows; the gigabytes of their numbers."""
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    total = 0
    for number, start in enumerate(range(0, size.n, FILE_ROWS)):
        rows = size._replace(n=min(FILE_ROWS, size.n - start))
        X, y, _ = make_rows(rows, np.random.default_rng([1, number]))
        table = arrow.table([*X.T.copy(), y], names=[*(f"x{j}" for j in range(X.shape[1])), "y"])
        parquet.write_table(table, folder / f"{number:04}.parquet", compression="none", use_dictionary=False)
        total += table.nbytes
    return total / 2**30


def fit_folder(size: Size, folder: str, threads: int) -> dict[str, Any]:
    """Fit to a folder and predict all of it, block by block; accuracy is told at fresh rows."""
    numba.set_num_threads(threads)
    frames, pandas = import_module("dask.dataframe"), import_module("pandas")
    X, y, _ = make_rows(size._replace(n=300), np.random.default_rng(0))
    names = [f"x{j}" for j in range(X.shape[1])]
    experts = [(f"e{m}", ColumnExpert(f"x{size.d + m}")) for m in range(size.M)]
    model = gw.MoERegressor(experts, cv="prefit", random_state=0)
    clone(model).fit(pandas.DataFrame(X, columns=names), y)  # imports and compiled code
    table, found = frames.read_parquet(f"{folder}/*.parquet"), {}
    for stage in ("fit", "predict"):
        Path("/proc/self/clear_refs").write_text("5")  # the largest memory is counted from here
        start = time.process_time()
        if stage == "fit":
            model.fit(table[names], table["y"])
        else:
            model.predict(table[names]).sum().compute()
        found[stage] = {"cpu_seconds": time.process_time() - start, "largest_gigabytes": largest_gigabytes()}
    fresh, _, truth = make_rows(size._replace(n=FRESH), np.random.default_rng(2))
    frame, stack = pandas.DataFrame(fresh, columns=names), fresh[:, size.d :] @ model.stack_weights_
    return {
        **found,
        "rows_learned": model.rows_learned_,
        "distance": _distance(model.predict(frame), truth),
        "distance_of_stack": _distance(stack, truth),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=[*CASES, "all"], default="experts")
    parser.add_argument("--threads", type=int, default=1)
    given, _ = parser.parse_known_args()
    numba.set_num_threads(given.threads)
    file = RESULTS / "large_fits.json"
    fits = json.loads(file.read_text())["fits"] if file.exists() else {}
    with threadpool_limits(given.threads):
        measure(Size(200, 5, 3), trees=True)  # compiled code is loaded
        for case in CASES if given.case == "all" else [given.case]:
            fits[case] = []
            for size, trees in CASES[case]:
                if case == "trees":
                    one = tree_members(size)
                elif case == "folder":
                    one = larger_than_memory(size, given.threads)
                elif case in FITTED:
                    one = against_stacking(size, given.threads, case == "usual")
                else:
                    one = measure(size, trees)
                fits[case].append({**one, "threads": given.threads})
                save("large_fits", {"fits": fits})


if __name__ == "__main__":
    main()
