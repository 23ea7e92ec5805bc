"""Softmax gates that are shrunk towards a reference, fitted along a path of penalties; and constant weights.

The objective of a gate has several minima. Which one a fit ends at can hang on the last bit of a number, and units of
the response and the order of the experts change last bits. So a fit sees numbers in units of the noise, rounded to
GRID, with the experts in an order of their own (`FitFrame`): the same bits whatever units and order were.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numba
import numpy as np
from joblib import delayed, Parallel
from scipy.special import softmax

from gatewise.arrays import BLOCK_NUMBERS, Floats, Indices
from gatewise.backends import DEVICE, device_paths, thread_pools
from gatewise.kernels.path.gate_path import follow, mixtures, PathWork, reordered
from gatewise.kernels.path.packed_rows import FOREIGN, GatePoint, LINEAR, LOGARITHM, PackedRows, QUADRATIC
from gatewise.kernels.path.preconditioner import Preconditioner
from gatewise.kernels.path.truncated_newton import JUDGED, LOSS, NewtonState, PLACE
from gatewise.kernels.simd.lanes import WIDTH
from gatewise.kernels.simd.tile import TILE
from gatewise.losses import Gaussian, LogLoss, Loss, ResidualLoss, ScoreLoss
from gatewise.solvers.simplex_least_squares import convex_stacks

ACCURACY = 1e-5  # of a fit: the root mean square of what is missing in its predictions, in units of the noise
FIRST_RADIUS = 0.3  # of the trust region, times the square root of the sum of the sample weights
KINK = 0.01  # residuals below this, in units of the noise, are taken as this where a loss has a kink
GRID = 2.0**-20  # of the noise's standard deviation, of a feature's, and of a log weight
COMPARED = 3  # rows that decide the order of columns
MOST_TOGETHER = 10_000  # rows that are asked for, up to which all of them are packed beforehand
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


class Columns(Protocol):
    """A matrix (n, p) of which rows are asked for: an array, or one whose rows are computed when they are."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""
        ...

    def __getitem__(self, rows: Any) -> Floats:
        """The rows of a slice or of an array of numbers."""
        ...


class PathRequest(NamedTuple):
    """One path of gates: features (n, p), and the spreads (prior standard deviations) of their coefficients.

    ``linear`` (n, q) are columns of a linear part that is added to the mixture, with coefficients of the spread
    ``linear_spread``, one number or one for each of the spreads; None for no such part.
    ``ks`` are numbers of active experts: the mixtures of so many experts are returned, too. ``accuracy`` is what may
    be missing in predictions.
    """

    features: Columns
    spreads: Sequence[float] | Floats
    linear: Floats | None = None
    linear_spread: float | Sequence[float] = 1.0
    ks: Sequence[int] = ()
    accuracy: float = ACCURACY


class RowSample(NamedTuple):
    """Rows to fit to: those of the n whose ``sample_weight`` (n,) is not zero, so that folds share their features.

    ``reference`` (M,) and ``scale``, the scale of the loss, are the sample's own. ``asked`` are the rows whose
    mixtures are wanted. From a linear part ``center``, one number or one for each column, is subtracted first, and
    its columns are multiplied by ``unit``. A sample that ``follows`` those before it, as all rows follow their folds,
    starts near the mean of the paths that were fitted to them.
    """

    reference: Floats
    sample_weight: Floats
    scale: float = 1.0
    asked: Indices = np.empty(0, dtype=np.intp)
    center: Floats | float = 0.0
    unit: Floats | float = 1.0
    follows: bool = False


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
    order of the experts matter: fits see the rows in a frame of their own (`FitFrame`).

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
    in tiles of 64, and a tile without weight costs nothing: folds are cheap where their rows stand together. Features
    are asked for where they are needed, so no array of all of them has to be there. Within
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
    with thread_pools().limit(limits=1, user_api="blas"):  # with more, sums are taken in another order
        once = {id(request.features): request.features for request in requests}
        turned = {key: principal_axes(features) for key, features in once.items()}
        axes = [turned[id(request.features)] for request in requests]
        n_threads = n_threads or numba.get_num_threads()
        threads = Parallel(n_jobs=n_threads, require="sharedmem", batch_size=1)
        chunks = _chunks(requests, F.shape[1], samples, n_threads)
        done = threads(
            [delayed(fit_paths)([(requests[j], axes[j]) for j in chunk], F, loss, samples) for chunk in chunks]
        )
    place = np.argsort(np.concatenate(chunks))
    found = [path for one in done for path in one]
    return [[found[j][number] for j in place] for number in range(len(samples))]


