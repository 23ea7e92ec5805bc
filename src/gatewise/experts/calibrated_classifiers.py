"""Classifiers as a pool of experts that answer with probabilities, calibrated on the folds that hold rows out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.experts.class_expert import ClassExpert
from gatewise.experts.decisions import DecisionExpert, fit_sigmoid
from gatewise.experts.pool import HeldOut, Pool, Split


@dataclass(frozen=True, eq=False)
class CalibratedClassifiers(Pool):
    """A pool of `ClassExpert` whose rows have the numbers of their classes as targets, and sample weights (n,).

    An expert with ``decision_function`` only is not cross-fitted by itself for its sigmoid. It answers with
    decisions, and the sigmoids are fitted to the decisions of rows that are held out anyway: for rows that a split
    holds out to those of the split's training rows, so that no label has a part in the probabilities of its own row,
    and for new rows to all of them. Where a split has no such row of some class, as the first of splits in time, the
    experts are calibrated by themselves.
    """

    sample_weight: Floats = field(default_factory=lambda: np.empty(0))

    def fit(self, X: Any, targets: Floats, splits: Sequence[Split]) -> tuple[list[Any], HeldOut]:
        """The experts fitted on all rows, and their probabilities on the rows that each split holds out."""
        columns = self._calibrated_by(targets, splits)
        models, held = self._asked(columns).fit(X, targets, splits)
        everything = np.arange(len(held.rows))
        for m in columns:
            models[m] = models[m].with_sigmoid(self._sigmoid(held, m, targets, everything))
        return models, self._probabilities(held, targets, columns)

    def hold_out(self, X: Any, targets: Floats, splits: Sequence[Split]) -> HeldOut:
        """The experts' probabilities on the rows that each split holds out, without a fit to all rows."""
        columns = self._calibrated_by(targets, splits)
        return self._probabilities(self._asked(columns).hold_out(X, targets, splits), targets, columns)

    def _calibrated_by(self, targets: Floats, splits: Sequence[Split]) -> list[int]:
        """The experts, by number, whose sigmoids can be fitted to the decisions of rows that the splits hold out."""
        columns = [m for m, (_, one) in enumerate(self.experts) if isinstance(one, ClassExpert) and one.decides]
        if not columns or not splits:
            return []
        out = np.unique(np.concatenate([test for _, test in splits]))
        learned = [out, *(train for train, _ in splits), *(np.intersect1d(train, out) for train, _ in splits)]
        return columns if all(self._has_every_class(targets, rows) for rows in learned) else []

    def _has_every_class(self, targets: Floats, rows: Indices) -> bool:
        weighed = rows[self.sample_weight[rows] > 0.0]
        return len(np.unique(targets[weighed])) == self.outputs[0]

    def _asked(self, columns: Iterable[int]) -> Pool:
        """The pool that is fitted: the experts of these numbers answer with decisions."""
        given = {one.name: getattr(self, one.name) for one in fields(Pool)}
        experts = list(self.experts)
        for m in columns:
            name, own = experts[m]
            experts[m] = (name, DecisionExpert(own.classifier, own.classes))
        return Pool(**{**given, "experts": experts})

    def _probabilities(self, held: HeldOut, targets: Floats, columns: Sequence[int]) -> HeldOut:
        """The entries with probabilities in place of the decisions of these experts."""
        if not columns:
            return held
        F = held.F.copy()
        for known, here in held.learners():
            for m in columns if len(here) else ():
                F[here, m] = self._sigmoid(held, m, targets, known).predict_proba(held.F[here, m])
        return replace(held, F=F)

    def _sigmoid(self, held: HeldOut, m: int, targets: Floats, known: Indices) -> Any:
        """The sigmoid of expert m, fitted to its decisions at the entries ``known``."""
        rows = held.rows[known]
        labels = self.models[m].classes[targets[rows].astype(np.intp)]
        return fit_sigmoid(held.F[known, m], labels, self.sample_weight[rows])
