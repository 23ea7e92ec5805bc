"""The rival of the benchmark of gate fits is the same problem, and a small run of the benchmark."""

import numpy as np

from benchmarks.dense_newton import problem
from benchmarks.gate_fits import make_rows, make_samples, objectives, ours, rival, run


def test_the_rival_has_the_derivatives_of_its_objective():
    X, F, y = make_rows(60, 3)
    sample = make_samples(X, F, y)[0]
    loss = sample.loss
    one = problem(sample.requests[1], 1.0, F, y, float(loss.variance), sample.reference, sample.sample_weight)
    rng = np.random.default_rng(0)
    x, v, h = 0.3 * rng.normal(size=len(one.penalty)), rng.normal(size=len(one.penalty)), 1e-5
    slope = (one.at(x + h * v).value - one.at(x - h * v).value) / (2 * h)
    np.testing.assert_allclose(one.gradient(one.at(x), x) @ v, slope, rtol=1e-6)
    np.testing.assert_allclose(one.hessian(one.at(x)) @ v, one.product(one.at(x), v), rtol=1e-9, atol=1e-9)


def test_ours_ends_no_higher_where_there_is_one_minimum():
    X, F, y = make_rows(200, 3)
    samples = make_samples(X, F, y)[-1:]
    requests = [r._replace(spreads=(0.3,)) for r in samples[0].requests if r.features.shape[1]]
    samples = [samples[0]._replace(requests=requests)]
    assert (objectives(F, samples, ours(F, samples)) <= objectives(F, samples, rival(F, samples)) + 1e-5).all()


def test_a_small_run():
    (case,) = run(((120, 3),), ((120, 3),), most=15)["cases"]
    assert case["gatewise"]["median_distance"] < 1e-3
    assert case["lower_objective_by"]["mean"] > -0.1
