# Needs Python 3.11 or later, make and a package index; everything else goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA := data/mauna-loa-co2.csv
# Tests run in as many processes as there are cores, each from another place on.
PYTEST = $(BIN)/python -m pytest --numprocesses logical --maxprocesses 8 --dist worksteal

.PHONY: help demo test test-all lint format generated bench study docs gpubench segments verify clean

help:            ## list the targets
	@sed -n 's/^\([a-z-]*\): *[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tcu needs Python 3.11 or later: set PYTHON=/path/to/python3.11 or newer"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.user: $(BIN)/python pyproject.toml
	@echo "setting up $(VENV) (about a minute)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml
	@echo "setting up $(VENV) (about a minute)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.user

demo: $(VENV)/.user       ## set up, sum a real data set as GPUs would, look inside one dot product
	$(BIN)/tcu sum $(DATA) --input-dtype float16 --variant short-chain
	$(BIN)/tcu explain --unit V100 --brief "1 + 2^-24 + 2^-24"

test: $(VENV)/.dev        ## set up and test every feature (about 4 minutes on two cores)
	$(PYTEST) --quick

test-all: $(VENV)/.dev    ## all tests: also those that take long, and more cases of each
	$(PYTEST)

lint: $(VENV)/.dev        ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.dev      ## rewrite the sources as lint wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generated: $(VENV)/.dev   ## after a new operation: signatures, its places in the documentation, its golden bits
	$(BIN)/python -m tcu.stubs
	$(BIN)/python docs/generated.py
	$(BIN)/python tests/bits_of_units.py
	$(BIN)/python tests/golden.py add

bench: $(VENV)/.user      ## speed of the CPU model, on one core and on two
	$(BIN)/python benchmarks/cpu.py

study: $(VENV)/.user      ## every study that this machine can measure, in full, and a page of all (10 minutes)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[plot,sparse]'
	$(BIN)/tcu report --results benchmarks/results/studies -o report.html

docs: $(VENV)/.user       ## the documentation site, with the report, into site
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs,plot]'
	$(BIN)/mkdocs build --strict

gpubench:        ## GPU sums beside CUB, PyTorch and CuPy, which PYTHON must have; needs nvcc and a GPU
	PYTHONPATH=src $(PYTHON) benchmarks/gpu_sum.py --variants

segments:        ## figure 5 of paper 002 on the GPU at hand; `make study` draws it
	PYTHONPATH=src $(PYTHON) benchmarks/paper_002.py measure

verify: $(VENV)/.dev      ## 10^6 dot products per instruction against the definition and its rules over arrays, 300 units inferred, all cases (hours)
	$(BIN)/python -m pytest tests/test_model.py tests/test_blocks.py tests/test_sums_in_arrays.py -k model_equals --dots 1000000
	$(BIN)/python -m pytest tests/test_infer.py -k drawn_at_random --units 300
	$(PYTEST) --all-cases

clean:           ## remove the virtual environment and caches
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
