"""The NumPy code that the benchmarks measure against is also an oracle: calibration and aggregation agree with it."""

import numpy as np
import pytest

from benchmarks.aggregation import BOUNDS, linear_problem, whole
from benchmarks.numpy_rivals import plain, with_blas, with_product
from gatewise.aggregation.gate_candidates import ListCandidates, ProductCandidates

PROBLEM = linear_problem((4, 3, 5), 60)
RIVALS = {
    "plain": lambda: plain(PROBLEM.theta, PROBLEM.blocks, BOUNDS),
    "blas": lambda: with_blas(PROBLEM.theta, PROBLEM.blocks, BOUNDS),
    "product": lambda: with_product(PROBLEM, BOUNDS),
}


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_predictions_and_mean_weights_agree(rival, n_threads):
    predictions, weights = RIVALS[rival]()
    kept = weights > 1e-12
    assert kept.sum() > 100
    for candidates in (ProductCandidates(PROBLEM.factors), ListCandidates(PROBLEM.theta)):
        found, found_weights = whole(candidates, PROBLEM.blocks, n_threads)
        np.testing.assert_allclose(found, predictions, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found_weights[kept], weights[kept], rtol=1e-9)
        np.testing.assert_allclose(found_weights.sum(), 1.0, rtol=1e-12)
