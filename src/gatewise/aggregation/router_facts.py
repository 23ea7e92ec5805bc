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

    The means are by sample weight. ``calibration`` (2 + M,) are the expected calibration errors of the router, of
    equal weights and of the experts; NaN where one is not known.
    """

    names: list[str]
    aggregate: float
    experts: Floats
    mean: float
    n: int
    n_candidates: int
    effective: float
    calibration: Floats

    def text(self) -> str:
        """The facts in lines."""
        best = int(self.experts.argmin())
        change = self.aggregate - self.experts[best]
        side = "below" if change <= 0 else "above"
        return "\n".join(
            [
                f"log loss, and calibration error one step ahead (mean over {self.n:,} rows):",
                *_table(self, self.calibration),
                f"{abs(change):.3g} nats {side} the best single expert, {self.names[best]}",
                f"{self.effective:,.1f} of {self.n_candidates:,} candidates are left",
            ]
        )


def _table(facts: RouterFacts | ClassRouterFacts, beside: Floats | None = None) -> list[str]:
    """Lines with the error or loss of the router, of equal weights and of every expert, and what stands beside it."""
    values = np.array([facts.aggregate, facts.mean, *facts.experts])
    return value_lines(facts.names, values[:, None] if beside is None else np.column_stack([values, beside]))


def value_lines(names: Sequence[str], values: Floats) -> list[str]:
    """A line of values (2 + M, k) for the router, for equal weights and for every expert; a dash for NaN.

    >>> value_lines(["a"], np.array([[0.1, np.nan], [0.25, 3.0], [1.0, 4.0]]))
    ['  router         0.1   -', '  equal weights  0.25  3', '  a              1     4']
    """
    shown = [["-" if np.isnan(value) else f"{value:.4g}" for value in column] for column in values.T]
    rows = [("router", "equal weights", *names), *shown]
    widths = [max(map(len, column)) for column in rows]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in zip(*rows, strict=True)
    ]
    return [f"  {line}".rstrip() for line in lines]


def class_router_facts(
    setting: AggregationSetting,
    fits: Sequence[OrderFit],
    weights: Sequence[Floats],
    calibration: Floats,
) -> ClassRouterFacts:
    """The facts of the fits of all orders, whose forecasts are the probabilities of what was observed.

    ``weights`` (n3,) are the sample weights of each order's aggregation rows, ``calibration`` (2 + M,) the
    calibration errors of `ClassRouterFacts`.
    """
    F, online = np.concatenate([fit.F for fit in fits]), np.concatenate([fit.online for fit in fits])
    weight, mean = np.concatenate(weights), F.mean(axis=1)
    return ClassRouterFacts(
        names=setting.pools.experts.names,
        aggregate=-float(np.average(np.log(online), weights=weight)),
        experts=-np.average(np.log(F), axis=0, weights=weight),
        mean=-float(np.average(np.log(mean), weights=weight)),
        n=len(online),
        n_candidates=_size(setting),
        effective=float(np.mean([fit.effective for fit in fits])),
        calibration=calibration,
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
