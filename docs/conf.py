"""Settings of the site: guides in Markdown, the API from docstrings, a gallery from `examples/gallery`."""

import os
import re

import gatewise

project = "Gatewise"
author = "The Gatewise developers"
project_copyright = "the Gatewise developers"
release = version = gatewise.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "results", "README.md"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 3
default_role = "literal"  # a docstring sets names and labels of the paper in single backticks
suppress_warnings = [
    "myst.xref_missing",
    "config.cache",
]  # links to files of the repository; `tests/test_docs.py` checks

autosummary_generate = True
napoleon_use_ivar = True
autodoc_typehints = "none"  # short signatures: shapes and types stand in the text
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": False}

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "plot_gallery": os.environ.get("GATEWISE_GALLERY", "0") == "1",  # `make site` executes the examples
    "download_all_examples": False,
    "show_memory": False,
}

html_theme = "furo"
html_title = f"Gatewise {version}"


def plain_text(app, what, name, obj, options, lines):
    """Docstrings are plain text with code in backticks: bars, stars and underscores in formulas are no markup."""
    for place, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "- ")):
            parts = re.split(r"(`+[^`]*`+)", line)
            lines[place] = "".join(
                part if part.startswith("`") else re.sub(r"([|*])|(?<=\w)(_)(?=\W|$)", r"\\\1\2", part)
                for part in parts
            )


def skip_requests(app, what, name, obj, skip, options):
    """Methods that scikit-learn makes for its metadata routing are left to its own reference."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app):
    app.connect("autodoc-process-docstring", plain_text, priority=100)
    app.connect("autodoc-skip-member", skip_requests)
