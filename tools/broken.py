"""The table of `tools.claims`: shipped functions, one break each or several, and the claim that must then fail."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Break:
    """A function by its dotted name, what is done to it in words and as a change, and the check that must fail."""

    function: str
    how: str
    change: Callable[[Any], Any]
    claim: str


def times(factor):
    """The function's result times a factor."""
    return lambda f: lambda *args, **kwargs: factor * f(*args, **kwargs)


def result(change):
    """Another result, made from the function's own."""
    return lambda f: lambda *args, **kwargs: change(f(*args, **kwargs))


def argument(place, change):
    """One argument changed, by its place."""
    return lambda f: lambda *args, **kwargs: f(*args[:place], change(args[place]), *args[place + 1 :], **kwargs)


def field(**changes):
    """Fields of a named tuple changed, each by a function of its value."""
    return result(lambda old: old._replace(**{name: change(getattr(old, name)) for name, change in changes.items()}))


def always(value):
    """The same result whatever comes in."""
    return lambda _: lambda *args, **kwargs: value  # noqa: ARG005


def equal_weights(f):
    """A path of weights (T + 1, S), or an object with one, in which all candidates stay equal."""

    def equal(F, y, sigma, noise="gaussian"):
        found = f(F, y, sigma, noise)
        share = np.full(found.path.shape, 1.0 / found.path.shape[1])
        return found._replace(path=share, weights=share[0], online=(share[:-1] * F).sum(axis=1))

    return equal


def flat_likelihood(f):
    """A net weighed by a likelihood to the power 1/36, about 0.03: one scale for all, six times as large."""

    def weigh(candidates, features, y, F, sigma, *args, **kwargs):
        return f(candidates, features, y, F, np.full(np.shape(sigma), 6 * np.median(sigma)), *args, **kwargs)

    return weigh


def flat_particles(f):
    """Particles weighed in the same way."""

    def run(particles, gate, X, y, F, noise, _, **kwargs):
        return f(particles, gate, X, y, F, noise, 6 * float(np.std(y - F.mean(axis=1))), **kwargs)

    return run


def dense(f):
    """A gate that forgets its K."""
    return lambda self, *args, **kwargs: f(replace(self, k=None), *args, **kwargs)


