"""The choice of the gate class on the paper's designs: the settings, the command, and the bars."""

import json

import numpy as np
import pytest

from gatewise.paper import gate_choice as selection
from gatewise.paper.designs import DESIGNS


def test_candidates_are_the_papers_classes():
    shapes = {}
    for name, design in DESIGNS.items():
        shapes[name] = [(model.gate.theta_shape(2), model.radius) for _, model in selection.candidates(design)]
    assert shapes["linear"][:2] == [((2, 2), 3.0), ((2, 4), 3.0)]
    assert shapes["quadratic"][:2] == [((2, 2), 2.5), ((2, 4), 2.5)]
    assert shapes["nonlinear"][:2] == [((2, 2), 3.0), ((2, 4), 2.0)]
    assert [shapes[name][2][0] for name in DESIGNS] == [(3, 9), (3, 9), (3, 16)]


def test_a_row_is_the_mean_of_its_samples():
    rows = selection.run((60,), reps=3, seed=9)
    runs = [selection.replicate("quadratic", 60, r, 9) for r in range(3)]
    risks, chosen = np.array([run["risks"] for run in runs]), [run["chosen"] for run in runs]
    row = rows[1]
    assert (row.design, row.n, row.reps) == ("quadratic", 60, 3)
    np.testing.assert_allclose(list(row.risks.values()), risks.mean(axis=0), rtol=1e-12)
    selected = risks[np.arange(3), chosen]
    assert row.selected == pytest.approx(selected.mean())
    assert row.ratio == pytest.approx(selected.mean() / min(row.risks.values()))
    assert row.oracle_ratio == pytest.approx(selected.mean() / risks.min(axis=1).mean())
    assert row.aggregate == pytest.approx(np.mean([run["aggregate"] for run in runs]))
    assert [row.picked[name] for name in selection.CLASSES] == np.bincount(chosen, minlength=3).tolist()
    assert sum(row.weights.values()) == pytest.approx(1.0)


def test_the_command(gatewise, tmp_path):
    code, out, _ = gatewise("reproduce", "selection", "--reps", 2, "--n", 30, "--json", "rows.json")
    assert code == 0
    assert "nonlinear" in out
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["design"] for row in rows] == list(DESIGNS)
    assert all(row["n"] == 30 and sum(row["picked"].values()) == 2 for row in rows)


@pytest.mark.slow
def test_the_selected_estimator_is_close_to_the_best_candidate():
    """At the paper's sizes, 100 samples; over the best class and over the best of each sample."""
    for row in selection.run(reps=100, seed=0):
        assert row.ratio <= 1.35, row
        assert row.oracle_ratio <= 1.35, row
        if row.design == "nonlinear":
            assert row.picked["kernel"] >= 90, row
