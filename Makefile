# Every target sets up what it needs; `make` alone lists the targets.

PYTHON ?= python3
ARGS ?=

VENV := .venv
CORE := .venv-core
PY := $(VENV)/bin/python
CORE_PY := $(CORE)/bin/python
SOURCES := $(shell find src -type f -not -name '*.pyc') README.md LICENSE

# What we test with, also for the tool that builds the package (two names: older and newer pip).
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
unexport PYTHONPATH PYTHONHOME PYTHONWARNINGS

.DEFAULT_GOAL := help
.PHONY: help demo test lint test-core bench clean
.DELETE_ON_ERROR:

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS='	' read -r name text; do \
	    printf '  make %-10s %s\n' "$$name" "$$text"; done
	@echo
	@echo '  PYTHON=python3.12   which interpreter makes the environments (after "make clean"); 3.11 or newer'
	@echo '  ARGS="-k stop -x"   more arguments for pytest, the demo or the benchmark'

demo: $(VENV)/.ready ## Algorithm 1 on two small tasks, beside an untrained network and L-BFGS
	$(VENV)/bin/sigmadmm demo $(ARGS)

test: $(VENV)/.ready ## all tests; fails if they reach less than 95 % of the code
	$(PY) -m pytest --cov --cov-report=term-missing:skip-covered --cov-fail-under=95 $(ARGS)

lint: $(VENV)/.ready ## style and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

test-core: $(CORE)/.ready ## all tests, with numpy and torch alone and the package as users install it
	$(CORE_PY) -c "$$CORE_PROOF"
	$(CORE_PY) -m pytest $(ARGS)

bench: $(VENV)/.ready ## time the training loop on this machine
	$(PY) -m benchmarks.core $(ARGS)

clean: ## remove the environments, caches and build products
	rm -rf $(VENV) $(CORE) build dist htmlcov .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.ready: pyproject.toml constraints.txt
	$(call make_environment,$(VENV))
	$(PY) -m pip install --quiet --editable '.[dev]'
	@touch $@

# The package itself goes in as a wheel, not editable: what is missing from the wheel fails here.
$(CORE)/.ready: pyproject.toml constraints.txt $(SOURCES)
	$(call make_environment,$(CORE))
	$(CORE_PY) -m pip install --quiet . pytest hypothesis
	@touch $@

define make_environment
	@command -v "$(PYTHON)" >/dev/null 2>&1 || { \
	    echo 'There is no "$(PYTHON)". Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python'; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo 'sigmadmm needs Python 3.11 or newer; "$(PYTHON)" is' "$$("$(PYTHON)" --version 2>&1)." \
	         'Name a newer one: make PYTHON=python3.12'; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
	    echo '"$(PYTHON)" has no venv module. On Debian and Ubuntu: apt-get install python3-venv'; exit 1; }
	@$(1)/bin/python -m pip --version >/dev/null 2>&1 || { \
	    echo 'Making $(1): torch is large, so the first time takes a few minutes.'; "$(PYTHON)" -m venv --clear $(1); }
endef

define CORE_PROOF
import importlib, importlib.util, pkgutil
extras = ["typer", "rich", "pandas", "sklearn", "scipy"]
found = [name for name in extras if importlib.util.find_spec(name)]
assert not found, f"the core must do without {found}, but they can be imported here"
import sigmadmm
assert "site-packages" in sigmadmm.__file__, sigmadmm.__file__
modules = [module.name for module in pkgutil.walk_packages(sigmadmm.__path__, "sigmadmm.")]
modules = [name for name in modules if name != "sigmadmm.__main__"] + ["benchmarks.core"]
for name in modules:
    importlib.import_module(name)
print(f"{len(modules)} modules import; {', '.join(extras)} cannot be imported")
endef
export CORE_PROOF
