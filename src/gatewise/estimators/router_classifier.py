"""A router over classifiers learned by likelihood aggregation, as a scikit-learn estimator."""

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from gatewise.aggregation.blocks import Blocks
from gatewise.aggregation.class_forecasts import class_forecasts
from gatewise.aggregation.l2_projection import L2Projection
from gatewise.aggregation.ordered import AggregationSetting, Observations, OrderFit
from gatewise.aggregation.particles.particle_run import Particles
from gatewise.aggregation.router_facts import class_router_facts, ClassRouterFacts, value_lines
from gatewise.aggregation.router_run import learn_along
from gatewise.aggregation.selection_orders import block_orders, one_or_stacked
from gatewise.arrays import as_rng, check_readout, Floats, Indices, Readout
from gatewise.estimators.class_labels import plain_labels
from gatewise.estimators.floored_classifiers import (
    blocks_of_classes,
    FlooredClassifiers,
    LabelledRows,
    ProbabilityModel,
)
from gatewise.estimators.router_aggregator import as_measure
from gatewise.estimators.validation import all_or_nothing, checked_gate
from gatewise.experts.gated import GatedExperts
from gatewise.experts.pool import Pool
from gatewise.gates import Gate
from gatewise.losses import Outcome
from gatewise.nets import ListNet, Net
from gatewise.progress import RUNNING
from gatewise.router.class_scores import calibration_error, ClassScores


