"""The benchmark on real data: data sets, five experts, rivals, runs and their summary."""

from gatewise.experiments.real.datasets import DataSet
from gatewise.experiments.real.suites import DEVELOPMENT, NAMED, select, SUITES

__all__ = ["DEVELOPMENT", "NAMED", "SUITES", "DataSet", "select"]
