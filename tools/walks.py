"""How far a call walks through the package: modules visited, changes of module, and which room calls which.

``python -m tools.walks`` traces the call events of the package's own frames, in one process, while `MoERegressor`
fits and predicts `load_diabetes` with three experts and default settings. Calls between rooms must form no cycle.
"""

import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numba

import gatewise as gw

PACKAGE = Path(gw.__file__).parent


class Walk(NamedTuple):
    """Modules in the order of their calls, and how often a room called another."""

    modules: list[str]
    calls: Counter[tuple[str, str]]

    @property
    def changes(self) -> int:
        """How often a call event belongs to another module than the one before it."""
        return sum(a != b for a, b in zip(self.modules, self.modules[1:], strict=False))


def trace(work: Callable[[], Any]) -> Walk:
    """Run ``work`` and record every call of a function of the package."""
    walk = Walk([], Counter())

    def record(frame: FrameType, event: str, _argument: Any) -> None:
        module = _module(frame)
        if event != "call" or module is None:
            return
        walk.modules.append(module)
        caller = _caller(frame)
        if caller is not None and _room(caller) != _room(module):
            walk.calls[_room(caller), _room(module)] += 1

    sys.setprofile(record)
    try:
        work()
    finally:
        sys.setprofile(None)
    return walk


def cycle(walk: Walk) -> list[str] | None:
    """The rooms of a cycle of calls; None when there is none."""
    graph: dict[str, set[str]] = {}
    for caller, called in walk.calls:
        graph.setdefault(caller, set()).add(called)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


def _module(frame: FrameType) -> str | None:
    return _package_file(frame.f_code.co_filename)


@cache
def _package_file(name: str) -> str | None:
    path = Path(name)
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else None


def _room(module: str) -> str:
    return module.split("/", maxsplit=1)[0].removesuffix(".py")


def _caller(frame: FrameType) -> str | None:
    """The module of the nearest frame of the package that led to this one."""
    above = frame.f_back
    while above is not None:
        module = _module(above)
        if module is not None:
            return module
        above = above.f_back
    return None


def example() -> tuple[Any, Any, Any]:
    """The model and the rows that are traced."""
    from sklearn.datasets import load_diabetes  # noqa: PLC0415
    from sklearn.linear_model import RidgeCV  # noqa: PLC0415
    from sklearn.neighbors import KNeighborsRegressor  # noqa: PLC0415
    from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    tree = DecisionTreeRegressor(max_depth=4, random_state=0)
    experts = [("ridge", RidgeCV()), ("knn", KNeighborsRegressor(20)), ("tree", tree)]
    return gw.MoERegressor(experts, random_state=0), X, y


def main() -> None:
    """Print both walks."""
    numba.set_num_threads(1)  # calls in other threads would not be seen
    model, X, y = example()
    model.fit(X, y).predict(X)  # compiled code is loaded before anything is counted
    for name, work in (("fit", lambda: model.fit(X, y)), ("predict", lambda: model.predict(X))):
        walk = trace(work)
        rooms = " ".join(dict.fromkeys(_room(module) for module in walk.modules))
        print(f"{name}: {len(set(walk.modules))} modules, {walk.changes} changes of module; rooms: {rooms}")
        print("  cycle of calls: " + (" -> ".join(found) if (found := cycle(walk)) else "none"))
        if "-v" in sys.argv:
            for pair, count in walk.calls.most_common():
                print(f"  {pair[0]} -> {pair[1]}: {count}")
            for module, count in Counter(walk.modules).most_common():
                print(f"    {module}: {count}")


if __name__ == "__main__":
    main()
