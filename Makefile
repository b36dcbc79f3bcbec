# Heliostat: every way to build, prove, show and measure it. `make help` lists the targets.
#
# A machine with Rust, Python 3, gcc, make and apt is enough: `make setup` brings the rest.
# Nothing here uses a default port of a service or touches a process it did not start.

SHELL := /bin/bash
.DEFAULT_GOAL := help

CARGO  ?= cargo
PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin/python
TARGET := $(or $(CARGO_TARGET_DIR),target)
REPORT := $(abspath target)
# Which programs the tests run: `release`, or `dev`, as `make test` does, whose crates' tests have built most of it.
PROFILE ?= release
export HELIOSTAT_BIN ?= $(abspath $(TARGET)/$(PROFILE:dev=debug)/heliostat)
export HELIOSTAT_REPORT := $(REPORT)

# BENCH=name[,name] picks benchmarks; BENCH_FLAGS=--quick shortens, --plain leaves Heliostat out.
# BENCH=peers compares snapshots with other tools; PEERS="Ray,fork" picks some (docs/compare-snapshots.md).
BENCH       ?= all
BENCH_FLAGS ?=
DEMO_FLAGS  ?=
CLUSTER_FLAGS ?=
PREFIX      ?= /usr/local
DESTDIR     ?=
CRATES_FLAGS ?=
# PYTEST_FLAGS=--plain runs every program with both ends under plain Linux only;
# --strict fails for a test that passes when it is run again (`make test-programs` only).
PYTEST_FLAGS ?=
FUZZ_SECONDS ?= 60
SOAK_MINUTES ?= 10

.PHONY: help setup build programs documents install uninstall package wheel sdist crates demo demo-cluster demo-durable demo-coprocessor test test-package test-rust test-loom test-programs test-container test-coprocessor test-durable test-crashes test-kills test-durable-guest test-cores test-nvme test-roce test-user test-cluster test-suites bench bench-record fuzz soak lint clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## install the Debian packages and Python modules that are missing
	@verify/setup.sh

$(VENV)/.ready: verify/requirements.txt
	@verify/setup.sh
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -r verify/requirements.txt
	@touch $@

build: ## build the control plane, the stub and the command line (release)
	$(CARGO) build --release --workspace

programs: ## the same but for what only measures: what the tests run
	$(CARGO) build --profile $(PROFILE) --workspace --exclude 'heliostat-bench-*'

documents: ## man pages and completions of the command line, into target/documents
	$(CARGO) build --release --workspace --bin heliostat-documents --features heliostat-command/documents
	$(TARGET)/release/heliostat-documents $(TARGET)/documents

install: ## what `make build documents` made: programs, C interface, units, configuration, man pages, completions into PREFIX (/usr/local), DESTDIR
	PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) packaging/install.sh install

uninstall: ## remove what `make install` with the same PREFIX put there; a changed configuration stays
	PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) packaging/install.sh uninstall

package: build documents ## a Debian package, target/heliostat_VERSION_amd64.deb
	packaging/debian.sh

wheel: setup build ## the Python package with everything it needs, into target/wheels
	$(RUN) bind/python/wheel.py

sdist: setup ## the Python package as sources; `pip install` of it builds the programs too
	$(RUN) bind/python/wheel.py --source

crates: ## ask whether crates.io would take the crates (a dry run); CRATES_FLAGS=--verify builds each
	packaging/crates.py $(CRATES_FLAGS)

demo: setup build ## Redis over TCP, Unix socket and Heliostat in 3 minutes; draws target/demo/redis.png
	$(RUN) bench/demo/redis_demo.py $(DEMO_FLAGS)

demo-cluster: setup build ## word count on three nodes, one of them killed in the middle; draws target/demo/cluster.png
	$(RUN) bench/demo/cluster_demo.py $(DEMO_FLAGS)

demo-durable: setup build ## Redis that keeps every write, plain and held back, then killed; draws target/demo/durable.png
	$(RUN) bench/demo/durable_demo.py $(DEMO_FLAGS)

demo-coprocessor: setup build ## text and image search by 1 to 4 workers without a kernel; draws target/demo/coprocessor.png
	$(RUN) bench/demo/coprocessor_demo.py $(DEMO_FLAGS)

test: setup ## everything that must hold: crates, loom models, lint, programs, faults
	$(MAKE) test-rust
	$(MAKE) lint
	$(MAKE) test-loom
	$(MAKE) test-programs PROFILE=dev HELIOSTAT_BIN=$(abspath $(TARGET)/debug/heliostat)

test-rust: setup ## unit and integration tests of the crates
	CARGO="$(CARGO)" $(RUN) verify/crates.py --workspace
	@echo "delegated operations once more, in a control plane behind a container's filter"
	CARGO="$(CARGO)" HELIOSTAT_TEST_FILTERED=1 $(RUN) verify/crates.py --workspace --test 'delegated*'

test-loom: ## memory orders of what is shared, exhaustively, under loom
	RUSTFLAGS="--cfg loom" CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 \
	    $(CARGO) test -p heliostat-base -p heliostat-backend-lease -p heliostat-backend-robust -p heliostat-backend-log -p heliostat-ring -p heliostat-supervisor --lib --release \
	    --target-dir $(TARGET)/loom models

