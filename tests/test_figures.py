"""The numbers in README and guides are those of the files that they name."""

import json
from pathlib import Path

import pandas as pd
import pytest

from gatewise.app.figures.table1_table import settings_table
from gatewise.paper.published import figure, off, PUBLISHED
from gatewise.paper.table1 import COMMON, STATED, Table1Row
from tools import figures

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def found():
    return [one for name, text in figures.texts().items() for one in figures.numbers_in(name, text)]


def test_every_bound_number_is_what_its_file_has(found):
    assert [f"{one.file}:{one.line}: {one.text} {one.why}" for one in found if one.kind == "wrong"] == []
    assert sum(one.kind == "bound" for one in found) > 50


def test_no_number_of_the_readme_and_of_most_guides_is_bound_to_nothing(found):
    open_ones = [one for one in found if one.kind == "unbound" and one.file in figures.COMPLETE]
    assert [f"{one.file}:{one.line}: {one.text}" for one in open_ones] == []


def test_the_guide_says_where_each_run_comes_from():
    guide = (DOCS / "benchmarks.md").read_text()
    assert figures.written("docs/benchmarks.md", guide) == guide


def test_a_wrong_number_is_found_and_put_right(tmp_path, monkeypatch):
    (tmp_path / "run.json").write_text(
        json.dumps({"rows": [{"k": 1, "ratio": {"median": 1.26}}, {"k": 2, "ratio": 0.5}]})
    )
    monkeypatch.setattr(figures, "FOLDERS", (tmp_path,))
    text = (
        "A ratio of 1.3<!-- run: rows/k=1/ratio -->, 49<!-- run: rows/k=2/ratio x100 --> % and "
        "?<!-- run: rows/0/ratio -->, n = 5; 7."
    )
    kinds = {one.text: one.kind for one in figures.numbers_in("text", text)}
    assert kinds == {"1.3": "bound", "49": "wrong", "?": "wrong", "5": "given", "7": "unbound"}
    assert figures.written("text", text) == text.replace("49<", "50<").replace("?<", "1.26<")
    missing = "?<!-- run: rows/k=3/ratio --> of `8` in [9](10.md) <!-- given --> 11"
    assert [(one.text, one.kind) for one in figures.numbers_in("text", missing)] == [
        ("?", "open"),
        ("9", "given"),
        ("11", "given"),
    ]


def rows_of(file):
    return [Table1Row(**record) for record in json.loads((DOCS / "results" / file).read_text())]


def test_table_1_in_the_guide_is_that_of_the_filed_runs():
    guide = (DOCS / "reproduce.md").read_text().replace("**", "").splitlines()
    stated, common = rows_of("table1.json"), rows_of("table1-common.json")
    for (design, gate, n), cell in PUBLISHED.items():
        cells = [", ".join(f"{cell[measure].mean:.3f}" for measure in ("l1", "l2"))]
        for rows, choice in ((common, COMMON[design]), (stated, STATED[design])):
            readout = "erm" if gate == "kernel" else choice.readout
            (row,) = (one for one in rows if (one.design, one.gate, one.n, one.readout) == (design, gate, n, readout))
            parts = (f"{figure(row, m).mean:.3f} ({off(row, m).in_se:+.1f})" for m in ("l1", "l2"))
            cells.append(", ".join(parts))
        assert f"| {design}, {gate}, {n:,} | {' | '.join(cells)} |" in guide


def filed(name):
    return json.loads((DOCS / "results" / f"{name}.json").read_text())["rows"]


def test_the_claims_in_the_guide_are_those_of_the_filed_run():
    rows = filed("verify")
    lines = [
        f"| `{row['label']}` | "
        + " | ".join(row[key].replace("|", "\\|") for key in ("computed", "figure", "law"))
        + " |"
        for row in rows
    ]
    guide = (DOCS / "theory.md").read_text()
    assert [line for line in guide.splitlines() if line in lines] == lines
    assert all(row["passed"] for row in rows)
    assert f"All {len(rows)} pass." in guide


def test_the_readings_in_the_guide_are_those_of_the_filed_run():
    table = settings_table([Table1Row(**record) for record in filed("settings")])
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    shown = [line.replace("**", "") for line in (DOCS / "reproduce.md").read_text().splitlines()]
    for setting, readout, *cells in zip(*columns, strict=True):
        end = f"| {readout} | {' | '.join(cells)} |"
        assert any(line.startswith(f"| {setting}") and line.endswith(end) for line in shown), (setting, readout)


def test_the_median_gains_of_version_0_1_are_those_of_the_filed_run():
    results = json.loads((DOCS / "results" / "real-named.json").read_text())["results"]
    errors = pd.DataFrame(results).pivot_table("mse", "data", "competitor")
    gains = [f"{1 - (errors['gatewise'] / errors[rival]).median():.1%}" for rival in ("simplex stack", "ridge stack")]
    first, second = (gain.replace("%", " %") for gain in gains)
    guide = (DOCS / "real-data.md").read_text()
    assert f"was {first} of the convex stack's error and {second} of the ridge stack's." in guide
