"""`tab:mc-summary`: errors of three gates on three designs, at the settings that the text leaves open.

A replication is fixed by (seed, design, n, replication): all gates and settings see the same samples. Errors are
means over the n sample points. The full nets are used.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gatewise.aggregation.engine import aggregate, aggregated_gate, calibrate, project_l2
from gatewise.aggregation.gate_candidates import Candidates, gate_candidates
from gatewise.arrays import as_count, Floats
from gatewise.experts import expert_matrix
from gatewise.paper.designs import Design, DESIGNS
from gatewise.paper.runner import Runner
from gatewise.paper.table1_gates import GATES, KERNELS, NetGate, NETS
from gatewise.solvers.simplex_least_squares import simplex_least_squares

NAME = "table1/1"  # the second number goes up when a replication's result would change


@dataclass(frozen=True)
class Table1Setting:
    """What the text leaves open: which rows calibrate the scales, which aggregate, and how scales are bounded.

    ``calibrate`` and ``aggregate`` are ends of row ranges as fractions of n. Without ``calibrate`` the true noise
    scale is used. ``bounds`` are in units of it.
    """

    name: str
    text: str
    calibrate: tuple[Fraction, Fraction] | None
    aggregate: tuple[Fraction, Fraction]
    bounds: tuple[float, float] = (1e-3, 1e3)


_0, _THIRD, _HALF, _1 = Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(1)
SETTINGS = {
    setting.name: setting
    for setting in (
        Table1Setting("halves", "the first half calibrates, the second aggregates", (_0, _HALF), (_HALF, _1)),
        Table1Setting(
            "thirds",
            "a third is kept for a burn-in that known experts do not need, one calibrates, one aggregates",
            (_THIRD, 2 * _THIRD),
            (2 * _THIRD, _1),
        ),
        Table1Setting("1:2", "a third calibrates, two thirds aggregate", (_0, _THIRD), (_THIRD, _1)),
        Table1Setting("known", "the true noise scale; all rows aggregate", None, (_0, _1)),
        Table1Setting("known/2", "the true noise scale; the second half aggregates", None, (_HALF, _1)),
        Table1Setting(
            "bounds", "halves, scales within a factor of two of the truth", (_0, _HALF), (_HALF, _1), (0.5, 2.0)
        ),
    )
}


class Table1Choice(NamedTuple):
    """A setting and the readout that stands for the table's figures."""

    setting: str
    readout: str


class Table1Cell(NamedTuple):
    """One gate on one design at one sample size under one setting: of `SETTINGS`, or of `KERNEL_ROWS`."""

    design: str
    gate: str
    n: int
    setting: str


STATED = {
    "linear": Table1Choice("halves", "aggregate"),
    "quadratic": Table1Choice("known", "single"),
    "nonlinear": Table1Choice("thirds", "aggregate"),
}
COMMON = dict.fromkeys(DESIGNS, Table1Choice("halves", "aggregate"))
ALL_ROWS, HALF_OF_THEM = "all rows", "half of them"
LARGEST = (("linear", "quadratic"), ("nonlinear", "quadratic"))  # nets of more than 100,000 candidates
KERNEL_ROWS = {ALL_ROWS: (_0, _1), HALF_OF_THEM: (_HALF, _1)}


@dataclass(frozen=True)
class Table1Row:
    """Means and standard deviations of one readout over the replications."""

    design: str
    gate: str
    n: int
    readout: str
    l1_mean: float
    l1_sd: float
    l2_mean: float
    l2_sd: float
    reps: int
    setting: str


class DesignSample(NamedTuple):
    """Inputs (n, 2), responses (n,), the experts' predictions (n, 3) and the true gate (n, 3)."""

    X: Floats
    y: Floats
    F: Floats
    truth: Floats


class LearnedNet(NamedTuple):
    """A net with the time-averaged weights (S,) of its candidates."""

    described: NetGate
    candidates: Candidates
    mean_weights: Floats

    def weights(self, X: Floats) -> Floats:
        """The time-averaged aggregated gate, (n, 3)."""
        return aggregated_gate(self.candidates, self.described.gate.features(X), self.mean_weights)

    def nearest(self, X: Floats, F: Floats, weights: Floats) -> Floats:
        """The parameter whose predictor is nearest to the aggregate's, over the sample; step (f) of `alg:general`."""
        target = (weights * F).sum(axis=1)
        found = project_l2(self.candidates, self.described.gate.features(X), target, F)
        return self.described.net().theta(found.candidate)


def draw(design: Design, n: int, replication: int, seed: int) -> DesignSample:
    """The sample of a replication."""
    key = (seed, list(DESIGNS).index(design.name), n, replication)
    X, y = design.sample(n, np.random.default_rng(np.random.SeedSequence(key)))
    return DesignSample(X, y, expert_matrix(design.experts, X), design.weights(X))


