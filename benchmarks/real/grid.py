"""The settings of the router that may be chosen from; `benchmarks.real.choose` chooses."""

from collections.abc import Mapping

from gatewise.router.settings import MoESettings
from gatewise.router.training import FITTED_RATE

# Without the test of gates, which fits all experts on halves once more and touches no prediction.
GRID: Mapping[str, MoESettings] = {
    f"rate {rate}": MoESettings(rate=rate, test=False) for rate in (FITTED_RATE, 0.05, 0.2)
}
