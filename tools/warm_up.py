"""Compile every kernel once into the cache on disk, by using what the package offers on a few rows.

The workers of the test command then load compiled code and do not compile the same kernel twice. What is not reached
here is compiled by the first test that needs it, so a kernel that is missing costs time and nothing else.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression

import gatewise as gw
from gatewise.experts import ConstantExpert
from gatewise.shared import fit_scales, PolynomialBasis, ThresholdSearch

ROWS = 40


def sample():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(ROWS, 2))
    return X, np.where(X[:, 0] > 0.0, 1.0, -1.0) + 0.1 * rng.normal(size=ROWS)


def experts(count=3):
    return [ConstantExpert(float(value)) for value in np.linspace(-1.0, 1.0, count)]


def use(router, X, y):
    """Fit a router and read its gate in both ways."""
    router.fit(X, y)
    router.predict(X)
    router.gate_weights(X, readout="single")


def product_nets():
    """Aggregation over a product net: dense and Top-K."""
    X, y = sample()
    for gate in (gw.LinearGate(3), gw.LinearGate(3, k=2)):
        use(gw.RouterAggregator(experts(), gate, gate.net([-1.0, 1.0], d=2), random_state=0), X, y)


def lists():
    """Aggregation over a list of parameters."""
    X, y = sample()
    theta = np.random.default_rng(1).normal(size=(20, 2, 3))
    for gate in (gw.LinearGate(3), gw.LinearGate(3, k=2)):
        use(gw.RouterAggregator(experts(), gate, gate.net(thetas=theta), random_state=0), X, y)


def particles():
    """Particles of softmax, Top-K and kernel gates, and least squares over gates."""
    X, y = sample()
    for gate in (gw.LinearGate(3), gw.LinearGate(3, k=2), gw.KernelGate(3, 1.0, 0.5, -1.0, 1.0)):
        use(gw.RouterAggregator(experts(), gate, gw.Particles(n=16, n_moves=1), random_state=0), X, y)
    gw.GateRegressor(experts(), gw.LinearGate(3), n_starts=1, random_state=0).fit(X, y)


def gates():
    """Weights, routes and mean gates."""
    X, _ = sample()
    theta = np.random.default_rng(1).normal(size=(2, 2, 3))
    for gate in (gw.LinearGate(3), gw.LinearGate(3, k=2), gw.LinearGate(3, k=2, phi="sigmoid")):
        gate.weights(X, theta)
        gate.route(X, theta[0])
        gate.mean_weights(X, theta)


def router():
    """The learned router over two experts."""
    X, y = sample()
    gw.MoERegressor([("line", LinearRegression()), ("mean", DummyRegressor())], random_state=0).fit(X, y).predict(X)


def shared():
    """Thresholds of one and of two cuts, and the scales of sharing."""
    X, y = sample()
    for n_regions in (2, 3):
        cut = ThresholdSearch(0, grid=(-0.5, -0.2, 0.2, 0.5), n_regions=n_regions)
        gw.SharedRoutedRegressor(PolynomialBasis(1), None, cut).fit(X, y)
    labels = (X[:, 0] > 0.0).astype(int)
    fit_scales({"slope": X[:, 1:], "level": np.ones((ROWS, 1))}, labels, (0, 1), y)


PARTS = {part.__name__: part for part in (product_nets, lists, particles, gates, router, shared)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all unless given")
    chosen = parser.parse_args().parts or list(PARTS)
    for name in chosen:
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the samples are tiny on purpose
            PARTS[name]()
        print(f"compiled {name.replace('_', ' ')}: {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
