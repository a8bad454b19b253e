# Everything runs inside .venv, which the first target that needs it creates from requirements.lock.
# Another interpreter: make setup PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Workers share the cores: one thread each, or they would wait for one another.
TOGETHER := OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 4

.PHONY: help setup quickstart check test browser slow kill-test golden generate bench house mutants walks lock clean
.DELETE_ON_ERROR:

help:
	@echo "make setup       create $(VENV) with the locked versions of everything"
	@echo "make quickstart  pre-train a tiny ELECTRA and look at its verdicts (about ten minutes)"
	@echo "make check       ruff, mypy --strict, fast tests"
	@echo "make test        check, then the flow tests, whole stories through the shell, and the page in a browser"
	@echo "make browser     install the browser that the tests of the page need (Debian's Chromium, as root)"
	@echo "make slow        full-size tests (they say what data they need)"
	@echo "make kill-test   kill a run at 25 random moments, twice, and 20 ranks of another; all must end as if undisturbed"
	@echo "make golden      write tests/golden again, after a change that is meant to change it (ONLY=snapshots for a part)"
	@echo "make generate    write again what is generated from the verbs and settings: defaults for --help, types of the verbs"
	@echo "make bench       measure ours beside its peers"
	@echo "make house       count lines, functions, names and types of the source, beside those of before"
	@echo "make lock        write requirements.lock again from pyproject.toml"
	@echo "make clean       remove $(VENV) and caches; runs and data stay"

setup: $(STAMP)

# The stamp is written last, so an interrupted install is taken up again and a finished one is not repeated.
$(STAMP): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON): not found; install Python 3.11 or newer, or give PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"$(PYTHON) is Python {sys.version.split()[0]}, but electralab needs 3.11 or newer; give another with PYTHON=/path/to/python")'
	@echo "setting up $(VENV): a few minutes the first time, nothing afterwards"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

quickstart: setup
	$(BIN)/electra quickstart

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(TOGETHER) -m "not flow and not browser and not slow"

test: check
	$(TOGETHER) --dist loadfile -m "flow and not slow"
	$(BIN)/pytest -m "browser and not slow"

# What is there already is left alone, so that the target costs nothing the second time.
browser:
	@if [ -x /usr/bin/chromium ]; then /usr/bin/chromium --version 2>/dev/null; \
	elif ! command -v apt-get >/dev/null; then echo "no apt-get here; install Chromium as /usr/bin/chromium by hand" >&2; exit 1; \
	elif [ "$$(id -u)" != 0 ]; then echo "Chromium is missing; as root: apt-get update && apt-get install chromium" >&2; exit 1; \
	else apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core; fi

slow: setup
	$(BIN)/pytest -m slow

kill-test: setup
	ELECTRALAB_KILLS=25 $(BIN)/pytest tests/flow/test_resume.py -k killed
	$(BIN)/python benchmarks/ranks.py --counts none --kills 20 --kill-steps 300

golden: setup
	$(BIN)/python tests/support/golden.py $(ONLY)

generate: setup
	$(BIN)/python tools/generate.py

# Ours and its peers wait alike, as the shell would have it.
bench: export OMP_WAIT_POLICY = passive
bench: setup
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script; done

house: setup
	@$(BIN)/python tools/house.py

# Faults put into the source, and how many of them the tests notice; minutes each on a quiet machine.
mutants: setup
	@$(BIN)/python tools/mutants.py src/electralab/objective --tests tests/objective
	@$(BIN)/python tools/mutants.py src/electralab/artifacts.py --tests tests/test_artifacts.py
	@$(BIN)/python tools/mutants.py src/electralab/tasks/kinds/qa.py --tests tests/tasks/test_squad.py tests/tasks/test_qa.py

walks: setup
	@$(BIN)/python tools/walks.py

# Resolves pyproject.toml afresh in a throwaway environment. torch keeps its version, since exact losses depend on it; raise
# it by hand. Its CPU and CUDA builds share one lock: the local suffix and the CUDA libraries are left to pip.
lock:
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	grep '^torch==' requirements.lock > build/lock/torch.txt
	build/lock/bin/pip install --quiet --disable-pip-version-check -c build/lock/torch.txt ".[all,dev]"
	{ echo '# Exact versions of everything `make setup` installs. Written by `make lock`; do not edit by hand.'; \
	  build/lock/bin/pip freeze --all --exclude electralab --exclude pip \
	  | sed -E 's/\+(cpu|cu[0-9]+)$$//' | grep -v -E '^(nvidia-|cuda-|triton)'; } > build/requirements.lock
	mv build/requirements.lock requirements.lock
	rm -rf build/lock

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .hypothesis
