"""`thm:metric_entropy` and the L2 covering of Top-K, checked on the sets that the proofs build."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np

from gatewise import theory
from gatewise.arrays import Floats
from gatewise.gates import LinearGate
from gatewise.geometry import slope_separation
from gatewise.nets import eta_net, ProductNet
from gatewise.paper.verify.check import Check, CheckOutcome, cube_grid
from gatewise.theory.entropy import least_slope


def constants(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """The fewest balls that cover [-R, R], counted from left to right in exact fractions."""
    grid = [Fraction(3, k) for k in range(1, 30)] + [
        Fraction(int(k), 97) for k in rng.integers(5, 1200, 50 if quick else 500)
    ]
    radius, wrong, open_more = Fraction(3), 0, 0
    for epsilon in grid:
        count, covered = 1, -radius + 2 * epsilon
        while covered < radius:
            count, covered = count + 1, covered + 2 * epsilon
        wrong += count != theory.constant_covering(float(epsilon), 3.0)
        open_more += covered == radius  # the last end point is left out by open balls
    figure = f"{len(grid) - wrong} of {len(grid)} eps agree, up to 4R; open balls need one more at {open_more}"
    return CheckOutcome(figure, wrong == 0)


def _proof_net(epsilon: float, R: float, C1: float, sensitivity: float) -> ProductNet:
    """The net of the proof for M = 3, d = 1: the last value, two differences of values, two slopes and intercepts.

    Every axis is cut into as many equal cells as the proof counts; the net holds their centres.
    """
    scores = 12 * sensitivity * R * C1 / epsilon
    axes = [(R, 3 * R / epsilon), *[(2 * R, 6 * R / epsilon)] * 2, *[(2 * C1, scores)] * 4]
    parts = []
    for reach, cells in axes:
        count = int(np.ceil(cells))
        parts.append(reach * ((2 * np.arange(count) + 1) / count - 1))
    return ProductNet(parts, (1, len(parts)))


def _functions(gate: LinearGate, points: Floats, X: Floats) -> Floats:
    """h(x) = f_M + sum_m g_m(x) (f_m - f_M) of points (S, 7) of the net, (S, n)."""
    weights = gate.weights(X, points[:, 3:].reshape(-1, 2, 2))
    return np.asarray(points[:, [0]] + np.einsum("snm,sm->sn", weights[:, :, :2], points[:, 1:3]))


def _moved(net: ProductNet, gate: LinearGate, points: Floats, X: Floats) -> float:
    """The largest sup distance between functions and those of the nearest points of the net, axis by axis."""
    digits = [np.abs(points[:, [j]] - part[:, 0]).argmin(axis=1) for j, part in enumerate(net.parts)]
    nearest = net.theta(np.ravel_multi_index(digits, [len(part) for part in net.parts]))[:, 0]
    return float(np.abs(_functions(gate, points, X) - _functions(gate, nearest, X)).max())


def softmax_cover(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Functions rounded to the proof's net with s = 1: random ones, and the corner where all terms add up.

    The corner has experts 1 and 2 tied far above the reference, values R and -R, and every parameter at the edge of
    its cell, so that the three errors of eps / 3 have one sign.
    """
    R, C1, epsilon, X = 2.0, 1.5, 1.0, cube_grid(1, 33)
    net, gate = _proof_net(epsilon, R, C1, 1.0), LinearGate(3)
    counts = [theory.softmax_covering(epsilon, 3, 1, R, C1, sensitivity) for sensitivity in (1.0, 4.0)]
    size = 500 if quick else 20_000
    values, theta = rng.uniform(-R, R, (size, 3)), rng.uniform(-2 * C1, 2 * C1, (size, 4))
    random = np.column_stack([values[:, 2], values[:, :2] - values[:, [2]], theta])
    at = (0.0, R, -R, 2 * C1, 2 * C1, 2 * C1, 2 * C1)
    centre = np.array([part[np.abs(part[:, 0] - v).argmin(), 0] for part, v in zip(net.parts, at, strict=True)])
    cells = np.array([part[1, 0] - part[0, 0] for part in net.parts])
    corner = centre + 0.4999999 * cells * np.array([1, 1, 1, 1, 1, -1, -1])
    moved = [_moved(net, gate, points, X) / epsilon for points in (random, corner[None])]
    figure = (
        f"moved {moved[0]:.3f} eps at random, {moved[1]:.3f} at the corner; the net has {net.size:.1e} points "
        f"with s = 1, {counts[1]:.1e} with the paper's 4"
    )
    return CheckOutcome(figure, max(moved) <= 1 + 1e-9 and moved[1] > 0.9 and net.size == counts[0])


