"""The benchmark on real data: data sets, five experts, rivals, runs and their summary."""

from benchmarks.real.datasets import DataSet
from benchmarks.real.suites import DEVELOPMENT, NAMED, select, SUITES

__all__ = ["DEVELOPMENT", "NAMED", "SUITES", "DataSet", "select"]
