# On a fresh machine, `make run` shows a result and `make test` runs the tests; both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test e2e browser network bench results league lint format clean help

help: ## List the targets.
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

run: $(READY) ## Train ten agents on MNIST digits with four methods; prints a table and the path of the figure.
	$(BIN)/peerdescent compare quickstart --out runs/quickstart --overwrite

test: $(READY) lint ## Run linters, type checks, import contracts, tests and doctests.
	$(BIN)/python -m pytest -n 3 --dist loadgroup -m "not e2e"

e2e: $(READY) browser network ## Run the slow end-to-end tests.
	$(BIN)/python -m pytest -n 2 -m e2e tests

browser: # The report is tested in a real browser; tests that cannot have one skip and give the reason.
	@command -v chromium > /dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		apt-get update -qq && apt-get install -y -qq chromium chromium-driver; fi

network: # Network namespaces serve as four hosts; tests that cannot have them skip and give the reason.
	@command -v ip > /dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		apt-get update -qq && apt-get install -y -qq iproute2; fi

bench: $(READY) ## Measure speed as ratios within one run.
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/update.py
	$(BIN)/python benchmarks/iteration.py
	$(BIN)/python benchmarks/modules.py
	$(BIN)/python benchmarks/workers.py
	$(BIN)/python benchmarks/network.py
	$(BIN)/python benchmarks/sequences.py
	$(BIN)/python benchmarks/compression.py
	$(BIN)/python benchmarks/clock.py
	$(BIN)/python benchmarks/stacking.py

results: $(READY) ## Reproduce the paper and the two studies it lacks (about two hours on 2 cores); updates docs/results.
	$(BIN)/peerdescent reproduce speedup --seeds 1 --out runs/reproduce-code
	$(BIN)/peerdescent reproduce heterogeneous-data --seeds 3 --out runs/reproduce-code
	$(BIN)/peerdescent reproduce all --seeds 3 --out runs/reproduce-code
	for part in . speedup heterogeneous-data; do \
		mkdir -p docs/results/$$part/figures docs/results/$$part/tables && \
		cp runs/reproduce-code/$$part/README.md docs/results/$$part/ && \
		cp runs/reproduce-code/$$part/figures/*.png docs/results/$$part/figures/ && \
		cp runs/reproduce-code/$$part/tables/*.csv docs/results/$$part/tables/ || exit 1; \
	done

league: $(READY) ## Tune and rank every method on twelve tasks (20 minutes on 2 cores; it continues where it was stopped); updates docs/results/league.
	$(BIN)/peerdescent league --out runs/league
	mkdir -p docs/results/league/figures docs/results/league/tables
	cp runs/league/README.md docs/results/league/
	cp runs/league/figures/*.png docs/results/league/figures/
	cp runs/league/tables/*.csv docs/results/league/tables/

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## Format the code.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove the virtual environment and caches.
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
