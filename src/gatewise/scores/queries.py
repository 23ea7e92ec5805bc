"""From a table of queries to what the members of the list see: standardised numbers, codes of categories, text."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import Floats, Integers
from gatewise.gates.inputs import as_labels, as_numbers, MISSING, table_columns
from gatewise.scores.text_columns import LOOKS, text_looks, TextColumn

Kind = Literal["number", "category", "text"]
Choice = Literal["auto"] | Sequence[str]
Design = Literal["plain", "full"]  # without and with text
LEAST_ROWS = 5  # a rarer level of a category is counted among the others
LONG_TEXT = 40  # letters in the mean: a column of longer values is text
DISTINCT = 0.2  # of the rows: a column of sentences with more values is text
CLIP = 3.0  # standard deviations: numbers beyond are clipped
NUMBER_UNIT = 0.3  # standard deviation of a number beside a category's zeros and ones
FREE_NUMBERS = 40  # with more numbers, as in an embedding, all of them together count as much as so many
TEXT_UNIT = 0.5  # root mean square length of a text's projection beside a category's zeros and ones


@dataclass(frozen=True, eq=False)
class Queries:
    """What the router sees of n queries.

    ``numbers`` (n, p) are standardised, ``codes`` (n, c) the levels of the categories with -1 for a rare or new one,
    ``text`` (n, r) projections of mean square length one a column. ``n_levels`` (c) counts the levels.
    """

    numbers: Floats
    codes: Integers
    text: Floats
    n_levels: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: Any) -> "Queries":
        return Queries(self.numbers[rows], self.codes[rows], self.text[rows], self.n_levels)

    @cached_property
    def plain(self) -> Floats:
        """One-hot categories beside the numbers, (n, sum of levels + p)."""
        p = self.numbers.shape[1]
        unit = NUMBER_UNIT * min(1.0, np.sqrt(FREE_NUMBERS / max(p, 1)))
        hot = [self.codes[:, [j]] == np.arange(levels) for j, levels in enumerate(self.n_levels)]
        return np.concatenate([*(part.astype(np.float64) for part in hot), unit * self.numbers], axis=1)

    @cached_property
    def full(self) -> Floats:
        """`plain` beside the text, (n, q)."""
        return np.concatenate([self.plain, TEXT_UNIT * self.text], axis=1)

    def design(self, design: Design) -> Floats:
        """`plain` or `full` by its name."""
        return self.plain if design == "plain" else self.full


@dataclass(frozen=True, eq=False)
class QueryReader:
    """Turns a table into `Queries`: how each column is read, as fit has found it.

    >>> import pandas as pd
    >>> X = pd.DataFrame({"size": range(40), "field": ["law", "math"] * 20})
    >>> reader, queries = QueryReader.fit(X, "auto", "auto", n_components=10, seed=0)
    >>> reader.kinds, queries.plain.shape
    (('number', 'category'), (40, 3))
    """

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    levels: tuple[tuple[str, ...], ...]  # of the categories, in their order
    texts: tuple[TextColumn, ...]
    middle: Floats  # (p,)
    mean: Floats  # (p,)
    scale: Floats  # (p,)

    @classmethod
    def fit(cls, X: Any, text: Choice, categories: Choice, n_components: int, seed: int) -> tuple[Self, Queries]:
        """How the columns of X are read, and X read so; ``text`` and ``categories`` name columns, or are "auto"."""
        table = _checked_table(X)
        names = tuple(name for name, _ in table)
        _refuse_twins(names, names)
        _check_names(names, text, "text")
        _check_names(names, categories, "categories")
        kinds = tuple(_kind(name, values, text, categories) for name, values in table)
        levels = tuple(_levels(values) for kind, (_, values) in zip(kinds, table, strict=True) if kind == "category")
        texts = [
            TextColumn.fit(name, _strings(values), n_components, seed)
            for kind, (name, values) in zip(kinds, table, strict=True)
            if kind == "text"
        ]
        raw = _raw_numbers(table, kinds)
        middle = np.array([np.median(seen) if (seen := column[~np.isnan(column)]).size else 0.0 for column in raw.T])
        filled = np.where(np.isnan(raw), middle, raw)
        mean, scale = filled.mean(axis=0), filled.std(axis=0)
        constant = scale <= 1e-12 * np.maximum(1.0, np.abs(mean))
        columns = tuple(column for column, _ in texts)
        reader = cls(names, kinds, levels, columns, middle, mean, np.where(constant, np.inf, scale))
        return reader, reader._assemble(table, raw, [projected for _, projected in texts])

    @property
    def category_names(self) -> tuple[str, ...]:
        """The columns that are categories."""
        return tuple(name for name, kind in zip(self.names, self.kinds, strict=True) if kind == "category")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns of `Queries.plain`, (p,)."""
        hot = [f"{name} = {level}" for name, ls in zip(self.category_names, self.levels, strict=True) for level in ls]
        return (*hot, *self._number_names())

    def transform(self, X: Any) -> Queries:
        """What the router sees of the rows of X, of a data frame by name; `Queries` are passed on as they are."""
        if isinstance(X, Queries):
            return X
        table = _checked_table(X)
        if hasattr(X, "columns"):
            _refuse_twins([name for name, _ in table], self.names)
            by_name = dict(table)
            missing = [name for name in self.names if name not in by_name]
            if missing:
                raise ValueError(f"X must have the columns of fit, but {missing[0]!r} is not there")
            table = [(name, by_name[name]) for name in self.names]
        elif len(table) != len(self.names):
            raise ValueError(f"X must have the {len(self.names)} columns of fit, not {len(table)}")
        texts = [_strings(values) for kind, (_, values) in zip(self.kinds, table, strict=True) if kind == "text"]
        projected = [column.transform(text) for column, text in zip(self.texts, texts, strict=True)]
        return self._assemble(table, _raw_numbers(table, self.kinds), projected)

    def _assemble(self, table: Sequence[tuple[str, NDArray[Any]]], raw: Floats, projected: list[Floats]) -> Queries:
        """Queries from a table, its numbers as they are (n, p), and the projections of its texts."""
        numbers = (np.where(np.isnan(raw), self.middle, raw) - self.mean) / self.scale
        values = [column for kind, (_, column) in zip(self.kinds, table, strict=True) if kind == "category"]
        codes = [_codes(column, levels) for column, levels in zip(values, self.levels, strict=True)]
        n = len(raw)
        return Queries(
            np.clip(numbers, -CLIP, CLIP),
            np.column_stack(codes) if codes else np.zeros((n, 0), dtype=np.int64),
            np.concatenate([np.zeros((n, 0)), *projected], axis=1),
            tuple(len(levels) for levels in self.levels),
        )

    def in_units(self, queries: Queries) -> Floats:
        """The columns of `feature_names` in their own units, (n, p): zeros and ones, then numbers."""
        scale = np.where(np.isinf(self.scale), 0.0, self.scale)
        numbers = self.mean + queries.numbers * scale
        hot = queries.plain[:, : sum(queries.n_levels)]
        return np.concatenate([hot, numbers], axis=1)

    def _number_names(self) -> Iterable[str]:
        for name, kind in zip(self.names, self.kinds, strict=True):
            if kind == "number":
                yield name
            elif kind == "text":
                yield from (f"{look} of {name}" for look in LOOKS)


