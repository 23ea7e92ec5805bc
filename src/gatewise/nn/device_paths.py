"""Penalised softmax gates fitted on a device: `gatewise.kernels.path` in PyTorch, with the same steps.

Everything is in float64: with products in float32, even where objective and gradient are in float64, now and then a
fit of a wide spread ends at another minimum than that of compiled code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf, sqrt
from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg import cho_factor, cho_solve
from torch import Tensor

from gatewise.arrays import Floats
from gatewise.kernels.path import truncated_newton as newton
from gatewise.kernels.path.gate_path import reordered
from gatewise.kernels.path.preconditioner import LEAST_ROWS, ROWS_PER_COLUMN
from gatewise.kernels.simd.tile import TILE
from gatewise.losses import Gaussian, LogLoss, Loss, ResidualLoss, ScoreLoss
from gatewise.nn.devices import as_device, numbers_of
from gatewise.solvers.softmax_path import (
    FIRST_RADIUS,
    fit_frame,
    FittedPath,
    foreign_derivatives,
    GatePath,
    linear_part,
    PathRequest,
    principal_axes,
    RotatedColumns,
    RowSample,
    weighted_tiles,
)


class GateRows(NamedTuple):
    """Rows to fit to: features (n, p), experts F (n, M), the linear part (n, q), weights (n,) and the scores at 0.

    ``place`` (n,) are their numbers among the ``table`` rows of the tiles that have weight.
    """

    features: Tensor
    F: Tensor
    linear: Tensor
    weight: Tensor
    place: Tensor
    offset: Tensor
    table: int


class GateState(NamedTuple):
    """At a parameter: gates and tilts (n, M), mixture, slope and curvature of the loss (n,), and the objective."""

    gates: Tensor
    tilts: Tensor
    mixture: Tensor
    slope: Tensor
    curvature: Tensor
    value: float


class RowLoss(NamedTuple):
    """The loss of a sample's rows: ``loss`` in the sample's scale, and its responses (n,) where it has some."""

    loss: Loss
    y: Tensor | None

    def derivatives(self, z: Tensor, weight: Tensor) -> tuple[float, Tensor, Tensor]:
        """The weighted sum of the losses at z (n,), weighted slopes and curvatures."""
        if self.y is not None:
            miss = z - self.y
            half = 0.5 * weight * miss.square()
            return float(half.sum(dtype=torch.float64)), weight * miss, weight
        if isinstance(self.loss, LogLoss):
            seen = z > 0.0
            inverse = torch.where(seen, 1.0 / z, 0.0)
            value = -(weight * torch.where(seen, z, 1.0).log()).sum(dtype=torch.float64)
            return float(value), -weight * inverse, weight * inverse.square()
        if isinstance(self.loss, ScoreLoss):
            return -float((weight * z).sum(dtype=torch.float64)), -weight, torch.zeros_like(z)
        value, slope, curvature = foreign_derivatives(self.loss, numbers_of(z), numbers_of(weight))  # type: ignore[assignment]
        return value, torch.from_numpy(slope).to(z), torch.from_numpy(curvature).to(z)  # type: ignore[return-value]


class Objective:
    """The objective of a penalised gate as a function of x = (theta (M, p), b (q,)), flat in float64 on the CPU.

    What has n rows is on the device; what has the size of x is so small that it is faster here.
    """

    def __init__(self, rows: GateRows, loss: RowLoss, penalty: float, linear_penalty: float) -> None:
        self.rows, self.loss, self.penalty = rows, loss, penalty
        self.shape = rows.F.shape[1], rows.features.shape[1]
        self.cut = self.shape[0] * self.shape[1]
        self.penalties = np.repeat([penalty, linear_penalty], [self.cut, rows.linear.shape[1]])

    def parts(self, x: Floats) -> tuple[Tensor, Tensor]:
        """theta (M, p) and b (q,), on the device."""
        there = torch.from_numpy(x).to(self.rows.F)
        return there[: self.cut].reshape(self.shape), there[self.cut :]

    def at(self, x: Floats) -> GateState:
        """Scores, softmax, mixture, slope and curvature at x."""
        rows, (theta, b) = self.rows, self.parts(x)
        gates = torch.softmax(torch.addmm(rows.offset, rows.features, theta.T), dim=1)
        mean = torch.linalg.vecdot(gates, rows.F)
        mixture = torch.addmv(mean, rows.linear, b)
        value, slope, curvature = self.loss.derivatives(mixture, rows.weight)
        shrinkage = float(0.5 * (self.penalties @ x**2))
        return GateState(gates, gates * (rows.F - mean[:, None]), mixture, slope, curvature, value + shrinkage)

    def gradient(self, state: GateState, x: Floats) -> Floats:
        """The gradient at x, where ``state`` is."""
        return self._pulled(state.slope[:, None] * state.tilts, state.slope) + self.penalties * x

    def product(self, state: GateState, v: Floats) -> Floats:
        """The product of the Hessian at ``state`` with a direction v."""
        theta, b = self.parts(v)
        u = self.rows.features @ theta.T
        tilted, mean = torch.linalg.vecdot(state.tilts, u), torch.linalg.vecdot(state.gates, u)
        pull = state.curvature * torch.addmv(tilted, self.rows.linear, b)
        push = torch.addcmul((pull - state.slope * mean)[:, None], state.slope[:, None], u)
        pulls = torch.addcmul(push * state.tilts, (state.slope * tilted)[:, None], state.gates, value=-1.0)
        return self._pulled(pulls, pull) + self.penalties * v

    def _pulled(self, pulls: Tensor, pull: Tensor) -> Floats:
        scores, linear = pulls.T @ self.rows.features, self.rows.linear.T @ pull
        return numbers_of(torch.cat([scores.reshape(-1), linear]))


class Preconditioned:
    """P^-1 of `gatewise.kernels.path.preconditioner`: d_j A + penalty I for column j, and the linear part's block."""

    def __init__(self, objective: Objective, state: GateState) -> None:
        self.shape, self.cut = objective.shape, objective.cut
        linear = _gram(objective.rows.linear, state.curvature, objective.rows)
        self.triangle = cho_factor(linear + np.diag(objective.penalties[self.cut :])) if len(linear) else None
        self.prepare(objective, state)

    def prepare(self, objective: Objective, state: GateState) -> None:
        """The factors of the scores' blocks at ``state``."""
        c = state.curvature.clamp(min=0.0)
        sums = numbers_of(torch.cat([c @ objective.rows.features.square(), c.sum()[None]]))
        sizes = sums[:-1] / sums[-1] if sums[-1] > 0.0 else np.zeros(self.shape[1])
        values, self.rotation = np.linalg.eigh(_gram(state.tilts, c, objective.rows))
        self.inverse = 1.0 / (np.maximum(values, 0.0)[:, None] * sizes + objective.penalty)

    def solve(self, r: Floats) -> Floats:
        """P^-1 r."""
        scores = self.rotation @ (self.inverse * (self.rotation.T @ r[: self.cut].reshape(self.shape)))
        if self.triangle is None:
            return scores.ravel()  # type: ignore[no-any-return]
        return np.concatenate([scores.ravel(), cho_solve(self.triangle, r[self.cut :])])


