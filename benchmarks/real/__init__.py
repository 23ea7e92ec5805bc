"""The benchmark on real data: data sets, pools of experts, rivals, runs and their summary."""

from benchmarks.real.datasets import DataSet
from benchmarks.real.suites import DATA_SETS, HALVES, select, SUITES

__all__ = ["DATA_SETS", "HALVES", "SUITES", "DataSet", "select"]
