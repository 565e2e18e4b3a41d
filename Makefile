# `make demo` and `make test` need Python 3.11 or later, git (for the clone) and make; they create .venv themselves.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.made-from
WORKERS ?= 2

export OMP_NUM_THREADS ?= 1
# A toggle left over in the calling shell would revert fixes under the tests of the fixes, and break the tools themselves.
unexport PRTOGGLE PRTOGGLE_TRACE PRTOGGLE_PATH PRTOGGLE_CATALOGUES PRTOGGLE_REPORT

.PHONY: env demo test check docs verify catalogue clean

env: $(STAMP)

# An editable install: the checkout's own files are what runs. The constraints hold the versions that were tested;
# pip is renewed first because the one that Python bundles may be too old for dependency groups.
$(STAMP): pyproject.toml constraints/tested.txt prtoggle.pth prtoggle.start
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "prtoggle needs Python 3.11 or later: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet -c constraints/tested.txt --group test --group lint -e '.[kvcore]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS)

# Each step is one that `.ci/run` runs too.
check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_import_graph.py

docs: $(STAMP)
	$(BIN)/python -m pytest -q tests/test_docs.py

# Every toggle is noticed by its guard, and the catalogue's page was made from this state of the project.
verify: $(STAMP)
	$(BIN)/python -m prtoggle verify -j $(WORKERS)
	$(BIN)/python -m prtoggle verify --fresh docs/catalogue.md

# Who else notices: a run a toggle of the tests of kvcore, but for those that take long and say the same. Half an hour.
ALSO := $(filter-out %_machine.py %no_sync.py %cuda_synchronisation.py %no_device_reads.py %public_names.py \
	%random_life.py %unreadable_device.py %work_of_a_step.py, $(wildcard tests/kvcore/test_*.py \
	$(foreach room,allocators disaggregation pools prefix_cache,tests/kvcore/$(room)/test_*.py)))

catalogue: $(STAMP)
	$(BIN)/python -m prtoggle verify --matrix -j $(WORKERS) --catalogue docs/catalogue.md $(addprefix --also ,$(ALSO))

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
