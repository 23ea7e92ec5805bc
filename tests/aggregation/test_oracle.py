"""Oracle behaviour, by simulation: what aggregation loses to the best candidate falls like log(S) / n."""

import numpy as np
import pytest

import gatewise as gw
from gatewise.aggregation import Blocks
from gatewise.aggregation.engine import project_l2
from gatewise.aggregation.gate_candidates import gate_candidates
from gatewise.experts import AffineExpert, expert_matrix
from gatewise.experts.evolving import EvolvingExpert
from gatewise.paper import DESIGNS

pytestmark = pytest.mark.slow
GATE = gw.LinearGate(3, intercept=False)
SIZES = (100, 200, 400, 800, 1600)
PROBES = np.random.default_rng(99).uniform(-1, 1, size=(2_000, 2))


def nets():
    """Two nets with the linear design's truth in both, S = 81 and 2,401."""
    return GATE.net([0.0, 1.0, 2.0], d=2), GATE.net(np.arange(0.0, 3.5, 0.5), d=2)


def best_risk(design, net):
    candidates = gate_candidates(GATE, net)
    return project_l2(candidates, PROBES, design.truth(PROBES), expert_matrix(design.experts, PROBES)).square


def mean_excess(design, net, n, reps, predict):
    """Mean over replications of the risk above the best candidate's, and its standard error."""
    best = best_risk(design, net)
    risks = []
    for rep in range(reps):
        X, y = design.sample(n, np.random.default_rng([n, rep]))
        blocks = Blocks(sigma=design.noise_sd)
        router = gw.RouterAggregator(design.experts, GATE, net, blocks=blocks, random_state=rep).fit(X, y)
        risks.append(np.mean((predict(router, X, y) - design.truth(PROBES)) ** 2) - best)
    return np.mean(risks), np.std(risks) / np.sqrt(reps)


def aggregate(router, X, y):
    return router.predict(PROBES)


@pytest.mark.parametrize("name", ["linear", "quadratic"])
def test_excess_risk_is_at_most_a_constant_times_log_s_over_n(name):
    """The constant is fitted on every second cell and holds, with standard errors, on the others."""
    cells = []
    for net in nets():
        for n in SIZES:
            excess, error = mean_excess(DESIGNS[name], net, n, 30, aggregate)
            cells.append((excess, error, np.log(net.size) / n))
    constant = max(excess / rate for excess, _, rate in cells[::2])
    assert constant > 0
    for excess, error, rate in cells[1::2]:
        assert excess - 2 * error <= 1.25 * constant * rate


def test_where_the_truth_is_a_candidate_the_slope_is_minus_one():
    excess = [mean_excess(DESIGNS["linear"], nets()[1], n, 40, aggregate)[0] for n in SIZES]
    slope = np.polyfit(np.log(SIZES), np.log(excess), 1)[0]
    assert -1.35 < slope < -0.65


def test_the_cost_of_evolving_experts_follows_their_own_error():
    """Experts off by A / sqrt(t): the risk they add grows like the mean of A^2 / t over the aggregation block."""
    design, net, n = DESIGNS["linear"], nets()[0], 300

    def run(size, rep):
        X, y = design.sample(n, np.random.default_rng([7, rep]))

        def drift(expert, X, y):
            seen = expert.seen + len(y)
            return Drifting(expert.base, size / np.sqrt(seen), seen)

        experts = [EvolvingExpert(Drifting(base, size, 1), drift) for base in design.experts]
        blocks = Blocks(burn_in=20, sigma=design.noise_sd, updates=5)
        router = gw.RouterAggregator(experts, GATE, net, blocks=blocks, random_state=rep).fit(X, y)
        rows = router.order_[router.blocks_[0] :]
        return np.mean((router.online_predictions_ - design.truth(X[rows])) ** 2)

    sizes = np.array([0.0, 1.0, 2.0, 4.0])
    risks = np.array([np.mean([run(size, rep) for rep in range(20)]) for size in sizes])
    added = risks[1:] - risks[0]
    own = sizes[1:] ** 2 * np.mean(1.0 / np.arange(20, n))
    ratio = added / own
    assert (added > 0).all()
    assert ratio.max() / ratio.min() < 2.0
    assert ratio.max() < 3.0


class Drifting:
    """An expert that is off by a constant."""

    def __init__(self, base, off, seen):
        self.base, self.off, self.seen = base, off, seen

    def __call__(self, X):
        return gw.expert_matrix([self.base], X)[:, 0] + self.off


def test_least_squares_and_the_aggregate_side_by_side():
    """Both fall with n. Averaged over time, from equal weights on, the aggregate pays for its first steps: where the
    truth is in the net, its excess is above that of least squares, which in the end finds the truth itself."""
    design, net = DESIGNS["linear"], nets()[1]
    candidates = gate_candidates(GATE, net)

    def least_squares(router, X, y):
        found = project_l2(candidates, X, y, expert_matrix(design.experts, X))
        return gw.MixtureOfExperts(GATE, net.theta(found.candidate), design.experts).predict(PROBES)

    ours, theirs = (
        np.array([mean_excess(design, net, n, 30, predict)[0] for n in (100, 400, 1600)])
        for predict in (aggregate, least_squares)
    )
    assert (np.diff(ours) < 0).all()
    assert (np.diff(theirs) < 0).all()
    assert (ours[:2] < 3.0 * theirs[:2]).all()
    assert theirs[2] < 1e-12 < ours[2] < 1e-3


def test_affine_experts_are_exact_members():
    assert best_risk(DESIGNS["linear"], nets()[0]) < 1e-20
    assert best_risk(DESIGNS["quadratic"], nets()[0]) > 1e-3
    assert isinstance(DESIGNS["linear"].experts[0], AffineExpert)
