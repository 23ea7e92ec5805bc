"""``python -m benchmarks``: run them all."""

from benchmarks import gate_weights, sparse_predict, specialization

for benchmark in (gate_weights, sparse_predict, specialization):
    benchmark.main()
