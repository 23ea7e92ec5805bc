"""The rival of the benchmark of gate fits is the same problem, and a small run of the benchmark."""

import numpy as np
import pytest

from benchmarks.dense_newton import problem
from benchmarks.gate_fits import make_rows, make_work, objectives, ours, rival, run


def test_the_rival_has_the_derivatives_of_its_objective():
    X, F, y = make_rows(60, 3)
    work = make_work(X, F, y)
    sample, request = work.samples[0], work.requests[1]
    one = problem(request, 1.0, F, y, sample.scale**2, sample.reference, sample.sample_weight)
    rng = np.random.default_rng(0)
    x, v, h = 0.3 * rng.normal(size=len(one.penalty)), rng.normal(size=len(one.penalty)), 1e-5
    slope = (one.at(x + h * v).value - one.at(x - h * v).value) / (2 * h)
    np.testing.assert_allclose(one.gradient(one.at(x), x) @ v, slope, rtol=1e-6)
    np.testing.assert_allclose(one.hessian(one.at(x)) @ v, one.product(one.at(x), v), rtol=1e-9, atol=1e-9)


def test_ours_ends_no_higher_where_there_is_one_minimum():
    X, F, y = make_rows(200, 3)
    work = make_work(X, F, y)
    requests = [r._replace(spreads=(0.3,)) for r in work.requests if r.features.shape[1]]
    work = work._replace(requests=requests, samples=work.samples[-1:])
    assert (objectives(F, work, ours(F, work)) <= objectives(F, work, rival(F, work)) + 1e-5).all()


@pytest.mark.slow
def test_a_small_run():
    (case,) = run(((120, 3),), ((120, 3),), most=15)["cases"]
    assert case["gatewise"]["median_distance"] < 1e-3
    assert case["lower_objective_by"]["mean"] > -0.1
