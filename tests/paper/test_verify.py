"""The checks of `gatewise verify`: each passes, and each fails when its claim is broken on purpose."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from gatewise import nearest_center_moe, theory
from gatewise.paper.verify import CHECKS, run_check, select_checks
from gatewise.paper.verify.check import Check, CheckOutcome, held_out_ratio, slope
from gatewise.paper.verify.check_shared import _series

PAPER_LABELS = re.compile(r"^(prop|thm|lem|lemma|exa|ex|remark|cor|pro|eq):")


def coarse(h, n_experts, d, k):
    """The nearest-centre predictor with half as many cells along each side."""
    return nearest_center_moe(h, max(k, 2, n_experts // 2**d), d, k)


def no_learning(log_density, log_prior=None):
    """Weights that stay equal, in the place of AFTER's path (T + 1, S)."""
    T, S = log_density.shape
    return np.full((T + 1, S), 1 / S)


# One deliberately broken version per check, by the name of its function.
BROKEN = {
    "density": {"build": lambda h, M, d, k: coarse(h, M // 4**d, d, k)},
    "one_constant": {"law": lambda *numbers: 1.1 * theory.global_error(*numbers)},
    "nearest_centers": {"build": coarse},
    "double_pole": {"target": lambda s: s},
    "two_specialists": {"gap": lambda *errors: 1.5 * theory.specialist_gap(*errors)},
    "constants": {"law": lambda eps, radius: max(1, int(radius / eps))},
    "softmax_cover": {"sensitivity": 0.25},
    "softmax_rank": {"dimension": lambda M, d: d + 1},
    "softmax_packing": {"least": lambda reach: 0.25},
    "topk_jumps": {"sparse": False},
    "topk_cover": {"coarser": 300.0},
    "after_oracle": {"weigh": no_learning},
    "scale_calibration": {"estimate": lambda residuals, low, high: np.abs(residuals).mean(axis=0)},
    "moving_experts": {"factor": 0.5},
    "divergence": {"factor": 1.1},
    "cross_entropy": {"fit": lambda features, labels: np.zeros((2, 2))},
    "concentration": {"used": lambda n: 100},
    "dense_oracle": {"weigh": no_learning},
    "sparse_oracle": {"weigh": no_learning},
    "relative_derivative": {"factor": 0.25},
    "continuity": {"modulus": lambda distance, *numbers: distance},
    "realised_regions": {"intercept": 1.0},
    "top1_barrier": {"k": 2},
    "decomposition": {"factor": 0.5},
    "threshold_global": {"reach": lambda M: 3.0},
    "threshold_interior": {"steepness": 0.25},
    "disk": {"flat": False},
    "oscillation": {"width": lambda M: 0.008},
    "grid_tail": {"constant": lambda d, kappa: 0.01 * theory.grid_tail_constant(d, kappa)},
    "global_loss": {"bandwidth": lambda h: 0.1},
    "interior_loss": {"flips": 0.02},
    "resolution": {"power": 1.0},
    "selection_price": {"project": lambda distances: int(np.argmax(distances))},
    "selection_by_region": {"project": lambda distances: int(np.argmax(distances))},
    "hard_regions": {"idle_sign": -1.0},
    "mixed_regions": {"idle_sign": -1.0},
    "soft_predictors": {"factor": 0.1},
    "fourier_slopes": {"trend_known": True},
    "rate_gap": {"trend_known": True},
    "joint_sieve": {"dimension": 5},
    "series_floor": {"estimate": lambda t, y, order: 0.5 * _series(t, y, order)},
}
SLOW = {"dense_oracle", "sparse_oracle", "disk", "fourier_slopes", "rate_gap", "cross_entropy", "threshold_global"}
CASES = [
    pytest.param(check, id=check.run.__name__, marks=[pytest.mark.slow] if check.run.__name__ in SLOW else [])
    for check in CHECKS
]


@pytest.mark.parametrize("check", CASES)
def test_the_claim_holds(check):
    row = run_check(check, seed=1, quick=True)
    assert row.passed, row.figure


@pytest.mark.parametrize("check", CASES)
def test_a_broken_claim_fails(check):
    outcome = check.run(np.random.default_rng(1), True, **BROKEN[check.run.__name__])
    assert not outcome.passed, outcome.figure


def test_every_check_is_named_once_and_has_a_broken_version():
    names = [check.run.__name__ for check in CHECKS]
    assert sorted(names) == sorted(set(names)) == sorted(BROKEN)
    assert all(PAPER_LABELS.match(check.label) for check in CHECKS)
    assert len({check.label for check in CHECKS}) >= 30


def test_a_row_depends_on_the_seed_and_not_on_the_other_checks():
    (check,) = select_checks("lem:supp-grid-tail")
    first, again, other = (run_check(check, seed, quick=True).figure for seed in (3, 3, 4))
    assert first == again != other


def test_labels_that_do_not_exist_are_named():
    assert len(select_checks("thm:metric_entropy")) == 5
    with pytest.raises(ValueError, match="only must be part of a label, not 'thm:nothing'"):
        select_checks("thm:nothing")


def test_a_constant_fitted_on_one_half_does_not_save_a_wrong_law():
    n = np.array([100, 200, 400, 800])
    assert held_out_ratio(3.0 / n, 1.0 / n) == pytest.approx(1.0)
    assert held_out_ratio(1 / np.sqrt(n), 1.0 / n) > 1.9
    assert slope(n, 7 / n**1.5) == pytest.approx(-1.5)


@pytest.fixture
def command(gatewise):
    return lambda *args: gatewise("verify", *args)


def test_the_command_prints_a_table_and_writes_json(command, tmp_path):
    code, out, _ = command("--quick", "--only", "thm:metric_entropy", "--seed", "5", "--json", "rows.json")
    assert code == 0
    assert "5 of 5 claims hold" in out
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["passed"] for row in rows] == [True] * 5
    assert set(rows[0]) == {"label", "computed", "figure", "law", "passed", "seconds"}


def test_a_claim_that_fails_is_exit_code_one(command, monkeypatch):
    broken = Check("thm:broken", "nothing", "0 = 1", lambda rng, quick: CheckOutcome("0", False))
    monkeypatch.setattr("gatewise.paper.verify.CHECKS", (broken,))
    code, out, _ = command("--quick")
    assert code == 1
    assert "FAIL" in out
    assert command("--only", "thm:nothing")[0] == 2


def test_the_guide_lists_every_label():
    guide = (Path(__file__).parents[2] / "docs" / "theory.md").read_text()
    missing = {check.label for check in CHECKS if f"`{check.label}`" not in guide}
    assert not missing
