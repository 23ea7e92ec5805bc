"""Where each expert wins, how well a gate follows it, how stable that is, and whether it is real."""

from gatewise.geometry.boundary import boundary_distance, Domain, shrunken, unit_cube
from gatewise.geometry.concentration import anti_concentration, AntiConcentration
from gatewise.geometry.infimum import class_loss, ClassLoss
from gatewise.geometry.intervals import adjusted_p_values, Interval, mean_interval
from gatewise.geometry.layers import boundary_regularity, BoundaryRegularity, layer_shares
from gatewise.geometry.losses import assignment_loss, box_quadrature, Estimate
from gatewise.geometry.out_of_fold import out_of_fold_losses
from gatewise.geometry.regions import best_expert, EstimatedRegions, RegionMap, squared_losses, TrueRegions
from gatewise.geometry.smoothing import KernelMean, NeighborMean
from gatewise.geometry.stability import (
    active_set_changes,
    active_sets_differ,
    border_margin,
    ChangeCurve,
    continuity_modulus,
    Modulus,
    slope_separation,
    top_k_margin,
)

__all__ = [
    "AntiConcentration",
    "BoundaryRegularity",
    "ChangeCurve",
    "ClassLoss",
    "Domain",
    "Estimate",
    "EstimatedRegions",
    "Interval",
    "KernelMean",
    "Modulus",
    "NeighborMean",
    "RegionMap",
    "TrueRegions",
    "active_set_changes",
    "active_sets_differ",
    "adjusted_p_values",
    "anti_concentration",
    "assignment_loss",
    "best_expert",
    "border_margin",
    "boundary_distance",
    "boundary_regularity",
    "box_quadrature",
    "class_loss",
    "continuity_modulus",
    "layer_shares",
    "mean_interval",
    "out_of_fold_losses",
    "shrunken",
    "slope_separation",
    "squared_losses",
    "top_k_margin",
    "unit_cube",
]
