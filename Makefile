# Everything there is to do here. Each target says what it is for; `make` alone lists them.

CARGO_TARGET_DIR ?= $(CURDIR)/target
export CARGO_TARGET_DIR
# The extension is for any Python from 3.10 on. Where it changed between commands, they would compile PyO3 again.
export PYO3_NO_PYTHON := 1
PYTHON := .venv/bin/python
# `rampmeter kernel` needs the headers of libelf, which `setup` installs for root.
KERNEL = $(shell test -e /usr/include/libelf.h && echo yes)
WORKSPACE = --workspace $(if $(KERNEL),--features rampmeter-cli/kernel,--exclude rampmeter-kernel)
# `make test` sets PROFILE=test: with the features of the tests, too, each crate is compiled once for both.
PROFILE := release
ifeq ($(PROFILE),test)
export BUILT := $(CARGO_TARGET_DIR)/debug
BUILD = --profile test $(WORKSPACE) --lib --bins --tests --examples
else
export BUILT := $(CARGO_TARGET_DIR)/release
BUILD = --release --package rampmeter-cli --package rampmeter-capi --package rampmeter-py $(if $(KERNEL),--features rampmeter-cli/kernel)
endif
RAMPMETER := $(BUILT)/rampmeter

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: build
build: setup ## the command target/release/rampmeter, librampmeter_cm for C and the Python extension
	@echo "building: minutes the first time; the last step of a release takes one or two and prints nothing"
	cargo build $(BUILD)

PREFIX ?= /usr/local
.PHONY: install
install: ## the command, man pages, completions, librampmeter_cm, cm.h: into PREFIX (/usr/local), below DESTDIR
	scripts/install "$(PREFIX)" "$(DESTDIR)"

.PHONY: demo
demo: python ## one scenario in two worlds, a file over the wire, Figure 4: two minutes when built
	$(PYTHON) scripts/demo.py $(RAMPMETER)

# Everything is compiled before any test runs, as some of them time real packets.
.PHONY: test
test: ## all of it: lints, Rust, the examples, Python, quick claims
	$(MAKE) --no-print-directory --jobs=2 PROFILE=test lint python
	$(MAKE) --no-print-directory --jobs=1 PROFILE=test test-rust test-example test-python claims-quick

.PHONY: test-long
test-long: test lint-more fuzz-replay package docs claims-long test-conditions ## the same, fuzz corpora, packages, the documentation and its site, slow claims, 200 clients at once
	$(MAKE) --no-print-directory --jobs=1 test-example test-python claims-quick workloads-check crowd # of the release

.PHONY: bpf
bpf: ## the program of `rampmeter kernel` in the kernel, after a change of crates/kernel/bpf (clang, libbpf-dev)
	cd crates/kernel/bpf && clang -O2 -g -target bpf -mcpu=v3 -Wall -Wno-missing-declarations -c rampmeter.bpf.c -o rampmeter.bpf.o
	cd crates/kernel/bpf && llvm-strip -g rampmeter.bpf.o && sha256sum kernel.h shared.h rampmeter.bpf.c rampmeter.bpf.o > sources.sha256

.PHONY: test-conditions
test-conditions: setup ## two schemes over every condition of the library, and broken controllers at all questions, simulated
	cargo test --quiet --release --package rampmeter-sim --test conditions -- --ignored
	cargo test --quiet --release --package rampmeter-cli --test evaluation -- --ignored

.PHONY: lint
lint: venv lint-rust ## formatting and warnings, in Rust and Python; links of Markdown files, tests, words, dependencies
	cargo fetch --quiet --locked --manifest-path fuzz/Cargo.toml # so that all licences are known
	$(PYTHON) scripts/dependencies.py
	$(PYTHON) -m doctest scripts/dependencies.py scripts/checkout.py scripts/stacks.py
	$(PYTHON) scripts/links.py
	$(PYTHON) scripts/attacks.py
	$(PYTHON) scripts/test_files.py
	$(PYTHON) scripts/words.py
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

