"""Scores that are linear in features that the user computes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gatewise.gates.score import ScoreGate


@dataclass(frozen=True)
class FeatureGate(ScoreGate):
    """Score s_m(x) = transform(x) . theta_m for any map of rows (n, d) to features (n, p).

    A Top-K gate on Gaussian-kernel features is one line, with a kernel gate's own features:

    >>> from gatewise import KernelGate
    >>> gate = FeatureGate(3, k=1, transform=KernelGate(3, mesh=0.5).features)
    >>> gate.theta_shape(d=2)
    (2, 9)
    """

    by_name: ClassVar[bool] = False

    transform: Callable[[NDArray[np.float64]], Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.transform):
            raise ValueError(f"transform must be a callable X -> features (n, p), not {self.transform!r}")

    def features(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        assert self.transform is not None
        return np.asarray(self.transform(X), dtype=np.float64)
