"""Names for experts: given by the user, or made from the type of the expert."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, TypeAlias

NamedExperts: TypeAlias = list[tuple[str, Any]]


def named_experts(experts: Iterable[Any], argument: str = "experts", least: int = 1) -> NamedExperts:
    """Pairs (name, expert) from experts, from such pairs, or from both kinds mixed.

    An expert without a name is named after its type in small letters, or after the type of its gate where it has one;
    where that name is already in use, a number is added. ``argument`` is what an error calls the list, and ``least``
    is the smallest number of experts that it may hold.

    >>> from sklearn.linear_model import Ridge
    >>> [name for name, _ in named_experts([Ridge(), Ridge(10.0), ("mean", lambda X: 0.0 * X[:, 0])])]
    ['ridge-1', 'ridge-2', 'mean']
    """
    if isinstance(experts, str) or not isinstance(experts, Iterable):
        raise TypeError(f"{argument} must be a list of models or of (name, model) pairs, not {experts!r}")
    items = [_pair(item, f"{argument}[{place}]") for place, item in enumerate(experts)]
    if len(items) < least:
        wanted = "one model or (name, model) pair" if least == 1 else f"{least} models or (name, model) pairs"
        raise ValueError(f"{argument} must hold at least {wanted}, not {len(items) or 'none'}")
    given = Counter(name for name, _ in items if name is not None)
    for name, uses in given.items():
        if uses > 1:
            raise ValueError(f"{argument} must have different names, but {name!r} occurs more than once")
    unnamed = Counter(_type_name(expert) for name, expert in items if name is None)
    free = {kind: _free_names(kind, uses, given) for kind, uses in unnamed.items()}
    return [(next(free[_type_name(expert)]) if name is None else name, expert) for name, expert in items]


def _free_names(kind: str, uses: int, given: Counter[str]) -> Iterator[str]:
    """Names that are not among those given: ``kind`` if one is enough and it is free, else kind-1, kind-2, ..."""
    if uses == 1 and kind not in given:
        return iter([kind])
    return (name for name in (f"{kind}-{number}" for number in count(1)) if name not in given)


def _pair(item: Any, place: str) -> tuple[str | None, Any]:
    """(name or None, expert) of one entry, or an error that names its place."""
    if not isinstance(item, tuple | list):
        _check(item, place)
        return None, item
    if len(item) != 2:
        raise TypeError(f"{place} must be a model or a pair (name, model), not {item!r}")
    name, expert = item
    if not isinstance(name, str) or not name or "__" in name:
        raise ValueError(f"{place} must be named by text without a double underscore, not {name!r}")
    _check(expert, f"{place} ({name!r})")
    return name, expert


def _type_name(expert: Any) -> str:
    gate = getattr(expert, "gate", None)
    named = expert if gate is None else gate
    name = str(getattr(named, "__name__", type(named).__name__)).lower()
    return re.sub("_{2,}", "_", name)


def _check(expert: Any, who: str) -> None:
    if isinstance(expert, type):
        raise TypeError(f"{who} must be an instance, as {expert.__name__}(...), not the class itself")
    if callable(getattr(expert, "predict", None)) or callable(expert):
        return
    if hasattr(expert, "n_experts") and hasattr(expert, "weights"):
        raise TypeError(f"{who} is a gate without experts; use GateRegressor(experts, {expert!r})")
    raise TypeError(f"{who} must have predict(X) or be a callable X -> (n,), not {expert!r}")
