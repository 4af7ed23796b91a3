# Every target sets up .venv by itself. PYTHON=... chooses the interpreter it is made with.
.DEFAULT_GOAL := help
.PHONY: help venv demo quick test long mutants check docs fmt clean

BIN := .venv/bin
CORE := .venv/.core
READY := .venv/.ready
# Processes that run tests side by side: three for every two processors, since tests of servers wait much of
# their time.
JOBS ?= $(shell echo $$((($$(getconf _NPROCESSORS_ONLN) * 3 + 1) / 2)))
# The servers that tests start read bytecode: compiling it anew takes a third of a second for each.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

help:  ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(CORE): pyproject.toml requirements.lock
	@.ci/venv core $(PYTHON)

$(READY): pyproject.toml requirements.lock
	@.ci/venv all $(PYTHON)

venv: $(READY)  ## set up .venv: the project, editable, and all it needs

demo: $(READY)  ## the whole story on real data; DEMO_ARGS="--rows 10000"
	@$(BIN)/quorate demo $(DEMO_ARGS)

quick: $(CORE)  ## unit and repository tests, in a minute; needs no Spark, Java or plots
	@$(PYTEST) -m "not slow" tests/unit tests/repo $(TEST_ARGS)

test: $(READY)  ## all tests that a change must pass; TEST_ARGS="-k names -x"
	@$(PYTEST) $(TEST_ARGS)

long: $(READY)  ## an hour and more: thousands of seeds, campaigns of faults, exploration, all mutants
	@QUORATE_LONG=1 $(PYTEST) tests/simulation* tests/processes tests/unit/messaging tests/unit/bridge $(TEST_ARGS)
	@$(MAKE) mutants MUTANTS_ARGS="--jobs 2 $(MUTANTS_ARGS)"

mutants: $(READY)  ## break the channel on purpose, rule by rule: who notices? MUTANTS_ARGS="--area gate"
	@$(BIN)/python -m quorate.testing.mutation tests/simulation/mutants_*.py $(MUTANTS_ARGS)

check: $(READY)  ## ruff, mypy and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(BIN)/pyright --version >/dev/null 2>&1 || { echo "make check: pyright cannot run here: it needs Node.js; install node, or let it download one (network)" >&2; exit 1; }
	$(BIN)/pyright

docs: $(READY)  ## the documentation as a site, in build/docs/index.html
	@$(BIN)/python -m sphinx -q -W --keep-going -c docs . build/docs
	@echo "The first page is build/docs/index.html."

fmt: $(READY)  ## format, and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove .venv and everything generated
	rm -rf .venv build dist ./*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
