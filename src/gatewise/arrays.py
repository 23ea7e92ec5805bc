"""The types of arrays, and checks of what a user hands over.

Each error names the argument, what it was and what it must be.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, get_args, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]  # what compiled loops count with
Indices: TypeAlias = NDArray[np.intp]  # positions: rows, experts, regions
Booleans: TypeAlias = NDArray[np.bool_]
Readout = Literal["aggregate", "single"]  # the mean of all candidates by their weights, or one candidate
Model = TypeVar("Model", bound=type)
Function = TypeVar("Function", bound=Callable[..., Any])
MOST_COLUMNS = 10_000
LARGEST = 1e150  # of a number whose square must be finite
TINY = float(np.finfo(np.float64).tiny)
BLOCK_NUMBERS = 2**21  # numbers that a computation in blocks holds at a time: 16 MiB
MOST_NUMBERS = 2**26  # of a table that is held in memory, at most: 512 MiB; of more rows a part is drawn
MOST_ROWS = 2**20  # that a router over given experts learns from; of more a part is drawn
STRETCH = 2**16  # rows that are drawn together


def refuse_lossy(values: Any, name: str) -> None:
    """Raise an error for values that would become other numbers unnoticed: complex, masked, dates and durations.

    >>> refuse_lossy(np.array([1j]), "y")
    Traceback (most recent call last):
        ...
    ValueError: y must hold real numbers, not complex ones (Complex data not supported)
    """
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must not be masked; drop its masked entries, or fill them")
    kind = getattr(getattr(values, "dtype", None), "kind", "") or np.asarray(values).dtype.kind
    if kind == "c":
        # The words in brackets are what scikit-learn's checks of an estimator look for.
        raise ValueError(f"{name} must hold real numbers, not complex ones (Complex data not supported)")
    if kind in "mM":
        raise ValueError(f"{name} must hold numbers, not dates or durations; subtract a date and divide by a unit")


def as_floats(values: Any, name: str) -> Floats:
    """values as a contiguous float64 array, or an error that names the argument."""
    try:
        refuse_lossy(values, name)
        return np.asarray(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        if str(error).startswith(f"{name} must"):
            raise
        raise ValueError(f"{name} must be an array of numbers: {error}") from error


def as_number(value: Any, name: str) -> float:
    """value as a float, or an error that names the argument.

    >>> as_number("three", "rate")
    Traceback (most recent call last):
        ...
    ValueError: rate must be a number, not 'three'
    """
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be a number, not {value!r}") from error


def as_finite(value: Any, name: str) -> float:
    """value as a finite number."""
    number = as_number(value, name)
    if not np.isfinite(number):
        raise ValueError(f"{name} must be a finite number, not {value!r}")
    return number


def as_rng(random_state: Any, name: str = "random_state") -> np.random.Generator:
    """A generator from a seed, a generator or None."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be None, a whole number of at least 0, or a Generator, not {random_state!r}"
        ) from error


def as_rows(X: Any, name: str = "X") -> Floats:
    """X as a finite float64 array (n, d), rows contiguous; an array or a data frame.

    >>> as_rows([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    rows = as_floats(X, name)
    if rows.ndim != 2:
        raise ValueError(f"{name} must have shape (n, d), not {rows.shape}; use reshape(-1, 1) for a single feature")
    if rows.shape[1] == 0:
        raise ValueError(f"{name} must have at least one column, not shape {rows.shape}")
    if not np.isfinite(rows).all():
        bad = ~np.isfinite(rows)
        column = int(np.flatnonzero(bad.any(axis=0))[0])
        row = int(np.flatnonzero(bad[:, column])[0])
        raise ValueError(
            f"{name} must be finite, but column {_column_label(X, column)} holds {rows[row, column]} "
            f"(first at row {row}); drop or impute such rows"
        )
    return rows


def _column_label(X: Any, column: int) -> str:
    names = getattr(X, "columns", None)
    return str(column) if names is None else f"{column} ({list(names)[column]!r})"


def as_vector(values: ArrayLike, name: str, size: int | None = None) -> Floats:
    """values as a finite float64 array (size,)."""
    vector = as_floats(values, name)
    if vector.ndim != 1 or (size is not None and vector.size != size):
        wanted = "(n,)" if size is None else f"({size},)"
        raise ValueError(f"{name} must have shape {wanted}, not {vector.shape}")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} must be finite, but entry {int(np.argmin(np.isfinite(vector)))} is not")
    return vector


def as_sample(F: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> tuple[Floats, Floats, Floats]:
    """Predictions F (n, M), responses y (n,) and sample weights (n,), checked: finite and of matching shapes, n >= 1.

    The sample weights that are returned have sum one; they are equal when none are given.
    """
    rows = as_rows(F, "F")
    n = len(rows)
    if n == 0:
        raise ValueError("F must have at least one row, not 0")
    response = as_vector(y, "y", n)
    if sample_weight is None:
        return rows, response, np.full(n, 1.0 / n)
    weight = as_vector(sample_weight, "sample_weight", n)
    if (weight < 0).any() or not weight.any():
        raise ValueError("sample_weight must not be negative, and not zero for all rows")
    weight = weight / weight.max()  # their sum is then finite
    return rows, response, np.asarray(weight / weight.sum())


def as_count(value: Any, name: str, low: int = 1, high: int | None = None) -> int:
    """value as a whole number in [low, high]."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        wanted = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name} must be a whole number {wanted}, not {value!r}")
    return int(value)


