# Everything runs in .venv, which is made on first use and renewed when pyproject.toml changes.
# `make test ARGS="-k claim -x"` hands ARGS to the program that a target runs.
# Tests run on all cores, but for ARGS="-n 0", which --pdb and -s need.

PYTHON := .venv/bin/python
# One more than there are cores: much of the time goes by waiting for other processes.
AT_ONCE := $(shell n=$$(( $$(getconf _NPROCESSORS_ONLN) + 1 )); echo $$(( n < 8 ? n : 8 )))
PYTEST := $(PYTHON) -m pytest -n $(AT_ONCE) --dist worksteal
EVERYDAY := not slow and not faults and not browser

.PHONY: help test demo docs lint messages bench clean
.DEFAULT_GOAL := help

help:  ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 9

# Workers as processes are tested on the production engine; CI tests them on SQLite too.
test: .venv/.installed-dev  ## Run the tests on SQLite, then on an embedded PostgreSQL
	@status=0; \
	echo "==> The test suite on SQLite"; \
	$(PYTEST) --db=sqlite -m "$(EVERYDAY) and not process" $(ARGS) || { status=1; failed="$$failed sqlite"; }; \
	echo "==> The test suite on PostgreSQL"; \
	$(PYTEST) --db=postgres -m "$(EVERYDAY)" $(ARGS) || { status=1; failed="$$failed postgres"; }; \
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

messages: .venv/.installed-dev  ## Collect the texts to translate, and compile: needs GNU gettext
	cd django_claimq && ../$(PYTHON) -m django makemessages -l de --no-wrap --no-obsolete --add-location file
	cd django_claimq && ../$(PYTHON) -m django compilemessages

bench: .venv-bench/.installed  ## Compare with other queues, in 25 minutes: ARGS="--peers claimq,floor" with few
	.venv-bench/bin/python -m benchmarks all $(ARGS)
	.venv-bench/bin/python -m benchmarks report

clean:  ## Remove what the other targets made
	rm -rf .venv .venv-bench .tox .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf build dist htmlcov docs/_build .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.installed-%: pyproject.toml tools/setup.sh
	@sh tools/setup.sh $*
	@touch $@

# The peers have a venv of their own: what they need does not mix with the tools.
.venv-bench/.installed: .venv/.installed-demo benchmarks/requirements.txt
	@echo "==> Installing django-claimq and its peers into .venv-bench"
	@$(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check \
	    --editable ".[demo]" --requirement benchmarks/requirements.txt
	@touch $@
