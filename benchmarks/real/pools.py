"""Two pools of experts: the one that comes with the package, and one of stronger learners."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from benchmarks.real.strong_pool import core_strong_experts, make_strong_experts
from gatewise.app.models.default_pool import core_experts, make_experts

Experts = list[tuple[str, Any]]


@dataclass(frozen=True)
class Pool:
    """``make(X)`` are names and unfitted experts for a data frame; ``core()`` the same for a matrix of numbers.

    ``packages`` are the distributions whose versions decide what the experts forecast; count up ``revision`` when
    experts change in a way that their parameters do not say.
    """

    name: str
    make: Callable[[Any], Experts]
    core: Callable[[], Experts]
    packages: tuple[str, ...] = ("scikit-learn",)
    revision: int = 1

    @property
    def versions(self) -> tuple[str, ...]:
        """Of its packages, as installed, and its revision from the second one on."""
        installed = tuple(f"{name} {version(name)}" for name in self.packages)
        return installed if self.revision == 1 else (*installed, f"revision {self.revision}")


POOLS: dict[str, Pool] = {
    one.name: one
    for one in (
        Pool("default", make_experts, core_experts),
        Pool(
            "strong",
            make_strong_experts,
            core_strong_experts,
            ("scikit-learn", "lightgbm", "xgboost", "catboost"),
        ),
    )
}


def find_pool(name: str) -> Pool:
    """The pool of that name.

    >>> find_pool("default").name
    'default'
    """
    if name not in POOLS:
        raise ValueError(f"pool must be one of {', '.join(POOLS)}, not {name!r}")
    return POOLS[name]
