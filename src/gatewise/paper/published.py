"""The figures of `tab:mc-summary`, and how far a run is from them."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import hypot, sqrt
from typing import NamedTuple

from gatewise.paper.table1 import Table1Choice, Table1Row

PUBLISHED_REPS = 100
MEASURES = ("l1", "l2")


class Figure(NamedTuple):
    """A mean over replications and its standard deviation."""

    mean: float
    sd: float


class Off(NamedTuple):
    """How far a mean is from the published one: in standard errors of the difference, and relatively."""

    in_se: float
    relative: float

    @property
    def matches(self) -> bool:
        """Within three standard errors of the difference, or 10 %."""
        return abs(self.in_se) <= 3.0 or abs(self.relative) <= 0.1


class PaperComparison(NamedTuple):
    """How many of a run's means match, which do not, and how many pairs of gates are ordered as published.

    Pairs are counted where the published means differ by more than two standard errors.
    """

    matched: int
    means: int
    missed: list[tuple[Table1Row, str]]
    ordered: int
    pairs: int


def _cell(l1: float, l1_sd: float, l2: float, l2_sd: float) -> dict[str, Figure]:
    return {"l1": Figure(l1, l1_sd), "l2": Figure(l2, l2_sd)}


PUBLISHED = {
    ("linear", "linear", 200): _cell(0.100, 0.022, 0.006, 0.003),
    ("linear", "linear", 400): _cell(0.081, 0.023, 0.004, 0.002),
    ("linear", "quadratic", 200): _cell(0.178, 0.045, 0.018, 0.011),
    ("linear", "quadratic", 400): _cell(0.151, 0.040, 0.013, 0.007),
    ("linear", "kernel", 200): _cell(0.211, 0.052, 0.026, 0.013),
    ("linear", "kernel", 400): _cell(0.188, 0.043, 0.020, 0.009),
    ("quadratic", "linear", 200): _cell(0.230, 0.033, 0.030, 0.012),
    ("quadratic", "linear", 400): _cell(0.220, 0.019, 0.027, 0.006),
    ("quadratic", "quadratic", 200): _cell(0.141, 0.062, 0.014, 0.016),
    ("quadratic", "quadratic", 400): _cell(0.133, 0.061, 0.013, 0.013),
    ("quadratic", "kernel", 200): _cell(0.204, 0.042, 0.023, 0.011),
    ("quadratic", "kernel", 400): _cell(0.181, 0.027, 0.018, 0.006),
    ("nonlinear", "linear", 500): _cell(0.745, 0.062, 0.339, 0.051),
    ("nonlinear", "linear", 1000): _cell(0.713, 0.033, 0.322, 0.025),
    ("nonlinear", "quadratic", 500): _cell(0.840, 0.041, 0.352, 0.035),
    ("nonlinear", "quadratic", 1000): _cell(0.821, 0.030, 0.339, 0.025),
    ("nonlinear", "kernel", 500): _cell(0.711, 0.028, 0.267, 0.021),
    ("nonlinear", "kernel", 1000): _cell(0.713, 0.019, 0.266, 0.014),
}


def figure(row: Table1Row, measure: str) -> Figure:
    """A row's mean and deviation of ``l1`` or ``l2``."""
    return Figure(getattr(row, f"{measure}_mean"), getattr(row, f"{measure}_sd"))


def off(row: Table1Row, measure: str) -> Off:
    """A row against the published figure.

    >>> row = Table1Row("linear", "linear", 200, "aggregate", 0.103, 0.022, 0.006, 0.003, 100, "halves")
    >>> off(row, "l1").in_se.__round__(2), off(row, "l2").matches
    (0.96, True)
    """
    ours, paper = figure(row, measure), PUBLISHED[row.design, row.gate, row.n][measure]
    error = hypot(ours.sd / sqrt(row.reps), paper.sd / sqrt(PUBLISHED_REPS))
    return Off((ours.mean - paper.mean) / error, ours.mean / paper.mean - 1.0)


def stated(rows: Sequence[Table1Row], choices: Mapping[str, Table1Choice]) -> list[Table1Row]:
    """The rows that stand for the table's figures: the chosen readout of each design, and the kernel gate's."""
    return [row for row in rows if row.readout == "erm" or (row.setting, row.readout) == choices[row.design]]


def judge(rows: Sequence[Table1Row], choices: Mapping[str, Table1Choice]) -> PaperComparison:
    """A run against the paper: means that match, and the order of the gates."""
    chosen = stated(rows, choices)
    both = [(row, measure) for row in chosen for measure in MEASURES]
    missed = [(row, measure) for row, measure in both if not off(row, measure).matches]
    agree = [
        _same_order(first, second, measure)
        for first, second in combinations(chosen, 2)
        for measure in MEASURES
        if (first.design, first.n) == (second.design, second.n) and _apart(first, second, measure)
    ]
    return PaperComparison(len(both) - len(missed), len(both), missed, sum(agree), len(agree))


def _apart(first: Table1Row, second: Table1Row, measure: str) -> bool:
    a, b = (PUBLISHED[row.design, row.gate, row.n][measure] for row in (first, second))
    return abs(a.mean - b.mean) > 2.0 * hypot(a.sd, b.sd) / sqrt(PUBLISHED_REPS)


def _same_order(first: Table1Row, second: Table1Row, measure: str) -> bool:
    a, b = (PUBLISHED[row.design, row.gate, row.n][measure].mean for row in (first, second))
    return (a < b) == (figure(first, measure).mean < figure(second, measure).mean)
