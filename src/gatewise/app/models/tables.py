"""Tables from files: CSV or Parquet in, columns of numbers and of text out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gatewise.arrays import Floats

Kind = Literal["number", "text", "date"]
PARQUET = (".parquet", ".pq")
DATE = r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?"
LEAST_ROWS = 20


@dataclass(frozen=True)
class ColumnKind:
    """A column's name and how its values are read."""

    name: str
    kind: Kind


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """What a model is fitted to: a data frame of numbers and text, responses (n,), and notes on what was left out."""

    X: Any
    y: Floats
    columns: tuple[ColumnKind, ...]
    target: str
    notes: tuple[str, ...] = ()


def read_frame(path: Path) -> Any:
    """The data frame in a CSV or Parquet file; its column names are text."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    try:
        frame = pd.read_parquet(path) if path.suffix.lower() in PARQUET else pd.read_csv(path, skipinitialspace=True)
    except Exception as error:
        kind = "Parquet" if path.suffix.lower() in PARQUET else "CSV"
        raise ValueError(f"{path}: cannot be read as {kind}: {_first_line(error)}") from error
    frame.columns = [str(name) for name in frame.columns]
    return frame


def write_frame(frame: Any, path: Path) -> Path:
    """Write a data frame as CSV, or as Parquet if the name says so."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() in PARQUET:
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


def training_table(frame: Any, target: str, drop: Iterable[str] = ()) -> TrainingTable:
    """Inputs and responses for a fit; rows without a response and columns without a name are left out.

    >>> table = training_table(pd.DataFrame({"y": range(20), "x": range(20), "colour": ["red", None] * 10}), "y")
    >>> [(column.name, column.kind) for column in table.columns]
    [('x', 'number'), ('colour', 'text')]
    """
    _check_columns(frame, [target], "target")
    _check_columns(frame, drop, "drop")
    notes = []
    unnamed = [name for name in frame.columns if name.startswith("Unnamed: ") and name != target]
    if unnamed:
        notes.append(f"left out: {len(unnamed)} column{'s' * (len(unnamed) > 1)} without a name")
    y = responses(frame, target)
    known = np.isfinite(y)
    if not known.all():
        notes.append(f"left out: {int((~known).sum())} rows without a value of {target!r}")
    if known.sum() < LEAST_ROWS:
        raise ValueError(f"a fit needs at least {LEAST_ROWS} rows with a value of {target!r}, not {int(known.sum())}")
    y = y[known]
    if y.min() == y.max():
        raise ValueError(f"target {target!r} is {y[0]:g} in every row: there is nothing to learn")
    inputs = frame.loc[known].drop(columns=[target, *unnamed, *drop])
    if inputs.shape[1] == 0:
        raise ValueError(f"no column is left beside the target {target!r}")
    columns = tuple(ColumnKind(name, _kind(inputs[name])) for name in inputs.columns)
    return TrainingTable(as_inputs(inputs, columns), y, columns, target, tuple(notes))


def responses(frame: Any, target: str) -> Floats:
    """The target's values as numbers, NaN where there is none."""
    _check_columns(frame, [target], "target")
    values = frame[target]
    if values.dtype.kind not in "iuf":
        content = {"b": "true and false", "M": "dates", "m": "durations"}.get(values.dtype.kind, "text")
        raise ValueError(f"target {target!r} holds {content}; it must hold numbers")
    numbers = np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    if np.isinf(numbers).any():
        raise ValueError(
            f"target {target!r} must be finite, but is infinite in row {int(np.isinf(numbers).argmax())}"
        )
    return numbers


def as_inputs(frame: Any, columns: Sequence[ColumnKind]) -> Any:
    """These columns of a data frame as floats and text, NaN where a value is missing."""
    _check_columns(frame, [column.name for column in columns], "the model's columns")
    readers = {"number": _as_number, "text": _as_text, "date": _as_days}
    parts = {column.name: readers[column.kind](frame[column.name], column.name) for column in columns}
    return pd.DataFrame(parts).reset_index(drop=True)


def row_keys(X: Any, y: Floats | None = None) -> NDArray[np.uint64]:
    """A number for every row that depends on its values alone, (n,): equal rows have equal numbers."""
    frame = X if y is None else X.assign(**{"\0response": y})
    return np.asarray(pd.util.hash_pandas_object(frame, index=False).to_numpy(dtype=np.uint64))


def _check_columns(frame: Any, names: Iterable[str], role: str) -> None:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        known = ", ".join(repr(name) for name in list(frame.columns)[:12])
        more = ", ..." if len(frame.columns) > 12 else ""
        raise ValueError(f"{role}: there is no column {missing[0]!r} in the file; it has {known}{more}")


def _kind(values: Any) -> Kind:
    if values.dtype.kind in "iufb":
        return "number"
    if values.dtype.kind == "M":
        return "date"
    seen = values.dropna()
    if len(seen) and seen.map(lambda value: isinstance(value, str)).all() and seen.str.fullmatch(DATE).all():
        try:
            _as_days(seen, "")
        except ValueError:
            return "text"
        return "date"
    return "text"


def _as_number(values: Any, name: str) -> Any:
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"column {name!r} held numbers when the model was fitted; now it holds text") from None
    return numbers.where(np.isfinite(numbers))


def _as_text(values: Any, name: str) -> Any:  # noqa: ARG001 - any column can be read as text
    """Text with NaN for what is missing; a whole number is written without decimals."""
    if values.dtype.kind == "f" and (values.dropna() % 1 == 0).all():
        values = values.astype("Int64")
    return values.map(str, na_action="ignore").astype(object).where(values.notna(), np.nan)


def _as_days(values: Any, name: str) -> Any:
    """Days since 1970."""
    try:
        when = pd.to_datetime(values, utc=True, format=None if values.dtype.kind == "M" else "ISO8601")
    except (TypeError, ValueError):
        raise ValueError(f"column {name!r} held dates when the model was fitted; now it does not") from None
    return (when - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
