"""How many rows each step of `alg:general` gets."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gatewise.aggregation.scales import check_bounds
from gatewise.arrays import as_count, as_positive, Indices, renamed
from gatewise.experts.joint_update import Updates


class BlockCounts(NamedTuple):
    """Rows for burn-in, calibration, aggregation and (cross-entropy only) the projection."""

    burn_in: int
    calibration: int
    aggregation: int
    projection: int = 0


@renamed(update_every="updates", n_snapshots="updates=Updates(memory=...)")
@dataclass(frozen=True)
class Blocks:
    """The blocks of `alg:general`, the noise scale, the experts' updates and the order of the rows.

    burn_in, calibration, projection
        A fraction of the rows (a float below 1) or a count. Aggregation gets the rest. ``None`` chooses: no burn-in
        when the experts are ready, a third of the rows when they must be fitted or evolve; no calibration when
        ``sigma`` is given, else half of the rows that burn-in and projection leave; for the projection a fourth of
        the rows when it is by cross-entropy, else none.
    sigma
        The noise scale, if known.
    sigma_bounds
        The bounds that calibrated scales are clipped to. ``None``: from a thousandth to ten times the standard
        deviation of the calibration rows' response, less the shared experts.
    updates
        How experts with ``partial_fit`` learn on the way, as `Updates`, or only after how many observations.
        ``None``: they stay as they are.
    n_orders
        Random orders of the rows to average over, as ARM does.
    order
        "random", or "given" for rows that are used in the order in which they come, such as observations in time.
    """

    burn_in: float | int | None = None
    calibration: float | int | None = None
    projection: float | int | None = None
    sigma: float | None = None
    sigma_bounds: tuple[float, float] | None = None
    updates: Updates | int | None = None
    n_orders: int = 1
    order: str = "random"

    def __post_init__(self) -> None:
        if self.sigma is not None:
            as_positive(self.sigma, "sigma")
        if self.sigma_bounds is not None:
            check_bounds(self.sigma_bounds, "sigma_bounds")
        if not (self.updates is None or isinstance(self.updates, Updates)):
            object.__setattr__(self, "updates", Updates(as_count(self.updates, "updates")))
        if as_count(self.n_orders, "n_orders") > 1 and self.order == "given":
            raise ValueError(f"n_orders must be 1 where order is 'given', not {self.n_orders}")
        if self.order not in ("random", "given"):
            raise ValueError(f"order must be 'random' or 'given', not {self.order!r}")

    def orders(self, n: int, rng: np.random.Generator) -> list[Indices]:
        """The orders of n rows: ``n_orders`` random ones, or the one in which they come.

        >>> Blocks(order="given").orders(3, np.random.default_rng(0))
        [array([0, 1, 2])]
        """
        if self.order == "given":
            return [np.arange(n)]
        return [rng.permutation(n) for _ in range(self.n_orders)]

    def counts(self, n: int, experts_ready: bool, cross_entropy: bool) -> BlockCounts:
        """The number of rows in each block, for n rows in all.

        >>> Blocks().counts(200, experts_ready=True, cross_entropy=False)
        BlockCounts(burn_in=0, calibration=100, aggregation=100, projection=0)
        """
        burn_in = _rows(self.burn_in, "burn_in", n, 0 if experts_ready else n // 3)
        projection = _rows(self.projection, "projection", n, n // 4 if cross_entropy else 0)
        left = max(0, n - burn_in - projection)
        calibration = _rows(self.calibration, "calibration", n, 0 if self.sigma is not None else left // 2)
        counts = BlockCounts(burn_in, calibration, left - calibration, projection)
        self._check(counts, n, experts_ready, cross_entropy)
        return counts

    def _check(self, counts: BlockCounts, n: int, experts_ready: bool, cross_entropy: bool) -> None:
        small = [name for name, rows in counts._asdict().items() if rows == 1]
        if counts.aggregation < 2 or small:
            raise ValueError(f"every block needs at least 2 rows, but {n} rows gave {tuple(counts)}; use more rows")
        if counts.calibration == 0 and self.sigma is None:
            raise ValueError("calibration may be 0 only when sigma is given")
        if counts.burn_in == 0 and not experts_ready:
            raise ValueError("burn_in may be 0 only when every expert is fitted")
        if cross_entropy and counts.projection == 0:
            raise ValueError("the cross-entropy projection needs rows of its own; projection must not be 0")

    def scale_bounds(self, y: np.ndarray) -> tuple[float, float]:
        """The bounds of the scales for a response y."""
        if self.sigma_bounds is not None:
            return self.sigma_bounds
        # A constant response has no deviation; its own size then sets the scale.
        deviation = float(np.std(y)) or max(float(np.abs(y).max()), 1.0) * 1e-6
        return 1e-3 * deviation, 10.0 * deviation


def _rows(size: float | int | None, name: str, n: int, default: int) -> int:
    """The number of rows, of n, that a fraction or a count stands for; the default for None."""
    if size is None:
        return default
    if isinstance(size, int | np.integer):
        return as_count(size, name, low=0, high=n)
    if not 0.0 <= size < 1.0:
        raise ValueError(f"{name} must be a fraction from 0 to below 1, or a count, not {size!r}")
    return int(size * n)
