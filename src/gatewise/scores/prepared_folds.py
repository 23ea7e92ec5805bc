"""Held-out forecasts of the quick members for any scores: what depends on the queries alone is done once.

The test of routing is made with these members (`route_test`), so that hundreds of simulated tables can be fitted to
the same queries.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from gatewise.arrays import Floats, Indices
from gatewise.scores.leaders import centre
from gatewise.scores.local_members import fit_category, fit_neighbours, neighbour_means
from gatewise.scores.logistic_members import fit_logistic
from gatewise.scores.queries import Queries
from gatewise.scores.ridge_members import fit_ridge, fit_score_ridge, KernelBasis, Spectrum, spectrum
from gatewise.scores.score_list import designs, in_threads, NEIGHBOURS, usable


class _Design(NamedTuple):
    """One design: the spectra of the rows that are fitted to and the features of those held out; as kernels, too."""

    plain: Spectrum
    new: Floats
    kernel: Spectrum
    new_kernel: Floats


class _Fold(NamedTuple):
    """One fold: the rows that are fitted to and held out, their designs, and the nearest rows (h, k)."""

    rest: Indices
    held_out: Indices
    designs: tuple[_Design, ...]
    near: Indices


class PreparedFolds(NamedTuple):
    """Queries cut into folds, ready for the quick members of the list (`score_list.quick_plans`)."""

    queries: Queries
    folds: tuple[_Fold, ...]

    @classmethod
    def prepare(cls, queries: Queries, folds: Sequence[Indices], seed: int, n_jobs: int | None = None) -> Self:
        """The spectra of all designs without each fold, and the features and neighbours of the rows held out."""
        return cls(queries, tuple(in_threads([partial(_prepared, queries, rows, seed) for rows in folds], n_jobs)))

    @property
    def held_out(self) -> list[Indices]:
        """The rows of every fold."""
        return [fold.held_out for fold in self.folds]

    def forecasts(self, scores: Floats, n_jobs: int | None = None) -> Floats:
        """Forecasts (J, n, M) of centred scores by members fitted to the scores (n, M) of the other folds."""
        found = in_threads([partial(_forecasts, self.queries, fold, scores) for fold in self.folds], n_jobs)
        out = np.empty((len(found[0]), *scores.shape))
        for fold, forecasts in zip(self.folds, found, strict=True):
            out[:, fold.held_out] = forecasts
        return out

    def linear(self, values: Floats) -> Floats:
        """Forecasts (n, J) of values (n, J) by ridge regressions on all features, fitted to the other folds."""
        out = np.empty_like(values)
        for fold in self.folds:
            own = values[fold.rest]
            out[fold.held_out] = own.mean(axis=0)
            if fold.designs:
                out[fold.held_out] = fit_ridge(fold.designs[-1].plain, own).forecast(fold.designs[-1].new)
        return out


def _prepared(queries: Queries, held_out: Indices, seed: int) -> _Fold:
    rest = np.setdiff1d(np.arange(len(queries)), held_out)
    seen, new = queries[rest], queries[held_out]
    parts = []
    for design, _ in designs(queries):
        rows, others = seen.design(design), new.design(design)
        basis = KernelBasis.fit(rows, seed)
        parts.append(_Design(spectrum(rows), others, spectrum(basis.features(rows)), basis.features(others)))
    near = fit_neighbours(seen, np.zeros((len(rest), 0)), NEIGHBOURS).nearest(new)
    return _Fold(rest, held_out, tuple(parts), near)


def _forecasts(queries: Queries, fold: _Fold, scores: Floats) -> list[Floats]:
    """The forecasts (h, M) of every member at the rows that are held out."""
    known, new = queries[fold.rest], queries[fold.held_out]
    own = scores[fold.rest]
    centred = centre(own)
    level = centred.mean(axis=0)
    found = [fit_category(known, centred, column).forecast(new) for column in usable(queries)]
    for design in fold.designs:
        found.append(fit_score_ridge(design.plain, centred).forecast(design.new))
        found.append(fit_score_ridge(design.kernel, centred).forecast(design.new_kernel))
        found.append(fit_logistic(design.plain, own).forecast(design.new))
    return [*found, neighbour_means(fold.near, centred - level, level)]
