"""How good probabilities of classes are: log loss, Brier score, accuracy, area under the curve, calibration."""

from dataclasses import dataclass

import numpy as np

from gatewise.arrays import Booleans, Floats, Indices, TINY
from gatewise.stats import Interval, share_bounds

BINS = 15  # of equal mass, for the calibration error


@dataclass(frozen=True)
class ClassScores:
    """Scores of probabilities (n, C) at rows whose classes are known.

    ``log_loss`` is the mean of -log p(y), ``brier`` the mean of sum_c (p(c) - 1{y = c})^2, ``accuracy`` the fraction
    of rows whose most probable class is right, ``auc`` the area under the ROC curve (with more than two classes the
    mean over classes against the rest), ``calibration_error`` the expected one of the most probable class.
    """

    log_loss: float
    brier: float
    accuracy: float
    auc: float
    calibration_error: float

    @classmethod
    def of(cls, probabilities: Floats, outcome: Indices, sample_weight: Floats | None = None) -> "ClassScores":
        """The scores from probabilities (n, C) and the numbers of the classes (n,).

        >>> scores = ClassScores.of(np.array([[0.8, 0.2], [0.4, 0.6]]), np.array([0, 1]))
        >>> round(scores.log_loss, 3), round(scores.brier, 3), scores.accuracy, scores.auc
        (0.367, 0.2, 1.0, 1.0)
        """
        n, C = probabilities.shape
        weight = np.ones(n) if sample_weight is None else sample_weight
        observed = probabilities[np.arange(n), outcome]
        right = probabilities.argmax(axis=1) == outcome
        return cls(
            log_loss=float(np.average(-np.log(np.maximum(observed, TINY)), weights=weight)),
            brier=float(np.average(((probabilities - np.eye(C)[outcome]) ** 2).sum(axis=1), weights=weight)),
            accuracy=float(np.average(right, weights=weight)),
            auc=area_under_curve(probabilities, outcome, weight),
            calibration_error=calibration_error(probabilities.max(axis=1), right, weight),
        )


@dataclass(frozen=True)
class ReliabilityBin:
    """Rows of about the same probability: its mean, the fraction that happened with a 95 % interval, and the rows."""

    probability: float
    fraction: Interval
    count: int


def reliability(probability: Floats, happened: Floats, bins: int = 10) -> list[ReliabilityBin]:
    """A reliability diagram: probabilities (n,) of an event in bins of equal mass, and how often it happened.

    >>> [one.count for one in reliability(np.array([0.1, 0.2, 0.8, 0.9]), np.array([0.0, 0.0, 1.0, 1.0]), bins=2)]
    [2, 2]
    """
    parts = np.array_split(np.argsort(probability, kind="stable"), min(bins, len(probability)))
    found = []
    for part in parts:
        low, high = share_bounds(int(happened[part].sum()), len(part))
        fraction = Interval(float(happened[part].mean()), float(low), float(high))
        found.append(ReliabilityBin(float(probability[part].mean()), fraction, len(part)))
    return found


def calibration_error(probability: Floats, happened: Floats, sample_weight: Floats) -> float:
    """The expected calibration error: the mean over bins of |mean probability - fraction that happened|.

    >>> calibration_error(np.array([0.5, 0.5]), np.array([1.0, 0.0]), np.ones(2))
    0.5
    """
    parts = np.array_split(np.argsort(probability, kind="stable"), min(BINS, len(probability)))
    gaps = [abs(float(sample_weight[part] @ (probability[part] - happened[part]))) for part in parts]
    return float(sum(gaps) / sample_weight.sum())


def two_class_calibration(observed: Floats, sample_weight: Floats) -> Floats:
    """The calibration errors (k,) of k forecasts of two classes, from the probabilities (n, k) of what was observed.

    >>> two_class_calibration(np.array([[0.5, 1.0], [0.5, 1.0]]), np.ones(2))
    array([0.5, 0. ])
    """
    columns = np.asarray(observed).T
    return np.array([calibration_error(np.maximum(p, 1.0 - p), p >= 0.5, sample_weight) for p in columns])


def area_under_curve(probabilities: Floats, outcome: Indices, sample_weight: Floats) -> float:
    """The area under the ROC curve; of several classes the mean over those that occur; NaN where only one does."""
    classes = np.unique(outcome[sample_weight > 0.0])
    if len(classes) < 2:
        return float("nan")
    asked = [1] if probabilities.shape[1] == 2 else classes
    return float(np.mean([_curve_area(probabilities[:, c], outcome == c, sample_weight) for c in asked]))


def _curve_area(score: Floats, happened: Booleans, sample_weight: Floats) -> float:
    """The chance that a row where it happened has a larger score than one where it did not; a tie counts half.

    >>> _curve_area(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, False, True, True]), np.ones(4))
    0.875
    """
    values, place = np.unique(score, return_inverse=True)
    yes, no = (np.bincount(place, sample_weight * part, len(values)) for part in (happened, ~happened))
    below = np.cumsum(no) - 0.5 * no
    return float(yes @ below / (yes.sum() * no.sum()))
