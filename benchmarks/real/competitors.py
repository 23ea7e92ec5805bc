"""Who takes part: each competitor is a name and a function that builds it from the experts and the training rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import StackingRegressor, VotingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from benchmarks.real.dynamic import DynamicSelection
from benchmarks.real.facts import router_facts
from benchmarks.real.feature_weighted import FeatureWeightedStack
from benchmarks.real.neural_ensembler import NeuralEnsembler
from benchmarks.real.second_level import SecondLevel
from benchmarks.real.weighted import best_single, greedy, simplex, WeightedExperts
from gatewise.app.models.default_pool import (
    boosting,
    core_experts,
    forest,
    numeric_columns,
    ordinal_inputs,
    scaled_inputs,
    text_columns,
)
from gatewise.arrays import Floats
from gatewise.estimators import MoERegressor
from gatewise.router.settings import MoESettings

STACK = "simplex stack"  # what the others are held against
OURS = "gatewise"
ROUTER_VERSION = 13  # count up when the router's predictions change


class Contest(NamedTuple):
    """What a competitor is built from."""

    experts: list[tuple[str, Any]]
    X: Any  # the training rows, a data frame
    y: Floats
    seed: int
    prefit: bool = False  # the experts are known beforehand, and their ``fit`` does nothing
    core: Callable[[], list[tuple[str, Any]]] = core_experts  # the experts for a matrix of numbers

    @property
    def folds(self) -> KFold:
        """Five random folds, the same for everyone."""
        return KFold(5, shuffle=True, random_state=self.seed % 2**32)


Facts = Callable[[Any, Contest, Any, Floats], Mapping[str, Any]]


@dataclass(frozen=True)
class Competitor:
    """``build(contest)`` is an unfitted regressor; ``facts(model, contest, X_test, y_test)`` what else to record.

    ``version`` is part of the key of stored results: another one when results change. ``pools`` are those that
    it takes part with.
    """

    name: str
    build: Callable[[Contest], Any]
    facts: Facts | None = None
    version: int | str = 1
    pools: tuple[str, ...] = ("default", "strong")


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=float)


def _stack_on_inputs(contest: Contest, make_final: Callable[[int], Any]) -> StackingRegressor:
    """A stack whose last model sees the experts' predictions and the inputs.

    scikit-learn hands over one array: predictions first, then the columns of X, text among numbers. The last model
    is a pipeline that makes codes of the text, as the experts that are trees do.
    """
    M, columns = len(contest.experts), list(contest.X.columns)
    text = [M + columns.index(name) for name in text_columns(contest.X)]
    numbers = [*range(M), *(M + columns.index(name) for name in numeric_columns(contest.X))]
    encode = ordinal_inputs(numbers, text)
    final = make_pipeline(encode, FunctionTransformer(_floats), make_final(len(text)))
    return StackingRegressor(contest.experts, final, cv=contest.folds, passthrough=True)


def _ridge_stack(contest: Contest) -> StackingRegressor:
    """A linear stack; its penalties are in standard deviations, so that units do not matter."""
    line = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13)))
    final = TransformedTargetRegressor(line, transformer=StandardScaler())
    return StackingRegressor(contest.experts, final, cv=contest.folds)


def _encoder(contest: Contest) -> ColumnTransformer:
    return scaled_inputs(numeric_columns(contest.X), text_columns(contest.X))


def _dynamic(contest: Contest) -> DynamicSelection:
    return DynamicSelection(contest.core(), _encoder(contest), contest.seed % 2**32)


def _feature_weighted(contest: Contest) -> SecondLevel:
    return SecondLevel(contest.experts, FeatureWeightedStack(_encoder(contest)), contest.folds)


def _neural(contest: Contest) -> SecondLevel:
    return SecondLevel(contest.experts, NeuralEnsembler(_encoder(contest), contest.seed), contest.folds)


RIVALS: tuple[Competitor, ...] = (
    Competitor("best single", lambda contest: WeightedExperts(contest.experts, best_single, contest.folds)),
    Competitor("mean", lambda contest: VotingRegressor(contest.experts)),
    Competitor(STACK, lambda contest: WeightedExperts(contest.experts, simplex, contest.folds)),
    Competitor("ridge stack", _ridge_stack, version=2),
    Competitor("forest stack", lambda contest: _stack_on_inputs(contest, lambda _text: forest())),
    Competitor("boosted stack", lambda contest: _stack_on_inputs(contest, boosting)),
    Competitor("greedy", lambda contest: WeightedExperts(contest.experts, greedy, contest.folds)),
    Competitor("feature-weighted", _feature_weighted),
    Competitor("neural ensembler", _neural),
    Competitor("DESReg", _dynamic, pools=("default",)),  # ten copies of six strong experts would take days
)


def router(settings: MoESettings | None = None, name: str = OURS) -> Competitor:
    """The router of this package with these settings, or with those it ships with."""

    def build(contest: Contest) -> MoERegressor:
        cv = "prefit" if contest.prefit else contest.folds
        return MoERegressor(contest.experts, cv=cv, random_state=contest.seed, settings=settings)

    version: int | str = ROUTER_VERSION if settings is None else f"{ROUTER_VERSION} {settings!r}"
    return Competitor(name, build, router_facts, version)


COMPETITORS: tuple[Competitor, ...] = (*RIVALS, router())


def find_competitors(names: list[str] | None = None, pool: str = "default") -> tuple[Competitor, ...]:
    """The competitors of these names, or all, that take part with a pool."""
    known = {one.name: one for one in COMPETITORS if pool in one.pools}
    for name in names or ():
        if name not in known:
            raise ValueError(f"competitor must be one of {', '.join(known)}, not {name!r}")
    return tuple(one for name, one in known.items() if not names or name in names)
