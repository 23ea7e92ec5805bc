"""One path of softmax gates fitted to the rows of a sample, by the compiled kernel.

The objective of a gate has several minima. Which one a fit ends at can hang on the last bit of a number, and units of
the response and the order of the experts change last bits. So a fit sees numbers in units of the noise, rounded to
GRID, with the experts in an order of their own (`FitFrame`): the same bits whatever units and order were.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from gatewise.arrays import BLOCK_NUMBERS, Floats, Indices
from gatewise.kernels.path.gate_path import follow, mixtures, PathWork
from gatewise.kernels.path.packed_rows import FOREIGN, GatePoint, LINEAR, LOGARITHM, PackedRows, QUADRATIC
from gatewise.kernels.path.preconditioner import Preconditioner
from gatewise.kernels.path.truncated_newton import JUDGED, LOSS, NewtonState, PLACE
from gatewise.kernels.simd.lanes import WIDTH
from gatewise.kernels.simd.tile import TILE
from gatewise.losses import Gaussian, LogLoss, Loss, ResidualLoss, ScoreLoss

ACCURACY = 1e-4  # of a fit: the root mean square of what is missing in its predictions, in units of the noise
FIRST_RADIUS = 0.3  # of the trust region, times the square root of the sum of the sample weights
KINK = 0.01  # residuals below this, in units of the noise, are taken as this where a loss has a kink
GRID = 2.0**-20  # of the noise's standard deviation, of a feature's, and of a log weight
COMPARED = 3  # rows that decide the order of columns


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
    be missing in predictions; on a device it is ACCURACY whatever is asked.
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
    its columns are multiplied by ``unit``.
    """

    reference: Floats
    sample_weight: Floats
    scale: float = 1.0
    asked: Indices = np.empty(0, dtype=np.intp)
    center: Floats | float = 0.0
    unit: Floats | float = 1.0


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

    def given_order(self, theta: Floats, linear: Floats) -> tuple[Floats, Floats]:
        """Parameters (L, M, p) and coefficients (L, q) in the order in which experts and columns were given."""
        return theta[:, np.argsort(self.experts)], linear[:, np.argsort(self.columns)]


def rounded(values: Floats) -> Floats:
    """The values to the next multiple of GRID.

    >>> rounded(np.array([0.1 + 0.2])) == rounded(np.array([0.3]))
    array([ True])
    """
    return np.asarray(np.rint(values / GRID) * GRID)


class PathFit(NamedTuple):
    """A fit that is prepared: the rows of a sample in its frame, and the path (L, size) that is to be filled."""

    rows: PackedRows
    frame: FitFrame
    offset: Floats
    penalties: tuple[Floats, Floats]  # of the scores and of the linear part, descending
    edge: tuple[float, float]  # the tolerance, and the first radius of the trust region
    loss: Loss
    weight: Floats
    work: PathWork
    path: Floats


def fit_samples(
    request: PathRequest, axes: Floats, F: Floats, loss: Loss, samples: Sequence[RowSample]
) -> list[FittedPath]:
    """The path of one request for every sample; small samples are packed together."""
    kind, found = _kind(loss), []
    width = 2 * request.features.shape[1] + 4 * F.shape[1]  # numbers of a row, about
    for group in _batches(samples, [width * np.count_nonzero(one.sample_weight) for one in samples]):
        fits = [_prepared(request, axes, F, loss, sample) for sample in group]
        for fit in fits:
            while not follow(fit.rows, fit.offset, kind, *fit.penalties, *fit.edge, fit.work, fit.path):
                _judge(fit.loss, fit.weight, fit.work)
        found += [_turned(request, fit) for fit in fits]
    return _with_mixtures(request, axes, F, samples, found)


def _batches(items: Sequence[Any], sizes: Sequence[int]) -> Iterator[list[Any]]:
    """The items in groups of BLOCK_NUMBERS numbers at most, or of one item."""
    group: list[Any] = []
    total = 0
    for item, size in zip(items, sizes, strict=True):
        if group and total + size > BLOCK_NUMBERS:
            yield group
            group, total = [], 0
        group.append(item)
        total += size
    if group:
        yield group


def _prepared(request: PathRequest, axes: Floats, F: Floats, loss: Loss, sample: RowSample) -> PathFit:
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
    work = _make_work(rows)
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
    )


def _turned(request: PathRequest, fit: PathFit) -> GatePath:
    """The path of a fit, in the order of its spreads and experts; theta still belongs to rotated features."""
    path = fit.path[np.argsort(np.argsort(request.spreads, kind="stable"))]
    rows, size = fit.rows, fit.rows.n_experts * fit.rows.width
    theta = path[:, :size].reshape(len(path), rows.n_experts, rows.width)[:, :, : rows.n_features]
    return GatePath(*fit.frame.given_order(theta, path[:, size:]))


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


def _with_mixtures(
    request: PathRequest, axes: Floats, F: Floats, samples: Sequence[RowSample], turned: Sequence[GatePath]
) -> list[FittedPath]:
    """The paths, whose parameters are those of rotated features, with the mixtures at the rows that are asked for."""
    ks, (L, M, p) = np.array(request.ks, dtype=np.intp), turned[0].theta.shape
    width = -(-p // WIDTH) * WIDTH
    found, pieces = [], []
    step = TILE * max(1, BLOCK_NUMBERS // (TILE * (1 + width + 3 * M)))
    for sample, (theta, b) in zip(samples, turned, strict=True):
        path = np.concatenate([np.pad(theta, ((0, 0), (0, 0), (0, width - p))).reshape(L, M * width), b], axis=1)
        out = np.zeros((L, 1 + len(ks), len(sample.asked)))
        found.append(FittedPath(GatePath(theta @ axes.T, b), out))
        blocks = (slice(start, start + step) for start in range(0, len(sample.asked), step))
        pieces += [(sample, path, sample.asked[block], out[:, :, block]) for block in blocks]
    for group in _batches(pieces, [(2 * width + 3 * M) * len(asked) for _, _, asked, _ in pieces]):
        packed = [
            _packed(RotatedColumns(request.features, axes, asked), F[asked], linear_part(request, sample, asked))
            for sample, _, asked, _ in group
        ]
        rooms = [(_make_point(rows), np.zeros((L, 1 + len(ks), rows.n_tiles * TILE))) for rows in packed]
        for (sample, path, asked, out), rows, (point, mixed) in zip(group, packed, rooms, strict=True):
            mixtures(rows, np.log(sample.reference), path, ks, point, mixed)
            out[:] = mixed[:, :, : len(asked)]
    return found


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


def _make_work(rows: PackedRows) -> PathWork:
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
