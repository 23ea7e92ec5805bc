"""Runs of `RouterAggregator` where the truth is known: the risks of the online aggregate and of its projection."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gatewise.aggregation import Blocks
from gatewise.arrays import Floats
from gatewise.estimators import RouterAggregator
from gatewise.experts import expert_matrix
from gatewise.gates import LinearGate

Function: TypeAlias = Callable[[Floats], Floats]
N_TEST = 2000


class Risks(NamedTuple):
    """Squared distances from the truth: the mean of the one-step-ahead forecasts', and that of the projected gate."""

    online: float
    single: float


@dataclass(frozen=True, eq=False)
class OracleDesign:
    """y = f_0(x) + sigma z with x uniform on [-1, 1]^d, experts, and the gate family that is learned over them."""

    gate: LinearGate
    d: int
    experts: Sequence[Any]
    truth: Function
    sigma: float

    def risks(
        self, n: int, net: Any, rng: np.random.Generator, projection: str = "l2", blocks: Blocks | None = None
    ) -> Risks:
        """One fit to n fresh rows; the projected gate is judged on other ones.

        A forecast of row t has not seen it, so its expected squared distance from f_0 there is its L2 distance.
        """
        X = rng.uniform(-1.0, 1.0, (n, self.d))
        y = self.truth(X) + self.sigma * rng.normal(size=n)
        seed = int(rng.integers(2**31))
        router = RouterAggregator(
            self.experts, self.gate, net, projection=projection, blocks=blocks, random_state=seed
        ).fit(X, y)
        used = router.order_[sum(router.blocks_[:2]) : sum(router.blocks_[:3])]
        forecasts = np.asarray(router.online_predictions_, dtype=np.float64)
        online = float(((forecasts - self.truth(X[used])) ** 2).mean())
        test = rng.uniform(-1.0, 1.0, (N_TEST, self.d))
        single = float(((router.predict(test, readout="single") - self.truth(test)) ** 2).mean())
        return Risks(online, single)

    def mean_risks(self, reps: int, n: int, net: Any, rng: np.random.Generator, **kwargs: Any) -> Risks:
        """The mean over independent fits."""
        runs = [self.risks(n, net, rng, **kwargs) for _ in range(reps)]
        return Risks(float(np.mean([run.online for run in runs])), float(np.mean([run.single for run in runs])))


def wave_experts(M: int, d: int, rng: np.random.Generator) -> list[Function]:
    """M functions on [-1, 1]^d, bounded by 0.8, at levels of their own, so that gates show in the mixture."""
    slopes, phases = rng.normal(scale=1.5, size=(M, d)), rng.uniform(0, 2 * np.pi, M)
    levels = np.linspace(-0.5, 0.5, M)
    return [_wave(*numbers) for numbers in zip(levels, slopes, phases, strict=True)]


def _wave(level: float, slope: Floats, phase: float) -> Function:
    return lambda X: np.asarray(level + 0.3 * np.sin(X @ slope + phase))


def constant(value: float) -> Function:
    """The function that is ``value`` everywhere."""
    return lambda X: np.full(len(X), float(value))


def separated_theta(gate: LinearGate, d: int, least: float, rng: np.random.Generator) -> Floats:
    """A parameter in [-2, 2] whose slopes are ``least`` apart."""
    while True:
        theta = rng.uniform(-2.0, 2.0, (gate.n_experts - 1, d + 1)) * np.append(np.ones(d), 0.5)
        if gate.separation(theta) >= least:
            return np.asarray(theta)


def inside_class(gate: LinearGate, d: int, sigma: float, least: float, rng: np.random.Generator) -> OracleDesign:
    """A design whose truth is a mixture of its experts by a gate of the family, slopes ``least`` apart."""
    experts, theta = wave_experts(gate.n_experts, d, rng), separated_theta(gate, d, least, rng)

    def truth(X: Floats) -> Floats:
        return np.asarray((gate.weights(X, theta) * expert_matrix(experts, X)).sum(axis=1))

    return OracleDesign(gate, d, experts, truth, sigma)


class MovingExpert:
    """f + a_t shift after t observations: an expert whose distance from f is known at every time."""

    def __init__(self, target: Function, shift: Function, size: Callable[[int], float]) -> None:
        self.target, self.shift, self.size, self.seen = target, shift, size, 0

    def partial_fit(self, X: Any, y: Floats) -> "MovingExpert":  # noqa: ARG002 - only their number counts
        """Count the rows."""
        self.seen += len(y)
        return self

    def predict(self, X: Any) -> Floats:
        """The expert as it is now, (n,)."""
        return np.asarray(self.target(X) + self.size(self.seen) * self.shift(X))
