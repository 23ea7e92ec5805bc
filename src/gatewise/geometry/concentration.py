"""The anti-concentration constant of a sample (`ass:distribution`)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_between, as_count, as_rows, Floats
from gatewise.stats import share_bounds


class AntiConcentration(NamedTuple):
    """The largest ratio (fraction of rows in the band |a.x + b| <= t) / t, with its interval, and that band."""

    value: float
    low: float
    high: float
    direction: Floats
    offset: float
    half_width: float


def anti_concentration(
    X: Any,
    *,
    directions: ArrayLike | None = None,
    n_directions: int = 200,
    min_share: float = 0.05,
    level: float = 0.95,
    seed: int | np.random.Generator = 0,
) -> AntiConcentration:
    """C_4 = sup over unit a, b and t > 0 of P(|a.X + b| <= t) / t, for a sample X (n, d) (`ass:distribution`).

    A sample has mass on single points, where the ratio is infinite; so only bands that hold at least ``min_share``
    of the rows count. The fullest band is found on one half of the rows, over the axes and random directions or
    over ``directions`` (q, d), and the fraction of rows in it is measured on the other half. The interval is thus one
    for that band's ratio, and its lower end a lower bound of C_4.

    >>> found = anti_concentration(np.random.default_rng(0).uniform(size=(20_000, 1)))
    >>> bool(found.low < 2.0 < found.high)  # mass 2t in every band inside [0, 1]
    True
    """
    rows, rng = as_rows(X), np.random.default_rng(seed)
    n, d = rows.shape
    min_share, level = as_between(min_share, "min_share"), as_between(level, "level")
    if n < 2 * np.ceil(2 / min_share):
        raise ValueError(f"X must have at least {int(2 * np.ceil(2 / min_share))} rows for min_share, not {n}")
    if directions is None:
        directions = np.vstack([np.eye(d), rng.normal(size=(as_count(n_directions, "n_directions", low=0), d))])
    units = as_rows(directions, "directions")
    lengths = np.linalg.norm(units, axis=1, keepdims=True)
    if units.shape[1] != d or not (lengths > 0).all():
        raise ValueError(f"directions must have shape (q, {d}) without a zero row, not shape {units.shape}")
    units = units / lengths
    order = rng.permutation(n)
    search, test = rows[order[: n // 2]], rows[order[n // 2 :]]
    found = [_fullest_band(search @ a, min_share) for a in units]
    best = int(np.argmax([ratio for ratio, _, _ in found]))
    _, center, half = found[best]
    if half == 0:
        return AntiConcentration(np.inf, np.inf, np.inf, units[best], -center, 0.0)
    hits = int((np.abs(test @ units[best] - center) <= half).sum())
    low, high = share_bounds(hits, len(test), level)
    return AntiConcentration(
        hits / len(test) / half, float(low) / half, float(high) / half, units[best], -center, half
    )


def _fullest_band(values: Floats, min_share: float) -> tuple[float, float, float]:
    """The interval with the largest ratio (fraction of values in it) / (half width): (ratio, centre, half width).

    Only intervals with at least the fraction ``min_share`` of the values count.
    """
    ordered = np.sort(values)
    n, best = len(ordered), (-1.0, 0.0, 0.0)
    counts = np.unique(np.ceil(np.geomspace(min_share * n, n, 12)).astype(int))
    for count in counts:
        widths = ordered[count - 1 :] - ordered[: n - count + 1]
        start = int(widths.argmin())
        half = float(widths[start]) / 2
        ratio = count / n / half if half > 0 else np.inf
        if ratio > best[0]:
            best = (ratio, float(ordered[start] + ordered[start + count - 1]) / 2, half)
    return best
