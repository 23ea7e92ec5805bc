"""The list of candidates and its prior: every expert, global stacks, gates of every class, and shared parts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Literal

import numpy as np

from gatewise.arrays import Floats

Start = Literal["stack", "equal"]
Kind = Literal["single", "stack", "gate", "shared"]
Family = Literal["plain", "softmax", "top-k", "tree", "forest", "boosted", "products", "class stack"]
# Of error gates: the weights that they start from, and how steeply these fall with the expected errors.
ERROR_GATES: tuple[tuple[Start, float], ...] = (("stack", 1.0), ("stack", 2.0), ("equal", 2.0))
STACK_SPREADS = (0.3, 1.0, 3.0)  # prior standard deviations of the correction's coefficients, beside a stack
SHARED_FAMILIES: Mapping[str, Family] = {"forest": "forest", "boosted": "boosted", "products": "products"}
CLOSE = 1 / 3  # of what the best candidate saves: those that are not farther behind are fitted to many rows
EQUAL = 6  # digits: errors that agree in so many are equal, as those of gates that all give one expert its way
WIDER = 1e-3  # of the error: a wider spread that lowers it by less is no better
FEW = ("linear", "forecast")  # gates of few coefficients: they cost little, and many rows may show what few do not
# The prior weight of every family of candidates, divided equally within it: log(1 / prior) is what a family costs.
PRIOR: Mapping[Family, float] = {
    "plain": 0.25,
    "softmax": 0.15,
    "top-k": 0.05,
    "tree": 0.1,
    "forest": 0.1,
    "boosted": 0.15,
    "products": 0.2,
    "class stack": 0.45,
}


@dataclass(frozen=True)
class Candidate:
    """One entry of the list, before it is fitted.

    ``kind`` "single" is one expert, by its name. "stack" is the "convex" combination of the experts, a "greedy"
    selection of them, or their "mean".
    "gate" is a gate by its name, with the ``spread`` (prior standard deviation) of its coefficients, or the ``depth``
    and number of boosted ``trees``, and the number ``k`` of active experts, None for all. An error gate has a
    ``steepness``: its weights ``start`` from the stack's or from equal ones, and fall with this power of the squared
    error that a regression expects of every expert. "shared" is the convex stack plus what a learner on inputs and
    forecasts adds to it, by the learner's name, with its number of boosted trees; or a stack of class probabilities
    that is no mixture of the experts'. A ``corrected`` candidate adds a linear combination of the experts, the same
    for all rows.
    """

    kind: Kind
    name: str
    spread: float = 0.0
    k: int | None = None
    corrected: bool = False
    depth: int = 0
    trees: int = 0
    steepness: float = 0.0
    start: Start = "stack"

    @property
    def family(self) -> Family:
        """The family that the prior is divided among."""
        if self.kind == "gate":
            return "tree" if self.depth else "softmax" if self.k is None else "top-k"
        if self.kind == "shared":
            return SHARED_FAMILIES.get(self.name, "class stack")
        return "plain"

    def __str__(self) -> str:
        if self.family == "class stack":
            return self.name + (f", spread {self.spread:g}" if self.spread else "") + self._count()
        if self.kind == "shared":
            by = f"{self.name} of" if self.spread else f"{self.name} on"
            size = f", spread {self.spread:g}" if self.spread else self._count()
            return f"convex stack and {by} inputs and forecasts{size}"
        words = [self.name if self.kind == "single" else f"{self.name} {self.kind}"]
        if self.depth:
            words += [f"depth {self.depth}" + self._count()]
        elif self.kind == "gate":
            words += (
                [f"spread {self.spread:g}"]
                if self.spread
                else ["by expected errors", f"steepness {self.steepness:g}"]
            )
            words += ["from equal weights"] if self.start == "equal" else []
            words += [f"top {self.k}"] if self.k else []
        if self.corrected:
            words += ["corrected" if self.kind == "gate" else f"corrected by {self.spread:g}"]
        return ", ".join(words)

    def _count(self) -> str:
        return f", {self.trees} trees" if self.trees else ""


CONVEX = Candidate("stack", "convex")
GREEDY = Candidate("stack", "greedy")


def candidate_list(
    experts: Sequence[str],
    gates: Mapping[str, Sequence[tuple[float, int | None]]],
    corrected: bool,
    others: Sequence[Candidate] = (),
) -> tuple[Candidate, ...]:
    """The list: every expert, the stacks, every gate with its spreads and numbers of active experts, shared parts.

    The greedy stack comes with the corrected ones, both for forecasts of numbers.
    ``gates`` gives by the gate's name pairs to try: a spread and a number of active experts, None for all. Top-K
    gates are never corrected, because a correction needs the forecasts of all experts. ``others`` follow: error
    gates, and candidates made of trees.

    >>> [str(c) for c in candidate_list(["a", "b"], {"linear": [(1.0, None), (1.0, 1)]}, corrected=False)]
    ['a', 'b', 'convex stack', 'mean stack', 'linear gate, spread 1', 'linear gate, spread 1, top 1']
    """
    plain = [
        *(Candidate("single", name) for name in experts),
        CONVEX,
        Candidate("stack", "mean"),
    ]
    dense = [(name, spread) for name, pairs in gates.items() for spread, k in pairs if k is None]
    listed = [Candidate("gate", *gate) for gate in dense]
    if corrected:
        plain += [GREEDY] if len(experts) > 1 else []
        plain += [Candidate("stack", "convex", spread, corrected=True) for spread in STACK_SPREADS]
        listed += [Candidate("gate", *gate, corrected=True) for gate in dense]
    listed += [
        Candidate("gate", name, spread, k) for name, pairs in gates.items() for spread, k in pairs if k is not None
    ]
    return (*plain, *listed, *others)


def error_gates(names: Mapping[str, Sequence[int | None]]) -> list[Candidate]:
    """Error gates of every name, with its numbers of active experts.

    >>> [str(c) for c in error_gates({"linear": [None]})][-1]
    'linear gate, by expected errors, steepness 2, from equal weights'
    """
    return [
        Candidate("gate", name, k=k, steepness=steepness, start=start)
        for name, ks in names.items()
        for k in ks
        for start, steepness in ERROR_GATES
    ]


def promising(
    candidates: Sequence[Candidate], tried: Sequence[Candidate], errors: Floats, n: int
) -> tuple[Candidate, ...]:
    """The candidates worth fitting on many rows, given the mean errors (S,) of those tried on n of them.

    They are all that cost little, plain answers and error gates; the best one of every family, the first among
    equals, and of the softmax gates in `FEW` the best one each; those whose error is above the least by at most CLOSE
    times what the least saves of the convex stack's, or by at most CLOSE times the standard error sqrt(2 / n) of a
    mean squared error; and after each of these the next larger one of its kind, in depth, trees or spread, as more
    rows can pay for it. Spreads beyond the one after the best of a gate are left out: where widening it no longer
    helped, still wider ones take most of the time for nothing.

    >>> small, middle, large = (Candidate("gate", "linear", spread) for spread in (0.3, 1.0, 3.0))
    >>> promising([small, middle, large], [CONVEX, small, middle], np.array([1.5, 1.0, 1.2]), 9999) == (small, middle)
    True
    """
    least, stack = float(errors.min()), float(errors[tried.index(CONVEX)])
    most = least + CLOSE * max(stack - least, sqrt(2.0 / n) * abs(least))
    groups = [(c.family, c.name if c.family == "softmax" and c.name in FEW else "", c.steepness > 0.0) for c in tried]
    best: dict[tuple[str, str, bool], int] = {}
    for s in np.argsort(np.round(errors / (abs(least) or 1.0), EQUAL), kind="stable").tolist():
        best.setdefault(groups[s], s)
    kept = {c for s, c in enumerate(tried) if errors[s] <= most or best[groups[s]] == s}
    paths: dict[tuple[str, str, int | None, bool], list[Candidate]] = {}
    for c in sorted(candidates, key=lambda c: (c.depth, c.trees, c.spread)):
        if not c.steepness:
            paths.setdefault((c.kind, c.name, c.k, c.corrected), []).append(c)
    kept |= {larger for path in paths.values() for c, larger in pairwise(path) if c in kept}
    known = dict(zip(tried, errors.tolist(), strict=True))
    kept -= {c for path in paths.values() for c in _too_wide(path, known)}
    return tuple(c for c in candidates if c.family == "plain" or c.steepness or c in kept)


def _too_wide(path: Sequence[Candidate], errors: Mapping[Candidate, float]) -> Sequence[Candidate]:
    """The gates of a path of spreads that come after the one after the best of those whose errors are known.

    The best is the one of smallest spread whose error is at most WIDER above the least.
    """
    known = [errors[c] for c in path if c in errors]
    if path[0].family not in ("softmax", "top-k") or not known:
        return ()
    best = next(i for i, c in enumerate(path) if c in errors and errors[c] <= (1.0 + WIDER) * min(known))
    return path[best + 2 :]


def log_prior(candidates: Sequence[Candidate]) -> Floats:
    """The log prior of every candidate, (S,): PRIOR by family, divided equally within a family.

    The families that the list has share the whole prior weight in proportion.
    """
    counts = Counter(c.family for c in candidates)
    total = sum(PRIOR[family] for family in counts)
    return np.log([PRIOR[c.family] / (total * counts[c.family]) for c in candidates])


def log_priors(candidates: Sequence[Candidate]) -> Floats:
    """The `log_prior` of the list, and of the two lists that the test of gates compares: (3, S).

    The test compares a list with gates and one without. Products of inputs and forecasts are in neither: with them
    the weights of the experts change with x, but they are no gate.
    """
    products, gate = ([part in (c.kind, c.family) for c in candidates] for part in ("products", "gate"))
    absent = np.array([[False] * len(candidates), products, np.logical_or(products, gate)])
    return np.where(absent, -np.inf, log_prior(candidates))


def by_group(candidates: Sequence[Candidate]) -> dict[str, tuple[Candidate, ...]]:
    """The candidates that are fitted together, in their order: "plain", "softmax", "tree", "shared", "products"."""
    groups: dict[str, list[Candidate]] = {}
    joined = {"top-k": "softmax", "forest": "shared", "boosted": "shared", "class stack": "shared"}
    for c in candidates:
        groups.setdefault(joined.get(c.family, c.family), []).append(c)
    return {group: tuple(members) for group, members in groups.items()}
