"""Model files: a skops archive, never a pickle, with a stamp: a JSON entry of versions, columns and facts."""

import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import sklearn
import skops.io
from numpy.typing import NDArray

import gatewise
from gatewise.app.files import as_output, is_model, Output, STAMP
from gatewise.app.models.audit import check_contents, check_sizes, named_types, untrusted_types
from gatewise.app.models.gate_names import register_added_gates
from gatewise.app.models.tables import ColumnKind
from gatewise.app.models.trusted_types import BOOSTERS, trusted_types
from gatewise.estimators import MoEClassifier, MoERegressor, ScoreRouter

FORMAT = 2  # of the stamp and of the types in the archive; 1 was that of gatewise 0.1.0, under other module names
ENDINGS = (".skops",)
SCHEMA = "schema.json"
Saved = TypeVar("Saved")
MOST_BYTES = 2**28  # of a text entry: a larger one is no model of ours
MOST_JOBS = 1024


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A fitted model and what is needed to use it: the target, the columns, the keys of its rows, the fit's facts."""

    model: Any  # a fitted MoERegressor or MoEClassifier
    target: str
    columns: tuple[ColumnKind, ...]
    rows: NDArray[np.uint64]  # (n,): `row_keys` of the rows of the fit
    facts: Mapping[str, Any]
    key: str | None = None  # the column that names a row, if any


def save_model(saved: SavedModel, place: Path | Output) -> Path:
    """Write a model file and return its path; a model that holds an untrusted type is not written."""
    stamp = {
        "target": saved.target,
        "columns": [asdict(column) for column in saved.columns],
        "rows": saved.rows.tolist(),
        "facts": saved.facts,
        "key": saved.key,
    }
    return write_archive(saved.model, stamp, place)


def write_archive(model: Any, stamp: Mapping[str, Any], place: Path | Output) -> Path:
    """Write a fitted estimator with a stamp, to which format and versions are added, and return the path."""
    output = as_output(place, ENDINGS)
    with output.replacing(is_model) as part:
        _write(model, {"format": FORMAT, "versions": versions(), **stamp}, part, output.path)
    return output.path


def _write(model: Any, stamp: Mapping[str, Any], part: Path, path: Path) -> None:
    """Write a model that will lie at ``path`` to ``part``."""
    skops.io.dump(model, part, compression=zipfile.ZIP_DEFLATED, compresslevel=3)
    with zipfile.ZipFile(part, "a", zipfile.ZIP_DEFLATED) as archive:
        unknown = untrusted_types(json.loads(archive.read(SCHEMA)), boosters=True)
        if unknown:
            raise ValueError(f"{path}: not written, as a model file cannot hold {unknown[0]}; change the pool")
        archive.writestr(STAMP, json.dumps(stamp))


def load_model(path: Path, boosters: bool = False) -> SavedModel:
    """Read a model file: check its versions, then its types against the trusted ones, and only then load it.

    ``boosters``: load boosted trees of other packages, too, though their own code trusts the bytes of the file.
    """
    return read_archive(path, _checked, boosters)


