# Every target does its own set-up: a virtual environment in .venv with the pinned packages, and a Java for Spark.
# The set-up runs again only when one of the files that it depends on has changed.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

BIN := .venv/bin
READY := .venv/.penstock-ready
WITH_JAVA := scripts/with-java
SPELLED := README.md CHANGELOG.md CONTRIBUTING.md Makefile docs examples scripts src tests

.PHONY: help demo test test-all lint format bench docs doctor setup clean

help: ## show this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: $(READY) ## see Penstock keep a query inside its latency goal
	@$(WITH_JAVA) $(BIN)/penstock demo

test: lint ## lint, then run the tests, those on a real Spark session included
	@$(WITH_JAVA) scripts/run-tests $(BIN)/python

test-all: lint ## as test, with the slow ones too
	@$(WITH_JAVA) $(BIN)/python -m pytest

lint: $(READY) ## check style, formatting, types, the direction of imports, spelling
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/codespell $(wildcard $(SPELLED))

format: $(READY) ## format the code and fix what ruff can fix
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(READY) ## measure what needs no broker and no cluster: what Penstock achieves and what it costs
	@$(WITH_JAVA) $(BIN)/penstock bench

docs: $(READY) ## generate docs/reference from the code, and build the site into artifacts/site
	@$(BIN)/penstock settings --markdown > docs/reference/settings.md
	@$(BIN)/python -m penstock.cli.reference > docs/reference/cli.md
	@$(BIN)/python -m penstock.serve.reference > docs/reference/http.md
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "artifacts/site/index.html"

doctor: $(READY) ## check that this machine has what Spark and Penstock need
	@PYSPARK_PYTHON="$(CURDIR)/$(BIN)/python" $(WITH_JAVA) $(BIN)/penstock doctor

setup: $(READY) ## prepare .venv and Java and do nothing else
	@$(WITH_JAVA) true

clean: ## delete what runs left behind; .venv stays (rm -r .venv deletes that too)
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist artifacts
	@rm -rf spark-warehouse metastore_db derby.log
	@find src tests examples -type d -name __pycache__ -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt scripts/setup scripts/build-constraints.txt
	@scripts/setup
	@touch $@
