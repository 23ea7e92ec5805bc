"""All data sets of the benchmark, their two halves, and those that no choice has seen."""

import hashlib
from collections.abc import Sequence

from benchmarks.real.catalogue import ECONOMY, NATURE, OUTSIDE, PEOPLE
from benchmarks.real.datasets import DataSet

DATA_SETS: tuple[DataSet, ...] = (*ECONOMY, *PEOPLE, *NATURE)


def halves(datasets: Sequence[DataSet]) -> tuple[tuple[DataSet, ...], tuple[DataSet, ...]]:
    """Two parts with equally many sources, up to one, in the order of the sources' SHA-256: nobody chooses them.

    >>> sets = [DataSet("MASS", name, "y", source=source) for name, source in (("a", "x"), ("b", "z"), ("c", "x"))]
    >>> [[one.name for one in half] for half in halves(sets)]
    [['a', 'c'], ['b']]
    """
    sources = sorted({one.source for one in datasets}, key=lambda text: hashlib.sha256(text.encode()).digest())
    first = set(sources[: (len(sources) + 1) // 2])
    return tuple(one for one in datasets if one.source in first), tuple(
        one for one in datasets if one.source not in first
    )


HALVES = halves(DATA_SETS)
SUITES: dict[str, tuple[DataSet, ...]] = {
    "all": DATA_SETS,
    "first": HALVES[0],
    "second": HALVES[1],
    "outside": OUTSIDE,
}


def select(suite: str = "all", only: str | None = None) -> tuple[DataSet, ...]:
    """The data sets of a suite, or the one of that name.

    >>> [chosen.target for chosen in select("all", only="quakes")]
    ['mag']
    """
    if suite not in SUITES:
        raise ValueError(f"suite must be one of {', '.join(SUITES)}, not {suite!r}")
    chosen = tuple(one for one in SUITES[suite] if only in (None, one.name))
    if not chosen:
        names = ", ".join(one.name for one in SUITES[suite])
        raise ValueError(f"only must name a data set of the suite {suite!r}, one of {names}, not {only!r}")
    return chosen
