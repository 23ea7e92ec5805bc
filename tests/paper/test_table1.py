"""tab:mc-summary: one replication replayed by hand, the comparison with the paper, and what the commands show."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

import gatewise as gw
from gatewise.backends import processes
from gatewise.paper import rates, table1
from gatewise.paper.designs import DESIGNS
from gatewise.paper.published import judge, off, PUBLISHED, stated
from gatewise.paper.runner import Runner
from gatewise.paper.table1 import ALL_ROWS, COMMON, KERNEL_ROWS, SETTINGS, STATED, Table1Row
from gatewise.paper.table1_gates import GATES, KERNELS, NetGate, NETS, QUADRATIC


def softmax_by_hand(first, second):
    scores = np.exp(np.array([first, second, 0.0]))
    return scores / scores.sum()


def replay(n, replication, seed, calibration, aggregation, known=None, bounds=(1e-12, 1e12)):
    """The 225 candidates of the linear gate on the quadratic design, as the supplement has it."""
    rng = np.random.default_rng([seed, 1, n, replication])
    x = rng.uniform(-1.0, 1.0, size=(n, 2))
    experts, truth = np.empty((n, 3)), np.empty((n, 3))
    for i, (x1, x2) in enumerate(x):
        experts[i] = 2 + 2 * x1 - x2, -1 - x1 + 2 * x2, 1 + np.sin(np.pi * x1) - 1.5 * x2**2
        truth[i] = softmax_by_hand(2 * x1 - 1.2 * x1**2 - 0.8 * x2**2, 2 * x2 - 0.8 * x1**2 - 1.2 * x2**2)
    y = (truth * experts).sum(axis=1) + rng.normal(scale=0.5, size=n)
    strong, weak = (-2.5, -1.25, 0.0, 1.25, 2.5), (-1.0, 0.0, 1.0)
    net = [(a, b, c, d) for a in strong for b in weak for c in weak for d in strong]
    gates = np.array([[softmax_by_hand(a * u + b * v, c * u + d * v) for u, v in x] for a, b, c, d in net])
    predictions = (gates * experts).sum(axis=2)  # (225, n)
    residual = y - predictions
    sigma = np.full(225, known)
    if known is None:
        sigma = np.clip(np.sqrt((residual[:, calibration] ** 2).mean(axis=1)), *bounds)
    log_density = -0.5 * (residual[:, aggregation] / sigma[:, None]) ** 2 - np.log(sigma)[:, None]
    weights, mean = np.full(225, 1 / 225), np.zeros(225)
    for column in log_density.T:
        mean += weights / log_density.shape[1]
        weights = weights * np.exp(column - column.max())
        weights /= weights.sum()
    averaged = np.einsum("s,snm->nm", mean, gates)
    nearest = (((averaged * experts).sum(axis=1) - predictions) ** 2).mean(axis=1).argmin()
    found = {"aggregate": averaged, "single": gates[nearest]}
    return {name: (np.abs(g - truth).sum(axis=1).mean(), ((g - truth) ** 2).sum() / n) for name, g in found.items()}


@pytest.mark.parametrize(
    ("setting", "by_hand"),
    [
        ("halves", {"calibration": slice(0, 100), "aggregation": slice(100, 200)}),
        ("thirds", {"calibration": slice(66, 133), "aggregation": slice(133, 200)}),
        ("1:2", {"calibration": slice(0, 66), "aggregation": slice(66, 200)}),
        ("known", {"calibration": None, "aggregation": slice(0, 200), "known": 0.5}),
        ("known/2", {"calibration": None, "aggregation": slice(100, 200), "known": 0.5}),
        ("bounds", {"calibration": slice(0, 100), "aggregation": slice(100, 200), "bounds": (0.25, 1.0)}),
    ],
)
def test_a_replication_replayed_by_hand(setting, by_hand):
    ours = table1.replicate("quadratic", "linear", 200, setting, 4, 11)
    for readout, errors in replay(200, 4, 11, **by_hand).items():
        np.testing.assert_allclose(ours[readout], errors, rtol=1e-9)


def test_the_table_learns_what_the_router_learns():
    """The router takes rows in a random order; put there, the rows of a sample are taken as they were drawn."""
    design, net, n = DESIGNS["quadratic"], NETS["quadratic", "linear"], 200
    sample = table1.draw(design, n, 0, 3)
    learned = table1.learn_net(net, sample, SETTINGS["thirds"], design.noise_sd)
    weights = learned.weights(sample.X)
    placed = np.argsort(np.random.default_rng(5).permutation(n))
    blocks = gw.Blocks(burn_in=66, calibration=67, sigma_bounds=(1e-3 * design.noise_sd, 1e3 * design.noise_sd))
    router = gw.RouterAggregator(design.experts, net.gate, net.net(), blocks=blocks, random_state=5)
    router.fit(sample.X[placed], sample.y[placed])
    assert (sample.X[placed][router.order_] == sample.X).all()
    np.testing.assert_allclose(router.gate_weights(sample.X), weights, rtol=1e-12)
    np.testing.assert_allclose(router.theta_, learned.nearest(sample.X, sample.F, weights), rtol=1e-12)


def test_every_setting_is_replayed():
    marks = test_a_replication_replayed_by_hand.pytestmark[0].args[1]
    assert {setting for setting, _ in marks} == set(SETTINGS)


def test_the_kernel_gate_cannot_be_bettered_nearby():
    sample = table1.draw(DESIGNS["linear"], 200, 0, 5)
    features, theta = KERNELS["linear"].features(sample.X), table1.learn_kernel("linear", sample)

    def loss(theta):
        return ((sample.y - ((features @ theta.T) * sample.F).sum(axis=1)) ** 2).mean()

    rng = np.random.default_rng(0)
    for _ in range(200):
        other = rng.dirichlet(np.full(3, 0.3), size=9).T
        step = 10.0 ** rng.uniform(-4, 0)
        assert loss((1 - step) * theta + step * other) >= loss(theta) * (1 - 1e-9)


def test_one_setting_of_one_seed_is_one_sample_whatever_the_gate():
    samples = [table1.draw(DESIGNS["linear"], 200, r, seed).y for r, seed in ((0, 1), (0, 1), (1, 1), (0, 2))]
    assert (samples[0] == samples[1]).all()
    assert not (samples[0] == samples[2]).any()
    assert not (samples[0] == samples[3]).any()


def paper_rows(scale=1.0):
    """The published means as if they were a run, under the stated settings; the other readout is far off."""
    rows = []
    for (design, gate, n), cell in PUBLISHED.items():
        setting, readout = (ALL_ROWS, "erm") if gate == "kernel" else STATED[design]
        row = Table1Row(
            design, gate, n, readout, cell["l1"].mean * scale, 0.02, cell["l2"].mean * scale, 0.01, 100, setting
        )
        rows.append(row)
        if gate != "kernel":
            other = {"aggregate": "single", "single": "aggregate"}[readout]
            rows.append(replace(row, readout=other, l1_mean=9.0, l2_mean=9.0))
    return rows


# The table in the paper's order of rows and columns: gate, then n and both errors with their deviations by design.
PRINTED = """
linear 200 0.100 0.022 0.006 0.003 200 0.230 0.033 0.030 0.012 500 0.745 0.062 0.339 0.051
linear 400 0.081 0.023 0.004 0.002 400 0.220 0.019 0.027 0.006 1000 0.713 0.033 0.322 0.025
quadratic 200 0.178 0.045 0.018 0.011 200 0.141 0.062 0.014 0.016 500 0.840 0.041 0.352 0.035
quadratic 400 0.151 0.040 0.013 0.007 400 0.133 0.061 0.013 0.013 1000 0.821 0.030 0.339 0.025
kernel 200 0.211 0.052 0.026 0.013 200 0.204 0.042 0.023 0.011 500 0.711 0.028 0.267 0.021
kernel 400 0.188 0.043 0.020 0.009 400 0.181 0.027 0.018 0.006 1000 0.713 0.019 0.266 0.014
"""


def test_published_figures_are_those_of_the_paper_line_by_line():
    for line in PRINTED.strip().splitlines():
        gate, *numbers = line.split()
        for design, (n, *cell) in zip(DESIGNS, np.reshape(numbers, (3, 5)).tolist(), strict=True):
            figures = PUBLISHED[design, gate, int(n)]
            assert [number for one in ("l1", "l2") for number in figures[one]] == [float(number) for number in cell]


def test_published_figures_match_themselves_and_order_themselves():
    verdict = judge(paper_rows(), STATED)
    assert (verdict.matched, verdict.means, verdict.missed) == (36, 36, [])
    assert verdict.ordered == verdict.pairs > 25
    far = judge(paper_rows(1.3), STATED)
    assert far.matched < 25
    assert far.ordered == far.pairs  # a common factor changes no order


def test_a_wrong_order_is_seen():
    rows = paper_rows()
    wrong = [replace(row, l1_mean=0.3) for row in rows if (row.design, row.gate) == ("linear", "linear")]
    rows = [row for row in rows if (row.design, row.gate) != ("linear", "linear")] + wrong
    verdict = judge(rows, STATED)
    assert (verdict.matched, verdict.pairs - verdict.ordered) == (34, 4)


def test_off_counts_both_runs_errors():
    row = Table1Row("linear", "kernel", 200, "erm", 0.211 + 0.02, 0.03, 0.026, 0.013, 25, ALL_ROWS)
    expected = 0.02 / np.sqrt(0.03**2 / 25 + 0.052**2 / 100)
    assert off(row, "l1").in_se == pytest.approx(expected)
    assert off(row, "l1").matches
    assert not off(replace(row, l1_mean=0.211 + 3.5 / expected * 0.02), "l1").matches  # 3.5 errors, and 13 %


def test_bold_in_the_paper_is_the_gate_that_fits_the_design():
    best = {"linear": "linear", "quadratic": "quadratic", "nonlinear": "kernel"}
    for design, gate in best.items():
        for n in DESIGNS[design].sizes:
            l2 = {other: PUBLISHED[design, other, n]["l2"].mean for other in GATES}
            assert min(l2, key=l2.get) == gate


def test_nothing_is_run_twice():
    wanted = table1.stated_and_common()
    assert len(set(wanted)) == len(wanted) == 26
    for choices in (STATED, COMMON):
        rows = [
            Table1Row(c.design, c.gate, c.n, r, 0, 0, 0, 0, 2, c.setting) for c in wanted for r in readouts(c.gate)
        ]
        assert len(table1.select(rows, choices)) == 30
        assert len(stated(table1.select(rows, choices), choices)) == 18


def readouts(gate):
    return ("erm",) if gate == "kernel" else ("aggregate", "single")


@pytest.fixture
def small_nets(monkeypatch):
    for design in ("linear", "nonlinear"):
        monkeypatch.setitem(NETS, (design, "quadratic"), NetGate(QUADRATIC, ((0.0, 2.0),) * 8))


@pytest.mark.pools
def test_rows_do_not_depend_on_the_processes():
    wanted = [cell for cell in table1.stated_and_common() if (cell.design, cell.gate) == ("nonlinear", "linear")]
    one = table1.run(wanted, reps=2, seed=1)
    assert one == table1.run(wanted, reps=2, seed=1, runner=Runner(processes(2)))
    assert one != table1.run(wanted, reps=2, seed=2)


def test_tables_fit_eighty_columns():
    pytest.importorskip("rich")
    from rich.console import Console

    from gatewise.app.figures.table1_table import settings_table
    from gatewise.app.figures.table1_table import table1 as table

    kernel = [row for row in paper_rows(1.9) if row.gate == "kernel"]
    nets = [row for row in paper_rows(1.9) if row.gate != "kernel"]
    rows = kernel + [replace(row, setting=name) for row in nets for name in ("halves", "thirds", "known")]
    console = Console(width=200)
    for design in DESIGNS:
        assert table(rows, design).__rich_measure__(console, console.options).maximum <= 80
    assert settings_table(rows).__rich_measure__(console, console.options).maximum <= 80


@pytest.mark.usefixtures("small_nets")
class TestCommands:
    @pytest.fixture
    def reproduce(self, gatewise, monkeypatch, tmp_path):
        monkeypatch.setenv("COLUMNS", "80")

        def command(*args):
            return gatewise("reproduce", *args, "--jobs", "1")

        command.read = lambda name: json.loads((tmp_path / name).read_text())
        return command

    @pytest.mark.slow
    def test_everything_into_one_folder(self, reproduce, monkeypatch, tmp_path):
        monkeypatch.setattr(rates.run, "__defaults__", ((3200, 6400), *rates.run.__defaults__[1:]))
        code, out, _ = reproduce("all", "--reps", "2", "--json", "all.json")
        assert code == 0
        assert "With the stated settings:" in out
        assert "The caption says that the shared estimator has the lower error" in out
        for name in ("regions.png", "shared.png", "rates.png"):
            assert (tmp_path / "out" / name).stat().st_size > 10_000
        found = reproduce.read("all.json")
        assert list(found) == ["table1", "regions", "shared", "rates"]
        self.check_table1(found["table1"])
        self.check_table1(reproduce.read("out/table1-common.json"))
        panels = [(panel["design"], panel["gate"]) for panel in found["regions"]]
        assert panels == [(design, gate) for design in DESIGNS for gate in GATES]
        assert all(0.3 < panel["agreement"] <= 1 for panel in found["regions"])
        assert {row["claim"] for row in found["shared"]} <= {"holds", "open", "fails"}
        again = reproduce("table1", "--reps", "2", "--json", "again.json")
        assert again[0] == 0
        assert reproduce.read("again.json") == found["table1"]

    @staticmethod
    def check_table1(records):
        keys = [(row["design"], row["gate"], row["n"], row["readout"]) for row in records]
        assert len(set(keys)) == len(keys) == 30
        assert {(d, g, n) for d, g, n, _ in keys} == set(PUBLISHED)
        for row in records:
            assert row["reps"] == 2
            assert row["readout"] in readouts(row["gate"])
            assert set(row) == set(asdict(paper_rows()[0]))
            assert all(row[name] >= 0 for name in ("l1_mean", "l1_sd", "l2_mean", "l2_sd"))

    def test_settings(self, reproduce, monkeypatch):
        some = [cell for cell in table1.every_setting() if cell.design == "quadratic" and cell.gate != "quadratic"]
        monkeypatch.setattr(table1, "every_setting", lambda: some)
        code, out, _ = reproduce("settings", "--reps", "2")
        assert code == 0
        assert all(name in out for name in (*SETTINGS, *KERNEL_ROWS))
