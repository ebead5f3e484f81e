# Everything on a fresh machine: `make run` shows a result, `make test` runs the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test e2e browser network bench results lint format clean help

help: ## Show what can be made.
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

run: $(READY) ## Train ten agents on MNIST digits with four methods; shows a table and where the figure is.
	$(BIN)/peerdescent compare quickstart --out runs/quickstart --overwrite

test: $(READY) lint ## Lint, types, tests and doctests.
	$(BIN)/python -m pytest -n 2 -m "not e2e"

e2e: $(READY) browser network ## Slower checks from end to end.
	$(BIN)/python -m pytest -n 2 -m e2e tests

browser: # The report is tested in a real browser; where one cannot be installed, those tests say why they skip.
	@command -v chromium > /dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		apt-get update -qq && apt-get install -y -qq chromium chromium-driver; fi

network: # Four hosts are made of network namespaces; where that is impossible, those tests say why they skip.
	@command -v ip > /dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		apt-get update -qq && apt-get install -y -qq iproute2; fi

bench: $(READY) ## Ratios of speed, measured in one run.
	$(BIN)/python benchmarks/update.py
	$(BIN)/python benchmarks/iteration.py
	$(BIN)/python benchmarks/workers.py
	$(BIN)/python benchmarks/network.py
	$(BIN)/python benchmarks/stacking.py

results: $(READY) ## Reproduce the whole paper and what it does not test (about two hours on 2 cores); renews docs/results.
	$(BIN)/peerdescent reproduce speedup --seeds 1 --out runs/reproduce-code
	$(BIN)/peerdescent reproduce heterogeneous-data --seeds 3 --out runs/reproduce-code
	$(BIN)/peerdescent reproduce all --seeds 3 --out runs/reproduce-code
	for part in . speedup heterogeneous-data; do \
		mkdir -p docs/results/$$part/figures docs/results/$$part/tables && \
		cp runs/reproduce-code/$$part/README.md docs/results/$$part/ && \
		cp runs/reproduce-code/$$part/figures/*.png docs/results/$$part/figures/ && \
		cp runs/reproduce-code/$$part/tables/*.csv docs/results/$$part/tables/ || exit 1; \
	done

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## Format the code.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove what can be made again.
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