test-programs: setup programs ## unmodified programs, faults and the lint's own tests (pytest)
	@echo "the wheel of these programs, before a test would wait for it"
	$(RUN) bind/python/wheel.py --release-folder $(dir $(HELIOSTAT_BIN))
	$(RUN) verify/run.py $(PYTEST_FLAGS)

test-container: setup build wheel ## the tests behind Docker's default filter, as root and as an ordinary user (not in `make test`)
	$(RUN) verify/container/run.py container $(PYTEST_FLAGS)

test-cores: setup build ## cpusets and interrupts for parted cores, in an emulated guest (not in `make test`)
	$(RUN) verify/cores/run.py

test-nvme: setup build ## stores on a namespace of an NVMe device, in an emulated guest (not in `make test`)
	$(RUN) verify/nvme/run.py

test-roce: setup ## nodes by UCX over verbs, in an emulated guest with Soft-RoCE (not in `make test`)
	$(RUN) verify/roce/run.py

test-durable: setup build ## Redis, Valkey, SQLite and PostgreSQL under --durable, killed HELIOSTAT_KILLS (500) times (not in `make test`)
	verify/durable/setup.sh
	HELIOSTAT_KILLS=$${HELIOSTAT_KILLS:-500} $(RUN) verify/run.py $(abspath verify/durable) $(PYTEST_FLAGS)

test-kills: setup programs ## logs and queues in Rust, C and Python, and stores: killed HELIOSTAT_KILLS (1,000) times each (not in `make test`)
	HELIOSTAT_KILLS=$${HELIOSTAT_KILLS:-1000} $(CARGO) test -p heliostat-backend-log --test kill
	HELIOSTAT_KILLS=$${HELIOSTAT_KILLS:-1000} $(CARGO) test -p heliostatd --test store_killed
	HELIOSTAT_KILLS=$${HELIOSTAT_KILLS:-1000} $(RUN) verify/run.py $(abspath verify/log/test_kills.py) $(PYTEST_FLAGS)

test-crashes: ## HELIOSTAT_CRASH_STATES (100,000) states in which a crash may leave a store (not in `make test`, which tries 10,000)
	HELIOSTAT_CRASH_STATES=$${HELIOSTAT_CRASH_STATES:-100000} $(CARGO) test --quiet -p heliostat-backend-store --test crash -- --nocapture

test-durable-guest: setup build ## Redis through losses of power in an emulated guest, HELIOSTAT_KILLS (5) times (not in `make test`)
	$(RUN) verify/durable/power_loss.py

test-coprocessor: setup build ## text and image search by lean workers: its own tests, and a small demo (not in `make test`: it builds a search engine)
	cd applications/coprocessor && $(CARGO) test --release --quiet --target-dir ../../target/coprocessor
	$(RUN) bench/demo/coprocessor_demo.py --texts 500 --rounds 1 --seconds 0.3 --out target/coprocessor/demo

test-user: setup build wheel ## the tests as an ordinary user, uid 1000 where root calls (not in `make test`)
	$(RUN) verify/container/run.py user $(PYTEST_FLAGS)

test-package: setup package wheel sdist ## what is installed, from a prefix, a Debian package, a wheel (takes root)
	@verify/setup.sh debootstrap
	$(RUN) -m pytest -c verify/package/pytest.ini verify/package $(PYTEST_FLAGS)

test-cluster: setup ## nodes in networks of their own whose wires lose, delay, reorder and are cut; takes root (not in `make test`)
	$(RUN) verify/cluster/run.py $(CLUSTER_FLAGS)

test-suites: setup build ## some fifty real programs compared with plain Linux; installs them (not in `make test`)
	verify/suites/setup.sh
	$(RUN) -m pytest -c verify/suites/pytest.ini verify/suites $(PYTEST_FLAGS)

bench: setup build ## measure everything, or BENCH=pingpong,redis; writes target/bench/NAME.json
	$(RUN) bench/run.py $(BENCH) $(BENCH_FLAGS)

bench-record: setup build ## the same, recorded: bench/results, figures of the specification, plots; BENCH=none only rewrites
	$(RUN) bench/record.py $(BENCH) $(BENCH_FLAGS)

fuzz: setup build ## hostile input for FUZZ_SECONDS per target, seeds printed for replay
	$(RUN) verify/fuzz.py --seconds $(FUZZ_SECONDS)

soak: setup build ## load with random kills for SOAK_MINUTES; nothing may be left behind
	$(RUN) verify/soak.py --minutes $(SOAK_MINUTES)
	$(RUN) verify/soak.py --minutes $(SOAK_MINUTES) --snapshots

lint: $(VENV)/.ready ## format, clippy, crate graph, manifests, circles, atomics, lengths, words, documents, reasons, headers
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(RUN) verify/lint/lint.py

clean: ## remove everything that was built
	$(CARGO) clean
	rm -rf $(VENV) .pytest_cache
