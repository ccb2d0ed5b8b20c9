# Everything a newcomer needs. `make help` lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help run test test-long fuzz lint sync cli-docs format bench bench-postgres bench-memory bench-scale bench-snapshot bench-spark bench-wakeup lock clean tools

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

run: $(READY) ## Start a server on the embedded store, ready to use
	$(BIN)/skep serve

test: $(READY) tools lint ## Run every suite
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-long: $(READY) tools ## Crash, kill and search for hours rather than minutes
	SKEP_EXAMPLES=2000 SKEP_KILLS=200 SKEP_SECONDS=60 SKEP_OUTAGES="30 310" SKEP_LONG=1 \
		$(BIN)/python -m pytest -n 2 --dist loadgroup --timeout 7200 \
		tests/machine tests/faults tests/spark/test_connect.py tests/spark/test_declarative.py
	SKEP_KILLS=60 SKEP_MESSAGES=1000000 SKEP_LONG=1 \
		$(BIN)/python -m pytest tests/spark/test_killed.py tests/spark/test_every_message.py --timeout 7200
	$(BIN)/python -m tests.fuzz --seconds 600 --seed $$(date +%s)

fuzz: SECONDS ?= 60
fuzz: SEED ?= 1
fuzz: $(READY) ## Search for broken promises (SECONDS=60 SEED=1; ROUND=1-d7 plays one round again)
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED) $(if $(ROUND),--round $(ROUND)) $(FUZZ)

lint: $(READY) ## Check style, types, the direction of imports and generated code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/generate_sync.py --check
	$(BIN)/python -m tools.write_cli_docs --check

sync: $(READY) ## Write the blocking client from the asynchronous one
	$(BIN)/python tools/generate_sync.py

cli-docs: $(READY) ## Write into docs/cli.md what the commands say about themselves
	$(BIN)/python -m tools.write_cli_docs

format: $(READY) ## Put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) tools ## Measure beside the bare store and the bare server, in one run
	$(BIN)/python -m benchmarks.embedded
	$(BIN)/python -m benchmarks.door

bench-postgres: $(READY) tools ## The same on PostgreSQL, beside queues of rows
	$(BIN)/python -m benchmarks.postgres

PARTITIONS ?= 1000000

bench-scale: $(READY) ## A queue with a million partitions, and other clients beside it
	$(BIN)/python -m benchmarks.scale --partitions $(PARTITIONS) --save benchmarks/results/scale.json

MINUTES ?= 30

bench-memory: $(READY) ## Memory per idle partition, while messages come to them at random
	$(BIN)/python -m benchmarks.memory --partitions $(PARTITIONS) --minutes $(MINUTES) --save benchmarks/results/memory.json

bench-snapshot: $(READY) ## Load PostgreSQL while somebody holds a snapshot of it for ten minutes
	$(BIN)/python -m benchmarks.snapshot --save benchmarks/results/snapshot.json

bench-wakeup: $(READY) ## How soon a push to one server wakes who waits at another
	$(BIN)/python -m benchmarks.wakeup --save benchmarks/results/wakeup.json

bench-spark: $(READY) tools ## Spark on a queue, beside Parquet, JDBC and rows
	@ls /usr/share/java/postgresql.jar >/dev/null 2>&1 || { \
		echo "installing PostgreSQL's driver for Java"; \
		apt-get update -qq && apt-get install -y -qq libpostgresql-jdbc-java; } || { \
		echo "without PostgreSQL's driver for Java: no JDBC beside it"; }
	$(BIN)/python -m benchmarks.spark --save benchmarks/results/spark.json

lock: $(READY) ## Resolve the dependencies anew
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev \
		--generate-hashes --no-emit-index-url --no-annotate --no-header --upgrade \
		pyproject.toml -o requirements.lock

clean: ## Remove the environment and all that was made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# The tests watch system calls, run Spark, which needs Java, and open pages in a browser; the
# benchmarks load the server with wrk. All four are packages of the system.
tools:
	@command -v strace >/dev/null && command -v wrk >/dev/null && command -v java >/dev/null \
		&& command -v chromium >/dev/null || { \
		echo "installing strace, wrk, Java and Chromium"; \
		apt-get update -qq && apt-get install -y -qq strace wrk openjdk-17-jre-headless chromium; } || { \
		echo "strace, wrk, Java 17 or Chromium is missing: install them with your package manager"; exit 1; }

$(READY): requirements.lock pyproject.toml tests/queen/queen-2.6.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --upgrade \
		--target $(VENV)/queen-2.6 -r tests/queen/queen-2.6.txt
	touch $(READY)
