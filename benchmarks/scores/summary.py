"""The figures of all trials, from what the store holds of each."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gatewise.arrays import Floats

N_BOOT = 400
ALPHA = 0.05


def figures(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One entry for each part that has trials."""
    makers = {
        "time": lambda found: dict(found["fit"]),
        "accuracy": accuracy,
        "pools": pools,
        "level": level,
        "power": power,
        "promises": promises,
        "bandit": streams,
    }
    return {name: makers[name](parts[name]) for name in makers if parts[name]}


def accuracy(found: Mapping[str, Any]) -> dict[str, Any]:
    """Mean accuracy over splits, and the router's beyond each rival with an error by a bootstrap over questions."""
    names = list(next(iter(found.values()))["marks"])
    means = {name: float(np.mean([np.mean(one["marks"][name]) for one in found.values()])) for name in names}
    n = 1 + max(max(one["test"]) for one in found.values())
    beyond = {name: _difference(found, name, n) for name in names if name != "ScoreRouter"}
    costs = [one["relative_cost"] for one in found.values()]
    short = [one["accuracy_of_single"] - one["accuracy_at_cost"] for one in found.values()]
    return {
        "splits": len(found),
        "accuracy": {name: round(mean, 4) for name, mean in means.items()},
        "router_beyond": beyond,
        "relative_cost_at_single_less_0.01": round(float(np.mean(costs)), 3),
        "accuracy_below_single_there": round(float(np.mean(short)), 4),
    }


def _difference(found: Mapping[str, Any], name: str, n: int) -> dict[str, float]:
    """The mean difference of marks over splits and its standard error over questions.

    A question is drawn with all splits in which it was a test question.
    """
    total, count = np.zeros(n), np.zeros(n)
    for one in found.values():
        test = np.array(one["test"])
        total[test] += np.array(one["marks"]["ScoreRouter"]) - np.array(one["marks"][name])
        count[test] += 1
    rng = np.random.default_rng(0)
    drawn: list[float] = []
    for _ in range(N_BOOT):
        times: Floats = np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)
        drawn.append(float(times @ total / (times @ count)))
    return {"mean": round(float(total.sum() / count.sum()), 4), "error": round(float(np.std(drawn)), 4)}


def pools(found: Mapping[str, Any]) -> dict[str, Any]:
    """The router beyond the best per category in every pool."""
    beyond = {name: round(one["router"] - one["best per category"], 4) for name, one in found.items()}
    return {
        "pools": len(found),
        "mean_beyond_best_per_category": round(float(np.mean(list(beyond.values()))), 4),
        "least": min(beyond.values()),
        "beyond_best_per_category": beyond,
    }


def level(found: Mapping[str, float]) -> dict[str, Any]:
    """How many of the tables in which nothing can be routed were said to be worth routing."""
    out = {}
    for null in ("permuted", "drawn"):
        p = [value for key, value in found.items() if key.startswith(null)]
        out[null] = {"tables": len(p), "false": int(np.sum(np.array(p) <= ALPHA))}
    return out


def power(found: Mapping[str, float]) -> dict[str, float]:
    """The fraction of samples of a size that were said to be worth routing."""
    sizes = sorted({int(key.split()[0]) for key in found})
    of = {size: [value for key, value in found.items() if key.startswith(f"{size} ")] for size in sizes}
    return {str(size): round(float(np.mean(np.array(values) <= ALPHA)), 3) for size, values in of.items()}


def promises(found: Mapping[str, Any]) -> dict[str, float]:
    """The fraction of 90 % intervals that held what was found on fresh questions."""
    kinds = list(next(iter(found.values())))
    return {kind: round(float(np.mean([one[kind] for one in found.values()])), 3) for kind in kinds}


def streams(found: Mapping[str, Any]) -> dict[str, Any]:
    """Mean regret of both ways to explore, and the mean and the standard error of their difference."""
    near, uniform = (np.array([one[name] for one in found.values()]) for name in ("near the border", "uniform"))
    gain = uniform - near
    return {
        "near the border": round(float(near.mean()), 4),
        "uniform": round(float(uniform.mean()), 4),
        "saved": round(float(gain.mean()), 4),
        "error": round(float(gain.std(ddof=1) / np.sqrt(len(gain))), 4) if len(gain) > 1 else None,
    }
