# make run: see it work.  make quick: the tests that take two minutes.  make test: all that CI checks.
# PYTHON=python3.12 make run: choose the interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
PYTEST := $(BIN)/pytest -n auto --dist worksteal # neighbours share what a module fits: one worker runs them
unexport PYTHONDONTWRITEBYTECODE # else every run compiles all tests again
export NO_MKDOCS_2_WARNING := 1 # the theme's advertisement, not a warning of the build

.PHONY: run test quick coverage lint docs notebooks bench evidence bench-costs bench-frontier bench-guard bench-widths torture faults clean distclean
.DEFAULT_GOAL := test

run: $(VENV)/.run
	@$(BIN)/rflaf demo

test: lint
	$(PYTEST)
	@$(MAKE) --no-print-directory docs

quick: $(VENV)/.test
	$(PYTEST) -m "not slow"

coverage: $(VENV)/.test
	$(PYTEST) --cov

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.test
	$(BIN)/mkdocs build --strict

# Run the notebooks of examples/ and keep their outputs for the site.
notebooks: $(VENV)/.test
	$(BIN)/python docs/extensions/run_notebooks.py

bench: $(VENV)/.bench
	@set -e; for script in $(or $(sort $(wildcard benchmarks/bench_*.py)),$(error no benchmarks/bench_*.py to run)); do echo "$$script"; $(BIN)/python "$$script"; done

# What README and docs show of accuracy, width and cost: measure what has no record, write pages and pictures from the
# records. FRESH=1 measures all anew (hours); PUBLISHED=srbench-results.csv runs SRBench too. RFLAF_DATA_DIR has the data.
evidence: $(VENV)/.bench
	$(if $(FRESH),rm -f docs/results/frontier.jsonl docs/results/widths.jsonl docs/results/tables.jsonl $(if $(PUBLISHED),docs/results/srbench.jsonl))
	$(BIN)/python benchmarks/frontier.py
	$(BIN)/python benchmarks/widths.py
	$(BIN)/python benchmarks/breadth.py --sets all --kinds tables --seeds 2 --methods ours lightgbm-100 lightgbm-1000 catboost --out docs/results/tables.jsonl
	$(BIN)/python benchmarks/table_ranks.py
	$(BIN)/python benchmarks/demonstration.py
	$(if $(PUBLISHED),$(BIN)/rflaf bench srbench --published $(PUBLISHED) --out docs/results/srbench.jsonl && mv docs/results/srbench.png docs/images/srbench.png)
	$(BIN)/python benchmarks/evidence.py

bench-frontier: $(VENV)/.bench
	$(BIN)/python benchmarks/frontier.py

# Fit and predict against n, d, S, N and the pool; then the compiled loops against the roofs of this machine.
bench-costs: $(VENV)/.bench
	$(BIN)/python benchmarks/costs.py
	$(BIN)/python benchmarks/loops.py

# The paper's claim: error against width for plain, leverage, convex and refined.
bench-widths: $(VENV)/.bench
	$(BIN)/python benchmarks/widths.py

# make bench-guard A=main B=. compares two commits or folders; fails on a slowdown.
bench-guard: $(VENV)/.bench
	$(BIN)/python benchmarks/against.py $(or $(A),HEAD~1) $(or $(B),.)

torture: $(VENV)/.test
	$(BIN)/python tests/torture/run.py --cases $(or $(CASES),5000) --shard $(or $(SHARD),1/1) --records torture.jsonl
	$(BIN)/python tests/torture/run.py --kind tables --cases $(or $(CASES),5000) --shard $(or $(SHARD),1/1) --records torture-tables.jsonl

faults: $(VENV)/.test
	$(BIN)/python tests/torture/faults.py --times $(or $(TIMES),200)

clean:
	rm -rf build dist site htmlcov .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)

# Stamps: the environment is made once, each set of packages again only when pyproject.toml changes.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "rflaf needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo not found). Try: PYTHON=python3.12 make run" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.pip: | $(VENV)/.made
	@$(PIP) 'pip>=25.1' # the first to know dependency groups
	@touch $@

$(VENV)/.run: PACKAGES := -e '.[cli,plots]'
$(VENV)/.test: PACKAGES := -e '.[all,study]' --group dev
$(VENV)/.bench: PACKAGES := -e '.[all,study]' --group bench
$(VENV)/.run: | $(VENV)/.made
$(VENV)/.test $(VENV)/.bench: | $(VENV)/.pip
$(VENV)/.run $(VENV)/.test $(VENV)/.bench: pyproject.toml
	@echo "pip install $(PACKAGES)    (into $(VENV))"
	@$(PIP) $(PACKAGES)
	@touch $@
