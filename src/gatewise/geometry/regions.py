"""Where each expert is best: regions of known functions, and regions estimated from losses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_floats, as_rows, Floats, Indices, LARGEST
from gatewise.experts import Expert, expert_matrix, expert_predictions
from gatewise.geometry.checked_inputs import as_losses
from gatewise.geometry.smoothing import NeighborMean, Smoother

RegionMap = Callable[[Any], Indices]
NEIGHBORS = NeighborMean()
ROOT_LARGEST = 1e70  # its fourth power is: variances of squared losses are computed


def best_expert(losses: ArrayLike) -> Indices:
    """r(x) = min argmin_m losses[x, m], (n,): the best expert of every row, ties to the smaller index (`def:region`).

    >>> best_expert([[2.0, 1.0, 1.0], [0.0, 0.0, 3.0]])
    array([1, 0])
    """
    return np.asarray(as_losses(losses).argmin(axis=1))


def squared_losses(predictions: ArrayLike, y: ArrayLike) -> Floats:
    """|f_m(x) - y|^2, (n, M), of predictions (n, M) and y (n,), or of vectors: (n, M, q) and (n, q).

    >>> squared_losses([[1.0, 3.0]], [1.0])
    array([[0., 4.]])
    """
    predicted, target = as_floats(predictions, "predictions"), as_floats(y, "y")
    if predicted.ndim not in {2, 3} or target.shape != (predicted.shape[0], *predicted.shape[2:]):
        raise ValueError(
            "predictions must have shape (n, M) with y (n,), or (n, M, q) with y (n, q), "
            f"not {predicted.shape} and {target.shape}"
        )
    for name, values in (("predictions", predicted), ("y", target)):
        if np.abs(values).max(initial=0.0) > ROOT_LARGEST:
            raise ValueError(
                f"{name} must not exceed {ROOT_LARGEST:g}: sums of fourth powers would overflow; rescale"
            )
    squares = (predicted - target[:, None]) ** 2
    losses: Floats = squares if squares.ndim == 2 else squares.sum(axis=2)
    return as_losses(losses, "squared losses of predictions and y")


@dataclass(frozen=True)
class TrueRegions:
    """The best-expert regions of known functions, X (n, d) -> labels (n,) (`def:region`).

    r*(x) = min argmin_m |f_m(x) - f_0(x)|, ties to the smaller index.

    >>> regions = TrueRegions([lambda X: X[:, 0], lambda X: -X[:, 0]], truth=lambda X: np.abs(X[:, 0]))
    >>> regions([[2.0], [-2.0], [0.0]])
    array([0, 1, 0])
    """

    experts: Sequence[Expert]
    truth: Expert

    def __call__(self, X: Any) -> Indices:
        rows = as_rows(X)
        return best_expert(squared_losses(expert_matrix(self.experts, rows), expert_predictions(self.truth, rows)))


@dataclass(frozen=True, eq=False)
class EstimatedRegions:
    """Regions from losses (n, M) seen at rows X (n, d): the expert of least smoothed loss, ties to the smaller index.

    The losses must be those of rows that the experts were not fitted on: held-out, or `out_of_fold_losses`. The
    smoother is `NeighborMean` or `KernelMean`; both measure distance in X as it is, so scale its columns first.

    >>> X = np.linspace(-1, 1, 101)[:, None]
    >>> losses = np.column_stack([(X[:, 0] > 0), (X[:, 0] < 0)]).astype(float)
    >>> EstimatedRegions(X, losses)([[-0.7], [0.7]])
    array([0, 1])
    """

    X: Any
    losses: Any
    smoother: Smoother = NEIGHBORS

    def __post_init__(self) -> None:
        rows, losses = as_rows(self.X), as_losses(self.losses)
        if np.abs(rows).max(initial=0.0) > LARGEST:
            raise ValueError(f"X must not exceed {LARGEST:g}, as distances would overflow; rescale X")
        if len(rows) != len(losses):
            raise ValueError(f"X and losses must have the same number of rows, not {len(rows)} and {len(losses)}")
        object.__setattr__(self, "X", rows)
        object.__setattr__(self, "losses", losses)

    def smoothed(self, X: Any) -> Floats:
        """The smoothed loss of every expert at new rows, (n, M)."""
        rows = as_rows(X)
        if rows.shape[1] != self.X.shape[1]:
            raise ValueError(f"X must have {self.X.shape[1]} columns, as the rows of the losses, not {rows.shape[1]}")
        return self.smoother(self.X, self.losses, rows)

    def __call__(self, X: Any) -> Indices:
        return best_expert(self.smoothed(X))
