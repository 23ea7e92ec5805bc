"""Gatewise, the convex stack and every single expert on the same rows."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gatewise.arrays import Floats
from gatewise.geometry import Interval
from gatewise.geometry.two_sample import positive_p_value
from gatewise.router.verdict import gain_interval, SPREAD_OF_FITS

OURS, STACK = "Gatewise", "convex stack"


@dataclass(frozen=True)
class MethodScore:
    """The error of one way to predict, and how much better Gatewise is.

    ``gain`` is the fraction of its mean squared error that Gatewise saves, with the 95 % interval of the verdict
    (`gain_interval`); ``p_value`` is that of Student's one-sided test of no gain, which assumes that the errors of
    the rows are independent. Both are None for Gatewise itself.
    """

    method: str
    rmse: float
    gain: Interval | None
    p_value: float | None

    def record(self) -> dict[str, Any]:
        """The score as a mapping, its gain as one of value, low and high."""
        return {**asdict(self), "gain": None if self.gain is None else self.gain._asdict()}


def compare(
    y: Floats, ours: Floats, stack: Floats, F: Floats, names: Sequence[str], widened: float = SPREAD_OF_FITS
) -> tuple[MethodScore, ...]:
    """The scores of forecasts of y (n,): of Gatewise and the stack (n,), and of the experts (n, M).

    Intervals of gains are ``widened`` as in the verdict.

    >>> y = np.array([0.0, 1.0, 2.0])
    >>> [(one.method, round(one.rmse, 2)) for one in compare(y, y, y + 1, y[:, None] + 2, ["line"])]
    [('Gatewise', 0.0), ('convex stack', 1.0), ('line alone', 2.0)]
    """
    forecasts = {STACK: stack, **{f"{name} alone": F[:, m] for m, name in enumerate(names)}}
    mine = (y - ours) ** 2
    found = [MethodScore(OURS, float(np.sqrt(mine.mean())), None, None)]
    for method, forecast in forecasts.items():
        loss = (y - forecast) ** 2
        gain = gain_interval(mine, loss, np.ones(len(y)), widened)
        found.append(MethodScore(method, float(np.sqrt(loss.mean())), gain, float(positive_p_value(loss - mine))))
    return tuple(found)
