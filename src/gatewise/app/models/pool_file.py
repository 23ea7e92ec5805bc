"""A pool of one's own, named in a small TOML file: its experts, and the gates between them."""

import inspect
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from gatewise.app.models.default_pool import numeric_columns, ordinal_inputs, scaled_inputs, text_columns
from gatewise.app.models.pool_models import AllowedModels, BOOSTING, class_path, CLASSIFIERS, REGRESSORS
from gatewise.experts.column import ColumnExpert

POOL_KEYS = {"experts", "gates"}
EXPERT_KEYS = {"name", "model", "column", "parameters"}


@dataclass(frozen=True)
class PoolChoice:
    """The (name, model) pairs of the experts of a pool, and the names of its gates: none if it leaves them open."""

    experts: list[tuple[str, Any]]
    gates: tuple[str, ...] = ()


def read_pool(path: Path, X: Any, allowed: AllowedModels = REGRESSORS) -> PoolChoice:
    """The pool of a file for the columns of a data frame.

    Each ``[[experts]]`` table has a ``name`` and either a ``model``, a path out of those ``allowed``, with its
    ``parameters``, or a ``column`` of the data that already is a forecast of a number. ``gates`` is a list of names
    of gates.
    """
    if not Path(path).is_file():
        raise ValueError(f"{path}: {'is a folder' if Path(path).is_dir() else 'no such file'}")
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: cannot be read as TOML: {error}") from error
    entries, gates = content.get("experts"), content.get("gates", [])
    if not set(content) <= POOL_KEYS or not isinstance(entries, list) or not entries:
        raise ValueError(
            f"{path}: a pool is a list of [[experts]] tables, perhaps with gates = [...] above, and nothing else"
        )
    if not isinstance(gates, list) or not all(isinstance(name, str) for name in gates):
        raise ValueError(f"{path}: gates must be a list of names, not {gates!r}")
    experts = [_expert(f"{path}: expert {place}", entry, X, allowed) for place, entry in enumerate(entries, start=1)]
    return PoolChoice(experts, tuple(gates))


def _expert(where: str, entry: Any, X: Any, allowed: AllowedModels) -> tuple[str, Any]:
    if not isinstance(entry, dict):
        raise ValueError(f"{where} must be a table, as [[experts]] begins one, not {entry!r}")
    unknown = sorted(set(entry) - EXPERT_KEYS)
    if unknown:
        raise ValueError(f"{where}: {unknown[0]!r} is none of {', '.join(sorted(EXPERT_KEYS))}")
    name = entry.get("name")
    if not isinstance(name, str) or not name.strip() or "__" in name:
        raise ValueError(f"{where}: name must be text without a double underscore, not {name!r}")
    if ("model" in entry) == ("column" in entry):
        raise ValueError(f"{where} ({name}) must have either a model or a column")
    if "column" in entry:
        if allowed is CLASSIFIERS:
            raise ValueError(f"{where} ({name}): a column is a forecast of a number; for classes name a model")
        if entry["column"] not in numeric_columns(X):
            raise ValueError(f"{where} ({name}): column must be a column of numbers, not {entry['column']!r}")
        return name, ColumnExpert(entry["column"])
    parameters = entry.get("parameters", {})
    if not isinstance(parameters, dict):
        raise ValueError(f"{where} ({name}): parameters must be a table, as {{ alpha = 1.0 }}, not {parameters!r}")
    where = f"{where} ({name})"
    return name, make_expert(where, _model_class(where, entry["model"], allowed), parameters, X, allowed)


def _model_class(where: str, path: Any, allowed: AllowedModels) -> type:
    """The class that a pool file names; those of other packages are imported when they are asked for."""
    models = allowed.models
    if isinstance(path, str) and path in models:
        return models[path]
    if not isinstance(path, str) or path not in allowed.boosted:
        raise ValueError(f"{where}: model must be one of {', '.join([*models, *allowed.boosted])}, not {path!r}")
    package, _, name = path.partition(".")
    try:
        found: type = getattr(import_module(package), name)
    except ImportError as error:
        raise ValueError(f"{where}: {package} is not installed; pip install {package}") from error
    return found


def make_expert(
    where: str, model_class: type, parameters: Mapping[str, Any], X: Any, allowed: AllowedModels = REGRESSORS
) -> Any:
    """An unfitted pipeline of a model and the encoding that suits it, for the columns of a data frame."""
    boosted = allowed.boosted.get(f"{model_class.__module__.split('.')[0]}.{model_class.__name__}")
    known = set(inspect.signature(model_class).parameters)
    unknown = sorted(set(parameters) - known)
    if unknown and boosted is None:  # boosted models take more than their signatures say
        raise ValueError(f"{where}: {class_path(model_class)} has no parameter {unknown[0]!r}")
    seed: dict[str, Any] = {"random_state": 0} if "random_state" in known else {}
    numbers, text = numeric_columns(X), text_columns(X)
    if model_class in BOOSTING:
        seed["categorical_features"] = list(range(len(text)))
    model: Any = model_class(**{**seed, **(boosted or {}), **parameters})
    if model_class in allowed.trees or boosted is not None:
        keeps_missing = model_class in BOOSTING or boosted is not None
        return make_pipeline(ordinal_inputs(numbers, text, *([] if keeps_missing else [-1])), model)
    if model_class is SVR:  # C and epsilon are in units of the response
        model = TransformedTargetRegressor(model, transformer=StandardScaler())
    return make_pipeline(scaled_inputs(numbers, text), model)
