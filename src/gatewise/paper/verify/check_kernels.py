"""Section 5.3 checked: Gaussian tails on a grid, and the kernel gate's losses over the mesh."""

from itertools import product

import numpy as np

from gatewise import theory
from gatewise.arrays import Floats, Indices
from gatewise.gates import KernelGate
from gatewise.geometry import assignment_loss, boundary_regularity, oracle_kernel_gate, RegionMap, unit_cube
from gatewise.paper.verify.check import Check, CheckOutcome, gauss_nodes, held_out_ratio, slope

KAPPA, RADIUS = 0.75, 0.3


def grid_tail(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Checks that the sum of Gaussian kernels over all centres farther than r from x is below the explicit bound.

    The kernels are the gate's features, scaled so that the nearest centre's is exp(-|x - c|^2 / (2 sigma^2)); x and r
    are random in one to three dimensions, r near the least 2 sigma, where the sum is largest against the bound.
    """
    sharp: dict[int, float] = {}
    for d, kappa in product((1, 2, 3), (0.5, 0.75, 1.0)):
        gate = KernelGate(2, mesh=0.125, kappa=kappa)
        centers, sigma = gate.centers(d), gate.bandwidth
        X = rng.uniform(0.3, 0.7, (60 if quick else 500, d))
        distance = np.linalg.norm(X[:, None] - centers, axis=2)
        features, rows = gate.features(X), np.arange(len(X))
        nearest = distance.argmin(axis=1)
        kernels = (
            features * (np.exp(-0.5 * (distance[rows, nearest] / sigma) ** 2) / features[rows, nearest])[:, None]
        )
        for r in sigma * np.concatenate([[2.0], rng.uniform(2.0, 3.5, 4)]):
            total = np.where(distance >= r, kernels, 0.0).sum(axis=1).max()
            ratio = float(total / np.exp(-((r / sigma) ** 2) / 4)) / theory.grid_tail_constant(d, kappa)
            sharp[d] = max(sharp.get(d, 0.0), ratio)
    shown = ", ".join(f"{ratio:.3f} at d = {d}" for d, ratio in sharp.items())
    return CheckOutcome(f"the sharp constant is {shown} of the stated", max(sharp.values()) <= 1 and sharp[1] > 0.05)


def _inside(X: Floats, center: Floats) -> Indices:
    """0 in the disk around the centre and 1 outside of it."""
    return np.asarray(np.linalg.norm(X - center, axis=1) > RADIUS).astype(np.intp)


def _circle_loss(h: float, targets: Floats, center: Floats, layer: tuple[float, float]) -> float:
    """The oracle kernel gate's loss for a disk in the unit square, over points at such a distance from its circle.

    The nodes are polar: Gauss nodes in the radius, on both sides of the circle, and even angles.
    """
    built = oracle_kernel_gate(lambda X: _inside(X, center), 2, h, targets, KAPPA)
    angle, total = 2 * np.pi * (np.arange(64) + 0.5) / 64, 0.0
    for low, high in ((-layer[1], -layer[0]), layer):
        u, w = gauss_nodes(low, high, 24)
        X = center + np.stack([np.outer(RADIUS + u, trig(angle)).ravel() for trig in (np.cos, np.sin)], axis=1)
        mass = np.repeat(w * (RADIUS + u) * 2 * np.pi / 64, 64)
        found = assignment_loss(built.weights(X), _inside(X, center), targets, mass=mass)
        total += float(mass.sum()) * found.value
    return total


def global_loss(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """The loss of the oracle kernel gate for random weights inside and outside a circle, over the mesh.

    Gamma of the law is that of the partition, measured: gamma_1 = gamma_2 = 2 pi r up to the circle's curvature.
    """
    meshes = 1 / np.array([8, 12, 16, 24, 32] if quick else [8, 12, 16, 24, 32, 48, 64])
    losses, draws = np.zeros(meshes.size), 2 if quick else 8
    for _ in range(draws):
        targets, center = rng.dirichlet(np.ones(3), size=2), 0.5 + rng.uniform(-0.02, 0.02, 2)
        losses += [_circle_loss(h, targets, center, (0.0, min(0.18, 5 * h))) / draws for h in meshes]
    gamma = boundary_regularity(lambda X: _inside(X, np.array([0.5, 0.5])), unit_cube(2), 0.1, n_samples=4000).total
    laws = [theory.kernel_loss(h, 3, 2, boundary=gamma) for h in meshes]
    rate, ratio = slope(meshes, losses), held_out_ratio(losses, laws)
    figure = (
        f"exponent in h {rate:.3f}; loss on finer meshes {ratio:.2f} x law fitted on coarser ones; "
        f"sharp C {float((losses / laws).max()):.3f}, Gamma {gamma / (4 * np.pi * RADIUS):.2f} x 4 pi r"
    )
    return CheckOutcome(
        figure, abs(rate - 1) < 0.12 and ratio <= 1.05 and abs(gamma / (4 * np.pi * RADIUS) - 1) < 0.25
    )


def interior_loss(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """The loss farther than rho = 0.15 from the circle: -log loss over 1/h^2."""
    rho, draws = 0.15, 2 if quick else 10
    meshes = np.linspace(0.65, 0.35, 6) * theory.interior_mesh_limit(2, rho, KAPPA)
    losses = np.zeros(meshes.size)
    for _ in range(draws):
        center = 0.5 + rng.uniform(-0.02, 0.02, 2)
        losses += [_circle_loss(h, np.eye(2), center, (rho, 0.18)) / draws for h in meshes]
    rate = float(np.polyfit(meshes**-2, -np.log(losses), 1)[0]) * KAPPA**2 / rho**2
    ratio = held_out_ratio(losses, [theory.kernel_interior_loss(h, 2, 2, rho, KAPPA) for h in meshes])
    figure = (
        f"-log loss grows like {rate:.3f} rho^2 / (kappa h)^2, stated 1/2, sharp 1; finer meshes {ratio:.1e} x law "
        "fitted on coarser ones"
    )
    return CheckOutcome(figure, 0.85 <= rate <= 1.3 and ratio <= 1.0)


def resolution(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Checks that the loss of the kernel gate for M stripes on [0, 1], with mesh M^-2, falls like 1 / M."""
    counts, losses = np.array([8, 12, 16, 24] if quick else [8, 12, 16, 24, 32, 48]), []
    for M in counts:
        n = 4000 if quick else 30_000
        x = ((np.arange(n) + rng.uniform()) / n)[:, None]
        built = oracle_kernel_gate(_stripes(int(M)), 1, float(M) ** -2, np.eye(M), KAPPA)
        losses.append(assignment_loss(built.weights(x), _stripes(int(M))(x)).value)
    rate, ratio = slope(counts, losses), held_out_ratio(losses, np.sqrt(np.log(counts)) / counts)
    figure = f"exponent in M {rate:.3f}; larger M {ratio:.2f} x law fitted on smaller M"
    return CheckOutcome(figure, abs(rate + 1) < 0.12 and ratio <= 1.05)


def _stripes(M: int) -> RegionMap:
    """M stripes of equal width on [0, 1]."""
    return lambda X: np.minimum((np.asarray(X)[:, 0] * M).astype(np.intp), M - 1)


CHECKS = (
    Check("lem:supp-grid-tail", "Gaussian tails over a lattice", "<= A exp(-r^2/(4 sigma^2)), A explicit", grid_tail),
    Check(
        "thm:kernel-global-main",
        "loss of the kernel gate at a circle over h",
        "h^1 +- 0.12; <= law, C from half; Gamma +- 25 %",
        global_loss,
    ),
    Check(
        "cor:kernel-interior-main",
        "its loss away from the circle over h",
        "-log loss >= rho^2/(2 kappa^2 h^2)",
        interior_loss,
    ),
    Check(
        "thm:kernel-global-main (remark)",
        "M stripes with h = M^-2",
        "M^-1 +- 0.12; <= sqrt(log M)/M, C from half",
        resolution,
    ),
)
