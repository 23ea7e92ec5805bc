"""From a table to the inputs of a gate: standardised coordinates of a row, and whether it lies within the data."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import BLOCK_NUMBERS, FieldsOnly, Floats, Indices
from gatewise.gates.principal_axes import principal_axes

MOST_LEVELS = 10
LEAST_SHARE = 0.01  # of the rows: a rarer level is counted among the others
TAILS = (0.01, 0.99)
MOST_TREE_COLUMNS = 200  # trees split the columns themselves up to this number, and principal components beyond
MISSING = "(missing)"


@dataclass(frozen=True)
class NumberColumn:
    """A numeric column: missing values become the median ``middle``, and all values are clipped to [low, high].

    ``low`` and ``high`` are the first and the last percentile in fit, ``least`` and ``most`` the extremes.
    """

    name: str
    middle: float
    low: float
    high: float
    least: float
    most: float
    has_missing: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its encoded columns."""
        return (self.name, f"{self.name} missing") if self.has_missing else (self.name,)

    def encode(self, values: Any) -> Floats:
        """The values clipped to [low, high], (n, 1); if fit saw missing values, beside a column that marks them."""
        numbers = self._numbers(values)
        missing = np.isnan(numbers)
        kept = np.clip(np.where(missing, self.middle, numbers), self.low, self.high)
        return np.column_stack([kept, missing]) if self.has_missing else kept[:, None]

    def excess(self, values: Any) -> Floats:
        """How far each value lies outside of [least, most], (n,), divided by high - low; 0 within."""
        numbers = self._numbers(values)
        beyond = np.maximum(self.least - numbers, numbers - self.most)
        return np.asarray(np.fmax(beyond, 0.0) / (self.high - self.low))

    def _numbers(self, values: Any) -> Floats:
        numbers = as_numbers(values)
        if numbers is None:
            raise ValueError(f"column {self.name!r} held numbers in fit and holds text now")
        return numbers


