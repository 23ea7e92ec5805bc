"""The shared-expert simulations: their designs by hand, their seeds, their slopes."""

import json

import numpy as np
import pytest

from gatewise.backends import processes
from gatewise.paper import rates, shared_figure, two_stage
from gatewise.paper.runner import Runner
from gatewise.paper.shared_designs import regions, SHARED_DESIGNS

GRID = (np.arange(20_000) + 0.5)[:, None] / 20_000


def test_designs_follow_the_supplement_point_by_point():
    x = np.linspace(0.01, 0.99, 50)
    a, b = {0: (1.0, 0.6, 0.4), 1: (-0.8, 0.5, -0.3)}, {0: (0.7, -0.5, 0.3), 1: (0.6, 0.4, -0.5)}
    for point in x:
        j = int(point > 0.5)
        t = 2 * point - j
        waves = sum(
            a[j][k - 1] * np.sin(2 * np.pi * k * t) + b[j][k - 1] * np.cos(2 * np.pi * k * t) for k in (1, 2, 3)
        )
        row = np.array([[point]])
        assert SHARED_DESIGNS["simple-shared"].truth(row)[0] == pytest.approx(point + waves)
        tilt = 0.6 * (t - 0.5) * (1 - 2 * j)
        assert SHARED_DESIGNS["complex-shared"].truth(row)[0] == pytest.approx(np.sin(6 * np.pi * point) + tilt)


@pytest.mark.parametrize("design", SHARED_DESIGNS.values(), ids=lambda design: design.name)
def test_samples_have_the_stated_noise_and_bases_hold_the_truth(design):
    X, y = design.sample(20_000, np.random.default_rng(0))
    assert (y - design.truth(X)).std() == pytest.approx(0.5, rel=0.03)
    both = np.hstack(
        [design.shared.transform(GRID)]
        + [design.routed.transform(GRID) * (regions(GRID) == j)[:, None] for j in (0, 1)]
    )
    truth = design.truth(GRID)
    np.testing.assert_allclose(both @ np.linalg.lstsq(both, truth, rcond=None)[0], truth, atol=1e-8)


def test_the_bias_floor_is_the_distance_from_lines():
    design = SHARED_DESIGNS["complex-shared"]
    total = 0.0
    for j in (0, 1):
        rows = GRID[regions(GRID) == j]
        lines = np.column_stack([np.ones(len(rows)), rows])
        truth = design.truth(rows)
        total += ((truth - lines @ np.linalg.lstsq(lines, truth, rcond=None)[0]) ** 2).sum()
    assert rates.bias_floor(design) == pytest.approx(total / len(GRID), rel=1e-5)


def test_the_pure_risks_obey_bias_plus_variance():
    """At order K >= 3: (1/4) sum_{k>K} 1 / (2 pi^2 k^2), the tail of half a ramp, plus 2 sigma^2 (2K + 1) / n."""
    n, runs = 800, 20
    errors = np.mean([rates.replicate("simple-shared", n, r)["pure orders"] for r in range(runs)], axis=0)
    for k in (3, 4, 6):
        tail = 0.25 * (1.0 / np.arange(k + 1, 200_000) ** 2).sum() / (2 * np.pi**2)
        expected = tail + 2 * 0.25 * (2 * k + 1) / n
        assert errors[k - 1] == pytest.approx(expected, rel=0.2)


@pytest.mark.pools
def test_a_seed_fixes_every_replication_whatever_the_number_of_processes():
    one = rates.run(sizes=(200, 400), reps=3, seed=4)
    assert one == rates.run(sizes=(200, 400), reps=3, seed=4, runner=Runner(processes(2)))
    assert one != rates.run(sizes=(200, 400), reps=3, seed=5)
    assert {row.learner for row in one if row.design == "complex-shared"} == {"joint", "pure"}


def test_the_plain_rule_is_biased_and_residualization_mends_it():
    rows = {(row.method, row.n): row for row in two_stage.run(sizes=(3200,), reps=20)}
    plain, mended, joint = (rows[m, 3200] for m in ("two-stage-plain", "two-stage", "joint"))
    assert plain.slope == pytest.approx(1.75, abs=0.02)
    assert plain.mse == pytest.approx(0.75**2 / 48, rel=0.05)
    assert mended.slope == pytest.approx(1.0, abs=0.05)
    assert mended.mse == pytest.approx(joint.mse, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", ["fixed", "moving"])
def test_the_figure_has_one_point_for_each_design_and_size(coordinates):
    rows = shared_figure.run(sizes=(200,), reps=2, coordinates=coordinates)
    assert [(row.design, row.n) for row in rows] == [("simple-shared", 200), ("complex-shared", 200)]
    assert rows[1].shared_mse < rows[1].pure_mse
    assert rows[0].gain == pytest.approx(rows[0].pure_mse - rows[0].shared_mse)


@pytest.mark.slow
def test_slopes_are_those_of_the_example():
    """Joint -1 within 0.1, pure with the best size -1/2 within 0.05, from n = 3,200 to 51,200."""
    rows = rates.run(sizes=rates.SIZES[4:], reps=50, seed=1)
    found = {(s.design, s.learner): s for s in rates.slopes(rows)}
    for key in (("simple-shared", "joint"), ("simple-shared", "joint, gcv"), ("complex-shared", "joint")):
        assert found[key].slope == pytest.approx(-1.0, abs=0.1)
    assert found["simple-shared", "pure, best size"].slope == pytest.approx(-0.5, abs=0.05)
    floor = rates.bias_floor(SHARED_DESIGNS["complex-shared"])
    pure = [row for row in rows if row.design == "complex-shared" and row.learner == "pure"]
    assert pure[-1].risk == pytest.approx(floor, rel=0.01)


class TestCommands:
    @pytest.fixture
    def run(self, gatewise, monkeypatch):
        monkeypatch.setattr(rates, "SIZES", (3200, 6400))
        return lambda *args: gatewise("reproduce", *args)

    def test_rates(self, run, tmp_path, monkeypatch):
        monkeypatch.setattr(rates.run, "__defaults__", ((3200, 6400), *rates.run.__defaults__[1:]))
        code, out, _ = run("rates", "--reps", "2", "--json", "rates.json")
        assert code == 0
        assert "pure, best size" in out
        assert out.strip().endswith("figure: out/rates.png")
        content = json.loads((tmp_path / "rates.json").read_text())
        assert {row["expected"] for row in content["slopes"]} == {-1.0, -0.5, 0.0}

    @pytest.mark.slow
    def test_others(self, run, tmp_path):
        assert run("two-stage", "--reps", "2")[0] == 0
        assert run("shared", "--reps", "2")[0] == 0
        assert (tmp_path / "out" / "shared.png").stat().st_size > 10_000
        code, out, _ = run("scales", "--reps", "2", "--json", "scales.json")
        assert code == 0
        assert "all of them" in out

    def test_bad_input_is_exit_code_two(self, run):
        assert run("rates", "--reps", "0")[0] == 2
        code, _, err = run("shared", "--reps", "2", "--coordinates", "polar")
        assert code == 2
        assert err.strip().splitlines()[-1].startswith("gatewise: coordinates must be 'fixed' or 'moving'")
        assert run("two-stage", "--reps", "2", "--json", ".")[0] == 2  # a folder
