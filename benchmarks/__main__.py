"""``python -m benchmarks``: run them all. The particles and the test of specialization take some minutes."""

from benchmarks import (
    aggregation,
    cross_entropy,
    demo,
    gate_fits,
    gate_weights,
    moe_layer,
    moe_regressor,
    one_row,
    particles,
    profile_search,
    simplex_ls,
    sparse_predict,
    specialization,
    thinning,
    tree_gates,
    warm_starts,
)

BENCHMARKS = (
    demo,
    gate_weights,
    sparse_predict,
    aggregation,
    simplex_ls,
    cross_entropy,
    gate_fits,
    profile_search,
    particles,
    specialization,
    thinning,
    tree_gates,
    warm_starts,
    moe_layer,
    moe_regressor,
    one_row,
)

if __name__ == "__main__":
    for benchmark in BENCHMARKS:
        benchmark.main()
