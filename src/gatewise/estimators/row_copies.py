"""Sample weights that count rows: whole numbers mean copies, and the router has an order of its own for copies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.utils import _safe_indexing

from gatewise.arrays import Floats, Indices
from gatewise.experts.pool import Split
from gatewise.gates.inputs import content_ranks, table_columns

MOST_COPIES = 5.0  # of a row on average: whole numbers beyond it are relative weights, as many copies take long
MOST_COUNTED = 20_000  # rows of a table with copies: of more rows weights are relative, and the order stays


@dataclass(frozen=True, eq=False)
class FitRows:
    """The rows that a fit uses: row i is row ``source``[i] of the table that was given.

    ``params`` are the keywords for the fit of each expert, by name. Rows of one of the ``groups`` (n,), if there are
    some, may depend on one another. Equal rows have the same number in ``alike`` (n,), which follows from what they
    hold; there is none where no rows are equal. The router learns from the rows in the order of ``place`` (n,), the
    position of every row, or in the order of the table if there is none.
    """

    X: Any
    y: Floats
    weight: Floats
    groups: Any
    splits: Sequence[Split]
    params: Mapping[str, Mapping[str, Any]]
    source: Indices
    alike: Indices | None = None
    place: Indices | None = None


def fit_rows(given: FitRows, seed: int) -> FitRows:
    """The rows of a fit: each as often as its weight says, if weights (n,) count rows (`counts_rows`).

    Weights are then one, and experts get no weights. Other weights stay, and rows of weight 0 are left out. Experts
    get the rows in the order of the table. Where some are equal the router takes them in an order that follows from
    their contents and the seed, so that it does not matter where copies stand; rows that are held out in time keep
    their order. With metadata routing weights count rows, and rows of weight 0 are left out, only if every expert
    asks for weights.
    """
    n, reach = len(given.y), _reach_all(given.params)
    counts = counts_rows(given.weight) and reach
    often = given.weight if counts else given.weight > 0.0 if reach else np.ones(n)
    source = np.repeat(np.arange(n), often.astype(np.intp))
    alike = _by_content(given, counts, source)
    place = None if alike is None or _in_time(given.splits) else _placed(alike, seed)
    if np.array_equal(source, np.arange(n)):
        return replace(given, alike=alike, place=place)
    params = {name: {key: np.asarray(one)[source] for key, one in own.items()} for name, own in given.params.items()}
    return FitRows(
        _safe_indexing(given.X, source),
        given.y[source],
        np.ones(len(source)) if counts else given.weight[source],
        None if given.groups is None else given.groups[source],
        _moved(given.splits, source),
        {name: _without_weights(own) for name, own in params.items()} if counts else params,
        given.source[source],
        alike,
        place,
    )


def counts_rows(weight: Floats) -> bool:
    """Whether weights (n,) say how often each row is there.

    They are whole numbers, at most MOST_COPIES on average, with a sum of at most MOST_COUNTED; or all are 0 or 1.

    >>> [counts_rows(np.array(weight)) for weight in ([0.0, 3.0, 1.0], [0.5, 1.5], [2000.0, 3000.0])]
    [True, False, False]
    """
    if weight.max() > 1.0 and (weight.mean() > MOST_COPIES or weight.sum() > MOST_COUNTED):
        return False
    return bool((weight == np.rint(weight)).all())


def _reach_all(params: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether no expert has said, by metadata routing, that it wants no sample weights."""
    return not get_config()["enable_metadata_routing"] or all("sample_weight" in own for own in params.values())


def _without_weights(params: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in params.items() if not key.endswith("sample_weight")}


def _moved(splits: Sequence[Split], source: Indices) -> list[Split]:
    """The splits of the rows of a fit, without those that train on none or hold out none of them."""
    moved = [tuple(np.flatnonzero(np.isin(source, part)) for part in split) for split in splits]
    kept = [(train, out) for train, out in moved if len(train) and len(out)]
    if splits and not kept:
        raise ValueError("cv: no split both trains on and holds out rows of positive sample_weight")
    return kept


def _in_time(splits: Sequence[Split]) -> bool:
    """Whether every split trains on earlier rows than it holds out."""
    return bool(splits) and all(len(train) and len(out) and np.max(train) < np.min(out) for train, out in splits)


def _by_content(given: FitRows, counts: bool, source: Indices) -> Indices | None:
    """The ranks (n,) of the rows of ``source`` by what they hold.

    Rows are equal if their inputs and responses are, if they are in the same groups and held out by the same splits,
    and if they have the same weight, unless weights count rows. None where no rows are equal, and where they are more
    than MOST_COUNTED.
    """
    n = len(source)
    if n > MOST_COUNTED:
        return None
    held_out = np.full((len(given.y), len(given.splits)), False)
    for number, (_, out) in enumerate(given.splits):
        held_out[out, number] = True
    columns = [given.y, *(values for _, values in table_columns(given.X)), *held_out.T]
    columns += [] if given.groups is None else [given.groups]
    columns += [] if counts else [given.weight]
    rank = content_ranks((values[source] for values in columns), n)
    return None if rank.max() == n - 1 else rank


def _placed(alike: Indices, seed: int) -> Indices:
    """The places (n,) of rows in an order that follows from their ranks (n,) and the seed."""
    place = np.empty(len(alike), dtype=np.intp)
    place[np.argsort(alike, kind="stable")] = np.random.default_rng([seed, 5]).permutation(len(alike))
    return place
