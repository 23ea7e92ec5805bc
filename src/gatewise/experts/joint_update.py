"""One update of all experts together: what the shared and the routed experts each learn from the same rows.

The experts of `alg:general` are summed, so an expert must not be fitted to what the others already predict. A rule
takes the shared and the routed experts, the rows, their responses and the gate's weights, and returns both pools
after the update.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params

from gatewise.arrays import as_count, as_positive, Floats, Indices
from gatewise.experts.gated import GatedExperts
from gatewise.experts.pool import expert_predictions, Noting, Pool

UpdateRule: TypeAlias = Callable[[Pool, Pool, Any, Floats, Floats], tuple[Pool, Pool]]


def update_by_residual(shared: Pool, routed: Pool, X: Any, y: Floats, gate_weights: Floats) -> tuple[Pool, Pool]:
    """Backfitting: a shared expert learns y less all others, then every routed one y less the shared experts.

    ``shared`` and ``routed`` are pools, y (n,), ``gate_weights`` (n, M). Experts without ``partial_fit`` stay. A
    fixed point of the rule is a joint least-squares fit where the experts are least-squares learners.

    >>> from sklearn.linear_model import SGDRegressor
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> shared, routed = (Pool.of([SGDRegressor(random_state=0).partial_fit(X, 0 * X[:, 0])]) for _ in range(2))
    >>> for _ in range(50):
    ...     shared, routed = update_by_residual(shared, routed, X, 3 * X[:, 0], np.ones((200, 1)))
    >>> round(float((shared.total(X) + routed.total(X))[-1]), 2)
    3.0
    """
    shared = _shared_updated(shared, routed, X, y, gate_weights)
    return shared, _each_updated(routed, X, y - shared.total(X))


def update_on_routed_rows(shared: Pool, routed: Pool, X: Any, y: Floats, gate_weights: Floats) -> tuple[Pool, Pool]:
    """As `update_by_residual`, but a routed expert only learns from the rows where its gate weight is the largest.

    Ties go to the smaller index. An expert that leads at no row stays as it is.
    """
    shared = _shared_updated(shared, routed, X, y, gate_weights)
    leader = gate_weights.argmax(axis=1)
    rows = [np.flatnonzero(leader == m) for m in range(len(routed))]
    return shared, _each_updated(routed, X, y - shared.total(X), rows)


def update_on_all_rows(
    shared: Pool,
    routed: Pool,
    X: Any,
    y: Floats,
    gate_weights: Floats,  # noqa: ARG001 - no gate is looked at
) -> tuple[Pool, Pool]:
    """Every routed expert learns the responses of all rows; refused where there are shared experts.

    The predictions of shared experts are added to those of the routed ones: fitted to y as well, the sum would count
    the response twice.
    """
    if len(shared):
        raise ValueError(_TWICE)
    return shared, _each_updated(routed, X, y)


_TWICE = (
    "the update rule 'all' fits every routed expert to y, and the shared experts are added to that: the response "
    "would count twice; take the rule 'residual' or 'routed'"
)
RULES: dict[str, UpdateRule] = {
    "residual": update_by_residual,
    "routed": update_on_routed_rows,
    "all": update_on_all_rows,
}


@dataclass(frozen=True)
class Updates:
    """How experts learn on the way: after how many observations, by which rule, and within how much memory.

    every
        The experts are updated after every so many observations; between updates they stay as they are.
    rule
        "residual" (`update_by_residual`), "routed" (`update_on_routed_rows`), "all" (`update_on_all_rows`), or a
        function ``(shared, routed, X, y, gate_weights) -> (shared, routed)`` of `Pool` objects.
    memory
        MiB for the states of the experts and the candidates' weights that belong to them. While they fit, the
        average over time is exact; else states are left out, and the error of that is measured on held-out rows.

    >>> Updates(every=10)
    Updates(every=10, rule='residual', memory=256.0)
    """

    every: int = 1
    rule: str | UpdateRule = "residual"
    memory: float = 256.0

    def __post_init__(self) -> None:
        as_count(self.every, "every")
        as_positive(self.memory, "memory")
        if not (callable(self.rule) or self.rule in RULES):
            raise ValueError(f"rule must be one of {', '.join(map(repr, RULES))} or a function, not {self.rule!r}")

    def check(self, pools: GatedExperts) -> None:
        """Raise an error where the experts cannot be updated together by this rule."""
        if self.rule == "all" and len(pools.shared):
            raise ValueError(_TWICE)

    def needs_gate(self, pools: GatedExperts) -> bool:
        """Whether the rule looks at the weights of the gate."""
        return self.rule not in ("all", "residual") or (
            self.rule == "residual" and any(map(learns, pools.shared.models))
        )

    def apply(self, pools: GatedExperts, X: Any, y: Floats, gate_weights: Floats) -> GatedExperts:
        """The experts after one update with these rows."""
        rule = self.rule if callable(self.rule) else RULES[self.rule]
        updated = rule(pools.shared, pools.experts, X, y, gate_weights)
        if not (isinstance(updated, tuple) and [type(pool) for pool in updated] == [Pool, Pool]):
            raise TypeError(f"the update rule must return two pools, (shared, routed), not {updated!r}")
        shared, routed = updated
        if (len(shared), len(routed)) != (len(pools.shared), len(pools.experts)):
            raise ValueError("the update rule must return as many shared and routed experts as it was given")
        return GatedExperts(routed, shared)


def learns(expert: Any) -> bool:
    """Whether an expert can be updated: it has ``partial_fit``."""
    return hasattr(expert, "partial_fit")


def less_others(pool: Pool, place: int, X: Any, y: Floats) -> Floats:
    """y less the predictions of all experts of the pool but one, (n,)."""
    others = [pool.experts[other] for other in range(len(pool)) if other != place]
    return y - Pool(others, kind=pool.kind).total(X)


def _shared_updated(shared: Pool, routed: Pool, X: Any, y: Floats, gate_weights: Floats) -> Pool:
    """The shared experts, one after the other, after an update with y less all other experts."""
    if not any(map(learns, shared.models)):
        return shared
    target = y - (gate_weights * routed.predict(X)).sum(axis=1)
    for place in range(len(shared)):
        aim = less_others(shared, place, X, target)
        models = list(shared.models)
        models[place] = updated(shared, place, X, aim)
        shared = shared.with_models(models)
    return shared


def _each_updated(pool: Pool, X: Any, target: Floats, rows: Iterable[Indices] | None = None) -> Pool:
    """Every expert after an update with one target (n,), each on its own rows where these are given."""
    if rows is None:
        return pool.with_models([updated(pool, m, X, target) for m in range(len(pool))])
    return pool.with_models([updated(pool, m, X, target, own) for m, own in enumerate(rows)])


def updated(pool: Pool, place: int, X: Any, target: Floats, rows: Indices | None = None) -> Any:
    """One expert of the pool after its ``partial_fit``; the same expert if it has none, or if there are no rows."""
    name, expert = pool.experts[place]
    if not learns(expert) or (rows is not None and len(rows) == 0):
        return expert
    params = _check_method_params(X, pool.params.get(name, {}), indices=rows)
    part, aim = (X, target) if rows is None else (_safe_indexing(X, rows), target[rows])
    with Noting(f"raised by the {pool.kind} {name!r} in an update"):
        result = expert.partial_fit(part, aim, **params)
    return expert if result is None else result


def fit_jointly(pools: GatedExperts, X: Any, y: Floats, gate_weights: Floats, by_update: bool) -> GatedExperts:
    """The experts after the burn-in rows: those that are not fitted are fitted, each to what the others leave.

    A shared expert is fitted to y less all others, a routed one to y less the shared experts; what is not fitted yet
    predicts 0. Where shared and routed experts are both fitted from scratch, the two steps are repeated until the
    sum moves by less than a thousandth of the deviation of y, at most 10 times. With ``by_update``, experts with
    ``partial_fit`` get these rows once, by that method. The experts of ``pools`` must be copies.
    """
    again = any(not by_update or not learns(model) for _, model in pools.shared.unfitted())
    shared, routed = _Blanks.of(pools.shared, by_update), _Blanks.of(pools.experts, by_update)
    n_cycles = CYCLES if again and len(routed.open) else 1
    before = np.full(len(y), np.inf)
    for cycle in range(n_cycles):
        always = _shared_learn(shared, routed, X, y, gate_weights, cycle)
        for place in range(len(routed.models)):
            routed.learn(place, X, y - always, cycle)
        if cycle == n_cycles - 1:
            break
        total = always + (gate_weights * routed.predict(X)).sum(axis=1)
        if np.sqrt(np.mean((total - before) ** 2)) <= TOLERANCE * np.std(y):
            break
        before = total
    return GatedExperts(pools.experts.with_models(routed.models), pools.shared.with_models(shared.models))


CYCLES, TOLERANCE = 10, 1e-3


def _shared_learn(
    shared: "_Blanks", routed: "_Blanks", X: Any, y: Floats, gate_weights: Floats, cycle: int
) -> Floats:
    """Let the shared experts learn y less all others, one after the other; the sum of their predictions, (n,)."""
    if not shared.models:
        return np.zeros(len(y))
    mixture = (gate_weights * routed.predict(X)).sum(axis=1)
    for place in range(len(shared.models)):
        others = shared.predict(X).sum(axis=1) - shared.column(place, X)
        shared.learn(place, X, y - mixture - others, cycle)
    return np.asarray(shared.predict(X).sum(axis=1))


class _Blanks:
    """The models of a pool while they are fitted; one that is not fitted yet predicts 0."""

    def __init__(self, pool: Pool, models: list[Any], unfitted: set[str], by_update: bool) -> None:
        self.pool, self.models, self.open, self.by_update = pool, models, set(unfitted), by_update
        self.blank = set(unfitted)

    @classmethod
    def of(cls, pool: Pool, by_update: bool) -> "_Blanks":
        return cls(pool, list(pool.models), {name for name, _ in pool.unfitted()}, by_update)

    def column(self, place: int, X: Any) -> Floats:
        name = self.pool.names[place]
        if name in self.blank:
            return np.zeros(len(X))
        return expert_predictions(self.models[place], X, f"the {self.pool.kind} {name!r}")

    def predict(self, X: Any) -> Floats:
        columns = [self.column(place, X) for place in range(len(self.models))]
        return np.stack(columns, axis=1) if columns else np.zeros((len(X), 0))

    def learn(self, place: int, X: Any, target: Floats, cycle: int) -> None:
        name, model = self.pool.names[place], self.models[place]
        params = self.pool.params.get(name, {})
        with Noting(f"raised by the {self.pool.kind} {name!r} in the burn-in"):
            if self.by_update and learns(model):
                if cycle == 0 and len(target):
                    result = model.partial_fit(X, target, **params)
                    self.models[place] = model if result is None else result
            elif name in self.open:
                model.fit(X, target, **params)
        self.blank.discard(name)
