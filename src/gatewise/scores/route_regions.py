"""Where the router decides for each model on held-out queries, in words and figures; and the same by category."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gatewise.arrays import Floats, Integers
from gatewise.router.verdict import describe
from gatewise.stats import best_others, Interval, mean_interval

LEAST_SHARE = 0.005  # of the queries: models with less are not shown one by one


@dataclass(frozen=True)
class RouteRegion:
    """The held-out queries for which the router decides on one model.

    ``share`` is their fraction, ``score`` the model's mean score there; the runner-up is the best other model there,
    ``advantage`` the mean score beyond it. ``description`` gives the region as ranges of columns.
    """

    model: str
    share: float
    score: Interval
    runner_up: str
    advantage: Interval
    description: str


@dataclass(frozen=True)
class RouteRegionTable:
    """One row for each model that is decided on, and ``fidelity``: how often the descriptions name the decision."""

    rows: tuple[RouteRegion, ...]
    fidelity: float

    def __iter__(self) -> Iterator[RouteRegion]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shown(self) -> tuple[RouteRegion, ...]:
        """The rows of at least LEAST_SHARE of the queries."""
        return tuple(row for row in self.rows if row.share >= LEAST_SHARE)

    @property
    def hidden(self) -> str:
        """What the other rows are, in words; "" if there are none."""
        rest = [row for row in self.rows if row.share < LEAST_SHARE]
        names, share = ", ".join(row.model for row in rest), sum(row.share for row in rest)
        return f"{names}: {share:.1%} of the queries together" if rest else ""

    def __str__(self) -> str:
        width = max(len(row.model) for row in self.rows)
        lines = [f"{'model':<{width}}  share  score  advantage  region"]
        lines += [
            f"{row.model:<{width}}  {row.share:>5.0%}  {row.score.value:>5.3f}  {row.advantage.value:>+9.3f}  "
            f"{row.description}"
            for row in self.shown
        ]
        lines += [self.hidden] if self.hidden else []
        return "\n".join([*lines, f"the regions in words name the decision of {self.fidelity:.0%} of the queries"])


@dataclass(frozen=True)
class CategoryRow:
    """One level of a category: its queries, the model that most of them get, and held-out mean scores there.

    ``shares`` are the fractions of its queries for which each of all models is decided on.
    """

    column: str
    level: str
    n_queries: int
    model: str
    model_share: float
    shares: tuple[float, ...]
    router: Interval
    best_single: float
    gain: Interval


def route_regions(
    names: Sequence[str], decisions: Integers, scores: Floats, features: Floats, feature_names: Sequence[str]
) -> RouteRegionTable:
    """The table from held-out decisions (n,), scores (n, M) and the columns (n, p) that describe regions."""
    M = len(names)
    chosen = decisions[:, None] == np.arange(M)
    rivals = best_others(-scores, chosen)
    words, fidelity = describe(decisions, features, feature_names, M)
    rows = []
    for m in np.argsort(-chosen.mean(axis=0), kind="stable"):
        inside = chosen[:, m]
        if inside.any():
            own, other = scores[inside, m], scores[inside, rivals[m]]
            rows.append(
                RouteRegion(
                    names[m],
                    float(inside.mean()),
                    mean_interval(own),
                    names[rivals[m]],
                    mean_interval(own - other),
                    words[m],
                )
            )
    return RouteRegionTable(tuple(rows), fidelity)


def category_rows(
    names: Sequence[str], column: str, levels: Sequence[str], codes: Integers, decisions: Integers, scores: Floats
) -> tuple[CategoryRow, ...]:
    """One row for each level of a category, the largest first, from codes (n,), decisions (n,) and scores (n, M)."""
    best = int(scores.mean(axis=0).argmax())
    rows = []
    for code, level in enumerate(levels):
        inside = np.flatnonzero(codes == code)
        if len(inside):
            counts = np.bincount(decisions[inside], minlength=len(names))
            value, single = scores[inside, decisions[inside]], scores[inside, best]
            rows.append(
                CategoryRow(
                    column,
                    level,
                    len(inside),
                    names[int(counts.argmax())],
                    float(counts.max() / len(inside)),
                    tuple((counts / len(inside)).tolist()),
                    mean_interval(value),
                    float(single.mean()),
                    mean_interval(value - single),
                )
            )
    return tuple(sorted(rows, key=lambda row: -row.n_queries))
