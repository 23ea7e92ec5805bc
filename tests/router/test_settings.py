"""The settings of `MoERegressor`: what they refuse, and that a refusal changes nothing."""

import numpy as np
import pytest

import gatewise as gw
from gatewise.noise import DoubleExponential


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"n_orders": -3}, "n_orders must be a whole number at least 1, not -3"),
        ({"noise": "double_exponential", "fade": 0.0}, "fade must be a finite number above 0, not 0.0"),
        ({"spreads": (1.0,), "nothing": 1}, "settings has no 'nothing'"),
        ({"test": "no"}, "test must be True or False, not 'no'"),
        ({"correct": 1}, "correct must be True or False, not 1"),
    ],
)
def test_settings_that_are_refused_stay_as_they_were(params, words):
    settings = gw.MoESettings(n_components=7)
    before = dict(vars(settings))
    with pytest.raises(ValueError, match=words):
        settings.set_params(**params)
    assert vars(settings) == before
    if "nothing" not in params:
        with pytest.raises(ValueError, match=words):
            gw.MoESettings(**params)


def test_settings_are_changed_in_place_with_what_follows_from_them():
    settings = gw.MoESettings(n_components=7)
    assert settings.set_params(noise="double_exponential", test=np.bool_(False)) is settings
    assert isinstance(settings.density, DoubleExponential)
    assert settings == gw.MoESettings(n_components=7, noise="double_exponential", test=False)
