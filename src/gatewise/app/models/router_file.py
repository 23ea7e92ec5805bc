"""Tables of queries, scores and costs from a file; router files; decisions as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gatewise.app.files import Output
from gatewise.app.models.cell_values import are_codes, padded_codes, word_numbers
from gatewise.app.models.model_file import OtherKindError, read_archive, write_archive
from gatewise.arrays import Floats
from gatewise.estimators import MoEClassifier, MoERegressor, ScoreRouter
from gatewise.scores.queries import Choice

NO_WEIGHT = 1e-12  # in a table of decisions a smaller weight is written as 0


@dataclass(frozen=True, eq=False)
class ScoredQueries:
    """What a router is fitted to: queries, scores (n, M) with the models' names, and costs (n, M) or None."""

    X: Any
    scores: Any
    costs: Floats | None


@dataclass(frozen=True, eq=False)
class SavedRouter:
    """A fitted router, the columns that it reads, and the facts of its fit."""

    router: ScoreRouter
    columns: tuple[str, ...]
    facts: Mapping[str, Any]


def matched(names: Sequence[str], pattern: str, role: str) -> dict[str, str]:
    """Columns by model: those that fit a pattern with one star, under what the star stands for.

    >>> matched(["right/a", "right/b", "text"], "right/*", "scores")
    {'a': 'right/a', 'b': 'right/b'}
    """
    if pattern.count("*") != 1:
        raise ValueError(f"--{role} must hold one star, which stands for the name of a model, not {pattern!r}")
    head, tail = pattern.split("*")
    found = [name for name in names if name.startswith(head) and name.endswith(tail) and fnmatchcase(name, pattern)]
    if not found:
        raise ValueError(f"--{role}: no column fits {pattern!r}; the file has {', '.join(map(repr, names[:12]))}")
    return {name[len(head) : len(name) - len(tail) or None]: name for name in found}


def scored_queries(
    frame: Any, scores: str, costs: str | None, text: Sequence[str], category: Sequence[str], number: Sequence[str]
) -> ScoredQueries:
    """Queries, scores and costs of a data frame by patterns such as 'right/*' and the columns that describe a query.

    Without any such column all that are neither scores nor costs are taken.
    """
    names = [str(name) for name in frame.columns]
    by_model = matched(names, scores, "scores")
    cost_columns = matched(names, costs, "costs") if costs else {}
    for model in by_model if costs else ():
        if model not in cost_columns:
            raise ValueError(f"--costs: there is no column for the model {model!r}, which has scores")
    wanted = [*text, *category, *number]
    for name in wanted:
        if name not in names:
            raise ValueError(f"there is no column {name!r} in the file; it has {', '.join(map(repr, names[:12]))}")
    used = {*by_model.values(), *cost_columns.values()}
    X = frame[wanted or [name for name in names if name not in used]].reset_index(drop=True)
    X = _unpadded(X, [name for name in X.columns if name in number or not are_codes(X[name])])
    numbers = {model: _numbers(frame[column], column) for model, column in by_model.items()}
    spent = [_numbers(frame[cost_columns[model]], cost_columns[model]) for model in by_model] if costs else None
    return ScoredQueries(X, pd.DataFrame(numbers), None if spent is None else np.column_stack(spent))


def column_choice(text: Sequence[str], category: Sequence[str], number: Sequence[str]) -> tuple[Choice, Choice]:
    """Which columns hold text and categories, as `ScoreRouter` takes it: "auto" if none was named.

    >>> column_choice(["question"], [], [])
    (['question'], [])
    """
    return (text, category) if any((text, category, number)) else ("auto", "auto")


def _unpadded(X: Any, columns: Sequence[str]) -> Any:
    """A data frame with the whole numbers of these columns, where they are text as in "007", as numbers."""
    padded = [name for name in columns if X[name].dtype.kind == "O" and len(padded_codes(X[name]))]
    found = {name: word_numbers(X[name]) for name in padded}
    return X.assign(**{name: one.values for name, one in found.items() if one is not None})


def _numbers(values: Any, name: str) -> Floats:
    try:
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError):
        raise ValueError(f"column {name!r} must hold numbers") from None


def save_router(router: ScoreRouter, facts: Mapping[str, Any], place: Path | Output) -> Path:
    """Write a router file and return its path."""
    return write_archive(router, {"columns": list(router.reader_.names), "facts": facts}, place)


def load_router(path: Path) -> SavedRouter:
    """Read a router file; its types are checked before anything is loaded."""
    return read_archive(path, _checked_router)


def _checked_router(model: Any, stamp: Mapping[str, Any]) -> SavedRouter:
    if isinstance(model, MoERegressor | MoEClassifier):
        raise OtherKindError("it holds a model; gatewise predict and gatewise report take it")
    if not isinstance(model, ScoreRouter):
        raise TypeError(f"it holds a {type(model).__name__}, which `gatewise route` does not use")
    columns = tuple(str(name) for name in stamp["columns"])
    if columns != model.reader_.names:
        raise ValueError("its columns are not those of its router")
    return SavedRouter(model, columns, dict(stamp["facts"]))


def decide_frame(
    saved: SavedRouter, frame: Any, price: float = 0.0, budget: float | None = None, weights: bool = False
) -> Any:
    """One row a query: the model to call, the runner-up and the lead; with ``weights`` every model's weight.

    Weights below NO_WEIGHT are 0.
    """
    if len(frame) == 0:
        raise ValueError("there are no queries to decide on")
    missing = [name for name in saved.columns if name not in frame.columns]
    if missing:
        raise ValueError(f"there is no column {missing[0]!r} in the file, which the router reads")
    router = saved.router
    kinds = zip(saved.columns, router.reader_.kinds, strict=True)
    numbers = [name for name, kind in kinds if kind == "number"]
    queries = router.features(_unpadded(frame[list(saved.columns)], numbers))
    paid = price if budget is None else router.plan(budget=budget).price
    answer = dict(router.explain(queries, paid))
    if weights:
        gate = router.gate_weights(queries, paid)
        answer.update((f"weight {name}", gate[:, m]) for m, name in enumerate(router.models_))
    weighed = [name for name in answer if name in {"weight", "runner_up_weight"} or name.startswith("weight ")]
    return pd.DataFrame(answer | {name: np.where(answer[name] < NO_WEIGHT, 0.0, answer[name]) for name in weighed})
