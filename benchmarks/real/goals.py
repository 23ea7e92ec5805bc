"""How far the goals of the estimator are met: each with the figure that was wanted and the one that was reached."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.real.competitors import OURS, STACK
from benchmarks.real.run import SplitResult
from benchmarks.real.summary import mean_errors, standings

BOUNDS = {"default": (0.0, 1.05), "strong": (0.2, 1.04)}  # ranks behind the best rival; worst against the stack


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


def goals(results: Sequence[SplitResult], pool: str = "default", ours: str = OURS) -> list[Goal]:
    """The goals that these results can speak of; none without ``ours``, its rivals and the simplex stack."""
    table = {one.competitor: one for one in standings(mean_errors(results))}
    rivals = [one for name, one in table.items() if name != ours]
    if ours not in table or STACK not in table:
        return []
    mine, behind, worst = table[ours], *BOUNDS[pool]
    found = [
        Goal("ranks behind the best rival", mine.mean_rank - min(one.mean_rank for one in rivals), most=behind),
        Goal("geometric mean of MSE over best", mine.geometric_mean, most=1.02),
        Goal(f"worst against the stack ({mine.worst_data})", mine.worst, most=worst),
    ]
    return found + _interval_goals(results, ours)


def _interval_goals(results: Sequence[SplitResult], ours: str) -> list[Goal]:
    facts = [r.facts for r in results if r.competitor == ours and r.facts]
    if not facts:
        return []
    coverage, covered = (float(np.mean([one[key] for one in facts])) for key in ("coverage90", "gain_covered"))
    return [
        Goal("coverage of the 90 % intervals", coverage, least=0.87, most=0.93),
        Goal("share of gain intervals that cover the test's", covered, least=0.92, most=0.98),
    ]
