"""The experts of a gate: those that it weighs, and shared ones that are always on."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from gatewise.arrays import Floats
from gatewise.experts.pool import Pool


@dataclass(frozen=True, eq=False)
class GatedExperts:
    """M experts that a gate weighs, and shared experts whose predictions are always added."""

    experts: Pool
    shared: Pool

    @classmethod
    def of(cls, experts: Iterable[Any], shared: Iterable[Any], n_experts: int) -> Self:
        """Both pools from models or (name, model) pairs; ``n_experts`` is the number of experts of the gate."""
        pools = cls(Pool.of(experts), Pool.of(shared, "shared", least=0, kind="shared expert"))
        if len(pools.experts) != n_experts:
            raise ValueError(
                f"experts must hold one expert for each of the gate's {n_experts}, not {len(pools.experts)}"
            )
        return pools

    def seeded(self, seed: int) -> Self:
        """The same experts, with the seed in copies of those that are not fitted and have none of their own."""
        return type(self)(self.experts.seeded(seed), self.shared.seeded(seed))

    @property
    def can_predict(self) -> bool:
        """Whether all experts can predict without being fitted first."""
        return self.shared.can_predict and self.experts.can_predict

    def check_fitted(self) -> None:
        """Raise an error that names the first expert that still has to be fitted."""
        for pool in (self.experts, self.shared):
            for name, _ in pool.unfitted():
                raise ValueError(
                    f"the {pool.kind} {name!r} must be fitted, on rows other than the gate's; a fitted one loses its "
                    "fit when scikit-learn clones it: wrap it in sklearn.frozen.FrozenEstimator"
                )

    def predictions(self, X: Any) -> tuple[Floats, Floats]:
        """The sum of the shared experts, (n,), and the predictions of the experts that the gate weighs, (n, M)."""
        return self.shared.total(X), self.experts.predict(X)

    def joined(self) -> Pool:
        """All of them as one pool, the shared ones first."""
        return Pool([*self.shared.experts, *self.experts.experts])

    def with_models(self, models: list[Any]) -> Self:
        """The same names with other models, in the order of `joined`."""
        n_shared = len(self.shared)
        return type(self)(self.experts.with_models(models[n_shared:]), self.shared.with_models(models[:n_shared]))
