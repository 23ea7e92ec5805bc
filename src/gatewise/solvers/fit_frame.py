"""Units, order and rounding of the rows that a gate is fitted to, so that none of them decides what is found.

The objective of a gate has several minima. Which one a fit ends at can hang on the last bit of a number, and units
of the response and the order of the experts change last bits. So fits see numbers in units of the noise, rounded to
GRID, with the experts in an order of their own: the same bits whatever units and order were.
"""

from typing import NamedTuple, Self

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.losses import Loss, ResidualLoss

GRID = 2.0**-20  # of the noise's standard deviation, of a feature's, and of a log weight
COMPARED = 3  # rows that decide the order of columns


class FitFrame(NamedTuple):
    """How the rows of a sample are seen: (F - center) / unit, rounded, in these orders of the experts and columns.

    The ``unit`` is 0 for forecasts that have no unit, as probabilities; they are left as they are.
    """

    center: float
    unit: float
    experts: Indices  # (M,)
    columns: Indices  # (q,), of the linear part

    @classmethod
    def of(cls, F: Floats, linear: Floats, loss: Loss, scale: float, weight: Floats) -> Self:
        """The frame of rows with these weights (n,), from the scale of the loss and the columns of some rows.

        F (k, M) and ``linear`` (k, q) decide the orders: their first row, then, where that has ties, the second.
        """
        center, unit = 0.0, 0.0
        if isinstance(loss, ResidualLoss):
            center, unit = float(weight @ loss.y / weight.sum()), scale
        given = cls(center, unit, np.arange(F.shape[1]), np.arange(linear.shape[1]))
        keys = given.forecasts(F), given.parts(linear)
        return given._replace(experts=np.lexsort(keys[0][::-1]), columns=np.lexsort(keys[1][::-1]))

    def forecasts(self, F: Floats) -> Floats:
        """The forecasts (n, M) of rows."""
        return rounded((F[:, self.experts] - self.center) / self.unit) if self.unit else F[:, self.experts]

    def parts(self, linear: Floats) -> Floats:
        """The columns (n, q) of the linear part."""
        return rounded(linear[:, self.columns] / self.unit) if self.unit else linear[:, self.columns]

    def loss(self, loss: Loss, rows: Indices) -> Loss:
        """The loss of rows."""
        if not isinstance(loss, ResidualLoss):
            return loss.part(rows)
        return ResidualLoss(rounded((loss.y[rows] - self.center) / self.unit), loss.noise)

    def offset(self, reference: Floats) -> Floats:
        """The scores (M,) of the reference."""
        return rounded(np.log(reference[self.experts]))

    def given_order(self, theta: Floats, linear: Floats) -> tuple[Floats, Floats]:
        """Parameters (L, M, p) and coefficients (L, q) in the order in which experts and columns were given."""
        return theta[:, np.argsort(self.experts)], linear[:, np.argsort(self.columns)]


def rounded(values: Floats) -> Floats:
    """The values to the next multiple of GRID.

    >>> rounded(np.array([0.1 + 0.2])) == rounded(np.array([0.3]))
    array([ True])
    """
    return np.asarray(np.rint(values / GRID) * GRID)
