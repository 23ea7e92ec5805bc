"""The settings of `MoERegressor` beyond its constructor parameters."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from gatewise.arrays import as_count, as_positive, as_truth, check_readout, Readout
from gatewise.noise import as_noise

LEARNERS = ("forest", "boosted", "products")


@dataclass
class MoESettings:
    """The nested settings of `MoERegressor`; the defaults suit most tables.

    readout
        "aggregate": the mean over all candidates by their shares, which is the most accurate. "single": the one
        candidate nearest to it.
    n_orders
        Random orders of the rows that the aggregation is averaged over. Rows in time keep their order.
    spreads
        Standard deviations of the gates' coefficients, the path of penalties: 0.3 barely moves the weights of the
        global stack, 10 lets one expert take over within a standard deviation of an input, 100 draws a sharp border.
        A gate with C coefficients is tried on n rows with the spreads up to 4 n / C, with those above 10 on more than
        5,000 rows, and with the smallest one in any case.
    n_components
        If there are more gate inputs than this, they are replaced by this many principal components.
    fade
        The distance from the data, in units of a column's range, over which a gate returns to the convex stack: the
        standard deviation of a Gaussian that multiplies its features.
    correct
        Whether the list also has candidates with a correction: a ridge combination of the experts, the same for all
        rows, that is added to the gate's mixture.
    learners
        The shared parts in the list, learners on inputs and forecasts together: some of "forest", "boosted" and
        "products" (feature-weighted stacking: a ridge regression on products of inputs and forecasts).
    specialize
        The largest number of times that each routed expert is refitted with its gate weights as sample weights; the
        refits stop when the held-out error no longer falls.
    rate
        The tempering: the likelihood in the aggregation is taken to the power ``rate`` times `information`, a number
        up to 1 that falls where errors have heavy tails or depend on each other. AFTER itself has the power 1. None
        means 0.5 over experts that are given (``cv="prefit"``), whose errors on different rows are independent: that
        is as in exponential weights for squared error. It means 0.1 over fitted experts with nested forecasts: the
        held-out losses of rows that share fits carry less information, and a small power averages over candidates
        that are nearly equal. Ordinary out-of-fold forecasts depend on one another more: over fitted experts without
        nested forecasts it means 0.05, and over fitted classifiers, with the log loss, 0.3. All three were chosen on
        real data.
    test
        Whether the gain of gates is tested. The test fits experts and list once more, on halves of the rows; without
        it the headline never says that gating pays. Predictions do not depend on it.
    noise
        The error density of the aggregation, as `gatewise.noise.as_noise` takes it.
    """

    readout: Readout = "aggregate"
    n_orders: int = 10
    spreads: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 100.0)
    n_components: int = 20
    fade: float = 0.25
    correct: bool = True
    learners: tuple[str, ...] = LEARNERS
    specialize: int = 0
    rate: float | None = None
    test: bool = True
    noise: Any = "gaussian"

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - as scikit-learn asks
        """The settings by name, so that a search can reach them: ``settings__spreads``."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Change settings in place, as scikit-learn's searches do on a copy; none where one is refused."""
        for name in params:
            if name not in self.get_params():
                raise ValueError(f"settings has no {name!r}; it has {', '.join(self.get_params())}")
        vars(self).update(vars(replace(self, **params)))
        return self

    def __post_init__(self) -> None:
        check_readout(self.readout)
        as_count(self.n_orders, "n_orders")
        if not (isinstance(self.spreads, Sequence) and len(self.spreads)):
            raise ValueError(f"spreads must hold at least one number, not {self.spreads!r}")
        for spread in self.spreads:
            as_positive(spread, "spreads")
        as_count(self.n_components, "n_components")
        as_positive(self.fade, "fade")
        as_truth(self.correct, "correct")
        if self.rate is not None:
            as_positive(self.rate, "rate")
        if not set(self.learners) <= set(LEARNERS):
            raise ValueError(f"learners must be some of {', '.join(map(repr, LEARNERS))}, not {self.learners!r}")
        as_count(self.specialize, "specialize", low=0)
        as_truth(self.test, "test")
        self.density = as_noise(self.noise)


DEFAULT_SETTINGS = MoESettings()
