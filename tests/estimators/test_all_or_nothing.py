"""A fit that fails changes nothing."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge

import gatewise as gw
from gatewise.experts import ConstantExpert
from gatewise.shared import PolynomialBasis, SieveSearch, ThresholdSearch

GATE = gw.LinearGate(2)
X = np.random.default_rng(0).normal(size=(60, 1))
Y = (X[:, 0] > 0).astype(float)
MODELS = {
    "experts": gw.RouterAggregator([Ridge(), LinearRegression()], GATE, gw.Particles(20), random_state=0),
    "shared": gw.GateRegressor([ConstantExpert(0.0), ConstantExpert(1.0)], GATE, n_starts=2, random_state=0),
    "candidates": gw.GateSelector([Ridge(), LinearRegression()], random_state=0),
    "routed": gw.SharedRoutedRegressor(),
}


class RefusedError(Exception):
    """What the model is made to fail with."""


def refuses(_):
    raise RefusedError


@pytest.mark.parametrize(("parameter", "model"), MODELS.items(), ids=[type(m).__name__ for m in MODELS.values()])
def test_a_refit_that_fails_leaves_the_model_as_it_was(parameter, model):
    before = model.fit(X, Y).predict(X)
    model.set_params(**{parameter: [refuses, refuses]})
    attributes = dict(vars(model))
    with pytest.raises(RefusedError):
        model.fit(np.column_stack([X, X]), Y)
    assert vars(model).keys() == attributes.keys()
    assert all(value is attributes[name] for name, value in vars(model).items())
    np.testing.assert_array_equal(model.predict(X), before)


BASES = {"shared": PolynomialBasis(1), "routed": PolynomialBasis(1)}
CUT = gw.SharedRoutedRegressor(**BASES, partition=ThresholdSearch(0))
SIDES = {"partition": lambda X: (np.asarray(X)[:, 0] > 0.0).astype(int)}
REFITS = {
    "a given partition": (CUT, SIDES, {"thresholds_", "grid_", "profile_rss_"}),
    "no search of sizes": (
        gw.SharedRoutedRegressor(**BASES, **SIDES, sieve=SieveSearch(routed=(0, 1))),
        {"sieve": None},
        {"sizes_"},
    ),
    "backfitting": (
        CUT,
        {"method": "backfit", "shared": Ridge(), "routed": Ridge(), **SIDES},
        {"thresholds_", "shared_coef_", "routed_coef_", "rss_", "df_", "dropped_", "ridge_"},
    ),
    "no updates": (
        gw.GateRegressor([Ridge(), LinearRegression()], GATE, n_starts=2, random_state=0, updates=gw.Updates(20)),
        {"updates": None, "experts": [ConstantExpert(0.0), ConstantExpert(1.0)]},
        {"order_"},
    ),
}


@pytest.mark.parametrize(("model", "change", "gone"), REFITS.values(), ids=REFITS)
def test_a_refit_has_the_attributes_of_a_first_fit(model, change, gone):
    first = clone(model).set_params(**change).fit(X, Y)
    again = clone(model).fit(X, Y)
    assert gone <= vars(again).keys()
    again.set_params(**change).fit(X, Y)
    assert vars(again).keys() == vars(first).keys()
    assert not gone & vars(again).keys()
    np.testing.assert_array_equal(again.predict(X), first.predict(X))


INTERRUPTED = """
import os, signal, threading
import numpy as np
import gatewise as gw
from gatewise.experts import ColumnExpert
from gatewise.progress import listen

def stop(step):
    if step.stage.startswith("list of the router") and not sent:
        sent.append(True)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may let it be ignored
sent, rng = [], np.random.default_rng(0)
X = rng.normal(size=(4000, 5))
y = X[:, 0] * X[:, 1] + rng.normal(size=4000)
experts = [("a", ColumnExpert(0)), ("b", ColumnExpert(1))]
settings = gw.MoESettings(test=False, learners=("forest",))
model = gw.MoERegressor(experts, cv="prefit", gates=[], settings=settings, random_state=0).fit(X[:200], y[:200])
before = model.predict(X)
try:
    with listen(stop):
        model.fit(X, y)
except KeyboardInterrupt:
    print("interrupted", np.array_equal(model.predict(X), before))
"""


def test_an_interruption_in_compiled_code_leaves_the_old_model():
    # A Ctrl-C that arrives while compiled code hands over its results must not end the process.
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "interrupted True\n"), done.stderr
