"""Forecasts of experts for rows that they were not fitted on."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import delayed, Parallel
from sklearn.utils.validation import _check_method_params, has_fit_parameter

from gatewise.arrays import Floats
from gatewise.experts import expert_predictions

Rows = NDArray[np.intp]
Split = tuple[Rows, Rows]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Out-of-sample forecasts, one entry for each time that a row was held out.

    ``rows`` (N,) are the rows, ``fold`` (N,) the split that held each out, ``F`` (N, M) the experts' forecasts, and
    ``train`` the rows that the experts of each split were fitted on.
    """

    rows: Rows
    fold: Rows
    F: Floats
    train: tuple[Rows, ...]

    @property
    def in_time(self) -> bool:
        """Whether there are several splits, each fitted on earlier rows alone."""
        return len(self.train) > 1 and all(
            part.size > 0 and self.rows[self.fold == number].min(initial=part.max() + 1) > part.max()
            for number, part in enumerate(self.train)
        )

    def learners(self) -> Iterator[tuple[Rows, Rows]]:
        """For every split: the entries that a gate for it may learn from, and the entries that it then predicts."""
        for number, part in enumerate(self.train):
            yield np.flatnonzero(np.isin(self.rows, part)), np.flatnonzero(self.fold == number)


@dataclass(frozen=True, eq=False)
class Pool:
    """Named experts, how each is fitted, and by how many processes."""

    experts: Sequence[tuple[str, Any]]
    params: Mapping[str, Mapping[str, Any]]  # metadata for the fit of each expert, by name
    n_jobs: int | None = None

    def fit(self, X: Any, targets: Floats, splits: Sequence[Split]) -> tuple[list[Any], HeldOut]:
        """The experts fitted on all rows, and their forecasts on the rows that each split holds out.

        ``targets`` is (n,) for all experts, or (n, M).
        """
        n, M = len(targets), len(self.experts)
        columns = np.broadcast_to(targets.reshape(n, -1), (n, M))
        everything = (np.arange(n), np.empty(0, dtype=np.intp))
        tasks = [(split, m) for split in (everything, *splits) for m in range(M)]
        done = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_one)(
                *self.experts[m],
                X,
                columns[:, m],
                split,
                self.params.get(self.experts[m][0], {}),
                keep=split is everything,
            )
            for split, m in tasks
        )
        fitted = [model for model, _ in done[:M]]
        parts = [
            np.column_stack([forecast for _, forecast in done[M * j : M * (j + 1)]])
            for j in range(1, len(splits) + 1)
        ]
        return fitted, _collect(splits, parts)


def _collect(splits: Sequence[Split], parts: Sequence[Floats]) -> HeldOut:
    rows = np.concatenate([test for _, test in splits])
    fold = np.repeat(np.arange(len(splits)), [len(test) for _, test in splits])
    return HeldOut(rows, fold, np.concatenate(parts), tuple(train for train, _ in splits))


def predict_matrix(experts: Sequence[tuple[str, Any]], X: Any, n_jobs: int | None = None) -> Floats:
    """The forecasts of fitted experts, (n, M)."""
    parts = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(_predict)(name, expert, X) for name, expert in experts)
    return np.column_stack(parts)


def weight_params(expert: Any, sample_weight: Floats | None) -> dict[str, Floats]:
    """The keyword that hands a sample weight to an expert's fit; none if it takes none.

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> list(weight_params(make_pipeline(StandardScaler(), Ridge()), np.ones(3)))
    ['ridge__sample_weight']
    """
    if sample_weight is None:
        return {}
    if has_fit_parameter(expert, "sample_weight"):
        return {"sample_weight": sample_weight}
    steps = getattr(expert, "steps", None)
    if steps and has_fit_parameter(steps[-1][1], "sample_weight"):
        return {f"{steps[-1][0]}__sample_weight": sample_weight}
    if hasattr(expert, "regressor"):  # a transformed target hands its keywords on
        return weight_params(expert.regressor, sample_weight)
    if hasattr(expert, "param_grid") or hasattr(expert, "param_distributions"):  # and so does a search
        return weight_params(expert.estimator, sample_weight)
    return {}


def _fit_one(
    name: str, expert: Any, X: Any, y: Floats, split: Split, params: Mapping[str, Any], keep: bool
) -> tuple[Any, Floats]:
    train, test = split
    with _naming(name):
        whole = keep and len(train) == len(y)
        part, target = (X, y) if whole else (_safe_indexing(X, train), y[train])
        model = clone(expert).fit(part, target, **_check_method_params(X, params, indices=None if whole else train))
    forecast = _predict(name, model, _safe_indexing(X, test)) if len(test) else np.empty(0)
    return (model if keep else None), forecast


def _predict(name: str, expert: Any, X: Any) -> Floats:
    with _naming(name):
        try:
            return expert_predictions(expert, X, f"the expert {name!r}")
        except RuntimeError as error:
            raise error.__cause__ or error from None  # its own type of error, as from fit


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """An error that an expert raises keeps its type and gets the expert's name."""
    try:
        yield
    except Exception as error:
        error.add_note(f"raised by the expert {name!r}")
        raise
