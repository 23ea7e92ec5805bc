"""Sample weights as counts: a row of weight w passes in steps whose densities count to powers of at most 1."""

from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats, Indices

MOST_STEPS = 10_000_000


class WeightSteps(NamedTuple):
    """N steps for n rows: the row (N,) and the power (N,) of each step, and the first step (n,) of each row."""

    row: Indices
    power: Floats
    first: Indices

    @property
    def ends(self) -> Indices:
        """The step before which each row begins, and the number of steps, (n + 1,)."""
        return np.append(self.first, len(self.row))


def weight_steps(weight: Floats) -> WeightSteps:
    """Steps for rows of these weights (n,), all positive: as many of power 1 as go into the weight, then the rest.

    A row of a whole weight w is thus the same as w copies of it next to each other, and the times of a row are worth
    its weight in an average over time. No power is above 1, as the regret of at most log S needs: by Jensen's
    inequality sum_s w_s z_s^a <= (sum_s w_s z_s)^a for a <= 1, and the other way round above.

    >>> weight_steps(np.array([1.0, 2.5]))
    WeightSteps(row=array([0, 1, 1, 1]), power=array([1. , 1. , 1. , 0.5]), first=array([0, 1]))
    """
    count = np.ceil(weight)
    if count.sum() > MOST_STEPS:
        raise ValueError(
            f"sample_weight has the sum {weight.sum():.4g}, and every unit of it takes as long as a row: divide it "
            f"by a number, for all rows to count that much less; at most {MOST_STEPS:,} units are taken"
        )
    times = count.astype(np.intp)
    ends = np.cumsum(times)
    power = np.ones(int(ends[-1]) if len(ends) else 0)
    power[ends - 1] = weight - (count - 1.0)
    return WeightSteps(np.repeat(np.arange(len(times)), times), power, ends - times)