@dataclass(frozen=True)
class LevelColumn:
    """A categorical column: one column of zeros and ones for each of its frequent levels."""

    name: str
    levels: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its encoded columns."""
        return tuple(f"{self.name} = {level}" for level in self.levels)

    def encode(self, values: Any) -> Floats:
        """One-hot encoding, (n, number of levels); a row of zeros for a level that fit did not keep."""
        labels = as_labels(values)
        return np.column_stack([labels == level for level in self.levels]).astype(np.float64)

    def excess(self, values: Any) -> Floats:
        """Zeros, (n,): the levels of a category have no range that a value could lie outside of."""
        return np.zeros(len(values))


Column = NumberColumn | LevelColumn


@dataclass(frozen=True, eq=False)
class NumberTable:
    """Columns that all hold numbers, encoded at once: the same numbers as column by column.

    Of the table's columns those in ``used`` (q,) are encoded; ``places`` (q,) are their places among the p encoded
    ones. Missing values of the columns ``marked``, places among q, are marked in the column behind. ``bounds`` (5, q)
    are the columns' ``middle``, ``low``, ``high``, ``least`` and ``most``.
    """

    used: Indices
    places: Indices
    marked: Indices
    bounds: Floats

    @classmethod
    def of(cls, columns: Sequence[Column | None]) -> Self | None:
        """The table of these columns; None if one of them is categorical."""
        numbers = [(j, c) for j, c in enumerate(columns) if isinstance(c, NumberColumn)]
        if len(numbers) < sum(c is not None for c in columns):
            return None
        marked = np.array([c.has_missing for _, c in numbers], dtype=np.intp)
        bounds = [(c.middle, c.low, c.high, c.least, c.most) for _, c in numbers]
        return cls(
            used=np.array([j for j, _ in numbers], dtype=np.intp),
            places=np.arange(len(numbers)) + np.cumsum(marked) - marked,
            marked=np.flatnonzero(marked),
            bounds=np.array(bounds).reshape(-1, 5).T,
        )

    def numbers(self, table: NDArray[Any]) -> Floats:
        """The used columns of a table (n, d) as float64, with NaN for missing values."""
        whole = len(self.used) == table.shape[1]
        numbers = (table if whole else table[:, self.used]).astype(np.float64)
        numbers[np.isinf(numbers)] = np.nan
        return numbers

    def encode(self, numbers: Floats) -> Floats:
        """The encoded columns, (n, p), of the used numbers (n, q)."""
        middle, low, high, _, _ = self.bounds
        missing = np.isnan(numbers)
        kept = np.clip(np.where(missing, middle, numbers), low, high)
        if not self.marked.size:
            return kept
        out = np.empty((len(kept), kept.shape[1] + len(self.marked)))
        out[:, self.places] = kept
        out[:, self.places[self.marked] + 1] = missing[:, self.marked]
        return out

    def excess(self, numbers: Floats) -> Floats:
        """The largest excess of the columns at every row, (n,)."""
        _, low, high, least, most = self.bounds
        beyond = np.fmax(np.maximum(least - numbers, numbers - most), 0.0)
        return np.asarray((beyond / (high - low)).max(axis=1, initial=0.0))


@dataclass(frozen=True, eq=False)
class Inputs:
    """The gate's view of n rows: coordinates Z (n, r) and ``inside`` (n,), 1 within the data and 0 far from it.

    ``columns`` (n, p) are the standardised columns before any reduction to principal components, for trees; where
    there was none, or where they are too many, they are the coordinates.
    """

    Z: Floats
    inside: Floats
    columns: Floats

    def __getitem__(self, rows: Any) -> "Inputs":
        Z = self.Z[rows]
        return Inputs(Z, self.inside[rows], Z if self.columns is self.Z else self.columns[rows])


@dataclass(frozen=True, eq=False)
class GateInputs(FieldsOnly):
    """Turns the rows of a table into the coordinates that a gate sees (`Inputs`).

    Columns are encoded and standardised; if there are more than ``n_components``, principal components are taken.
    Numbers are clipped at their first and last percentile, so no coordinate is ever large. ``inside`` is
    exp(-(e / fade)^2 / 2), where e is the largest ``excess`` of the row's columns: 1 while every number lies in the
    range that fit saw.

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
        """Learn the encoding from the rows of X, block by block, so that few copies of all are in memory at once."""
        columns = tuple(read_columns(X))
        plain = cls(columns, np.zeros(0), np.ones(0), None, fade)
        encoded = [plain.encode(block) for block in _row_blocks(X)]
        n = sum(map(len, encoded))
        mean = np.sum([block.sum(axis=0) for block in encoded], axis=0) / n
        scale = np.sqrt(np.sum([((block - mean) ** 2).sum(axis=0) for block in encoded], axis=0) / n)
        scale = np.where(scale > 0.0, scale, 1.0)
        rotation = None
        if len(mean) > n_components:
            rotation = principal_axes(lambda: ((block - mean) / scale for block in encoded), n, n_components)
        return cls(columns, mean, scale, rotation, fade)

    @property
    def names(self) -> tuple[str, ...]:
        """The encoded columns, (p,)."""
        return tuple(name for column in self.columns if column is not None for name in column.names)

    def encode(self, X: Any) -> Floats:
        """The encoded columns in their own units, (n, p)."""
        numbers = self._numbers(X)
        return _encode(self.columns, X) if numbers is None else numbers[0].encode(numbers[1])

    def transform(self, X: Any) -> Inputs:
        """The gate's view of the rows of X."""
        found = self._numbers(X)
        if found is None:
            encoded, excess = _encode(self.columns, X), _excess(self.columns, X)
        else:
            table, numbers = found
            encoded, excess = table.encode(numbers), table.excess(numbers)
        columns = Z = (encoded - self.mean) / self.scale
        if self.rotation is not None:
            Z = columns @ self.rotation
            columns = columns if columns.shape[1] <= MOST_TREE_COLUMNS else Z
        return Inputs(Z, np.exp(-0.5 * np.minimum(excess / self.fade, 40.0) ** 2), columns)

    def _numbers(self, X: Any) -> tuple[NumberTable, Floats] | None:
        """The used columns of X, (n, q), and how they are encoded at once; None where they are not all numbers."""
        table, array = self._table, plain_numbers(X)
        if table is None or array is None or array.shape[1] != len(self.columns):
            return None
        return table, table.numbers(array)

    @cached_property
    def _table(self) -> NumberTable | None:
        return NumberTable.of(self.columns)


