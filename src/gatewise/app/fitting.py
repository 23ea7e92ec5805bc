"""A table in, a scored and refitted model out."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gatewise.app.default_pool import make_experts
from gatewise.app.model_file import SavedModel, versions
from gatewise.app.pool_file import read_pool
from gatewise.app.score_table import compare, Score
from gatewise.app.tables import row_keys, Table
from gatewise.arrays import Floats
from gatewise.estimators import MoERegressor

LEAST_ROWS = 5


@dataclass(frozen=True)
class Trial:
    """A fit on some of the rows, scored on the others. ``best_single`` was chosen without the scored rows."""

    n_train: int
    n_test: int
    best_single: str
    scores: tuple[Score, ...]


def build(table: Table, pool: Path | None, seed: int, jobs: int | None) -> MoERegressor:
    """An unfitted model for the columns of a table: the default pool, or the one in a file."""
    experts = make_experts(table.X) if pool is None else read_pool(pool, table.X)
    return MoERegressor(experts, n_jobs=jobs, random_state=seed)


def run_trial(model: Any, table: Table, share: float, seed: int) -> Trial | None:
    """Hold back a share of the rows, fit on the rest and score; None if the share is 0."""
    from sklearn.base import clone  # noqa: PLC0415

    n = len(table.y)
    n_test = round(share * n)
    if n_test == 0:
        return None
    if n_test < LEAST_ROWS or n - n_test < LEAST_ROWS:
        raise ValueError(f"a test share of {share:g} leaves {n_test} rows to test and {n - n_test} to fit: too few")
    order = np.random.default_rng(seed).permutation(n)
    test, train = order[:n_test], order[n_test:]
    fitted = clone(model).fit(table.X.iloc[train].reset_index(drop=True), table.y[train])
    return score(fitted, table.X.iloc[test].reset_index(drop=True), table.y[test], len(train))


def score(model: Any, X: Any, y: Floats, n_train: int) -> Trial:
    """The errors on rows that the model has not seen."""
    F = model.transform(X)
    names = [str(name) for name in model.get_feature_names_out()]
    scores = compare(y, model.predict(X), F @ model.stack_weights_, F, names)
    return Trial(n_train, len(y), best_single(model), scores)


def best_single(model: Any) -> str:
    """The expert of the smallest held-out error in the fit."""
    y, F = model.out_of_fold_.y, model.out_of_fold_.F
    return str(model.get_feature_names_out()[((y[:, None] - F) ** 2).mean(axis=0).argmin()])


def fit_table(model: Any, table: Table, trial: Trial | None) -> SavedModel:
    """Fit on all rows, with the facts that go into the file."""
    fitted = model.fit(table.X, table.y)
    facts = {
        "versions": versions(),
        "rows": len(table.y),
        "columns": [asdict(column) for column in table.columns],
        "target": table.target,
        "notes": list(table.notes),
        "test": None if trial is None else asdict(trial),
        **fitted.report(),
    }
    return SavedModel(fitted, table.target, table.columns, row_keys(table.X, table.y), _plain(facts))


def _plain(value: Any) -> Any:
    """Values that JSON knows; infinities and NaN, which it does not, become None."""
    if hasattr(value, "_asdict"):  # an interval
        return _plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
