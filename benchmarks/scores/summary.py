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


def level(found: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """How many of the tables in which nothing can be routed were said to be worth routing, for score or for cost.

    With drawn answers cost can be saved, so that "route for cost only" is not false there.
    """
    out: dict[str, Any] = {}
    for null in ("permuted", "drawn"):
        own = [one for key, one in found.items() if key.startswith(null)]
        score = np.array([one["score"] <= ALPHA for one in own], dtype=bool)
        cost = np.array([one["cost"] <= ALPHA for one in own], dtype=bool)
        out[null] = {"tables": len(own), "route": int(score.sum()), "route for cost only": int((cost & ~score).sum())}
    return out


def power(found: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """The fractions of samples of a size that were said to be worth routing, for score and for cost only."""
    out: dict[str, Any] = {}
    for size in sorted({int(key.split()[0]) for key in found}):
        own = [one for key, one in found.items() if key.startswith(f"{size} ")]
        score = np.array([one["score"] <= ALPHA for one in own])
        cost = np.array([one["cost"] <= ALPHA for one in own])
        out[str(size)] = {
            "samples": len(own),
            "route": round(float(score.mean()), 3),
            "route for cost only": round(float((cost & ~score).mean()), 3),
        }
    return out


def promises(found: Mapping[str, Any]) -> dict[str, Any]:
    """The fraction of 90 % intervals that held what was found on fresh questions, with an error over samples."""
    out: dict[str, Any] = {"samples": len(found)}
    for kind in next(iter(found.values())):
        held = np.array([np.mean(one[kind]) for one in found.values()])
        error = float(held.std(ddof=1) / np.sqrt(len(held))) if len(held) > 1 else float("nan")
        out[kind] = {"held": round(float(held.mean()), 3), "error": round(error, 3)}
    return out


def streams(found: Mapping[str, Any]) -> dict[str, Any]:
    """Mean regret of both ways to explore, and the mean and the standard error of their difference."""
    near, uniform = (np.array([one[name] for one in found.values()]) for name in ("near the border", "uniform"))
    gain = uniform - near
    return {
        "streams": len(found),
        "near the border": round(float(near.mean()), 4),
        "uniform": round(float(uniform.mean()), 4),
        "saved": round(float(gain.mean()), 4),
        "error": round(float(gain.std(ddof=1) / np.sqrt(len(gain))), 4) if len(gain) > 1 else None,
    }
