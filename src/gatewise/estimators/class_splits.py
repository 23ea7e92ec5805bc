"""Splits of rows with classes, and an error where the training rows of a split tell which class it holds out."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp

from gatewise.arrays import Floats, Indices
from gatewise.estimators.validation import make_splits
from gatewise.experts.pool import Split
from gatewise.experts.uncalibrated import classes_of

MOST_TOLD = 0.25  # of the entropy of held-out labels; random folds of m rows, two classes, tell 1 / (2 m log 2)
POWERS = 2.0 ** np.arange(-6, 25)  # of the shares; the largest serves single rows held out of millions


def class_splits(
    cv: Any, X: Any, codes: Indices, weight: Floats, params: dict[str, Any], seed: int
) -> list[tuple[Indices, Indices]]:
    """The (training, held-out) rows of every split that teaches something about the classes of ``codes`` (n,).

    By default the classes are spread evenly over the folds, and with groups no fold divides one. A split whose
    training rows, of positive sample weight (n,), have one class is left out with a warning. An error if such splits
    hold out most of the rows, or if the shares of the classes among training rows tell the held-out labels.
    """
    from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold  # noqa: PLC0415 - slow to import

    grouped, given = "groups" in params, cv
    if cv is None or isinstance(cv, int | np.integer):
        folds = min(5 if cv is None else int(cv), len(codes))
        kind = StratifiedKFold if np.bincount(codes).max() >= folds else KFold
        if grouped:
            kind, folds = StratifiedGroupKFold, min(folds, len(np.unique(params["groups"])))
        cv = kind(folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():  # a class may have fewer rows than there are folds
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        splits = make_splits(cv, X, codes, params, seed)
    if isinstance(cv, StratifiedKFold) or (given is None and not grouped):  # no folds are more even
        return splits
    splits = _of_several_classes(splits, codes, weight)
    told = told_by_shares(splits, codes, weight)
    if told > MOST_TOLD:
        raise ValueError(
            "cv: the training rows of a split tell which class it holds out. A class that is held out has a smaller "
            f"share of the training rows, and these shares alone explain {told:.0%} of the entropy of the held-out "
            f"labels; a gate would learn that in place of the classes. {_remedy(grouped)}"
        )
    return splits


def told_by_shares(splits: Sequence[Split], codes: Indices, weight: Floats) -> float:
    """The part of the entropy of held-out labels that the class shares of the training rows explain, reversed.

    With training shares w_jc of class c in split j, and p_c among the held-out rows, the label in split j is given
    the probability proportional to p_c (v_c / w_jc)^a, where v_c is the geometric mean of w_jc over held-out rows and
    a > 0 is the best of `POWERS`. The result is by how much that lowers the log loss below the entropy of p, divided
    by the entropy: 1 for single rows held out, 0 for stratified folds. Labels that the shares tell without reversal,
    as in a trend over time, count as 0. Classes of one row are left out, as every split that holds one out lacks it.

    >>> labels, rows = np.array([0, 0, 1, 1]), np.arange(4)
    >>> round(told_by_shares([(np.delete(rows, i), rows[[i]]) for i in rows], labels, np.ones(4)), 3)
    1.0
    >>> told_by_shares([(rows[::2], rows[1::2]), (rows[1::2], rows[::2])], labels, np.ones(4))
    0.0
    """
    C, n = int(codes.max()) + 1, len(codes)
    trained, held = (
        np.array([np.bincount(codes[rows], weight[rows], C) for rows in part]) for part in zip(*splits, strict=True)
    )  # (J, C) each
    kept = (np.bincount(codes[weight > 0.0], minlength=C) > 1) & (held.sum(axis=0) > 0.0)
    trained, held = trained[:, kept], held[:, kept]
    if kept.sum() < 2:
        return 0.0
    log_p = np.log(held.sum(axis=0) / held.sum())
    entropy = -float(np.exp(log_p) @ log_p)
    shares = trained / np.maximum(trained.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    lack = -np.log(np.maximum(shares, 0.5 / n))
    lack -= held.sum(axis=1) @ lack / held.sum()
    losses = []
    for power in POWERS:
        scores = log_p + power * lack
        losses.append(-float((held * (scores - logsumexp(scores, axis=1, keepdims=True))).sum() / held.sum()))
    return max(0.0, 1.0 - min(losses) / entropy)


def _of_several_classes(splits: list[Split], codes: Indices, weight: Floats) -> list[Split]:
    """The splits whose training rows have two classes or more; an error if the others hold out most of the rows."""
    kept = [(a, b) for a, b in splits if len(classes_of(codes[a], weight[a])) > 1]
    if len(kept) == len(splits):
        return splits
    lost = f"cv: in {len(splits) - len(kept)} of {len(splits)} splits all training rows are of one class"
    if 2 * sum(len(b) for _, b in kept) <= sum(len(b) for _, b in splits):
        raise ValueError(
            f"{lost}, and nothing about the classes is learned from them; every split needs training rows of all "
            "classes, as StratifiedKFold gives them, or StratifiedGroupKFold where each class is in several groups"
        )
    warnings.warn(f"{lost}; what these splits hold out is not used", UserWarning, stacklevel=5)
    return kept


def _remedy(grouped: bool) -> str:
    """What to do about splits that tell the classes."""
    if not grouped:
        return "Use StratifiedKFold, as cv=5 does; in time, fewer and longer splits"
    return (
        "Use StratifiedGroupKFold with fewer folds, so that each fold has groups of every class; where there are as "
        "few groups as classes, they cannot be held out"
    )
