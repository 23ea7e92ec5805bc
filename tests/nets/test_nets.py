"""Finite sets of parameters."""

import itertools
import tracemalloc
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.gates import LinearGate, QuadraticGate
from gatewise.nets import eta_net, eta_net_size, ListNet, MaskedNet, MAX_SIZE, ProductNet, simplex_lattice


@given(st.lists(st.integers(1, 4), min_size=4, max_size=4), st.integers(1, 50))
def test_a_product_net_lists_every_combination_in_order(counts, block_size):
    lists = [[10.0 * j + i for i in range(count)] for j, count in enumerate(counts)]
    net = ProductNet(lists, (2, 2))
    blocks = list(net.blocks(block_size))
    assert all(len(block) <= block_size for block in blocks)
    expected = np.array(list(itertools.product(*lists))).reshape(-1, 2, 2)
    np.testing.assert_array_equal(np.concatenate(blocks), expected)
    assert net.size == len(net) == prod(counts)


@given(st.lists(st.integers(1, 3), min_size=6, max_size=6))
def test_factors_give_back_the_net(counts):
    net = ProductNet([np.arange(count) + 0.5 for count in counts], (2, 3))
    first, second = net.factors()
    rebuilt = [[a, b] for a in first for b in second]
    np.testing.assert_array_equal(np.concatenate(list(net.blocks())), np.array(rebuilt))


def test_one_list_for_all_coefficients():
    gate = LinearGate(3, intercept=False)
    assert gate.net(np.arange(0, 3.5, 0.5), d=2).size == 2401
    assert QuadraticGate(3, intercept=False, cross=False).net(np.arange(0, 3.1, 0.6), d=2).size == 1_679_616


def test_one_list_per_coefficient_in_the_order_of_theta():
    lists = [[1.0, 2.0], [3.0], [5.0], [7.0, 8.0]]
    net = LinearGate(3, intercept=False).net(lists)
    np.testing.assert_array_equal(net.theta(3), [[2.0, 3.0], [5.0, 8.0]])
    np.testing.assert_array_equal(net.theta([0, 3])[1], net.theta(3))


@pytest.mark.parametrize(("eta", "radius"), [(0.3, 1.0), (0.5, 2.0), (1.0, 0.4)])
def test_no_point_of_the_box_is_farther_than_eta_from_the_net(eta, radius):
    net = LinearGate(2).net(eta=eta, radius=radius, d=2)
    assert net.size == eta_net_size(3, eta, radius)
    points = np.concatenate([block[:, 0] for block in net.blocks()])
    corners = np.array(list(itertools.product([-radius, 0.0, radius], repeat=3)))
    probes = np.vstack([corners, np.random.default_rng(0).uniform(-radius, radius, size=(2_000, 3))])
    distance = np.sqrt(((probes[:, None, :] - points) ** 2).sum(axis=2)).min(axis=1)
    assert distance.max() <= eta * (1 + 1e-12)
    assert np.abs(points).max() <= radius


def test_the_size_of_a_net_is_known_before_it_is_built():
    assert eta_net_size(4, eta=0.01, radius=1.0) == 200**4
    assert eta_net_size(10_000, eta=0.01, radius=1.0) > 10**5000
    with pytest.raises(ValueError, match=r"S = 16,000,000,000,000 candidates.* larger eta"):
        eta_net((2, 2), eta=0.001, radius=1.0)


def test_a_net_of_a_million_million_is_an_error_that_states_its_size():
    gate = LinearGate(4)
    with pytest.raises(ValueError, match=r"S = 1,000,000,000,000 candidates, and at most 10,000,000,000"):
        gate.net(np.arange(10.0), d=3)
    with pytest.raises(ValueError, match=r"S = about 1e\d+ candidates"):
        LinearGate(8).net(eta=0.1, radius=3.0, d=10)
    assert MAX_SIZE == 10**10


