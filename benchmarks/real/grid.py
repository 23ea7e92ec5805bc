"""The settings of the router that may be chosen from; `benchmarks.real.choose` chooses.

Of entries that are equal within the error the last is chosen, so they end with the powers nearest to AFTER's own, 1.
"""

from collections.abc import Mapping

from gatewise.router.settings import MoESettings

# Without the test of gates, which fits all experts on halves once more and touches no prediction.
GRID: Mapping[str, MoESettings] = {
    f"rate {rate}": MoESettings(rate=rate, test=False) for rate in (0.05, 0.1, 0.2, 0.5)
}
