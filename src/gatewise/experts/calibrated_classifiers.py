"""Classifiers as a pool of experts that answer with probabilities, calibrated on the folds that hold rows out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import Floats, Indices
from gatewise.experts.class_expert import ClassExpert
from gatewise.experts.decisions import fit_sigmoid
from gatewise.experts.pool import HeldOut, Pool, Split
from gatewise.experts.uncalibrated import classes_of, fit_confusion, UncalibratedExpert

NOTHING: Indices = np.empty(0, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class HeldOutCalibration:
    """How experts without probabilities, all with decisions or all with labels only, are calibrated by held-out rows.

    ``columns`` are the numbers of these experts, ``classes`` (C,) all labels, ``codes`` (n,) the classes of the rows,
    by number, and ``weight`` (n,) their sample weights. The experts may learn the classes ``learned``; those of split
    j were fitted to the classes ``fitted_to[j]``.
    """

    decides: bool
    columns: Sequence[int]
    classes: NDArray[Any]
    codes: Indices
    weight: Floats
    learned: Indices
    fitted_to: Sequence[Indices]

    @classmethod
    def of(
        cls,
        decides: bool,
        columns: Sequence[int],
        classes: NDArray[Any],
        codes: Indices,
        weight: Floats,
        splits: Sequence[Split],
    ) -> "HeldOutCalibration":
        """The calibration by these splits.

        Decisions are learned for the classes that some split holds out and has among its training rows as well. A
        class with a single row, or all rows of which are in one group, is none of them: it gets probability 0.
        """
        parts = [(classes_of(codes[a], weight[a]), classes_of(codes[b], weight[b])) for a, b in splits]
        learned = np.arange(len(classes))
        if decides:
            learned = reduce(np.union1d, (np.intersect1d(a, b) for a, b in parts), NOTHING)
        return cls(decides, columns, classes, codes, weight, learned, [np.intersect1d(a, learned) for a, _ in parts])

    def entries(self, held: HeldOut, known: Indices, rows: Indices | None) -> Indices | None:
        """Those of the entries ``known`` that calibrate experts fitted to these rows (None: all), if they are enough.

        Decisions of experts that were fitted to other classes are on another scale, so they are left out, and every
        class needs an entry. Labels are left out where there was one class only.
        """
        fitted_to = self.known_classes(rows)
        alike = [np.array_equal(own, fitted_to) if self.decides else len(own) > 1 for own in self.fitted_to]
        found = known[np.array(alike)[held.fold[known]]]
        found = found[np.isin(self.codes[held.rows[found]], fitted_to)]
        present = classes_of(self.codes[held.rows[found]], self.weight[held.rows[found]])
        enough = np.array_equal(present, fitted_to) if self.decides else len(present) > 0
        return found if enough and len(fitted_to) > 1 else None

    def known_classes(self, rows: Indices | None) -> Indices:
        """The classes that experts learn from these rows (None: all), by number."""
        chosen = slice(None) if rows is None else rows
        return np.intersect1d(classes_of(self.codes[chosen], self.weight[chosen]), self.learned)

    def sigmoid(self, held: HeldOut, m: int, entries: Indices) -> tuple[Indices, Any]:
        """The classes, by number, of the sigmoid of expert m that is fitted to these entries, and the sigmoid."""
        rows = held.rows[entries]
        present = classes_of(self.codes[rows], self.weight[rows])
        decisions = held.F[entries, m][:, present]
        return present, fit_sigmoid(decisions, self.classes[self.codes[rows]], self.weight[rows])

    def confusion(self, held: HeldOut, m: int, entries: Indices) -> Floats:
        """The confusion matrix (C, C) of expert m at these entries."""
        rows = held.rows[entries]
        return fit_confusion(held.F[entries, m], self.codes[rows], self.weight[rows])

    def probabilities(self, held: HeldOut, m: int, entries: Indices, here: Indices) -> Floats:
        """The probabilities of expert m at the entries ``here``, calibrated by ``entries``."""
        answers = held.F[here, m]
        if not self.decides:
            return np.asarray(self.confusion(held, m, entries)[answers.argmax(axis=1)])
        present, sigmoid = self.sigmoid(held, m, entries)
        p = np.zeros(answers.shape)
        p[:, present] = sigmoid.predict_proba(answers[:, present])
        return p

    def expert(self, held: HeldOut, m: int, entries: Indices, fitted: UncalibratedExpert) -> ClassExpert:
        """Expert m as it was fitted to all rows, calibrated by the entries."""
        if self.decides:
            return ClassExpert.of_sigmoid(fitted, self.sigmoid(held, m, entries)[1])
        return ClassExpert.of_confusion(fitted, self.confusion(held, m, entries))


@dataclass(frozen=True, eq=False)
class CalibratedClassifiers(Pool):
    """A pool of `ClassExpert` whose rows have the numbers of their classes as targets, and sample weights (n,).

    An expert without ``predict_proba`` is not cross-fitted by itself for its sigmoid or confusion matrix. It answers
    with decisions or labels, and these are fitted to the answers at rows that are held out anyway: for rows that a
    split holds out to those of the split's training rows, so that no label has a part in the probabilities of its own
    row, and for new rows to all of them. Where a split has too few of such rows, as the first of splits in time, the
    experts of this split are calibrated by themselves.
    """

    sample_weight: Floats = field(default_factory=lambda: np.empty(0))

    def fit(self, X: Any, targets: Floats, splits: Sequence[Split]) -> tuple[list[Any], HeldOut]:
        """The experts fitted on all rows, and their probabilities on the rows that each split holds out."""
        calibrations = self._calibrations(targets, splits)
        models, held = self._asked(calibrations).fit(X, targets, splits)
        for one in calibrations:
            entries = one.entries(held, np.arange(len(held.rows)), None)
            if entries is None:
                everything = (np.arange(len(targets)), NOTHING)
                pool = self._alone(one, held.in_time)
                (alone,) = pool._fit_splits(X, targets, [everything], f"{self.kind}s by themselves")
            for place, m in enumerate(one.columns):
                models[m] = alone[place][0] if entries is None else one.expert(held, m, entries, models[m])
        return models, self._probabilities(held, X, targets, splits, calibrations)

    def hold_out(self, X: Any, targets: Floats, splits: Sequence[Split]) -> HeldOut:
        """The experts' probabilities on the rows that each split holds out, without a fit to all rows."""
        calibrations = self._calibrations(targets, splits)
        held = self._asked(calibrations).hold_out(X, targets, splits)
        return self._probabilities(held, X, targets, splits, calibrations)

    def _calibrations(self, targets: Floats, splits: Sequence[Split]) -> list[HeldOutCalibration]:
        """The calibration of the experts with decisions and of those with labels only, where there are any."""
        codes, found = targets.astype(np.intp), []
        for decides in (True, False):
            columns = [m for m, one in enumerate(self.models) if one.calibrated and one.decides == decides]
            if columns:
                classes = self.models[columns[0]].classes
                found.append(HeldOutCalibration.of(decides, columns, classes, codes, self.sample_weight, splits))
        return found

    def _asked(self, calibrations: Iterable[HeldOutCalibration]) -> Pool:
        """The pool that is fitted: experts without probabilities answer with decisions or labels."""
        experts = list(self.experts)
        for one in calibrations:
            for m in one.columns:
                name, own = experts[m]
                experts[m] = (name, UncalibratedExpert(own.classifier, own.classes, one.learned, one.decides))
        return self._pool(experts)

    def _alone(self, calibration: HeldOutCalibration, in_time: bool) -> Pool:
        """The pool of the experts of this calibration, each of which calibrates itself."""
        experts = []
        for name, one in (self.experts[m] for m in calibration.columns):
            experts.append((name, ClassExpert(one.classifier, one.classes, one.seed, in_time)))
        return self._pool(experts)

    def _pool(self, experts: Sequence[tuple[str, Any]]) -> Pool:
        """A pool of these experts; those without probabilities get the sample weights for their calibration."""
        given = {one.name: getattr(self, one.name) for one in fields(Pool)}
        params = {name: dict(own) for name, own in self.params.items()}
        for name, one in self.experts:
            if one.calibrated:
                params.setdefault(name, {})["calibration_weight"] = self.sample_weight
        return Pool(**{**given, "experts": experts, "params": params})

    def _probabilities(
        self,
        held: HeldOut,
        X: Any,
        targets: Floats,
        splits: Sequence[Split],
        calibrations: Sequence[HeldOutCalibration],
    ) -> HeldOut:
        """The entries with probabilities in place of decisions and labels."""
        F = held.F.copy() if calibrations else held.F
        for one in calibrations:
            alone = []
            for number, (known, here) in enumerate(held.learners()):
                entries = one.entries(held, known, splits[number][0])
                if entries is None:
                    alone.append(number)
                    continue
                for m in one.columns if len(here) else ():
                    F[here, m] = one.probabilities(held, m, entries, here)
            if alone:
                own = self._alone(one, held.in_time).hold_out(X, targets, [splits[number] for number in alone])
                for place, m in enumerate(one.columns):
                    F[np.isin(held.fold, alone), m] = own.F[:, place]
        return replace(held, F=F)
