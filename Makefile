# Every target sets up .venv by itself. PYTHON=... chooses the interpreter it is made with.
.DEFAULT_GOAL := help
.PHONY: help venv demo test mutants check fmt clean

BIN := .venv/bin
READY := .venv/.ready

help:  ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(READY): pyproject.toml requirements.lock
	@.ci/venv $(PYTHON)

venv: $(READY)  ## set up .venv: the project, editable, and all it needs

demo: $(READY)  ## the whole story on real data; DEMO_ARGS="--rows 10000"
	@$(BIN)/quorate demo $(DEMO_ARGS)

test: $(READY)  ## all tests; TEST_ARGS="-k names -x"
	@$(BIN)/python -m pytest $(TEST_ARGS)

mutants: $(READY)  ## break the channel on purpose, rule by rule: who notices? MUTANTS_ARGS="--area gate"
	@$(BIN)/python -m quorate.testing.mutation tests/simulation/mutants_*.py $(MUTANTS_ARGS)

check: $(READY)  ## ruff, mypy and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(BIN)/pyright --version >/dev/null 2>&1 || { echo "make check: pyright cannot run here: it needs Node.js; install node, or let it download one (network)" >&2; exit 1; }
	$(BIN)/pyright

fmt: $(READY)  ## format, and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove .venv and everything generated
	rm -rf .venv build dist ./*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
