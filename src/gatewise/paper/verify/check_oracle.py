"""The oracle inequalities end to end: Algorithm `alg:general` run on known experts over growing samples."""

from collections.abc import Callable

import numpy as np

from gatewise import theory
from gatewise.aggregation import after
from gatewise.aggregation.scales import clipped_scale
from gatewise.arrays import Floats
from gatewise.gates import LinearGate
from gatewise.nets import eta_net
from gatewise.paper.verify.check import Check, CheckOutcome, gauss_nodes, held_out_ratio, slope

BOX, NOISE, SEPARATION = 2.0, 0.2, 0.5
X_NODES, X_WEIGHTS = gauss_nodes(-1.0, 1.0, 48)
BLOCK = 128  # observations whose weights are held at a time


def online_risk(
    curves: Callable[[Floats], Floats],
    truth: Callable[[Floats], Floats],
    n: int,
    rng: np.random.Generator,
    weigh: Callable[[Floats, Floats], Floats] = after,
) -> float:
    """The mean over the aggregation block of |f^t - f_0|^2; curves maps x (n,) to all candidates, (S, n)."""
    n_2 = n_3 = n // 3
    x = rng.uniform(-1.0, 1.0, n_2 + n_3)
    y = truth(x) + NOISE * rng.normal(size=x.size)
    residual = y - curves(x)  # (S, n_2 + n_3)
    scale = clipped_scale(residual[:, :n_2].T, NOISE / 2, NOISE * 2)  # (S,)
    log_density = (-0.5 * (residual[:, n_2:] / scale[:, None]) ** 2 - np.log(scale)[:, None]).T  # (n_3, S)
    errors = curves(X_NODES) - truth(X_NODES)
    log_weights, total = np.zeros(len(scale)), 0.0  # AFTER goes on from the weights that a block left
    for at in range(0, n_3, BLOCK):
        block = log_density[at : at + BLOCK]
        weights = weigh(block, log_weights)[:-1]
        log_weights = log_weights + block.sum(axis=0)
        total += float((((weights @ errors) ** 2) @ X_WEIGHTS).sum()) / 2
    return total / n_3


def _risk_curve(
    k: int | None, meshes: list[float], sizes: Floats, reps: int, rng: np.random.Generator, **broken: object
) -> Floats:
    gate = LinearGate(2, k=k)
    truth_theta = np.array([[1.3, -0.4]])
    values = np.array([1.0, -1.0])
    risks = []
    for n, mesh in zip(sizes, meshes, strict=True):
        net = eta_net((1, 2), mesh, BOX)
        thetas = np.concatenate(list(net.blocks()))

        def curves(x: Floats, thetas: Floats = thetas) -> Floats:
            return np.asarray(gate.weights(x[:, None], thetas) @ values)

        def truth(x: Floats) -> Floats:
            return np.asarray(gate.weights(x[:, None], truth_theta) @ values)

        risks.append(np.mean([online_risk(curves, truth, int(n), rng, **broken) for _ in range(reps)]))  # type: ignore[arg-type]
    return np.array(risks)


def dense_oracle(rng: np.random.Generator, quick: bool, **broken: object) -> CheckOutcome:
    """Dense softmax, truth inside the class, mesh 6 / (M sqrt(n)): the risk over n against (Md/n) log(Mdn)."""
    sizes = np.array([200, 400, 800, 1600] if quick else [300, 600, 1200, 2400, 4800])
    meshes = [theory.dense_mesh(2, int(n), constant=6.0) for n in sizes]
    risks = _risk_curve(None, meshes, sizes, 16 if quick else 30, rng, **broken)
    return _judge(risks, sizes, np.array([theory.dense_cost(2, 1, int(n)) for n in sizes]))


def sparse_oracle(rng: np.random.Generator, quick: bool, **broken: object) -> CheckOutcome:
    """Top-1, truth inside the class, mesh 150 sqrt(d) r / (n_3 M^2): the risk over n against the sparse cost."""
    sizes = np.array([150, 300, 600, 1200])
    meshes = [theory.sparse_mesh(2, 1, int(n) // 3, SEPARATION, constant=150.0) for n in sizes]
    risks = _risk_curve(1, meshes, sizes, 8 if quick else 30, rng, **broken)
    return _judge(risks, sizes, np.array([theory.sparse_cost(2, 1, int(n), SEPARATION) for n in sizes]))


def _judge(risks: Floats, sizes: Floats, costs: Floats) -> CheckOutcome:
    rate, ratio = slope(sizes, risks), held_out_ratio(risks, costs)
    figure = f"exponent {rate:.2f}; risk on larger n {ratio:.2f} x law fitted on smaller n"
    return CheckOutcome(figure, rate < -0.7 and ratio <= 1.35)


CHECKS = (
    Check(
        "thm:softmax",
        "risk of the aggregate, dense softmax, over n",
        "(Md/n) log(Mdn), C from half x 1.35; exponent < -0.7",
        dense_oracle,
    ),
    Check(
        "thm:top-k",
        "risk of the aggregate, Top-1, over n",
        "sparse cost, C from half x 1.35; exponent < -0.7",
        sparse_oracle,
    ),
)
