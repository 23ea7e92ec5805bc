"""Choice of the gate class on the paper's three designs: what the selected estimator loses to the best candidate.

Known experts; the candidates are the linear, the quadratic and the kernel gate of `tab:mc-summary`, fitted by least
squares on the first block. A softmax gate is sought in the box that the paper's grid for it spans, for the box is
part of the class: the wider it is, the closer a smooth score comes to hard regions.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from gatewise.aggregation import Blocks
from gatewise.arrays import as_count, Floats
from gatewise.estimators import GateRegressor, GateSelector
from gatewise.gates import Gate
from gatewise.paper.designs import Design, DESIGNS
from gatewise.paper.runner import Runner
from gatewise.paper.table1_gates import KERNELS, NETS
from gatewise.stats import mean_and_error

CLASSES = ("linear", "quadratic", "kernel")
_AXIS = (np.arange(100) + 0.5) / 50 - 1
GRID = np.stack(np.meshgrid(_AXIS, _AXIS), axis=-1).reshape(-1, 2)  # the midpoint rule for the uniform law of x


@dataclass(frozen=True)
class SelectionSetting:
    """The fraction of rows in the first block, the number of orders, and a radius for all softmax gates.

    None stands for the default of the estimator, or for the paper's radius.
    """

    burn_in: float | None = None
    n_orders: int = 1
    radius: float | None = None


@dataclass(frozen=True)
class SelectionRow:
    """One design at one n: mean integrated squared errors over the samples, and how often each class was selected.

    ``ratio`` is the selected estimator's risk over that of the class which is best on average, ``best``; the harder
    ``oracle_ratio`` is over the mean of what was best on each sample. ``ratio_se`` and ``oracle_se`` are their
    standard errors; ``weights`` are the candidates' mean aggregation weights.
    """

    design: str
    n: int
    reps: int
    risks: dict[str, float]
    aggregate: float
    selected: float
    best: str
    ratio: float
    ratio_se: float
    oracle_ratio: float
    oracle_se: float
    picked: dict[str, int]
    weights: dict[str, float]


def candidates(design: Design, radius: float | None = None) -> list[tuple[str, GateRegressor]]:
    """The paper's three gate classes over the design's experts."""
    nets = [NETS[design.name, name] for name in CLASSES[:2]]
    gates: list[tuple[Gate, float]] = [(net.gate, net.radius if radius is None else radius) for net in nets]
    gates.append((KERNELS[design.name], 1.0))  # its parameters have a box of their own
    models = [GateRegressor(design.experts, gate, radius=size, n_starts=5, random_state=0) for gate, size in gates]
    return list(zip(CLASSES, models, strict=True))


def replicate(design: str, n: int, replication: int, seed: int = 0, setting: Sequence[Any] = ()) -> dict[str, Any]:
    """One sample: integrated squared errors of the candidates and of their aggregate, who was chosen, the weights.

    Lists are in the order of `CLASSES`; ``chosen`` is a position in it.
    """
    choice = SelectionSetting(*setting)
    made = DESIGNS[design]
    rng = np.random.default_rng(np.random.SeedSequence((seed, list(DESIGNS).index(design), n, replication)))
    X, y = made.sample(n, rng)
    blocks = Blocks(burn_in=choice.burn_in, n_orders=choice.n_orders)
    selector = GateSelector(candidates(made, choice.radius), blocks, random_state=rng).fit(X, y)
    curves = np.stack([candidate.predict(GRID) for _, candidate in selector.candidates_])
    truth = made.truth(GRID)
    return {
        "risks": ((curves - truth) ** 2).mean(axis=1),
        "aggregate": float(((selector.weights_ @ curves - truth) ** 2).mean()),
        "chosen": int(selector.selected_index_),
        "weights": selector.weights_,
    }


def run(
    sizes: Sequence[int] = (),
    reps: int = 100,
    seed: int = 0,
    setting: SelectionSetting | None = None,
    runner: Runner | None = None,
) -> list[SelectionRow]:
    """Every design at ``sizes``, the paper's two of each design when empty."""
    as_count(reps, "reps", low=2)
    cells = [(name, as_count(n, "sizes", low=6)) for name, made in DESIGNS.items() for n in (sizes or made.sizes)]
    choice = astuple(SelectionSetting() if setting is None else setting)
    tasks = [(*cell, r, seed, choice) for cell in cells for r in range(reps)]
    results = (runner or Runner()).run("selection/2", replicate, tasks)
    return [_row(name, n, results[i * reps : (i + 1) * reps]) for i, (name, n) in enumerate(cells)]


def _row(design: str, n: int, runs: Sequence[dict[str, Any]]) -> SelectionRow:
    risks, chosen = np.array([run["risks"] for run in runs]), np.array([run["chosen"] for run in runs])
    selected = risks[np.arange(len(runs)), chosen]  # (reps,)
    picked = np.bincount(chosen, minlength=len(CLASSES))
    means, weights = risks.mean(axis=0), np.mean([run["weights"] for run in runs], axis=0)
    best = int(means.argmin())
    ratio, ratio_se = _ratio(selected, risks[:, best])
    oracle_ratio, oracle_se = _ratio(selected, risks.min(axis=1))
    return SelectionRow(
        design=design,
        n=n,
        reps=len(runs),
        risks=dict(zip(CLASSES, means.tolist(), strict=True)),
        aggregate=float(np.mean([run["aggregate"] for run in runs])),
        selected=float(selected.mean()),
        best=CLASSES[best],
        ratio=ratio,
        ratio_se=ratio_se,
        oracle_ratio=oracle_ratio,
        oracle_se=oracle_se,
        picked=dict(zip(CLASSES, picked.tolist(), strict=True)),
        weights=dict(zip(CLASSES, weights.tolist(), strict=True)),
    )


def _ratio(above: Floats, below: Floats) -> tuple[float, float]:
    """The ratio of two means over the same samples, and its standard error by the delta method."""
    ratio = float(above.mean() / below.mean())
    _, error = mean_and_error(above - ratio * below)
    return ratio, error / float(below.mean())
