# Everything runs in .venv, which is made on first use and renewed when pyproject.toml changes.
# `make test ARGS="-k claim -x"` hands ARGS to the program that a target runs.
# Tests run on all cores, but for ARGS="-n 0", which --pdb and -s need.

PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest -m "not slow and not faults" -n auto --maxprocesses 8 --dist worksteal $(ARGS)

.PHONY: help test demo docs lint clean
.DEFAULT_GOAL := help

help:  ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 9

test: .venv/.installed-dev  ## Run the tests on SQLite, then on an embedded PostgreSQL
	@status=0; \
	for db in sqlite postgres; do \
	    echo "==> The test suite on $$db"; \
	    $(PYTEST) --db=$$db || { status=1; failed="$$failed $$db"; }; \
	done; \
	if [ $$status -eq 0 ]; then echo "==> Passed on both databases"; \
	else echo "==> FAILED on:$$failed"; fi; \
	exit $$status

demo: .venv/.installed-demo  ## See it work: DB=sqlite|postgres chooses, KEEP=1 leaves it running
	@$(PYTHON) -m example_project.demo $(if $(DB),--db=$(DB)) $(if $(KEEP),--keep) $(ARGS)

docs: .venv/.installed-docs  ## Build the documentation into docs/_build/html
	$(PYTHON) -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "==> Open docs/_build/html/index.html"

lint: .venv/.installed-dev  ## Check style, format, types and imports
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	.venv/bin/lint-imports --no-logo

clean:  ## Remove what the other targets made
	rm -rf .venv .tox .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf build dist htmlcov docs/_build .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.installed-%: pyproject.toml tools/setup.sh
	@sh tools/setup.sh $*
	@touch $@
