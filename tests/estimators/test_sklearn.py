"""scikit-learn citizenship."""

from sklearn.dummy import DummyRegressor
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

import gatewise as gw

ROUTER = gw.RouterAggregator([Ridge(), DummyRegressor()], gw.LinearGate(2), gw.Particles(20), random_state=0)

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "orders are drawn by rows, and a repeated row counts twice",
}


@parametrize_with_checks([ROUTER], expected_failed_checks=lambda _: EXPECTED_FAILURES)
def test_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
