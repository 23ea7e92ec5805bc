"""Bases: what turns rows X into the columns of a component.

A basis is one of the frozen descriptions below, any scikit-learn transformer, or a function X -> (n, p).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from sklearn.base import clone

from gatewise.arrays import as_count, Floats


class FeatureMap(Protocol):
    """A basis that is ready for use."""

    def transform(self, X: Any, /) -> Any:
        """The columns at every row of X, (n, p)."""
        ...


def column_index(feature: int | str, d: int, names: Sequence[str] | None = None) -> int:
    """The column that ``feature``, an index or a name, stands for.

    >>> column_index("income", 2, ["age", "income"])
    1
    """
    if isinstance(feature, str):
        if names is None or feature not in names:
            known = "X has no column names" if names is None else f"the columns are {list(names)}"
            raise ValueError(f"feature {feature!r} is not a column of X; {known}")
        return list(names).index(feature)
    return as_count(feature, "feature", low=0, high=d - 1)


@dataclass(frozen=True)
class ConstantBasis:
    """One column of ones.

    >>> ConstantBasis().transform(np.zeros((2, 3)))
    array([[1.],
           [1.]])
    """

    def transform(self, X: Floats) -> Floats:
        """Ones, (n, 1)."""
        return np.ones((len(X), 1))


@dataclass(frozen=True, kw_only=True)
class _LocalBasis:
    """A basis in the local coordinate t = (x - low) / (high - low) of one feature; None: the range of the rows."""

    low: float | None = None
    high: float | None = None
    feature: int | str | None = 0
    intercept: bool = True

    def resolved(self, X: Floats, names: Sequence[str] | None = None) -> Self:
        """The same basis with a column index for a name and numbers for ends that were left open."""
        column = column_index(0 if self.feature is None else self.feature, X.shape[1], names)
        low = float(X[:, column].min()) if self.low is None else float(self.low)
        high = float(X[:, column].max()) if self.high is None else float(self.high)
        if not low < high:
            raise ValueError(f"{type(self).__name__} needs low below high in feature {column}, not {low} and {high}")
        return replace(self, feature=column, low=low, high=high)

    def on(self, low: float, high: float, feature: int) -> Self:
        """The same basis with its local coordinate on [low, high], if ``feature`` is its own."""
        return replace(self, low=low, high=high) if self.feature == feature else self

    def local(self, X: Floats) -> Floats:
        """t at every row, (n,)."""
        ready: Any = self.resolved(X)
        t: Floats = (X[:, ready.feature] - ready.low) / (ready.high - ready.low)
        return t


@dataclass(frozen=True)
class FourierBasis(_LocalBasis):
    """1, sin(2 pi k t), cos(2 pi k t) for k = 1..order: the sieve S_K of `ex:fourier-x-sin-cos`.

    >>> FourierBasis(1, low=0.0, high=0.5).transform(np.array([[0.125]])).round(12)
    array([[1., 1., 0.]])
    """

    order: int = 3

    def resized(self, size: int) -> Self:
        """The sieve of another order."""
        return replace(self, order=as_count(size, "order", low=0))

    def transform(self, X: Floats) -> Floats:
        """The columns at every row, (n, 2 order + 1)."""
        angles = 2.0 * np.pi * np.outer(self.local(X), np.arange(1, self.order + 1))
        waves = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(X), -1)
        return np.column_stack([np.ones(len(X)), waves]) if self.intercept else waves


@dataclass(frozen=True)
class PolynomialBasis(_LocalBasis):
    """1, t, ..., t^degree of one feature; with ``feature=None`` all monomials of all features, as they are.

    >>> PolynomialBasis(2, low=0.0, high=2.0, feature=0).transform(np.array([[1.0]]))
    array([[1.  , 0.5 , 0.25]])
    """

    degree: int = 1
    low: float | None = field(default=0.0, kw_only=True)
    high: float | None = field(default=1.0, kw_only=True)
    feature: int | str | None = field(default=None, kw_only=True)

    def resolved(self, X: Floats, names: Sequence[str] | None = None) -> Self:
        """The same basis with a column index for a name and numbers for ends that were left open."""
        return self if self.feature is None else super().resolved(X, names)

    def resized(self, size: int) -> Self:
        """The polynomials of another degree."""
        return replace(self, degree=as_count(size, "degree", low=0))

    def transform(self, X: Floats) -> Floats:
        """The columns at every row, (n, p)."""
        if self.feature is None:
            from sklearn.preprocessing import PolynomialFeatures  # noqa: PLC0415 - it doubles the time of an import

            columns = PolynomialFeatures(self.degree, include_bias=self.intercept).fit_transform(X)
            return np.asarray(columns, dtype=np.float64)
        return np.vander(self.local(X), self.degree + 1, increasing=True)[:, 0 if self.intercept else 1 :]


@dataclass(frozen=True)
class SplineBasis(_LocalBasis):
    """B-splines on n_knots equidistant knots of [low, high], by scikit-learn's SplineTransformer; linear beyond.

    Without intercept the first spline is left out: all of them sum to one.

    >>> SplineBasis(4, low=0.0, high=1.0).transform(np.array([[0.0], [0.5]])).shape
    (2, 6)
    """

    n_knots: int = 5
    degree: int = 3

    def resized(self, size: int) -> Self:
        """The splines on another number of knots."""
        return replace(self, n_knots=as_count(size, "n_knots", low=2))

    def transform(self, X: Floats) -> Floats:
        """The columns at every row, (n, n_knots + degree - 1)."""
        from sklearn.preprocessing import SplineTransformer  # noqa: PLC0415

        knots = np.linspace(0.0, 1.0, self.n_knots)[:, None]
        maker = SplineTransformer(
            degree=self.degree, knots=knots, include_bias=self.intercept, extrapolation="linear"
        )
        return np.asarray(maker.fit(knots).transform(self.local(X)[:, None]), dtype=np.float64)


BASES = (ConstantBasis, FourierBasis, PolynomialBasis, SplineBasis)


def ready_basis(basis: Any, X: Floats, names: Sequence[str] | None = None, label: str = "basis") -> FeatureMap:
    """The basis made ready on the rows X: open ends filled in, a transformer cloned and fitted."""
    if hasattr(basis, "resolved"):
        resolved: FeatureMap = basis.resolved(X, names)
        return resolved
    if hasattr(basis, "transform"):
        fitted: FeatureMap = clone(basis).fit(X) if hasattr(basis, "fit") else basis
        return fitted
    if callable(basis) and not isinstance(basis, type):
        from sklearn.preprocessing import FunctionTransformer  # noqa: PLC0415

        made: FeatureMap = FunctionTransformer(basis).fit(X)
        return made
    raise TypeError(f"{label} must be a basis, a transformer or a function X -> (n, p), not {basis!r}")


def columns_of(ready: FeatureMap, X: Floats, label: str = "basis") -> Floats:
    """The columns of a ready basis, (n, p), checked."""
    made: Any = ready.transform(X)
    columns = np.ascontiguousarray(made.toarray() if hasattr(made, "toarray") else made, dtype=np.float64)
    if columns.ndim != 2 or len(columns) != len(X):
        raise ValueError(f"{label} must return shape ({len(X)}, p), not {columns.shape}")
    if not np.isfinite(columns).all():
        row, column = np.argwhere(~np.isfinite(columns))[0]
        raise ValueError(f"{label} must return finite numbers, but gave {columns[row, column]} at row {row}")
    return columns


def resized(basis: Any, size: int, label: str) -> Any:
    """The basis of another sieve size; an error where it has none."""
    if not hasattr(basis, "resized"):
        raise TypeError(
            f"{label} must be a basis with sizes to choose from (Fourier, polynomial, spline), not {basis!r}"
        )
    return basis.resized(size)