def _row_blocks(X: Any) -> Iterator[Any]:
    """The rows of a table in blocks of about BLOCK_NUMBERS values; one block at least."""
    table = X if hasattr(X, "columns") else np.asarray(X)
    size, rows = max(1, BLOCK_NUMBERS // max(1, table.shape[1])), table.iloc if hasattr(table, "iloc") else table
    for start in range(0, max(1, len(table)), size):
        yield rows[start : start + size]


def _excess(columns: tuple[Column | None, ...], X: Any) -> Floats:
    """The largest excess of the columns at every row, (n,)."""
    table = table_columns(X)
    excess = np.zeros(len(table[0][1]) if table else 0)
    for column, (_, values) in zip(columns, table, strict=True):
        if column is not None:
            excess = np.maximum(excess, column.excess(values))
    return excess


def _encode(columns: tuple[Column | None, ...], X: Any) -> Floats:
    table = table_columns(X)
    parts = [c.encode(values) for c, (_, values) in zip(columns, table, strict=True) if c is not None]
    n = len(table[0][1]) if table else 0
    return np.concatenate(parts, axis=1) if parts else np.zeros((n, 0))


def plain_numbers(X: Any) -> NDArray[Any] | None:
    """X as one array of numbers (n, d), if it is an array or a pandas data frame of nothing else; None if not.

    >>> plain_numbers(np.zeros((3, 2), dtype=np.float32)).dtype
    dtype('float32')
    >>> plain_numbers([["a", 1.0]]) is None
    True
    """
    if hasattr(X, "iloc") and all(isinstance(kind, np.dtype) and kind.kind in "iufb" for kind in X.dtypes):
        X = X.to_numpy()  # numbers and truth values together make an array of objects
    return X if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "iufb" else None


def table_columns(X: Any) -> list[tuple[str, NDArray[Any]]]:
    """The columns of an array or a data frame with their names.

    >>> [name for name, _ in table_columns(np.zeros((3, 2)))]
    ['x0', 'x1']
    """
    if hasattr(X, "columns"):
        places = X.iloc if hasattr(X, "iloc") else X
        return [(str(name), np.asarray(places[:, j])) for j, name in enumerate(X.columns)]
    array = np.asarray(X)
    return [(f"x{j}", array[:, j]) for j in range(array.shape[1])]


def content_ranks(columns: Iterable[NDArray[Any]], n: int) -> Indices:
    """The ranks (n,) of rows by their values in columns (n,), the first column first; equal rows have equal ranks.

    Where no two rows are equal in the first columns, the others are not looked at: any order is one by contents.

    >>> content_ranks([np.array([2.0, 1.0, 2.0, 1.0]), np.array(["b", "b", "a", "b"])], 4)
    array([2, 0, 1, 0])
    """
    rank = np.zeros(n, dtype=np.intp)
    for values in columns:
        plain = values if values.dtype.kind in "biuf" else values.astype(str)
        own = np.unique(plain, return_inverse=True)[1]
        rank = np.unique(rank * (own.max() + 1) + own, return_inverse=True)[1]
        if rank.max() == n - 1:
            break
    return rank


def has_equal_rows(X: Any, y: Floats) -> bool:
    """Whether two rows of a table have equal values and responses (n,).

    >>> [has_equal_rows(np.array([[1.0], [2.0], [1.0]]), np.array(y)) for y in ([0.0, 0.0, 1.0], [0.0, 1.0, 0.0])]
    [False, True]
    """
    ranks = content_ranks([y, *(values for _, values in table_columns(X))], len(y))
    return bool(ranks.max() < len(y) - 1)


def read_columns(X: Any) -> list[Column | None]:
    """How each column of X is encoded; None for a constant column, which is left out."""
    numbers = plain_numbers(X)
    if numbers is None or not len(numbers):
        return [_read(name, values) for name, values in table_columns(X)]
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else [f"x{j}" for j in range(numbers.shape[1])]
    width = max(1, BLOCK_NUMBERS // len(numbers))
    blocks = range(0, len(names), width)
    return [c for j in blocks for c in _read_block(names[j : j + width], numbers[:, j : j + width])]


def _read_block(names: Sequence[str], block: NDArray[Any]) -> list[Column | None]:
    """The columns of a block of numbers (n, q), all at once where none is missing: the same as one by one."""
    numbers = block.astype(np.float64)
    if not np.isfinite(numbers).all():
        return [_read(name, values) for name, values in zip(names, block.T, strict=True)]
    middle, (low, high) = np.median(numbers, axis=0), np.quantile(numbers, TAILS, axis=0)
    least, most = numbers.min(axis=0), numbers.max(axis=0)
    flat = low == high  # all but a few rows are equal
    low, high = np.where(flat, least, low), np.where(flat, most, high)
    bounds = np.column_stack([middle, low, high, least, most]).tolist()
    return [
        None if one[3] == one[4] else NumberColumn(name, one[0], one[1], one[2], one[3], one[4], has_missing=False)
        for name, one in zip(names, bounds, strict=True)
    ]


def _read(name: str, values: NDArray[Any]) -> Column | None:
    numbers = as_numbers(values)
    if numbers is None:
        labels = as_labels(values)
        counts = Counter(labels.tolist()).most_common(MOST_LEVELS)
        levels = tuple(sorted(level for level, count in counts if count >= LEAST_SHARE * len(labels)))
        return LevelColumn(name, levels) if len(counts) > 1 and levels else None
    seen = numbers[~np.isnan(numbers)]
    if seen.size == 0 or (seen.min() == seen.max() and seen.size == numbers.size):
        return None
    least, most = float(seen.min()), float(seen.max())
    low, high = (float(tail) for tail in np.quantile(seen, TAILS))
    if low == high:  # all but a few rows are equal
        low, high = least, most
    if low == high:
        high = low + 1.0  # constant where it is not missing
    return NumberColumn(name, float(np.median(seen)), low, high, least, most, bool(seen.size < numbers.size))


def as_numbers(values: NDArray[Any]) -> Floats | None:
    """The values as float64, missing ones as NaN, dates as days since 1970; None if they are text.

    >>> as_numbers(np.array([1, None, 2.5], dtype=object))
    array([1. , nan, 2.5])
    >>> as_numbers(np.array(["a", "b"])) is None
    True
    """
    kind = values.dtype.kind
    if kind in "iufb":
        numbers = values.astype(np.float64)
    elif kind in "mM":
        days = values.astype(f"{'datetime' if kind == 'M' else 'timedelta'}64[s]")
        numbers = np.where(np.isnat(days), np.nan, days.astype(np.int64) / 86400.0)
    elif kind == "O" and not any(isinstance(value, str) for value in values):
        try:
            numbers = np.array([np.nan if is_missing(value) else _number(value) for value in values])
        except (TypeError, ValueError):
            return None
    else:
        return None
    return np.where(np.isinf(numbers), np.nan, numbers)


def _number(value: Any) -> float:
    """The value as a number; a moment in time as days since 1970."""
    return float(value.timestamp() / 86400.0) if hasattr(value, "timestamp") else float(value)


def as_labels(values: NDArray[Any]) -> NDArray[np.object_]:
    """The values as text; a missing value is the text MISSING, and a whole number is written as an integer.

    >>> as_labels(np.array([1.0, np.nan, 2.5])).tolist(), as_labels(np.array([1, 2])).tolist()
    (['1', '(missing)', '2.5'], ['1', '2'])
    """
    return np.array([MISSING if is_missing(value) else _label(value) for value in values.tolist()], dtype=object)


def _label(value: Any) -> str:
    """The value as text; a column of whole numbers becomes one of floats once a value is missing."""
    whole = isinstance(value, float | np.floating) and value.is_integer()
    return str(int(value) if whole else value)


def is_missing(value: Any) -> bool:
    """Whether a value of a column is missing: None, NaN, or what pandas puts there."""
    return (
        value is None or type(value).__name__ in {"NAType", "NaTType"} or (isinstance(value, float) and isnan(value))
    )
