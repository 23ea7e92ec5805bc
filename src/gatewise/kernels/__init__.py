"""Compiled loops: arrays in, arrays out. They know nothing of gates, experts or estimators."""

from gatewise.kernels.gating import (
    add_linear_softmax,
    linear_scores,
    linear_softmax,
    softmax_rows,
)
from gatewise.kernels.top_k import top_k, top_k_rows

__all__ = ["add_linear_softmax", "linear_scores", "linear_softmax", "softmax_rows", "top_k", "top_k_rows"]
