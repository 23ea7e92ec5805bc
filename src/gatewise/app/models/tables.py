"""Tables as models take them: from a data frame to columns of numbers and of text, and a numeric target."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gatewise.app.models.cell_values import (
    are_codes,
    date_form,
    days,
    padded_codes,
    strange_numbers,
    strange_truths,
    truth_words,
    word_numbers,
)
from gatewise.app.models.identifiers import identifier
from gatewise.arrays import Booleans, Floats

Kind = Literal["number", "text", "date"]
KINDS = ("number", "text", "date")
TRUTH = "yes or no"
LEAST_ROWS = 20
MOST_NAMED = 6  # classes in a note
MOST_CLASSES = 100
NEARLY_ALL = 0.9  # of a column's values: so many numbers, and the rest is worth a note


@dataclass(frozen=True)
class ColumnKind:
    """A column's name and how its values are read; ``form`` is the format of dates, or that of yes and no."""

    name: str
    kind: Kind
    form: str = ""


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """What a model is fitted to: a data frame of numbers and text, responses (n,), and notes on what was left out.

    The responses are numbers, or text where they are classes.
    """

    X: Any
    y: NDArray[Any]
    columns: tuple[ColumnKind, ...]
    target: str
    notes: tuple[str, ...] = ()
    key: str | None = None


def training_table(
    frame: Any,
    target: str,
    drop: Iterable[str] = (),
    key: str | None = None,
    keep: Iterable[str] = (),
    classes: bool = False,
) -> TrainingTable:
    """Inputs and responses for a fit; with ``classes`` the responses are labels.

    Left out are rows without a response, columns without a name, those to ``drop``, the ``key`` of the rows, and
    columns that look like identifiers, unless they are to be kept.

    >>> table = training_table(pd.DataFrame({"y": range(20), "x": [1, 3] * 10, "colour": ["red", None] * 10}), "y")
    >>> [(column.name, column.kind) for column in table.columns]
    [('x', 'number'), ('colour', 'text')]
    """
    for names, role in (([target], "target"), (drop, "drop"), ([key] if key else [], "key"), (keep, "keep")):
        check_columns(frame, names, role)
    if target in {key, *drop}:
        raise ValueError(f"{target!r} is the target, and cannot be {'the key' if target == key else 'dropped'}, too")
    y, known, missing = learnable(frame, target, classes)
    columns, notes = column_roles(frame.drop(columns=[target, *drop, *([key] if key else [])]), keep)
    notes += missing
    if not columns:
        raise ValueError(f"no column is left beside the target {target!r}")
    rows = frame if known.all() else frame.loc[known]
    return TrainingTable(as_inputs(rows, columns), y[known], columns, target, tuple(notes), key)


def learnable(frame: Any, target: str, classes: bool) -> tuple[NDArray[Any], Booleans, list[str]]:
    """The target's values (n,) as numbers, or as labels of classes, where one is, and a note on those missing.

    A target that has too few values for a fit, or the same one in every row, is an error.
    """
    y, known = labels(frame, target) if classes else numbers(frame, target)
    if known.sum() < LEAST_ROWS:
        raise ValueError(f"a fit needs at least {LEAST_ROWS} rows with a value of {target!r}, not {int(known.sum())}")
    if not classes and y[known].min() == y[known].max():
        raise ValueError(f"target {target!r} is {y[known][0]:g} in every row: there is nothing to learn")
    missing = int((~known).sum())
    return y, known, [f"left out: {missing} rows without a value of {target!r}"] if missing else []


def column_roles(inputs: Any, keep: Iterable[str] = ()) -> tuple[tuple[ColumnKind, ...], list[str]]:
    """The columns of a data frame that a model may use and how they are read, and notes on those left out."""
    kept, columns = set(keep), []
    unnamed = [name for name in inputs.columns if name.startswith("Unnamed: ") or not name.strip()]
    notes = [f"left out: {len(unnamed)} column{'s' * (len(unnamed) > 1)} without a name"] if unnamed else []
    for name in inputs.columns:
        if name in unnamed:
            continue
        if name not in kept and not inputs[name].notna().any():
            notes.append(f"left out: column {name!r}, which has no value")
            continue
        column, remark = column_kind(inputs[name], name, inputs.attrs)
        reason = None if name in kept else identifier(name, inputs[name], column.kind)
        if reason:
            notes.append(f"left out: column {name!r}, which looks like {reason}; --keep {_word(name)} keeps it")
            continue
        columns.append(column)
        if remark:
            notes.append(f"column {name!r}: {remark}")
    return tuple(columns), notes


def numbers(frame: Any, target: str) -> tuple[Floats, Booleans]:
    """The target's values as numbers (n,), and where there is one."""
    y = responses(frame, target)
    return y, np.isfinite(y)


