"""How large each component's sieve should be: GCV, AIC or cross-validation over sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from gatewise.arrays import as_count, Booleans
from gatewise.shared.least_squares import AdditiveFit, AdditiveProblem

Fit = Callable[[AdditiveProblem], AdditiveFit]
Ridge = tuple[float, float]
Sizes = tuple[int, ...]  # (shared, region 0, ..., region J-1)


def gcv(rss: float, df: float, n: int) -> float:
    """Generalized cross-validation, n RSS / (n - df)^2; infinite with no rows to spare.

    >>> gcv(8.0, 2.0, 10)
    1.25
    """
    return n * rss / (n - df) ** 2 if df < n else np.inf


def aic(rss: float, df: float, n: int) -> float:
    """Akaike's criterion for normal errors of unknown variance, n log(RSS / n) + 2 df."""
    return n * np.log(max(rss / n, np.finfo(float).tiny)) + 2.0 * df if df < n else np.inf


CRITERIA: dict[str, Callable[[float, float, int], float]] = {"gcv": gcv, "aic": aic}


@dataclass(frozen=True)
class SieveSearch:
    """Sizes to choose from, for the shared component and for each routed one; an empty tuple keeps a basis as it is.

    ``criterion`` is "gcv", "aic" or "cv" (``folds`` folds). Every region gets a size of its own. ``ridges``, if any,
    are tried for the shared and for the routed component, all pairs, at the sizes chosen.

    >>> SieveSearch(routed=range(1, 4)).routed
    (1, 2, 3)
    """

    shared: tuple[int, ...] = ()
    routed: tuple[int, ...] = ()
    criterion: str = "gcv"
    folds: int = 5
    ridges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("shared", "routed"):
            object.__setattr__(self, name, tuple(as_count(k, f"{name} size", low=0) for k in getattr(self, name)))
        if self.criterion not in (*CRITERIA, "cv"):
            raise ValueError(f"criterion must be one of {[*CRITERIA, 'cv']}, not {self.criterion!r}")
        as_count(self.folds, "folds", low=2)
        object.__setattr__(self, "ridges", tuple(map(float, self.ridges)))
        if not all(np.isfinite(value) and value >= 0 for value in self.ridges):
            raise ValueError(f"ridges must be numbers from 0 on, not {self.ridges}")

    def score(self, problem: AdditiveProblem, fit: Fit) -> float:
        """The criterion of one choice of sizes; smaller is better."""
        if any(len(index) < R.shape[1] for R, index in zip(problem.routed, problem.rows, strict=True)):
            return np.inf
        if self.criterion == "cv":
            return cross_validated(problem, fit, self.folds)
        done = fit(problem)
        return CRITERIA[self.criterion](done.rss, done.df, len(problem.y))


def choose_ridge(
    problem: AdditiveProblem, fit: Callable[[AdditiveProblem, Ridge], AdditiveFit], sieve: SieveSearch, given: Ridge
) -> Ridge:
    """The pair (shared, routed) of ridges with the smallest score; ``given`` if there are none to choose from."""
    pairs = [(a, b) for a in sieve.ridges for b in sieve.ridges] or [given]
    return min(pairs, key=lambda pair: sieve.score(problem, lambda part: fit(part, pair)))


def cross_validated(problem: AdditiveProblem, fit: Fit, folds: int) -> float:
    """The mean squared error on held-out rows; every ``folds``-th row of each region makes a fold.

    Taking turns row by row keeps the folds alike even where the rows come sorted, and needs no random numbers.
    """
    turn = np.empty(len(problem.y), dtype=np.intp)
    for index in problem.rows:
        turn[index] = np.arange(len(index)) % folds
    total = 0.0
    for fold in range(folds):
        done = fit(_subset(problem, turn != fold))
        out = _subset(problem, turn == fold)
        rest = out.y - out.shared @ done.shared
        for R, index, a in zip(out.routed, out.rows, done.routed, strict=True):
            rest[index] -= R @ a
        total += float(rest @ rest)
    return total / len(problem.y)


def choose_sizes(
    score: Callable[[Sizes], float], shared: Sequence[int], routed: Sequence[int], n_regions: int
) -> Sizes:
    """The sizes with the smallest score: all pairs (shared, one size for all regions), then one component at a time.

    The second step repeats until no single change helps; each pair of sizes is scored once.

    >>> choose_sizes(lambda k: (k[0] - 2) ** 2 + (k[1] - 1) ** 2 + (k[2] - 3) ** 2, [1, 2], [1, 2, 3], 2)
    (2, 1, 3)
    """
    seen: dict[Sizes, float] = {}

    def ask(sizes: Sizes) -> float:
        if sizes not in seen:
            seen[sizes] = score(sizes)
        return seen[sizes]

    best = min(((s, *[r] * n_regions) for s, r in product(shared, routed)), key=ask)
    while True:
        options = [shared] + [routed] * n_regions
        changed = [(*best[:j], k, *best[j + 1 :]) for j, sizes in enumerate(options) for k in sizes]
        better = min(changed, key=ask)
        if ask(better) >= ask(best):
            if not np.isfinite(ask(best)):
                raise ValueError("sieve: every choice of sizes has more columns than some region has rows")
            return best
        best = better


def _subset(problem: AdditiveProblem, keep: Booleans) -> AdditiveProblem:
    place = np.cumsum(keep) - 1
    kept = [keep[index] for index in problem.rows]
    routed = tuple(R[k] for R, k in zip(problem.routed, kept, strict=True))
    rows = tuple(place[index[k]] for index, k in zip(problem.rows, kept, strict=True))
    return AdditiveProblem(problem.shared[keep], routed, rows, problem.y[keep])