.PHONY: lint-rust
lint-rust: setup
	cargo fmt --all --check
	cargo clippy --quiet $(WORKSPACE) --all-targets -- -D warnings
	cd crates/kernel/bpf && sha256sum --check --quiet sources.sha256 # else: make bpf
	cd bench/wire && cargo fmt --check
	cd fuzz && cargo fmt --check

.PHONY: lint-more
lint-more: setup ## warnings in code that other builds compile: fewer features, fuzz targets
	cargo clippy --quiet --package rampmeter-cli --no-default-features --all-targets -- -D warnings
	cargo clippy --quiet --package rampmeter-control --no-default-features -- -D warnings
	cd fuzz && cargo clippy --quiet --no-default-features -- -D warnings

.PHONY: test-rust
test-rust: setup ## Rust alone
	@test -n "$(KERNEL)" || echo 'SKIPPED: tests of rampmeter kernel, which needs libelf-dev'
	cargo test --quiet $(WORKSPACE) --exclude my-controller --exclude my-router

.PHONY: test-example
test-example: build ## a controller and a router of other crates, in every world that runs here; C programs through a CM daemon
	cargo test --quiet $(WORKSPACE) --test worlds -- --nocapture
	scripts/test-cm

.PHONY: test-python
test-python: python ## Python alone
	RAMPMETER=$(RAMPMETER) $(PYTHON) -m pytest -n 2 -m "not alone"
	RAMPMETER=$(RAMPMETER) $(PYTHON) -m pytest -m alone

.PHONY: claims
claims: build ## every claim of the papers against our own runs
	$(RAMPMETER) claims

.PHONY: claims-record
claims-record: build ## every claim without a current result, from all seeds, into studies/*/measured.json: hours
	$(RAMPMETER) claims --record

# The complete runs of one paper take seconds, and show whether a change changed recorded results.
.PHONY: claims-quick
claims-quick: build
	$(RAMPMETER) claims --quick --strict
	$(RAMPMETER) claims cm --world simulated --strict

# Claims that would be quick, but for points of ten seconds and more each.
.PHONY: claims-long
claims-long: build
	$(RAMPMETER) claims vcp 7.vcp 7.vcp-utilization 7.vcp-queue 7.drops 10 friendly weights --seeds 1 --strict
	$(RAMPMETER) claims stable range.adaptive --seeds 1 --strict
	$(RAMPMETER) claims vcp 7.xcp 9.utilization 11.recovery plus.5 plus.6 plus.7.fair plus.11.recovery --seeds 1
	$(RAMPMETER) claims stable real.response-soon real.utilization-red real.queue real.drops --seeds 1

.PHONY: fuzz
fuzz: setup ## untrusted bytes and users' texts, FUZZ_SECONDS=20 a target; needs nightly Rust and cargo-fuzz
	scripts/fuzz

.PHONY: fuzz-replay
fuzz-replay: setup ## the inputs in fuzz/corpus, once, with the stable compiler; needs g++
	scripts/fuzz --replay

.PHONY: bench
bench: python ## speed and memory compared with ns-3 and ns-2
	scripts/setup peers
	$(PYTHON) scripts/bench.py $(RAMPMETER)

.PHONY: bench-wire
bench-wire: build venv ## speed of file transfers on this machine, beside s2n-quic, quinn, noq, quic-go, TCP: WIRE=--help
	scripts/setup wire
	$(PYTHON) scripts/bench_wire.py $(RAMPMETER) $(WIRE)

.PHONY: bench-paths
bench-paths: build venv ## file transfers over emulated paths, beside TCP, quic-go and Hysteria 2; needs root: PATHS=--help
	scripts/setup wire
	$(PYTHON) scripts/bench_paths.py $(RAMPMETER) $(PATHS)

.PHONY: bench-kernel
bench-kernel: build venv ## controllers under the kernel's TCP beside its own, real packets; needs root: KERNEL_BENCH=--help
	$(PYTHON) scripts/bench_kernel.py $(RAMPMETER) $(KERNEL_BENCH)

.PHONY: bench-tunnel
bench-tunnel: build venv ## curl, Chromium, git, rsync, iperf3 in the tunnel and in direct TCP; needs root: TUNNEL=--help
	scripts/setup tunnel
	$(PYTHON) scripts/bench_tunnel.py $(RAMPMETER) $(TUNNEL)

