"""DESReg (package desreg) at its defaults, on encoded inputs, with a prediction step that does all rows at once.

The package predicts row by row, asks each of its bagged regressors twice for every row and builds a tree of
neighbours anew each time: hours for this benchmark. `competences` and `select_and_average` are the same formulas on
arrays; a test holds them against the package's own ``predict``.
"""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, RegressorMixin
from sklearn.neighbors import NearestNeighbors

from gatewise.arrays import Floats


def competences(F: Floats, near: Floats, y_near: Floats, distances: Floats) -> Floats:
    """The package's mean of eight scaled errors of every regressor near every row, (n, R); less is better.

    F (n, R) are predictions at the rows, near (n, k, R) those at the k neighbours, y_near and distances (n, k).
    """
    distances = np.where(distances == 0.0, 1e-10, distances)
    shares = 1.0 / distances
    shares = (shares / shares.sum(axis=1, keepdims=True))[:, :, None]
    squares = (y_near[:, :, None] - near) ** 2  # (n, k, R)
    closest = squares[np.arange(len(F)), distances.argmin(axis=1)]
    measures = np.stack(
        [
            near.var(axis=1),
            (np.sqrt(squares) * shares).sum(axis=1),
            (squares * distances[:, :, None]).sum(axis=1),  # distances themselves: so it is in the package
            (squares * shares).min(axis=1),
            (squares * shares).max(axis=1),
            ((y_near[:, :, None] - F[:, None, :]) ** 2 * shares).sum(axis=1),
            np.sqrt((squares * shares).sum(axis=1)),
            closest,
        ]
    )  # (8, n, R)
    low = measures.min(axis=2, keepdims=True)
    spread = measures.max(axis=2, keepdims=True) - low
    scaled = (measures - low) / np.where(spread < 10 * np.finfo(float).eps, 1.0, spread)
    return np.asarray(scaled.mean(axis=0))


def select_and_average(F: Floats, competence: Floats) -> Floats:
    """The mean prediction of the regressors whose errors are at most the mean of all regressors' errors, (n,)."""
    chosen = competence <= competence.mean(axis=1, keepdims=True)
    return np.asarray((F * chosen).sum(axis=1) / chosen.sum(axis=1))


class DynamicSelection(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """`desReg.des.DESRegression` over ten bagged copies of each expert, its inputs encoded by ``encoder``."""

    def __init__(self, experts: Any, encoder: Any, random_state: int = 0) -> None:
        self.experts = experts
        self.encoder = encoder
        self.random_state = random_state

    def fit(self, X: Any, y: Floats) -> "DynamicSelection":
        """The package's own fit on the encoded rows."""
        from desReg.des.DESRegression import DESRegression  # noqa: PLC0415 - an extra

        self.encoder_ = clone(self.encoder).fit(X)
        regressors = [expert for _, expert in self.experts]
        self.model_ = DESRegression(regressors_list=regressors, random_state=self.random_state, n_jobs=1)
        self.model_.fit(self.encoder_.transform(X), y)
        known = self.model_.DSEL_data_
        self.neighbours_ = NearestNeighbors(n_neighbors=self.model_.k).fit(known)
        self.known_ = self._predictions(known)
        return self

    def predict(self, X: Any) -> Floats:
        """What the package predicts, (n,)."""
        rows = self.encoder_.transform(X)
        distances, index = self.neighbours_.kneighbors(rows)
        F = self._predictions(rows)
        errors = competences(F, self.known_[index], self.model_.DSEL_target_[index], distances)
        return select_and_average(F, errors)

    def _predictions(self, rows: Floats) -> Floats:
        return np.column_stack([one.predict(rows) for one in self.model_.regressors_list_])  # (n, R)
