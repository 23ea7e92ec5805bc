"""``gatewise route``: a table in; a router file, decisions and a page out."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from gatewise import cli
from gatewise.app.files import claim_json
from gatewise.app.models.model_file import load_model, save_model
from gatewise.app.models.router_file import decide_frame, load_router, matched, SavedRouter, scored_queries
from gatewise.app.models.table_files import read_frame
from gatewise.app.route_commands import DECISIONS, FACTS
from gatewise.estimators import ScoreRouter
from tests.app.small_models import saved_model
from tests.scores.designs import small_table


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("route")
    X, _, answers, costs = small_table(300)
    frame = X.copy()
    for m, name in enumerate(["a", "b", "<c>"]):
        frame[f"right/{name}"] = answers[:, m]
        frame[f"cost/{name}"] = costs[m] * (1.0 + 0.1 * np.arange(len(X)) / len(X))
    frame.to_parquet(folder / "table.parquet")
    return folder


def gatewise(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["gatewise", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.fixture(scope="module")
def fitted(table):
    with pytest.MonkeyPatch.context() as patch:
        code = gatewise(
            patch, "route", "fit", table / "table.parquet", "--scores", "right/*", "--costs", "cost/*", "--text",
            "question", "--category", "field", "--number", "size", "--out", table / "router.skops", "--json",
            table / "router.json",
        )  # fmt: skip
    assert code == 0
    return table


def test_a_router_survives_its_file(fitted):
    router = load_router(fitted / "router.skops").router
    frame = pd.read_parquet(fitted / "table.parquet")
    again = load_router(fitted / "router.skops").router
    X = frame[["question", "field", "size"]]
    np.testing.assert_array_equal(router.decide(X), again.decide(X))
    assert router.verdict_.headline == json.loads((fitted / "router.json").read_text())["verdict"]["headline"]
    assert str(router.region_table()) == str(again.region_table())


def test_a_file_of_the_other_kind_is_told_to_be_one(fitted, tmp_path):
    with pytest.raises(ValueError, match=r"router.skops: it holds a router; gatewise route decide and .* take it$"):
        load_model(fitted / "router.skops")
    path = save_model(saved_model(), tmp_path / "m.skops")
    with pytest.raises(ValueError, match=r"m.skops: it holds a model; gatewise predict and gatewise report take it$"):
        load_router(path)


def test_what_a_router_wrote_is_known_again(fitted, monkeypatch):
    out, facts = fitted / "again.csv", fitted / "again.json"
    words = ("route", "decide", fitted / "router.skops", fitted / "table.parquet", "--out", out, "--json", facts)
    assert gatewise(monkeypatch, *words) == gatewise(monkeypatch, *words) == 0
    for path, keys in ((fitted / "router.json", FACTS), (facts, DECISIONS)):
        assert claim_json(path, keys) is not None


def test_codes_with_leading_zeros_are_categories_of_queries(tmp_path):
    rng = np.random.default_rng(0)
    rows = "".join(
        f"{i % 3:02d},{i % 12 + 1:02d},{'05' if i == 7 else i},{rng.random():.3f},{rng.random():.3f}\n"
        for i in range(60)
    )
    (tmp_path / "t.csv").write_text("code,month,size,right/a,right/b\n" + rows)
    frame = read_frame(tmp_path / "t.csv")
    auto = scored_queries(frame, "right/*", None, [], [], []).X
    assert auto["code"].tolist()[:2] == ["00", "01"]
    assert auto["size"].tolist()[6:8] == [6.0, 5.0]
    named = scored_queries(frame, "right/*", None, [], ["code"], ["month"])
    assert named.X["month"].tolist()[:2] == [1.0, 2.0]
    router = ScoreRouter([], ["code"], random_state=0).fit(named.X, named.scores)
    saved = SavedRouter(router, router.reader_.names, {})
    plain = frame.assign(month=frame["month"].astype(int))
    pd.testing.assert_frame_equal(decide_frame(saved, frame), decide_frame(saved, plain))


def test_a_weight_that_is_next_to_nothing_is_written_as_none(fitted, monkeypatch):
    saved, frame = load_router(fitted / "router.skops"), pd.read_parquet(fitted / "table.parquet")
    gate = np.tile([1.0 - 1e-3, 1e-3, 7e-311], (len(frame), 1))
    monkeypatch.setattr(type(saved.router), "gate_weights", lambda *_: gate)
    found = decide_frame(saved, frame, weights=True)
    names = [f"weight {name}" for name in saved.router.models_]
    np.testing.assert_array_equal(found[names].to_numpy(), np.where(gate < 1e-12, 0.0, gate))
    assert (found["weight"] == 0.999).all()


def test_decisions_are_those_of_the_router(fitted, monkeypatch, capsys):
    out = fitted / "decisions.csv"
    words = ("route", "decide", fitted / "router.skops", fitted / "table.parquet", "--out", out)
    assert gatewise(monkeypatch, *words, "--weights") == 0
    found = pd.read_csv(out)
    router = load_router(fitted / "router.skops").router
    X = pd.read_parquet(fitted / "table.parquet")[["question", "field", "size"]]
    np.testing.assert_array_equal(found["model"], router.decide(X))
    np.testing.assert_allclose(found.filter(like="weight ").sum(axis=1), 1.0)
    assert gatewise(monkeypatch, *words, "--budget", "1.0", "--force") == 0
    assert "mean cost" in capsys.readouterr().out
    np.testing.assert_array_equal(pd.read_csv(out)["model"], router.decide(X, budget=1.0))


def test_the_page_shows_the_figures_and_escapes_names(fitted, monkeypatch):
    assert gatewise(monkeypatch, "route", "report", fitted / "router.skops", "--out", fitted / "route.html") == 0
    page = (fitted / "route.html").read_text()
    router = load_router(fitted / "router.skops").router
    for words in ("Does routing pay?", "What does it save?", "What can routing not tell?", "physics"):
        assert words in page
    assert f"{router.verdict_.gain.value:+.4f}" in page
    assert f"{router.routability_.perfect:.3f}" in page
    assert "<c>" not in page
    assert "&lt;c&gt;" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--scores", "right"), "must hold one star"),
        (("--scores", "wrong/*"), "no column fits"),
        (("--scores", "right/*", "--text", "nothing"), "no column 'nothing'"),
        (("--scores", "right/*", "--costs", "size*"), "no column for the model"),
    ],
)
def test_a_bad_call_is_one_line(table, monkeypatch, capsys, words, told):
    code = gatewise(monkeypatch, "route", "fit", table / "table.parquet", *words, "--out", table / "no.skops")
    assert code == 2
    assert told in capsys.readouterr().err


def test_the_star_is_the_name_of_the_model():
    assert matched(["s a t", "s b t", "s t"], "s * t", "scores") == {"a": "s a t", "b": "s b t"}


def test_a_model_of_the_other_kind_is_refused(fitted, monkeypatch, capsys):
    code = gatewise(
        monkeypatch, "predict", fitted / "router.skops", fitted / "table.parquet", "--out", fitted / "p.csv"
    )
    assert code == 2
    assert "it holds a router; gatewise route decide" in capsys.readouterr().err
