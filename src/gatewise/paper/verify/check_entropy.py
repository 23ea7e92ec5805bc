"""`thm:metric_entropy` and the L2 covering of Top-K, checked on the sets that the proofs build."""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product

import numpy as np
from scipy.special import expit, softmax

from gatewise import theory
from gatewise.arrays import Floats
from gatewise.gates import LinearGate
from gatewise.nets import eta_net_size
from gatewise.paper.verify.check import Check, CheckOutcome, cube_grid, held_out_ratio
from gatewise.theory.entropy import least_slope


def constants(
    rng: np.random.Generator, quick: bool, law: Callable[[float, float], int] = theory.constant_covering
) -> CheckOutcome:
    """The fewest balls that cover [-R, R], counted from left to right in exact fractions."""
    grid = [Fraction(3, k) for k in range(1, 30)] + [
        Fraction(int(k), 97) for k in rng.integers(5, 1200, 50 if quick else 500)
    ]
    radius, wrong, open_more = Fraction(3), 0, 0
    for epsilon in grid:
        count, covered = 1, -radius + 2 * epsilon
        while covered < radius:
            count, covered = count + 1, covered + 2 * epsilon
        wrong += count != law(float(epsilon), 3.0)
        open_more += covered == radius  # the last end point is left out by open balls
    figure = f"{len(grid) - wrong} of {len(grid)} eps agree, up to 4R; open balls need one more at {open_more}"
    return CheckOutcome(figure, wrong == 0)


def softmax_cover(rng: np.random.Generator, quick: bool, sensitivity: float = 1.0) -> CheckOutcome:
    """Round functions of the class to the proof's net; the largest |h - h'| against eps and against R |z - z'|."""
    M, d, R, C1, epsilon = 3, 2, 2.0, 1.5, 0.3
    X = np.column_stack([cube_grid(d, 9), np.ones(81)])
    moved, steepest = 0.0, 0.0
    for _ in range(300 if quick else 5000):
        values, theta = rng.choice([-R, R], M) * rng.uniform(0.5, 1, M) ** 0.2, rng.uniform(-C1, C1, (M, d + 1))
        theta -= theta[-1]
        tied = theta * rng.uniform(0, 1)  # near equal scores the softmax map is steepest
        step = epsilon / (6 * sensitivity * R) / np.append(np.full(d, d), 1.0)
        shift = step * rng.choice([-1, 1], (M, d + 1)) * np.append(np.ones(M - 1), 0)[:, None]
        before, after = (softmax(X @ t.T, axis=1) for t in (tied, tied + shift))
        change = float(np.abs((after - before) @ values).max())
        moved = max(moved, (change + 2 * epsilon / 3) / epsilon)  # experts may move by eps/3 twice
        steepest = max(steepest, change / (R * float(np.abs(X @ shift.T).max())))
    pair = np.array([[0.5, -0.5], [0.501, -0.501]]) * 1e-3
    tight = abs(float(np.diff(softmax(pair, axis=1) @ [R, -R])[0])) / (R * float(np.abs(np.diff(pair, axis=0)).max()))
    steepest = max(steepest, tight)
    saved = (M - 1) * (d + 1) * np.log(4)
    figure = f"moved {moved:.3f} eps; |dh| / (R |dz|) up to {steepest:.3f}, not 4: log N less by {saved:.1f}"
    return CheckOutcome(figure, moved <= 1 + 1e-9 and steepest <= 1 + 1e-9 and steepest > 0.99)


def softmax_rank(
    rng: np.random.Generator, quick: bool, dimension: Callable[[int, int], int] = theory.softmax_dimension
) -> CheckOutcome:
    """Checks that the derivative of the map from parameters to functions has rank M + (M-1)(d+1).

    The log covering number then grows like this rank times log(1 / eps), the coefficient of the upper bound.
    """
    ranks, wanted = [], []
    for M, d in ((2, 1), (2, 3), (3, 2)) if quick else ((2, 1), (2, 3), (3, 1), (3, 2), (4, 3), (5, 2)):
        X = np.column_stack([rng.uniform(size=(400, d)), np.ones(400)])
        values, theta = rng.uniform(-1, 1, M), rng.normal(scale=10.0, size=(M, d + 1)) @ np.diag([1.0] * d + [0.2])
        weights = softmax(X @ theta.T, axis=1)
        slopes = weights * (values - (weights @ values)[:, None])  # dh / dz_m
        jacobian = np.hstack([weights, *(slopes[:, [m]] * X for m in range(M - 1))])
        singular = np.linalg.svd(jacobian, compute_uv=False)
        ranks.append(int((singular > 1e-11 * singular[0]).sum()))
        wanted.append(dimension(M, d))
    return CheckOutcome(f"ranks {ranks}, upper coefficients {wanted}", ranks == wanted)


