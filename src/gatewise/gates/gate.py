"""The base class of gate families: a frozen description of the family; parameters are a separate array, theta."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gatewise.arrays import as_count, as_floats, Floats
from gatewise.gates.feature_maps import GateFeatures, StandardFeatures
from gatewise.nets import Net


@dataclass(frozen=True)
class Gate(ABC):
    """A family of functions from a row x and a parameter theta to weights on the simplex of ``n_experts`` experts.

    Leading axes of theta are candidates: theta of shape (S, ...) gives weights of shape (S, n, M).

    ``feature_map`` is the class that computes the features of this family in the learned list of `MoERegressor`, and
    ``needs_forecasts`` says whether they are computed from the experts' forecasts. ``by_name`` is false for a family
    that cannot be built by ``family(n_experts)`` alone: an estimator then takes its objects but not its name.
    """

    feature_map: ClassVar[type[GateFeatures]] = StandardFeatures
    needs_forecasts: ClassVar[bool] = False
    by_name: ClassVar[bool] = True

    n_experts: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_experts", as_count(self.n_experts, "n_experts", low=2))

    @property
    def n_active(self) -> int:
        """How many experts a row uses, K; all of them unless the family is sparse."""
        return self.n_experts

    @abstractmethod
    def theta_shape(self, d: int) -> tuple[int, int]:
        """The shape of one parameter theta, for rows with d columns."""

    @abstractmethod
    def features(self, X: Floats) -> Floats:
        """The features (n, p) of rows X (n, d) that theta multiplies."""

    @abstractmethod
    def scores(self, X: Any, theta: ArrayLike) -> Floats:
        """The scores that the weights are computed from, (n, M): a larger score gives a larger weight."""

    @abstractmethod
    def weights(self, X: Any, theta: ArrayLike) -> Floats:
        """The gate at every row of X, (n, M): not negative, each row with sum one."""

    @abstractmethod
    def active(self, X: Any, theta: ArrayLike) -> NDArray[np.intp]:
        """The active experts of every row, (n, K), best first; equal scores go to the smaller index."""

    def route(self, X: Any, theta: ArrayLike) -> tuple[NDArray[np.intp], Floats]:
        """The active experts of every row and their weights, both (n, K): the gate without its zeros.

        >>> from gatewise import LinearGate
        >>> LinearGate(3, k=1).route([[1.0], [-1.0]], [[1.0, 0.0], [2.0, 0.0]])
        (array([[1],
               [2]]), array([[1.],
               [1.]]))
        """
        active = self.active(X, theta)
        return active, np.take_along_axis(self.weights(X, theta), active, axis=-1)

    @abstractmethod
    def mean_weights(self, X: Any, thetas: ArrayLike | Net, shares: ArrayLike | None = None) -> Floats:
        """The mean gate sum_s share_s g(x; theta_s) of S candidates, (n, M), without an array of all their weights.

        ``thetas`` is an array (S, ...) or a net; ``shares`` (S,) are equal unless given.
        """

    def n_params(self, d: int) -> int:
        """The number of coefficients in one parameter theta, for rows with d columns.

        >>> from gatewise import LinearGate
        >>> LinearGate(3).n_params(d=2)
        6
        """
        rows, columns = self.theta_shape(d)
        return rows * columns

    def check_theta(self, theta: ArrayLike, d: int) -> Floats:
        """theta as a finite float64 array of shape (..., *theta_shape(d)), or an error that names that shape."""
        array = as_floats(theta, "theta")
        shape = self.theta_shape(d)
        if array.shape[-2:] != shape:
            raise ValueError(
                f"theta must have shape {shape} for {type(self).__name__} with {self.n_experts} experts and "
                f"d = {d}, or (S, {shape[0]}, {shape[1]}) for S candidates; it has shape {array.shape}"
            )
        if not np.isfinite(array).all():
            raise ValueError("theta must be finite, but it holds a NaN or an infinity")
        return array


def flatten_candidates(theta: Floats) -> Floats:
    """theta (..., r, c) as (S, r, c): all leading axes as one axis of candidates."""
    return theta.reshape(-1, *theta.shape[-2:])
