"""AFTER with class probabilities in the place of densities: its regret on any sequence, and its risk under a gate."""

import numpy as np

from gatewise.aggregation.engine import aggregate_loss
from gatewise.aggregation.gate_candidates import gate_candidates
from gatewise.aggregation.weights import init, step
from gatewise.arrays import Floats
from gatewise.gates import LinearGate
from gatewise.losses import LogLoss
from gatewise.nets import ListNet
from gatewise.paper.verify.check import Check, CheckOutcome
from gatewise.stats import mean_and_error


def class_regret(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Sequences of classes that an adversary chooses: the log loss of AFTER less that of the best candidate.

    The adversary knows all probabilities. It names the class that the aggregate holds for least likely, or the one
    that sets the candidate ahead so far furthest apart from the aggregate, or draws.
    """
    T, largest = 60, []
    for sequence in range(30 if quick else 1000):
        S, C = int(rng.integers(2, 40)), int(rng.integers(2, 6))
        state, losses, total = init(np.zeros(S)), np.zeros(S), 0.0
        for _ in range(T):
            p = rng.dirichlet(np.full(C, 0.5), S) * 0.98 + 0.02 / C
            mixture = np.exp(state.log_weights) @ p
            ahead = p[int(losses.argmin())]
            kinds = (mixture, mixture / ahead, rng.uniform(size=C))
            c = int(kinds[sequence % 3].argmin())
            total += float(LogLoss().value(mixture[c : c + 1])[0])
            losses += LogLoss().value(p[:, c])
            state = step(state, LogLoss().log_density(p[:, c]))
        largest.append((total - float(losses.min())) / np.log(S))
    figure = f"regret over log S: mean {np.mean(largest):.2f}, largest {max(largest):.3f}"
    return CheckOutcome(figure, max(largest) <= 1.0 + 1e-9)


def gated_classes(rng: np.random.Generator, quick: bool) -> CheckOutcome:
    """Three classifiers, and a truth that is a linear gate of a list of S: the risk of AFTER over it, in nats a row.

    The mean divergence of the aggregate from the truth is at most log(S) / n, up to three of its standard errors.
    """
    S, gate, ratios, errors = 40, LinearGate(3), [], []
    for n in (50, 200) if quick else (50, 200, 800):
        risks = []
        for _ in range(60 if quick else 200):
            X, P = rng.normal(size=(n, 2)), rng.uniform(0.02, 0.98, (n, 3))
            thetas = rng.normal(scale=2.0, size=(S, *gate.theta_shape(2)))
            truth = np.einsum("im,im->i", gate.weights(X, thetas[0]), P)
            y = rng.uniform(size=n) < truth
            observed = np.where(y[:, None], P, 1.0 - P)
            z = aggregate_loss(gate_candidates(gate, ListNet(thetas)), gate.features(X), observed, LogLoss())
            found = np.where(y, z.predictions, 1.0 - z.predictions)  # of the event, before it was seen
            risks.append(float(np.mean(_divergence(truth, found))))
        mean, error = mean_and_error(np.array(risks))
        ratios.append(mean * n / np.log(S))
        errors.append(error * n / np.log(S))
    pairs = list(zip(ratios, errors, strict=True))
    figure = "risk over log(S) / n: " + ", ".join(f"{ratio:.2f} +- {error:.2f}" for ratio, error in pairs)
    return CheckOutcome(figure, all(ratio <= 1.0 + 3.0 * error for ratio, error in pairs))


def _divergence(truth: Floats, p: Floats) -> Floats:
    """The Kullback-Leibler divergence of two probabilities of an event."""
    return np.asarray(truth * np.log(truth / p) + (1.0 - truth) * np.log((1.0 - truth) / (1.0 - p)))


CHECKS = (
    Check(
        "prop:risk_AFTER (classes, any sequence)",
        "regret in log loss on adversarial sequences",
        "<= log S on each",
        class_regret,
        2.0,
    ),
    Check(
        "prop:risk_AFTER (classes, a gate is true)",
        "divergence from a true gate of a list",
        "mean <= log(S) / n + 3 standard errors",
        gated_classes,
    ),
)
