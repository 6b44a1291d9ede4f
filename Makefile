# Every target makes its own environment: `make test` is enough on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# A server of the Open Inference Protocol v2 for the tests; its own environment, because its pins are not ours.
MLSERVER := .venv-mlserver
MLSERVER_PINS := tests/app/ensembles/mlserver/constraints.txt
# DiCE and NICE for the comparison in benchmarks/; their own environment, because they want older packages.
RIVALS := .venv-rivals
RIVALS_PINS := benchmarks/rivals/foreign/constraints.txt
WORKERS ?= 2
SOURCES := app models worker client/recourse_client tests $(patsubst %/__init__.py,%,$(wildcard benchmarks/__init__.py))

# One thread a process: the tests already run two processes.
export OMP_NUM_THREADS ?= 1

.PHONY: ablation survival plain paper rivals demo serve setup lint check test docs bench images pins sbom

setup: $(STAMP)

# Twice quiet: errors are shown, nothing else.
$(STAMP): pyproject.toml client/pyproject.toml constraints.txt
	@echo "Installing packages into $(VENV): a few minutes the first time."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --constraint constraints.txt pip
	@$(BIN)/python -m pip install -qq --constraint constraints.txt --editable ./client --editable '.[dev]'
	@touch $@

$(MLSERVER)/.installed: $(MLSERVER_PINS)
	test -x $(MLSERVER)/bin/python || $(PYTHON) -m venv $(MLSERVER)
	$(MLSERVER)/bin/python -m pip install --quiet --constraint $(MLSERVER_PINS) mlserver
	touch $@

rivals: $(RIVALS)/.installed

$(RIVALS)/.installed: $(RIVALS_PINS)
	test -x $(RIVALS)/bin/python || $(PYTHON) -m venv $(RIVALS)
	$(RIVALS)/bin/python -m pip install --quiet --constraint $(RIVALS_PINS) dice-ml NICEx torch gurobipy
	$(RIVALS)/bin/python -m pip install --quiet --constraint $(RIVALS_PINS) --no-deps rocelib
	touch $@

# The plain install and its tests on another Python, `make plain PYTHON=python3.13`; the worker's versions resolve there.
# No CPU build of torch is at hand for these Pythons here, so what needs it is left out. fast-deps reads what a wheel
# needs and not the wheel, which for torch and CUDA would be gigabytes; pip would ask for it on a mirror that tells less.
plain:
	$(PYTHON) -m venv --clear .venv-plain
	.venv-plain/bin/python -m pip install -q --constraint constraints.txt pip
	.venv-plain/bin/python -m pip install -q --constraint constraints.txt ./client '.[test]'
	.venv-plain/bin/python -m pip install -q --dry-run --use-feature=fast-deps --constraint constraints.txt ./client '.[worker]'
	.venv-plain/bin/python -m pytest -n 2 -m "not slow"

# Everything with made-up loans: serves, trains, explains, shows the dashboard's address. ONCE=1 ends afterwards.
demo: setup
	@$(BIN)/recourse demo $(if $(ONCE),--once) $(if $(PORT),--port $(PORT))

serve: setup
	@$(BIN)/recourse serve $(if $(PORT),--port $(PORT))

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports

# Before each commit: what is wrong shows within a minute and a half.
check: lint
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow"

# Everything. On a machine that is many times slower, RECOURSE_TEST_PATIENCE=10 makes every bound longer.
test: lint $(MLSERVER)/.installed
	$(BIN)/pytest -n 2 --durations=30

# The paper's experiments and benchmarks/results/REPORT.md; `make paper QUICK=--quick` for a first look.
paper: setup $(RIVALS)/.installed
	$(BIN)/python -m benchmarks.paper --workers $(WORKERS) $(QUICK)

# Do answers hold for models that nobody asked? A day on one core; what is finished is not run again.
survival: setup $(RIVALS)/.installed
	$(BIN)/python -m benchmarks.survival

# What each part of the engine is worth.
ablation: setup
	$(BIN)/python -m benchmarks.ablation --greedy

bench: setup
	$(BIN)/python -m benchmarks.quality
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.ledger
	$(BIN)/python -m benchmarks.service

# The documentation into build/site; a broken link, or a path of the code that is not there, is an error.
docs: setup
	$(BIN)/python docs/import_graph.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The hashes of all that the images install; TORCH_CPU is a folder or an index page with torch's CPU build.
pins: setup
	$(BIN)/python docker/pins.py $(TORCH_CPU)

# What the images install, as CycloneDX JSON.
sbom: setup
	mkdir -p build
	$(BIN)/python docker/sbom.py build

# Both images, built without an engine and tried in their root file systems; needs root, see docker/build_images.sh.
images: setup sbom
	nice -n 15 sh docker/build_images.sh
