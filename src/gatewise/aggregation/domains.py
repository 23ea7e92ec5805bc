"""Priors of the particles: uniform on a box of scores' parameters, uniform on one simplex per centre."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from gatewise.kernels.reflect import reflect

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Box:
    """theta uniform on [-radius, radius]^(r x c); the position is theta itself."""

    radius: float

    def sample(self, rng: np.random.Generator, size: int, shape: tuple[int, int]) -> Floats:
        return rng.uniform(-self.radius, self.radius, (size, *shape))

    def theta(self, position: Floats) -> Floats:
        return position

    def log_prior(self, theta: Floats) -> Floats:
        """The log density of the position up to a constant, (S,)."""
        return np.zeros(len(theta))

    def pull(self, _theta: Floats, grad: Floats) -> Floats:
        """The gradient of log prior + log likelihood in the position, given the likelihood's in theta."""
        return grad

    def fold(self, position: Floats, direction: Floats) -> None:
        """Reflect at the walls, in place: a path of any length, as light between mirrors."""
        reflect(position.reshape(-1), direction.reshape(-1), self.radius)


@dataclass(frozen=True)
class Simplices:
    """theta (M, C), each column uniform on the simplex; the position holds log(theta_m / theta_M), (M-1, C).

    The uniform law has the density prod_m theta_m in these coordinates, for each column.
    """

    def sample(self, rng: np.random.Generator, size: int, shape: tuple[int, int]) -> Floats:
        log_gamma = np.log(rng.standard_exponential((size, *shape)))
        return np.asarray(log_gamma[:, :-1] - log_gamma[:, -1:])

    def theta(self, position: Floats) -> Floats:
        reference = np.zeros((len(position), 1, position.shape[2]))
        return np.asarray(softmax(np.concatenate([position, reference], axis=1), axis=1))

    def log_prior(self, theta: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(theta).sum(axis=(1, 2)))

    def pull(self, theta: Floats, grad: Floats) -> Floats:
        centred = grad - (theta * grad).sum(axis=1, keepdims=True)
        return np.asarray(theta[:, :-1] * centred[:, :-1] + 1.0 - theta.shape[1] * theta[:, :-1])

    def fold(self, position: Floats, direction: Floats) -> None:
        """Nothing to fold: every position is allowed."""
