"""Softmax gates that are shrunk towards a reference, fitted along a path of penalties; and constant weights."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numba
import numpy as np
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from gatewise.arrays import Floats
from gatewise.kernels.path.packed_rows import FOREIGN, GatePoint, LINEAR, LOGARITHM, make_point, PackedRows, QUADRATIC
from gatewise.kernels.path.preconditioner import make_preconditioner
from gatewise.kernels.path.truncated_newton import JUDGED, LOSS, make_state, minimise, Setting
from gatewise.kernels.simd.lanes import WIDTH
from gatewise.kernels.simd.threads import run
from gatewise.kernels.simd.tile import TILE
from gatewise.losses import LogLoss, Loss, ResidualLoss, ScoreLoss
from gatewise.solvers.simplex_least_squares import checked_stack

ACCURACY = 1e-4  # of a fit: the root mean square of what is missing in its predictions, in units of the noise
FIRST_RADIUS = 0.3  # of the trust region, times the square root of the sum of the sample weights
KINK = 0.01  # residuals below this, in units of the noise, are taken as this where a loss has a kink
WIDE = 30.0  # standard deviation of the scores of constant weights: almost no shrinkage


class GatePath(NamedTuple):
    """Score parameters theta (L, M, p) and coefficients of the linear part (L, q), one for each of L spreads."""

    theta: Floats
    linear: Floats


class PathRequest(NamedTuple):
    """One path of gates: features (n, p), and the spreads (prior standard deviations) of their coefficients.

    ``linear`` (n, q) are columns of a linear part that is added to the mixture, with coefficients of the spread
    ``linear_spread``; None for no such part.
    """

    features: Floats
    spreads: Sequence[float]
    linear: Floats | None = None
    linear_spread: float = 1.0


class PathSample(NamedTuple):
    """Rows to fit to, and the paths that are fitted to them.

    The rows are those of the n of F whose ``sample_weight`` (n,) is not zero, so that the folds of a table share its
    features. ``loss`` is that of all n rows; ``reference`` (M,) and the requests as in `gate_paths`.
    """

    requests: Sequence[PathRequest]
    loss: Loss
    reference: Floats
    sample_weight: Floats


def gate_paths(
    requests: Sequence[PathRequest], F: Floats, loss: Loss, reference: Floats, sample_weight: Floats | None = None
) -> list[GatePath]:
    """For every request, one gate for every spread; each fit starts at the solution for the next smaller spread.

    A gate is softmax(log reference + features . theta_m), so theta = 0 gives the ``reference`` (M,), a simplex vector
    with positive entries. With the experts' F (n, M), the loss phi at these rows and the columns of the linear part,
    each solution minimises

        sum_i phi_i(sum_m g_m(x_i; theta) F_im + linear_i . b)
            + |theta|^2 / (2 spread^2) + |b|^2 / (2 linear_spread^2),

    the posterior mode under Gaussian coefficients. Sample weights multiply phi_i. The objective has several minima in
    general; the one that is found lies downhill of the solution before it. A fit stops when the next Newton step is
    predicted to lower the objective, in nats, by at most n ACCURACY^2 / 2, and takes that step. At a minimum the
    mixtures are then within about ACCURACY noise standard deviations of the exact ones, in the root mean square. With
    many experts and a wide spread the fit may end at a flat saddle. Neither the units of the response nor the order
    of the experts matter, beyond rounding.

    >>> x = np.linspace(-1, 1, 200)
    >>> F = np.column_stack([np.ones(200), -np.ones(200)])
    >>> loss = ResidualLoss(np.tanh(3 * x) + 0.1 * np.cos(400 * x), variance=0.5)
    >>> path, = gate_paths([PathRequest(x[:, None], [10.0])], F, loss, np.array([0.5, 0.5]))
    >>> float((path.theta[0, 0] - path.theta[0, 1]).round(1)[0])
    6.0
    """
    weight = np.ones(len(F)) if sample_weight is None else sample_weight
    return sample_paths(F, [PathSample(requests, loss, reference, weight)])[0]


def sample_paths(F: Floats, samples: Sequence[PathSample], n_threads: int | None = None) -> list[list[GatePath]]:
    """The paths of every request of every sample, all at once, spread over threads.

    ``n_threads`` is numba's number of threads unless given; it does not change a bit of the results.

    >>> x = np.linspace(-1, 1, 200)
    >>> F, halves = np.column_stack([x, -x]), np.array([x < 0, x >= 0]) * 1.0
    >>> requests = [PathRequest(np.ones((200, 1)), [1.0])]
    >>> loss, base = ResidualLoss(np.abs(x), variance=0.01), np.array([0.5, 0.5])
    >>> found = sample_paths(F, [PathSample(requests, loss, base, half) for half in halves])
    >>> [bool(path.theta[0, 0, 0] > 0) for (path,) in found]  # the first expert is right on the second half
    [False, True]
    """
    jobs = [(sample, request) for sample in samples for request in sample.requests]
    with threadpool_limits(1, "blas"):  # another number of threads takes sums in another order
        axes = {id(request.features): _principal_axes(request.features) for _, request in jobs}
        costs = [np.count_nonzero(s.sample_weight) * r.features.shape[1] * len(r.spreads) for s, r in jobs]
        order = np.argsort(costs, kind="stable")[::-1].tolist()  # the longest first, so that no thread ends late

        def fit(piece: int, _start: int, _stop: int) -> GatePath:
            sample, request = jobs[order[piece]]
            return _path(F, sample, request, axes[id(request.features)])

        pieces = [(piece, piece + 1) for piece in range(len(jobs))]
        found = dict(zip(order, run(fit, pieces, n_threads or numba.get_num_threads()), strict=True))
    in_order = iter([found[job] for job in range(len(jobs))])
    return [list(islice(in_order, len(sample.requests))) for sample in samples]


def stack_weights(F: Floats, loss: Loss, sample_weight: Floats) -> Floats:
    """The convex combination of the experts with the least loss, (M,): one simplex vector for all rows.

    A loss of residuals is taken as squared error, whatever its noise: least squares over the simplex, solved exactly.
    Any other loss is minimised by a constant softmax gate with almost no shrinkage.

    >>> from gatewise.losses import LogLoss
    >>> stack_weights(np.tile([[0.9, 0.5], [0.3, 0.5]], (500, 1)), LogLoss(), np.ones(1000)).round(1)
    array([0.6, 0.4])
    """
    if isinstance(loss, ResidualLoss):
        shares = sample_weight / sample_weight.max()
        return np.asarray(checked_stack(F, loss.y, shares / shares.sum()).theta.ravel())
    M = F.shape[1]
    equal = np.full(M, 1.0 / M)
    (path,) = gate_paths([PathRequest(np.ones((len(F), 1)), [WIDE])], F, loss, equal, sample_weight)
    return np.asarray(softmax(path.theta[0, :, 0]))


def _principal_axes(features: Floats) -> Floats:
    """An orthogonal matrix (p, p): features times it are uncorrelated, which the preconditioner counts on."""
    return np.asarray(np.linalg.eigh(features.T @ features)[1])


def _path(F: Floats, sample: PathSample, request: PathRequest, axes: Floats) -> GatePath:
    used = np.flatnonzero(sample.sample_weight)
    loss, weight, experts = sample.loss.part(used), sample.sample_weight[used], F[used]
    linear = np.empty((len(F), 0)) if request.linear is None else request.linear
    M, p, q = F.shape[1], len(axes), linear.shape[1]
    path = GatePath(np.zeros((len(request.spreads), M, p)), np.zeros((len(request.spreads), q)))
    if not loss.slope(experts @ sample.reference).any():  # the reference is a stationary point already
        return path
    rows = _packed(request.features[used] @ axes, experts, linear[used], loss, weight)
    point, pre, width = make_point(rows), make_preconditioner(rows), rows.width
    offset, x = np.log(sample.reference), np.zeros(M * width + q)
    total = float(weight.sum())
    for number in np.argsort(request.spreads, kind="stable"):
        penalties = request.spreads[number] ** -2.0, request.linear_spread**-2.0
        setting = Setting(offset, _kind(loss), *penalties, 0.5 * ACCURACY**2 * total)
        state = make_state(x.size, FIRST_RADIUS * np.sqrt(total))
        state.trial[:] = x
        while not minimise(rows, setting, point, pre, state):
            _judge(loss, weight, point, state.numbers)
        x = state.x
        path.theta[number] = x[: M * width].reshape(M, width)[:, :p] @ axes.T
        path.linear[number] = x[M * width :]
    return path


def _kind(loss: Loss) -> int:
    """Which of the compiled losses this is."""
    if loss.quadratic() is not None:
        return QUADRATIC
    return LOGARITHM if isinstance(loss, LogLoss) else LINEAR if isinstance(loss, ScoreLoss) else FOREIGN


def _packed(features: Floats, experts: Floats, linear: Floats, loss: Loss, weight: Floats) -> PackedRows:
    """The rows in the layout of the kernel. The variance of a quadratic loss divides the weights."""
    n, p = features.shape
    filled, width = -(-n // TILE) * TILE, -(-p // WIDTH) * WIDTH
    target, variance = loss.quadratic() or (np.zeros(n), 1.0)
    lines = np.zeros((filled, width))
    lines[:n, :p] = features
    return PackedRows(
        columns=_tiles(features, 0.0),
        lines=lines.ravel(),
        experts=_tiles(experts, 1.0),
        linear=_tiles(linear, 0.0),
        weight=np.pad(weight / variance, (0, filled - n)),
        target=np.pad(target, (0, filled - n)),
        n_tiles=filled // TILE,
        n_experts=experts.shape[1],
        n_features=p,
        width=width,
        n_linear=linear.shape[1],
    )


def _tiles(columns: Floats, filling: float) -> Floats:
    """(n, k) as (T, k, 64), flat, with rows of ``filling`` at the end."""
    n, k = columns.shape
    rows = np.full((-(-n // TILE) * TILE, k), filling)
    rows[:n] = columns
    return rows.reshape(len(rows) // TILE, TILE, k).transpose(0, 2, 1).ravel()


def _judge(loss: Loss, weight: Floats, point: GatePoint, numbers: Floats) -> None:
    """Value, slope and curvature of a loss that is not compiled, at the mixture of ``point``."""
    z = point.mixture[: len(weight)]
    slope, curvature = loss.slope(z), loss.curvature(z)
    if isinstance(loss, ResidualLoss) and not curvature.any():
        # A loss with a kink has no curvature elsewhere; that of the parabola that touches it from above serves.
        curvature = np.abs(slope) / np.maximum(np.abs(loss.y - z), KINK * loss.scale)
    point.slope[: len(weight)], point.curvature[: len(weight)] = weight * slope, weight * curvature
    numbers[LOSS], numbers[JUDGED] = weight @ loss.value(z), 1.0
