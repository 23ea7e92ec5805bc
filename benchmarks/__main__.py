"""``python -m benchmarks``: run them all."""

from benchmarks import gate_weights, profile_search, sparse_predict

for benchmark in (gate_weights, profile_search, sparse_predict):
    benchmark.main()
