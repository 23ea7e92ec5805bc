"""Section 5.3 checked: Gaussian tails on a grid, and the kernel gate's losses over the mesh."""

from collections.abc import Callable
from itertools import product

import numpy as np

from gatewise import theory
from gatewise.arrays import Floats
from gatewise.gates import KernelGate
from gatewise.paper.verify.check import Check, CheckOutcome, held_out_ratio, slope

KAPPA = 0.75


def grid_tail(
    rng: np.random.Generator, quick: bool, constant: Callable[[int, float], float] = theory.grid_tail_constant
) -> CheckOutcome:
    """Checks that the sum of Gaussian kernels over all grid points farther than r from x is below the explicit bound.

    x and r are random, in one to three dimensions; the figure is the largest quotient sum / bound.
    """
    largest = 0.0
    for d, kappa in product((1, 2, 3), (0.5, 0.75, 1.0)):
        reach = 7 if d < 3 else 5
        lattice = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * d), axis=-1).reshape(-1, d)
        for _ in range(100 if quick else 1500):  # in units of h; the lattice is larger than the cube's part of it
            distance = np.linalg.norm(lattice - rng.uniform(-0.5, 0.5, d), axis=1)
            r = kappa * rng.uniform(2.0, 3.5)
            total = np.exp(-(distance[distance >= r] ** 2) / (2 * kappa**2)).sum()
            largest = max(largest, float(total / np.exp(-(r**2) / (4 * kappa**2))) / constant(d, kappa))
    return CheckOutcome(f"largest sum / bound {largest:.4f}", largest <= 1)


def _circle_losses(
    h: float,
    bandwidth: float,
    targets: Floats,
    center: Floats,
    margin: float,
    flips: float = 0.0,
    rng: np.random.Generator | None = None,
) -> tuple[float, float]:
    """Global and interior loss of the oracle kernel gate for a disk in the unit square, by the midpoint rule."""
    gate = KernelGate(2, mesh=h, kappa=0.75)
    axis = (np.arange(300) + 0.5) / 300
    centers = gate.centers(1)[:, 0]
    # The kernel is a product over coordinates, so the gate on a grid is a product of two small matrices.
    log_kernel = -0.5 * ((axis[:, None] - centers) / bandwidth) ** 2
    kernel = np.exp(log_kernel - log_kernel.max(axis=1, keepdims=True))
    kernel /= kernel.sum(axis=1, keepdims=True)
    own = (np.hypot(centers[:, None] - center[0], centers - center[1]) <= 0.3).astype(float)
    if rng is not None:
        own = np.where(rng.uniform(size=own.shape) < flips, 1 - own, own)
    weight = kernel @ own @ kernel.T  # the weight of centres inside the disk
    radius = np.hypot(axis[:, None] - center[0], axis - center[1])
    missed = np.where(radius <= 0.3, 1 - weight, weight) ** 2 * ((targets[0] - targets[1]) ** 2).sum()
    return float(missed.mean()), float(np.where(np.abs(radius - 0.3) >= margin, missed, 0.0).mean())


def global_loss(
    rng: np.random.Generator, quick: bool, bandwidth: Callable[[float], float] = lambda h: KAPPA * h
) -> CheckOutcome:
    """The loss of the oracle kernel gate for random weights inside and outside a circle, over the mesh."""
    meshes = 1 / np.array([8, 12, 16, 24, 32, 48, 64])
    losses, draws = np.zeros(meshes.size), 4 if quick else 20
    for _ in range(draws):
        targets, center = rng.dirichlet(np.ones(3), size=2), 0.5 + rng.uniform(-0.1, 0.1, 2)
        losses += [_circle_losses(h, bandwidth(h), targets, center, 0.1)[0] / draws for h in meshes]
    laws = [theory.kernel_loss(h, 3, 2, boundary=4 * np.pi * 0.3) for h in meshes]
    rate, ratio = slope(meshes, losses), held_out_ratio(losses, laws)
    figure = f"exponent in h {rate:.3f}; loss on finer meshes {ratio:.2f} x law fitted on coarser ones"
    return CheckOutcome(figure, abs(rate - 1) < 0.12 and ratio <= 1.05)


def interior_loss(rng: np.random.Generator, quick: bool, flips: float = 0.0) -> CheckOutcome:
    """The loss farther than rho = 0.15 from the circle: -log loss over 1/h^2."""
    rho, draws = 0.15, 3 if quick else 20
    meshes = np.linspace(0.65, 0.35, 6) * theory.interior_mesh_limit(2, rho, KAPPA)
    losses = np.zeros(meshes.size)
    for _ in range(draws):
        center = 0.5 + rng.uniform(-0.02, 0.02, 2)
        losses += [_circle_losses(h, KAPPA * h, np.eye(2), center, rho, flips, rng)[1] / draws for h in meshes]
    rate = float(np.polyfit(meshes**-2, -np.log(losses), 1)[0]) * KAPPA**2 / rho**2
    ratio = held_out_ratio(losses, [theory.kernel_interior_loss(h, 2, 2, rho, KAPPA) for h in meshes])
    figure = (
        f"-log loss grows like {rate:.3f} rho^2 / (kappa h)^2; finer meshes {ratio:.1e} x law fitted on coarser ones"
    )
    return CheckOutcome(figure, rate >= 0.5 and ratio <= 1.0)


def resolution(rng: np.random.Generator, quick: bool, power: float = 2.0) -> CheckOutcome:
    """Checks that the loss of the kernel gate for M stripes on [0, 1], with mesh M^-2, falls like 1 / M."""
    counts, losses = np.array([8, 12, 16, 24, 32, 48]), []
    for M in counts:
        h = float(M) ** -power
        gate = KernelGate(2, mesh=h, kappa=KAPPA)
        centers = gate.centers(1)[:, 0]
        x = (np.arange(8000 if quick else 40_000) + rng.uniform()) / (8000 if quick else 40_000)
        own, of_center = (np.minimum((v * M).astype(int), M - 1) for v in (x, centers))
        loss = 0.0
        for part in np.array_split(np.arange(x.size), x.size // 1000):
            features = gate.features(x[part, None])
            weights = np.stack([features[:, of_center == m].sum(axis=1) for m in range(M)], axis=1)
            loss += float(((weights - np.eye(M)[own[part]]) ** 2).sum())
        losses.append(loss / x.size)
    rate, ratio = slope(counts, losses), held_out_ratio(losses, np.sqrt(np.log(counts)) / counts)
    return CheckOutcome(
        f"exponent in M {rate:.3f}; larger M {ratio:.2f} x law fitted on smaller M",
        abs(rate + 1) < 0.12 and ratio <= 1.05,
    )


CHECKS = (
    Check("lem:supp-grid-tail", "Gaussian tails over a lattice", "<= A exp(-r^2/(4 sigma^2)), A explicit", grid_tail),
    Check(
        "thm:kernel-global-main",
        "loss of the kernel gate at a circle over h",
        "h^1 +- 0.12; <= law, C from half",
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