def labels(frame: Any, target: str) -> tuple[NDArray[Any], Booleans]:
    """The target's values as text (n,), as `label_texts` says, and where there is one."""
    found = label_texts(frame, target)
    known = frame[target].notna().to_numpy(dtype=bool)
    classes = np.unique(found[known])
    if len(classes) == 1:
        raise ValueError(f"target {target!r} is {classes[0]} in every row: there is nothing to learn")
    if len(classes) > MOST_CLASSES:
        raise ValueError(
            f"target {target!r} has {len(classes)} different values, and at most {MOST_CLASSES} classes are taken"
        )
    return found, known


def label_texts(frame: Any, target: str) -> NDArray[Any]:
    """The target's values as text (n,), a whole number without decimals; empty where there is none."""
    check_columns(frame, [target], "target")
    known = frame[target].notna().to_numpy(dtype=bool)
    if frame[target].dtype.kind == "f":
        _refuse_infinite(frame[target].to_numpy(dtype=np.float64, na_value=np.nan), target)
    text = _as_text(frame[target], ColumnKind(target, "text"), ".")
    return np.array([value.strip() if there else "" for value, there in zip(text, known, strict=True)])


def unseen_classes(labels: NDArray[Any], classes: NDArray[Any]) -> str:
    """A note on the rows whose label, of labels (n,), is none of ``classes``: how many they are, and of which class.

    Empty if there is no such row.

    >>> unseen_classes(np.array(["a", "b", "c", "c"]), np.array(["a"]))
    'left out: 3 rows of classes that the fit has not seen: b (1), c (2)'
    """
    found, counts = np.unique(labels[~np.isin(labels, classes)], return_counts=True)
    if not len(found):
        return ""
    named = [f"{label} ({count:,})" for label, count in zip(found[:MOST_NAMED], counts, strict=False)]
    if len(found) > MOST_NAMED:
        named.append(f"and {len(found) - MOST_NAMED} more")
    rows, kinds = "row" if counts.sum() == 1 else "rows", "a class" if len(found) == 1 else "classes"
    return f"left out: {counts.sum():,} {rows} of {kinds} that the fit has not seen: {', '.join(named)}"


def responses(frame: Any, target: str) -> Floats:
    """The target's values as numbers, NaN where there is none."""
    check_columns(frame, [target], "target")
    values = frame[target]
    if values.dtype.kind not in "iuf":
        decimal = frame.attrs.get("decimal", ".")
        found = word_numbers(values, decimal) if values.dtype.kind == "O" else None
        if found is None:
            raise ValueError(_no_numbers(values, target, decimal))
        values = found.values
    numbers = np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    _refuse_infinite(numbers, target)
    return numbers


def _refuse_infinite(numbers: Floats, target: str) -> None:
    if np.isinf(numbers).any():
        raise ValueError(
            f"target {target!r} must be finite, but is infinite in row {int(np.isinf(numbers).argmax()) + 1}"
        )


def _no_numbers(values: Any, target: str, decimal: str) -> str:
    """What is wrong with a target that holds no numbers."""
    content = {"b": "true and false", "M": "dates", "m": "durations", "c": "complex numbers"}.get(values.dtype.kind)
    if content:
        return f"target {target!r} holds {content}; it must hold numbers"
    if truth_words(values) is not None:
        return f"target {target!r} holds yes and no; it must hold numbers, as 1 and 0"
    strange = strange_numbers(values, decimal)
    if not strange:
        return f"target {target!r} holds no number, or numbers with different marks; it must hold numbers of one kind"
    first = strange[0]
    share = f"{len(strange):,} of {len(values):,} values are no numbers"
    return f"target {target!r} must hold numbers, but is {values.iloc[first]!r} in row {first + 1} ({share})"


def as_inputs(frame: Any, columns: Sequence[ColumnKind]) -> Any:
    """These columns of a data frame as floats and text, NaN where a value is missing."""
    check_columns(frame, [column.name for column in columns], "the model's columns")
    decimal = frame.attrs.get("decimal", ".")
    readers = {"number": _as_number, "text": _as_text, "date": _as_days}
    parts = {column.name: readers[column.kind](frame[column.name], column, decimal) for column in columns}
    return pd.DataFrame(parts).reset_index(drop=True)


def row_keys(X: Any, y: Floats | None = None) -> NDArray[np.uint64]:
    """A number for every row that depends on its values alone, (n,): equal rows have equal numbers."""
    frame = X if y is None else X.assign(**{"\0response": y})
    return np.asarray(pd.util.hash_pandas_object(frame, index=False).to_numpy(dtype=np.uint64))


