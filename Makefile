# The two commands for a fresh machine are `make demo` and `make test`; each sets itself up in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.ready-docs
EXTRAS := .venv-extras
EXTRAS_READY := $(EXTRAS)/.ready
RELEASE_READY := $(VENV)/.ready-release
INSTALLED := build/installed
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadscope

.PHONY: help demo test slow thorough extras coverage check static format lint types layers docs dist generated bench network-bench theory constraints constraints-extras clean

help:
	@echo "make demo    set up, tune and run scenarios/rural_outage.yaml, write its report: one minute"
	@echo "make test    set up, run the tests that take at most 0.2 s each: 8 to 12 minutes on two cores"
	@echo "make slow    further tests: many draws, whole runs, references, guides by the letter"
	@echo "make thorough  all others, before a release: all rows of the compositions, killed campaigns, errors of the disk"
	@echo "make extras  the tests of Flower, Gymnasium, trackers, Optuna, Slurm and Ray, in an environment of their own"
	@echo "make static  format, lint, types, layers, docs with warnings as errors"
	@echo "make check   make static, then make test"
	@echo "make coverage  all tests, and how many lines and branches of netfl it ran"
	@echo "make docs    the documentation as a site, build/docs/index.html"
	@echo "make dist    wheel, sdist and SBOM into dist/; the wheel is installed in an empty environment and tried there"
	@echo "make format  put the code into its format"
	@echo "make generated  update what is generated from the code: schema, tables of the docs, rows of the compositions"
	@echo "make bench   how fast local training is, beside a plain PyTorch loop and beside bare arithmetic"
	@echo "make network-bench  how fast the network is, beside plain SimPy (and ns.py: NS_PY=python where it is installed)"
	@echo "make theory  the network's models beside their closed forms"

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "netfl needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@echo "setting up $(VENV): downloads PyTorch and others, some minutes"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/netfl run scenarios/rural_outage.yaml --report

# Each worker collects all tests first, which takes 15 s: more than four of them would spend more time than they save.
test: $(READY)
	@echo "about 16,600 tests, 8 to 12 minutes on two cores, the first half minute without a sign"
	$(PYTEST) --maxprocesses 4 -m 'not slow and not extra'

slow: $(READY)
	@echo "about 3,900 tests, 24 to 34 minutes on two cores"
	$(PYTEST) -m 'slow and not thorough and not extra'

thorough: $(READY)
	@echo "about 60 tests, 10 to 15 minutes on two cores"
	$(PYTEST) -m thorough

# Flower needs older versions of some packages than constraints.txt pins, so the extras have an environment of their own.
$(EXTRAS_READY): pyproject.toml constraints-extras.txt
	@echo "setting up $(EXTRAS): every optional package, some minutes"
	$(PYTHON) -m venv $(EXTRAS)
	$(EXTRAS)/bin/pip install --quiet --constraint constraints-extras.txt --editable '.[dev,extras]'
	@touch $@

# One after the other: Ray and submitit start processes of their own on the same cores.
extras: $(EXTRAS_READY)
	@echo "about 300 tests, 7 to 10 minutes on one core"
	OMP_NUM_THREADS=1 $(EXTRAS)/bin/pytest -m extra

coverage: $(READY)
	@echo "the tests of make test, make slow and make thorough, 70 to 100 minutes on two cores"
	OMP_NUM_THREADS=1 $(BIN)/coverage run -m pytest -n auto --dist loadscope
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# The schema is written to another file first, as netfl reads the scenarios beside it.
generated: $(READY)
	mkdir -p build
	$(BIN)/netfl schema > build/schema.json
	mv build/schema.json scenarios/schema.json
	PYTHONPATH=docs $(BIN)/python tests/test_docs_reference.py
	PYTHONPATH=tests $(BIN)/python tests/test_architecture.py
	PYTHONPATH=tests $(BIN)/python -m support.designs --levels

static: lint types layers docs

check: static test

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

$(DOCS_READY): $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

docs: $(DOCS_READY)
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs build/docs
	@echo build/docs/index.html

$(RELEASE_READY): $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[release]'
	@touch $@

# The wheel is made from the sdist, and installed by its name: so neither the checkout nor a path gets into the SBOM.
dist: $(RELEASE_READY)
	rm -rf dist $(INSTALLED)
	$(BIN)/python -m build --quiet
	$(PYTHON) -m venv $(INSTALLED)
	$(INSTALLED)/bin/pip install --quiet --no-index --no-deps --find-links dist netfl-sim
	$(INSTALLED)/bin/pip install --quiet --no-compile --constraint constraints.txt netfl-sim
	$(BIN)/cyclonedx-py environment --output-reproducible --output-file dist/netfl-sim.cdx.json $(INSTALLED)/bin/python
	NETFL_INSTALLED=$(INSTALLED) $(BIN)/pytest tests/test_dist.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/learning.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/whole_run.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/codecs.py
	$(BIN)/python benchmarks/models.py

network-bench: $(READY)
	$(BIN)/python benchmarks/network.py $(if $(NS_PY),--ns-py $(NS_PY))

theory: $(READY)
	$(BIN)/python benchmarks/theory.py

constraints: $(DOCS_READY) $(RELEASE_READY)
	@{ head -n 1 constraints.txt; $(BIN)/pip list --format=freeze | grep -vE '^(pip|setuptools|netfl-sim)==' | sed 's/+cpu//'; } > constraints.new
	@mv constraints.new constraints.txt

constraints-extras: $(EXTRAS_READY)
	@{ head -n 1 constraints-extras.txt; $(EXTRAS)/bin/pip list --format=freeze | grep -vE '^(pip|setuptools|netfl-sim)==' | sed 's/+cpu//'; } > constraints.new
	@mv constraints.new constraints-extras.txt

clean:
	rm -rf $(VENV) $(EXTRAS) build dist *.egg-info .mypy_cache .ruff_cache .import_linter_cache
