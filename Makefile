# make run: see it work.  make test: all that CI checks.  PYTHON=python3.12 make run: choose the interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
export NO_MKDOCS_2_WARNING := 1 # the theme's advertisement, not a warning of the build

.PHONY: run test coverage lint docs bench clean distclean
.DEFAULT_GOAL := test

run: $(VENV)/.run
	@$(BIN)/rflaf demo

test: lint
	$(BIN)/pytest -n auto
	@$(MAKE) --no-print-directory docs

coverage: $(VENV)/.test
	$(BIN)/pytest --cov -n auto

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.test
	$(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.bench
	@set -e; for script in $(or $(sort $(wildcard benchmarks/bench_*.py)),$(error no benchmarks/bench_*.py to run)); do echo "$$script"; $(BIN)/python "$$script"; done

clean:
	rm -rf build dist site htmlcov .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)

# Stamps: the environment is made once, each set of extras again only when pyproject.toml changes.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "rflaf needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo not found). Try: PYTHON=python3.12 make run" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: EXTRAS := cli,plots
$(VENV)/.test: EXTRAS := test
$(VENV)/.bench: EXTRAS := bench
$(VENV)/.run $(VENV)/.test $(VENV)/.bench: pyproject.toml | $(VENV)/.made
	@echo "installing rflaf[$(EXTRAS)] into $(VENV)"
	@$(PIP) -e '.[$(EXTRAS)]'
	@touch $@
