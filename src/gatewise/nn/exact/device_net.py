"""Steps (d) to (f) of `alg:general` over a product net of dense gates, on a device that PyTorch knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gatewise.aggregation.device_candidates import DeviceRun, DeviceScale
from gatewise.aggregation.gate_candidates import ProductCandidates, relative_log_phi
from gatewise.arrays import Booleans, Floats, Indices
from gatewise.nn.devices import as_device, numbers_of
from gatewise.nn.exact.pair_sums import mean_square, mean_weights, sweep, weighted
from gatewise.nn.exact.pair_tables import pair_tables, PairTables, Side, sides
from gatewise.nn.exact.weight_law import weight_law, WeightLaw
from gatewise.noise import Noise

PROBES = 4096  # candidates whose weights are followed first, in float64, to know how high the others may get
HEADROOM = 60.0  # bits by which the level is raised where the weights overflow
ROWS = 512  # rows at which gates are averaged together
CHUNK = 2**30  # candidates whose squares are held together by `nearest`
NEAR = 64  # candidates that float32 cannot tell apart, compared again in float64
HELD = 2**27  # candidates whose scales are handed back


@dataclass(frozen=True)
class DeviceNet:
    """The candidates of a product net, with all sums over them taken on ``device``; in float32 on a GPU.

    Of arrays of size S only scales and mean weights are made, and they stay on the device.
    """

    candidates: ProductCandidates
    device: str

    def __post_init__(self) -> None:
        as_device(self.device)

    @property
    def size(self) -> int:
        """S."""
        return self.candidates.size

    @property
    def n_experts(self) -> int:
        """M."""
        return self.candidates.n_experts

    @property
    def n_features(self) -> int:
        """p."""
        return self.candidates.n_features

    def tables(self, features: Floats, y: Floats, F: Floats) -> Any:
        """The arrays that the compiled kernels read."""
        return self.candidates.tables(features, y, F)

    def run(self, rows: Any, scale: DeviceScale, noise: Noise, allowed: Booleans | None) -> DeviceRun:
        """Calibrate and aggregate; ``rows`` and ``scale.rows`` hold features, y and F."""
        tables = self._tables(rows.features, rows.y, rows.F)
        sigma = self._scales(scale, tables)
        prior = None if allowed is None else self._tensor(np.where(allowed, 0.0, -np.inf), tables)
        law = weight_law(noise, sigma, prior, float(sigma.min()))
        top, rise, sums = _swept(tables, law)
        mass, n = sums[0], len(rows.y)
        log_mass = np.log2(mass)
        exact = rise + torch.from_numpy(np.diff(log_mass)).to(rise)
        weights = mean_weights(tables, law, exact, -float(log_mass[0]))
        log_z = (top + log_mass - log_mass[0]) * log(2.0) + np.arange(n + 1) * (law.peak - log(law.reference))
        return DeviceRun(
            predictions=rows.y - sums[1, :n] / mass[:n],
            log_z=log_z,
            mean_weights=weights.reshape(-1),
            effective=float(mass[n] ** 2 / sums[1, n]),
            leading=_largest(weights.reshape(-1), 10),
            sigma=numbers_of(sigma.reshape(-1)) if sigma.numel() <= HELD else np.empty(0),
        )

    def scales_at(self, chosen: Indices, scale: DeviceScale) -> Floats:
        """The scales of a few candidates in float64, (chosen,)."""
        if scale.rows is None:
            return np.full(len(chosen), scale.sigma)
        square = self._residuals(chosen, scale.rows.features, scale.rows.y, scale.rows.F).square().mean(dim=0)
        return np.clip(numbers_of(square.sqrt()), *scale.bounds)

    def uniform(self, allowed: Booleans | None) -> Tensor:
        """Equal weights on the candidates that count, (S,)."""
        kind = _dtype(as_device(self.device))
        if allowed is not None:
            return torch.as_tensor(allowed / allowed.sum(), dtype=kind, device=self.device)
        return torch.full((self.size,), 1.0 / self.size, dtype=kind, device=self.device)

    def gate_mean(self, features: Floats, weights: Tensor) -> Floats:
        """sum_s weights[s] g(x_q; theta_s) at Q rows, (Q, M)."""
        out = []
        for part in _parts(len(features)):
            rows = torch.as_tensor(features[part], dtype=torch.float64, device=self.device)
            none = torch.zeros(len(rows), self.n_experts, dtype=torch.float64, device=self.device)
            left, right = self._sides(rows)
            tables = pair_tables(left, right, none[:, 0], none, weights.dtype)
            gates = none.clone()
            square = weights.reshape(tables.shape[1:])
            for side, sums in ((right, weighted(tables, square)), (left, _other_side(tables, square))):
                for m, values in side.values.items():
                    gates[:, m] = (values * sums).sum(dim=1)
            out.append(numbers_of(gates))
        return np.concatenate(out) if out else np.empty((0, self.n_experts))

    def squared_gap(self, features: Floats, target: Floats, F: Floats, weights: Tensor) -> Floats:
        """sum_s weights[s] (target_q - f(x_q; theta_s))^2 at Q rows, (Q,)."""
        return self._moment(features, target, F, weights, 2)

    def mixture(self, features: Floats, F: Floats, weights: Tensor) -> Floats:
        """sum_s weights[s] f(x_q; theta_s) at Q rows, (Q,)."""
        return -self._moment(features, np.zeros(len(F)), F, weights, 1)

    def _moment(self, features: Floats, y: Floats, F: Floats, weights: Tensor, power: int) -> Floats:
        """sum_s weights[s] (y_q - f(x_q; theta_s))^power at Q rows, (Q,)."""
        out = []
        for part in _parts(len(features)):
            tables = self._tables(features[part], y[part], F[part])
            sums = weighted(tables, weights.reshape(tables.shape[1:]), power)
            out.append(numbers_of(sums.sum(dim=1)))
        return np.concatenate(out) if out else np.empty(0)

    def nearest(self, features: Floats, target: Floats, F: Floats, allowed: Booleans | None) -> tuple[int, float]:
        """The candidate of least mean squared residual, and that mean in float64."""
        tables = self._tables(features, target, F)
        _, left, right = tables.shape
        step, found, best = max(1, CHUNK // right), [], []
        for start in range(0, left, step):
            squares = mean_square(tables.part(start, min(start + step, left))).reshape(-1)
            if allowed is not None:
                own = allowed[start * right : start * right + len(squares)]
                squares[~torch.from_numpy(own).to(squares.device)] = torch.inf
            least = torch.topk(squares, min(NEAR, len(squares)), largest=False)
            best.append(least.values)
            found.append(least.indices + start * right)
        order = torch.topk(torch.cat(best), min(NEAR, sum(map(len, best))), largest=False)
        ids = np.sort(torch.cat(found)[order.indices[order.values.isfinite()]].cpu().numpy())
        exact = numbers_of(self._residuals(ids, features, target, F).square().mean(dim=0))
        winner = int(exact.argmin())
        return int(ids[winner]), float(exact[winner])

    def _scales(self, scale: DeviceScale, like: PairTables) -> Tensor:
        """(A, B), or (1,) where the scale is given: step (d)."""
        if scale.rows is None:
            return like.na.new_tensor([scale.sigma])
        squares = mean_square(self._tables(scale.rows.features, scale.rows.y, scale.rows.F))
        return squares.sqrt_().clamp_(*scale.bounds)

    def _sides(self, features: Tensor) -> tuple[Side, Side]:
        factors = [torch.as_tensor(f, dtype=torch.float64, device=self.device) for f in self.candidates.factors]
        transform = None if self.candidates.log_phi is None else self._transformed
        return sides(features, factors, transform)

    def _transformed(self, scores: Tensor) -> Tensor:
        values = relative_log_phi(self.candidates.log_phi, numbers_of(scores))
        return torch.as_tensor(values, device=self.device)

    def _tables(self, features: Floats, y: Floats, F: Floats) -> PairTables:
        rows, response, forecasts = (
            torch.as_tensor(np.ascontiguousarray(a), dtype=torch.float64, device=self.device)
            for a in (features, y, F)
        )
        left, right = self._sides(rows)
        return pair_tables(left, right, response, forecasts, _dtype(as_device(self.device)))

    def _residuals(self, chosen: Indices, features: Floats, y: Floats, F: Floats) -> Tensor:
        """Of a few candidates, (n, chosen), in float64."""
        small = [np.unique(digits, return_inverse=True) for digits in self._digits(chosen)]
        parts = [factor[rows] for factor, (rows, _) in zip(self.candidates.factors, small, strict=True)]
        numbers = [torch.as_tensor(a, dtype=torch.float64, device=self.device) for a in (features, y, F)]
        total: Any = 0.0
        low: Any = 0.0
        for m, (part, (_, place)) in enumerate(zip(parts, small, strict=True)):
            scores = numbers[0] @ torch.as_tensor(part, dtype=torch.float64, device=self.device).T
            logs = scores if self.candidates.log_phi is None else self._transformed(scores)
            e = logs.exp()[:, torch.as_tensor(place, device=self.device)]
            total, low = total + e * (numbers[1] - numbers[2][:, m])[:, None], low + e
        found: Tensor = (total + (numbers[1] - numbers[2][:, -1])[:, None]) / (low + 1.0)
        return found

    def _digits(self, chosen: Indices) -> tuple[Indices, ...]:
        return np.unravel_index(chosen, [len(factor) for factor in self.candidates.factors])

    def _tensor(self, values: Floats, like: PairTables) -> Tensor:
        return torch.as_tensor(values, dtype=like.na.dtype, device=self.device).reshape(like.shape[1:])


def _swept(tables: PairTables, law: WeightLaw) -> tuple[Floats, Tensor, Floats]:
    """Levels (n + 1,) that the log2 weights are taken against, their rise (n,), and the sums (2, n + 1).

    The level is the largest log2 weight of some candidates; where others are so far above it that sums overflow,
    it is raised and all is done again.
    """
    top = _probed(tables, law)
    while True:
        rise = torch.from_numpy(np.diff(top)).to(tables.na)
        top = np.concatenate([[top[0]], top[0] + np.cumsum(numbers_of(rise))])
        sums = numbers_of(sweep(tables, law, rise))
        wild = ~np.isfinite(sums[:, 1:]).all(axis=0)
        if not wild.any():
            break
        top[1:][wild] += HEADROOM
    if not (sums[0] > 0.0).all():
        raise ValueError("y is so far from every candidate, in units of sigma, that its density overflows; rescale y")
    return top, rise, sums


def _probed(tables: PairTables, law: WeightLaw) -> Floats:
    """The largest log2 weight of some candidates before each row and after the last, (n + 1,), in float64."""
    _, left, right = tables.shape
    ids = (
        torch.linspace(0, left * right - 1, min(PROBES, left * right), dtype=torch.float64)
        .long()
        .to(tables.na.device)
    )
    if law.sigma.numel() > 1:
        own = law.sigma if law.prior is None else law.sigma - law.prior  # infinite where the prior is 0
        ids = torch.cat([ids, _best_of_rows(own)])
    elif law.prior is not None:
        ids = torch.cat([ids, torch.nonzero(law.prior.reshape(-1) == 0)[:PROBES, 0]])
    a, b = ids // right, ids % right
    na, da, nb, db = (t[:, p].double() for t, p in zip(tables, (a, a, b, b), strict=True))
    sigma = law.sigma.reshape(-1)[ids if law.sigma.numel() > 1 else [0]].double()
    steps = torch.log2(law.reference / sigma) - law.shape((na + nb) / (da + db) * (law.scale / sigma))
    start = torch.zeros_like(steps[:1]) if law.prior is None else law.prior.reshape(-1)[ids].double()[None]
    return numbers_of(torch.cat([start, start + steps.cumsum(dim=0)]).max(dim=1).values)


def _best_of_rows(values: Tensor) -> Tensor:
    """The flat numbers of the smallest value in some of the rows of a matrix."""
    step = max(1, len(values) // PROBES)
    rows = torch.arange(0, len(values), step, device=values.device)
    return rows * values.shape[1] + values[::step].argmin(dim=1)


def _largest(weights: Tensor, count: int) -> Indices:
    """The places of the largest weights, best first, ties to the smaller place."""
    ids, values = [], []
    for start in range(0, len(weights), CHUNK):
        top = torch.topk(weights[start : start + CHUNK], min(count, len(weights) - start))
        ids.append(top.indices.cpu().numpy() + start)
        values.append(numbers_of(top.values))
    places, sizes = np.concatenate(ids), np.concatenate(values)
    return places[np.lexsort((places, -sizes))[:count]]


def _other_side(tables: PairTables, weights: Tensor) -> Tensor:
    """sum_b weights[a, b] / D at every row, (Q, A), in float64."""
    turned = PairTables(tables.nb, tables.db, tables.na, tables.da)
    step, out = max(1, CHUNK // 8 // weights.shape[1]), []
    for start in range(0, len(weights), step):
        part = slice(start, start + step)
        own = turned._replace(nb=turned.nb[:, part].contiguous(), db=turned.db[:, part].contiguous())
        out.append(weighted(own, weights[part].T.contiguous()))
    return torch.cat(out, dim=1)


def _parts(n: int) -> Iterator[slice]:
    return (slice(start, start + ROWS) for start in range(0, n, ROWS))


def _dtype(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "cuda" else torch.float64