def device_paths(
    requests: Sequence[PathRequest], F: Floats, loss: Loss, samples: Sequence[RowSample], device: str
) -> list[list[FittedPath]]:
    """`gatewise.solvers.softmax_path.sample_paths` on a device; one after the other, as each fills the device."""
    place = as_device(device)
    double = partial(torch.as_tensor, dtype=torch.float64, device=place)
    found: list[list[FittedPath]] = [[] for _ in samples]
    for request in requests:
        axes = principal_axes(request.features)
        solved: list[Floats] = []  # the parameters of every sample
        for number, sample in enumerate(samples):
            kept = weighted_tiles(sample.sample_weight)
            frame = fit_frame(request, F, loss, sample, kept)
            used = np.flatnonzero(sample.sample_weight[kept])
            some = kept[used]
            rows = GateRows(
                features=double(RotatedColumns(request.features, axes, some, fitted=True).part(0, len(some))),
                F=double(frame.forecasts(F[some])),
                linear=double(frame.parts(linear_part(request, sample, some))),
                weight=double(sample.sample_weight[some]),
                place=torch.from_numpy(used).to(place),
                offset=double(frame.offset(sample.reference)),
                table=len(kept),
            )
            shape = rows.F.shape[1], rows.features.shape[1]
            cut = shape[0] * shape[1]
            known = np.zeros((len(request.spreads), cut + rows.linear.shape[1]))
            if sample.follows and solved:
                known = reordered(np.mean(solved, axis=0), frame.experts, frame.columns)
            path = _fitted(request, rows, _row_loss(frame.loss(loss, some), double), known)
            turned = path[:, :cut].reshape(len(path), *shape)[:, np.argsort(frame.experts)]
            b = np.ascontiguousarray(path[:, cut:][:, np.argsort(frame.columns)])
            solved.append(np.concatenate([turned.reshape(len(path), cut), b], axis=1))
            asked = sample.asked
            wanted = rows._replace(
                features=double(RotatedColumns(request.features, axes, asked).part(0, len(asked))),
                F=double(F[asked]),
                linear=double(linear_part(request, sample, asked)),
                offset=double(np.log(sample.reference)),
            )
            mixed = [_mixtures(wanted, (double(t), double(c)), request.ks) for t, c in zip(turned, b, strict=True)]
            found[number].append(FittedPath(GatePath(turned @ axes.T, b), np.stack(mixed)))
    return found


