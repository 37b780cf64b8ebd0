# The commands of this project; `make` alone lists them.
#
# PYTHON   the Python that .venv is made with (the faster one of python3 and /usr/bin/python3)
# ARGS     further arguments of `make run`, `crash`, `simulate`, `stress`, `fuzz`, `soak` and `transactions`, e.g. make run ARGS="--bind 0.0.0.0"
# ADVISORIES  a file or folder that `make audit-dependencies` asks instead of the network

PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST := $(BIN)/pytest --durations=10
PIP_INSTALL := $(PIP) install --quiet --no-deps --require-hashes
export PIP_ROOT_USER_ACTION := ignore

.DEFAULT_GOAL := help
.PHONY: help setup setup-test setup-spark run test test-unit test-spark test-accelerated test-accelerated-and-spark test-compat accelerate accelerated-tests compat-machine compat-images check crash stress fuzz soak simulate crash-accelerated stress-accelerated fuzz-accelerated soak-accelerated transactions bench bench-quick demo lock audit-dependencies sbom clean

help:
	@echo "make setup       make .venv and install the gateway with the locked versions of what it needs"
	@echo "make run         set up, then serve: name server 127.0.0.1:9876, broker 127.0.0.1:10911, data in var/"
	@echo "make test        all tests; brings Java, a Docker engine and the base image where they are missing"
	@echo "make test-unit   the tests that need nothing but Python"
	@echo "make test-accelerated  the same tests of the compiled packages"
	@echo "make test-spark  the tests of the Spark source; installs PySpark (400 MB) into .venv"
	@echo "make test-compat the tests with stock Java clients in containers"
	@echo "make check       formatting, lint, types, import contracts, unit tests"
	@echo "make crash       cut the power at 50,000 places of the store's writes and look at what is left"
	@echo "make simulate    100,000 histories of brokers that replicate, with every fault, in one thread each"
	@echo "make stress      threads on one store for an hour, then a look at every unit and index entry"
	@echo "make fuzz        bad requests beside honest clients for an hour"
	@echo "make soak        kill, stop and starve the gateway under Java load for 10 minutes"
	@echo "make crash-accelerated, stress-accelerated, fuzz-accelerated, soak-accelerated  the same of the compiled packages"
	@echo "make accelerate  compile what runs for every message; run, bench and the tests then use it (1-2 minutes)"
	@echo "make transactions  200,000 transactions while the gateway and the producers are killed"
	@echo "make bench       the same Java load against Apache RocketMQ and against the gateway: some hours"
	@echo "make bench-quick the rows of it that say most: five minutes"
	@echo "make demo        a gateway, transactional producers, a stream into Parquet and a report; needs Java for Spark"
	@echo "make lock        renew the lock files"
	@echo "make audit-dependencies  look for known vulnerabilities of the locked packages; ADVISORIES=PATH asks stored ones"
	@echo "make sbom        write build/sbom.cdx.json: what the container image is made of, in CycloneDX's format"
	@echo "make clean       remove what tools left behind (not .venv, not var/)"

# -- set-up: the stamps make a second call do nothing ----------------------------------------------------

setup: $(VENV)/.installed
setup-test: $(VENV)/.installed-test
setup-spark: $(VENV)/.installed-spark

$(BIN)/python:
	@PYTHON="$(PYTHON)" .ci/make-venv $(VENV)

$(VENV)/.installed: requirements.lock requirements-build.lock pyproject.toml | $(BIN)/python
	@echo "installing the gateway into $(VENV)"
	@$(PIP_INSTALL) -r requirements-build.lock -r requirements.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q wire gateway  # so that the first start is as quick as the others
	@touch $@

$(VENV)/.installed-test: requirements-test.lock $(VENV)/.installed
	@echo "installing the test tools into $(VENV)"
	@$(PIP_INSTALL) -r requirements-test.lock
	@touch $@

$(VENV)/.installed-spark: requirements-spark.lock $(VENV)/.installed-test
	@.ci/install-java
	@echo "installing PySpark into $(VENV)"
	@$(PIP_INSTALL) -r requirements-spark.lock
	@$(BIN)/python -m compileall -q $(VENV)/lib/python*/site-packages/pyspark  # it comes without; each worker would do it
	@touch $@

# -- compiled hot paths: a copy of the packages with extension modules beside their sources ------------------

ACCELERATED := build/accelerated
SOURCES := $(shell find wire gateway -name '*.py' -not -path '*/tests/*')