def as_truth(value: Any, name: str) -> bool:
    """value as True or False; no other value stands for one of them.

    >>> as_truth("no", "test")
    Traceback (most recent call last):
        ...
    ValueError: test must be True or False, not 'no'
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def as_dimension(d: Any) -> int:
    """d as a number of columns; at most MOST_COLUMNS, as powers of larger ones would take for ever."""
    return as_count(d, "d", high=MOST_COLUMNS)


def within_floats(function: Function) -> Function:
    """Decorator: an overflow or a division by a number that underflowed is a ValueError with the arguments."""

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (OverflowError, ZeroDivisionError) as error:
            given = ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())])
            name = getattr(function, "__name__", "the function")
            raise ValueError(f"{name} has a number that is too large or too small among {given}") from error

    return guarded  # type: ignore[return-value]


def as_positive(value: Any, name: str) -> float:
    """value as a finite number above zero."""
    number = as_number(value, name)
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a finite number above 0, not {value!r}")
    return number


def check_readout(readout: str) -> None:
    """Raise an error unless ``readout`` is "aggregate" or "single"."""
    if readout == "selected":
        raise ValueError("the readout 'selected' is now called 'single'")
    if readout not in get_args(Readout):
        raise ValueError(f"readout must be 'aggregate' or 'single', not {readout!r}")


def renamed(**new_names: str) -> Callable[[Model], Model]:
    """Class decorator: an old name, as a keyword of the constructor or as an attribute, raises an error with the new.

    The signature of the constructor stays as it is, so scikit-learn finds the parameters that exist.

    >>> @renamed(color="colour")
    ... class Paint:
    ...     def __init__(self, colour):
    ...         self.colour = colour
    >>> Paint(color="red")
    Traceback (most recent call last):
    ...
    TypeError: color is now called colour
    """

    def decorate(cls: Model) -> Model:
        construct = cls.__init__  # type: ignore[misc]

        @wraps(construct)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            for old in new_names.keys() & kwargs.keys():
                raise TypeError(f"{old} is now called {new_names[old]}")
            construct(self, *args, **kwargs)

        def missing(self: Any, name: str) -> Any:
            if name in new_names:
                raise AttributeError(f"{name} is now called {new_names[name]}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        cls.__init__ = init  # type: ignore[misc]
        cls.__getattr__ = missing  # type: ignore[attr-defined]
        return cls

    return decorate


def as_non_negative(value: Any, name: str) -> float:
    """value as a finite number of at least zero."""
    number = as_number(value, name)
    if not (np.isfinite(number) and number >= 0):
        raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}")
    return number


def as_between(value: Any, name: str, low: float = 0.0, high: float = 1.0) -> float:
    """value as a number strictly between low and high.

    >>> as_between(1.5, "separation")
    Traceback (most recent call last):
        ...
    ValueError: separation must lie strictly between 0 and 1, not 1.5
    """
    number = as_number(value, name)
    if not low < number < high:
        raise ValueError(f"{name} must lie strictly between {low:g} and {high:g}, not {value!r}")
    return number


class FieldsOnly:
    """Base of frozen dataclasses with cached properties: a copy or a file of one holds its fields and no cache."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class RowDraw:
    """Each of n rows is kept with the probability ``fraction``, whatever blocks they come in."""

    fraction: float
    seed: int

    def __call__(self, start: int, stop: int) -> Indices:
        """The places, counted from start, of those of the rows start to stop that are kept.

        >>> draw = RowDraw(0.5, seed=0)
        >>> whole = draw(0, 100)
        >>> bool((np.concatenate([draw(0, 30), 30 + draw(30, 100)]) == whole).all())
        True
        """
        if self.fraction >= 1.0:
            return np.arange(stop - start)
        first, last = start // STRETCH, -(-stop // STRETCH)
        draws = (np.random.default_rng([self.seed, k]).random(STRETCH) for k in range(first, last))
        kept = [k * STRETCH + np.flatnonzero(one < self.fraction) for k, one in enumerate(draws, first)]
        places = np.concatenate([np.arange(0), *kept])
        return places[(places >= start) & (places < stop)] - start
