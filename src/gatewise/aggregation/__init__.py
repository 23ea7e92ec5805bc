"""Learning a router: AFTER, discretized aggregation, projections, least squares. Pure init / step / run."""

from gatewise.aggregation.blocks import BlockCounts, Blocks
from gatewise.aggregation.particles import Particles
from gatewise.aggregation.projection import L2Projection
from gatewise.aggregation.weighting import after

__all__ = ["BlockCounts", "Blocks", "L2Projection", "Particles", "after"]
