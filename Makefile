# Each target sets up what it needs, once. `make` alone lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo test check reference interop sparkcluster spark42 bench compile wheels sim chaos clean

help: ## this list
	@grep -E '^[a-z0-9]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 14

setup: ## virtual environment, dependencies, compiled leaves, a Java runtime; leaves .venv/bin/odradek
	@PYTHON=$(PYTHON) scripts/setup $(filter setup,$(MAKECMDGOALS))

demo: setup ## the main job: 336,776 real flights through the broker and Spark to a verified result
	@$(BIN)/odradek demo $(ARGS)

test: setup ## units, properties, real clients, simulator, local Spark
	@scripts/test $(ARGS)

check: setup ## format, lint, types, import contracts
	@scripts/check

reference: setup ## regenerate most of docs/reference, and config/keywords.py, from the code
	@$(BIN)/python -m scripts.reference

interop: setup ## against Java clients and a real Apache Kafka (needs Java 17+ and Maven)
	@$(BIN)/python -m pytest -m interop -n 4 --dist loadfile --no-loadscope-reorder tests/interop $(ARGS)

sparkcluster: setup ## the tests on a standalone cluster of Spark processes (2-4 minutes)
	@$(BIN)/python -m pytest -m cluster tests/cluster $(ARGS)

spark42: setup ## the Spark tests under PySpark 4.2, the oldest supported version (3-5 minutes)
	@scripts/spark42 $(ARGS)

bench: setup ## benchmarks, each as a ratio to a peer in the same run
	@$(BIN)/python -m bench $(ARGS)

compile: setup ## compile the leaves again (setup does it when a C compiler is found)
	@$(BIN)/python scripts/compile.py

wheels: setup ## this machine's packages into dist/, each tried in an empty environment (4-8 minutes)
	@$(BIN)/python scripts/wheels.py

sim: setup ## one seed of the simulator: a broker, a cluster and a quorum under faults: make sim SEED=7
	@$(BIN)/python -m odradek.testing.sim --seed $(or $(SEED),1) $(ARGS)

chaos: setup ## one and three broker processes under faults, every record checked: make chaos BROKERS=3
	@PYTHONPATH=tests $(BIN)/python -m chaos --brokers $(or $(BROKERS),both) --seconds $(or $(SECONDS),60) \
		--seed $(or $(SEED),1) $(ARGS)

clean: ## remove the virtual environment and build files (not your data directories)
	rm -rf $(VENV) .setup build dist src/odradek.egg-info src/odradek/compiled_leaves.json
	find src -name '*.so' -delete
