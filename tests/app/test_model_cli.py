"""``gatewise fit``, ``predict`` and ``report``, run as a user would run them."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import t as student_t

pd = pytest.importorskip("pandas")
pytest.importorskip("typer")
pytest.importorskip("skops")

from gatewise.app.files import claim_json
from gatewise.app.model_commands import FACTS, FINDINGS, PREDICTIONS
from gatewise.app.models.gate_names import gate_names, GATES, GROUP
from gatewise.app.reproduce_commands import KEYS
from gatewise.cli import main
from gatewise.gates import ScoreGate

POOL = """
[[experts]]
name = "line"
model = "sklearn.linear_model.Ridge"
parameters = { alpha = 0.5 }
[[experts]]
name = "a <b> service"
column = "forecast"
"""


@pytest.fixture
def run(gatewise):
    return gatewise


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 60)
    y = np.where(x < 0, x, 2.0) + 0.1 * rng.normal(size=60)
    frame = pd.DataFrame({"x": x, "kind": rng.choice(["a", "b"], 60), "forecast": 2.0 + 0 * x, "y": y})
    frame.loc[3, "x"] = np.nan
    frame.to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "pool.toml").write_text(POOL)
    return frame


def test_from_a_file_to_a_page(run, data, tmp_path):
    code, out, err = run(
        "fit", "data.csv", "--target", "y", "--pool", "pool.toml", "--out", "deep/m.skops", "--json", "facts.json"
    )
    assert code == 0
    assert {line.partition(":")[0] for line in err.splitlines()} == {"MoERegressor"}  # stages, no bar in a pipe
    assert "Error of y on 12 rows held back" in out
    assert "a <b> service alone" in out
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["experts"] == ["line", "a <b> service"]
    assert "saved on these rows" in out  # the gain is the verdict's alone
    told = "the gain compares the whole prediction with the convex stack" in out
    assert told == (facts["verdict"]["headline"] == "a gate is used")
    assert [score["method"] for score in facts["test"]["scores"]][:2] == ["Gatewise", "convex stack"]

    data.drop(columns="y").to_parquet(tmp_path / "new.parquet")
    code, out, _ = run("predict", "deep/m.skops", "new.parquet", "--out", "p.csv", "--weights", "--std")
    assert (code, out) == (0, "60 predictions: p.csv\n")
    answer = pd.read_csv(tmp_path / "p.csv")
    assert list(answer) == ["prediction", "std", "weight line", "weight a <b> service"]
    assert np.sqrt(np.mean((answer["prediction"] - data["y"]) ** 2)) < 0.5
    assert run("predict", "deep/m.skops", "new.parquet", "--out", "p.parquet", "--json", "p.json")[0] == 0
    assert len(json.loads((tmp_path / "p.json").read_text())) == 60
    assert list(pd.read_parquet(tmp_path / "p.parquet")) == ["prediction"]

    code, out, _ = run("report", "deep/m.skops", "data.csv", "--out", "page.html", "--json", "page.json")
    assert json.loads((tmp_path / "page.json").read_text())["verdict"]["kind"] in {"single", "stack", "gate"}
    assert (code, out) == (0, "page: page.html\n")
    assert "Is the specialization real?" in (tmp_path / "page.html").read_text()
    for name, keys in {"facts.json": FACTS, "p.json": PREDICTIONS, "page.json": FINDINGS}.items():
        assert claim_json(tmp_path / name, keys) is not None  # what a command wrote it may replace
    again = ("predict", "deep/m.skops", "new.parquet", "--out", "p.csv")
    code, _, err = run(*again, "--explain")
    assert (code, "p.csv exists, and has other columns than this command writes; use --force" in err) == (2, True)
    assert list(pd.read_csv(tmp_path / "p.csv")) == list(answer)
    assert run(*again, "--weights", "--std")[0] == run(*again, "--explain", "--force")[0] == 0


@pytest.mark.slow
def test_forecasts_with_gaps_and_a_wild_one(run, data, tmp_path):
    data.loc[::7, "forecast"], data.loc[5, "forecast"] = np.nan, 1e6
    data.to_csv(tmp_path / "data.csv", index=False)
    code, out, _ = run(
        "fit", "data.csv", "--target", "y", "--pool", "pool.toml", "--out", "m.skops", "--json", "f.json"
    )
    assert (code, "nan" in out) == (0, False)
    scores = {one["method"]: one["rmse"] for one in json.loads((tmp_path / "f.json").read_text())["test"]["scores"]}
    assert scores["convex stack"] < 10.0
    data.assign(x=data["x"] + 0.01).to_csv(tmp_path / "new.csv", index=False)
    assert run("report", "m.skops", "new.csv", "--out", "page.html", "--json", "page.json")[0] == 0
    assert max(one["rmse"] for one in json.loads((tmp_path / "page.json").read_text())["scores"]) < 10.0


@pytest.mark.slow
def test_a_seed_fixes_the_model(run, data, tmp_path):
    facts = []
    for name in ("a", "b"):
        run("fit", "data.csv", "--target", "y", "--pool", "pool.toml", "--json", f"{name}.json", "--test", "0")
        facts.append((tmp_path / f"{name}.json").read_text())
    assert facts[0] == facts[1]


@pytest.mark.slow
def test_without_a_test_share_there_is_no_score(run, data, tmp_path):
    code, out, _ = run(
        "fit",
        "data.csv",
        "--target",
        "y",
        "--pool",
        "pool.toml",
        "--test",
        "0",
        "--drop",
        "kind",
        "--json",
        "model.json",
    )
    assert code == 0
    assert "held back" not in out
    assert json.loads((tmp_path / "model.json").read_text())["test"] is None


CLASS_POOL = """
gates = ["linear"]
[[experts]]
name = "bayes"
model = "sklearn.naive_bayes.GaussianNB"
[[experts]]
name = "line"
model = "sklearn.linear_model.LogisticRegression"
parameters = { C = 2.0 }
"""


def test_classes_from_a_file_to_probabilities_and_a_page(run, data, tmp_path):
    (tmp_path / "classes.toml").write_text(CLASS_POOL)
    data.assign(x=data["x"].fillna(0.0)).drop(columns="kind").assign(
        kind=np.where(data["y"] > 1, "high", "low")
    ).to_csv(tmp_path / "classes.csv", index=False)
    code, out, err = run(
        "fit", "classes.csv", "--target", "kind", "--drop", "y", "--pool", "classes.toml", "--json", "facts.json"
    )
    assert code == 0
    assert {line.partition(":")[0] for line in err.splitlines()} == {"MoEClassifier"}
    assert "Probabilities of kind on 12 rows held back" in out
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["classes"] == ["high", "low"]
    assert facts["test"]["scores"][0]["calibration_error"] < 0.5
    assert run("predict", "model.skops", "classes.csv", "--out", "p.csv", "--weights", "--explain")[0] == 0
    found = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_allclose(found[["probability high", "probability low"]].sum(axis=1), 1.0)
    parts = [name for name in found.columns if name.startswith("part ") and name.endswith(", high")]
    np.testing.assert_allclose(found[parts].sum(axis=1), found["probability high"])
    assert ((found["prediction"] == "high") == (found["probability high"] > 0.5)).all()
    code, _, err = run("predict", "model.skops", "classes.csv", "--out", "q.csv", "--std")
    assert code == 2
    assert "no standard deviation" in err
    check_class_page(run, tmp_path)


def check_class_page(run, tmp_path):
    """The page of the model above: its figures are those that the held-out probabilities give."""
    from gatewise.app.models import model_file

    assert run("report", "model.skops", "classes.csv", "--out", "page.html", "--json", "page.json")[0] == 0
    facts, page = json.loads((tmp_path / "page.json").read_text()), (tmp_path / "page.html").read_text()
    model = model_file.load_model(tmp_path / "model.skops").model
    held = model.out_of_fold_
    seen = held.probabilities[np.arange(len(held.outcome)), held.outcome]
    np.testing.assert_allclose(facts["scores"][0]["log_loss"], -np.log(seen).mean())
    saved = np.log(seen) - np.log(held.stack[np.arange(len(seen)), held.outcome])
    half = student_t.ppf(0.975, len(seen) - 1) * saved.std(ddof=1) / np.sqrt(len(seen))
    gain = facts["scores"][1]["gain"]
    np.testing.assert_allclose(gain["high"] - gain["value"], model.verdict_.widened * half)
    assert set(facts["reliability"]) == {"the most probable class", "low"}
    bins = facts["reliability"]["low"]
    assert sum(one["count"] for one in bins) == len(seen)
    np.testing.assert_allclose(
        sum(one["count"] * one["probability"] for one in bins) / len(seen), held.probabilities[:, 1].mean()
    )
    assert all(low <= value <= high for value, low, high in (one["fraction"] for one in bins))
    by_class = {row["label"]: row for row in facts["by_class"]}
    mine = held.outcome == 0
    losses = -np.log(held.experts[mine, :, 0]).mean(axis=0)
    assert by_class["high"]["count"] == mine.sum()
    assert by_class["high"]["expert"] == ["bayes", "line"][losses.argmin()]
    assert page.count("<img") >= 2
    assert "Can the probabilities be trusted?" in page


def test_rows_of_classes_that_a_fit_has_not_seen_are_counted(run, data, tmp_path):
    (tmp_path / "classes.toml").write_text(CLASS_POOL[CLASS_POOL.rindex("[[") :])
    kinds = np.where(data["y"] > 1, "high", "low").astype(object)
    table = data[["x"]].fillna(0.0)
    lone = np.random.default_rng(0).permutation(60)[0]  # the trial holds this row back
    rare = np.where(np.arange(60) == lone, "rare", kinds)
    table.assign(kind=rare).to_csv(tmp_path / "rare.csv", index=False)
    code, out, err = run("fit", "rare.csv", "--target", "kind", "--pool", "classes.toml", "--json", "facts.json")
    assert code == 0
    words = "left out: 1 row of a class that the fit has not seen: rare (1); all rows of such a class were held back"
    assert "on 11 rows held back" in out
    assert words in err
    assert json.loads((tmp_path / "facts.json").read_text())["test"]["left_out"] == words

    kinds[:5], kinds[5], kinds[6:8] = "new", "newer", None
    table.assign(kind=kinds).to_csv(tmp_path / "new.csv", index=False)
    code, _, err = run("report", "model.skops", "new.csv", "--out", "page.html", "--json", "page.json")
    assert code == 0
    notes = [
        "left out: 2 rows without a value of 'kind'",
        "left out: 6 rows of classes that the fit has not seen: new (5), newer (1)",
    ]
    assert json.loads((tmp_path / "page.json").read_text())["left_out"] == notes
    page = (tmp_path / "page.html").read_text()
    for note in notes:
        assert note in err
        assert f"L{note[1:]}." in page.replace("&#x27;", "'").replace("&#39;", "'")


FOREIGN = {"own.json": '{"mine": 1}', "own.csv": "mine\n1\n", "own.html": "<p>mine", "regions.png": "mine"}


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["look", "data.csv", "--json", "own.json"], "own.json"),
        (["fit", "data.csv", "--target", "y", "--json", "own.json"], "own.json"),
        (["predict", "none.skops", "data.csv", "--out", "p.csv", "--json", "own.json"], "own.json"),
        (["predict", "none.skops", "data.csv", "--out", "own.csv"], "own.csv"),
        (["report", "none.skops", "data.csv", "--json", "own.json"], "own.json"),
        (["report", "none.skops", "data.csv", "--out", "own.html"], "own.html"),
        (["demo", "--json", "own.json"], "own.json"),
        (["verify", "--json", "own.json"], "own.json"),
        (["route", "fit", "data.csv", "--scores", "x*", "--json", "own.json"], "own.json"),
        (["route", "decide", "none.skops", "data.csv", "--out", "own.csv"], "own.csv"),
        (["route", "decide", "none.skops", "data.csv", "--out", "p.csv", "--json", "own.json"], "own.json"),
        (["route", "report", "none.skops", "--json", "own.json"], "own.json"),
        (["reproduce", "regions", "--out", "."], "regions.png"),
        *((["reproduce", name, "--json", "own.json"], "own.json") for name in KEYS),
    ],
)
def test_a_foreign_file_is_refused_before_the_work(run, data, tmp_path, args, name):
    for foreign, text in FOREIGN.items():
        (tmp_path / foreign).write_text(text)
    before = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert f"{name} exists, and " in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert all((tmp_path / foreign).read_text() == text for foreign, text in FOREIGN.items())


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["fit", "none.csv", "--target", "y"], "none.csv: no such file"),
        (["fit", "data.csv", "--target", "z"], "there is no column 'z'"),
        (["fit", "data.csv", "--target", "kind", "--task", "regression"], "must hold numbers, but is"),
        (["fit", "data.csv", "--target", "kind", "--task", "ranking"], "task must be one of regression"),
        (
            ["fit", "data.csv", "--target", "kind", "--pool", "pool.toml"],
            "model must be one of sklearn.dummy.DummyClassifier",
        ),
        (["fit", "data.csv", "--target", "forecast"], "is 2 in every row"),
        (["fit", "three.csv", "--target", "y"], "at least 20 rows"),
        (["fit", "empty.csv", "--target", "y"], "cannot be read as CSV"),
        (["fit", "data.csv", "--target", "y", "--drop", "w"], "drop: there is no column 'w'"),
        (["fit", "data.csv", "--target", "y", "--test", "0.01"], "too few"),
        (["fit", "data.csv", "--target", "y", "--pool", "none.toml"], "none.toml: no such file"),
        (["fit", "data.csv", "--target", "y", "--pool", "."], ".: is a folder"),
        *(
            ([*command, "--jobs", "0"], "--jobs must be a whole number of 1 or more, or -1, not 0")
            for command in (
                ["fit", "data.csv", "--target", "y"],
                ["verify"],
                ["route", "fit", "data.csv", "--scores", "x*"],
                ["reproduce", "rates"],
            )
        ),
        (["fit", "data.csv", "--target", "y", "--pool", "data.csv"], "cannot be read as TOML"),
        (["predict", "none.skops", "data.csv", "--out", "p.csv"], "none.skops: no such file"),
        (["predict", "data.csv", "data.csv", "--out", "p.csv"], "not a model file of Gatewise"),
        (["report", "data.csv", "data.csv"], "not a model file of Gatewise"),
        (
            ["fit", "data.csv", "--target", "y", "--gates", "linear,round"],
            "'round' is none of auto, linear, quadratic",
        ),
        (["bench"], "python -m benchmarks.NAME"),
        (["bench", "real", "--only", "mpg"], "make bench-real"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(run, data, tmp_path, args, words):
    data.iloc[:3].to_csv(tmp_path / "three.csv", index=False)
    (tmp_path / "empty.csv").write_text("")
    code, _, err = run(*args)
    assert code == 2
    assert err.startswith("gatewise: ")
    assert len(err.strip().splitlines()) == 1
    assert words in err


@pytest.mark.slow
def test_a_model_of_another_version_and_data_that_do_not_fit(run, data, monkeypatch):
    assert run("fit", "data.csv", "--target", "y", "--pool", "pool.toml", "--test", "0")[0] == 0
    data.drop(columns="x").to_csv("narrow.csv", index=False)
    data.drop(columns="y").to_csv("blind.csv", index=False)
    data.iloc[:0].to_csv("no-rows.csv", index=False)
    for args, words in (
        (("predict", "model.skops", "narrow.csv", "--out", "p.csv"), "there is no column 'x'"),
        (("predict", "model.skops", "no-rows.csv", "--out", "p.csv"), "no rows"),
        (("report", "model.skops", "blind.csv"), "there is no column 'y'"),
    ):
        code, _, err = run(*args)
        assert (code, err.count("\n")) == (2, 1)
        assert words in err
    monkeypatch.setattr("gatewise.__version__", "99.0")
    code, _, err = run("predict", "model.skops", "data.csv", "--out", "p.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert "saved with gatewise" in err
    assert "this is gatewise 99.0" in err


def test_debug_shows_where_an_error_came_from(monkeypatch, tmp_path):
    for args in (["--debug", "fit", "none.csv", "--target", "y"], ["fit", "none.csv", "--target", "y", "--debug"]):
        monkeypatch.setattr(sys, "argv", ["gatewise", *args])
        with pytest.raises(ValueError, match="no such file"):
            main()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a list of [[experts]] tables"),
        ("experts = 3", "a list of [[experts]] tables"),
        ("[[experts]]\nname='a'\nmodel='sklearn.linear_model.Ridge'\n[other]\n", "nothing else"),
        ("gates='linear'\n[[experts]]\nname='a'\ncolumn='x'", "gates must be a list of names, not 'linear'"),
        ("gates=['round']\n[[experts]]\nname='a'\ncolumn='x'", "'round' is none of auto, linear"),
        ("[[experts]]\nmodel='sklearn.linear_model.Ridge'", "name must be text"),
        ("[[experts]]\nname='a__b'\ncolumn='x'", "double underscore"),
        ("[[experts]]\nname='a'", "either a model or a column"),
        ("[[experts]]\nname='a'\nmodel='os.system'", "model must be one of sklearn"),
        ("[[experts]]\nname='a'\nmodel='sklearn.linear_model.Ridge'\nparameters={beta=1}", "no parameter 'beta'"),
        ("[[experts]]\nname='a'\ncolumn='kind'", "a column of numbers, not 'kind'"),
        ("[[experts]]\nname='a'\ncolumn='x'\nweight=2", "'weight' is none of"),
        ("[[experts]]\nname='a'\nmodel=['x']", "model must be one of"),
        ("[[experts]]\nname='a'\nmodel='sklearn.linear_model.Ridge'\nparameters=3", "parameters must be a table"),
        ("experts=[1, 2]", "must be a table"),
    ],
)
def test_a_pool_that_is_wrong_says_where(run, data, tmp_path, text, words):
    (tmp_path / "bad.toml").write_text(text)
    code, _, err = run("fit", "data.csv", "--target", "y", "--pool", "bad.toml")
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.slow
def test_the_command_itself_leaves_with_two_and_no_traceback(tmp_path):
    command = [sys.executable, "-m", "gatewise", "predict", "none.skops", "none.csv", "--out", "p.csv"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "gatewise: none.skops: no such file\n"


def test_help_has_examples(run):
    assert "gatewise fit houses.csv --target price" in run("--help")[1]
    for command in ("fit", "predict", "report", "demo"):
        assert f"gatewise {command}" in run(command, "--help")[1].split("Example")[1]


@pytest.mark.slow
def test_the_shell_can_complete(tmp_path):
    environment = {
        **os.environ,
        "_GATEWISE_COMPLETE": "complete_bash",
        "COMP_WORDS": "gatewise re",
        "COMP_CWORD": "1",
    }
    code = "import sys; sys.argv = ['gatewise']; from gatewise.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert done.stdout.split() == ["report", "reproduce"]


def gates_of(facts):
    return {one["candidate"].split(" gate")[0] for one in facts["candidates"] if " gate" in one["candidate"]}


@pytest.mark.slow
def test_gates_are_chosen_by_name_on_the_line_or_in_the_pool(run, data, tmp_path):
    """The line goes before the pool file; the facts name the gates that were learned."""
    (tmp_path / "narrow.toml").write_text("gates = ['kernel']\n" + POOL)
    fit = ("fit", "data.csv", "--target", "y", "--test", "0", "--json", "facts.json")
    for args, expected in (
        (("--pool", "pool.toml", "--gates", "linear,kernel"), {"linear", "kernel"}),
        (("--pool", "narrow.toml"), {"kernel"}),
        (("--pool", "narrow.toml", "--gates", "linear", "--gates", "quadratic"), {"linear", "quadratic"}),
    ):
        assert run(*fit, *args)[0] == 0
        assert gates_of(json.loads((tmp_path / "facts.json").read_text())) == expected


def test_help_lists_every_gate(run):
    words = " ".join(run("fit", "--help")[1].replace("│", " ").split())
    assert f"Gates to learn: {', '.join(gate_names())}, or one" in words


class FailingExpert:
    """Stands for an expert whose fit fails in a way that is no error of the input."""

    def __init__(self, *_, **__):
        error = TypeError("no neighbours\nat all")
        error.add_note("raised by the expert 'line'")
        raise error


def test_an_error_says_which_expert_raised_it(run, data, monkeypatch):
    monkeypatch.setattr("gatewise.app.models.fitting.MoERegressor", FailingExpert)
    code, _, err = run("fit", "data.csv", "--target", "y", "--pool", "pool.toml")
    assert (code, err) == (2, "gatewise: no neighbours at all (raised by the expert 'line')\n")


class AddedGate(ScoreGate):
    """A gate that an installed package would bring: scores that are linear in sines of the inputs."""

    def features(self, X):
        return np.sin(3.0 * X)


@pytest.fixture
def added_gates(monkeypatch):
    """Two entry points: a gate, and one whose package is broken."""
    from importlib.metadata import EntryPoint

    points = [
        EntryPoint("added", f"{__name__}:AddedGate", GROUP),
        EntryPoint("broken", "no_such_package:Gate", GROUP),
    ]
    monkeypatch.setattr("gatewise.app.models.gate_names.entry_points", lambda group: points if group == GROUP else [])
    yield
    GATES.pop("added", None)


@pytest.mark.slow
def test_a_gate_of_an_installed_package_is_fitted_saved_loaded_and_reported(run, data, tmp_path, added_gates):
    args = ("--target", "y", "--pool", "pool.toml", "--gates", "added", "--test", "0", "--json", "facts.json")
    assert gate_names()[-2:] == ["added", "broken"]
    assert "added" not in GATES  # nothing is imported before it is asked for
    assert run("fit", "data.csv", *args)[0] == 0
    assert gates_of(json.loads((tmp_path / "facts.json").read_text())) == {"added"}
    del GATES["added"]
    code, _, err = run("predict", "model.skops", "data.csv", "--out", "p.csv")
    assert (code, err) == (0, "")
    assert run("report", "model.skops", "data.csv", "--out", "page.html")[0] == 0


def test_a_gate_that_cannot_be_imported_is_one_line(run, data, added_gates):
    code, _, err = run("fit", "data.csv", "--target", "y", "--gates", "broken")
    assert (code, err.count("\n")) == (2, 1)
    assert "'broken' cannot be imported from no_such_package:Gate" in err
