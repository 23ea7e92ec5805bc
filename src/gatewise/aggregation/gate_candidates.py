"""Finite sets of gates with linear scores: a product of factors, or a list.

Both turn features (n, p) of some rows, responses y (n,) and expert predictions F (n, M) into the tables that the
kernels read. The experts may evolve: row t of F holds their predictions at the time of observation t.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Protocol, TypeAlias

import numpy as np

from gatewise import kernels
from gatewise.arrays import Floats, Integers
from gatewise.gates import Gate, KernelGate, ScoreGate
from gatewise.gates.kernel import check_simplices
from gatewise.gates.phi import log_phi
from gatewise.kernels.net.factor_scores import factor_scores
from gatewise.kernels.net.net_tables import explicit_tables, product_tables
from gatewise.kernels.net.residual_rows import BLOCK
from gatewise.kernels.net.units import Tables
from gatewise.nets import ListNet, MaskedNet, Net, ProductNet

LogPhi: TypeAlias = Callable[[Floats], Floats]


class Candidates(Protocol):
    """A finite set of S gates over M experts, each with K active experts."""

    @property
    def size(self) -> int:
        """S."""
        ...

    @property
    def n_experts(self) -> int:
        """M."""
        ...

    @property
    def n_features(self) -> int:
        """p, the number of features that a parameter multiplies."""
        ...

    def tables(self, features: Floats, y: Floats, F: Floats) -> "Tables | BlockTables":
        """The arrays that the kernels read, from features (n, p), responses y (n,) and predictions F (n, M)."""
        ...


@dataclass(frozen=True)
class ProductCandidates:
    """Every combination of the rows of M-1 factors (G_m, p), the last factor fastest; the reference scores 0.

    k active experts, all of them when None; log_phi: the logarithm of the score transformation, None for exp.
    """

    factors: tuple[Floats, ...]
    k: int | None = None
    log_phi: LogPhi | None = None

    @property
    def size(self) -> int:
        return prod(len(factor) for factor in self.factors)

    @property
    def n_experts(self) -> int:
        return len(self.factors) + 1

    @property
    def n_features(self) -> int:
        return int(np.shape(self.factors[0])[1])

    def tables(self, features: Floats, y: Floats, F: Floats) -> Tables:
        k = self.n_experts if self.k is None else self.k
        factors = [np.ascontiguousarray(factor) for factor in self.factors]
        scores = factor_scores(features, factors, keep=k < self.n_experts)
        _check_scores(scores.last)
        _check_scores(scores.prefix)
        return product_tables(
            scores, None if self.log_phi is None else partial(relative_log_phi, self.log_phi), y, F, k
        )


@dataclass(frozen=True)
class ListCandidates:
    """Candidates theta (S, M-1, p); k and log_phi as in `ProductCandidates`.

    With a log_phi, gates are computed block by block in NumPy, several times slower than with exp.
    """

    theta: Floats
    k: int | None = None
    log_phi: LogPhi | None = None

    @property
    def size(self) -> int:
        return len(self.theta)

    @property
    def n_experts(self) -> int:
        return int(self.theta.shape[1]) + 1

    @property
    def n_features(self) -> int:
        return int(self.theta.shape[2])

    def tables(self, features: Floats, y: Floats, F: Floats) -> "Tables | BlockTables":
        k = self.n_experts if self.k is None else self.k
        with np.errstate(over="ignore"):
            largest = np.abs(self.theta).max() * np.abs(features).max() * features.shape[1]
        _check_scores(largest)
        if self.log_phi is None:
            return explicit_tables(self.theta, features, y, F, k)
        return BlockTables(self.theta, features, y, F, partial(_transformed, k=k, log_phi=self.log_phi))


@dataclass(frozen=True)
class KernelCandidates:
    """Candidates theta (S, M, C) of a gate that is linear in theta: gates are features (n, C) times theta."""

    theta: Floats

    @property
    def size(self) -> int:
        return len(self.theta)

    @property
    def n_experts(self) -> int:
        return int(self.theta.shape[1])

    @property
    def n_features(self) -> int:
        return int(self.theta.shape[2])

    def tables(self, features: Floats, y: Floats, F: Floats) -> "BlockTables":
        return BlockTables(self.theta, features, y, F, _interpolated)


GatesOf: TypeAlias = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class BlockTables:
    """A list whose gates no kernel knows: ``gates_of`` gives them for a block, theta (B, ...) to (B, n, M)."""

    theta: Floats
    features: Floats
    y: Floats
    F: Floats
    gates_of: GatesOf

    def gates(self) -> Iterator[tuple[Integers, Floats]]:
        """Blocks (candidates (B,), gates (B, n, M))."""
        step = max(1, BLOCK // max(1, self.F.size))
        for start in range(0, len(self.theta), step):
            gates = self.gates_of(self.theta[start : start + step], self.features)
            yield np.arange(start, start + len(gates)), gates

    def residuals(self) -> Iterator[tuple[Integers, Floats]]:
        """Blocks (candidates (B,), residuals (B, n))."""
        for candidates, gates in self.gates():
            yield candidates, self.y - np.einsum("snm,nm->sn", gates, self.F)


def _interpolated(theta: Floats, features: Floats) -> Floats:
    gates: Floats = features @ np.swapaxes(theta, 1, 2)
    return gates


def _transformed(theta: Floats, features: Floats, k: int, log_phi: LogPhi) -> Floats:
    """The gates of a score transformation of the user's."""
    scores = _scores(theta, features)
    flat = scores.reshape(-1, scores.shape[2])
    out = np.empty_like(flat)
    kernels.softmax_rows(relative_log_phi(log_phi, flat), flat, k, out)
    return out.reshape(scores.shape)


