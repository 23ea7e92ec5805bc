"""``python -m benchmarks``: run them all. The particles and the test of specialization take some minutes."""

from benchmarks import (
    aggregation,
    cross_entropy,
    gate_weights,
    particles,
    simplex_ls,
    sparse_predict,
    specialization,
)

for benchmark in (gate_weights, sparse_predict, aggregation, simplex_ls, cross_entropy, particles, specialization):
    benchmark.main()