THEORY = "gatewise.theory"
BREAKS = (
    # section 2
    Break(
        "gatewise.mixture.nearest_center._cell_centers",
        "centres moved by 0.05",
        result(lambda c: c + 0.05),
        "density",
    ),
    Break(
        "gatewise.mixture.nearest_center.cells_per_side", "one cell less", result(lambda q: max(1, q - 1)), "density"
    ),
    Break(f"{THEORY}.approximation.global_error", "1.1 times", times(1.1), "one_constant"),
    Break(f"{THEORY}.approximation.topk_error", "half", times(0.5), "nearest_centers"),
    Break(
        "gatewise.gates.score.ScoreGate.route",
        "the next expert",
        result(lambda r: ((r[0] + 1) % 3, r[1])),
        "nearest_centers",
    ),
    Break("gatewise.mixture.predictor.MixtureOfExperts.predict", "1.001 times", times(1.001), "double_pole"),
    Break(f"{THEORY}.approximation.specialist_gap", "1.1 times", times(1.1), "two_specialists"),
    Break(f"{THEORY}.approximation.routing_wins", "always", always(True), "two_specialists"),
    Break(
        "gatewise.geometry.mixtures.best_mixtures",
        "1.02 times the loss",
        result(lambda found: [mixture._replace(loss=1.02 * mixture.loss) for mixture in found]),
        "two_specialists",
    ),
    # metric entropy
    Break(f"{THEORY}.entropy.constant_covering", "one ball more", result(lambda n: n + 1), "constants"),
    Break(f"{THEORY}.entropy.softmax_covering", "half", result(lambda n: n // 2), "softmax_cover"),
    Break(
        "gatewise.gates.score.ScoreGate.weights",
        "scores times 1.3",
        argument(2, lambda t: 1.3 * np.asarray(t)),
        "softmax_cover",
    ),
    Break(f"{THEORY}.entropy.softmax_dimension", "one less", result(lambda n: n - 1), "softmax_rank"),
    Break(f"{THEORY}.entropy.softmax_packing", "twice", times(2), "softmax_packing"),
    Break(f"{THEORY}.entropy.least_slope", "ten times", times(10.0), "softmax_packing"),
    Break(f"{THEORY}.entropy.topk_separation", "1.1 times", times(1.1), "topk_jumps"),
    Break("gatewise.gates.score.ScoreGate.weights", "no Top-K", dense, "topk_jumps"),
    Break("gatewise.nets.product.eta_net", "25 times the mesh", argument(1, lambda eta: 25 * eta), "topk_cover"),
    Break(f"{THEORY}.entropy.topk_log_covering", "a fifth", times(0.2), "topk_cover"),
    # aggregation
    Break(
        "gatewise.aggregation.weights.cumulate",
        "half the log density",
        argument(1, lambda d: 0.5 * d),
        "after_oracle",
    ),
    Break(
        "gatewise.aggregation.weights.after",
        "weights one row late",
        result(lambda w: np.roll(w, 1, axis=0)),
        "after_oracle",
    ),
    Break(f"{THEORY}.learning_cost.after_risk", "a tenth", times(0.1), "after_oracle"),
    Break("gatewise.losses.LogLoss.log_density", "the other sign", times(-1.0), "class_regret"),
    Break("gatewise.aggregation.weights.step", "no learning", lambda _: lambda state, _: state, "class_regret"),
    Break(
        "gatewise.aggregation.engine.aggregate",
        "the experts in another order",
        argument(3, lambda F: F[:, ::-1]),
        "gated_classes",
    ),
    Break("gatewise.aggregation.selection.weigh", "equal weights", equal_weights, "estimated_scales"),
    Break("gatewise.aggregation.selection.scales", "1.01 times", times(1.01), "scale_calibration"),
    Break(
        "gatewise.stats.root_mean_square",
        "by medians",
        lambda f: lambda values, weights=None: 1.4826 * np.median(np.abs(values), axis=0),  # noqa: ARG005
        "scale_calibration",
    ),
    Break("gatewise.stats.clip_scale", "twice", times(2.0), "scale_calibration"),
    Break("gatewise.aggregation.engine.calibrate", "1.01 times", times(1.01), "scale_calibration"),
    Break("gatewise.losses.Gaussian.log_density", "variance 1.02", argument(1, lambda z: z / 1.01), "regular_noise"),
    Break(
        "gatewise.losses.DoubleExponential.log_density",
        "half the rate",
        argument(1, lambda z: np.asarray(z) / 2),
        "regular_noise",
    ),
    Break("gatewise.losses.StudentT.log_density", "0.99 times", times(0.99), "regular_noise"),
    Break("gatewise.noise.kl_divergence", "twice", times(2.0), "regular_noise"),
    Break("gatewise.noise.kl_condition", "a third", times(0.3), "regular_noise"),
    Break("gatewise.experts.pool.Pool.total", "half", times(0.5), "moving_experts"),
    Break("gatewise.experts.pool.Pool.mix", "half", times(0.5), "moving_experts"),
    # oracle inequalities
    Break(
        "gatewise.aggregation.engine.aggregate",
        "likelihood to the power 0.03",
        flat_likelihood,
        "dense_oracle",
    ),
    Break(
        "gatewise.aggregation.engine.project_l2", "the first candidate", field(candidate=lambda _: 0), "dense_oracle"
    ),
    Break(f"{THEORY}.learning_cost.dense_cost", "a tenth", times(0.1), "dense_oracle"),
    Break(f"{THEORY}.learning_cost.sparse_cost", "a tenth", times(0.1), "sparse_oracle"),
    Break(
        "gatewise.aggregation.particles.particle_run.run_particles",
        "likelihood to the power 0.03",
        flat_particles,
        "sparse_oracle",
    ),
    Break(
        "gatewise.aggregation.pieces.aggregated_prediction",
        "half",
        times(0.5),
        "sparse_oracle",
    ),
    Break(
        "gatewise.aggregation.erm.least_squares",
        "a tenth of its error",
        field(mse=lambda v: 0.1 * v),
        "outside_class",
    ),
    Break(
        "gatewise.experts.joint_update.updated",
        "no update",
        lambda _: lambda pool, place, *_, **__: pool.models[place],
        "moving_experts_cost",
    ),
    Break(
        "gatewise.aggregation.router_run.LearnedRouter.predict",
        "1.1 times",
        times(1.1),
        "moving_experts_cost",
    ),
    # one gate
    Break(
        "gatewise.solvers.cross_entropy.cross_entropy",
        "0.9 times",
        result(lambda r: (0.9 * r[0], r[1])),
        "divergence",
    ),
    Break(
        "gatewise.aggregation.soft_labels.cross_entropy_fit",
        "theta times 1.5",
        field(theta=lambda t: 1.5 * t),
        "gate_estimation",
    ),
    Break(
        "gatewise.solvers.cross_entropy.minimise_cross_entropy",
        "objective too high by 0.01, gap 0",
        field(objective=lambda v: v + 0.01, gap=lambda _: 0.0),
        "convex_projection",
    ),
    Break(
        "gatewise.aggregation.projections.project_by_cross_entropy",
        "half of theta",
        result(lambda r: (0.5 * r[0], r[1])),
        "fixed_experts",
    ),
    Break(f"{THEORY}.learning_cost.fixed_experts_risk", "a tenth", times(0.1), "fixed_experts"),
    Break(
        "gatewise.aggregation.erm.net_least_squares",
        "another candidate",
        field(candidate=lambda s: s // 2),
        "empirical_risk",
    ),
    Break(
        "gatewise.aggregation.erm.least_squares", "theta plus 0.3", field(theta=lambda t: t + 0.3), "empirical_risk"
    ),
    Break(f"{THEORY}.learning_cost.erm_cost", "a tenth", times(0.1), "empirical_risk"),
    # section 4
    Break("gatewise.gates.phi.phi_regularity", "half", field(lipschitz=lambda v: 0.5 * v), "relative_derivative"),
    Break("gatewise.gates.phi.log_phi", "squared phi", times(2.0), "relative_derivative"),
    Break(f"{THEORY}.regionwise.topk_modulus", "0.4 times", times(0.4), "continuity"),
    Break(
        "gatewise.geometry.stability.continuity_modulus",
        "0.45 of its bound",
        field(bound=lambda v: 0.45 * v),
        "continuity",
    ),
    Break("gatewise.gates.linear.LinearGate.separation", "twice", times(2.0), "realised_regions"),
    Break("gatewise.geometry.stability.slope_separation", "twice", times(2.0), "realised_regions"),
    Break(f"{THEORY}.regionwise.feasible_separation", "ten times", times(10.0), "realised_regions"),
    Break(
        "gatewise.gates.score.ScoreGate.active", "the next expert", result(lambda a: (a + 1) % 3), "realised_regions"
    ),
    Break(f"{THEORY}.regionwise.top1_risk", "a third", times(0.3), "specialist_risk"),
    Break(
        "gatewise.aggregation.engine.project_l2",
        "the first candidate",
        field(candidate=lambda _: 0),
        "specialist_risk",
    ),
    Break(f"{THEORY}.regionwise.top1_barrier", "1.1 times", times(1.1), "top1_barrier"),
    Break("gatewise.gates.score.ScoreGate.weights", "no Top-K", dense, "top1_barrier"),
    Break(f"{THEORY}.regionwise.top1_risk_floor", "1.1 times", times(1.1), "top1_floor"),
    Break(
        "gatewise.geometry.assignment_loss.assignment_loss", "half", field(value=lambda v: 0.5 * v), "decomposition"
    ),
    Break("gatewise.geometry.regions.best_expert", "the next expert", result(lambda r: (r + 1) % 2), "decomposition"),
    Break("gatewise.geometry.regions.squared_losses", "half", times(0.5), "decomposition"),
    # worked examples
    Break(
        f"{THEORY}.examples.threshold_loss",
        "bounds at a twentieth",
        result(lambda r: (r[0], r[1] / 20)),
        "threshold_global",
    ),
    Break("gatewise.geometry.infimum.class_loss", "twice", field(value=lambda v: 2 * v), "threshold_global"),
    Break(f"{THEORY}.examples.threshold_interior_loss", "a fiftieth", times(0.02), "threshold_interior"),
    Break(f"{THEORY}.examples.disk_linear_floor", "twenty times", times(20.0), "disk"),
    Break(f"{THEORY}.examples.disk_quadratic_loss", "to the power 1.5", result(lambda v: v**1.5 / 8), "disk"),
    Break(
        "gatewise.gates.quadratic.QuadraticGate.features",
        "no squares",
        result(lambda Z: np.hstack([0 * Z[:, :3], Z[:, 3:]])),
        "disk",
    ),
    Break(f"{THEORY}.examples.oscillation_risk", "half", times(0.5), "oscillation"),
    Break(f"{THEORY}.examples.oscillation_curvature", "half", times(0.5), "oscillation"),
    # kernel gates
    Break(f"{THEORY}.kernel_bounds.grid_tail_constant", "a twentieth", times(0.05), "grid_tail"),
    Break(
        "gatewise.gates.kernel.KernelGate.features",
        "squared kernels",
        result(lambda Z: Z**2 / (Z**2).sum(axis=1, keepdims=True)),
        "interior_loss",
    ),
    Break("gatewise.gates.kernel.KernelGate.centers", "moved by 0.03", result(lambda c: c + 0.03), "global_loss"),
    Break(f"{THEORY}.kernel_bounds.kernel_loss", "of the squared mesh", argument(0, lambda h: h**2), "global_loss"),
    Break("gatewise.geometry.layers.layer_shares", "twice", times(2.0), "global_loss"),
    Break(f"{THEORY}.kernel_bounds.kernel_interior_loss", "to the power 4", result(lambda v: v**4), "interior_loss"),
    Break(
        "gatewise.gates.kernel.KernelGate.weights",
        "halfway to equal",
        result(lambda w: 0.5 * w + 0.5 / w.shape[-1]),
        "resolution",
    ),
    # selection
    Break("gatewise.aggregation.selection.weigh", "equal weights", equal_weights, "selection_price"),
    Break(
        "gatewise.aggregation.selection.nearest", "the farthest", field(candidate=lambda s: -1 - s), "selection_price"
    ),
    Break(f"{THEORY}.learning_cost.selection_price", "a tenth", times(0.1), "selection_price"),
    Break("gatewise.estimators.gate_selector.GateSelector.predict", "1.1 times", times(1.1), "selection_price"),
    Break(
        "gatewise.mixture.gate_fit.free_search",
        "theta rolled",
        field(theta=lambda t: np.roll(t, 1, axis=-1)),
        "selection_by_region",
    ),
    Break(
        "gatewise.geometry.regions.TrueRegions.__call__",
        "the other expert",
        result(lambda r: 1 - r),
        "selection_by_region",
    ),
    # soft regions
    Break(f"{THEORY}.regionwise.soft_assignment_error", "a fiftieth", times(0.02), "hard_regions"),
    Break(f"{THEORY}.regionwise.soft_mixture_error", "a thousandth", times(0.001), "mixed_regions"),
    Break(
        "gatewise.geometry.assignment_loss.region_targets",
        "regions rolled",
        result(lambda w: np.roll(w, 1, axis=1)),
        "mixed_regions",
    ),
    Break(
        "gatewise.geometry.assignment_loss.assignment_loss", "half", field(value=lambda v: 0.5 * v), "soft_predictors"
    ),
    # shared experts
    Break(
        "gatewise.shared.least_squares.joint_fit",
        "0.9 of the shared part",
        field(shared=lambda b: 0.9 * b),
        "fourier_slopes",
    ),
    Break(f"{THEORY}.shared_rates.fourier_branch_risk", "half", times(0.5), "fourier_slopes"),
    Break(f"{THEORY}.shared_rates.shared_risk", "half", times(0.5), "rate_profiles"),
    Break(f"{THEORY}.shared_rates.routed_risk_floor", "twice", times(2.0), "rate_profiles"),
    Break(f"{THEORY}.shared_rates.shared_wins", "always", always(True), "rate_profiles"),
    Break(f"{THEORY}.shared_rates.sieve_rate", "half", times(0.5), "joint_sieve"),
    Break(
        "gatewise.shared.sieves.choose_sizes",
        "the smallest",
        lambda _: lambda _, s, r, J: (s[0], *[r[0]] * J),
        "joint_sieve",
    ),
    Break(
        "gatewise.estimators.shared_routed_regressor.SharedRoutedRegressor.components",
        "no shared part",
        result(lambda c: c * [0, 1]),
        "joint_sieve",
    ),
    Break("gatewise.shared.bases.FourierBasis.transform", "half", times(0.5), "series_floor"),
    Break(f"{THEORY}.shared_rates.fourier_tail", "twice", times(2.0), "series_floor"),
    # builders and bound functions
    Break(f"{THEORY}.learning_cost.assignment_bound", "half", times(0.5), "decomposition"),
    Break(f"{THEORY}.learning_cost.regional_selection_risk", "a fifth", times(0.2), "selection_by_region"),
    Break(f"{THEORY}.examples.threshold_gate_loss", "1.1 times", times(1.1), "threshold_interior"),
    Break(f"{THEORY}.examples.disk_linear_gate_loss", "1.1 times", times(1.1), "disk"),
    Break(f"{THEORY}.examples.oscillation_gate_loss", "1.1 times", times(1.1), "oscillation"),
    Break(
        "gatewise.geometry.constructions.separated_top1_gate",
        "intercepts with the other sign",
        field(theta=lambda t: t * np.append(np.ones(t.shape[1] - 1), -1.0)),
        "realised_regions",
    ),
    Break(
        "gatewise.geometry.constructions.soft_region_gate",
        "half of theta",
        field(theta=lambda t: 0.5 * t),
        "hard_regions",
    ),
    Break(
        "gatewise.geometry.constructions.soft_mixture_gate",
        "pairs in the other order",
        field(specialists=lambda s: s[:, ::-1]),
        "mixed_regions",
    ),
    Break(
        "gatewise.geometry.constructions.local_affine_softmax",
        "twice the width",
        argument(3, lambda width: 2 * width),
        "oscillation",
    ),
    Break(
        "gatewise.geometry.constructions.oracle_kernel_gate",
        "weights of the other region",
        field(theta=lambda t: t[:, ::-1]),
        "global_loss",
    ),
)
