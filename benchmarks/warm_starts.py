"""Gates fitted to all rows, started near the mean of the fits to five folds or along the path alone, in one run.

The gates and rows are those of `gate_fits`, at the accuracy of the learned list. Seconds are CPU seconds on one
thread of the fits to all rows, the least of some rounds; ``folds`` are those of the fits to the folds. ``lower_by``
says by how many nats the objective is lower near the folds: it has several minima.
"""

import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.gate_fits import make_rows, make_work, objectives, Work
from benchmarks.timing import save
from gatewise.arrays import Floats
from gatewise.router.members import FINE
from gatewise.solvers.softmax_path import FittedPath, sample_paths

SIZES = ((1000, 5), (4000, 10), (1000, 20))
ROUNDS = 5


def fitted(F: Floats, work: Work) -> list[list[FittedPath]]:
    """The paths of every sample, on one thread."""
    return sample_paths(work.requests, F, work.loss, work.samples, n_threads=1)


def case(n: int, M: int) -> dict[str, Any]:
    """One list of gates."""
    X, F, y = make_rows(n, M)
    work = make_work(X, F, y)
    work = work._replace(requests=[one._replace(accuracy=FINE) for one in work.requests])
    *folds, last = work.samples
    ways = {"folds": folds, "path": [*folds, last], "mean": [*folds, last._replace(follows=True)]}
    spent: dict[str, float] = dict.fromkeys(ways, np.inf)
    found: dict[str, list[list[FittedPath]]] = {}
    for _ in range(ROUNDS):
        for way, samples in ways.items():
            start = time.process_time()
            found[way] = fitted(F, work._replace(samples=samples))
            spent[way] = min(spent[way], time.process_time() - start)
    alone = work._replace(samples=[last])
    along, near = (objectives(F, alone, [[one.path for one in found[way][-1]]]) for way in ("path", "mean"))
    fall = along - near
    return {
        "n": n,
        "M": M,
        "fits": len(fall),
        "folds": spent["folds"],
        "along the path": spent["path"] - spent["folds"],
        "near the folds": spent["mean"] - spent["folds"],
        "lower_by": {"mean": float(fall.mean()), "least": float(fall.min()), "most": float(fall.max())},
    }


def main() -> None:
    with threadpool_limits(1):
        cases = [case(n, M) for n, M in SIZES]
    for one in cases:
        print(one)
    save("warm_starts", {"cases": cases})


if __name__ == "__main__":
    main()