accelerate: $(ACCELERATED)/.built

$(ACCELERATED)/.built: $(SOURCES) pyproject.toml hatch_build.py | setup-test
	@.ci/install-compiler $(BIN)/python
	@echo "compiling into $(ACCELERATED)"
	@rm -rf build/wheel $(ACCELERATED)
	@mkdir -p build && touch build/accelerating
	@HATCH_BUILD_HOOKS_ENABLE=1 .ci/stage compiling $(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheel .
	@$(BIN)/python -m zipfile -e build/wheel/*.whl $(ACCELERATED)
	@for shared in pyproject.toml hatch_build.py README.md LICENSE NOTICE docs conftest.py; do ln -sfn ../../$$shared $(ACCELERATED)/$$shared; done
	@$(BIN)/python -m compileall -q $(ACCELERATED)
	@touch -r build/accelerating $@  # what is edited meanwhile is not in it

# What was compiled, while it is newer than every source: it stands before the editable install on the path.
IF_ACCELERATED = $(if $(shell test -e $(ACCELERATED)/.built && find $(ACCELERATED)/.built $(SOURCES) -newer \
	$(ACCELERATED)/.built | wc -l | grep -x 0),PYTHONPATH=$(CURDIR)/$(ACCELERATED))

# -- use ------------------------------------------------------------------------------------------------

run: setup
	@$(IF_ACCELERATED) exec $(BIN)/rocketmq-gateway serve --data var $(ARGS)

# -- tests ----------------------------------------------------------------------------------------------

# Two things at a time where neither needs the other.
test:
	@.ci/install-python 3.14 & .ci/install-java || exit 1; wait
	@$(MAKE) --no-print-directory -j2 test-unit accelerate
	@$(MAKE) --no-print-directory -j3 test-accelerated-and-spark compat-images audit-dependencies
	@$(MAKE) --no-print-directory test-compat

test-unit: setup-test
	@$(BIN)/python -m gateway.client.tests.programs.pythons
	@.ci/stage "unit tests" $(PYTEST) -n 2 --dist worksteal wire gateway demo benchmarks

test-spark: setup-spark
	@.ci/stage "tests of the Spark source" $(PYTEST) gateway/tests/spark compat_tests/spark

# Tests are not in the wheel.
accelerated-tests: accelerate
	@find wire gateway -type d -name tests -exec cp -rp --parents {} $(ACCELERATED) \;

# Files of tests that import no compiled module have been run; commands, store tool and Spark run interpreted only.
test-accelerated: accelerated-tests
	@$(BIN)/python -m gateway.tests.reach wire gateway/tests >build/reaching
	@grep -vE '^gateway/tests/(cli|store_tool|spark)/' build/reaching >build/accelerated-tests
	@cd $(ACCELERATED) && PYTHONPATH=$(CURDIR)/$(ACCELERATED) $(CURDIR)/.ci/stage "tests of the compiled packages" \
		$(CURDIR)/$(PYTEST) -n 2 --dist worksteal -p no:cacheprovider @$(CURDIR)/build/accelerated-tests

# Beside the images, which mostly wait for downloads; Spark gives a worker ten seconds to start.
test-accelerated-and-spark:
	@$(MAKE) --no-print-directory test-accelerated
	@$(MAKE) --no-print-directory test-spark

compat-machine:
	@.ci/install-java
	@.ci/install-postgresql
	@docker/start-engine
	@docker/base-image

compat-images: setup-test compat-machine
	@.ci/stage images $(BIN)/python -m compat_tests.images

# Three at a time, also on two processors: servers and Java's clients wait for each other half of the time.
test-compat: setup-test compat-machine
	@.ci/stage "compatibility tests" $(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder -m "not alone" --ignore compat_tests/spark compat_tests
	@.ci/stage "compatibility tests alone" $(PYTEST) -m alone --ignore compat_tests/spark compat_tests

check: setup-test
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@report=$$($(BIN)/lint-imports --no-cache 2>&1) || { echo "$$report"; exit 1; }
	@$(BIN)/pytest -n 2 --dist worksteal wire gateway demo benchmarks

crash: setup-test
	@$(BIN)/python -m gateway.tests.crash --images 50000 $(ARGS)

simulate: setup-test
	@$(BIN)/python -m gateway.tests.simulation --seeds 100000 --processes 2 $(ARGS)

stress: setup-test
	@$(BIN)/python -m gateway.tests.stress --minutes 60 $(ARGS)

fuzz: setup-test
	@$(BIN)/python -m gateway.tests.fuzz --minutes 60 $(ARGS)

soak: setup-test compat-machine
	@$(BIN)/python -m compat_tests.soak --minutes 10 $(ARGS)

# The compiled packages have to be what is loaded: `--compiled` refuses anything else.
crash-accelerated: accelerated-tests
	@cd $(ACCELERATED) && PYTHONPATH=$(CURDIR)/$(ACCELERATED) $(CURDIR)/$(BIN)/python -m gateway.tests.crash --compiled --images 50000 $(ARGS)

stress-accelerated: accelerated-tests
	@cd $(ACCELERATED) && PYTHONPATH=$(CURDIR)/$(ACCELERATED) $(CURDIR)/$(BIN)/python -m gateway.tests.stress --compiled --minutes 60 $(ARGS)

fuzz-accelerated: accelerate
	@$(BIN)/python -m gateway.tests.fuzz --compiled --minutes 60 $(ARGS)

soak-accelerated: accelerate compat-machine
	@PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/$(ACCELERATED):$(CURDIR) $(BIN)/python -m compat_tests.soak --compiled --minutes 10 $(ARGS)

transactions: setup-test compat-machine
	@$(BIN)/python -m compat_tests.transactions_load $(ARGS)

bench: accelerate
	@$(IF_ACCELERATED) $(BIN)/python -m benchmarks $(ARGS)

bench-quick: accelerate
	@$(IF_ACCELERATED) $(BIN)/python -m benchmarks --quick $(ARGS)

demo: setup-spark
	@exec $(BIN)/python -m demo $(ARGS)

# -- upkeep ---------------------------------------------------------------------------------------------

# One lock a purpose: to run, to build (hatchling, for the editable install), to test, to compile in the image.
# No index address is written, so that a lock works with any mirror.
COMPILE = CUSTOM_COMPILE_COMMAND="make lock" build/lock/bin/pip-compile --quiet --upgrade --generate-hashes \
	--allow-unsafe --strip-extras --no-emit-index-url --no-emit-trusted-host --no-emit-options

lock:
	@test -x build/lock/bin/pip-compile || { PYTHON="$(PYTHON)" .ci/make-venv build/lock && \
		build/lock/bin/python -m pip --disable-pip-version-check install --quiet pip-tools==7.6.2; }
	$(COMPILE) --extra fast --output-file requirements.lock pyproject.toml
	$(COMPILE) --build-deps-for editable --only-build-deps --constraint requirements.lock \
		--output-file requirements-build.lock pyproject.toml
	$(COMPILE) --extra test --constraint requirements.lock --constraint requirements-build.lock \
		--output-file requirements-test.lock pyproject.toml
	HATCH_BUILD_HOOKS_ENABLE=1 $(COMPILE) --build-deps-for wheel --only-build-deps --constraint requirements.lock \
		--constraint requirements-build.lock --constraint requirements-test.lock --output-file requirements-compile.lock pyproject.toml
	$(COMPILE) --extra spark --constraint requirements.lock --constraint requirements-build.lock \
		--constraint requirements-test.lock --output-file requirements-spark.lock pyproject.toml
	printf 'cyclonedx-bom\npip-audit\n' | $(COMPILE) --output-file requirements-audit.lock -

# The tools that look at the lock files have an environment of their own: nothing else needs what they need.
AUDIT := build/audit

$(AUDIT)/.installed: requirements-audit.lock | $(BIN)/python
	@$(BIN)/python -m venv --without-pip $(AUDIT)
	@$(PIP) --python $(AUDIT)/bin/python install --quiet --no-deps --require-hashes -r requirements-audit.lock
	@touch $@

audit-dependencies: setup-test $(AUDIT)/.installed
	@.ci/stage "audit of the locked packages" $(BIN)/python -m gateway.tests.dependency_audit \
		--pip-audit $(AUDIT)/bin/pip-audit $(if $(ADVISORIES),--advisories "$(ADVISORIES)") $(ARGS) requirements*.lock

sbom: setup $(AUDIT)/.installed
	@sed "s/^dynamic = .*/version = \"$$($(BIN)/rocketmq-gateway version | cut -d ' ' -f 2)\"/" \
		pyproject.toml >build/sbom.toml
	@PYTHONWARNINGS=ignore $(AUDIT)/bin/cyclonedx-py requirements requirements.lock --pyproject build/sbom.toml \
		--output-reproducible --output-file build/sbom.cdx.json

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage
	find wire gateway compat_tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
