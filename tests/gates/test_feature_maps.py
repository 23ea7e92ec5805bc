"""What the scores of every gate family multiply in a learned router."""

from types import SimpleNamespace

import numpy as np
import pytest

from gatewise.gates import ForecastGate
from gatewise.gates.feature_maps import ForecastFeatures, StandardFeatures
from gatewise.gates.inputs import GateInputs
from tests.families import GATES


@pytest.mark.parametrize("gate", GATES, ids=repr)
def test_features_are_bounded_and_vanish_far_away(gate, sample):
    inputs, F, _ = sample
    seen = GateInputs.fit(inputs.Z, 20, 0.25)
    fitted = gate.feature_map.fit(gate, seen.transform(inputs.Z), F, 0)
    near, far = seen.transform(1.2 * inputs.Z), seen.transform(1e9 * inputs.Z)
    assert near.inside.min() < 1.0
    assert np.abs(fitted.features(near, 100.0 * F)).max() <= 4.0
    assert not fitted.features(far, F).any()


@pytest.mark.parametrize("gate", GATES, ids=repr)
def test_scores_have_about_the_spread_of_their_coefficients(gate, sample):
    inputs, F, _ = sample
    features = gate.feature_map.fit(gate, inputs, F, 0).features(inputs, F)
    theta = np.random.default_rng(0).normal(size=(features.shape[1], 2000))
    assert 0.4 < (features @ theta).std() < 2.0


def test_units_of_features_of_ones_own_do_not_matter(sample):
    inputs, F, _ = sample

    def standardised(units):
        gate = SimpleNamespace(features=lambda Z: Z * units)
        return StandardFeatures.fit(gate, inputs, F, 0).features(inputs, F)

    np.testing.assert_allclose(standardised([1000.0, 0.01]), standardised([1.0, 1.0]))


def test_a_forecast_gate_says_what_it_needs(sample):
    inputs, F, _ = sample
    with pytest.raises(ValueError, match="needs the experts' forecasts"):
        ForecastFeatures.fit(ForecastGate, inputs, F, 0).features(inputs, None)
