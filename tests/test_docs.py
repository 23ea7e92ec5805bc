"""The site: links lead somewhere, names exist, no page is forgotten; the slow tests build it and run the gallery."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import paper_labels

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchor(heading):
    """The anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_the_project_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in LINK.findall(text):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, place = link.partition("#")
        target = page if not name else (page.parent / name).resolve()
        assert target.exists(), f"{page.name}: {link}"
        assert not place or place in anchors(target), f"{page.name}: {link}"


@pytest.mark.slow
def test_every_guide_is_in_the_contents():
    listed = set(re.findall(r"^([\w-]+)$", (DOCS / "index.md").read_text(), flags=re.MULTILINE))
    assert {page.stem for page in DOCS.glob("*.md")} - {"index"} <= listed


@pytest.mark.slow
def test_every_public_name_is_in_the_reference_and_exists():
    import gatewise

    listed = set(re.findall(r"^   (gatewise[\w.]+)$", (DOCS / "api.md").read_text(), flags=re.MULTILINE))
    assert {f"gatewise.{name}" for name in gatewise.__all__ if name != "__version__"} <= listed
    for name in listed:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute) or importlib.import_module(name)


@pytest.mark.slow
def test_the_table_of_labels_is_up_to_date():
    assert paper_labels.page() == paper_labels.PAGE.read_text(), "run python -m tools.paper_labels"


def test_every_word_of_the_verdict_is_in_the_glossary():
    words = (DOCS / "glossary.md").read_text()
    for word in ("convex stack", "aggregate", "spread", "correction", "gate", "share", "Top-K", "candidate"):
        assert word in words


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_examples_are_scripts_with_a_title(example):
    code = example.read_text()
    compile(code, example.name, "exec")
    assert re.match(r'"""\n\S.*\n=+\n', code)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_examples_run(example, tmp_path):
    environment = {**os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_site_is_built_without_warnings(tmp_path):
    pytest.importorskip("sphinx")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        str(DOCS),
        str(tmp_path / "site"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "gallery" / "plot_house_prices.html").exists()
