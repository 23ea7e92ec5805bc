"""Gates made of scores: features of x times theta, then Top-K, phi and normalisation."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from gatewise import kernels
from gatewise.arrays import as_count, as_rows, as_vector, Floats
from gatewise.gates.gate import flatten_candidates, Gate
from gatewise.gates.phi import check_phi, log_phi, Phi
from gatewise.nets import eta_net, ListNet, Net, ProductNet


@dataclass(frozen=True)
class ScoreGate(Gate):
    """A gate whose scores are linear in features of x: s_m = features(x) . theta_m, and s_M = 0.

    theta has shape (M-1, p): the last expert is the reference. ``k=None`` is the dense gate
    (`eq:formulation_gating_dense`); otherwise exactly k experts are active, those of largest score, ties to the
    smaller index (`eq:formulation_gating_sparse`). The weights are phi(s_m) over the active set, normalised.

    A subclass only has to define ``features``.
    """

    k: int | None = None
    phi: Phi = "exp"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_phi(self.phi)
        if self.k is not None:
            object.__setattr__(self, "k", as_count(self.k, "k", high=self.n_experts))

    @property
    def n_active(self) -> int:
        return self.n_experts if self.k is None else self.k

    def theta_shape(self, d: int) -> tuple[int, int]:
        return self.n_experts - 1, self.features(np.zeros((1, as_count(d, "d")))).shape[1]

    def scores(self, X: Any, theta: ArrayLike) -> Floats:
        """The scores, (n, M) or (S, n, M); the last expert's are 0."""
        features, theta = self._prepare(X, theta)
        candidates = flatten_candidates(theta)
        out = np.empty((len(candidates), len(features), self.n_experts))
        kernels.linear_scores(features, candidates, out)
        if not np.isfinite(out).all():
            raise ValueError("the scores overflow: X and theta are too large together; rescale X")
        return out.reshape(*theta.shape[:-2], len(features), self.n_experts)

    def weights(self, X: Any, theta: ArrayLike) -> Floats:
        """The gate at every row, (n, M) or (S, n, M) for S candidates.

        >>> from gatewise import LinearGate
        >>> LinearGate(3, k=2).weights([[1.0]], [[2.0, 0.0], [2.0, 0.0]])  # experts 0 and 1 tie above 2
        array([[0.5, 0.5, 0. ]])
        """
        if self.phi != "exp":
            scores = self.scores(X, theta)
            return self._normalise(scores)
        features, theta = self._prepare(X, theta)
        candidates = flatten_candidates(theta)
        out = np.empty((len(candidates), len(features), self.n_experts))
        kernels.linear_softmax(features, candidates, self.n_active, out)
        _check_sum(out)
        return out.reshape(*theta.shape[:-2], len(features), self.n_experts)

    def active(self, X: Any, theta: ArrayLike) -> NDArray[np.intp]:
        return self._select(self.scores(X, theta))

    def route(self, X: Any, theta: ArrayLike) -> tuple[NDArray[np.intp], Floats]:
        scores = self.scores(X, theta)
        active = self._select(scores)
        if self.n_active == 1:
            return active, np.ones(active.shape)
        values = log_phi(self.phi, np.take_along_axis(scores, active, axis=-1))
        weights: Floats = softmax(values, axis=-1)
        return active, weights

    def mean_weights(self, X: Any, thetas: ArrayLike | Net, shares: ArrayLike | None = None) -> Floats:
        """The mean gate sum_s share_s g(x; theta_s), (n, M), block by block: nothing of size S x n is held.

        ``thetas`` is an array (S, M-1, p) or a net; ``shares`` (S,) are equal unless given.
        """
        net = thetas if isinstance(thetas, Net) else ListNet(np.asarray(thetas, dtype=np.float64))
        rows = as_rows(X)
        features = self._features(rows)
        shares = np.full(net.size, 1.0 / net.size) if shares is None else as_vector(shares, "shares", net.size)
        total = np.zeros((len(rows), self.n_experts))
        start = 0
        for block in net.blocks():
            theta = self.check_theta(block, rows.shape[1])
            share = shares[start : start + len(theta)]
            if self.phi == "exp":
                kernels.add_linear_softmax(features, theta, self.n_active, share, total)
            else:
                total += np.tensordot(share, self.weights(rows, theta), axes=1)
            start += len(theta)
        _check_sum(total)
        return total

    def net(
        self,
        values: Any = None,
        *,
        d: int | None = None,
        eta: float | None = None,
        radius: float | None = None,
        thetas: ArrayLike | None = None,
    ) -> Net:
        """A finite set of parameters, in one of three ways.

        - ``values``: a product grid. One list of values for each coefficient, in the order of ``theta.ravel()``;
          or one list for all of them, which needs ``d``.
        - ``eta``, ``radius`` and ``d``: an eta-net of the box [-radius, radius]^D with D = n_params(d): every
          point of the box is within eta of a point of the net (step (a) of `alg:general`).
        - ``thetas``: an explicit array (S, M-1, p).

        >>> from gatewise import LinearGate
        >>> gate = LinearGate(3, intercept=False)
        >>> gate.net([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0], d=2).size
        2401
        >>> gate.net(eta=0.5, radius=1.0, d=2).size
        256
        """
        given = [values is not None, eta is not None or radius is not None, thetas is not None]
        if sum(given) != 1:
            raise ValueError("net takes one of: values; eta and radius; thetas")
        if thetas is not None:
            return ListNet(np.asarray(thetas, dtype=np.float64))
        if values is not None:
            return self._product_net(values, d)
        if eta is None or radius is None or d is None:
            raise ValueError("an eta-net needs all of eta, radius and d")
        return eta_net(self.theta_shape(d), eta, radius)

    def _product_net(self, values: Any, d: int | None) -> ProductNet:
        lists = list(values)
        if lists and np.ndim(lists[0]) == 0:
            if d is None:
                raise ValueError("one list of values for all coefficients needs d, the number of features")
            lists = [lists] * self.n_params(d)
        rows = self.n_experts - 1
        if len(lists) % rows or (d is not None and len(lists) != self.n_params(d)):
            wanted = f"a multiple of {rows}" if d is None else str(self.n_params(d))
            raise ValueError(f"values must hold one list per coefficient, {wanted} in all, not {len(lists)}")
        return ProductNet(lists, (rows, len(lists) // rows))

    def _features(self, rows: Floats) -> Floats:
        features = np.ascontiguousarray(self.features(rows), dtype=np.float64)
        if features.ndim != 2 or len(features) != len(rows):
            raise ValueError(f"features must have shape ({len(rows)}, p), not {features.shape}")
        if not np.isfinite(features).all():
            raise ValueError("the features overflow or are NaN: rescale X")
        return features

    def _prepare(self, X: Any, theta: ArrayLike) -> tuple[Floats, Floats]:
        rows = as_rows(X)
        return self._features(rows), self.check_theta(theta, rows.shape[1])

    def _select(self, scores: Floats) -> NDArray[np.intp]:
        out = np.empty((scores.size // self.n_experts, self.n_active), dtype=np.intp)
        kernels.top_k_rows(scores.reshape(-1, self.n_experts), self.n_active, out)
        return out.reshape(*scores.shape[:-1], self.n_active)

    def _normalise(self, scores: Floats) -> Floats:
        flat = scores.reshape(-1, self.n_experts)
        out = np.empty_like(flat)
        kernels.softmax_rows(log_phi(self.phi, flat), flat, self.n_active, out)
        return out.reshape(scores.shape)


def _check_sum(weights: Floats) -> None:
    if not np.isfinite(weights.sum()):
        raise ValueError("the scores overflow: X and theta are too large together; rescale X")
