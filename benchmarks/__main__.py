"""``python -m benchmarks``: run them all."""

from benchmarks import gate_weights, sparse_predict

for benchmark in (gate_weights, sparse_predict):
    benchmark.main()
