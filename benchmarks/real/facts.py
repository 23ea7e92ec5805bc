"""What a router's runs record beside the error: its verdict, and whether its intervals kept their word."""

from typing import Any

import numpy as np

from benchmarks.real.weighted import simplex, WeightedExperts
from gatewise.arrays import Floats

Z90 = 1.6448536269514722  # half the width of a 90 % interval, in standard deviations
THIRDS = ("low", "middle", "high")  # of the test rows, by predicted standard deviation


def router_facts(model: Any, contest: Any, X: Any, y: Floats) -> dict[str, Any]:
    """The verdict, the share of test rows in the 90 % intervals, and the gain that was promised and found.

    ``model.verdict_`` has ``kind`` and ``gain`` with ``value``, ``low`` and ``high``: the share of the global stack's
    mean squared error that the model saves. On the test rows the stack is the rival's, from the same folds.
    """
    mean, std = model.predict(X, return_std=True)
    inside = np.abs(y - mean) <= Z90 * std
    parts = np.array_split(np.argsort(std, kind="stable"), len(THIRDS))
    stack = WeightedExperts(contest.experts, simplex, contest.folds).fit(contest.X, contest.y)
    gain = model.verdict_.gain
    found = 1.0 - float(np.mean((mean - y) ** 2) / np.mean((stack.predict(X) - y) ** 2))
    return {
        "verdict": str(model.verdict_.kind),
        "coverage90": float(np.mean(inside)),
        **{f"coverage90_{third}": float(inside[rows].mean()) for third, rows in zip(THIRDS, parts, strict=True)},
        "gain": float(gain.value),
        "gain_low": float(gain.low),
        "gain_high": float(gain.high),
        "test_gain": found,
        "gain_covered": bool(gain.low <= found <= gain.high),
    }
