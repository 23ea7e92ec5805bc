"""Whether a difference of gates shows in the predictions: the constant of `ass:supp-ce-fixed-mr`."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_count, as_positive, as_rows, Floats
from gatewise.gates import ScoreGate

RANK_TOL = 1e-10  # of the largest singular value: below it a direction of the span is rounding


class Compatibility(NamedTuple):
    """An upper and a lower bound of the constant, from n rows.

    ``smallest_ratio``: the least ratio among the listed differences. If they are of the assumption's class,
    its constant is at most this (up to sampling).
    ``span_bound``: the least ratio among all sequences whose every delta_t lies in the linear span of the
    listed differences, with coefficients that may change with t. It is a lower bound for differences in the span
    only.
    ``rank``: the dimension of that span, the largest over t. If it exceeds n, the span bound is 0.
    """

    smallest_ratio: float
    span_bound: float
    rank: int


def compatibility_constant(F: ArrayLike, differences: ArrayLike) -> Compatibility:
    """Bounds of the constant c of `eq:online-compat`: how much the predictor changes when the gate changes.

    The assumption asks for the largest c with

        mean_t mean_i (sum_m delta_t[i,m] F_t[i,m])^2  >=  c  mean_t mean_i sum_m delta_t[i,m]^2

    for every delta_t = (a mixture of net gates, no share above 1/2) - (one softmax gate). With c > 0, gates
    that predict alike are alike; c near 0 says that some gates differ and predict alike, and then the
    weights of a fitted gate mean little. The class is infinite, so the constant itself is not computed: the
    result holds the minimum over the list and the minimum over its span.

    F (n, M), or (T, n, M) when experts evolve; differences (J, n, M), constant in time, or (J, T, n, M). A
    difference of norm zero has no ratio and is left out. Without a restriction to a span no c > 0 exists for M >= 3:
    at one x, some of the M - 1 directions of a difference do not change the predictor. For M = 2, c is at least the
    minimum of (F_1 - F_2)^2 / 2.

    >>> F = np.array([[1.0, 3.0], [0.0, 2.0]])  # two experts that differ by 2 everywhere: c = 2^2 / 2
    >>> found = compatibility_constant(F, [[[0.1, -0.1], [0.3, -0.3]]])
    >>> round(found.smallest_ratio, 9), round(found.span_bound, 9), found.rank
    (2.0, 2.0, 1)
    """
    F, differences = _prepare(F, differences)  # (T, n, M), (J, T or 1, n, M)
    passed = np.einsum("jtim,tim->jti", np.broadcast_to(differences, (len(differences), *F.shape)), F)
    shown = np.mean(passed**2, axis=(1, 2))
    norms = np.mean(np.sum(differences**2, axis=3), axis=(1, 2))
    seen = norms > 0
    if not seen.any():
        raise ValueError("differences must not all be zero, but all of them vanish on the sample")
    ratio = float(np.min(shown[seen] / norms[seen]))
    floors, ranks = zip(*_span_floors(F, differences[seen]), strict=True)
    return Compatibility(ratio, min(floors), max(ranks))


def gate_differences(
    gate: ScoreGate, X: Any, thetas: ArrayLike, radius: float, *, size: int, seed: Any = None
) -> Floats:
    """Random members of the class of differences of `ass:supp-ce-fixed-mr`, constant in time, (size, n, M).

    Each is sum_s p_s g(x; thetas_s) - g(x; theta), p a random share vector with no entry above 1/2 over the
    candidates thetas (S, M-1, p), S >= 2, and theta uniform on the box |theta| <= radius.

    >>> from gatewise import LinearGate
    >>> gate = LinearGate(3)
    >>> gate_differences(gate, [[0.5]], np.eye(4).reshape(4, 2, 2), radius=1.0, size=7, seed=0).shape
    (7, 1, 3)
    """
    rows = as_rows(X)
    candidates = gate.check_theta(thetas, rows.shape[1])
    if candidates.ndim != 3 or len(candidates) < 2:
        raise ValueError(f"thetas must have shape (S, M-1, p) with S at least 2, not {candidates.shape}")
    radius, size = as_positive(radius, "radius"), as_count(size, "size")
    rng = np.random.default_rng(seed)
    shares = _capped_shares(rng.dirichlet(np.ones(len(candidates)), size))
    single = rng.uniform(-radius, radius, (size, *candidates.shape[1:]))
    return np.tensordot(shares, gate.weights(rows, candidates), axes=1) - gate.weights(rows, single)


def _capped_shares(shares: Floats) -> Floats:
    """Rows on the simplex with no entry above 1/2: what exceeds goes to the others, in proportion."""
    top = shares.argmax(axis=1)
    rows = np.arange(len(shares))
    over = shares[rows, top] > 0.5
    others = shares.copy()
    others[rows, top] = 0.0
    capped = 0.5 * others / others.sum(axis=1, keepdims=True)
    capped[rows, top] = 0.5
    return np.where(over[:, None], capped, shares)


def _prepare(F: ArrayLike, differences: ArrayLike) -> tuple[Floats, Floats]:
    F, delta = np.asarray(F, dtype=np.float64), np.asarray(differences, dtype=np.float64)
    for name, array, dims in (("F", F, (2, 3)), ("differences", delta, (3, 4))):
        if array.ndim not in dims or array.size == 0:
            wanted = "(n, M) or (T, n, M)" if name == "F" else "(J, n, M) or (J, T, n, M)"
            raise ValueError(f"{name} must have shape {wanted}, not {array.shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, but it holds a NaN or an infinity")
    F = F if F.ndim == 3 else F[None]
    delta = delta if delta.ndim == 4 else delta[:, None]
    if delta.shape[2:] != F.shape[1:] or (delta.shape[1] != 1 and F.shape[0] not in (1, delta.shape[1])):
        raise ValueError(
            f"differences must be (J, T, n, M), T = 1 or as in F, (T, n, M) = {F.shape}, not {delta.shape}"
        )
    return np.broadcast_to(F, (max(len(F), delta.shape[1]), *F.shape[1:])), delta


def _span_floors(F: Floats, differences: Floats) -> list[tuple[float, int]]:
    """At every t the least squared singular value of delta -> sum_m delta_m F_tm on the span and its rank."""
    bases = [_span_basis(differences[:, t]) for t in range(differences.shape[1])]
    floors = []
    for t, experts in enumerate(F):
        basis = bases[t % len(bases)]  # one for all times, or one each
        n, rank = len(experts), len(basis)
        if rank == 0:  # no difference at this time: nothing to show
            continue
        shown = np.einsum("rim,im->ri", basis, experts)
        values = np.linalg.svd(shown, compute_uv=False)
        floors.append((float(values[-1] ** 2) if rank <= n else 0.0, rank))
    return floors


def _span_basis(differences: Floats) -> Floats:
    """An orthonormal basis of the span, (rank, n, M), of differences (J, n, M)."""
    flat = differences.reshape(len(differences), -1)
    _, values, basis = np.linalg.svd(flat, full_matrices=False)
    kept: Floats = basis[values > RANK_TOL * values[0]]
    return kept.reshape(-1, *differences.shape[1:])
