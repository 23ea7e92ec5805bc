"""How far the goals of the estimator are met: each with the figure that was wanted and the one that was reached."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.real.competitors import STACK
from benchmarks.real.run import SplitResult
from benchmarks.real.summary import mean_errors, standings

LINEAR = ("meats", "Carseats", "College")  # one expert wins everywhere: a gate has nothing to find


@dataclass(frozen=True)
class Goal:
    """``reached`` beside the bounds; a bound that is None does not bind."""

    name: str
    reached: float
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool:
        """Whether it lies within the bounds."""
        return (self.least is None or self.reached >= self.least) and (self.most is None or self.reached <= self.most)


def goals(results: Sequence[SplitResult], ours: str = "gatewise") -> list[Goal]:
    """The goals that these results can speak of; none without ``ours``, its rivals and the simplex stack."""
    errors = mean_errors(results)
    table = {one.competitor: one for one in standings(errors)}
    rivals = [one for name, one in table.items() if name != ours]
    if ours not in table or STACK not in table:
        return []
    mine, lowest = table[ours], min(one.geometric_mean for one in rivals)
    found = [
        Goal("ranks ahead of the next", min(one.mean_rank for one in rivals) - mine.mean_rank, least=0.5),
        Goal("geometric mean of MSE over best", mine.geometric_mean, most=1.02),
        Goal("the same over the lowest rival's", mine.geometric_mean / lowest, most=1.0),
        Goal(f"worst against the stack ({mine.worst_data})", mine.worst, most=1.03),
    ]
    return found + _linear_goals(results, ours) + _interval_goals(results, ours)


def _linear_goals(results: Sequence[SplitResult], ours: str) -> list[Goal]:
    """On data for lines: hardly ever a gate, and nothing lost to the stack."""
    found = []
    for data in LINEAR:
        mse = {name: [r.mse for r in results if (r.data, r.competitor) == (data, name)] for name in (ours, STACK)}
        verdicts = [r.facts["verdict"] for r in results if (r.data, r.competitor) == (data, ours) and r.facts]
        if mse[ours]:
            ratio = float(np.mean(mse[ours]) / np.mean(mse[STACK]))
            found.append(Goal(f"{data}: MSE over the stack's", ratio, most=1.01))
        if verdicts:
            others = sum(not verdict.startswith("gate") for verdict in verdicts) / len(verdicts)
            found.append(Goal(f"{data}: share of verdicts that are no gate", others, least=0.8))
    return found


def _interval_goals(results: Sequence[SplitResult], ours: str) -> list[Goal]:
    facts = [r.facts for r in results if r.competitor == ours and r.facts]
    if not facts:
        return []
    coverage, covered = (float(np.mean([one[key] for one in facts])) for key in ("coverage90", "gain_covered"))
    return [
        Goal("coverage of the 90 % intervals", coverage, least=0.87, most=0.93),
        Goal("share of gain intervals that cover the test's", covered, least=0.9),
    ]
