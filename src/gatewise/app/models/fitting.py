"""From a table to a model: build it, score it on rows that were held back, fit it to all rows."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from gatewise.app.models.class_method_scores import compare_classes
from gatewise.app.models.default_classifiers import make_classifiers
from gatewise.app.models.default_pool import make_experts
from gatewise.app.models.gate_names import choose_gates
from gatewise.app.models.method_scores import compare
from gatewise.app.models.model_file import SavedModel, versions
from gatewise.app.models.pool_file import PoolChoice, read_pool
from gatewise.app.models.pool_models import CLASSIFIERS, REGRESSORS
from gatewise.app.models.tables import row_keys, TrainingTable, unseen_classes
from gatewise.estimators import MoEClassifier, MoERegressor
from gatewise.router.facts import plain_values
from gatewise.router.settings import MoESettings

LEAST_ROWS = 5  # of a trial, to fit and to test


@dataclass(frozen=True)
class Trial:
    """A fit on some of the rows, scored on the others. ``best_single`` was chosen without the scored rows.

    ``left_out`` is a note on rows that were held back and could not be scored, empty if all could.
    """

    n_train: int
    n_test: int
    best_single: str
    scores: tuple[Any, ...]  # of `MethodScore`, or of `ClassMethodScore` for classes
    left_out: str = ""

    def record(self) -> dict[str, Any]:
        """The trial as a mapping, each gain as one of value, low and high."""
        return {**asdict(self), "scores": [score.record() for score in self.scores]}


def fit_and_score(
    table: TrainingTable,
    pool: Path | None = None,
    gates: Sequence[str] | None = None,
    test: float = 0.2,
    seed: int = 0,
    jobs: int | None = 1,
) -> tuple[SavedModel, Trial | None]:
    """A model fitted to all rows of a table, and the score of a trial that holds out the fraction ``test`` of them.

    The trial is None if ``test`` is 0.

    ``pool`` and ``gates`` are those of `build`.
    """
    model = build(table, pool, gates, seed, jobs)
    with threadpool_limits(1, user_api="blas"):  # the matrices are small: threads would only wait for each other
        trial = run_trial(model, table, test, seed)
        return fit_table(model, table, trial), trial


def build(
    table: TrainingTable, pool: Path | None, gates: Sequence[str] | None, seed: int, jobs: int | None
) -> MoERegressor | MoEClassifier:
    """An unfitted model for the columns of a table: a classifier where its responses are labels.

    ``pool`` is a TOML file of experts, None for the default pool. ``gates`` are names of gates; without any, those
    that the pool file names are taken, and "auto" if it names none.
    """
    labels = is_labels(table.y)
    if pool is not None:
        chosen = read_pool(pool, table.X, CLASSIFIERS if labels else REGRESSORS)
    else:
        chosen = PoolChoice((make_classifiers if labels else make_experts)(table.X))
    kind = MoEClassifier if labels else MoERegressor
    return kind(chosen.experts, gates=choose_gates(gates or chosen.gates), n_jobs=jobs, random_state=seed)


def run_trial(model: Any, table: TrainingTable, share: float, seed: int) -> Trial | None:
    """Hold out the fraction ``share`` of the rows, fit on the others and score on those held out; None if it is 0."""
    n = len(table.y)
    n_test = round(share * n)
    if n_test == 0:
        return None
    if n_test < LEAST_ROWS or n - n_test < LEAST_ROWS:
        raise ValueError(f"a test share of {share:g} leaves {n_test} rows to test and {n - n_test} to fit: too few")
    order = np.random.default_rng(seed).permutation(n)
    test, train = order[:n_test], order[n_test:]
    untested = clone(model).set_params(settings=MoESettings(test=False))  # it predicts the same, and sooner
    fitted = untested.fit(table.X.iloc[train].reset_index(drop=True), table.y[train])
    return score(fitted, table.X.iloc[test].reset_index(drop=True), table.y[test], len(train))


def is_labels(y: NDArray[Any]) -> bool:
    """Whether responses are labels."""
    return y.dtype.kind in "UO"


def score_classes(model: Any, X: Any, y: NDArray[Any], n_train: int) -> Trial:
    """The scores of a classifier on rows that it has not seen.

    Rows of a class that it does not know are left out, and a note says so: all rows of the class were held back.
    """
    known = np.isin(y, model.classes_)
    if not known.any():
        raise ValueError("no row held back has a class of the other rows; hold back more with --test")
    X, outcome = X.loc[known].reset_index(drop=True), np.searchsorted(model.classes_, y[known])
    P, names = model.expert_probabilities(X), [str(name) for name in model.get_feature_names_out()]
    stack = np.einsum("m,imc->ic", model.stack_weights_, P)
    scores = compare_classes(outcome, model.predict_proba(X), stack, P, names)
    note = unseen_classes(y, model.classes_)
    reason = "; all rows of such a class were held back" if note else ""
    return Trial(n_train, len(outcome), best_single(model), scores, note + reason)


def score(model: Any, X: Any, y: NDArray[Any], n_train: int) -> Trial:
    """The errors of a model on rows that it has not seen; ``n_train`` is the number of rows that it was fitted to."""
    if is_labels(y):
        return score_classes(model, X, y, n_train)
    F = model.transform(X)
    names = [str(name) for name in model.get_feature_names_out()]
    scores = compare(y, model.predict(X), F @ model.stack_weights_, F, names)
    return Trial(n_train, len(y), best_single(model), scores)


def best_single(model: Any) -> str:
    """The name of the expert with the smallest out-of-fold mean squared error, or log loss."""
    if isinstance(model, MoEClassifier):
        return str(min(model.get_feature_names_out(), key=lambda name: model.held_out_scores_[name].log_loss))
    y, F = model.out_of_fold_.y, model.out_of_fold_.F
    return str(model.get_feature_names_out()[((y[:, None] - F) ** 2).mean(axis=0).argmin()])


def fit_table(model: Any, table: TrainingTable, trial: Trial | None) -> SavedModel:
    """The model fitted to all rows of a table, with the facts that go into its file."""
    fitted = model.fit(table.X, table.y)
    facts = {
        "versions": versions(),
        "rows": len(table.y),
        "columns": [asdict(column) for column in table.columns],
        "target": table.target,
        "notes": list(table.notes),
        "test": None if trial is None else trial.record(),
        **fitted.report(),
    }
    keys = row_keys(table.X, table.y)
    return SavedModel(fitted, table.target, table.columns, keys, plain_values(facts), table.key)
