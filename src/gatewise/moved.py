"""Modules of 0.1.0 that have moved: importing one by its old path is an error that names the new one."""

from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGES = {
    "checks": "gatewise.arrays",
    "experiments": "gatewise.paper, or benchmarks in the repository",
    "report": "gatewise.app",
    "routing": "gatewise.router, gatewise.gates and gatewise.solvers",
    "selection": "gatewise.aggregation.selection",
    "workbench": "gatewise.app",
}
MODULES = {
    "aggregation.candidates": "gatewise.aggregation.gate_candidates",
    "aggregation.cross_entropy": "gatewise.solvers.cross_entropy",
    "aggregation.domains": "gatewise.aggregation.particles.domains",
    "aggregation.forms": "gatewise.aggregation.particles.forms",
    "aggregation.interior_point": "gatewise.solvers.simplex_least_squares",
    "aggregation.likelihood": "gatewise.aggregation.particles.likelihood",
    "aggregation.moves": "gatewise.aggregation.particles.moves",
    "aggregation.projection": "gatewise.aggregation.l2_projection",
    "aggregation.simplex_ls": "gatewise.solvers.simplex_least_squares",
    "aggregation.smc": "gatewise.aggregation.particles.smc",
    "aggregation.weighting": "gatewise.aggregation.weights",
    "checks": "gatewise.arrays",
    "estimators.candidates": "gatewise.experts.pool",
    "estimators.comparison": "gatewise.shared.comparison",
    "estimators.held_out": "gatewise.experts.pool",
    "estimators.learning": "gatewise.router.learning",
    "estimators.moe": "gatewise.estimators.moe_regressor",
    "estimators.moe_facts": "gatewise.router.facts",
    "estimators.moe_inputs": "gatewise.estimators.validation",
    "estimators.out_of_fold": "gatewise.router.fitted_router",
    "estimators.projections": "gatewise.aggregation.projections",
    "estimators.router": "gatewise.estimators.router_aggregator",
    "estimators.selector": "gatewise.estimators.gate_selector",
    "estimators.shared": "gatewise.estimators.shared_routed_regressor",
    "estimators.training": "gatewise.router.training",
    "gates.base": "gatewise.gates.gate",
    "geometry.inputs": "gatewise.geometry.checked_inputs",
    "geometry.intervals": "gatewise.stats",
    "geometry.losses": "gatewise.geometry.assignment_loss",
    "geometry.out_of_fold": "gatewise.geometry.held_out_losses",
    "geometry.simplex": "gatewise.solvers.simplex_least_squares",
    "kernels.aggregate": "gatewise.kernels.net.drivers",
    "kernels.density": "gatewise.kernels.net.density",
    "kernels.elementary": "gatewise.kernels.simd.elementary",
    "kernels.explicit": "gatewise.kernels.net.explicit",
    "kernels.exponential": "gatewise.kernels.simd.exponential",
    "kernels.factor_scores": "gatewise.kernels.net.factor_scores",
    "kernels.lanes": "gatewise.kernels.simd.lanes",
    "kernels.linear": "gatewise.kernels.linear_residuals",
    "kernels.mean_gate": "gatewise.kernels.net.mean_gate",
    "kernels.prefix": "gatewise.kernels.net.prefix",
    "kernels.product": "gatewise.kernels.net.product_units",
    "kernels.rows": "gatewise.kernels.net.residual_rows",
    "kernels.square": "gatewise.kernels.net.mean_square",
    "kernels.sweep": "gatewise.kernels.net.sweep",
    "kernels.tables": "gatewise.kernels.net.net_tables",
    "kernels.threads": "gatewise.kernels.simd.threads",
    "kernels.tile": "gatewise.kernels.simd.tile",
    "kernels.units": "gatewise.kernels.net.units",
    "nets.base": "gatewise.nets.net",
    "nn.experts": "gatewise.nn.stacked_experts",
    "nn.fused.kernels.rows": "gatewise.nn.fused.kernels.token_rows",
    "nn.fused.kernels.sorting": "gatewise.nn.fused.kernels.counting_sort",
    "nn.fused.plan": "gatewise.nn.fused.row_plan",
    "nn.noise": "gatewise.nn.score_noise",
    "nn.router": "gatewise.nn.token_router",
    "nn.scores": "gatewise.nn.router_scores",
    "nn.selection": "gatewise.nn.choice",
    "selection": "gatewise.aggregation.selection",
    "shared.fitting": "gatewise.shared.additive_fit",
    "shared.scales": "gatewise.shared.sharing_scales",
    "theory.learning": "gatewise.theory.learning_cost",
    "theory.numbers": "gatewise.arrays",
}


class MovedModules(MetaPathFinder):
    """Finds no module, and says where one that has moved is now. It is asked when nothing else has found one."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the interface of the import system
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        if package == "gatewise":
            new = MODULES.get(name) or PACKAGES.get(name.partition(".")[0])
            if new is not None:
                raise ModuleNotFoundError(f"{fullname} has moved: it is now {new}", name=fullname)
        return None
