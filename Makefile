# Everything runs inside .venv, which the targets make by themselves.

PYTHON ?= python3
SEEDS ?= 10000
FIRST ?= 0
WORKERS ?= auto

VENV := .venv
BIN := $(VENV)/bin
# Made last, so that an interrupted installation is begun again.
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help install demo serve test check bench simulate clean

help: ## this list
	@echo "make TARGET"
	@echo
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)$$/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-11s %s\n", $$1, $$2 }'
	@echo
	@echo "Every target but help and clean makes .venv first if it is missing or out of date."
	@echo "PYTHON=python3.12 chooses another Python (3.11 or newer)."

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
		echo "make: there is no '$(PYTHON)'. Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python" >&2; \
		exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "make: $(PYTHON) is $$($(PYTHON) --version 2>&1); Python 3.11 or newer is needed: make PYTHON=python3.11" >&2; \
		exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "make: $(PYTHON) cannot make environments; install its 'venv' module (Debian: python3-venv)" >&2; \
		exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

install: $(READY) ## the environment: .venv with the package and all tools
	@echo "$(VENV) is ready: $$($(BIN)/python --version)"

demo: $(READY) ## a million messages through a broker that is killed in the middle; the result shown
	@$(BIN)/python -m pydanube.cli.demo

serve: $(READY) ## a broker on the default ports, with its data in ./danube-data
	@$(BIN)/danube serve

test: $(READY) ## all tests, on all cores (WORKERS=N: on N)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

check: $(READY) ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(READY) ## the benchmarks: batches, storage, broker (about ten minutes)
	$(BIN)/python tests/bench/bench_records.py
	$(BIN)/python tests/bench/bench_storage.py
	$(BIN)/python tests/bench/bench_broker.py

simulate: $(READY) ## long runs of the simulator: SEEDS=20000 [FIRST=0]; one seed again: SEEDS=1 FIRST=the seed
	$(BIN)/python -m tests.sim --seeds $(SEEDS) --first $(FIRST)

clean: ## removes .venv, caches and build results
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis build dist src/*.egg-info
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