def softmax_packing(
    rng: np.random.Generator, quick: bool, least: Callable[[float], float] = least_slope
) -> CheckOutcome:
    """The proof's grid of functions: their number, and the least distance between two of them."""
    closest, counts = np.inf, []
    for M, d, R, C1 in ((2, 1, 1.0, 1.0), (5, 1, 2.0, 0.7), (3, 2, 1.0, 0.5), (9, 1, 1.0, 1.5))[: 3 if quick else 4]:
        slope = least(2 * (d + 1) * C1 + np.log(M - 1))
        epsilon = 2 * R * slope * C1 / (3 * rng.uniform(4.1, 4.9))
        mesh = 3 * epsilon / (R * slope)
        axis = mesh * np.arange(int(2 * C1 / mesh) + 1)
        parameters = np.array(list(product(axis, repeat=d + 1)))
        X = np.column_stack([cube_grid(d, 3), np.ones(3**d)])
        functions = R * expit(parameters @ X.T - np.log(M - 1))
        gaps = [float(np.abs(f - g).max()) for f, g in combinations(functions, 2)]
        closest = min(closest, min(gaps) / (3 * epsilon))
        counts.append((len(functions), theory.softmax_packing(epsilon, M, d, R, C1)))
    figure = f"least distance {closest:.3f} x 3 eps; counts {[c for c, _ in counts]}"
    return CheckOutcome(figure, closest >= 1 - 1e-9 and all(have >= promised for have, promised in counts))


def _jump_family(M: int, k: int, swaps: int, t: Floats, x: Floats, sparse: bool) -> Floats:
    """h_t(x) with ``swaps`` experts at +R = 1 and as many at -1 that change places at t, (len(t), len(x))."""
    values = np.concatenate([np.ones(swaps), -np.ones(swaps), np.zeros(M - 2 * swaps)])
    gate = LinearGate(M, k=k if sparse else None)
    sign = np.concatenate([np.ones(swaps), -np.ones(swaps), np.zeros(M - 2 * swaps)])
    theta = np.stack([np.column_stack([sign, -sign * s]) for s in t])  # (T, M, 2)
    theta = theta[:, :-1] - theta[:, -1:]
    return np.asarray(gate.weights(x[:, None], theta) @ values)


def topk_jumps(rng: np.random.Generator, quick: bool, sparse: bool = True) -> CheckOutcome:
    """The 2R/K-separated family, and the wider one in which several experts change places at once."""
    t = np.sort(rng.uniform(0.01, 0.99, 20 if quick else 60))
    x = (t[:, None] + t[None, :])[np.triu_indices(t.size, 1)] / 2
    single, several = np.inf, np.inf
    for M, k in ((2, 1), (5, 2), (9, 4), (6, 4)):
        for swaps in sorted({1, min(k, M - k)}):
            h = _jump_family(M, k, swaps, t, x, sparse)
            least = min(float(np.abs(f - g).max()) for f, g in combinations(h, 2))
            ratio = least / theory.topk_separation(M, k, 1.0, swaps)
            single, several = (min(single, ratio), several) if swaps == 1 else (single, min(several, ratio))
    lone = _jump_family(2, 1, 1, t, x, sparse)
    figure = (
        f"least distance {single:.4f} x 2R/K, {several:.4f} x 2Rj/K with j swaps; "
        f"at K = 1, eps = R one ball is enough (sup |h| = {np.abs(lone).max():.0f} R)"
    )
    return CheckOutcome(figure, single >= 1 - 1e-9 and several >= 1 - 1e-9)


def topk_cover(rng: np.random.Generator, quick: bool, coarser: float = 1.0) -> CheckOutcome:
    """Round Top-K gates to the proof's Euclidean net: L2 distance against eta, the net's size against the law."""
    eta, r, box, moved = 0.5, 0.3, 1.0, 0.0
    X = rng.uniform(-1, 1, size=(4000, 2))
    for k in (1, 2):
        mesh = coarser * eta**2 / theory.topk_modulus(1.0, 3, r, np.sqrt(3), np.sqrt(2)) ** 2
        for _ in range(40 if quick else 400):
            theta = rng.uniform(-box, box, (2, 3))
            slopes = np.vstack([theta[:, :2], np.zeros(2)])
            if min(float(np.linalg.norm(a - b)) for a, b in combinations(slopes, 2)) < r:
                continue
            near = theta + rng.choice([-1, 1], theta.shape) * mesh / np.sqrt(theta.size)
            difference = LinearGate(3, k=k).weights(X, theta) - LinearGate(3, k=k).weights(X, near)
            moved = max(moved, float(np.sqrt((difference**2).sum(axis=1).mean())))
    sizes, laws = [], []
    for M, d, target, gap in product((8, 16, 32, 64), (1, 2, 4), (0.3, 0.03), (0.5, 0.01)):
        params = (M - 1) * (d + 1)
        mesh = target**2 / theory.topk_modulus(1.0, M, gap, np.sqrt(d + 1), 2.0) ** 2
        per_axis = eta_net_size(1, mesh / np.sqrt(params), np.log(M))  # the net's points along one axis
        sizes.append(float(per_axis))
        laws.append(np.exp(theory.topk_log_covering(target, M, d, gap) / params))
    ratio = held_out_ratio(sizes, laws)
    figure = f"moved {moved / eta:.3f} eta; S^(1/D) on larger M {ratio:.3f} x the law fitted on smaller M"
    return CheckOutcome(figure, moved <= eta and ratio <= 1.1)


CHECKS = (
    Check("thm:metric_entropy (i)", "balls that cover the constants", "= ceil(R/eps) for every eps", constants),
    Check(
        "thm:metric_entropy (ii)",
        "functions rounded to the net, s = 1 for 4",
        "<= eps; |dh| <= R |dz|, sharp",
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
        "Top-K gates rounded to the net, its size",
        "<= eta; size within the law, C from half",
        topk_cover,
    ),
)
