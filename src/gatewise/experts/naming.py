"""The candidates of a selection: their names, how they are made ready, and how they are asked."""

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from gatewise.arrays import Floats
from gatewise.experts.evolving import is_ready
from gatewise.experts.protocol import expert_predictions

Named: TypeAlias = list[tuple[str, Any]]


def named_candidates(candidates: Sequence[Any]) -> Named:
    """Pairs (name, candidate): as given, or named after their type or their gate's, numbered where that repeats.

    >>> from sklearn.linear_model import Ridge
    >>> [name for name, _ in named_candidates([Ridge(), Ridge(10.0), ("mean", lambda X: 0.0 * X[:, 0])])]
    ['ridge-1', 'ridge-2', 'mean']
    """
    items = [_pair(item) for item in candidates]
    if not items:
        raise ValueError("candidates must hold at least one candidate, not none")
    made_up = Counter(_type_name(candidate) for name, candidate in items if name is None)
    seen: Counter[str] = Counter()
    named = []
    for number, (name, candidate) in enumerate(items):
        _check(candidate, f"candidates[{number}]" if name is None else f"candidates[{name!r}]")
        if name is None:
            kind = _type_name(candidate)
            seen[kind] += 1
            name = f"{kind}-{seen[kind]}" if made_up[kind] > 1 else kind  # noqa: PLW2901
        named.append((name, candidate))
    twice = [name for name, count in Counter(name for name, _ in named).items() if count > 1]
    if twice:
        raise ValueError(f"candidates must have different names, but {twice[0]!r} occurs more than once")
    return named


def ready_candidates(named: Named, X: Any, y: Floats) -> Named:
    """The candidates ready to predict: those that are not are copied and fitted to the rows; the rest stay.

    A deep copy and not `clone`, which would undo the fit of experts that a candidate holds; all in one, so that
    experts which several candidates hold are copied once and stay the same for all of them.
    """
    copies = iter(copy.deepcopy([candidate for _, candidate in named if not is_ready(candidate)]))
    return [(name, c if is_ready(c) else _fitted(name, next(copies), X, y)) for name, c in named]


def candidate_matrix(named: Named, X: Any) -> Floats:
    """The predictions of every candidate, (n, L); an error names the candidate at fault."""
    return np.stack([_ask(name, candidate, X) for name, candidate in named], axis=1)


def _fitted(name: str, candidate: Any, X: Any, y: Floats) -> Any:
    try:
        candidate.fit(X, y)
    except Exception as error:
        who = f"candidates[{name!r}] ({type(candidate).__name__})"
        raise _kind(error)(f"{who} failed to fit {len(y)} rows: {error}") from error
    return candidate


def _ask(name: str, candidate: Any, X: Any) -> Floats:
    try:
        return expert_predictions(candidate, X, f"candidates[{name!r}]")
    except RuntimeError as error:
        raise _kind(error.__cause__)(str(error)) from error.__cause__


def _kind(error: BaseException | None) -> type[Exception]:
    """Bad input stays a ValueError or TypeError, as scikit-learn's users expect."""
    return next((kind for kind in (ValueError, TypeError) if isinstance(error, kind)), RuntimeError)


def _pair(item: Any) -> tuple[str | None, Any]:
    if isinstance(item, tuple | list):
        if len(item) != 2 or not isinstance(item[0], str):
            raise TypeError(f"candidates must hold candidates or pairs (name, candidate), not {item!r}")
        return item[0], item[1]
    return None, item


def _type_name(candidate: Any) -> str:
    gate = getattr(candidate, "gate", None)
    named = candidate if gate is None else gate
    return str(getattr(named, "__name__", type(named).__name__)).lower()


def _check(candidate: Any, who: str) -> None:
    if isinstance(candidate, type):
        raise TypeError(f"{who} must be an instance, as {candidate.__name__}(...), not the class itself")
    if hasattr(candidate, "n_experts") and hasattr(candidate, "features"):
        raise TypeError(f"{who} is a gate without experts; use GateRegressor(experts, {candidate!r})")
    if not (callable(getattr(candidate, "predict", None)) or callable(candidate)):
        raise TypeError(f"{who} must have predict(X) or be a callable X -> (n,), not {candidate!r}")
