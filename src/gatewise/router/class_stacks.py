"""Members of the list that are no mixture of the probabilities: tempered, log-linear, logistic and boosted stacks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from gatewise import kernels
from gatewise.arrays import Floats
from gatewise.progress import RUNNING
from gatewise.router.candidates import Candidate
from gatewise.router.class_rows import ClassRows
from gatewise.router.members import CommonFit, FittedGroup, ListRows, ListTask
from gatewise.router.tree_members import boosting_samples
from gatewise.solvers.log_linear_pool import log_linear_pool, pool_log_probabilities
from gatewise.solvers.multinomial_ridge import class_log_probabilities, multinomial_ridge
from gatewise.solvers.softmax_path import RowSample, stack_weights

TEMPERED, POOLED, LOGISTIC, BOOSTED = "tempered stack", "log-linear stack", "logistic stack", "boosted stack"
LOGISTIC_ON_INPUTS = "logistic stack on inputs"
POOL_SPREADS = (0.1, 0.3, 1.0)  # prior standard deviations of the exponents and offsets of a log-linear stack
LOGISTIC_SPREADS = (1.0, 3.0)  # of the slopes of a logistic stack in the probabilities
INPUT_SPREADS = (0.1, 0.3)  # of those of a logistic stack on inputs, which are standardised
OWN_SPREAD = 1.0  # of the exponent and the offsets of one expert before it is mixed
BASE_SPREAD = 0.3  # of the log-linear stack that boosting and the regression on inputs start from
DEPTH, SHRINKAGE, ROUNDS = 4, 0.1, (15, 60)
MOST_COLUMNS = 40  # of log probabilities that trees split; beyond that they see those of the convex stack


def class_stacks(corrected: bool, learners: Sequence[str]) -> list[Candidate]:
    """The stacks in the list: boosted ones if among the learners, the others if ``corrected``."""
    found = []
    if corrected:
        found = [Candidate("shared", TEMPERED), *(Candidate("shared", POOLED, spread) for spread in POOL_SPREADS)]
        found += [Candidate("shared", LOGISTIC, spread) for spread in LOGISTIC_SPREADS]
        found += [Candidate("shared", LOGISTIC_ON_INPUTS, spread) for spread in INPUT_SPREADS]
    return found + [Candidate("shared", BOOSTED, trees=rounds) for rounds in ROUNDS if "boosted" in learners]


@dataclass(frozen=True, eq=False)
class ClassStacks:
    """Stacks whose probabilities are no mixture of the experts'.

    Each enters as the convex stack plus a shared part, the difference (n, C) of its probabilities and those of the
    convex stack, so that the weights of the experts still have sum one.

    tempered stack
        A convex combination of experts, each with a temperature and an offset for every class.
    log-linear stack
        The log-linear pool of all experts, shrunk towards the one with the exponents of the convex stack.
    logistic stack
        A multinomial logistic regression on the probabilities of all experts, shrunk towards the class frequencies.
    logistic stack on inputs
        A log-linear stack times the exponentials of lines in the inputs, shrunk towards the stack. The experts keep
        their exponents: with free slopes of both, a regression across folds takes the forecasts of an expert from
        those of all rows, and finds what the held-out rows would have added.
    boosted stack
        A log-linear stack times the exponentials of boosted trees on inputs and log probabilities.

    ``pools`` has the parameters (M + C,) of log-linear stacks by their spreads, ``slopes`` (C, 1 + p) those of
    logistic ones by their words, ``own`` (M, 1 + C) those of each expert alone, ``tempered`` (M,) the weights of
    tempered experts.
    """

    candidates: tuple[Candidate, ...]
    common: CommonFit
    pools: Mapping[str, Floats]
    slopes: Mapping[str, Floats]
    own: Floats
    tempered: Floats
    trees: kernels.Trees | None

    @classmethod
    def fit(cls, candidates: tuple[Candidate, ...], task: ListTask, seed: int) -> FittedGroup:
        """Fit every stack to the log loss."""
        rows = task.rows
        assert rows.classes is not None
        logs, outcome = np.log(rows.classes.probabilities), rows.classes.outcome
        wanted = {c.spread for c in candidates if c.name == POOLED}
        C, names = logs.shape[2], {c.name for c in candidates}
        columns, Z = logistic_columns(rows.classes), rows.inputs.Z
        wanted |= {BASE_SPREAD} if names & {BOOSTED, LOGISTIC_ON_INPUTS} else set()
        fits, now = [], RUNNING.get()
        for common, sample in zip(task.commons, task.samples, strict=True):
            known = np.flatnonzero(sample.sample_weight)
            given = logs[known], outcome[known], sample.sample_weight[known]
            pools = {f"{spread:g}": log_linear_pool(*given, common.stack, spread) for spread in sorted(wanted)}
            own, weights = np.zeros((logs.shape[1], 1 + logs.shape[2])), common.stack
            if TEMPERED in names:
                own, weights = _tempered(task, given[0], sample)
            slopes = {
                str(c): multinomial_ridge(columns[known], *given[1:], C, c.spread)
                for c in candidates
                if c.name == LOGISTIC
            }
            if LOGISTIC_ON_INPUTS in names:
                base = pool_log_probabilities(given[0], pools[f"{BASE_SPREAD:g}"])
                for c in candidates:
                    if c.name == LOGISTIC_ON_INPUTS:
                        slopes[str(c)] = multinomial_ridge(Z[known], *given[1:], C, c.spread, base)
            fits.append(cls(candidates, common, pools, slopes, own, weights, None))
            if now is not None:
                now.part()
        grown = _boosted(fits, task, seed) if BOOSTED in names else [None] * len(fits)
        groups: FittedGroup = []
        for fit, boosted, sample in zip(fits, grown, task.samples, strict=True):
            part = ListRows(rows.inputs[sample.asked], rows.F[sample.asked], rows.classes.part(sample.asked))
            whole = replace(fit, trees=boosted and boosted.trees)
            groups.append((whole, whole.forecasts(part)))
        return groups

    def add_weights(self, shares: Floats, rows: ListRows, total: Floats) -> None:  # noqa: ARG002 - constant in x
        total += shares.sum() * self.common.stack

    def shared_parts(self, shares: Floats, rows: ListRows) -> dict[str, Floats]:
        assert rows.classes is not None
        stack = np.einsum("m,imc->ic", self.common.stack, rows.classes.probabilities)
        total: dict[str, Floats] = {}
        for s in np.flatnonzero(shares).tolist():
            part = shares[s] * (self._probabilities(self.candidates[s], rows) - stack)
            name = self.candidates[s].name
            total[name] = total[name] + part if name in total else part
        return total

    def forecasts(self, rows: ListRows) -> Floats:
        assert rows.classes is not None
        place = np.arange(len(rows)), rows.classes.outcome
        return np.stack([self._probabilities(c, rows)[place] for c in self.candidates], axis=1)

    def _probabilities(self, c: Candidate, rows: ListRows) -> Floats:
        """The probabilities (n, C) of one stack."""
        assert rows.classes is not None
        logs = np.log(rows.classes.probabilities)
        if c.name == TEMPERED:
            return np.asarray(np.einsum("m,imc->ic", self.tempered, tempered_experts(logs, self.own)))
        if c.name == POOLED:
            return np.exp(pool_log_probabilities(logs, self.pools[f"{c.spread:g}"]))
        if c.name == LOGISTIC:
            return np.exp(class_log_probabilities(logistic_columns(rows.classes), self.slopes[str(c)]))
        scores = pool_log_probabilities(logs, self.pools[f"{BASE_SPREAD:g}"])
        if c.name == LOGISTIC_ON_INPUTS:
            return np.exp(class_log_probabilities(rows.inputs.Z, self.slopes[str(c)], scores))
        assert self.trees is not None
        grown = kernels.tree_sums(self._columns(rows), self.trees, c.trees)
        return np.asarray(softmax(scores + grown, axis=1))

    def _columns(self, rows: ListRows) -> Floats:
        assert rows.classes is not None
        return tree_columns(rows, rows.classes)


def logistic_columns(classes: ClassRows) -> Floats:
    """The columns (n, M C) of a logistic stack: probabilities less 1 / C."""
    n, M, C = classes.probabilities.shape
    return np.asarray(classes.probabilities.reshape(n, M * C) - 1.0 / C)


def tempered_experts(logs: Floats, own: Floats) -> Floats:
    """Probabilities (n, M, C) of experts, each with its exponent and its offsets, ``own`` (M, 1 + C)."""
    tempered = [np.exp(pool_log_probabilities(logs[:, [m]], theta)) for m, theta in enumerate(own)]
    return np.stack(tempered, axis=1)


def tree_columns(rows: ListRows, classes: ClassRows) -> Floats:
    """The columns that boosted trees split: the inputs, and log probabilities about their mean over the classes.

    The last class is left out, as its column follows from the others. Where there are more than MOST_COLUMNS, the log
    of the mean probability over the experts takes their place.
    """
    p = classes.probabilities
    _, M, C = p.shape
    logs = np.log(p if M * (C - 1) <= MOST_COLUMNS else p.mean(axis=1, keepdims=True))
    centered = (logs - logs.mean(axis=2, keepdims=True))[:, :, :-1]
    return np.column_stack([rows.inputs.columns, centered.reshape(len(p), -1)])


def _tempered(task: ListTask, logs: Floats, sample: RowSample) -> tuple[Floats, Floats]:
    """For one sample the parameters (M, 1 + C) of every expert alone, and the weights (M,) of the tempered."""
    assert task.rows.classes is not None
    known = np.flatnonzero(sample.sample_weight)
    outcome, weight = task.rows.classes.outcome[known], sample.sample_weight[known]
    own = np.array(
        [log_linear_pool(logs[:, [m]], outcome, weight, np.ones(1), OWN_SPREAD) for m in range(logs.shape[1])]
    )
    F = ClassRows(tempered_experts(logs, own), outcome).observed
    return own, stack_weights(F, task.loss, weight[None])[0]


def _boosted(fits: Sequence[ClassStacks], task: ListTask, seed: int) -> list[kernels.Boosted]:
    """Trees for every sample, boosted from its log-linear stack."""
    classes = task.rows.classes
    assert classes is not None
    logs, n_classes = np.log(classes.probabilities), classes.probabilities.shape[2]
    problem = kernels.BoostingProblem(tree_columns(task.rows, classes), np.eye(n_classes)[classes.outcome])
    bases = [np.exp(pool_log_probabilities(logs, fit.pools[f"{BASE_SPREAD:g}"])) for fit in fits]
    samples = [one._replace(reference=base) for one, base in zip(boosting_samples(task), bases, strict=True)]
    return kernels.boost(problem, samples, "classes", kernels.Boosting(DEPTH, SHRINKAGE, ROUNDS), seed)
