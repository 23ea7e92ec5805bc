"""What `MoERegressor` loses to the best candidate of its own list, which no one could have known.

Known experts, so that a candidate's distance from the truth is exact; the list is fitted and aggregated on the same
rows, the experts' forecasts being new to them.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.locality import KnownExpert, LOCAL_DESIGNS
from gatewise.arrays import as_count
from gatewise.estimators import MoERegressor
from gatewise.paper.runner import Runner

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
