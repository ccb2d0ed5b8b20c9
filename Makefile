# Commands for development. `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help run test test-fast test-long fuzz lint docs sync cli-docs http-docs format check-install bench bench-postgres bench-memory bench-scale bench-snapshot bench-spark bench-wakeup lock clean tools

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

run: $(READY) ## Start a server on the embedded store, ready to use
	$(BIN)/skep serve

test: $(READY) tools lint ## Run every suite
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-fast: $(READY) ## Run the tests that need neither Java nor PostgreSQL, in under three minutes
	$(BIN)/python -m pytest -n 2 --dist loadgroup \
		-m "not slow and not postgres and not spark and not end_to_end"

test-long: $(READY) tools ## Run the fault and random tests for hours instead of minutes
	SKEP_EXAMPLES=2000 SKEP_KILLS=200 SKEP_SECONDS=60 SKEP_OUTAGES="30 310" SKEP_LONG=1 \
		$(BIN)/python -m pytest -n 2 --dist loadgroup --timeout 7200 \
		tests/machine tests/faults tests/spark/test_connect.py tests/spark/test_declarative.py
	SKEP_KILLS=60 SKEP_MESSAGES=1000000 SKEP_LONG=1 \
		$(BIN)/python -m pytest tests/spark/test_killed.py tests/spark/test_every_message.py --timeout 7200
	$(BIN)/python -m tests.fuzz --seconds 600 --seed $$(date +%s)

fuzz: SECONDS ?= 60
fuzz: SEED ?= 1
fuzz: $(READY) ## Search for violated guarantees (SECONDS=60 SEED=1; ROUND=1-d7 repeats one round)
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED) $(if $(ROUND),--round $(ROUND)) $(FUZZ)

lint: $(READY) ## Check style, types, spelling, the direction of imports and generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/generate_sync.py --check
	$(BIN)/python -m tools.write_cli_docs --check
	$(BIN)/python -m tools.write_http_docs --check
	$(BIN)/codespell

docs: $(READY) ## Build the documentation in build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir build/site

sync: $(READY) ## Generate the blocking client from the asynchronous one
	$(BIN)/python tools/generate_sync.py

cli-docs: $(READY) ## Generate docs/reference/cli.md from the help of the commands
	$(BIN)/python -m tools.write_cli_docs

http-docs: $(READY) ## Generate docs/reference/http.md and openapi.json from the routes
	$(BIN)/python -m tools.write_http_docs

check-install: ## Install a server into a clean environment as the Dockerfile does, and use it
	PYTHON=$(PYTHON) sh packaging/check.sh

format: $(READY) ## Format the code and apply automatic fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) tools ## Benchmark against the bare store and the bare server, in one run
	$(BIN)/python -m benchmarks.embedded
	$(BIN)/python -m benchmarks.door

bench-postgres: $(READY) tools ## Benchmark PostgreSQL against queues of rows
	$(BIN)/python -m benchmarks.postgres

PARTITIONS ?= 1000000

bench-scale: $(READY) ## Benchmark a queue with a million partitions and its effect on other clients
	$(BIN)/python -m benchmarks.scale --partitions $(PARTITIONS) --save benchmarks/results/scale.json

MINUTES ?= 30

bench-memory: $(READY) ## Measure memory per idle partition under random pushes
	$(BIN)/python -m benchmarks.memory --partitions $(PARTITIONS) --minutes $(MINUTES) --save benchmarks/results/memory.json

bench-snapshot: $(READY) ## Benchmark PostgreSQL with a snapshot that is open for ten minutes
	$(BIN)/python -m benchmarks.snapshot --save benchmarks/results/snapshot.json

bench-wakeup: $(READY) ## Measure how fast a push to one server wakes a consumer at another
	$(BIN)/python -m benchmarks.wakeup --save benchmarks/results/wakeup.json

bench-spark: $(READY) tools ## Benchmark Spark on a queue against Parquet, JDBC and rows
	@ls /usr/share/java/postgresql.jar >/dev/null 2>&1 || { \
		echo "missing system package: libpostgresql-jdbc-java; installing it with apt-get"; \
		apt-get update -qq && apt-get install -y -qq libpostgresql-jdbc-java; } || { \
		echo "continuing without JDBC: apt-get install libpostgresql-jdbc-java"; }
	$(BIN)/python -m benchmarks.spark --save benchmarks/results/spark.json

lock: $(READY) ## Resolve requirements.lock with the newest versions
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev \
		--generate-hashes --no-emit-index-url --no-annotate --no-header --upgrade \
		pyproject.toml -o requirements.lock

clean: ## Remove the environment, caches and built files
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# System packages: the tests trace system calls, run Spark and open pages in a browser; the
# benchmarks load the server with wrk. Each missing one is named; root on Debian installs them.
tools:
	@missing=; \
	for pair in strace:strace wrk:wrk java:openjdk-17-jre-headless chromium:chromium; do \
		command -v $${pair%%:*} >/dev/null || missing="$$missing $${pair#*:}"; \
	done; \
	test -z "$$missing" && exit 0; \
	echo "missing system packages:$$missing"; \
	echo "install them with: sudo apt-get install$$missing (or your package manager)"; \
	if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
		echo "running as root on Debian: installing them now"; \
		apt-get update -qq && apt-get install -y -qq $$missing; \
	else \
		echo "make test-fast needs none of them"; exit 1; \
	fi

$(READY): requirements.lock pyproject.toml tests/queen/queen-2.6.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Skep needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --upgrade \
		--target $(VENV)/queen-2.6 -r tests/queen/queen-2.6.txt
	touch $(READY)
