# The two commands for a fresh machine are `make demo` and `make test`; each sets itself up in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.ready-docs
RELEASE_READY := $(VENV)/.ready-release
INSTALLED := build/installed

.PHONY: help demo test slow coverage check format lint types layers docs dist bench network-bench theory constraints clean

help:
	@echo "make demo    set up, run scenarios/rural_outage.yaml, write its report"
	@echo "make test    set up, run the test suite, but for what takes long"
	@echo "make slow    the tests that take long: worlds at random, runs that are killed, guides by the letter"
	@echo "make check   format, lint, types, layers, docs, tests with warnings as errors and docstring examples"
	@echo "make coverage  all tests, and how many lines and branches of netfl it ran"
	@echo "make docs    the documentation as a site, build/docs/index.html"
	@echo "make dist    wheel, sdist and SBOM into dist/; the wheel is installed in an empty environment and tried there"
	@echo "make format  put the code into its format"
	@echo "make bench   how fast local training is, beside a plain PyTorch loop and beside bare arithmetic"
	@echo "make network-bench  how fast the network is, beside plain SimPy (and ns.py: NS_PY=python where it is installed)"
	@echo "make theory  the network's models beside their closed forms"

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "netfl needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/netfl run scenarios/rural_outage.yaml --report

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadscope -m 'not slow'

slow: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadscope -m slow

coverage: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/coverage run -m pytest -n auto --dist loadscope
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

check: lint types layers docs test

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
	$(INSTALLED)/bin/pip install --quiet --no-index --no-deps --find-links dist netfl
	$(INSTALLED)/bin/pip install --quiet --no-compile --constraint constraints.txt netfl
	$(BIN)/cyclonedx-py environment --output-reproducible --output-file dist/netfl.cdx.json $(INSTALLED)/bin/python
	NETFL_INSTALLED=$(INSTALLED) $(BIN)/pytest tests/test_dist.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/learning.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/whole_run.py
	$(BIN)/python benchmarks/models.py

network-bench: $(READY)
	$(BIN)/python benchmarks/network.py $(if $(NS_PY),--ns-py $(NS_PY))

theory: $(READY)
	$(BIN)/python benchmarks/theory.py

constraints: $(DOCS_READY) $(RELEASE_READY)
	@{ head -n 1 constraints.txt; $(BIN)/pip list --format=freeze | grep -vE '^(pip|setuptools|netfl)==' | sed 's/+cpu//'; } > constraints.new
	@mv constraints.new constraints.txt

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .import_linter_cache
