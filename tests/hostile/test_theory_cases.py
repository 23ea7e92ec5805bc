"""Every function of gatewise.theory with bad numbers for each of its arguments, one at a time."""

import inspect

import pytest

from gatewise import theory
from tests.hostile.bad_values import EXTREME_NUMBERS, NO_NUMBERS
from tests.hostile.outcomes import Case, is_number, run

# Good values by the name of an argument; a function that needs another has it below.
GOOD = {
    "n_experts": 4,
    "d": 2,
    "n": 1000,
    "n_aggregation": 500,
    "k": 1,
    "mesh": 0.1,
    "noise": 1.0,
    "bound": 1.0,
    "epsilon": 0.5,
    "eta": 0.1,
    "radius": 1.0,
    "box": 1.0,
    "lipschitz": 1.0,
    "kappa": 0.75,
    "constant": 1.0,
    "candidate_risk": 0.1,
    "log_prior_inverse": 3.0,
    "assignment_loss": 0.1,
    "expert_error": 0.01,
    "approximation": 0.1,
    "cost": 0.1,
    "error": 0.1,
    "separation": 0.2,
    "slope_gap": 0.5,
    "m": 100.0,
    "slope": 1.0,
    "order": 3,
    "margin": 0.1,
    "boundary": 1.0,
    "amplitude": 1.0,
    "frequency": 2.0,
    "share": 0.4,
    "n_classes": 3,
    "n_regions": 2,
    "margin_density": 1.0,
    "input_norm": 2.0,
    "log_weight": 1.0,
    "sensitivity": 4.0,
    "barrier": 0.2,
    "phi_order": 0.0,
    "distance": 0.1,
    "density": 1.0,
    "swaps": 1,
    "inner": 0.3,
    "outer": 0.6,
    "curvature": 0.5,
    "error_1": 0.1,
    "error_2": 0.1,
    "other_1": 1.0,
    "other_2": 1.0,
}
OWN = {
    "kernel_interior_loss": {"mesh": 0.05},
    "soft_assignment_error": {"box": 3.0},
    "soft_mixture_error": {"box": 3.0},
    "topk_separation": {"k": 2},
}


def functions():
    """Functions of numbers alone, with a good value for every argument."""
    for name in theory.__all__:
        function = getattr(theory, name)
        if isinstance(function, type) or not callable(function):
            continue
        parameters = inspect.signature(function).parameters
        good = {key: {**GOOD, **OWN.get(name, {})}.get(key) for key in parameters}
        if all(value is not None or parameters[key].default is None for key, value in good.items()):
            yield name, function, {key: value for key, value in good.items() if value is not None}


def cases():
    for name, function, good in functions():
        for argument in good:
            for what, value in {**NO_NUMBERS, **EXTREME_NUMBERS}.items():
                answer = is_number if what in EXTREME_NUMBERS else False
                arguments = {**good, argument: value}
                yield Case("theory", f"{name}({argument}={what})", lambda f=function, a=arguments: f(**a), (), answer)


def test_the_good_values_are_good():
    known = list(functions())
    assert len(known) > 40
    for name, function, good in known:
        assert is_number(function(**good)), name


@pytest.mark.slow
@pytest.mark.parametrize("function", sorted({name for name, _, _ in functions()}))
def test_bad_numbers(function):
    mine = [case for case in cases() if case.name.startswith(f"{function}(")]
    outcomes = {case.name: run(case) for case in mine}
    assert {name: outcome for name, outcome in outcomes.items() if outcome not in ("right", "clear")} == {}
