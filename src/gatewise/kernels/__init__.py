"""Compiled loops: arrays in, arrays out. They know nothing of gates, experts or estimators."""

from gatewise.kernels.gating import (
    add_few_softmax,
    add_linear_softmax,
    linear_scores,
    linear_softmax,
    softmax_rows,
    tree_sums,
    Trees,
)
from gatewise.kernels.top_k import top_k, top_k_rows
from gatewise.kernels.tree_growth import Nodes, TreeShape
from gatewise.kernels.trees import (
    boost,
    Boosted,
    Boosting,
    BoostingProblem,
    BoostingSample,
    forests,
    grow_tree,
    join_trees,
)

__all__ = [
    "Boosted",
    "Boosting",
    "BoostingProblem",
    "BoostingSample",
    "Nodes",
    "TreeShape",
    "Trees",
    "add_few_softmax",
    "add_linear_softmax",
    "boost",
    "forests",
    "grow_tree",
    "join_trees",
    "linear_scores",
    "linear_softmax",
    "softmax_rows",
    "top_k",
    "top_k_rows",
    "tree_sums",
]
