"""Discretized aggregation (`alg:general`) as pure functions of arrays."""

from gatewise.aggregation.candidates import Candidates, ListCandidates, ProductCandidates
from gatewise.aggregation.engine import (
    aggregate,
    aggregated_gate,
    Aggregation,
    calibrate,
    effective_number,
    project_l2,
    Projection,
    weight_path,
)

__all__ = [
    "Aggregation",
    "Candidates",
    "ListCandidates",
    "ProductCandidates",
    "Projection",
    "aggregate",
    "aggregated_gate",
    "calibrate",
    "effective_number",
    "project_l2",
    "weight_path",
]