def check_columns(frame: Any, names: Iterable[str], role: str) -> None:
    """Raise an error that says what the file has, unless it has all columns of these names."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        known = ", ".join(repr(name) for name in list(frame.columns)[:12])
        more = ", ..." if len(frame.columns) > 12 else ""
        raise ValueError(f"{role}: there is no column {missing[0]!r} in the file; it has {known}{more}{_hint(frame)}")


def _hint(frame: Any) -> str:
    """A guess at a wrong separator, where a file has but one column with one in its name."""
    name = str(frame.columns[0]) if frame.shape[1] == 1 else ""
    marks = [mark for mark in (";", ",", "|", "\t") if mark in name]
    return f"; if {marks[0]!r} stands between values, say so with --sep" if marks else ""


def column_kind(values: Any, name: str, attrs: Any) -> tuple[ColumnKind, str]:
    """How a column is read, and a remark where that is not plain to see."""
    if values.dtype.kind == "c":
        raise ValueError(f"column {name!r} holds complex numbers, which no model takes")
    if values.dtype.kind in "iufbM":
        return (ColumnKind(name, "date", "ISO8601") if values.dtype.kind == "M" else ColumnKind(name, "number")), ""
    return _text_kind(values, name, attrs)


def _text_kind(values: Any, name: str, attrs: Any) -> tuple[ColumnKind, str]:
    """How a column of texts is read: as numbers, yes and no, dates or categories."""
    decimal = attrs.get("decimal", ".")
    found = word_numbers(values, decimal)
    padded = padded_codes(values)
    if are_codes(values):
        return ColumnKind(name, "text"), f"taken as text, as values such as {padded.iloc[0]!r} begin with zeros"
    if found is not None:
        remark = f"{found.marks!r} is taken off its numbers" if found.marks else ""
        if len(padded):
            first, n = padded.iloc[0], len(values)
            remark = f"taken as numbers, though {len(padded)} of {n} values begin with zeros, such as {first!r}"
        return ColumnKind(name, "number"), remark
    if truth_words(values) is not None and values.nunique() > 1:
        return ColumnKind(name, "number", TRUTH), ""
    dates = date_form(values, attrs.get("american", False))
    if dates is not None:
        return ColumnKind(name, "date", dates[0]), dates[1]
    strange, n = strange_numbers(values, decimal), int(values.notna().sum())
    if strange and len(strange) <= (1.0 - NEARLY_ALL) * n:
        first = values.iloc[strange[0]]
        return ColumnKind(
            name, "text"
        ), f"taken as text, as {len(strange)} of {n} values are no numbers, such as {first!r}"
    return ColumnKind(name, "text"), ""


def _as_number(values: Any, column: ColumnKind, decimal: str) -> Any:
    if column.form == TRUTH and values.dtype.kind == "O":
        numbers = truth_words(values)
    elif values.dtype.kind == "O" and values.notna().any():
        found = word_numbers(values, decimal)
        numbers = None if found is None else found.values
    elif values.dtype.kind in "Mmc":
        numbers = None
    else:
        numbers = values.astype(np.float64)
    if numbers is None:
        raise ValueError(_changed(values, column, decimal))
    return numbers.where(np.isfinite(numbers))


def _changed(values: Any, column: ColumnKind, decimal: str) -> str:
    strange: list[int] = []
    if values.dtype.kind == "O":
        strange = strange_truths(values) if column.form == TRUTH else strange_numbers(values, decimal)
    now = f"it holds {values.iloc[strange[0]]!r} in row {strange[0] + 1}" if strange else "it holds something else"
    return f"column {column.name!r} held {column.form or 'numbers'} when the model was fitted; now {now}"


def _as_text(values: Any, column: ColumnKind, decimal: str) -> Any:  # noqa: ARG001 - any column can be read as text
    """Text with NaN for what is missing; a whole number is written without decimals."""
    if values.dtype.kind == "f" and (values.dropna() % 1 == 0).all() and (values.dropna().abs() < 2**53).all():
        values = values.astype("Int64")
    return values.map(str, na_action="ignore").astype(object).where(values.notna(), np.nan)


def _as_days(values: Any, column: ColumnKind, decimal: str) -> Any:  # noqa: ARG001 - dates have no decimal mark
    """Days since 1970; where the format of the fit does not suit, that of ISO 8601 is tried."""
    for form in (column.form or "ISO8601", "ISO8601"):
        try:
            return days(values, form)
        except (TypeError, ValueError, OverflowError):
            continue
    raise ValueError(f"column {column.name!r} held dates when the model was fitted; now it does not")


def _word(name: str) -> str:
    return f"'{name}'" if " " in name else name
