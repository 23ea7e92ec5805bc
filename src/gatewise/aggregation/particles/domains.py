"""The priors of the particles, and unconstrained coordinates, called positions, in which they move.

The prior is uniform on a box for parameters of scores, and uniform on one simplex per centre for a kernel gate. A
position can be any array of real numbers, so that no move ends outside of the parameter space.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from gatewise.arrays import Floats
from gatewise.kernels.box import box_gradient, box_log_prior, box_theta


def _flat(array: Floats) -> Floats:
    return np.ascontiguousarray(array).reshape(len(array), -1)


@dataclass(frozen=True)
class Box:
    """theta uniform on [-radius, radius]^(r x c); the position u has theta = radius tanh(u / 2).

    The uniform law has the logistic density in these coordinates, proportional to 1 - (theta / radius)^2.
    """

    radius: float

    def draw(self, rng: np.random.Generator, size: int, shape: tuple[int, int]) -> Floats:
        """Positions (size, *shape) such that the parameters at them are drawn from the prior."""
        return rng.logistic(size=(size, *shape))

    def theta(self, position: Floats) -> Floats:
        """The parameters at these positions."""
        theta = np.empty(position.shape)
        box_theta(_flat(position), self.radius, _flat(theta))
        return theta

    def log_prior(self, theta: Floats) -> Floats:
        """The log density of the position up to a constant, (S,)."""
        value = np.empty(len(theta))
        box_log_prior(_flat(theta), self.radius, value)
        return value

    def position_gradient(self, theta: Floats, grad: Floats) -> Floats:
        """The gradient of log prior + log likelihood in the position, given that of the log likelihood in theta."""
        out = np.empty(theta.shape)
        box_gradient(_flat(theta), self.radius, _flat(grad), _flat(out))
        return out


@dataclass(frozen=True)
class Simplices:
    """theta (M, C), each column uniform on the simplex; the position holds log(theta_m / theta_M), (M-1, C).

    The uniform law has the density prod_m theta_m in these coordinates, for each column.
    """

    def draw(self, rng: np.random.Generator, size: int, shape: tuple[int, int]) -> Floats:
        """Positions (size, M-1, C) such that the parameters at them, (size, M, C), are drawn from the prior."""
        log_gamma = np.log(rng.standard_exponential((size, *shape)))
        return np.asarray(log_gamma[:, :-1] - log_gamma[:, -1:])

    def theta(self, position: Floats) -> Floats:
        """The parameters at these positions."""
        reference = np.zeros((len(position), 1, position.shape[2]))
        return np.asarray(softmax(np.concatenate([position, reference], axis=1), axis=1))

    def log_prior(self, theta: Floats) -> Floats:
        """The log density of the position up to a constant, (S,)."""
        return np.asarray(np.log(theta).sum(axis=(1, 2)))

    def position_gradient(self, theta: Floats, grad: Floats) -> Floats:
        """The gradient of log prior + log likelihood in the position, given that of the log likelihood in theta."""
        centred = grad - (theta * grad).sum(axis=1, keepdims=True)
        return np.asarray(theta[:, :-1] * centred[:, :-1] + 1.0 - theta.shape[1] * theta[:, :-1])
