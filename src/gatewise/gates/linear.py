"""Linear scores: regions with flat borders."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gatewise.arrays import as_positive
from gatewise.gates.feature_maps import CoordinateFeatures, GateFeatures
from gatewise.gates.score import ScoreGate
from gatewise.nets import MaskedNet, Net


@dataclass(frozen=True)
class LinearGate(ScoreGate):
    """Score s_m(x) = beta_m . x + alpha_m; theta_m = (beta_m, alpha_m).

    theta has shape (M-1, d+1) with the intercept last, or (M-1, d) with ``intercept=False``. Regions where one
    expert leads are separated by hyperplanes (section `subsec:formulation`).

    >>> gate = LinearGate(2)
    >>> gate.weights([[0.0], [1.0]], [[np.log(3.0), 0.0]])
    array([[0.5 , 0.5 ],
           [0.75, 0.25]])
    """

    feature_map: ClassVar[type[GateFeatures]] = CoordinateFeatures

    intercept: bool = True

    def features(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.column_stack([X, np.ones(len(X))]) if self.intercept else X

    def separation(self, theta: ArrayLike) -> NDArray[np.float64]:
        """The smallest Euclidean distance between the slopes of two experts, the reference with slope 0 included.

        One number for each candidate in theta (`def:parameter`).

        >>> LinearGate(3).separation([[3.0, 4.0, 0.0], [3.0, 3.0, 9.0]])
        array(1.)
        """
        array = np.asarray(theta, dtype=np.float64)
        slopes = array[..., : array.shape[-1] - 1] if self.intercept else array
        slopes = np.concatenate([slopes, np.zeros((*slopes.shape[:-2], 1, slopes.shape[-1]))], axis=-2)
        pairs = combinations(range(self.n_experts), 2)
        distances = [np.linalg.norm(slopes[..., i, :] - slopes[..., j, :], axis=-1) for i, j in pairs]
        return np.asarray(np.min(distances, axis=0))

    def net(self, values: Any = None, *, min_separation: float | None = None, **kwargs: Any) -> Net:
        """A net as of any score gate; ``min_separation=r`` excludes candidates of a `separation` below r.

        >>> LinearGate(3, intercept=False).net([-1.0, 0.0, 1.0], d=1, min_separation=0.5).n_allowed
        2
        """
        net = super().net(values, **kwargs)
        if min_separation is None:
            return net
        least = as_positive(min_separation, "min_separation")
        return MaskedNet(net, np.concatenate([self.separation(block) >= least for block in net.blocks()]))
