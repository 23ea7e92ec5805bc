"""The figures of the geometry are drawn, say what they show, and leave no state behind."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib import rcParams
from matplotlib.colors import to_hex

from gatewise import LinearGate
from gatewise.app.figures.geometry_figures import (
    advantage_figure,
    band_figure,
    draw_regions,
    geometry_figure,
    region_figure,
    weights_figure,
)
from gatewise.app.figures.style import COLOURS
from gatewise.geometry import specialization, TrueRegions
from gatewise.paper.nonlinear_geometry import run_geometry

LOW, HIGH = (0.0, -1.0), (2.0, 1.0)


def quarters(X):
    return (X[:, 0] > 1.0).astype(int) + 2 * (X[:, 1] > 0.0)


def png(figure, tmp_path):
    path = tmp_path / "figure.png"
    figure.savefig(path)
    return path.stat().st_size


def test_region_maps_side_by_side(tmp_path):
    halves = TrueRegions([lambda X: X[:, 0] - 1, lambda X: 1 - X[:, 0]], truth=lambda X: np.abs(X[:, 0] - 1))
    figure = region_figure({"True": quarters, "Estimated": halves}, LOW, HIGH)
    left, right = figure.axes
    assert (left.get_title(), right.get_title()) == ("True", "Estimated")
    assert [text.get_text() for text in left.texts] == ["1", "2", "3", "4"]
    for text, x1, x2 in zip(left.texts, (0.5, 1.5, 0.5, 1.5), (-0.5, -0.5, 0.5, 0.5), strict=True):
        np.testing.assert_allclose(text.get_position(), (x1, x2), atol=0.05)  # each number stands in its region
    assert (left.get_xlabel(), left.get_ylabel()) == ("$x_1$", "$x_2$")
    assert png(figure, tmp_path) > 5000


def test_the_map_has_x1_to_the_right_and_x2_upwards():
    panel = region_figure({"True": quarters}, LOW, HIGH).axes[0]
    labels = draw_regions(panel, quarters, LOW, HIGH, resolution=10)
    assert labels[0, 0] == 0
    assert labels[0, -1] == 1  # right
    assert labels[-1, 0] == 2  # up
    assert tuple(panel.images[0].get_extent()) == (0.0, 2.0, -1.0, 1.0)


def test_a_sliver_gets_colour_but_no_number():
    panel = region_figure({"sliver": lambda X: (X[:, 0] > 1.99).astype(int)}, LOW, HIGH).axes[0]
    assert [text.get_text() for text in panel.texts] == ["1"]


def test_weights_along_a_covariate(tmp_path):
    x = np.linspace(-1, 1, 50)
    theta = np.random.default_rng(0).normal(size=(9, 2))
    figure = weights_figure(x, LinearGate(10).weights(x[:, None], theta), "temperature")
    panel = figure.axes[0]
    assert panel.get_xlabel() == "temperature"
    looks = [(line.get_color(), line.get_linestyle()) for line in panel.lines]
    assert len(set(looks)) == 10  # no two experts look alike
    assert png(figure, tmp_path) > 5000


def test_boundary_bands(tmp_path):
    figure = band_figure(quarters, 0.2, LOW, HIGH)
    assert "0.2" in figure.axes[0].get_title()
    assert png(figure, tmp_path) > 5000


def test_advantage_bars_tell_specialists_from_luck(tmp_path):
    rng = np.random.default_rng(1)
    where = rng.integers(2, size=600)
    losses = rng.normal(size=(600, 3)) ** 2
    losses[:, 2] += 9.0  # never chosen
    losses[where == 0, 0] -= 2.0
    found = specialization(losses, where)
    figure = advantage_figure(found)
    panel = figure.axes[0]
    assert panel.get_title() == "Special: 1"
    bars = panel.patches
    assert len(bars) == 2
    assert to_hex(bars[0].get_facecolor()).upper() == COLOURS[0]
    assert bars[1].get_hatch()
    assert bars[0].get_width() == pytest.approx(found.experts[0].advantage.value)
    assert "never chosen" in panel.texts[0].get_text()
    assert [label.get_text() for label in panel.get_yticklabels()][2] == "expert 3 (0 rows)"
    assert "excess" in advantage_figure(found, "excess").axes[0].get_xlabel()
    assert png(figure, tmp_path) > 5000


@pytest.mark.slow
def test_the_figure_of_the_guide(tmp_path):
    before = dict(rcParams)
    run = run_geometry(n=400)
    assert run.specialization.special
    assert not run.shuffled.special
    path = geometry_figure(tmp_path / "new" / "geometry.png", replace(run, true_regions=lambda X: quarters(X + 1.0)))
    assert path.stat().st_size > 20_000
    assert dict(rcParams) == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: region_figure({}, LOW, HIGH), "maps must hold at least one"),
        (lambda: region_figure({"line": quarters}, [0.0], [1.0]), r"low must have shape \(2,\)"),
        (lambda: weights_figure([0.0, 1.0], [[0.5, 0.5]], "x"), "weights must have one row per value, 2, not 1"),
        (lambda: band_figure(quarters, 0.0, LOW, HIGH), "rho must be a finite number above 0"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_unknown_quantity_is_named():
    found = specialization(np.ones((8, 2)), [0, 1] * 4)
    with pytest.raises(ValueError, match="quantity must be 'advantage' or 'excess'"):
        advantage_figure(found, "loss")
