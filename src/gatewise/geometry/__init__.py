"""Where each expert wins, how well a gate follows it, how stable that is, and whether it is real."""

from gatewise.geometry.activation import Activation, activation, RegionBarrier
from gatewise.geometry.alignment import Alignment, alignment
from gatewise.geometry.assignment_loss import assignment_loss, box_quadrature, Estimate
from gatewise.geometry.boundary import boundary_distance, Domain, shrunken, unit_cube
from gatewise.geometry.concentration import anti_concentration, AntiConcentration
from gatewise.geometry.constructions import (
    BuiltGate,
    local_affine_softmax,
    oracle_kernel_gate,
    oracle_kernel_weights,
    separated_top1_gate,
    soft_mixture_gate,
    soft_region_gate,
)
from gatewise.geometry.held_out_losses import out_of_fold_losses
from gatewise.geometry.infimum import class_loss, ClassLoss
from gatewise.geometry.layers import boundary_regularity, BoundaryRegularity, layer_shares
from gatewise.geometry.mixtures import best_mixtures, Mixture
from gatewise.geometry.regions import best_expert, EstimatedRegions, RegionMap, squared_losses, TrueRegions
from gatewise.geometry.smoothing import KernelMean, NeighborMean
from gatewise.geometry.specialization import ExpertReport, runners_up, Specialization, specialization
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
from gatewise.stats import adjusted_p_values, Interval, mean_interval

__all__ = [
    "Activation",
    "Alignment",
    "AntiConcentration",
    "BoundaryRegularity",
    "BuiltGate",
    "ChangeCurve",
    "ClassLoss",
    "Domain",
    "Estimate",
    "EstimatedRegions",
    "ExpertReport",
    "Interval",
    "KernelMean",
    "Mixture",
    "Modulus",
    "NeighborMean",
    "RegionBarrier",
    "RegionMap",
    "Specialization",
    "TrueRegions",
    "activation",
    "active_set_changes",
    "active_sets_differ",
    "adjusted_p_values",
    "alignment",
    "anti_concentration",
    "assignment_loss",
    "best_expert",
    "best_mixtures",
    "border_margin",
    "boundary_distance",
    "boundary_regularity",
    "box_quadrature",
    "class_loss",
    "continuity_modulus",
    "layer_shares",
    "local_affine_softmax",
    "mean_interval",
    "oracle_kernel_gate",
    "oracle_kernel_weights",
    "out_of_fold_losses",
    "runners_up",
    "separated_top1_gate",
    "shrunken",
    "slope_separation",
    "soft_mixture_gate",
    "soft_region_gate",
    "specialization",
    "squared_losses",
    "top_k_margin",
    "unit_cube",
]
