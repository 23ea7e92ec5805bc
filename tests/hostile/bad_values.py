"""Values that an argument may get from a hasty or hostile hand."""

from datetime import datetime

import numpy as np

# No function of numbers can take these.
NO_NUMBERS = {
    "nan": float("nan"),
    "text": "a",
    "none": None,
    "complex": 1j,
    "a list": [1.0, 2.0],
    "a date": datetime(2024, 1, 1),
    "an object": object(),
}
# A function may have an answer to these, but no NaN.
EXTREME_NUMBERS = {"minus one": -1, "zero": 0, "infinity": float("inf"), "huge": 10**30, "tiny": 1e-300, "half": 0.5}


def bad_rows(n=12, d=2):
    """Arrays of n rows that are no finite numbers (n, d), by what is wrong with them."""
    rng = np.random.default_rng(0)
    good = rng.normal(size=(n, d))
    with_nan, with_inf, masked = good.copy(), good.copy(), np.ma.masked_array(good.copy())
    with_nan[1, 0], with_inf[1, 0], masked[1, 0] = np.nan, np.inf, np.ma.masked
    return {
        "NaN": with_nan,
        "infinity": with_inf,
        "masked": masked,
        "complex": good + 1j,
        "dates": np.full((n, d), np.datetime64("2024-01-01")),
        "durations": np.full((n, d), np.timedelta64(3, "D")),
        "text": np.full((n, d), "a"),
        "objects": np.full((n, d), object()),
        "one dimension": good[:, 0],
        "three dimensions": good[None],
        "no columns": good[:, :0],
        "a number": 3.0,
        "nothing": None,
        "a string": "rows",
        "a dict": {"a": 1},
        "ragged": [[1.0], [1.0, 2.0]],
    }


def bad_vectors(n=12):
    """The same for vectors (n,)."""
    good = np.random.default_rng(0).normal(size=n)
    with_nan, with_inf, masked = good.copy(), good.copy(), np.ma.masked_array(good.copy())
    with_nan[1], with_inf[1], masked[1] = np.nan, np.inf, np.ma.masked
    return {
        "NaN": with_nan,
        "infinity": with_inf,
        "masked": masked,
        "complex": good + 1j,
        "dates": np.full(n, np.datetime64("2024-01-01")),
        "text": np.array(["cat", "dog"] * (n // 2)),
        "objects": np.full(n, object()),
        "too short": good[:-1],
        "too long": np.append(good, 1.0),
        "two columns": np.column_stack([good, good]),
        "a number": 3.0,
        "nothing": None,
        "a dict": {"a": 1},
    }
