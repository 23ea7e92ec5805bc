"""What a router's runs record beside the error: its verdict, and whether its intervals kept their word."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatewise.experiments.real.weighted import simplex, WeightedExperts

Floats = NDArray[np.float64]
Z90 = 1.6448536269514722  # half the width of a 90 % interval, in standard deviations


def router_facts(model: Any, pool: Any, X: Any, y: Floats) -> dict[str, Any]:
    """The verdict, the share of test rows in the 90 % intervals, and the gain that was promised and found.

    ``model.verdict_`` has ``kind``, ``gain`` and ``gain_interval`` (low, high): the simplex stack's mean squared
    error less the model's. The stack of the test rows is the rival's, on the same folds.
    """
    mean, std = model.predict(X, return_std=True)
    stack = WeightedExperts(pool.experts, simplex, pool.folds).fit(pool.X, pool.y)
    verdict = model.verdict_
    low, high = verdict.gain_interval
    gain = float(np.mean((stack.predict(X) - y) ** 2) - np.mean((mean - y) ** 2))
    return {
        "verdict": str(verdict.kind),
        "coverage90": float(np.mean(np.abs(y - mean) <= Z90 * std)),
        "gain": float(verdict.gain),
        "gain_low": float(low),
        "gain_high": float(high),
        "test_gain": gain,
        "gain_covered": bool(low <= gain <= high),
    }
