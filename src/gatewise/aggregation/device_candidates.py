"""Candidates whose sums are taken on a device, as a GPU: what the aggregation asks of them."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from gatewise.aggregation.gate_candidates import Candidates, ProductCandidates
from gatewise.arrays import Booleans, Floats, Indices
from gatewise.backends import device_net
from gatewise.noise import Noise


class DeviceScale(NamedTuple):
    """The noise scale: a number, or the calibration rows (features, y and F) and the bounds of what they give."""

    sigma: float | None
    rows: Any
    bounds: tuple[float, float]


class DeviceRun(NamedTuple):
    """Step (e) on a device; predictions (n,) and log_z (n + 1,) as in `NetRun`.

    mean_weights (S,) stay on the device; effective: the effective number of candidates at the end; leading: those of
    largest mean weight; sigma (S,), (1,) where the scale is given, or empty where there are too many.
    """

    predictions: Floats
    log_z: Floats
    mean_weights: Any
    effective: float
    leading: Indices
    sigma: Floats


@runtime_checkable
class DeviceCandidates(Candidates, Protocol):
    """A finite set of gates with all sums over them taken on a device; ``weights`` are what `run` left there."""

    def run(self, rows: Any, scale: DeviceScale, noise: Noise, allowed: Booleans | None) -> DeviceRun:
        """Steps (d) and (e): calibrate, unless the scale is given, and aggregate the rows."""
        ...

    def scales_at(self, chosen: Indices, scale: DeviceScale) -> Floats:
        """The scales of a few candidates, (chosen,)."""
        ...

    def uniform(self, allowed: Booleans | None) -> Any:
        """Equal weights on the candidates that count."""
        ...

    def gate_mean(self, features: Floats, weights: Any) -> Floats:
        """sum_s weights[s] g(x_q; theta_s) at Q rows, (Q, M)."""
        ...

    def mixture(self, features: Floats, F: Floats, weights: Any) -> Floats:
        """sum_s weights[s] f(x_q; theta_s) at Q rows, (Q,)."""
        ...

    def squared_gap(self, features: Floats, target: Floats, F: Floats, weights: Any) -> Floats:
        """sum_s weights[s] (target_q - f(x_q; theta_s))^2 at Q rows, (Q,)."""
        ...

    def nearest(self, features: Floats, target: Floats, F: Floats, allowed: Booleans | None) -> tuple[int, float]:
        """The candidate of least mean squared residual, and that mean."""
        ...


def on_device(candidates: Candidates, device: str) -> DeviceCandidates:
    """The candidates on a device: those of a product net in which every gate uses all experts."""
    if not isinstance(candidates, ProductCandidates) or candidates.k not in (None, candidates.n_experts):
        raise ValueError(
            f"device={device!r} takes product nets of three experts or more with all of them active; "
            "other nets, and gates with k, are for device=None"
        )
    found: DeviceCandidates = device_net(candidates, device)
    return found
