"""Probabilities of Gatewise, of the convex stack and of every single expert on the same rows."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gatewise.app.models.method_scores import OURS, STACK
from gatewise.arrays import Floats, Indices
from gatewise.geometry import Interval, mean_interval
from gatewise.geometry.two_sample import positive_p_value
from gatewise.router.class_scores import ClassScores
from gatewise.router.verdict import SPREAD_OF_FITS


@dataclass(frozen=True)
class ClassMethodScore:
    """The scores of one way to give probabilities, and how much better Gatewise is.

    ``gain`` is by how many nats a row its log loss exceeds that of Gatewise, with Student's 95 % interval, widened as
    that of the verdict (`gain_interval`); ``p_value`` is that of Student's one-sided test of no gain, which assumes
    that the losses of the rows are independent. Both are None for Gatewise itself.
    """

    method: str
    scores: ClassScores
    gain: Interval | None
    p_value: float | None

    def record(self) -> dict[str, Any]:
        """The score as a mapping, its gain as one of value, low and high."""
        plain = {"method": self.method, **asdict(self.scores), "p_value": self.p_value}
        return {**plain, "gain": None if self.gain is None else self.gain._asdict()}


def compare_classes(
    outcome: Indices,
    ours: Floats,
    stack: Floats,
    experts: Floats,
    names: Sequence[str],
    widened: float = SPREAD_OF_FITS,
) -> tuple[ClassMethodScore, ...]:
    """The scores of probabilities (n, C) of Gatewise and the stack, and (n, M, C) of the experts.

    Intervals of gains are ``widened`` as in the verdict.

    >>> p = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> [one.method for one in compare_classes(np.array([0, 1, 0]), p, p, p[:, None], ["line"])]
    ['Gatewise', 'convex stack', 'line alone']
    """
    rows = np.arange(len(outcome))
    others = {STACK: stack, **{f"{name} alone": experts[:, m] for m, name in enumerate(names)}}
    found = [ClassMethodScore(OURS, ClassScores.of(ours, outcome), None, None)]
    for method, p in others.items():
        saved = np.log(ours[rows, outcome]) - np.log(p[rows, outcome])
        value, low, high = mean_interval(saved)
        gain = Interval(value, value - widened * (value - low), value + widened * (high - value))
        found.append(ClassMethodScore(method, ClassScores.of(p, outcome), gain, float(positive_p_value(saved))))
    return tuple(found)
