"""Classifiers that give probabilities of the same classes, bounded away from 0: what gates over classifiers share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from gatewise.aggregation.blocks import Blocks
from gatewise.arrays import Floats, Indices
from gatewise.estimators.class_labels import checked_labels, plain_labels
from gatewise.estimators.validation import check_kind, rows_that_count, validated
from gatewise.experts.class_expert import ClassExpert
from gatewise.experts.pool import nonzero_assignments, Pool, weight_params
from gatewise.experts.protocol import can_predict
from gatewise.router.class_rows import ProbabilityFloor


@dataclass(frozen=True, eq=False)
class FlooredClassifiers:
    """M experts that answer with probabilities of ``classes`` (C,), and the floor of these.

    Every probability p becomes (1 - e) p + e / C with e = 1 / (n + 1) for the n rows of a fit: a wrong 0 costs about
    log(n C) and not everything, and all that the floor costs beside it is one nat in the sum over the rows. Where the
    sum of the sample weights is larger than the number of rows, it takes the place of n.
    """

    classes: NDArray[Any]
    pool: Pool
    floor: ProbabilityFloor

    @classmethod
    def of(
        cls,
        experts: Sequence[tuple[str, Any]],
        labels: NDArray[Any],
        seed: int,
        kind: str = "expert",
        weight: Floats | None = None,
        given: bool = True,
    ) -> Self:
        """Experts that can predict or are to be fitted, for the classes of labels (n,) and of the former.

        Where all were ``given`` as they are, and not fitted to some of these rows, one of them must know each label.
        """
        for name, expert in experts:
            check_kind(f"{kind}s", name, expert, "classifier")
        ready = {name: can_predict(expert) for name, expert in experts}
        classes = all_classes(labels, [(name, expert) for name, expert in experts if ready[name]], kind)
        if given and all(hasattr(expert, "classes_") for _, expert in experts):
            _check_known(labels, experts, kind)
        wrapped = [
            (name, ClassExpert.of_fitted(one, classes, name) if ready[name] else ClassExpert(one, classes, seed))
            for name, one in experts
        ]
        n = float(len(labels)) if weight is None else max(float(len(labels)), float(weight.sum()))
        floor = np.full(len(experts), 1.0 / (n + 1.0))
        return cls(
            classes,
            Pool(wrapped, kind=kind, outputs=(len(classes),)),
            ProbabilityFloor(floor, np.full(len(classes), 1.0 / len(classes))),
        )

    def fitted(self, X: Any, labels: NDArray[Any], weight: Floats | None = None) -> Self:
        """The pool with those experts fitted that could not predict, with sample weights where they take them."""
        params: dict[str, dict[str, Any]] = {}
        for name, expert in self.pool.experts:
            own = {"calibration_weight": weight} if expert.calibrated and weight is not None else {}
            params[name] = {**weight_params(expert.classifier, weight), **own}
        pool = replace(self.pool, params=params)
        return replace(self, pool=pool.fit_unfitted(X, self.codes(labels).astype(np.float64)))

    def codes(self, labels: NDArray[Any]) -> Indices:
        """The numbers of labels (n,)."""
        return np.searchsorted(self.classes, labels)

    def probabilities(self, X: Any) -> Floats:
        """The experts' probabilities with the floor, (n, M, C)."""
        return self.floor.apply(self.pool.predict(X))

    def mix(self, X: Any, weights: Floats) -> Floats:
        """sum_m weights_im p_m(c | x_i), (n, C); an expert is asked for the rows where it has weight."""
        total = np.zeros((len(weights), len(self.classes)))
        for m, rows, part, p in self.pool.answers(X, nonzero_assignments(weights)):
            total[rows] += part[:, None] * self.floor.apply_one(m, p)
        return total


class LabelledRows(NamedTuple):
    """Rows of positive sample weight: X as it was given, its numbers (n, d), and the labels (n,).

    ``weight`` (n,) are the sample weights, None where none were given, and ``number`` (n,) says which rows they are.
    """

    X: Any
    numbers: Floats
    labels: NDArray[Any]
    weight: Floats | None
    number: Indices


class ProbabilityModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that decides for the class of largest probability that its ``_classifiers`` have together."""

    _classifiers: FlooredClassifiers

    def predict(self, X: Any, **readout: Any) -> NDArray[Any]:
        """The most probable label of every row, (n,); keywords as in ``predict_proba``."""
        p: Floats = self.predict_proba(X, **readout)
        return np.asarray(self.classes_[p.argmax(axis=1)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy of ``predict`` on rows X with labels y (n,), of any type that ``fit`` takes."""
        return float(super().score(X, plain_labels(y), sample_weight))

    def expert_probabilities(self, X: Any) -> Floats:
        """The probabilities of all experts, with their floor, (n, M, C)."""
        return self._classifiers.probabilities(self._rows_for(X))

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in ascending order, (C,)."""
        check_is_fitted(self)
        return self._classifiers.classes

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_classifiers")

    def _labelled(self, X: Any, y: Any, sample_weight: Any = None) -> LabelledRows:
        """The rows that count, checked; X must hold numbers."""
        given, labels, _ = checked_labels(self, X, y, None, reset=True)
        rows = validated(self, X, reset=False, dtype=np.float64)
        given, (kept, weight) = given if hasattr(X, "shape") else rows, rows_that_count(sample_weight, len(labels))
        if len(kept) < len(labels):
            given, rows, labels = _safe_indexing(given, kept), rows[kept], labels[kept]
        return LabelledRows(given, rows, labels, weight, kept)

    def _rows_for(self, X: Any) -> Any:
        check_is_fitted(self)
        checked = validated(self, X, reset=False, dtype=np.float64)
        return X if hasattr(X, "shape") else checked


def blocks_of_classes(blocks: Blocks | None) -> Blocks:
    """The blocks for a log loss, which has no scale to calibrate; an error for what has no meaning then."""
    if blocks is None:
        blocks = Blocks()
    if not isinstance(blocks, Blocks):
        raise TypeError(f"blocks must be Blocks(...) or None, not {blocks!r}")
    for name in ("calibration", "sigma", "sigma_bounds", "updates"):
        if getattr(blocks, name) is not None:
            reason = "experts that learn on the way are for regression" if name == "updates" else "there is no scale"
            raise ValueError(f"blocks.{name} must be None for classes, not {getattr(blocks, name)!r}: {reason}")
    return replace(blocks, sigma=1.0)


def _check_known(labels: NDArray[Any], experts: Sequence[tuple[str, Any]], kind: str) -> None:
    """An error where a label is none of the classes that the experts have seen."""
    strange = np.setdiff1d(labels, np.concatenate([np.asarray(expert.classes_) for _, expert in experts])).tolist()
    if strange:
        raise ValueError(f"y has the label {strange[0]!r}, which no {kind} has seen")


def all_classes(labels: NDArray[Any], fitted: Sequence[tuple[str, Any]], kind: str = "expert") -> NDArray[Any]:
    """The classes of the labels and of the fitted experts, which an error calls by their ``kind``."""
    classes = np.unique(labels)
    known = [(name, np.asarray(one.classes_)) for name, one in fitted if hasattr(one, "classes_")]
    for name, own in known:
        if (own.dtype.kind in "OUS") != (classes.dtype.kind in "OUS"):
            raise ValueError(f"the {kind} {name!r} knows the classes {own.tolist()}, and y has {classes.tolist()}")
    found = np.unique(np.concatenate([classes, *(own for _, own in known)])) if known else classes
    if len(found) < 2:
        raise ValueError(f"y must have at least two classes, but has one class, {found.tolist()[0]!r}")
    return np.asarray(found)
