"""A check of one claim: its label, what is computed, the law that must hold, and the function that tests it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import Floats
from gatewise.backends import Backend, in_turn


class CheckOutcome(NamedTuple):
    """The result of a check: the figure that was computed, as text, and whether the law holds."""

    figure: str
    passed: bool


@dataclass(frozen=True)
class Check:
    """One claim. ``run(rng, quick)`` draws its own randomness and asks the functions that the package ships.

    That it can fail is shown by breaking these functions, one at a time: `tools/broken.py` has the table.
    """

    label: str
    computed: str
    law: str
    run: Callable[[np.random.Generator, bool], CheckOutcome]
    cost: float = 1.0  # about its part of a run's time: several processes begin with the longest

    @property
    def name(self) -> str:
        """The label, made unique by the function's name where a claim has several checks."""
        return f"{self.label} [{self.run.__name__}]"


@dataclass(frozen=True)
class VerifyRow:
    """One line of the table."""

    label: str
    computed: str
    figure: str
    law: str
    passed: bool
    seconds: float


def run_check(check: Check, seed: int, quick: bool) -> VerifyRow:
    """Run one check. Its randomness depends on the seed and its own name, not on which other checks are run."""
    rng = np.random.default_rng([seed, crc32(check.name.encode())])
    start = perf_counter()
    outcome = check.run(rng, quick)
    seconds = perf_counter() - start
    return VerifyRow(check.label, check.computed, outcome.figure, check.law, bool(outcome.passed), seconds)


def run_checks(
    checks: Sequence[Check], seed: int = 0, quick: bool = False, backend: Backend = in_turn
) -> Iterator[tuple[int, VerifyRow]]:
    """The places of checks and their rows of the table, as they are done; costly ones are begun first.

    Each check runs in one thread, so the rows do not depend on the backend.
    """
    order = sorted(range(len(checks)), key=lambda place: -checks[place].cost)
    for done, row in backend(run_check, [(checks[place], seed, quick) for place in order]):
        yield order[done], row


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """The least-squares slope of log y on log x: the exponent of a power law.

    >>> round(slope([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    return float(np.polyfit(np.log(np.asarray(x)), np.log(np.asarray(y)), 1)[0])


def held_out_ratio(measured: ArrayLike, law: ArrayLike) -> float:
    """max of measured / (C law) on the second half of a grid; C is the largest measured / law on the first half.

    So a bound with a free constant cannot pass by the choice of the constant: C is fixed on the first half.

    >>> held_out_ratio([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0])
    1.0
    """
    quotient = np.asarray(measured) / np.asarray(law)
    half = len(quotient) // 2
    return float(quotient[half:].max() / quotient[:half].max())


class Constant(NamedTuple):
    """The constant of measured <= C law: the largest quotient on a grid, and its ratio to the smallest."""

    value: float
    spread: float


def fitted_constant(measured: ArrayLike, law: ArrayLike) -> Constant:
    """The least C with measured <= C law on a whole grid, and the spread of measured / law over the grid.

    >>> fitted_constant([1.0, 3.0], [1.0, 2.0])
    Constant(value=1.5, spread=1.5)
    """
    quotient = np.asarray(measured, dtype=np.float64) / np.asarray(law, dtype=np.float64)
    return Constant(float(quotient.max()), float(quotient.max() / quotient.min()))


def cube_grid(d: int, points: int) -> Floats:
    """A regular grid of the unit cube that holds its corners, (points^d, d)."""
    axis = np.linspace(0.0, 1.0, points)
    return np.stack([grid.ravel() for grid in np.meshgrid(*[axis] * d, indexing="ij")], axis=1)


def gauss_nodes(low: float, high: float, n: int) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on [low, high]."""
    x, w = np.polynomial.legendre.leggauss(n)
    half = (high - low) / 2
    return half * x + (low + high) / 2, half * w