def gate_candidates(gate: Gate, net: Net) -> Candidates:
    """The candidates of a net under a gate: by their product structure where they have one that pays.

    A product of factors pays when the factors together are much smaller than it: not for two experts, where the
    one factor is the whole net.
    """
    inner = net.net if isinstance(net, MaskedNet) else net
    if not isinstance(gate, ScoreGate):
        thetas = _listed(inner)
        if isinstance(gate, KernelGate):
            check_simplices(thetas)
        return KernelCandidates(thetas)
    transform = None if gate.phi == "exp" else partial(log_phi, gate.phi)
    if isinstance(inner, ProductNet) and gate.n_experts > 2:
        factors = inner.factors()
        if 2 * sum(len(factor) for factor in factors) <= inner.size:
            return ProductCandidates(factors, gate.k, transform)
    return ListCandidates(_listed(inner), gate.k, transform)


def _listed(net: Net) -> Floats:
    return net.thetas if isinstance(net, ListNet) else np.concatenate(list(net.blocks()))


def _scores(theta: Floats, features: Floats) -> Floats:
    """(S, n, M), summed in a fixed order; an error when they overflow."""
    out = np.empty((len(theta), len(features), theta.shape[1] + 1))
    kernels.linear_scores(np.ascontiguousarray(features), np.ascontiguousarray(theta), out)
    _check_scores(out)
    return out


def _check_scores(scores: Floats | np.float64) -> None:
    if not np.isfinite(scores.sum()) and not np.isfinite(scores).all():
        raise ValueError("the scores overflow: features and theta are too large together; rescale the features")


def relative_log_phi(log_phi: LogPhi | None, scores: Floats) -> Floats:
    """log phi(score) - log phi(0): the reference's value becomes 0 without changing a gate."""
    if log_phi is None:
        return scores
    values, reference = np.asarray(log_phi(scores), dtype=np.float64), float(log_phi(np.zeros(1))[0])
    if not (np.isfinite(values).all() and np.isfinite(reference)):
        raise ValueError("log_phi must be finite at every score; phi must be positive and must not overflow")
    return values - reference
