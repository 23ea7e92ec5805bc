"""From the time-averaged aggregate to one gate: step (f) of `alg:general`, step (d) of `alg:cross-entropy`."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import helmert

from gatewise.aggregation.compatibility import Compatibility, compatibility_constant, gate_differences
from gatewise.aggregation.engine import project_l2
from gatewise.aggregation.gate_candidates import Candidates, KernelCandidates, ListCandidates
from gatewise.aggregation.l2_projection import L2Projection
from gatewise.aggregation.ordered import AggregationSetting, Observations
from gatewise.aggregation.particles.particle_run import Particles
from gatewise.aggregation.pieces import aggregated_prediction, aggregated_weights, Piece
from gatewise.aggregation.soft_labels import cross_entropy_fit
from gatewise.aggregation.weight_steps import weight_steps
from gatewise.arrays import as_rows, Floats
from gatewise.experts.gated import GatedExperts
from gatewise.gates import ScoreGate
from gatewise.nets import ListNet, Net, ProductNet
from gatewise.progress import RUNNING
from gatewise.solvers.cross_entropy import CrossEntropyFit

N_GATES, N_DIFFERENCES = 64, 50  # of the net, and random differences, that the compatibility constant looks at


class NearestCandidate(NamedTuple):
    """The candidate's number and its squared L2 distance to the aggregate."""

    candidate: int
    squared_distance: float


class CrossEntropyReport(NamedTuple):
    """The convex fit with its optimality gap, and the compatibility constant of `ass:supp-ce-fixed-mr`.

    Where experts evolve, the constant is that of the time-averaged ones, not the mean over time of the assumption.
    """

    fit: CrossEntropyFit
    compatibility: Compatibility


def project_in_l2(
    setting: AggregationSetting,
    pieces: list[Piece],
    average: GatedExperts,
    measure: L2Projection,
    sample: Observations,
) -> tuple[Floats, NearestCandidate]:
    """The nearest candidate to the aggregate, with the time-averaged experts (`remark3.2`)."""
    points, quadrature = measure.rule(sample.X, sample.copies)
    net = _net(setting, pieces)
    candidates = setting.candidates(net)
    target = aggregated_prediction(pieces, setting.gate, points, setting.n_threads)
    _count_aggregate()
    shared, F = average.predictions(points)
    features = setting.gate.features(as_rows(points))
    found = project_l2(candidates, features, target - shared, F, quadrature, setting.n_threads, allowed=net.allowed())
    return net.theta(found.candidate), NearestCandidate(found.candidate, found.square)


def project_classes_in_l2(
    setting: AggregationSetting,
    pieces: list[Piece],
    average: GatedExperts,
    measure: L2Projection,
    sample: Observations,
) -> tuple[Floats, NearestCandidate]:
    """As `project_in_l2`, for experts that give probabilities: the squares are summed over the classes.

    Differences of probabilities have the sum 0 over the C classes, so C - 1 orthonormal contrasts hold all of their
    squares: a row stands once for each contrast, with the experts' values of it as their predictions.
    """
    points, quadrature = measure.rule(sample.X, sample.copies)
    net, P = _net(setting, pieces), average.experts.predict(points)  # (Q, M, C)
    P = P @ helmert(P.shape[2]).T  # (Q, M, C - 1)
    target = np.einsum("qm,qmc->qc", aggregated_weights(pieces, setting.gate, points, setting.n_threads), P)
    _count_aggregate()
    n_contrasts = P.shape[2]
    found = project_l2(
        setting.candidates(net),
        np.repeat(setting.gate.features(as_rows(points)), n_contrasts, axis=0),
        target.ravel(),
        P.swapaxes(1, 2).reshape(-1, P.shape[1]),
        np.repeat(quadrature, n_contrasts),
        setting.n_threads,
        allowed=net.allowed(),
    )
    return net.theta(found.candidate), NearestCandidate(found.candidate, found.square)


def project_by_cross_entropy(
    setting: AggregationSetting, pieces: list[Piece], average: GatedExperts, last: Observations
) -> tuple[Floats, CrossEntropyReport]:
    """One softmax gate fitted to the aggregated gates at the rows of the fourth block.

    The time-expanded loss is linear in the soft labels, so it is the loss at the time-averaged ones. Probabilities of
    several classes take the place of predictions at several times in the compatibility constant. Rows that have
    copies, in whole numbers, stand there as often.
    """
    if last.copies is not None:
        last = last.part(weight_steps(last.copies).row)
    labels = aggregated_weights(pieces, setting.gate, last.X, setting.n_threads)
    _count_aggregate()
    fit = cross_entropy_fit(setting.gate, last.rows, labels, _radius(setting.net))
    differences = _differences(setting, pieces, last, fit.theta, labels)
    F = average.experts.predict(last.X)
    by_class = np.moveaxis(F, 2, 0) if F.ndim == 3 else F
    return fit.theta, CrossEntropyReport(fit, compatibility_constant(by_class, differences))


def _count_aggregate() -> None:
    """The first of two pieces of the work is done; to find one gate is the second."""
    now = RUNNING.get()
    if now is not None:
        now.step("aggregate")


def _differences(
    setting: AggregationSetting, pieces: list[Piece], last: Observations, theta: Floats, labels: Floats
) -> Floats:
    """Differences between gates that the compatibility constant is taken over: the fit's own, and random ones."""
    assert isinstance(setting.gate, ScoreGate)
    own = labels - setting.gate.weights(last.rows, theta)
    net = _net(setting, pieces)
    if net.size < 2:
        return own[None]
    thetas = net.theta(np.linspace(0, net.size - 1, min(net.size, N_GATES)).astype(np.intp))
    radius = _radius(setting.net)
    random = gate_differences(setting.gate, last.rows, thetas, radius, size=N_DIFFERENCES, seed=0)
    return np.concatenate([own[None], random])


def _net(setting: AggregationSetting, pieces: list[Piece]) -> Net:
    """The net; with particles, all that had weight at some time."""
    if isinstance(setting.net, Net):
        return setting.net
    epochs: list[Candidates] = []  # pieces of one epoch follow each other and hold the same candidates
    for piece in pieces:
        if not epochs or piece.candidates is not epochs[-1]:
            epochs.append(piece.candidates)
    lists = [epoch.theta for epoch in epochs if isinstance(epoch, ListCandidates | KernelCandidates)]
    return ListNet(np.concatenate(lists))


def _radius(net: Net | Particles) -> float:
    """The parameter box that the candidates span."""
    if isinstance(net, Particles):
        return net.radius
    if isinstance(net, ProductNet):
        return float(max(np.abs(part).max() for part in net.parts))
    return float(max(np.abs(block).max() for block in net.blocks()))