def _chunks(requests: Sequence[PathRequest], M: int, samples: Sequence[RowSample], n_threads: int) -> list[list[int]]:
    """The requests that are fitted together, the longest first, so that no thread ends late.

    They are one by one, or where all is small as many as there are threads.
    """
    costs = [(1 + request.features.shape[1]) * len(request.spreads) for request in requests]
    order = np.argsort(costs, kind="stable")[::-1].tolist()
    rows = sum(np.count_nonzero(sample.sample_weight) + len(sample.asked) for sample in samples)
    small = rows * sum(2 * request.features.shape[1] + 4 * M for request in requests) <= BLOCK_NUMBERS
    return [order[k::n_threads] for k in range(min(n_threads, len(order)))] if small else [[j] for j in order]


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


def principal_axes(features: Columns) -> Floats:
    """An orthogonal matrix (p, p): features times it are uncorrelated, which the preconditioner counts on."""
    n, p = features.shape
    gram, step = np.zeros((p, p)), max(1, BLOCK_NUMBERS // max(1, p))
    for start in range(0, n, step):
        block = features[start : start + step]
        gram += block.T @ block
    axes = np.linalg.eigh(gram)[1]
    return np.asarray(axes * np.where((axes**3).sum(axis=0) < 0.0, -1.0, 1.0))  # one sign in any order of columns


class FitFrame(NamedTuple):
    """How the rows of a sample are seen: (F - center) / unit, rounded, in these orders of the experts and columns.

    The ``unit`` is 0 for forecasts that have no unit, as probabilities; they are left as they are.
    """

    center: float
    unit: float
    experts: Indices  # (M,)
    columns: Indices  # (q,), of the linear part

    @classmethod
    def of(cls, F: Floats, linear: Floats, loss: Loss, scale: float, weight: Floats) -> Self:
        """The frame of rows with these weights (n,), from the scale of the loss and the columns of some rows.

        F (k, M) and ``linear`` (k, q) decide the orders: their first row, then, where that has ties, the second.
        """
        center, unit = 0.0, 0.0
        if isinstance(loss, ResidualLoss):
            center, unit = float(weight @ loss.y / weight.sum()), scale
        given = cls(center, unit, np.arange(F.shape[1]), np.arange(linear.shape[1]))
        keys = given.forecasts(F), given.parts(linear)
        return given._replace(experts=np.lexsort(keys[0][::-1]), columns=np.lexsort(keys[1][::-1]))

    def forecasts(self, F: Floats) -> Floats:
        """The forecasts (n, M) of rows."""
        return rounded((F[:, self.experts] - self.center) / self.unit) if self.unit else F[:, self.experts]

    def parts(self, linear: Floats) -> Floats:
        """The columns (n, q) of the linear part."""
        return rounded(linear[:, self.columns] / self.unit) if self.unit else linear[:, self.columns]

    def loss(self, loss: Loss, rows: Indices) -> Loss:
        """The loss of rows."""
        if not isinstance(loss, ResidualLoss):
            return loss.part(rows)
        return ResidualLoss(rounded((loss.y[rows] - self.center) / self.unit), loss.noise)

    def offset(self, reference: Floats) -> Floats:
        """The scores (M,) of the reference."""
        return rounded(np.log(reference[self.experts]))


def rounded(values: Floats) -> Floats:
    """The values to the next multiple of GRID.

    >>> rounded(np.array([0.1 + 0.2])) == rounded(np.array([0.3]))
    array([ True])
    """
    return np.asarray(np.rint(values / GRID) * GRID)


Job = tuple[PathRequest, Floats, RowSample]  # a request with the axes of its features, and a sample


class PathFit(NamedTuple):
    """A fit that is prepared: the rows of a sample in its frame, and the path (L, size) that is to be filled.

    ``pieces`` are the rows that are asked for, in blocks: each with work space, and where its mixtures go.
    """

    rows: PackedRows
    frame: FitFrame
    offset: Floats
    penalties: tuple[Floats, Floats]  # of the scores and of the linear part, descending
    edge: tuple[float, float]  # the tolerance, and the first radius of the trust region
    loss: Loss
    weight: Floats
    work: PathWork
    path: Floats
    mixtures: Floats  # (L, 1 + K, rows asked for)
    pieces: Iterable[tuple[PackedRows, GatePoint, Floats, Floats]]


def fit_paths(
    requests: Sequence[tuple[PathRequest, Floats]], F: Floats, loss: Loss, samples: Sequence[RowSample]
) -> list[list[FittedPath]]:
    """The paths of requests, each with its axes, for every sample; small fits are prepared together."""
    kind, found = _kind(loss), []
    solved: list[Floats] = []  # the parameters of every fit
    jobs = [(request, axes, sample) for request, axes in requests for sample in samples]
    for group in _batches(jobs, F.shape[1]):
        for job, fit in [(job, _prepared(*job, F, loss)) for job in group]:
            before = solved[len(solved) - len(solved) % len(samples) :]  # of the same request
            if job[2].follows and before:
                fit.path[:] = reordered(np.mean(before, axis=0), fit.frame.experts, fit.frame.columns)
            while not follow(fit.rows, fit.offset, kind, *fit.penalties, *fit.edge, fit.work, fit.path):
                _judge(fit.loss, fit.weight, fit.work)
            (request, axes, sample), L, M = job, len(fit.path), len(fit.offset)
            place, cut = np.argsort(np.argsort(request.spreads, kind="stable")), M * fit.rows.width
            theta = fit.path[place, :cut].reshape(L, M, fit.rows.width)[:, np.argsort(fit.frame.experts)]
            linear = np.ascontiguousarray(fit.path[place, cut:][:, np.argsort(fit.frame.columns)])
            path, ks = np.concatenate([theta.reshape(L, cut), linear], axis=1), np.array(request.ks, dtype=np.intp)
            for rows, point, mixed, out in fit.pieces:
                mixtures(rows, np.log(sample.reference), path, ks, point, mixed)
                out[:] = mixed[:, :, : out.shape[2]]
            solved.append(path[np.argsort(request.spreads, kind="stable")])
            theta = theta[:, :, : fit.rows.n_features] @ axes.T
            found.append(FittedPath(GatePath(theta, linear), fit.mixtures))
    return [found[j : j + len(samples)] for j in range(0, len(found), len(samples))]


def _batches(jobs: Sequence[Job], M: int) -> list[list[Job]]:
    """The jobs in groups of BLOCK_NUMBERS numbers at most, or of one job."""
    groups: list[list[Job]] = []
    total = BLOCK_NUMBERS + 1
    for request, axes, sample in jobs:
        rows = int(np.count_nonzero(sample.sample_weight)) + len(sample.asked)
        size = rows * (2 * len(axes) + 4 * M)
        total += size
        if total > BLOCK_NUMBERS:
            groups.append([])
            total = size
        groups[-1].append((request, axes, sample))
    return groups


def _prepared(request: PathRequest, axes: Floats, sample: RowSample, F: Floats, loss: Loss) -> PathFit:
    """The fit of one sample: only the tiles of rows that have weight are packed."""
    kept = weighted_tiles(sample.sample_weight)
    frame = fit_frame(request, F, loss, sample, kept)
    own, weight = frame.loss(loss, kept), sample.sample_weight[kept]
    linear = frame.parts(linear_part(request, sample, kept))
    rows = _packed(RotatedColumns(request.features, axes, kept, fitted=True), frame.forecasts(F[kept]), linear)
    rows.weight[: len(kept)] = weight
    if isinstance(own, ResidualLoss):
        rows.target[: len(kept)] = own.y
    ascending, total = np.argsort(request.spreads, kind="stable"), float(weight.sum())
    both = np.broadcast_arrays(request.spreads, request.linear_spread)
    work, out = make_work(rows), np.zeros((len(ascending), 1 + len(request.ks), len(sample.asked)))
    pieces = _asked(request, axes, F, sample, out)
    return PathFit(
        rows=rows,
        frame=frame,
        offset=frame.offset(sample.reference),
        penalties=(both[0][ascending] ** -2.0, both[1][ascending] ** -2.0),
        edge=(0.5 * request.accuracy**2 * total, FIRST_RADIUS * float(np.sqrt(total))),
        loss=own,
        weight=weight,
        work=work,
        path=np.zeros((len(ascending), work.state.x.size)),
        mixtures=out,
        pieces=list(pieces) if len(sample.asked) <= MOST_TOGETHER else pieces,
    )


def fit_frame(request: PathRequest, F: Floats, loss: Loss, sample: RowSample, kept: Indices) -> FitFrame:
    """How the rows ``kept`` are seen in the fit."""
    first = kept[:COMPARED]
    return FitFrame.of(F[first], linear_part(request, sample, first), loss, sample.scale, sample.sample_weight)


def linear_part(request: PathRequest, sample: RowSample, rows: Indices) -> Floats:
    """The columns of the linear part at some rows, as the sample takes them: (rows, q)."""
    if request.linear is None:
        return np.empty((len(rows), 0))
    return np.asarray((request.linear[rows] - np.reshape(sample.center, (1, -1))) * np.reshape(sample.unit, (1, -1)))


def weighted_tiles(weight: Floats) -> Indices:
    """The rows of the tiles in which some weight (n,) is not zero; those of the first tile if there is none.

    >>> weighted_tiles(np.eye(130)[128])
    array([128, 129])
    """
    starts = np.arange(0, len(weight), TILE)
    kept = np.add.reduceat(weight != 0.0, starts, dtype=np.intp) > 0
    rows = (starts[kept if kept.any() else slice(1)][:, None] + np.arange(TILE)).ravel()
    return np.asarray(rows[rows < len(weight)])


def _asked(
    request: PathRequest, axes: Floats, F: Floats, sample: RowSample, out: Floats
) -> Iterator[tuple[PackedRows, GatePoint, Floats, Floats]]:
    """The rows that are asked for, packed block by block; their mixtures go to ``out`` (L, 1 + K, rows)."""
    step = TILE * max(1, BLOCK_NUMBERS // (TILE * (1 + 2 * request.features.shape[1] + 3 * F.shape[1])))
    for start in range(0, len(sample.asked), step):
        part = sample.asked[start : start + step]
        rows = _packed(RotatedColumns(request.features, axes, part), F[part], linear_part(request, sample, part))
        yield (
            rows,
            _make_point(rows),
            np.zeros((*out.shape[:2], rows.n_tiles * TILE)),
            out[:, :, start : start + step],
        )


def _kind(loss: Loss) -> int:
    """Which of the compiled losses this is."""
    if isinstance(loss, ResidualLoss):
        return QUADRATIC if isinstance(loss.noise, Gaussian) else FOREIGN
    return LOGARITHM if isinstance(loss, LogLoss) else LINEAR if isinstance(loss, ScoreLoss) else FOREIGN


class RotatedColumns(NamedTuple):
    """Features times axes (p, p) at some rows; rounded where a gate is ``fitted``."""

    features: Columns
    axes: Floats
    rows: Indices
    fitted: bool = False

    def part(self, start: int, stop: int) -> Floats:
        """Those of the rows start..stop."""
        found = self.features[self.rows[start:stop]] @ self.axes
        return rounded(found) if self.fitted else found


def _packed(columns: RotatedColumns, F: Floats, linear: Floats) -> PackedRows:
    """Rows in the layout of the kernel, without weights and target; the features are packed block by block."""
    (n, n_experts), p, n_tiles = F.shape, len(columns.axes), -(-len(F) // TILE)
    width = -(-p // WIDTH) * WIDTH
    by_tile, lines = np.zeros((n_tiles, p, TILE)), np.zeros((n_tiles * TILE, width))
    step = TILE * max(1, BLOCK_NUMBERS // (TILE * max(1, width)))
    for start in range(0, n if p else 0, step):
        stop = min(start + step, n)
        lines[start:stop, :p] = columns.part(start, stop)
        first, last = start // TILE, -(-stop // TILE)
        by_tile[first:last] = lines[first * TILE : last * TILE, :p].reshape(last - first, TILE, p).transpose(0, 2, 1)
    return PackedRows(
        columns=by_tile.ravel(),
        lines=lines.ravel(),
        experts=_tiles(F, 1.0),
        linear=_tiles(linear, 0.0),
        weight=np.zeros(n_tiles * TILE),
        target=np.zeros(n_tiles * TILE),
        active=np.ones(n_tiles, dtype=np.bool_),
        n_tiles=n_tiles,
        n_experts=n_experts,
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


def make_work(rows: PackedRows) -> PathWork:
    """Room for fits to these rows, filled with zeros."""
    M, width, q = rows.n_experts, rows.width, rows.n_linear
    most, padded = max(M, q), -(-max(M, q) // WIDTH) * WIDTH
    factors = M * M, M * M, M, M, width, M * width, M * width, q * q
    inner = most * padded, most * TILE, padded * TILE, M * width, 2 * M
    state = (PLACE + 1, *(M * width + q for _ in range(8)))
    return PathWork(
        _make_point(rows),
        Preconditioner(*(np.zeros(size) for size in factors + inner)),
        NewtonState(*(np.zeros(size) for size in state)),
    )


def _make_point(rows: PackedRows) -> GatePoint:
    n, M = rows.n_tiles * TILE, rows.n_experts
    sizes = n * M, n * M, n, n, n, TILE * M, TILE * M, TILE, WIDTH * rows.n_linear
    return GatePoint(*(np.zeros(size) for size in sizes))


def _judge(loss: Loss, weight: Floats, work: PathWork) -> None:
    """Value, slope and curvature of a loss that is not compiled, at the mixture of the work's point."""
    point, numbers = work.point, work.state.numbers
    found = foreign_derivatives(loss, point.mixture[: len(weight)], weight)
    numbers[LOSS], point.slope[: len(weight)], point.curvature[: len(weight)] = found
    numbers[JUDGED] = 1.0


def foreign_derivatives(loss: Loss, z: Floats, weight: Floats) -> tuple[float, Floats, Floats]:
    """The weighted sum of a loss that is not compiled at mixtures z (n,), weighted slopes and curvatures (n,)."""
    slope, curvature = loss.slope(z), loss.curvature(z)
    if isinstance(loss, ResidualLoss) and not curvature.any():
        # A loss with a kink has no curvature elsewhere; that of the parabola that touches it from above serves.
        curvature = np.abs(slope) / np.maximum(np.abs(loss.y - z), KINK * loss.scale)
    return float(weight @ loss.value(z)), weight * slope, weight * curvature
