# Two commands: `make demo` and `make test`. Each sets up its own environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
INSTALL := $(BIN)/python -m pip install --quiet --editable
# The tests of the page need a browser and skip without one: Debian's, where it can be installed.
APT := timeout 300 apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=15
CHROMIUM := command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
	[ "$$(id -u)" = 0 ] && command -v apt-get && $(APT) update && $(APT) install --no-install-recommends --yes chromium; \
	} >/dev/null 2>&1 </dev/null || true

.PHONY: demo test test-slow lint types layers unit bench bench-real figure clean help

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

demo: $(VENV)/.cli  ## see Gatewise work: tables, a figure, and a page that explains a model
	$(BIN)/gatewise demo

test: lint types layers unit  ## all checks but the slow tests

lint: $(VENV)/.dev  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev  ## mypy, strict
	$(BIN)/mypy

layers: $(VENV)/.dev  ## import-linter: imports only go down
	$(BIN)/lint-imports

unit: $(VENV)/.dev  ## pytest with doctests and branch coverage
	$(BIN)/pytest -m "not slow" --cov --cov-report=term

test-slow: $(VENV)/.dev  ## the tests that take longer than a few seconds
	$(BIN)/pytest -m slow

bench: $(VENV)/.dev  ## every benchmark, one JSON file each
	$(BIN)/python -m benchmarks

bench-real: $(VENV)/.bench  ## real data: all competitors on 24 data sets; goes on where it stopped
	$(BIN)/gatewise bench real --out out/bench --json out/bench/real.json

figure: $(VENV)/.cli  ## the figures of the README and of the guides
	$(BIN)/gatewise demo --out out
	cp out/demo.png docs/assets/demo.png
	$(BIN)/python -c "from pathlib import Path; from gatewise.app.figures.geometry_figures import geometry_figure as f; f(Path('docs/assets/geometry.png'))"

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage htmlcov

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.cli: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) ".[cli]"
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) ".[cli,dask,nn,bench,dev]"
	@$(CHROMIUM)
	@touch $@ $(VENV)/.cli $(VENV)/.bench

$(VENV)/.bench: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) ".[cli,bench]"
	@touch $@ $(VENV)/.cli
