"""A kernel gate of the list looks at the inputs that matter, told by the rows that it is fitted to and no others."""

import numpy as np
import pytest

from gatewise.gates import KernelGate, LinearGate
from gatewise.gates.inputs import Inputs
from gatewise.losses import ResidualLoss
from gatewise.router.members import feature_columns, FeatureRows, ListRows, ListTask, sample_maps

n, half = 2000, 1000


@pytest.fixture
def inputs():
    Z = np.random.default_rng(0).uniform(-1, 1, (n, 7))
    return Inputs(Z, np.ones(n), Z)


def maps_of(inputs, y, weights, gate=KernelGate(2)):  # noqa: B008 - a frozen one
    F = np.column_stack([np.ones(n), -np.ones(n)])
    gates = {"linear": LinearGate(2), "kernel": gate}
    maps = {name: one.feature_map.fit(one, inputs, F, 0) for name, one in gates.items()}
    rows = ListRows(inputs, F, maps=maps)
    asked = [np.arange(0)] * len(weights)
    return maps, sample_maps(ListTask.prepare(rows, ResidualLoss(y), weights, asked), maps)


def response(inputs, first, second):
    """On the first half of the rows the signs of these two inputs decide, on the second half those of two others."""
    Z = inputs.Z
    halves = [np.sign(Z[:, a] * Z[:, b]) for a, b in (first, second)]
    return np.where(np.arange(n) < half, *halves) + 0.5 * np.random.default_rng(1).normal(size=n)


def test_every_sample_has_the_inputs_of_its_own_rows(inputs):
    weights = np.array([np.arange(n) < half, np.arange(n) >= half, np.arange(n) < half]) * 1.0
    given, found = maps_of(inputs, response(inputs, (4, 6), (0, 5)), weights)
    assert [own["kernel"].places.tolist() for own in found] == [[4, 6], [0, 5], [4, 6]]
    assert found[0]["kernel"] is found[2]["kernel"]
    assert all(own["linear"] is given["linear"] for own in found)
    assert found[0]["kernel"].centers.shape[1] == 2
    assert len(found[0]["kernel"].centers) <= len(given["kernel"].centers)


def test_where_nothing_is_clear_and_where_the_gate_has_a_mesh_the_map_is_that_of_the_rows(inputs):
    noise = np.random.default_rng(2).normal(size=n)
    given, found = maps_of(inputs, noise, np.ones((1, n)))
    assert found[0]["kernel"] is given["kernel"]
    grid = KernelGate(2, mesh=1.0, low=-1.0, high=1.0)
    given, found = maps_of(inputs, response(inputs, (4, 6), (4, 6)), np.ones((1, n)), grid)
    assert found[0]["kernel"] is given["kernel"]


def test_features_that_are_computed_when_asked_for_are_the_features(inputs):
    given, _ = maps_of(inputs, inputs.Z[:, 0], np.ones((1, n)))
    rows = ListRows(inputs, np.zeros((n, 2)))
    lazy, whole = FeatureRows(given["kernel"], rows), feature_columns(given, rows)["kernel"]
    assert lazy.shape == whole.shape
    some = np.array([5, 3, 1999])
    np.testing.assert_allclose(lazy[some], whole[some], rtol=1e-12)
    np.testing.assert_allclose(lazy[:7], whole[:7], rtol=1e-12)