def _fitted(request: PathRequest, rows: GateRows, loss: RowLoss, known: Floats) -> Floats:
    """The parameters (L, size) of one request for one sample, near those that are ``known`` (L, size)."""
    total = float(rows.weight.sum())
    edge = 0.5 * request.accuracy**2 * total, FIRST_RADIUS * sqrt(total)
    both = np.broadcast_arrays(request.spreads, request.linear_spread)
    path, last = np.zeros_like(known), np.zeros_like(known[0])
    x = last
    for i in np.argsort(request.spreads, kind="stable"):
        objective = Objective(rows, loss, float(both[0][i]) ** -2.0, float(both[1][i]) ** -2.0)
        path[i] = x = minimise(objective, _coarse(x + (known[i] - last)), *edge)
        last = known[i]
    return path


def minimise(objective: Objective, x: Floats, tolerance: float, radius: float) -> Floats:
    """The minimum downhill of x, by the truncated Newton method of `gatewise.kernels.path.truncated_newton`."""
    state = objective.at(x)
    products, prepared, pre = 0, 0, Preconditioned(objective, state)
    for _ in range(newton.MOST_STEPS):
        gradient = objective.gradient(state, x)
        if products >= prepared + newton.STALE:
            pre.prepare(objective, state)
            prepared = products
        step = _conjugate_gradients(objective, state, pre, gradient, tolerance, radius)
        if step is None:
            return x
        products += step.products
        fraction, found = _line_search(objective, x, state.value, float(gradient @ step.change), step)
        if found is None:
            return x
        ratio = (state.value - found.value) / step.predicted
        x, state = _tried(x, fraction, step), found
        if fraction < 1.0:
            radius = fraction * step.length
        elif ratio < 0.25:
            radius = 0.5 * step.length
        elif ratio > 0.75 and not step.inside:
            radius *= 2.0
        if step.inside and step.predicted <= tolerance:
            return x
    return x


class NewtonStep(NamedTuple):
    """A step, the decrease that the model predicts, its length in the norm of P, and whether no edge was met."""

    change: Floats
    predicted: float
    length: float
    inside: bool
    products: int


