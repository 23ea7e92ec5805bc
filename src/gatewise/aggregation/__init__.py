"""Learning a router: AFTER, discretized aggregation, particles, projections, least squares."""

from gatewise.aggregation.blocks import BlockCounts, Blocks
from gatewise.aggregation.cross_entropy import cross_entropy_fit
from gatewise.aggregation.erm import least_squares, net_least_squares
from gatewise.aggregation.particles import Particles
from gatewise.aggregation.projection import L2Projection
from gatewise.aggregation.simplex_ls import convex_stack, simplex_least_squares
from gatewise.aggregation.weighting import after

__all__ = [
    "BlockCounts",
    "Blocks",
    "L2Projection",
    "Particles",
    "after",
    "convex_stack",
    "cross_entropy_fit",
    "least_squares",
    "net_least_squares",
    "simplex_least_squares",
]
