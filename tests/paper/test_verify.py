"""The checks of `gatewise verify`: each passes, and each fails when a function that it asks is broken on purpose."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from gatewise.paper.verify import CHECKS, run_check, select_checks
from gatewise.paper.verify.check import Check, CheckOutcome, fitted_constant, held_out_ratio, slope
from tools.broken import BREAKS
from tools.claims import judge, replaced

PAPER_LABELS = re.compile(r"^(prop|thm|lem|lemma|exa|ex|remark|cor|pro|eq|ass):")
# Checks that take less than about half a second in their quick form; the others are slow tests.
FAST = {
    "constants",
    "one_constant",
    "double_pole",
    "two_specialists",
    "softmax_rank",
    "softmax_packing",
    "topk_jumps",
    "after_oracle",
    "decomposition",
    "soft_predictors",
    "series_floor",
}
CASES = [
    pytest.param(check, id=check.run.__name__, marks=[] if check.run.__name__ in FAST else [pytest.mark.slow])
    for check in CHECKS
]
BROKEN = [
    pytest.param(entry, id=f"{entry.function} {entry.how}", marks=[] if entry.claim in FAST else [pytest.mark.slow])
    for entry in BREAKS
]


@pytest.mark.parametrize("check", CASES)
def test_the_claim_holds(check):
    row = run_check(check, seed=1, quick=True)
    assert row.passed, row.figure


@pytest.mark.parametrize("entry", BROKEN)
def test_a_broken_function_is_noticed(entry):
    assert [name for name, _ in judge(entry)] == [entry.claim]


def test_the_table_of_broken_functions_leaves_no_claim_out():
    names = [check.run.__name__ for check in CHECKS]
    assert sorted(names) == sorted(set(names)) == sorted({entry.claim for entry in BREAKS})
    assert len({entry.function for entry in BREAKS}) >= 40
    assert all(PAPER_LABELS.match(check.label) for check in CHECKS)
    assert len({check.label for check in CHECKS}) >= 40


def test_a_break_reaches_every_module_and_is_taken_back():
    from gatewise import after
    from gatewise.aggregation import weights
    from gatewise.paper.verify import check_aggregation

    with replaced("gatewise.aggregation.weights.after", lambda f: "broken"):
        assert weights.after == check_aggregation.after == "broken"
    assert weights.after is check_aggregation.after is after


def test_a_break_reaches_tables_of_functions():
    from gatewise.shared.least_squares import FITS, joint_fit

    with replaced("gatewise.shared.least_squares.joint_fit", lambda f: "broken"):
        assert FITS["joint"] == "broken"
    assert FITS["joint"] is joint_fit


def test_checks_do_not_define_what_the_package_ships():
    """AFTER, clipped scales, softmax and cross-entropy are asked for, not written again."""
    folder = Path(__file__).parents[2] / "src" / "gatewise" / "paper" / "verify"
    text = "\n".join(path.read_text() for path in folder.glob("*.py"))
    for sign in (
        r"np\.cumsum\(",
        r"np\.clip\(np\.sqrt",
        r"def (after|select|assignment_loss|fourier|_cross_entropy)\(",
    ):
        assert not re.search(sign, text), sign


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
    assert fitted_constant(3.0 / n, 1.0 / n).spread == pytest.approx(1.0)
    assert fitted_constant(1 / np.sqrt(n), 1.0 / n).spread > 2.8


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
