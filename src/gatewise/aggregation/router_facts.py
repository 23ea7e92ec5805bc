"""What a learned router has to say for itself: errors one step ahead, the use of each expert, the candidates left."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gatewise.aggregation.ordered import AggregationSetting, OrderFit
from gatewise.arrays import Floats
from gatewise.stats import root_mean_square


@dataclass(frozen=True)
class RouterFacts:
    """Root mean square errors one step ahead of the aggregate, of every expert with the shared ones, and of the mean.

    ``n`` rows of the aggregation block, over all orders. ``effective`` of ``n_candidates`` are left at the end.
    ``noise`` is the standard deviation of the noise, ``thinning`` the bound of the error of states left out.
    """

    names: list[str]
    aggregate: float
    experts: Floats
    mean: float
    n: int
    n_candidates: int
    effective: float
    noise: float
    thinning: float

    def text(self) -> str:
        """The facts in lines."""
        best = int(self.experts.argmin())
        lines = [f"errors one step ahead (root mean square over {self.n:,} rows):", *_table(self)]
        change = 1.0 - (self.aggregate / self.experts[best]) ** 2 if self.experts[best] > 0 else 0.0
        lines.append(f"mean squared error {_percent(change)} the best single expert's, {self.names[best]}")
        lines.append(
            f"{self.effective:,.1f} of {self.n_candidates:,} candidates are left; noise scale {self.noise:.4g}"
        )
        if self.thinning > 0:
            lines.append(
                f"states of the experts were left out; the error of that is at most {self.thinning:.2g} (95 %)"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class ClassRouterFacts:
    """Mean log losses one step ahead of the aggregate, of every expert and of the mean; else as `RouterFacts`.

    The means are by sample weight.
    """

    names: list[str]
    aggregate: float
    experts: Floats
    mean: float
    n: int
    n_candidates: int
    effective: float

    def text(self) -> str:
        """The facts in lines."""
        best = int(self.experts.argmin())
        change = self.aggregate - self.experts[best]
        side = "below" if change <= 0 else "above"
        return "\n".join(
            [
                f"log loss one step ahead (mean over {self.n:,} rows):",
                *_table(self),
                f"{abs(change):.3g} nats {side} the best single expert, {self.names[best]}",
                f"{self.effective:,.1f} of {self.n_candidates:,} candidates are left",
            ]
        )


def _table(facts: RouterFacts | ClassRouterFacts) -> list[str]:
    """Lines with the error or loss of the router, of equal weights and of every expert."""
    width = max(map(len, (*facts.names, "equal weights", "router")))
    rows = [("router", facts.aggregate), ("equal weights", facts.mean), *zip(facts.names, facts.experts, strict=True)]
    return [f"  {name:<{width}}  {value:.4g}" for name, value in rows]


def class_router_facts(
    setting: AggregationSetting, fits: Sequence[OrderFit], weights: Sequence[Floats]
) -> ClassRouterFacts:
    """The facts of the fits of all orders, whose forecasts are the probabilities of what was observed.

    ``weights`` (n3,) are the sample weights of each order's aggregation rows.
    """
    F, online = np.concatenate([fit.F for fit in fits]), np.concatenate([fit.online for fit in fits])
    weight = np.concatenate(weights)
    return ClassRouterFacts(
        names=setting.pools.experts.names,
        aggregate=-float(np.average(np.log(online), weights=weight)),
        experts=-np.average(np.log(F), axis=0, weights=weight),
        mean=-float(np.average(np.log(F.mean(axis=1)), weights=weight)),
        n=len(online),
        n_candidates=_size(setting),
        effective=float(np.mean([fit.effective for fit in fits])),
    )


def router_facts(
    setting: AggregationSetting, fits: Sequence[OrderFit], responses: Sequence[Floats], noise: float
) -> RouterFacts:
    """The facts of the fits of all orders; ``responses`` (n3,) are those of each order's aggregation rows."""
    n_shared = len(setting.pools.shared)
    y = np.concatenate(responses)
    F = np.concatenate([fit.F for fit in fits])
    forecasts = F[:, :n_shared].sum(axis=1)[:, None] + F[:, n_shared:]
    online = np.concatenate([fit.online for fit in fits])
    return RouterFacts(
        names=setting.pools.experts.names,
        aggregate=float(root_mean_square(y - online)),
        experts=root_mean_square(y[:, None] - forecasts),
        mean=float(root_mean_square(y - forecasts.mean(axis=1))),
        n=len(y),
        n_candidates=_size(setting),
        effective=float(np.mean([fit.effective for fit in fits])),
        noise=noise,
        thinning=max(fit.thinning.bound for fit in fits),
    )


def _size(setting: AggregationSetting) -> int:
    return setting.net.size if hasattr(setting.net, "size") else setting.net.n


def _percent(change: float) -> str:
    return f"{100 * abs(change):.0f} % {'below' if change >= 0 else 'above'}"
