"""Settings of the property tests, and the command line as a user runs it."""

import sys
from zlib import crc32

import numpy as np
import pytest
from hypothesis import settings

# No deadline (the first call compiles), the same examples in every run. `make test-slow` takes the thorough profile:
# new examples in every run, and a failure prints how to repeat it.
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("thorough", deadline=None, derandomize=False, max_examples=100, print_blob=True)
settings.load_profile("quick")


@pytest.fixture(autouse=True)
def same_draws(request, monkeypatch):
    """Generators that a test gives no seed have one from its name: it passes in every run, or in none."""
    default_rng, number = np.random.default_rng, crc32(request.node.nodeid.encode())
    sequence = np.random.SeedSequence(number)
    monkeypatch.setattr(
        np.random, "default_rng", lambda seed=None: default_rng(sequence.spawn(1)[0] if seed is None else seed)
    )
    np.random.seed(number)  # noqa: NPY002 - of scikit-learn's splits and experts


@pytest.fixture
def sample():
    """Inputs of 300 rows, forecasts of three experts, and responses that follow the first or the second of them."""
    from gatewise.gates.inputs import Inputs

    rng = np.random.default_rng(3)
    Z = rng.normal(size=(300, 2))
    F = np.column_stack([Z[:, 0], -Z[:, 1], np.ones(300)]) + 0.1 * rng.normal(size=(300, 3))
    y = np.where(Z[:, 0] > 0, F[:, 0], F[:, 1]) + 0.3 * rng.normal(size=300)
    return Inputs(Z, np.ones(300), Z), F, y


@pytest.fixture
def gatewise(monkeypatch, tmp_path, capfd):
    """Run ``gatewise ARGS`` in an empty folder: (exit code, standard output, standard error)."""
    pytest.importorskip("typer")
    from gatewise.cli import main

    monkeypatch.chdir(tmp_path)

    def command(*args):
        monkeypatch.setattr(sys, "argv", ["gatewise", *map(str, args)])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code, *capfd.readouterr()

    return command