.PHONY: bench-cluster
bench-cluster: python ## throughput of sweeps on a Dask cluster of this machine, compared with threads
	$(PYTHON) scripts/bench_cluster.py

.PHONY: checkout
checkout: setup venv ## the command with a QUIC stack from a directory of yours, target/checkout/release/rampmeter: NOQ=DIR QUINN=DIR
	$(PYTHON) scripts/checkout.py $(if $(NOQ),--noq "$(NOQ)") $(if $(QUINN),--quinn "$(QUINN)")

.PHONY: evaluations
evaluations: build venv ## the pages of ten controllers, and what each fails in docs/evaluation.md: EVALUATIONS=--full
	$(PYTHON) scripts/evaluations.py $(RAMPMETER) $(EVALUATIONS)

.PHONY: stacks
stacks: build venv ## every controller of every QUIC stack beside ours: docs/stack-verdicts.md; half an hour, resumes
	$(PYTHON) scripts/stacks.py $(RAMPMETER)

.PHONY: bench-gate
bench-gate: build venv ## false alarms of `evaluate --baseline` in 20 evaluations, and regressions to find: GATE=--help
	$(PYTHON) scripts/bench_gate.py $(RAMPMETER) $(GATE)

.PHONY: soak
soak: build venv ## files and tunnels: 200 clients, 20 minutes, bad paths, kills; every byte compared: SOAK=--help
	$(PYTHON) scripts/soak.py $(RAMPMETER) $(SOAK)

.PHONY: crowd
crowd: build venv ## 200 clients fetch a file of 20 MB at the same time, and all must get it: CROWD=--help
	$(PYTHON) scripts/crowd.py $(RAMPMETER) $(CROWD)

.PHONY: memory
memory: build venv ## a file server's memory for each download: MEMORY=--help
	$(PYTHON) scripts/memory.py $(RAMPMETER) $(MEMORY)

.PHONY: docs
docs: python ## the Rust documentation, without a warning: target/doc; the site of docs/: target/site
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps
	$(PYTHON) scripts/docs.py $(CARGO_TARGET_DIR)

.PHONY: package
package: python ## the crates and the Python wheel that others depend on, packed and used outside this tree
	scripts/package

.PHONY: columns
columns: setup ## the tables of columns in docs/output.md, from their declarations
	UPDATE_DOCS=1 cargo test --quiet --package rampmeter-scenario --test documentation

.PHONY: verification
verification: setup ## the tables in docs/verification.md, from the recorded results
	UPDATE_DOCS=1 cargo test --quiet --package rampmeter-study --test verification

.PHONY: conditions
conditions: setup ## the tables in docs/conditions.md, from the library of conditions and the recorded results
	UPDATE_DOCS=1 cargo test --quiet --package rampmeter-study --test conditions

.PHONY: workloads
workloads: build venv ## the tables of results in docs/workloads.md, from runs of studies/workloads: some minutes
	$(PYTHON) scripts/workloads.py $(RAMPMETER)

# A minute. The rows of docs/workloads.md must be those of today.
.PHONY: workloads-check
workloads-check: build venv
	$(PYTHON) scripts/workloads.py $(RAMPMETER) --check

.PHONY: python
python: build venv ## the Python package, in .venv: what is in python/, and the extension that `build` made
	cp --remove-destination "$(BUILT)/lib_engine.so" python/rampmeter/_engine.abi3.so
	@site=$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && echo "$(CURDIR)/python" >"$$site/rampmeter.pth"

.PHONY: venv
venv: .venv/requirements.txt

.venv/requirements.txt: requirements.txt | setup
	[ -x $(PYTHON) ] || python3 -m venv .venv
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --requirement requirements.txt
	cp requirements.txt $@

.PHONY: setup
setup:
	@scripts/setup

.PHONY: clean
clean: ## removes all that was made here
	rm -rf .venv runs target python/rampmeter/*.so
	find . -name __pycache__ -prune -exec rm -rf {} +
