# All targets run in .venv. The first target that needs it creates it.

PYTHON ?= python3
RUN := .venv/bin/python

export PYTHON
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_ROOT_USER_ACTION = ignore
export PIP_NO_INPUT = 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo demo-hbase test test-hbase check lint types bench bench-peers fuzz soak hbase hbase-stop endpoint clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

setup: .venv/.ready ## create .venv and install Tailrace and its tools (PYTHON=... selects the Python)

.venv/.ready: pyproject.toml constraints.txt tools/setup.sh
	@sh tools/setup.sh
	@touch $@

demo: setup ## two minutes: TPC-H tables, eight views, a stream of changes, all views verified
	@$(RUN) -m tailrace demo

demo-hbase: setup ## a few minutes: the same on a local HBase and a Spark cluster; a server is killed (needs Maven)
	@$(RUN) -m tailrace_cluster demo

test: setup ## all tests except the long ones and those on HBase
	$(RUN) -m pytest -m "not soak and not hbase" -n 3 --dist worksteal

HBASE_TESTS := -m "hbase and not soak" tests/hbase tests/store

test-hbase: setup ## the tests on local HBase clusters (needs Maven; downloads HBase the first time); what fails is run once more, alone
	$(RUN) -m pytest $(HBASE_TESTS) -n 3 --dist worksteal || $(RUN) -m pytest $(HBASE_TESTS) --last-failed

check: lint types test test-hbase ## everything that CI runs: lint, types, tests, tests on HBase (needs Maven)

lint: setup ## style and import rules
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	.venv/bin/lint-imports --no-logo

types: setup ## strict type checking
	$(RUN) -m mypy

bench: setup ## benchmarks: prints JSON and writes docs/benchmarks.md (BENCH=--quick is shorter)
	@$(RUN) -m tailrace bench --docs docs $(BENCH)

bench-peers: ## install the peers of bench in .venv-peers/<name> (PEERS="duckdb flink" for some)
	@sh tools/peers.sh $(PEERS)

fuzz: setup ## 1000 random queries, compared with Spark after every epoch (FUZZ="--seed 7" for others)
	$(RUN) -m tailrace_fuzz --queries 1000 $(FUZZ)

soak: setup ## the long tests, up to three hours: 200 random faults, ten minutes of the bank test, both also on HBase (needs Maven)
	$(RUN) -m pytest -m "soak and not hbase" -n 3 --dist worksteal
	$(RUN) -m pytest -m "soak and hbase" tests/hbase

hbase: setup ## start a local HBase cluster in .hbase (needs Maven; downloads HBase the first time)
	@$(RUN) -m tailrace_hbase start

hbase-stop: setup ## stop it; its data stay
	@$(RUN) -m tailrace_hbase stop

endpoint: ## build the replication endpoint for HBase: tailrace/store/hbase/tailrace-hbase.jar (needs Maven)
	mvn -q -B -f java/endpoint/pom.xml package
	cp java/endpoint/target/tailrace-hbase.jar tailrace/store/hbase/

clean: ## remove .venv and all generated files
	rm -rf .venv .venv-peers build dist java/*/target *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