def softmax_rank(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Checks that the derivative of the map from parameters to functions has rank M + (M-1)(d+1).

    The log covering number then grows like this rank times log(1 / eps), the coefficient of the upper bound.
    """
    ranks, wanted = [], []
    for M, d in ((2, 1), (2, 3), (3, 2)) if quick else ((2, 1), (2, 3), (3, 1), (3, 2), (4, 3), (5, 2)):
        X = rng.uniform(size=(400, d))
        features = np.column_stack([X, np.ones(400)])
        values, theta = rng.uniform(-1, 1, M), rng.normal(scale=10.0, size=(M, d + 1)) @ np.diag([1.0] * d + [0.2])
        weights = LinearGate(M).weights(X, theta[:-1] - theta[-1])
        slopes = weights * (values - (weights @ values)[:, None])  # dh / dz_m
        jacobian = np.hstack([weights, *(slopes[:, [m]] * features for m in range(M - 1))])
        singular = np.linalg.svd(jacobian, compute_uv=False)
        ranks.append(int((singular > 1e-11 * singular[0]).sum()))
        wanted.append(theory.softmax_dimension(M, d))
    return CheckOutcome(f"ranks {ranks}, upper coefficients {wanted}", ranks == wanted)


def softmax_packing(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """The proof's grid of functions: their number, and the least distance between two of them."""
    closest, counts = np.inf, []
    for M, d, R, C1 in ((2, 1, 1.0, 1.0), (5, 1, 2.0, 0.7), (3, 2, 1.0, 0.5), (9, 1, 1.0, 1.5))[: 3 if quick else 4]:
        slope = least_slope(2 * (d + 1) * C1 + np.log(M - 1))
        epsilon = 2 * R * slope * C1 / (3 * rng.uniform(4.1, 4.9))
        mesh = 3 * epsilon / (R * slope)
        axis = mesh * np.arange(int(2 * C1 / mesh) + 1)
        theta = np.zeros(((axis.size) ** (d + 1), M - 1, d + 1))
        theta[:, 0] = np.array(list(product(axis, repeat=d + 1)))  # expert 1 against M - 1 with score 0
        functions = R * LinearGate(M).weights(cube_grid(d, 3), theta)[:, :, 0]
        gaps = [float(np.abs(f - g).max()) for f, g in combinations(functions, 2)]
        closest = min(closest, min(gaps) / (3 * epsilon))
        counts.append((len(functions), theory.softmax_packing(epsilon, M, d, R, C1)))
    figure = f"least distance {closest:.3f} x 3 eps; counts {[c for c, _ in counts]}"
    return CheckOutcome(figure, closest >= 1 - 1e-9 and all(have == promised for have, promised in counts))


def _jump_family(M: int, k: int, swaps: int, t: Floats, x: Floats) -> Floats:
    """h_t(x) with ``swaps`` experts at +R = 1 and as many at -1 that change places at t, (len(t), len(x))."""
    values = np.concatenate([np.ones(swaps), -np.ones(swaps), np.zeros(M - 2 * swaps)])
    theta = np.stack([np.column_stack([values, -values * s]) for s in t])  # (T, M, 2)
    return np.asarray(LinearGate(M, k=k).weights(x[:, None], theta[:, :-1] - theta[:, -1:]) @ values)


def topk_jumps(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """The 2R/K-separated family, and the wider one in which several experts change places at once."""
    t = np.sort(rng.uniform(0.01, 0.99, 20 if quick else 60))
    x = (t[:, None] + t[None, :])[np.triu_indices(t.size, 1)] / 2
    single, several = np.inf, np.inf
    for M, k in ((2, 1), (5, 2), (9, 4), (6, 4)):
        for swaps in sorted({1, min(k, M - k)}):
            h = _jump_family(M, k, swaps, t, x)
            least = min(float(np.abs(f - g).max()) for f, g in combinations(h, 2))
            ratio = least / theory.topk_separation(M, k, 1.0, swaps)
            single, several = (min(single, ratio), several) if swaps == 1 else (single, min(several, ratio))
    lone = _jump_family(2, 1, 1, t, x)
    figure = (
        f"least distance {single:.4f} x 2R/K, {several:.4f} x 2Rj/K with j swaps; "
        f"at K = 1, eps = R one ball is enough (sup |h| = {np.abs(lone).max():.0f} R)"
    )
    return CheckOutcome(figure, single >= 1 - 1e-9 and several >= 1 - 1e-9)


def _separated_list(rng: np.random.Generator, gate: LinearGate, r: float, box: float, count: int) -> Floats:
    """Random parameters on one feature, (count, M - 1, 2), whose slopes are r apart."""
    theta = rng.uniform(-box, box, (20 * count, gate.n_experts - 1, 2))
    return np.asarray(theta[gate.separation(theta) >= r][:count])


def _balls(gates: Floats, eta: float) -> int:
    """How many balls of radius eta around members, chosen in turn, cover a list of gates (S, n, M) in L2."""
    flat = gates.reshape(len(gates), -1) / np.sqrt(gates.shape[1])
    square = (flat**2).sum(axis=1)
    left, count = np.ones(len(flat), dtype=bool), 0
    while left.any():
        center = int(np.argmax(left))
        left &= square + square[center] - 2 * flat @ flat[center] > eta**2 + 1e-12
        count += 1
    return count


def topk_cover(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Top-K gates rounded to the eta-net of their parameters, and how many balls a list of them really needs.

    X is uniform on [-1, 1]. The law is that of the remark with the constant C = 2, which the proof gives here.
    """
    r, box, X = 0.3, float(np.log(3)), np.linspace(-1, 1, 401)[:, None]
    moved, logs, laws = 0.0, [], []
    for M, k in ((2, 1), (3, 1), (3, 2)):
        gate, eta = LinearGate(M, k=k), 0.7
        thetas = _separated_list(rng, gate, r, box, 300 if quick else 2000)
        net = eta_net((M - 1, 2), eta**2 / theory.topk_modulus(1.0, M, r, np.sqrt(2), 1.0) ** 2, box)
        axis = net.parts[0][:, 0]
        digits = np.abs(thetas.reshape(len(thetas), -1, 1) - axis).argmin(axis=2)
        near = net.theta(np.ravel_multi_index(tuple(digits.T), [axis.size] * digits.shape[1]))
        apart = gate.weights(X, thetas) - gate.weights(X, near)
        moved = max(moved, float(np.sqrt((apart**2).sum(axis=2).mean(axis=1).max())) / eta)
        gates = gate.weights(X[::4], thetas)
        for radius in (0.7, 0.5, 0.35):
            logs.append(np.log(_balls(gates, radius)))
            laws.append(
                theory.topk_log_covering(radius, M, 1, min(slope_separation(gate, thetas[0], 1), r), constant=2)
            )
    ratio = float((np.array(logs) / laws).max())
    figure = f"moved {moved:.3f} eta; log of the balls needed at most {ratio:.3f} of the law"
    return CheckOutcome(figure, moved <= 1 and 0.1 < ratio <= 1)


CHECKS = (
    Check("thm:metric_entropy (i)", "balls that cover the constants", "= ceil(R/eps) for every eps", constants),
    Check(
        "thm:metric_entropy (ii)",
        "functions rounded to the net, s = 1 for 4",
        "<= eps, reached; as many points as stated",
        softmax_cover,
    ),
    Check(
        "thm:metric_entropy (ii)",
        "rank of parameters -> function",
        "= M + (M-1)(d+1), upper coefficient",
        softmax_rank,
    ),
    Check(
        "thm:metric_entropy (ii)", "distances in the proof's packing", ">= 3 eps, as many as stated", softmax_packing
    ),
    Check(
        "thm:metric_entropy (iii)", "distances between Top-K functions", ">= 2Rj/K for j <= min(K, M-K)", topk_jumps
    ),
    Check(
        "remark:topk-l2-covering",
        "Top-K gates rounded to the net; balls needed",
        "<= eta; log N <= the law with C = 2",
        topk_cover,
    ),
)
