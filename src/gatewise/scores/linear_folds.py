"""Held-out forecasts of the linear members for any scores: what depends on the queries alone is done once.

A test of routing by simulation fits the same queries hundreds of times to other scores.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.scores.local_members import fit_category
from gatewise.scores.price_weights import candidate_values, choices, learn_weights, votes
from gatewise.scores.queries import Queries
from gatewise.scores.ridge_members import fit_ridge, KernelBasis, Spectrum, spectrum
from gatewise.scores.route_verdict import largest_p_value
from gatewise.scores.score_list import designs, stack_weights, usable, with_blends


class _Fold(NamedTuple):
    """One fold: the rows that are fitted to and held out, with the spectra and features of every design."""

    rest: Indices
    held_out: Indices
    designs: tuple[tuple[Spectrum, Floats], ...]


class LinearFolds(NamedTuple):
    """Queries cut into folds, ready for the linear members of the list (`score_list.linear_plans`)."""

    queries: Queries
    folds: tuple[_Fold, ...]
    seed: int

    @classmethod
    def prepare(cls, queries: Queries, folds: Sequence[Indices], seed: int) -> Self:
        """The spectra of all designs without each fold, and the features of the rows that are held out."""
        found = []
        for held_out in folds:
            rest = np.setdiff1d(np.arange(len(queries)), held_out)
            pairs = []
            for design, _ in designs(queries):
                rows, new = queries[rest].design(design), queries[held_out].design(design)
                basis = KernelBasis.fit(rows, seed)
                pairs += [(spectrum(rows), new), (spectrum(basis.features(rows)), basis.features(new))]
            found.append(_Fold(rest, held_out, tuple(pairs)))
        return cls(queries, tuple(found), seed)

    def forecasts(self, centred: Floats) -> Floats:
        """Forecasts (J, n, M) of centred scores (n, M), by members that were fitted to the other folds."""
        columns = usable(self.queries)
        out = np.empty((len(columns) + len(self.folds[0].designs), *centred.shape))
        for fold in self.folds:
            seen, new = self.queries[fold.rest], self.queries[fold.held_out]
            for j, column in enumerate(columns):
                out[j, fold.held_out] = fit_category(seen, centred[fold.rest], column).forecast(new)
            for j, (seen_spectrum, features) in enumerate(fold.designs, start=len(columns)):
                out[j, fold.held_out] = fit_ridge(seen_spectrum, centred[fold.rest]).forecast(features)
        return out

    def p_value(self, scores: Floats, forecasts: Floats | None = None) -> float:
        """The p-value of the hypothesis that some single model is at least as good as the router of linear members.

        ``forecasts`` are `forecasts` of the centred scores (n, M), if they are there already.
        """
        centred = scores - scores.mean(axis=1, keepdims=True)
        found = self.forecasts(centred) if forecasts is None else forecasts
        found = with_blends(found, stack_weights(found, centred, self.seed))
        picked = choices(found, np.zeros(scores.shape[1]), 0.0)
        rows = [fold.held_out for fold in self.folds]
        learned = learn_weights(candidate_values(picked, scores), rows)
        value = np.empty(len(scores))
        for held_out, weights in zip(rows, learned.without_fold, strict=True):
            chosen = votes(weights, picked[:, held_out], scores.shape[1]).argmax(axis=1)
            value[held_out] = scores[held_out, chosen]
        return largest_p_value(value, scores)