def _conjugate_gradients(
    objective: Objective, state: GateState, pre: Preconditioned, gradient: Floats, tolerance: float, radius: float
) -> NewtonStep | None:
    """The step from zero along conjugate directions; None if the predicted decrease is negligible from the start."""
    residual, change = -gradient, np.zeros_like(gradient)
    direction = solved = pre.solve(residual)
    power, predicted, inside, products = float(residual @ solved), 0.0, True, 0
    if not 0.5 * power > newton.LEFT * tolerance:
        return None
    bar = newton.LEFT * max(power, 2.0 * tolerance)
    long, across, wide, square = 0.0, 0.0, power, radius**2
    for _ in range(newton.MOST_PRODUCTS):
        product = objective.product(state, direction)
        products += 1
        bend = float(direction @ product)
        length = power / bend if bend > 0.0 else inf
        if not long + length * (2.0 * across + length * wide) < square:
            length = (sqrt(across * across + wide * (square - long)) - across) / wide
            inside = False
        change, residual = change + length * direction, residual - length * product
        predicted += length * (power - 0.5 * length * bend)
        long += length * (2.0 * across + length * wide)
        if not inside:
            break
        solved = pre.solve(residual)
        before, power = power, float(residual @ solved)
        if power <= bar:
            break
        ratio = power / before
        across, wide = ratio * (across + length * wide), power + ratio * ratio * wide
        direction = solved + ratio * direction
    return NewtonStep(change, predicted, sqrt(long), inside, products)


def _line_search(
    objective: Objective, x: Floats, value: float, slope: float, step: NewtonStep
) -> tuple[float, GateState | None]:
    """The part of the step at which the objective falls enough, and the state there; None if it does not fall."""
    fraction = 1.0
    while True:
        state = objective.at(_tried(x, fraction, step))
        change = state.value - value
        if change <= newton.ARMIJO * fraction * slope:
            return fraction, state
        if fraction < newton.SHORTEST or step.predicted < newton.ROUNDING * abs(value):
            return 0.0, None
        best = 0.5 * fraction
        if np.isfinite(change):
            best = -0.5 * fraction * fraction * slope / (change - fraction * slope)
        fraction = min(max(best, 0.1 * fraction), 0.5 * fraction)


def _tried(x: Floats, fraction: float, step: NewtonStep) -> Floats:
    """The parameter after a part of the step."""
    return _coarse(x + fraction * step.change)


def _coarse(x: Floats) -> Floats:
    """Parameters to their first binary digits, as compiled code rounds them."""
    digits, exponents = np.frexp(x)
    return np.asarray(np.ldexp(np.rint(digits * 2.0**newton.BITS), exponents - newton.BITS))


def _gram(values: Tensor, curvature: Tensor, rows: GateRows) -> Floats:
    """sum_i c_i values_ij values_ik; where there are many rows, from the tiles that compiled code takes."""
    count, filled = values.shape[1], -(-rows.table // TILE) * TILE
    apart = max(1, filled // max(LEAST_ROWS, ROWS_PER_COLUMN * count))
    c = curvature.clamp(min=0.0)
    total = c.sum()
    if apart > 1:
        some = (rows.place // TILE) % apart == 0
        values, c = values[some], c[some]
    part = c.sum()
    return numbers_of((values.T @ (c[:, None] * values)) * torch.where(part > 0.0, total / part, 1.0))


def _row_loss(loss: Loss, double: Callable[[Floats], Tensor]) -> RowLoss:
    if isinstance(loss, ResidualLoss) and isinstance(loss.noise, Gaussian):
        return RowLoss(loss, double(loss.y))
    return RowLoss(loss, None)


def _mixtures(rows: GateRows, parts: tuple[Tensor, Tensor], ks: Sequence[int]) -> Floats:
    """The mixture of all experts with the linear part, then those of the k of largest weight, (1 + K, rows)."""
    theta, b = parts
    gates = torch.softmax(rows.features @ theta.T + rows.offset, dim=1)
    out = [(gates * rows.F).sum(dim=1) + rows.linear @ b]
    if ks:
        order = torch.argsort(gates, dim=1, descending=True, stable=True)
        mass, mixed = (v.gather(1, order).cumsum(dim=1) for v in (gates, gates * rows.F))
        out += [mixed[:, k - 1] / mass[:, k - 1] for k in ks]
    return numbers_of(torch.stack(out))
