"""Softmax gates that are shrunk towards a reference, fitted along a path of penalties; and constant weights."""

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np
from joblib import delayed, Parallel
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from gatewise.arrays import BLOCK_NUMBERS, Floats, Indices
from gatewise.backends import DEVICE, device_paths
from gatewise.kernels.path.gate_path import follow, make_work, mixtures, PathWork
from gatewise.kernels.path.packed_rows import FOREIGN, LINEAR, LOGARITHM, PackedRows, QUADRATIC
from gatewise.kernels.path.truncated_newton import JUDGED, LOSS
from gatewise.kernels.simd.lanes import WIDTH
from gatewise.kernels.simd.tile import TILE
from gatewise.losses import Gaussian, LogLoss, Loss, ResidualLoss, ScoreLoss
from gatewise.solvers.simplex_least_squares import convex_stacks

ACCURACY = 1e-4  # of a fit: the root mean square of what is missing in its predictions, in units of the noise
FIRST_RADIUS = 0.3  # of the trust region, times the square root of the sum of the sample weights
KINK = 0.01  # residuals below this, in units of the noise, are taken as this where a loss has a kink
WIDE = 30.0  # standard deviation of the scores of constant weights: almost no shrinkage


class GatePath(NamedTuple):
    """Score parameters theta (L, M, p) and coefficients of the linear part (L, q), one for each of L spreads."""

    theta: Floats
    linear: Floats


class FittedPath(NamedTuple):
    """A path, and the mixtures of its gates at the rows that were asked for: (L, 1 + K, rows).

    The first mixture is that of all experts, with the linear part; the others are those of the experts of largest
    weight, as many as the request's ``ks`` say.
    """

    path: GatePath
    mixtures: Floats


class PathRequest(NamedTuple):
    """One path of gates: features (n, p), and the spreads (prior standard deviations) of their coefficients.

    ``linear`` (n, q) are columns of a linear part that is added to the mixture, with coefficients of the spread
    ``linear_spread``, one number or one for each of the spreads; None for no such part.
    ``ks`` are numbers of active experts: the mixtures of so many experts are returned, too. ``accuracy`` is what may
    be missing in predictions; on a device it is ACCURACY whatever is asked.
    """

    features: Floats
    spreads: Sequence[float] | Floats
    linear: Floats | None = None
    linear_spread: float | Sequence[float] = 1.0
    ks: Sequence[int] = ()
    accuracy: float = ACCURACY


