"""Does gating pay? The verdict of the aggregation, with the gain over the convex stack and its interval."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy import special

from gatewise.arrays import Floats
from gatewise.router.candidates import Candidate, Kind
from gatewise.stats import Interval, mean_and_error, student_interval

LEVEL = 0.95
TEST_SHARE = 0.5  # the interval is for the gain on a test set with this many rows per held-out row
ALPHA = 0.05  # a gate is named only if it beats the stack by a one-sided test at this level


@dataclass(frozen=True)
class Verdict:
    """What a fit found: a single expert, a global stack or a gate.

    kind, name, k, corrected
        Of the candidate that was found: "single", "stack" or "gate"; the name of the expert, the stack or the gate;
        for a gate the number of active experts, None for all; and whether it has a correction.
    weights
        The sum of the candidates' shares by kind, with sum one.
    gain
        The fraction of the convex stack's mean squared error that the aggregate saves on held-out rows, with a 95 %
        interval for the gain on a test set of half as many rows.
    p_value
        Of the one-sided test that gates add nothing to the plain answers, single experts and stacks.
    candidate
        The candidate with the largest share among those of the kind that was found.
    """

    kind: Kind
    name: str
    k: int | None
    corrected: bool
    weights: Mapping[str, float]
    gain: Interval
    p_value: float
    candidate: str

    @property
    def gates(self) -> bool:
        """Whether gating pays."""
        return self.kind == "gate"

    def __str__(self) -> str:
        low, high = (f"{100 * bound:+.1f}" for bound in (self.gain.low, self.gain.high))
        return f"{self.describe()}; gain over the stack {100 * self.gain.value:+.1f} % ({low} to {high})"

    def describe(self) -> str:
        """The verdict in a few words, such as "gate: linear, all experts active"."""
        extra = ", with a linear correction" if self.corrected else ""
        if self.kind == "single":
            return f"do not gate: {self.name} alone"
        if self.kind == "stack":
            return f"do not gate: one {self.name} stack everywhere{extra}"
        return f"gate: {self.name}, {'all experts active' if self.k is None else f'top {self.k}'}{extra}"


@dataclass(frozen=True, eq=False)
class HeldOutLosses:
    """Squared errors (n,) of held-out rows: of the aggregate, of one without gates, and of the convex stack.

    ``n_parts`` is the number of parts that were held out; the losses of one part come from the same fit.
    """

    aggregate: Floats
    plain: Floats
    stack: Floats
    sample_weight: Floats
    n_parts: int


def reach_verdict(candidates: tuple[Candidate, ...], shares: Floats, losses: HeldOutLosses) -> Verdict:
    """The verdict from the shares (S,) and the held-out losses.

    The verdict is a gate only if the aggregate beats an aggregate of single experts and stacks by a test at level
    ALPHA; otherwise it is whichever of single experts and stacks has the larger sum of shares.
    """
    weight = losses.sample_weight
    gain = gain_interval(losses.aggregate, losses.stack, weight, losses.n_parts)
    p_value = no_gain_p_value(losses.aggregate, losses.plain, weight)
    totals = {
        kind: sum(shares[s] for s, c in enumerate(candidates) if c.kind == kind)
        for kind in ("single", "stack", "gate")
    }
    pays = p_value <= ALPHA and totals["gate"] > 0.0
    kind = "gate" if pays else "single" if totals["single"] > totals["stack"] else "stack"
    leading = max((s for s, c in enumerate(candidates) if c.kind == kind), key=lambda s: float(shares[s]))
    best = candidates[leading]
    weights = {name: float(total) for name, total in totals.items()}
    return Verdict(best.kind, best.name, best.k, best.corrected, weights, gain, p_value, str(best))


def gain_interval(losses: Floats, stack_losses: Floats, sample_weight: Floats, n_parts: int) -> Interval:
    """The relative gain over the stack, with an interval for the gain on a test set of half as many rows.

    The differences D_i = (stack's loss - own loss) have mean D and standard error s. The mean over another n / 2 rows
    differs from D with standard deviation sqrt(1 + 2) s, so the interval is D +- t sqrt(3) s. All is divided by the
    stack's mean loss. The Student quantile t has n_parts - 1 degrees of freedom, as the losses of a part come from
    one fit.

    >>> gain = gain_interval(np.array([0.9, 0.8, 1.0]), np.ones(3), np.ones(3), n_parts=3)
    >>> [round(number, 2) for number in gain]
    [0.1, -0.33, 0.53]
    """
    base = abs(float(np.average(stack_losses, weights=sample_weight)))  # a score is a negative loss
    if base == 0.0 or len(losses) < 2:
        return Interval(0.0, -np.inf, np.inf)
    mean, error = mean_and_error(stack_losses - losses, sample_weight)
    found = student_interval(mean, sqrt(1.0 + 1.0 / TEST_SHARE) * error, max(n_parts - 1, 1), LEVEL)
    return Interval(found.value / base, found.low / base, found.high / base)


def no_gain_p_value(losses: Floats, other_losses: Floats, sample_weight: Floats) -> float:
    """One-sided p-value of the null hypothesis that the mean of ``losses`` is not below that of ``other_losses``."""
    if len(losses) < 2:
        return 1.0
    mean, error = mean_and_error(other_losses - losses, sample_weight)
    return float(special.ndtr(-mean / error)) if error > 0.0 else float(mean <= 0.0)