def _checked_table(X: Any) -> list[tuple[str, NDArray[Any]]]:
    if not hasattr(X, "columns") and np.ndim(X) != 2:
        shape = f"not of shape {np.shape(X)}; one query is a table of one row"
        raise ValueError(f"X must be a table or an array of shape (n, d), {shape}")
    table = table_columns(X)
    if not table:
        raise ValueError("X must have at least one column")
    return table


def _refuse_twins(names: Sequence[str], needed: Sequence[str]) -> None:
    """An error where a column that is needed occurs more than once among the names of a table's columns."""
    counts = Counter(names)
    for name in needed:
        if counts[name] > 1:
            raise ValueError(f"X must have columns of different names, but {name!r} occurs {counts[name]} times")


def _check_names(names: Sequence[str], wanted: Choice, role: str) -> None:
    if isinstance(wanted, str) and wanted != "auto":
        raise ValueError(f"{role} must be 'auto' or a list of column names, not {wanted!r}")
    for name in () if wanted == "auto" else wanted:
        if name not in names:
            raise ValueError(f"{role}: there is no column {name!r} in X; it has {', '.join(map(repr, names[:12]))}")


def _kind(name: str, values: NDArray[Any], text: Choice, categories: Choice) -> Kind:
    if text != "auto" and name in text:
        return "text"
    if categories != "auto" and name in categories:
        return "category"
    if as_numbers(values) is not None:
        return "number"
    labels = as_labels(values)
    long = np.mean([len(label) for label in labels]) > LONG_TEXT
    sentences = len(set(labels)) > DISTINCT * len(labels) and np.mean([" " in label for label in labels]) > 0.5
    return "text" if text == "auto" and (long or sentences) else "category"


def _levels(values: NDArray[Any]) -> tuple[str, ...]:
    counts = Counter(as_labels(values).tolist())
    return tuple(sorted(level for level, count in counts.items() if count >= LEAST_ROWS))


def _codes(values: NDArray[Any], levels: Sequence[str]) -> Integers:
    places = {level: place for place, level in enumerate(levels)}
    return np.array([places.get(label, -1) for label in as_labels(values)], dtype=np.int64)


def _strings(values: NDArray[Any]) -> list[str]:
    return ["" if label == MISSING else str(label) for label in as_labels(values)]


def _raw_numbers(table: Sequence[tuple[str, NDArray[Any]]], kinds: Sequence[Kind]) -> Floats:
    """The number columns and the looks of the texts, in the order of the table, (n, p)."""
    parts = [np.zeros((len(table[0][1]), 0))]
    for kind, (name, values) in zip(kinds, table, strict=True):
        if kind == "number":
            numbers = as_numbers(values)
            if numbers is None:
                raise ValueError(f"column {name!r} held numbers in fit and holds text now")
            parts.append(numbers[:, None])
        elif kind == "text":
            parts.append(text_looks(_strings(values)))
    return np.concatenate(parts, axis=1)
