# All set-up is done here: a fresh machine needs Python 3.11 or later and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
DEMO := .venv-demo
EXAMPLE := examples/keyword_spotting
# Measurements of real TFLM and layout instances, where they are at hand; see benchmarks/arena.py, layout.py, sharing.py, latency.
DATA ?= ../shared/data

# The tests start edgetool hundreds of times: it must not be compiled each time, even where the environment says so.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-all slow lint types unit schemas page benchmark determinism fuzz checks coverage clean

# Installs the wheel that users get, in an environment of its own: an editable install never takes part.
demo: $(DEMO)/.installed
	@$(DEMO)/bin/edgetool convert $(EXAMPLE)/keyword_spotting.h5 --target nucleo-l4r5zi \
		--calibration $(EXAMPLE)/calibration.npz --evaluate $(EXAMPLE)/evaluation.npz \
		--force

test: lint types unit

# Everything: the quick checks, the slow tests, and a fresh environment for each extra.
test-all: test slow

lint: $(VENV)/.test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# On a busy machine, mypy gives up waiting for its workers: the verdict is then that of a single process.
types: $(VENV)/.test-installed
	$(BIN)/mypy -n 2 || $(BIN)/mypy

unit: $(VENV)/.test-installed
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow"

slow: $(VENV)/.test-installed
	$(BIN)/pytest -n 2 --dist worksteal -m "slow or hypothesis" --hypothesis-profile thorough

benchmark: $(VENV)/.test-installed
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/conversion.py
	$(BIN)/python -m benchmarks.account
	$(BIN)/python -m benchmarks.layout_soundness
	$(BIN)/python -m benchmarks.order_soundness 2000
	$(BIN)/python -m benchmarks.order --quick
	$(BIN)/python -m benchmarks.page
	@[ ! -d "$(DATA)" ] || $(BIN)/python -m benchmarks.instructions heldout "$(DATA)"
	@for suite in arena layout sharing latency; do \
		[ ! -d "$(DATA)" ] || $(BIN)/python -m benchmarks.$$suite "$(DATA)" || exit 1; done

# Broken model files by the million. Stopped, it goes on where it was; a change of the mutators begins anew in another
# FUZZ_STATE. What atheris finds is driven by coverage, where it has a wheel for this Python.
INPUTS ?= 1000000
COVERAGE_RUNS ?= 100000
FUZZ_STATE ?= build/fuzz
fuzz: $(VENV)/.test-installed
	$(BIN)/python -m benchmarks.fuzz --inputs $(INPUTS) --state $(FUZZ_STATE)
	@$(BIN)/python -m pip install -qq atheris || echo "atheris does not install here: the run by coverage is left out"
	@! $(BIN)/python -c 'import atheris' 2>/dev/null || \
		$(BIN)/python -m benchmarks.fuzz.coverage_guided --runs $(COVERAGE_RUNS) --corpus $(FUZZ_STATE)/corpus

# Converts the zoo repeatedly and compares every byte. Hours; a stopped run continues, unless the code has changed.
DETERMINISM_STATE ?= build/determinism
determinism: $(VENV)/.test-installed
	$(BIN)/python -m benchmarks.determinism --state $(DETERMINISM_STATE)

# Takes each check of the .tflite reader away in turn: a test must fail every time. Minutes.
checks: $(VENV)/.test-installed
	$(BIN)/python -m benchmarks.checks

# Lines and branches of the .tflite reader, the judge of layouts and the writer that their own tests reach.
COVERED := tests/attacks tests/memory/test_checker.py \
	$(addprefix tests/model/test_,checks.py flatbuffer.py flexbuffer.py reader.py rules.py schema.py writer.py)
coverage: $(VENV)/.test-installed
	$(BIN)/coverage run -m pytest -q $(COVERED)
	$(BIN)/coverage report

CHECK_PYTHON = "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "edgetool needs Python 3.11 or later; name one with make PYTHON=..."; exit 1; }

$(VENV)/bin/python:
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --upgrade pip

# pip is not quiet here: it shows what it downloads during the minutes that TensorFlow takes. What an earlier build left
# in build/ would end up in the wheel.
$(DEMO)/.installed: setup.cfg setup.py pyproject.toml $(shell find toolchain/edgetool targets -type f ! -name '*.pyc')
	@$(CHECK_PYTHON)
	@echo "Installing edgetool with TensorFlow: a few minutes the first time."
	@rm -rf build/lib build/bdist.*
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --disable-pip-version-check '.[convert]'
	@touch $@

# tf-keras loads what Keras 3 cannot, and is the independent peer for legacy files; model-optimization quantizes in
# training. Without their dependencies they sit beside tensorflow-cpu.
$(VENV)/.test-installed: setup.cfg setup.py pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[convert,onnx,verify,cp-sat,fast,sweep,dev]'
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps 'tf-keras>=2.21' 'tensorflow-model-optimization>=0.8.1'
	@touch $@

# Schemas that others publish, for tests of what we write for them: taken out of their packages, never committed.
SCHEMAS := $(VENV)/schemas
schemas: $(SCHEMAS)/sarif-2.1.0.json $(SCHEMAS)/junit-10.xsd

$(SCHEMAS)/sarif-2.1.0.json:
	@mkdir -p $(SCHEMAS)
	cd $(SCHEMAS) && npm pack --silent @microsoft/sarif-multitool-linux@5.7.0
	tar -xzf $(SCHEMAS)/microsoft-sarif-multitool-linux-5.7.0.tgz -C $(SCHEMAS) --strip-components=1 -m package/sarif-2.1.0.json
	rm $(SCHEMAS)/microsoft-sarif-multitool-linux-5.7.0.tgz

$(SCHEMAS)/junit-10.xsd: | $(VENV)/bin/python
	@mkdir -p $(SCHEMAS)
	$(BIN)/python -m pip download -qq --no-deps --no-binary :all: -d $(SCHEMAS) pytest==8.4.2
	tar -xzf $(SCHEMAS)/pytest-8.4.2.tar.gz -C $(SCHEMAS) --strip-components=3 -m pytest-8.4.2/testing/example_scripts/junit-10.xsd
	rm $(SCHEMAS)/pytest-8.4.2.tar.gz

# The page that --html writes, bundled from its sources with the libraries of its lock file.
PAGE := toolchain/edgetool/report/page
page: build/page/node_modules
	cp $(PAGE)/* build/page/
	cd build/page && node_modules/.bin/tsc && node build.mjs
	cp build/page/page.html $(PAGE)/

build/page/node_modules: $(PAGE)/package.json $(PAGE)/package-lock.json
	@mkdir -p build/page
	cp $^ build/page/
	cd build/page && npm ci --silent --ignore-scripts
	@touch $@

clean:
	rm -rf $(VENV) $(DEMO) .coverage build dist toolchain/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
