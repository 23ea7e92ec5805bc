"""What a gate sees of a row: few numbers on one scale, and whether the row lies within the data."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gatewise.arrays import Floats
from gatewise.gates.columns import Column, read_columns, table_columns

SMALLEST = 1e-6  # of the largest principal variance: what is below is rounding


@dataclass(frozen=True, eq=False)
class Inputs:
    """The gate's view of n rows: coordinates Z (n, r) and ``inside`` (n,), 1 within the data and 0 far from it."""

    Z: Floats
    inside: Floats

    def __getitem__(self, rows: Any) -> "Inputs":
        return Inputs(self.Z[rows], self.inside[rows])


@dataclass(frozen=True, eq=False)
class GateInputs:
    """Encodes, standardises and, where there are more than ``n_components`` columns, takes principal components.

    Numbers are cut at their first and last percentile, so no coordinate is ever large. A row is inside while no
    number of it leaves the range that fit saw; ``inside`` falls like a Gaussian with standard deviation ``fade``,
    in units of the column's range.

    >>> X = np.linspace(0, 1, 101)[:, None]
    >>> seen = GateInputs.fit(X, n_components=5, fade=0.25)
    >>> seen.transform([[0.5], [100.0]]).inside
    array([1., 0.])
    """

    columns: tuple[Column | None, ...]
    mean: Floats  # (p,)
    scale: Floats  # (p,)
    rotation: Floats | None  # (p, r)
    fade: float

    @classmethod
    def fit(cls, X: Any, n_components: int, fade: float) -> Self:
        """Learn the encoding from the rows of X."""
        columns = tuple(read_columns(X))
        encoded = _encode(columns, X)
        mean, scale = encoded.mean(axis=0), encoded.std(axis=0)
        scale = np.where(scale > 0.0, scale, 1.0)
        rotation = _principal((encoded - mean) / scale, n_components) if encoded.shape[1] > n_components else None
        return cls(columns, mean, scale, rotation, fade)

    @property
    def names(self) -> tuple[str, ...]:
        """The encoded columns, (p,)."""
        return tuple(name for column in self.columns if column is not None for name in column.names)

    def encode(self, X: Any) -> Floats:
        """The encoded columns in their own units, (n, p)."""
        return _encode(self.columns, X)

    def transform(self, X: Any) -> Inputs:
        """The gate's view of the rows of X."""
        Z = (self.encode(X) - self.mean) / self.scale
        if self.rotation is not None:
            Z = Z @ self.rotation
        excess = np.zeros(len(Z))
        for column, (_, values) in zip(self.columns, table_columns(X), strict=True):
            if column is not None:
                excess = np.maximum(excess, column.excess(values))
        return Inputs(Z, np.exp(-0.5 * np.minimum(excess / self.fade, 40.0) ** 2))


def _encode(columns: tuple[Column | None, ...], X: Any) -> Floats:
    table = table_columns(X)
    parts = [c.encode(values) for c, (_, values) in zip(columns, table, strict=True) if c is not None]
    n = len(table[0][1]) if table else 0
    return np.concatenate(parts, axis=1) if parts else np.zeros((n, 0))


def _principal(Z: Floats, n_components: int) -> Floats:
    """The leading principal axes, each divided by its standard deviation, (p, r)."""
    variances, axes = np.linalg.eigh(Z.T @ Z / len(Z))
    order = np.argsort(-variances)[:n_components]
    order = order[variances[order] > SMALLEST * variances.max()]
    axes = axes[:, order] * np.where(axes[np.abs(axes[:, order]).argmax(axis=0), order] < 0.0, -1.0, 1.0)
    return np.asarray(axes / np.sqrt(variances[order]))
