"""The data sets of the benchmark, by topic; each names its source, and what is left out of it, with a reason."""

from benchmarks.real.catalogue.economy import ECONOMY
from benchmarks.real.catalogue.nature import NATURE
from benchmarks.real.catalogue.outside import OUTSIDE
from benchmarks.real.catalogue.people import PEOPLE

__all__ = ["ECONOMY", "NATURE", "OUTSIDE", "PEOPLE"]
