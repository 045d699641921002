# Every target sets up .venv by itself; a machine needs Python 3.11+ and make, nothing else.
#   make demo        the whole way on a simulated provider: stop at a cap, resume, audit, seal, verify, report
#   make test        all tests in their short form (JUDGERUN_DATA: real data; JUDGERUN_EXTRAS=live: local models)
#   make check       style, types, imports, tidiness
#   make storm       the long forms: real processes killed at random, many seeds
#   make live-local  the trajectory experiment on a local embedder and a real llama.cpp server
#   make bench       every benchmark, and the table against the targets of the design

PYTHON ?= python3
BIN := .venv/bin
COMMA := ,
EXTRAS := dev,frames,plots$(if $(JUDGERUN_EXTRAS),$(COMMA)$(JUDGERUN_EXTRAS))
STAMP := .venv/.installed-$(subst $(COMMA),-,$(EXTRAS))
LIVE := .venv/.installed-dev-frames-plots-live
WORKERS ?= 2

.PHONY: setup demo test check storm live-local bench clean

setup: $(STAMP)

.venv/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit("judgerun needs Python 3.11 or newer: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv

$(sort $(STAMP) $(LIVE)): .venv/.installed-%: pyproject.toml .venv/pyvenv.cfg
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[$(subst -,$(COMMA),$*)]'
	@touch $@

demo: $(STAMP)
	$(BIN)/python docs/demo.py

test: $(STAMP)
	$(BIN)/pytest -q -n $(WORKERS) --dist loadfile --ignore tests/live tests
	$(BIN)/pytest -q tests/live  # alone: a local model takes every core

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/test_tidy.py tests/test_imports.py

storm: $(STAMP)
	JUDGERUN_STORM=1 JUDGERUN_SEEDS=2000 $(BIN)/pytest -q -n $(WORKERS) --dist loadfile tests/storm tests/sim

live-local: $(LIVE)
	$(BIN)/python tests/live/local.py

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py && $(BIN)/python benchmarks/report.py

clean:
	rm -rf demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks docs prompts -name __pycache__ -type d -prune -exec rm -rf {} +