class RouterClassifier(ProbabilityModel):
    """Learns a gate over given classifiers by discretized aggregation with the log loss: `RouterAggregator`'s twin.

    Candidate s gives z_s(i) = sum_m g_m(x_i; theta_s) p_m(y_i | x_i) to the label of row i, and its weight is
    multiplied by that: AFTER with no scale to calibrate. On every sequence of rows the aggregate's log loss exceeds
    that of the best of S candidates by at most log S. The answer is the mean gate over candidates and time,
    p(c | x) = sum_m gbar_m(x) p_m(c | x).

    Parameters
    ----------
    experts : sequence of classifiers or of (name, classifier) pairs
        Fitted, with ``predict_proba``, or callables X -> (n, C). One that is not fitted is copied and fitted on the
        burn-in rows (`ClassExpert`); then ``decision_function``, or labels only, are enough.
    gate : Gate
        The family of gates, with one expert for each of ``experts``.
    net : Net, array (S, ...) of parameters, or Particles
        The candidates. `Particles` take the place of a net that would be too large to hold.
    projection : "l2", L2Projection or "cross_entropy"
        How one gate is chosen for ``readout="single"``: the candidate nearest to the aggregate in the squares of all
        classes' probabilities, or the softmax gate fitted to the aggregated gates on a fourth block.
    blocks : Blocks or None
        ``burn_in`` (a third of the rows if an expert is to be fitted, else none; the same rows in every order),
        ``projection``, ``n_orders`` and ``order``. There is no scale, thus no calibration.
    random_state : int, Generator or None
        Fixes the orders, and with particles their moves.
    verbose : 0, 1 or 2
        1 shows the stages of the fit, 2 also the pieces of each.

    Attributes
    ----------
    classes_ : array (C,)
        The labels of y, and those that the experts know.
    online_probabilities_ : array (n3,)
        What the aggregate gave to the labels of the aggregation rows, each before its label was seen.
    theta_, order_, blocks_, effective_candidates_, leading_, leading_theta_, weights_path_, projection_
        As in `RouterAggregator`.

    With several orders ``online_probabilities_`` and ``order_`` have a leading axis for them.

    Examples
    --------
    >>> import gatewise as gw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 1))
    >>> left, right = (lambda X: np.tile([0.9, 0.1], (len(X), 1))), (lambda X: np.tile([0.2, 0.8], (len(X), 1)))
    >>> y = np.where(rng.random(400) < np.where(X[:, 0] < 0, 0.1, 0.8), "yes", "no")
    >>> gate = gw.LinearGate(2)
    >>> router = gw.RouterClassifier([left, right], gate, gate.net(np.arange(-5.0, 6.0), d=1), random_state=0)
    >>> router.fit(X, y).predict_proba([[-1.0], [1.0]]).round(1)
    array([[0.9, 0.1],
           [0.2, 0.8]])
    """

    def __init__(
        self,
        experts: Sequence[Any],
        gate: Gate,
        net: Net | Particles | ArrayLike,
        projection: str | L2Projection = "l2",
        blocks: Blocks | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.experts = experts
        self.gate = gate
        self.net = net
        self.projection = projection
        self.blocks = blocks
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "RouterClassifier":
        """Learn the gate from rows X and labels y (n,).

        A row of sample weight w counts as w copies of it next to each other in the order: its likelihood enters to
        the power w, and its time is worth w in the average over time. It passes in steps of weight 1 and a last one
        of the rest. A row of weight 0 is left out. Experts get the weights, too, where they take them.
        """
        table = self._labelled(X, y, sample_weight)
        n, weight = len(table.labels), table.weight
        pools = GatedExperts.of(self.experts, (), checked_gate(self.gate).n_experts)
        blocks, measure, rng = blocks_of_classes(self.blocks), as_measure(self.projection), as_rng(self.random_state)
        if measure is None and weight is not None and (weight % 1.0).any():
            raise ValueError("sample_weight must be whole numbers with projection='cross_entropy'; else take 'l2'")
        seed = int(rng.integers(2**31))
        classifiers = FlooredClassifiers.of(pools.experts.experts, table.labels, seed=seed, weight=weight)
        n1, _, n3, n4 = counts = blocks.counts(n, classifiers.pool.can_predict, measure is None)
        orders = block_orders(blocks, n, n1, rng, table.labels)
        classifiers, P = _asked(classifiers, table, orders[0][:n1])
        codes = classifiers.codes(table.labels)
        net = self.net if isinstance(self.net, Net | Particles) else ListNet(self.net)
        if isinstance(net, Net):
            self.gate.check_theta(net.theta([0]), table.numbers.shape[1])
        setting = AggregationSetting(
            gate=self.gate,
            net=net,
            noise=Outcome(),
            blocks=blocks,
            counts=counts,
            pools=GatedExperts(classifiers.pool, Pool([])),
            static=P[np.arange(n), :, codes],
            n_threads=numba.get_num_threads(),
        )
        sample = Observations(table.X, table.numbers, np.zeros(n), copies=weight)  # the residual of a mixture z is -z
        self._router, fits = learn_along(setting, sample, orders, measure, rng)
        self._classifiers, self._facts = classifiers, _facts(setting, sample, orders, fits, P, codes)
        self.blocks_ = (n1, n3, n4) if n4 else (n1, n3)
        self._report(fits, [table.number[order] for order in orders])
        return self

    def predict_proba(self, X: Any, readout: Readout = "aggregate") -> Floats:
        """The probability of every class, (n, C): of the time-averaged aggregate, or of the single projected gate."""
        X = self._rows_for(X)
        check_readout(readout)
        return self._classifiers.mix(X, self._router.gate_weights(X, readout))

    def gate_weights(self, X: Any, readout: Readout = "aggregate") -> Floats:
        """The learned gate at every row, (n, M): the time-averaged aggregate, or the projected gate."""
        X = self._rows_for(X)
        check_readout(readout)
        return self._router.gate_weights(X, readout)

    def summary(self, X: Any = None, y: Any = None) -> str:
        """What was learned, as text: log losses and calibration errors one step ahead, and how sure the gate is.

        With rows X and labels y (n,), which should be new, log losses and calibration errors there, too. A candidate
        is weighed by the probability of the label that came, and a calibration error needs those of all classes. Of
        more than two, they are had by a second pass over the rows. It is not made with particles, which would move
        differently, nor with nets so large that it would take long (`class_forecasts`): then a dash stands for the
        router's calibration error one step ahead.
        """
        check_is_fitted(self)
        told = self._facts.text()
        if X is not None:
            return f"{told}\n{self._scores_on(X, y)}"
        known = np.isfinite(self._facts.calibration[0])
        return told if known else f"{told}\nthe router's calibration error needs new rows: summary(X, y)"

    def _scores_on(self, X: Any, y: Any) -> str:
        """Log loss and calibration error of the router, of equal weights and of every expert, in lines."""
        labels, P = plain_labels(y), self.expert_probabilities(X)
        if not np.isin(labels, self.classes_).all():
            raise ValueError(f"y must have labels of {self.classes_.tolist()} only")
        answers = [self.predict_proba(X), P.mean(axis=1), *P.swapaxes(0, 1)]
        scores = [ClassScores.of(p, np.searchsorted(self.classes_, labels)) for p in answers]
        values = np.array([[one.log_loss, one.calibration_error] for one in scores])
        lines = value_lines(self._facts.names, values)
        return "\n".join([f"log loss, and calibration error on the {len(labels):,} rows given:", *lines])

    def _report(self, fits: list[OrderFit], orders: list[Indices]) -> None:
        first = fits[0]
        self.theta_, self.projection_ = self._router.theta, self._router.projection
        self.order_ = one_or_stacked(orders)
        self.online_probabilities_ = one_or_stacked([fit.online for fit in fits])
        self.effective_candidates_ = float(np.mean([fit.effective for fit in fits]))
        self.leading_, self.leading_theta_ = first.leading, first.leading_theta
        self.weights_path_ = first.leading_path
        self.acceptance_, self.ess_ = first.acceptance, first.ess


def _asked(classifiers: FlooredClassifiers, table: LabelledRows, first: Indices) -> tuple[FlooredClassifiers, Floats]:
    """The experts, fitted to the first block where need be, and their probabilities at the other rows, (n, M, C)."""
    X, labels = table.X, table.labels
    rest, now = np.setdiff1d(np.arange(len(labels)), first), RUNNING.get()
    if now is not None:
        now.stage("experts", max(1, len(classifiers.pool.unfitted())))
    if len(first):
        weight = None if table.weight is None else table.weight[first]
        classifiers = classifiers.fitted(_safe_indexing(X, first), labels[first], weight)
    P = np.full((len(labels), len(classifiers.pool), len(classifiers.classes)), np.nan)
    P[rest] = classifiers.probabilities(_safe_indexing(X, rest) if len(first) else X)
    return classifiers, P


def _facts(
    setting: AggregationSetting,
    sample: Observations,
    orders: list[Indices],
    fits: list[OrderFit],
    P: Floats,
    codes: Indices,
) -> ClassRouterFacts:
    """The facts of all orders, from the experts' probabilities P (n, M, C) and the numbers of the classes (n,)."""
    start, n3 = setting.counts.burn_in, setting.counts.aggregation
    parts = [order[start : start + n3] for order in orders]
    weights = [np.ones(n3) if sample.copies is None else sample.copies[part] for part in parts]
    if P.shape[2] == 2:
        ours = [_two_classes(fit.online, codes[part]) for fit, part in zip(fits, parts, strict=True)]
    else:
        found = [class_forecasts(setting, sample, order, P, codes) for order in orders]
        ours = [np.full((n3, P.shape[2]), np.nan) if one is None else one for one in found]
    rows, weight = np.concatenate(parts), np.concatenate(weights)
    answers = [np.concatenate(ours), P.mean(axis=1)[rows], *(expert[rows] for expert in P.swapaxes(0, 1))]
    errors = [calibration_error(p.max(axis=1), p.argmax(axis=1) == codes[rows], weight) for p in answers]
    return class_router_facts(setting, fits, weights, np.array(errors))


def _two_classes(online: Floats, codes: Indices) -> Floats:
    """The probabilities of both classes, (n, 2), from those of the classes that came, (n,)."""
    came = codes[:, None] == np.arange(2)
    return np.where(came, online[:, None], 1.0 - online[:, None])
