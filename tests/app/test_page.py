"""The page as text: nothing of a user's is markup, nothing comes from elsewhere."""

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("skops")
pytest.importorskip("matplotlib")

from gatewise.app.page import findings
from gatewise.app.page import page_file as page
from gatewise.app.page import page_sections as sections
from gatewise.app.page.markup import element, join
from gatewise.app.page.page_parts import losing_leaders
from gatewise.app.page.page_plots import image, short
from gatewise.router.verdict import region_table
from tests.app.small_models import HOSTILE, make_frame, saved_model, TARGET


@pytest.fixture(scope="module")
def text():
    found = findings.find(saved_model(), make_frame())
    return page.render(found, "<model>.skops", 'a"b.csv')


class Parser(HTMLParser):
    """All elements with their attributes, and all text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_is_whole_and_asks_its_questions_in_order(text):
    parsed = Parser(text)
    assert parsed.open == []
    sections = [attributes["id"] for tag, attributes in parsed.elements if tag == "section"]
    assert sections == ["pays", "where", "real", "how-many", "how-sure", "rows"]
    assert len(text.encode()) < 5_000_000


def test_the_page_says_where_an_expert_leads_and_whether_it_wins(text):
    words = " ".join(Parser(text).words)
    assert "wins there" in words
    assert any(row.wins in words for row in saved_model().model.region_table() if row.share)


def test_the_page_says_what_is_left_out_and_what_candidates_cost(text):
    words = " ".join(Parser(text).words)
    assert "the correction, and shared parts (forest, boosted trees, products)" in words
    assert "the price is log(1 / prior weight)" in words


def test_the_page_says_where_predictions_are_worth_nothing(text):
    assert "mean response" not in text
    found = replace(findings.find(saved_model(), make_frame()), beside_constant=("no better than <b>",))
    assert "<p>Predictions are no better than &lt;b&gt;.</p>" in page.render(found, "m.skops", "d.csv")


def test_a_leader_that_loses_is_named():
    rng = np.random.default_rng(0)
    losses = np.array([1.0, 0.0]) + rng.chisquare(1, size=(200, 2))
    weights = np.tile([0.9, 0.1], (200, 1))  # the first leads everywhere, and the second is better
    table = region_table(["<one>", "two"], weights, losses, np.zeros((200, 0)), [], np.ones(200))
    assert losing_leaders(table) == (
        '<p class="soft">A leader that loses: &lt;one&gt; leads on 100% of the rows, but two errs less there.</p>'
    )
    assert (
        losing_leaders(region_table(["one", "two"], weights, losses[:, ::-1], np.zeros((200, 0)), [], np.ones(200)))
        is None
    )


def test_no_name_becomes_markup(text):
    parsed = Parser(text)
    tags = [tag for tag, _ in parsed.elements]
    assert tags.count("script") == tags.count("style") == 1
    assert not {"b", "i"} & set(tags)
    assert all(
        attributes["src"].startswith("data:image/svg+xml;base64,") for t, attributes in parsed.elements if t == "img"
    )
    assert not any(key.startswith("on") for _, attributes in parsed.elements for key in attributes)
    words = "".join(parsed.words)
    names = (*HOSTILE[:2], TARGET, "<script>alert(4)</script>", "<model>.skops", 'a"b.csv')
    for name in names:
        assert name in words


def test_nothing_comes_from_elsewhere(text):
    parsed = Parser(text)
    for tag, attributes in parsed.elements:
        assert tag not in {"link", "iframe", "object", "embed", "form", "base"}
        assert not attributes.get("href", "#").strip("#").count(":")
    policy = next(a["content"] for t, a in parsed.elements if t == "meta" and a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "script-src 'sha256-" in policy


def test_text_is_escaped_unless_it_was_made_here():
    assert element("p", "<b>", title='"') == '<p title="&quot;">&lt;b&gt;</p>'
    assert element("p", element("b", "&")) == "<p><b>&amp;</b></p>"
    assert join("<", ["&", None]) == "&lt;&amp;"
    assert isinstance(join("a") + "<b>", str)
    assert join(join("a") + "<b>") == "a&lt;b&gt;"  # markup and text in one are text


def test_a_page_without_a_gate_and_without_column_importance(tmp_path):
    from gatewise import MoERegressor
    from gatewise.app.models import fitting, tables
    from gatewise.experts import ColumnExpert

    table = tables.training_table(make_frame(40), TARGET)
    saved = fitting.fit_table(MoERegressor([("only", ColumnExpert(HOSTILE[3]))], random_state=0), table, None)
    written = page.write_page(findings.find(saved, make_frame(40)), tmp_path / "deep" / "page.html")
    words = "".join(Parser(written.read_text()).words)
    assert "No: no gate" in words
    assert "There is one expert only." in words


def test_facts_of_a_file_may_be_anything(text):
    from dataclasses import replace

    found = findings.find(saved_model(), make_frame())
    for facts in ({}, {"test": 3}, {"test": {"scores": [{"method": "x"}]}}):
        assert "rows were held back" not in sections.pays(replace(found, facts=facts))
    assert "32 rows were held back" in text


def test_more_rows_than_the_page_holds_are_thinned_out(monkeypatch):
    monkeypatch.setattr(page, "MOST_ROWS", 50)
    text = page.render(findings.find(saved_model(), make_frame()))
    assert "A random 50 of 160 rows" in text
    assert text.count("<tr>") < 50 + 40


def test_names_in_plots_may_be_in_any_script():
    assert image(lambda panel: panel.set_xlabel("气温 $x$ \u0000"[:-1]), 2.0).startswith("data:image/svg+xml;base64,")
    assert len(short("x" * 99)) == 26


@pytest.mark.slow
def test_dates_and_categories_have_their_own_axes():
    import numpy as np
    import pandas as pd

    from gatewise import MoERegressor, MoESettings
    from gatewise.app.models import fitting, tables
    from gatewise.experts import ColumnExpert

    rng = np.random.default_rng(0)
    days = pd.Series(pd.date_range("2020-03-01", periods=120, freq="D"))
    kind = rng.choice(["red", "blue"], 120)
    y = rng.normal(size=120)
    a, b = (y + rng.normal(size=120) * np.where(side, 0.1, 2.0) for side in (kind == "red", kind != "red"))
    late = np.where(np.arange(120) > 60, 0.1, 1.0) * rng.normal(size=120)
    frame = pd.DataFrame({"day": days.astype(str), "kind": kind, "a": a + late, "b": b, "y": y})
    table = tables.training_table(frame, "y")
    pool = [("first", ColumnExpert("a")), ("second", ColumnExpert("b"))]
    settings = MoESettings(spreads=(3.0,), n_orders=2)
    model = MoERegressor(pool, gates=("linear",), k=None, random_state=0, settings=settings)
    found = findings.find(fitting.fit_table(model, table, None), frame)
    assert {found.map.x.kind, found.map.y.kind} == {"text", "date"}
    text = page.render(found)
    assert "2020-03-01</td>" in text
    assert "since 1970" not in text
