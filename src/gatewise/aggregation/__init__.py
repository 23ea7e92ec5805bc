"""Learning a router: AFTER, discretized aggregation, particles, projections, least squares."""

from gatewise.aggregation.blocks import BlockCounts, Blocks
from gatewise.aggregation.erm import least_squares, net_least_squares
from gatewise.aggregation.l2_projection import L2Projection
from gatewise.aggregation.particles.particle_run import Particles
from gatewise.aggregation.soft_labels import cross_entropy_fit
from gatewise.aggregation.weights import after
from gatewise.experts.joint_update import Updates
from gatewise.solvers.simplex_least_squares import convex_stack, simplex_least_squares

__all__ = [
    "BlockCounts",
    "Blocks",
    "L2Projection",
    "Particles",
    "Updates",
    "after",
    "convex_stack",
    "cross_entropy_fit",
    "least_squares",
    "net_least_squares",
    "simplex_least_squares",
]
