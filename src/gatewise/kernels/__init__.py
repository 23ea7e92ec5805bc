"""Compiled loops: arrays in, arrays out. They know nothing of gates, experts or estimators."""

from gatewise.kernels.gating import (
    add_linear_softmax,
    linear_scores,
    linear_softmax,
    softmax_rows,
    tree_sums,
    Trees,
)
from gatewise.kernels.top_k import top_k, top_k_rows

__all__ = [
    "Trees",
    "add_linear_softmax",
    "linear_scores",
    "linear_softmax",
    "softmax_rows",
    "top_k",
    "top_k_rows",
    "tree_sums",
]
