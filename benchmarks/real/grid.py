"""The settings of the router that may be chosen from; `benchmarks.real.choose` chooses."""

from collections.abc import Mapping

from gatewise.router.settings import MoESettings

GRID: Mapping[str, MoESettings] = {
    "shipped": MoESettings(),
    "power 0.1": MoESettings(rate=0.1),
    "power 0.5": MoESettings(rate=0.5),
}
