"""What a fit found: whether gating pays, by a tested headline and a gain; and where each expert leads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from gatewise.arrays import Floats
from gatewise.router.candidates import Candidate, CONVEX, Kind
from gatewise.stats import best_others, Interval, mean_and_error, mean_interval

Box: TypeAlias = dict[int, tuple[float, float]]  # ranges low < x <= high of some columns, by number
Headline = Literal["gating pays", "a gate is used", "no gate"]
LEVEL = 0.95
ALPHA = 0.05  # level of the test behind "gating pays"
LEAST_SHARE = 0.01  # gates that have less together are left out of predictions
OVERLAP = sqrt(2.0)  # how much larger the standard error is than that of independent rows, as rows share their fits
DEPTH = 3  # of the tree that describes regions
MOST_DESCRIBED = 200  # columns that the tree looks at: beyond that, those that tell the leaders apart best
WHOLE = (-np.inf, np.inf)
# The same for a gain, which also differs from one fit to another: of ready forecasts, nested ones and rows in time;
# and of experts that are fitted on folds, where the response of a row also enters the forecasts of other folds.
SPREAD_OF_FITS, SPREAD_OF_FOLDS = 1.5, 1.8


@dataclass(frozen=True)
class Verdict:
    """What a fit found about gates, whose weights depend on x.

    headline
        "gating pays": gates help beyond the best answers whose weights are the same for all rows, by a test at level
        5 %. "a gate is used": gates have a share in predictions, but their gain is not shown. "no gate": their share
        was below 0.01 and they are left out; the weights of the experts are the same for all rows.
    share
        The share of gates in a prediction.
    kind, name, k
        Of the candidate whose forecasts are nearest to the aggregate's.
    candidate
        The same candidate in words.
    weights
        The shares of the candidates by their kind, with sum one.
    gain
        The fraction of the mean held-out error of the ``baseline`` that the aggregate saves, with a 95 % interval for
        the gain of this fit on fresh rows.
    widened
        How much wider this interval is than one for independent rows.
    baseline
        "the convex stack"; or the best single expert, where the aggregate is the convex stack itself.
    p_value
        Of the one-sided test that gates add nothing to answers with constant weights, shared parts included.
        Products of inputs and forecasts, which make the weights linear functions of x, are left out of the test.
    """

    headline: Headline
    share: float
    kind: Kind
    name: str
    k: int | None
    candidate: str
    weights: Mapping[str, float]
    gain: Interval
    widened: float
    baseline: str
    p_value: float

    @property
    def gates(self) -> bool:
        """Whether gating pays."""
        return self.headline == "gating pays"

    def __str__(self) -> str:
        low, high = (f"{100 * bound:+.1f}" for bound in (self.gain.low, self.gain.high))
        return f"{self.describe()}; gain over {self.baseline} {100 * self.gain.value:+.1f} % ({low} to {high})"

    def describe(self) -> str:
        """The verdict in a few words, such as "gating pays (share 0.93), nearest to: linear gate, spread 3"."""
        if self.headline == "no gate":
            return f"no gate, nearest to: {self.candidate}"
        shown = "" if self.gates else ", gain not shown"
        return f"{self.headline}{shown} (share {self.share:.2f}), nearest to: {self.candidate}"


@dataclass(frozen=True, eq=False)
class HeldOutLosses:
    """Errors (n,) of held-out rows: of the aggregate, the convex stack, and the best single expert.

    ``signal`` (N, 3), of these rows or of others, is minus the slope of the loss at an answer without gates, times
    what gates change there, times the row's weight: its mean is positive if gates move predictions towards the
    responses. The answers are the aggregate without gates, the best candidate without one, and the aggregate with
    gates whose weights are replaced by their mean over the rows. ``across_folds`` says that the experts were fitted
    on folds without nested forecasts, so that the response of a row enters the forecasts that its list learned from.
    """

    aggregate: Floats
    stack: Floats
    single: Floats
    signal: Floats
    sample_weight: Floats
    across_folds: bool = False


def reach_verdict(
    candidates: tuple[Candidate, ...], shares: Floats, nearest: int, best_single: str, losses: HeldOutLosses
) -> Verdict:
    """The verdict from the shares (S,) in a prediction and the held-out losses.

    Gating pays if the gates' share is not below LEAST_SHARE, the test of the signal rejects at level ALPHA, and the
    aggregate's held-out error is below that of the convex stack. ``nearest`` is the candidate to be named.
    """
    weight = losses.sample_weight
    stacked = sum(share for share, c in zip(shares, candidates, strict=True) if c == CONVEX)
    baseline, other = ("the convex stack", losses.stack)
    if stacked > 1.0 - LEAST_SHARE:
        baseline, other = f"the best single expert, {best_single}", losses.single
    widened = SPREAD_OF_FOLDS if losses.across_folds else SPREAD_OF_FITS
    gain = gain_interval(losses.aggregate, other, weight, widened)
    p_value = signal_p_value(losses.signal)
    kinds = list(dict.fromkeys(c.kind for c in candidates))
    totals: dict[str, float] = {
        kind: float(sum(share for share, c in zip(shares, candidates, strict=True) if c.kind == kind))
        for kind in kinds
    }
    share = totals.get("gate", 0.0)
    headline: Headline = "no gate" if share == 0.0 else "a gate is used"
    if share > 0.0 and p_value <= ALPHA and gain.value > 0.0:
        headline = "gating pays"
    named = candidates[nearest]
    words = str(named)
    return Verdict(headline, share, named.kind, named.name, named.k, words, totals, gain, widened, baseline, p_value)


def gain_interval(
    losses: Floats, other_losses: Floats, sample_weight: Floats, widened: float = SPREAD_OF_FITS
) -> Interval:
    """The relative gain over another answer, with a 95 % interval for the gain of this fit on fresh rows.

    The differences of the losses have mean D and standard error s as if rows were independent. Rows share their
    fits, and the gain of the fit to all rows is not that of the fits to folds: the interval is D +- 1.96 f s,
    divided by the mean loss of the other answer. The factor f, ``widened``, is that of the corrected resampled t-test
    with five folds, sqrt(1 + 5 / 4), for ready and for nested forecasts; for other experts that are fitted on folds
    it is larger, as their out-of-fold forecasts depend on one another. `benchmarks.verdict` counts how often the
    interval covers.

    >>> gain = gain_interval(np.array([0.9, 0.8, 1.0]), np.ones(3), np.ones(3))
    >>> [round(number, 2) for number in gain]
    [0.1, -0.07, 0.27]
    """
    base = abs(float(np.average(other_losses, weights=sample_weight)))  # a score is a negative loss
    if base == 0.0 or len(losses) < 2:
        return Interval(0.0, -np.inf, np.inf)
    mean, error = mean_and_error(other_losses - losses, sample_weight)
    half = float(special.ndtri(0.5 + 0.5 * LEVEL)) * widened * error
    most = 1.0 if float(min(losses.min(), other_losses.min())) >= 0.0 else np.inf  # no more can be saved
    return Interval(mean / base, (mean - half) / base, min((mean + half) / base, most))


def signal_p_value(signal: Floats) -> float:
    """One-sided p-value of the null hypothesis that gates do not move every answer towards the responses.

    It is the largest of the p-values of the columns of signals (N, 3), which have the rows' weights. The sum of a
    column over the root of the sum of its squares would be standard normal for independent rows. Two rows of
    different folds enter through the same product of their errors, once in the fit for the one and once in the fit
    for the other: where gates have nothing to find, the variance is up to twice as large.

    >>> round(signal_p_value(np.ones((4, 3))), 3)
    0.079
    """
    size = np.sqrt((signal**2).sum(axis=0))
    if not size.all():
        return 1.0
    return float(special.ndtr(-signal.sum(axis=0) / (OVERLAP * size)).max())


@dataclass(frozen=True)
class RegionRow:
    """One expert and its region, the held-out rows where its weight is the largest.

    ``share`` is the fraction of rows in the region, ``mean_weight`` its mean weight over all rows, ``loss`` its mean
    squared error in the region. The runner-up is the best other expert in the region, and ``advantage`` its mean
    squared error less ``loss``. ``description`` gives the region as ranges of columns, from a decision tree of depth
    3. An expert "leads" where its weight is the largest; whether it also ``wins`` there is a matter of losses, and it
    ``loses`` if that is shown for the runner-up among all others, each of which might have been it by chance.
    """

    expert: str
    share: float
    mean_weight: float
    loss: Interval
    runner_up: str
    runner_up_loss: Interval
    advantage: Interval
    loses: bool
    description: str

    @property
    def wins(self) -> str:
        """Whether its held-out loss is below the runner-up's where it leads: "yes", "no", or "not shown".

        "yes" by the 95 % interval of the advantage, "no" if it loses, by one for all others together. "no" is a
        warning.
        """
        return "yes" if self.advantage.low > 0.0 else "no" if self.loses else "not shown"


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
        width = max(len("expert"), *(len(row.expert) for row in self.rows))
        lines = [f"{'expert':<{width}}  leads  weight  loss there  runner-up's  wins there  region"]
        for row in self.rows:
            losses = f"{_short(row.loss.value):>10}  {_short(row.runner_up_loss.value):>11}"
            numbers = f"{row.share:>5.0%}  {row.mean_weight:>6.2f}  {losses}"
            wins = row.wins if row.share else "-"
            lines.append(f"{row.expert:<{width}}  {numbers}  {wins:<10}  {row.description}")
        return "\n".join([*lines, f"the regions in words name the leading expert of {self.fidelity:.0%} of the rows"])


def region_table(
    names: Sequence[str],
    weights: Floats,
    losses: Floats,
    columns: Floats,
    column_names: Sequence[str],
    sample_weight: Floats,
) -> RegionTable:
    """The table from gate weights (n, M) and squared errors (n, M) of held-out rows with sample weights (n,).

    The regions are described by ``columns`` (n, p), which are called ``column_names``.
    """
    leader, total = weights.argmax(axis=1), float(sample_weight.sum()) or 1.0
    chosen = leader[:, None] == np.arange(len(names))
    rivals = best_others(losses, chosen, sample_weight) if len(names) > 1 else np.zeros(1, dtype=np.intp)
    words, fidelity = describe(leader, columns, column_names, len(names))
    apart = 1.0 - (1.0 - LEVEL) / max(1, len(names) - 1)  # the level of an interval that is one of so many
    rows = []
    for m, name in enumerate(names):
        here = chosen[:, m]
        own, other, own_weight = losses[here, m], losses[here, rivals[m]], sample_weight[here]
        rows.append(
            RegionRow(
                expert=name,
                share=float(own_weight.sum()) / total,
                mean_weight=float(sample_weight @ weights[:, m]) / total,
                loss=mean_interval(own, weights=own_weight),
                runner_up=names[rivals[m]],
                runner_up_loss=mean_interval(other, weights=own_weight),
                advantage=mean_interval(other - own, weights=own_weight),
                loses=mean_interval(other - own, apart, own_weight).high < 0.0,
                description=words[m],
            )
        )
    return RegionTable(tuple(rows), fidelity)


def describe(
    leader: NDArray[np.intp], columns: Floats, names: Sequence[str], n_experts: int
) -> tuple[list[str], float]:
    """The region of every expert in words, and the fraction of rows whose leading expert they get right.

    The words are the leaves of a decision tree from columns (n, p) to the leading expert of each row, ``leader``
    (n,); of more than MOST_DESCRIBED columns the tree sees those whose means differ most between leaders. Leaves of
    one expert that touch are told as one.

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
    if columns.shape[1] > MOST_DESCRIBED:
        kept = _telling(leader, columns)
        columns, names = columns[:, kept], [names[j] for j in kept]
    least = max(1, len(leader) // 100)
    tree = DecisionTreeClassifier(max_depth=DEPTH, min_samples_leaf=least, random_state=0).fit(columns, leader)
    leaves: dict[int, list[tuple[int, Box]]] = {int(m): [] for m in present}
    for count, label, box in _leaves(tree):
        leaves[label].append((count, box))
    for m in present:
        told = ((count, _words(box, names)) for count, box in _joined(leaves[int(m)]))
        parts = [text for _, text in sorted(told, reverse=True)]
        words[m] = " or ".join(parts[:2]) + (" or ..." if len(parts) > 2 else "") if parts else "scattered rows"
    return words, float(tree.score(columns, leader))


def _telling(leader: NDArray[np.intp], columns: Floats) -> NDArray[np.intp]:
    """The MOST_DESCRIBED columns of (n, p) whose means differ most between the leaders (n,), in standard errors."""
    counts = np.bincount(leader)
    sums = np.stack([columns[leader == m].sum(axis=0) for m in np.flatnonzero(counts)])
    means = columns.mean(axis=0)
    apart = counts[counts > 0] @ (sums / counts[counts > 0][:, None] - means) ** 2
    variance = np.maximum(columns.var(axis=0), np.finfo(float).tiny)
    return np.sort(np.argsort(-apart / variance, kind="stable")[:MOST_DESCRIBED])


def _joined(boxes: Sequence[tuple[int, Box]]) -> list[tuple[int, Box]]:
    """Boxes with their numbers of rows; two whose union is a box become that box, again and again."""
    left = list(boxes)
    for one, two in combinations(left, 2):
        union = _union(one[1], two[1])
        if union is not None:
            others = [box for box in left if box is not one and box is not two]
            return _joined([*others, (one[0] + two[0], union)])
    return left


def _union(one: Box, two: Box) -> Box | None:
    """The union of two boxes that touch in one column and agree in all others; None of any other two.

    >>> _union({0: (24.5, np.inf)}, {0: (21.5, 24.5)})
    {0: (21.5, inf)}
    """
    differ = [column for column in one.keys() | two.keys() if one.get(column, WHOLE) != two.get(column, WHOLE)]
    if len(differ) != 1:
        return None
    lower, upper = sorted((one.get(differ[0], WHOLE), two.get(differ[0], WHOLE)))
    if lower[1] < upper[0]:
        return None
    joined = {**one, differ[0]: (lower[0], max(lower[1], upper[1]))}
    return {column: ends for column, ends in joined.items() if ends != WHOLE}


def _leaves(tree: object) -> Iterator[tuple[int, int, Box]]:
    """Of every leaf: the number of its rows, the expert that leads on most of them, and its ranges."""
    inner = tree.tree_  # type: ignore[attr-defined]
    classes = tree.classes_  # type: ignore[attr-defined]
    stack: list[tuple[int, Box]] = [(0, {})]
    while stack:
        node, ranges = stack.pop()
        feature, cut = int(inner.feature[node]), float(inner.threshold[node])
        if inner.children_left[node] < 0:
            label = int(classes[int(inner.value[node].argmax())])
            yield int(inner.n_node_samples[node]), label, ranges
            continue
        low, high = ranges.get(feature, WHOLE)
        stack.append((int(inner.children_right[node]), {**ranges, feature: (max(low, cut), high)}))
        stack.append((int(inner.children_left[node]), {**ranges, feature: (low, min(high, cut))}))


def _words(ranges: Box, names: Sequence[str]) -> str:
    parts = [] if ranges else ["nearly everywhere"]
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
