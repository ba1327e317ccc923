# All set-up is done here: a fresh machine needs Python 3.11 or later and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
EXAMPLE := examples/keyword_spotting
# Measurements of real TFLM and layout instances, where they are at hand; see benchmarks/arena.py, layout.py, sharing.py, latency.
DATA ?= ../shared/data

.PHONY: demo test lint types unit benchmark clean

demo: $(VENV)/.demo-installed
	@$(BIN)/edgetool convert $(EXAMPLE)/keyword_spotting.h5 --target nucleo-l4r5zi \
		--calibration $(EXAMPLE)/calibration.npz --evaluate $(EXAMPLE)/evaluation.npz \
		--force

test: lint types unit

lint: $(VENV)/.test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test-installed
	$(BIN)/mypy

unit: $(VENV)/.test-installed
	$(BIN)/pytest -n 2 --dist loadfile

benchmark: $(VENV)/.test-installed
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/conversion.py
	$(BIN)/python -m benchmarks.account
	$(BIN)/python -m benchmarks.layout_soundness
	$(BIN)/python -m benchmarks.order_soundness 2000
	$(BIN)/python -m benchmarks.order --quick
	@[ ! -d "$(DATA)" ] || $(BIN)/python -m benchmarks.instructions heldout "$(DATA)"
	@for suite in arena layout sharing latency; do \
		[ ! -d "$(DATA)" ] || $(BIN)/python -m benchmarks.$$suite "$(DATA)" || exit 1; done

$(VENV)/bin/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "edgetool needs Python 3.11 or later; name one with make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --upgrade pip

$(VENV)/.demo-installed: setup.cfg pyproject.toml | $(VENV)/bin/python
	@echo "installing edgetool with TensorFlow; a few minutes the first time"
	$(BIN)/python -m pip install -qq --editable '.[convert]'
	@touch $@

# tf-keras is the independent peer for legacy files; without its dependencies it sits beside tensorflow-cpu.
$(VENV)/.test-installed: setup.cfg pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install -qq --editable '.[convert,verify,cp-sat,fast,dev]'
	$(BIN)/python -m pip install -qq --no-deps 'tf-keras>=2.21'
	@touch $@ $(VENV)/.demo-installed

clean:
	rm -rf $(VENV) build dist toolchain/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
