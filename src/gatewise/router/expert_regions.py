"""Where each expert leads, that is, has the largest weight: how often, its losses there, and the region in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gatewise.arrays import Floats
from gatewise.stats import best_others, Interval, mean_interval

DEPTH = 3


@dataclass(frozen=True)
class RegionRow:
    """One expert and its region, the held-out rows where its weight is the largest.

    ``share`` is the fraction of rows in the region, ``mean_weight`` its mean weight over all rows, ``loss`` its mean
    squared error in the region. The runner-up is the best other expert in the region, and ``advantage`` its mean
    squared error less ``loss``. ``description`` gives the region as ranges of columns, from a decision tree of depth
    3.
    """

    expert: str
    share: float
    mean_weight: float
    loss: Interval
    runner_up: str
    runner_up_loss: Interval
    advantage: Interval
    description: str


@dataclass(frozen=True)
class RegionTable:
    """One row per expert, and ``fidelity``: the fraction of rows whose leading expert the descriptions get right."""

    rows: tuple[RegionRow, ...]
    fidelity: float

    def __iter__(self) -> Iterator[RegionRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        width = max(len(row.expert) for row in self.rows)
        lines = [f"{'expert':<{width}}  leads  weight  loss there  runner-up's  region"]
        for row in self.rows:
            losses = f"{_short(row.loss.value):>10}  {_short(row.runner_up_loss.value):>11}"
            lines.append(
                f"{row.expert:<{width}}  {row.share:>5.0%}  {row.mean_weight:>6.2f}  {losses}  {row.description}"
            )
        return "\n".join([*lines, f"the regions in words name the leading expert of {self.fidelity:.0%} of the rows"])


def region_table(
    names: Sequence[str], weights: Floats, losses: Floats, columns: Floats, column_names: Sequence[str]
) -> RegionTable:
    """The table from gate weights (n, M) and squared errors (n, M) of held-out rows.

    The regions are described by ``columns`` (n, p), which are called ``column_names``.
    """
    leader = weights.argmax(axis=1)
    chosen = leader[:, None] == np.arange(len(names))
    rivals = best_others(losses, chosen) if len(names) > 1 else np.zeros(1, dtype=np.intp)
    words, fidelity = describe(leader, columns, column_names, len(names))
    rows = []
    for m, name in enumerate(names):
        own, other = losses[chosen[:, m], m], losses[chosen[:, m], rivals[m]]
        rows.append(
            RegionRow(
                expert=name,
                share=float(chosen[:, m].mean()),
                mean_weight=float(weights[:, m].mean()),
                loss=mean_interval(own),
                runner_up=names[rivals[m]],
                runner_up_loss=mean_interval(other),
                advantage=mean_interval(other - own),
                description=words[m],
            )
        )
    return RegionTable(tuple(rows), fidelity)


def describe(
    leader: NDArray[np.intp], columns: Floats, names: Sequence[str], n_experts: int
) -> tuple[list[str], float]:
    """The region of every expert in words, and the fraction of rows whose leading expert they get right.

    The words are the leaves of a decision tree from columns (n, p) to the leading expert of each row, ``leader``
    (n,).

    >>> x = np.linspace(0, 1, 100)[:, None]
    >>> describe((x[:, 0] > 0.5).astype(int), x, ["age"], 2)
    (['age <= 0.5', 'age > 0.5'], 1.0)
    """
    from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415 - slow to import

    present = np.unique(leader)
    words = ["leads nowhere"] * n_experts
    if len(present) == 1 or columns.shape[1] == 0:
        most = int(np.bincount(leader).argmax())
        words[most] = "everywhere" if len(present) == 1 else "no column tells where"
        return words, float((leader == most).mean())
    least = max(1, len(leader) // 100)
    tree = DecisionTreeClassifier(max_depth=DEPTH, min_samples_leaf=least, random_state=0).fit(columns, leader)
    leaves: dict[int, list[tuple[int, str]]] = {int(m): [] for m in present}
    for count, label, text in _leaves(tree, names):
        leaves[label].append((count, text))
    for m in present:
        parts = [text for _, text in sorted(leaves[int(m)], reverse=True)]
        words[m] = " or ".join(parts[:2]) + (" or ..." if len(parts) > 2 else "") if parts else "scattered rows"
    return words, float(tree.score(columns, leader))


def _leaves(tree: object, names: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Of every leaf: the number of its rows, the expert that leads on most of them, and its ranges in words."""
    inner = tree.tree_  # type: ignore[attr-defined]
    classes = tree.classes_  # type: ignore[attr-defined]
    stack: list[tuple[int, dict[int, tuple[float, float]]]] = [(0, {})]
    while stack:
        node, ranges = stack.pop()
        feature, cut = int(inner.feature[node]), float(inner.threshold[node])
        if inner.children_left[node] < 0:
            label = int(classes[int(inner.value[node].argmax())])
            yield int(inner.n_node_samples[node]), label, _words(ranges, names)
            continue
        low, high = ranges.get(feature, (-np.inf, np.inf))
        stack.append((int(inner.children_right[node]), {**ranges, feature: (max(low, cut), high)}))
        stack.append((int(inner.children_left[node]), {**ranges, feature: (low, min(high, cut))}))


def _words(ranges: dict[int, tuple[float, float]], names: Sequence[str]) -> str:
    parts = []
    for feature, (low, high) in ranges.items():
        name = names[feature]
        if " = " in name and {low, high} <= {-np.inf, 0.5, np.inf}:  # a level is there or not
            parts.append(name if low == 0.5 else name.replace(" = ", " is not ", 1))
        elif name.endswith(" missing") and {low, high} <= {-np.inf, 0.5, np.inf}:
            parts.append(name if low == 0.5 else name.removesuffix("missing") + "known")
        elif low == -np.inf:
            parts.append(f"{name} <= {_short(high)}")
        elif high == np.inf:
            parts.append(f"{name} > {_short(low)}")
        else:
            parts.append(f"{_short(low)} < {name} <= {_short(high)}")
    return " and ".join(parts)


def _short(value: float) -> str:
    if not np.isfinite(value):
        return "-"
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.3g}"