def test_a_net_holds_no_more_than_a_block():
    gate = QuadraticGate(3, intercept=False, cross=False)
    tracemalloc.start()
    net = gate.net(np.arange(0, 3.1, 0.6), d=2)  # 1,679,616 x 8 numbers: 107 MB in full
    for block in net.blocks(10_000):
        assert block.shape[1:] == (2, 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 10_000 * 8 * 8


def test_explicit_lists():
    thetas = np.random.default_rng(0).normal(size=(5, 2, 3))
    net = LinearGate(3).net(thetas=thetas)
    np.testing.assert_array_equal(np.concatenate(list(net.blocks(2))), thetas)
    assert "S=5" in repr(net)
    assert "S=4" in repr(ProductNet([[0.0, 1.0]] * 2, (1, 2)))


@pytest.mark.parametrize(("n_experts", "levels"), [(2, 1), (2, 5), (3, 4), (4, 2)])
def test_the_simplex_lattice_is_complete(n_experts, levels):
    points = simplex_lattice(n_experts, levels)
    assert points.shape == (comb(levels + n_experts - 1, n_experts - 1), n_experts)
    np.testing.assert_allclose(points.sum(axis=1), 1.0)
    assert len(np.unique(points, axis=0)) == len(points)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda g: g.net(), "net takes one of"),
        (lambda g: g.net([1.0], eta=0.1, d=1), "net takes one of"),
        (lambda g: g.net([0.0, 1.0]), "needs d"),
        (lambda g: g.net([[0.0]] * 3), "a multiple of 2 in all, not 3"),
        (lambda g: g.net([[0.0]] * 4, d=2), "6 in all, not 4"),
        (lambda g: g.net([[0.0]] * 5 + [[]], d=2), "list 5 of a product net must hold at least one value"),
        (lambda g: g.net([[0.0]] * 5 + [[np.nan]], d=2), "list 5 of a product net must be finite"),
        (lambda g: g.net([[1.0, 1.0]] * 6, d=2), "holds a value twice"),
        (lambda g: g.net(eta=0.1), "needs all of eta, radius and d"),
        (lambda g: g.net(eta=-0.1, radius=1.0, d=1), "eta must be a finite number above 0"),
        (lambda g: g.net(thetas=np.zeros((0, 2, 3))), "thetas must have shape"),
        (lambda g: g.net(thetas=np.full((1, 2, 3), np.inf)), "thetas must be finite"),
        (lambda g: g.net([0.0, 1.0], d=2).theta(0.5), "indices must be whole numbers"),
        (lambda g: g.net([0.0, 1.0], d=2).blocks(0).__next__(), "block_size must be a whole number"),
        (lambda g: MaskedNet(g.net([0.0, 1.0], d=1), [True]), r"mask must have shape \(16,\)"),
        (lambda g: g.net([0.0, 1.0], d=1, min_separation=9.0), "no candidate of the net is left"),
        (lambda g: g.net([0.0, 1.0], d=1, min_separation=-1.0), "min_separation must be a finite number above 0"),
        (lambda g: simplex_lattice(10, 50), "the lattice would have .* take fewer levels"),
        (lambda g: ProductNet([[0.0]], (2, 2)), "the parts fill 1 places"),
        (lambda g: ProductNet([[[0.0, 1.0]]], (1, 2)).factors(), "factors by expert exist where"),
    ],
)
def test_bad_nets_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make(LinearGate(3))


def test_candidates_beyond_the_net_are_an_error():
    with pytest.raises(IndexError, match="indices must be from 0 to 3"):
        ListNet(np.zeros((4, 1, 1))).theta(4)


def test_a_masked_net_keeps_numbers_and_says_what_counts():
    gate = LinearGate(3, intercept=False)
    net = gate.net([-1.0, 0.0, 1.0], d=1, min_separation=0.5)
    kept = np.concatenate(list(net.blocks()))[net.allowed()]
    np.testing.assert_array_equal(kept[:, :, 0], [[-1.0, 1.0], [1.0, -1.0]])
    assert "allowed=2" in repr(net)
    assert gate.net([0.0], d=1).allowed() is None
