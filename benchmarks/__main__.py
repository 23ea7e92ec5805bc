"""``python -m benchmarks``: run them all. The particles take some minutes."""

from benchmarks import aggregation, cross_entropy, gate_weights, particles, profile_search, simplex_ls, sparse_predict

BENCHMARKS = (gate_weights, sparse_predict, aggregation, simplex_ls, cross_entropy, particles, profile_search)
for benchmark in BENCHMARKS:
    benchmark.main()
