"""The demonstration's table: temperatures at stations and three forecasts of them, each right in its own places."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gatewise.app.files import Output, write_text
from gatewise.app.models.table_files import write_frame

POOL = """\
# The experts of the demonstration: three forecasts that are columns of the table, and one model that is fitted.
[[experts]]
name = "coastal service"
column = "forecast_coastal"

[[experts]]
name = "alpine service"
column = "forecast_alpine"

[[experts]]
name = "global service"
column = "forecast_global"

[[experts]]
name = "similar days"
model = "sklearn.neighbors.KNeighborsRegressor"
parameters = { n_neighbors = 12 }
"""
TARGET = "temperature"


def make_table(n: int = 800, seed: int = 0) -> Any:
    """A data frame of n made-up stations and days, in degrees Celsius, km, metres and m/s; some winds are missing.

    The coastal forecast is good within some 50 km of the sea, the alpine one above some 900 m, the global one is
    middling everywhere and good in strong wind.
    """
    rng = np.random.default_rng(seed)
    sea, altitude = rng.uniform(0.0, 200.0, n), 2200.0 * rng.beta(1.0, 1.6, n)
    wind, month = rng.gamma(4.0, 1.5, n), rng.integers(1, 13, n)
    season = 15.0 - 9.0 * np.cos(2.0 * np.pi * (month - 1) / 12)
    truth = season - 0.0065 * altitude + 3.0 * rng.normal(size=n)
    far, low, calm = (1.0 / (1.0 + np.exp(-z)) for z in ((sea - 50) / 8, (900 - altitude) / 80, (8 - wind) / 0.8))
    spreads = {"coastal": 0.5 + 2.5 * far, "alpine": 0.5 + 2.5 * low, "global": 0.7 + 0.8 * calm}
    table = {
        "sea_km": sea.round(1),
        "altitude_m": altitude.round(),
        "wind": np.where(rng.random(n) < 0.04, np.nan, wind.round(1)),
        "month": month,
        "ground": rng.choice(["rock", "meadow", "town"], n, p=[0.3, 0.5, 0.2]),
    }
    for name, spread in spreads.items():
        table[f"forecast_{name}"] = (truth + spread * rng.normal(size=n)).round(1)
    table[TARGET] = (truth + 0.3 * rng.normal(size=n)).round(1)
    return pd.DataFrame(table)


def write_files(table: Path | Output, experts: Path | Output) -> tuple[Path, Path]:
    """Write the table and the pool of experts; their paths."""
    data = write_frame(make_table(), table)
    pool = write_text(experts, POOL, [".toml"], lambda path: path.read_bytes() == POOL.encode())
    return data, pool
