"""Compiled loops: arrays in, arrays out. They know nothing of gates, experts or estimators."""

from gatewise.kernels.gating import (
    add_linear_softmax,
    linear_scores,
    linear_softmax,
    softmax_rows,
)
from gatewise.kernels.top_k import top_k, top_k_rows
from gatewise.kernels.trees import pack_trees, tree_sums, Trees

__all__ = [
    "Trees",
    "add_linear_softmax",
    "linear_scores",
    "linear_softmax",
    "pack_trees",
    "softmax_rows",
    "top_k",
    "top_k_rows",
    "tree_sums",
]