def learn_net(described: NetGate, sample: DesignSample, setting: Table1Setting, noise_sd: float) -> LearnedNet:
    """Steps (d) and (e) of `alg:general` on the rows as they were drawn.

    These are the functions that `RouterAggregator` runs, and the result is the same. The estimator also shuffles the
    rows, reports the leading candidates and evaluates the aggregated gate twice, which takes 1.6 times as long on
    the largest net.
    """
    candidates = gate_candidates(described.gate, described.net())
    features = described.gate.features(sample.X)
    sigma: Floats | float = noise_sd
    if setting.calibrate is not None:
        rows = _rows(setting.calibrate, len(sample.y))
        low, high = setting.bounds
        bounds = (low * noise_sd, high * noise_sd)
        sigma = calibrate(candidates, features[rows], sample.y[rows], sample.F[rows], bounds)
    rows = _rows(setting.aggregate, len(sample.y))
    swept = aggregate(candidates, features[rows], sample.y[rows], sample.F[rows], sigma)
    return LearnedNet(described, candidates, swept.mean_weights[0])


def learn_kernel(design: str, sample: DesignSample, setting: str = ALL_ROWS) -> Floats:
    """The kernel gate's parameter theta (M, C) by exact least squares, on all rows or half of them by ``setting``."""
    rows = _rows(KERNEL_ROWS[setting], len(sample.y))
    features = KERNELS[design].features(sample.X[rows])
    return simplex_least_squares(features, sample.F[rows], sample.y[rows]).theta


def replicate(
    design: str, gate: str, n: int, setting: str, replication: int, seed: int
) -> dict[str, tuple[float, float]]:
    """The l1 and squared l2 error of every readout on one sample."""
    chosen = DESIGNS[design]
    sample = draw(chosen, n, replication, seed)
    if gate == "kernel":
        weights = KERNELS[design].weights(sample.X, learn_kernel(design, sample, setting))
        return {"erm": _errors(weights, sample.truth)}
    learned = learn_net(NETS[design, gate], sample, SETTINGS[setting], chosen.noise_sd)
    mean = learned.weights(sample.X)
    single = learned.described.gate.weights(sample.X, learned.nearest(sample.X, sample.F, mean))
    return {"aggregate": _errors(mean, sample.truth), "single": _errors(single, sample.truth)}


def cells(settings: Iterable[tuple[str, str]]) -> list[Table1Cell]:
    """The table's cells for pairs of design and setting; the kernel gate's once."""
    found = [
        Table1Cell(design, gate, n, ALL_ROWS if gate == "kernel" else setting)
        for design, setting in settings
        for gate in GATES
        for n in DESIGNS[design].sizes
    ]
    return list(dict.fromkeys(found))


def stated_and_common() -> list[Table1Cell]:
    """The cells of the stated settings and of the common one; what they share is there once."""
    return cells((design, choices[design].setting) for design in DESIGNS for choices in (COMMON, STATED))


def every_setting() -> list[Table1Cell]:
    """The cells of all settings but those of the two largest nets, and the kernel gate on half of the rows."""
    halves = [Table1Cell(design, "kernel", n, HALF_OF_THEM) for design in DESIGNS for n in DESIGNS[design].sizes]
    nets = cells((design, setting) for design in DESIGNS for setting in SETTINGS)
    return [cell for cell in nets if (cell.design, cell.gate) not in LARGEST] + halves


def run(
    wanted: Sequence[Table1Cell], reps: int = 100, seed: int = 0, runner: Runner | None = None
) -> list[Table1Row]:
    """The means and deviations of every readout in the wanted cells."""
    as_count(reps, "reps", low=2)
    # One replication of all cells after the other, so that the time left can be told early.
    tasks = [(c.design, c.gate, c.n, c.setting, r, seed) for r in range(reps) for c in wanted]
    results = (runner or Runner()).run(NAME, replicate, tasks)
    return [row for i, cell in enumerate(wanted) for row in _summary(cell, results[i :: len(wanted)])]


def select(rows: Sequence[Table1Row], choices: dict[str, Table1Choice]) -> list[Table1Row]:
    """The rows of a choice of settings, with all their readouts."""
    return [row for row in rows if row.setting in (choices[row.design].setting, ALL_ROWS)]


def _summary(cell: Table1Cell, runs: Sequence[dict[str, Any]]) -> list[Table1Row]:
    rows = []
    for readout in runs[0]:
        values = np.array([errors[readout] for errors in runs])  # (reps, 2)
        (l1, l2), (l1_sd, l2_sd) = values.mean(axis=0).tolist(), values.std(axis=0, ddof=1).tolist()
        rows.append(Table1Row(cell.design, cell.gate, cell.n, readout, l1, l1_sd, l2, l2_sd, len(runs), cell.setting))
    return rows


def _rows(ends: tuple[Fraction, Fraction], n: int) -> slice:
    first, last = ends
    return slice(int(first * n), int(last * n))


def _errors(weights: Floats, truth: Floats) -> tuple[float, float]:
    off = weights - truth
    return float(np.abs(off).sum(axis=1).mean()), float((off**2).sum(axis=1).mean())
