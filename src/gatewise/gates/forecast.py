"""Scores from the experts' forecasts: from the level of their mean, and from how far each of them is from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gatewise.arrays import as_positive, Floats
from gatewise.experts import Expert, expert_matrix
from gatewise.gates.feature_maps import forecast_columns, ForecastFeatures, GateFeatures
from gatewise.gates.score import ScoreGate


@dataclass(frozen=True)
class ForecastGate(ScoreGate):
    """Scores that are linear in the experts' mean forecast, its square, and every expert's distance from it.

    With c(x) the mean of the experts' forecasts at x and l(x) = (c(x) - mean) / scale, clipped to [-3, 3], the
    features are l, l^2 - 1, |f_m(x) - c(x)| / distance for every expert m, clipped to at most 3, and 1. ``experts``
    are asked for their forecasts. In `MoERegressor` leave them out: it knows the forecasts of its experts and learns
    mean, scale and distance from them.

    >>> from gatewise.experts import AffineExpert, ConstantExpert
    >>> gate = ForecastGate(2, experts=(AffineExpert((1.0,)), ConstantExpert(0.0)))
    >>> gate.features(np.array([[2.0], [0.0]]))
    array([[ 1.,  0.,  1.,  1.,  1.],
           [ 0., -1.,  0.,  0.,  1.]])
    """

    feature_map: ClassVar[type[GateFeatures]] = ForecastFeatures
    needs_forecasts: ClassVar[bool] = True

    experts: Sequence[Expert] = ()
    mean: float = 0.0
    scale: float = 1.0
    distance: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("scale", "distance"):
            object.__setattr__(self, name, as_positive(getattr(self, name), name))
        if len(self.experts) not in (0, self.n_experts):
            raise ValueError(f"experts must hold one for each of {self.n_experts}, or none, not {len(self.experts)}")

    def theta_shape(self, d: int) -> tuple[int, int]:  # noqa: ARG002 - the features are the experts'
        return self.n_experts - 1, self.n_experts + 3

    def features(self, X: Any) -> Floats:
        if not self.experts:
            raise ValueError(
                "a ForecastGate needs experts=(...) to ask for their forecasts; in MoERegressor give the gate by its "
                "name, 'forecast', or without experts"
            )
        F = expert_matrix(self.experts, X)
        columns = forecast_columns(F, self.mean, self.scale, self.distance)
        return np.column_stack([columns, np.ones(len(columns))])
