"""CPU seconds of fits of `MoERegressor` to ready forecasts: many experts, many columns, many rows.

``python -m benchmarks.large_fits --case experts`` (or columns, many, rows, all). Every case tells the distance to the
truth at fresh rows, root mean square, beside that of the convex stack of the same fit: a fast fit that predicts worse
does not count. Threads are one unless ``--threads`` says otherwise.
"""

import argparse
import json
import resource
import time
from typing import Any, NamedTuple

import numba
import numpy as np
from threadpoolctl import threadpool_limits

import gatewise as gw
from benchmarks.timing import RESULTS, save
from gatewise.experts import ColumnExpert

FRESH, NOISE = 5000, 0.3
WITHOUT_TREES: dict[str, Any] = {
    "gates": ["linear", "quadratic", "kernel", "forecast"],
    "settings": gw.MoESettings(learners=()),
}


class Size(NamedTuple):
    """Rows, columns beside the forecasts, and experts."""

    n: int
    d: int
    M: int


CASES: dict[str, list[tuple[Size, bool]]] = {
    "experts": [(Size(1000, 5, M), trees) for M in (5, 20, 64) for trees in (False, True)],
    "growth": [(Size(1000, 5, M), False) for M in (10, 40)],
    "columns": [(Size(1000, 20_000, 5), True)],
    "many": [(Size(1000, 5, 200), False)],
    "wide": [(Size(4000, 5, 10), False)],
    "rows": [(Size(100_000, 10, 32), True), (Size(1_000_000, 10, 32), True)],
}


def make_rows(size: Size, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A table of inputs and forecasts, each forecast good on one side of an input; responses; and the truth."""
    n, d, M = size
    X = rng.normal(size=(n, d))
    truth = np.sin(2.0 * X[:, 0]) + X[:, 1]
    errors = rng.normal(size=(n, M)) * (0.2 + (X[:, np.arange(M) % min(d, 10)] > 0.0))
    return np.column_stack([X, truth[:, None] + errors]), truth + NOISE * rng.normal(size=n), truth


def measure(size: Size, trees: bool) -> dict[str, Any]:
    """Time, largest memory and accuracy of one fit."""
    rng = np.random.default_rng(0)
    X, y, _ = make_rows(size, rng)
    fresh, _, truth = make_rows(size._replace(n=FRESH if size.d < 1000 else 500), rng)
    experts = [(f"e{m}", ColumnExpert(size.d + m)) for m in range(size.M)]
    model = gw.MoERegressor(experts, cv="prefit", random_state=0, **({} if trees else WITHOUT_TREES))
    start, wall = time.process_time(), time.perf_counter()
    model.fit(X, y)
    used, waited = time.process_time() - start, time.perf_counter() - wall
    stack = fresh[:, size.d :] @ model.stack_weights_
    return {
        **size._asdict(),
        "trees": trees,
        "cpu_seconds": used,
        "seconds": waited,
        "largest_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "distance": float(np.sqrt(np.mean((model.predict(fresh) - truth) ** 2))),
        "distance_of_stack": float(np.sqrt(np.mean((stack - truth) ** 2))),
        "left_out": len(model.left_out_),
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
            fits[case] = [measure(size, trees) for size, trees in CASES[case]]
            save("large_fits", {"threads": given.threads, "fits": fits})


if __name__ == "__main__":
    main()
