"""scikit-learn citizenship."""

from sklearn.dummy import DummyRegressor
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

import gatewise as gw

ROUTER = gw.RouterAggregator([Ridge(), DummyRegressor()], gw.LinearGate(2), gw.Particles(20), random_state=0)


@parametrize_with_checks([ROUTER])
def test_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