class RowSample(NamedTuple):
    """Rows to fit to: those of the n whose ``sample_weight`` (n,) is not zero, so that folds share their features.

    ``reference`` (M,) and ``scale``, the scale of the loss, are the sample's own. ``asked`` are the rows whose
    mixtures are wanted. From a linear part ``center``, one number or one for each column, is subtracted first, and
    its columns are multiplied by ``unit``.
    """

    reference: Floats
    sample_weight: Floats
    scale: float = 1.0
    asked: Indices = np.empty(0, dtype=np.intp)
    center: Floats | float = 0.0
    unit: Floats | float = 1.0


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
    predicted to lower the objective, in nats, by at most n accuracy^2 / 2, and takes that step. At a minimum the
    mixtures are then within about ``accuracy`` noise standard deviations of the exact ones, in the root mean square.
    With many experts and a wide spread the fit may end at a flat saddle. Neither the units of the response nor the
    order of the experts matter, beyond rounding.

    >>> x = np.linspace(-1, 1, 200)
    >>> F = np.column_stack([np.ones(200), -np.ones(200)])
    >>> loss = ResidualLoss(np.tanh(3 * x) + 0.1 * np.cos(400 * x), variance=0.5)
    >>> path, = gate_paths([PathRequest(x[:, None], [10.0])], F, loss, np.array([0.5, 0.5]))
    >>> float((path.theta[0, 0] - path.theta[0, 1]).round(1)[0])
    6.0
    """
    weight = np.ones(len(F)) if sample_weight is None else sample_weight
    (found,) = sample_paths(requests, F, loss, [RowSample(reference, weight, float(loss.scale))])
    return [one.path for one in found]


def sample_paths(
    requests: Sequence[PathRequest],
    F: Floats,
    loss: Loss,
    samples: Sequence[RowSample],
    n_threads: int | None = None,
) -> list[list[FittedPath]]:
    """The paths of every request for every sample, (sample, request), spread over threads.

    ``n_threads`` is numba's number of threads unless given; it does not change a bit of the results. Rows are taken
    in tiles of 64, and a tile without weight costs nothing: folds are cheap where their rows stand together. Within
    `gatewise.backends.on_device` they are fitted there.

    >>> x = np.linspace(-1, 1, 200)
    >>> F, halves = np.column_stack([x, -x]), np.array([x < 0, x >= 0]) * 1.0
    >>> samples = [RowSample(np.array([0.5, 0.5]), half, scale=0.1) for half in halves]
    >>> found = sample_paths([PathRequest(np.ones((200, 1)), [1.0])], F, ResidualLoss(np.abs(x)), samples)
    >>> [bool(one.path.theta[0, 0, 0] > 0) for (one,) in found]  # the first expert is right on the second half
    [False, True]
    """
    if (device := DEVICE.get()) is not None:
        there: list[list[FittedPath]] | None = device_paths(requests, F, loss, samples, device)
        if there is not None:
            return there
    with threadpool_limits(1, "blas"):  # another number of threads takes sums in another order
        base = _packed(F, loss)
        axes = {id(request.features): principal_axes(request.features) for request in requests}
        costs = [(1 + request.features.shape[1]) * len(request.spreads) for request in requests]
        order = np.argsort(costs, kind="stable")[::-1].tolist()  # the longest first, so that no thread ends late
        threads = Parallel(n_jobs=n_threads or numba.get_num_threads(), require="sharedmem", batch_size=1)
        found = threads(
            delayed(_fit_samples)(requests[j], axes[id(requests[j].features)], base, loss, samples) for j in order
        )
    place = np.argsort(order)
    return [[found[j][number] for j in place] for number in range(len(samples))]


def stack_weights(F: Floats, loss: Loss, sample_weights: Floats) -> Floats:
    """The convex combinations of the experts with the least loss, (S, M), one for each row of sample_weights (S, n).

    A loss of residuals is taken as squared error, whatever its noise: least squares over the simplex, solved exactly.
    Any other loss is minimised by a constant softmax gate with almost no shrinkage.

    >>> from gatewise.losses import LogLoss
    >>> stack_weights(np.tile([[0.9, 0.5], [0.3, 0.5]], (500, 1)), LogLoss(), np.ones((1, 1000))).round(1)
    array([[0.6, 0.4]])
    """
    if isinstance(loss, ResidualLoss):
        return convex_stacks(F, loss.y, sample_weights)
    equal = np.full(F.shape[1], 1.0 / F.shape[1])
    samples = [RowSample(equal, weight) for weight in sample_weights]
    found = sample_paths([PathRequest(np.ones((len(F), 1)), [WIDE])], F, loss, samples)
    return np.asarray(softmax([one.path.theta[0, :, 0] for (one,) in found], axis=1))


def principal_axes(features: Floats) -> Floats:
    """An orthogonal matrix (p, p): features times it are uncorrelated, which the preconditioner counts on."""
    return np.asarray(np.linalg.eigh(features.T @ features)[1])


def _fit_samples(
    request: PathRequest, axes: Floats, base: PackedRows, loss: Loss, samples: Sequence[RowSample]
) -> list[FittedPath]:
    """The path of one request for every sample."""
    rows = _with_features(base, request, axes)
    kind, ks = _kind(loss), np.array(request.ks, dtype=np.intp)
    (L, M), p, n = (len(request.spreads), rows.n_experts), rows.n_features, len(request.features)
    linear = rows.linear.reshape(rows.n_tiles, rows.n_linear, TILE)
    ascending = np.argsort(request.spreads, kind="stable")
    given_linear, both = linear.copy(), np.broadcast_arrays(request.spreads, request.linear_spread)
    penalties = both[0][ascending] ** -2.0, both[1][ascending] ** -2.0
    work = make_work(rows)
    found = []
    for sample in samples:
        given, total = sample.sample_weight, float(sample.sample_weight.sum())
        if rows.n_linear:
            linear[:] = (given_linear - np.reshape(sample.center, (-1, 1))) * np.reshape(sample.unit, (-1, 1))
        weight = np.pad(given / sample.scale**2 if kind == QUADRATIC else given, (0, rows.weight.size - n))
        active = np.asarray(weight.reshape(-1, TILE).any(axis=1))
        here, path = rows._replace(weight=weight, active=active), np.zeros((L, work.state.x.size))
        offset, edge = np.log(sample.reference), (0.5 * request.accuracy**2 * total, FIRST_RADIUS * np.sqrt(total))
        for vector in work.state:
            vector[:] = 0.0
        while not follow(here, offset, kind, *penalties, *edge, work, path):
            _judge(loss, sample, work)
        wanted = np.zeros(rows.n_tiles, dtype=np.bool_)
        wanted[sample.asked // TILE] = True
        out = np.zeros((L, 1 + len(ks), len(weight)))
        mixtures(here._replace(active=wanted), offset, path, ks, work.point, out)
        order = np.argsort(ascending)
        theta = path[order, : M * rows.width].reshape(L, M, rows.width)[:, :, :p] @ axes.T
        gates = GatePath(theta, path[order, M * rows.width :])
        found.append(FittedPath(gates, out[order][:, :, sample.asked]))
    return found


def _kind(loss: Loss) -> int:
    """Which of the compiled losses this is."""
    if isinstance(loss, ResidualLoss):
        return QUADRATIC if isinstance(loss.noise, Gaussian) else FOREIGN
    return LOGARITHM if isinstance(loss, LogLoss) else LINEAR if isinstance(loss, ScoreLoss) else FOREIGN


def _packed(F: Floats, loss: Loss) -> PackedRows:
    """The rows in the layout of the kernel, without features and weights."""
    n, n_tiles = len(F), -(-len(F) // TILE)
    none, filled = np.zeros(0), n_tiles * TILE
    target = loss.y if isinstance(loss, ResidualLoss) else np.zeros(n)
    return PackedRows(
        columns=none,
        lines=none,
        experts=_tiles(F, 1.0),
        linear=none,
        weight=np.zeros(filled),
        target=np.pad(target, (0, filled - n)),
        active=np.ones(n_tiles, dtype=np.bool_),
        n_tiles=n_tiles,
        n_experts=F.shape[1],
        n_features=0,
        width=0,
        n_linear=0,
    )


def _with_features(rows: PackedRows, request: PathRequest, axes: Floats) -> PackedRows:
    """The rows with the features and the linear part of a request; the features are packed block by block."""
    n, p = request.features.shape
    width = -(-p // WIDTH) * WIDTH
    linear = np.empty((n, 0)) if request.linear is None else request.linear
    columns, lines = np.zeros((rows.n_tiles, p, TILE)), np.zeros((rows.n_tiles * TILE, width))
    step = TILE * max(1, BLOCK_NUMBERS // (TILE * max(1, width)))
    for start in range(0, n, step):
        stop = min(start + step, n)
        lines[start:stop, :p] = request.features[start:stop] @ axes
        first, last = start // TILE, -(-stop // TILE)
        columns[first:last] = lines[first * TILE : last * TILE, :p].reshape(last - first, TILE, p).transpose(0, 2, 1)
    return rows._replace(
        columns=columns.ravel(),
        lines=lines.ravel(),
        linear=_tiles(linear, 0.0),
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


def _judge(loss: Loss, sample: RowSample, work: PathWork) -> None:
    """Value, slope and curvature of a loss that is not compiled, at the mixture of the work's point."""
    weight, point, numbers = sample.sample_weight, work.point, work.state.numbers
    found = foreign_derivatives(loss.scaled(sample.scale), point.mixture[: len(weight)], weight)
    numbers[LOSS], point.slope[: len(weight)], point.curvature[: len(weight)] = found
    numbers[JUDGED] = 1.0


def foreign_derivatives(loss: Loss, z: Floats, weight: Floats) -> tuple[float, Floats, Floats]:
    """The weighted sum of a loss that is not compiled at mixtures z (n,), weighted slopes and curvatures (n,)."""
    slope, curvature = loss.slope(z), loss.curvature(z)
    if isinstance(loss, ResidualLoss) and not curvature.any():
        # A loss with a kink has no curvature elsewhere; that of the parabola that touches it from above serves.
        curvature = np.abs(slope) / np.maximum(np.abs(loss.y - z), KINK * loss.scale)
    return float(weight @ loss.value(z)), weight * slope, weight * curvature