def read_archive(path: Path, checked: Callable[[Any, Mapping[str, Any]], Saved], boosters: bool = False) -> Saved:
    """Read what `write_archive` wrote; ``checked`` turns the estimator and its stamp into what is returned."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    try:
        content = path.read_bytes()  # what is checked is what is loaded, whatever becomes of the file meanwhile
        with zipfile.ZipFile(BytesIO(content)) as archive:
            check_sizes(archive)
            stamp, schema = (_read_json(archive, name) for name in (STAMP, SCHEMA))
        _check_versions(path, stamp)
        _refuse_untrusted(path, schema, boosters)
        trusted = trusted_types() | (set(BOOSTERS) if boosters else set())
        named = named_types(schema)  # skops compares every entry with the whole list
        model = skops.io.loads(content, trusted=sorted(trusted & named))
        check_contents(model)
        return checked(model, stamp)
    except _RefusedError:
        raise
    except OtherKindError as error:
        raise _RefusedError(f"{path}: {error}") from error
    except Exception as error:  # a damaged file can fail in any way
        raise ValueError(f"{path}: not a model file of Gatewise, or damaged ({_words(error)})") from error


def _refuse_untrusted(path: Path, schema: Any, boosters: bool) -> None:
    """Raise an error if a schema names what is not trusted."""
    unknown = untrusted_types(schema, boosters)
    if unknown:
        register_added_gates()  # the type may be a gate of an installed package
        unknown = untrusted_types(schema, boosters)
    if schema.get("protocol") != _protocol():  # loaders of old protocols read other entries than were checked
        unknown.append(f"protocol {schema.get('protocol')} of skops")
    elif unknown and not untrusted_types(schema, boosters=True):
        raise _RefusedError(
            f"{path}: it holds boosted trees of another package, whose code trusts every byte of a file; "
            "if you trust this one, use --boosters"
        )
    if unknown:
        raise _RefusedError(f"{path}: refused, as it holds what no model of Gatewise does: {unknown[0]}")


class OtherKindError(ValueError):
    """A file of Gatewise that holds something else than was asked for; the message says what, and what takes it."""


class _RefusedError(ValueError):
    """A file that could be read and is refused, with the reason as its message."""


def versions() -> dict[str, str]:
    """The versions that a model file depends on, by package."""
    return {"gatewise": gatewise.__version__, "scikit-learn": ".".join(sklearn.__version__.split(".")[:2])}


def _check_versions(path: Path, stamp: Mapping[str, Any]) -> None:
    saved_by = stamp["versions"]
    if stamp["format"] != FORMAT:
        raise _RefusedError(
            f"{path}: this model was saved by gatewise {saved_by['gatewise']} in format {stamp['format']}; "
            f"gatewise {gatewise.__version__} reads format {FORMAT} only: fit it again with gatewise fit"
        )
    for package, ours in versions().items():
        theirs = str(saved_by[package])
        if theirs != ours:
            raise _RefusedError(
                f"{path}: this model was saved with {package} {theirs}, but this is {package} {ours}: "
                "fit it again with gatewise fit"
            )


def _checked(model: Any, stamp: Mapping[str, Any]) -> SavedModel:
    if isinstance(model, ScoreRouter):
        raise OtherKindError("it holds a router; gatewise route decide and gatewise route report take it")
    if not isinstance(model, MoERegressor | MoEClassifier):
        raise TypeError(f"it holds a {type(model).__name__}")
    if model.n_jobs is not None and not -1 <= int(model.n_jobs) <= MOST_JOBS:
        raise ValueError(f"it asks for {model.n_jobs} processes")
    columns = tuple(
        ColumnKind(str(column["name"]), column["kind"], str(column.get("form", ""))) for column in stamp["columns"]
    )
    if [column.name for column in columns] != list(model.feature_names_in_):
        raise ValueError("its columns are not those of its model")
    if any(column.kind not in ("number", "text", "date") for column in columns):
        raise ValueError("it has columns of an unknown kind")
    row = {column.name: ["" if column.kind == "text" else 0.0] for column in columns}
    _answer_all(model, pd.DataFrame(row))
    rows = np.array(stamp["rows"], dtype=np.uint64)
    if rows.ndim != 1 or len(rows) != len(model.out_of_fold_.rows):
        raise ValueError("its rows are not those of its model")
    key = stamp.get("key")
    return SavedModel(
        model, str(stamp["target"]), columns, rows, dict(stamp["facts"]), None if key is None else str(key)
    )


def _answer_all(model: Any, row: pd.DataFrame) -> None:
    """Ask for what a command may ask: arrays that do not fit together are found now, and not by the user's rows."""
    model.predict(row)
    model.gate_weights(row)
    if isinstance(model, MoERegressor):
        model.predict(row, return_std=True)


def _protocol() -> Any:
    """The protocol that the installed skops writes."""
    with zipfile.ZipFile(BytesIO(skops.io.dumps(0))) as archive:
        return _read_json(archive, SCHEMA)["protocol"]


def _read_json(archive: zipfile.ZipFile, name: str) -> Any:
    if archive.getinfo(name).file_size > MOST_BYTES:
        raise ValueError(f"{name} is too large")
    return json.loads(archive.read(name))


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())
    return (text or type(error).__name__)[:160]
