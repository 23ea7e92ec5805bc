"""The aggregation of `alg:general` over a product net for three experts, written for the tests of the particles.

Every candidate is visited; its log weight runs along the stream, and sums over candidates are kept for every
observation against a fixed reference. No array of all candidates is made.
"""

from itertools import product

import numpy as np

from gatewise.kernels.compiled import compiled_fma
from gatewise.kernels.simd.exponential import exp_nonpositive

TILE = 64
MARGIN, SKIP = 60.0, -110.0


@compiled_fma
def _residuals(E1, A1, E2, A2, miss, i, first, t, out):
    numerator, denominator = A1[t, i] + miss[t], E1[t, i] + 1.0
    for lane in range(TILE):
        out[lane] = (numerator + A2[t, first + lane]) / (denominator + E2[t, first + lane])


@compiled_fma
def _calibrate(E1, A1, E2, A2, miss, i, first, n_cal, low, high, r, s):
    s[:] = 0.0
    for t in range(n_cal):
        _residuals(E1, A1, E2, A2, miss, i, first, t, r)
        for lane in range(TILE):
            s[lane] += r[lane] * r[lane]
    for lane in range(TILE):
        s[lane] = min(max(np.sqrt(s[lane] / n_cal), low), high)


@compiled_fma
def _sweep(E1, A1, E2, A2, miss, y, n_cal, sigma, low, high, reference, start, stop):
    """Sums over candidates with first factor start..stop-1: of weights, and of weights times predictions."""
    n = y.size - n_cal
    mass, moment = np.zeros(n + 1), np.zeros(n)
    r, w, lw, s = np.zeros(TILE), np.zeros(TILE), np.zeros(TILE), np.full(TILE, sigma)
    for i in range(start, stop):
        for first in range(0, E2.shape[1], TILE):
            if n_cal > 0:
                _calibrate(E1, A1, E2, A2, miss, i, first, n_cal, low, high, r, s)
            lw[:] = 0.0
            log_s = np.log(s)
            for t in range(n):
                _residuals(E1, A1, E2, A2, miss, i, first, n_cal + t, r)
                shift = reference[t] + MARGIN
                alive = 0
                for lane in range(TILE):
                    alive += 1 if lw[lane] - shift > SKIP else 0
                if alive:
                    for lane in range(TILE):
                        w[lane] = exp_nonpositive(lw[lane] - shift)
                    for lane in range(TILE):
                        mass[t] += w[lane]
                        moment[t] += w[lane] * (y[n_cal + t] - r[lane])
                for lane in range(TILE):
                    z = r[lane] / s[lane]
                    lw[lane] -= 0.5 * z * z + log_s[lane]
    return mass, moment


def net_predictions(values, features, y, F, *, sigma=1.0, n_cal=0, low=0.0, high=np.inf, n_threads=2):
    """Online predictions (n - n_cal,) of the net values^(2p), Gaussian noise, three experts.

    The scale is known (sigma), or each candidate's on the first n_cal rows, clipped to [low, high].
    """
    from concurrent.futures import ThreadPoolExecutor

    p = features.shape[1]
    factor = np.array(list(product(values, repeat=p)))  # (G, p)
    assert len(factor) % TILE == 0
    E = np.exp(features @ factor.T)  # (n, G)
    A1, A2 = E * (y - F[:, 0])[:, None], E * (y - F[:, 1])[:, None]
    miss = y - F[:, 2]
    reference = _reference(E, A1, A2, miss, n_cal, sigma, low, high)
    args = (E, A1, E, A2, miss, y, n_cal, sigma, low, high, reference)
    edges = np.linspace(0, len(factor), 17).astype(int)
    with ThreadPoolExecutor(n_threads) as pool:
        parts = list(pool.map(lambda a, b: _sweep(*args, a, b), edges[:-1], edges[1:]))
    mass = sum(part[0] for part in parts)[:-1]
    return sum(part[1] for part in parts) / mass


def _reference(E, A1, A2, miss, n_cal, sigma, low, high):
    """The largest log weight among 20,000 random candidates before each observation: near the largest of all."""
    rng = np.random.default_rng(0)
    i, j = rng.integers(0, E.shape[1], (2, 20_000))
    r = (A1[:, i] + A2[:, j] + miss[:, None]) / (E[:, i] + E[:, j] + 1.0)
    s = np.clip(np.sqrt((r[:n_cal] ** 2).mean(axis=0)), low, high) if n_cal else np.full(i.size, sigma)
    log_density = -0.5 * (r[n_cal:] / s) ** 2 - np.log(s)
    return np.concatenate([[0.0], np.cumsum(log_density, axis=0).max(axis=1)[:-1]])
