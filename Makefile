# The two commands: `make run` and `make test`. Everything else is a thin face of CMake and the test runners.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
.DEFAULT_GOAL := build

JOBS      ?= $(shell nproc)
ADDRESS   ?= 127.0.0.1:7433
STATE_DIR ?= $(CURDIR)/run/state
ROUNDS    ?= 1000
SECONDS_  := $(if $(SECONDS),$(SECONDS),60)
SUDO      := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: packages build run web test tsan retest bench bench-stream cost soak fuzz flood format lint clean help

help:
	@echo "make run | web | test | tsan | retest | build | bench | bench-stream | cost | soak ROUNDS=1000 | fuzz SECONDS=60 | flood | format | lint | clean"

# --- Debian packages: what is missing of config/debian-packages.txt; a program of that name is as good (NodeSource's nodejs brings an npm, and
# refuses Debian's) ---

packages: build/.packages
build/.test-packages: | build/.packages
build/.packages build/.test-packages: config/debian-packages.txt
	@mkdir -p build; \
	missing=$$(for p in $$(sed $(if $(findstring test,$@),,-e '/^# only for make test/,$$d') -e 's/#.*//' $<); do \
	  [ "$$(dpkg-query -W -f='$${db:Status-Status}' $$p 2>/dev/null)" = installed ] || command -v $$p >/dev/null || echo $$p; done); \
	if [ -n "$$missing" ]; then \
	  echo "installing" $$missing; \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive sh -c "apt-get update -qq && apt-get install -y -qq --no-install-recommends $$(echo $$missing)"; \
	fi; \
	touch $@

# --- builds: build/<preset>; configured once, ninja does the rest ---

build/%/build.ninja: CMakePresets.json | packages
	@cmake --preset $* >/dev/null

build: build/release/build.ninja
	@ninja -C build/release -j $(JOBS) --quiet sessiond

# --- run ---

run: build
	@if curl -s -m 2 -o /dev/null http://$(ADDRESS)/healthz; then echo "something already listens on $(ADDRESS)"; exit 1; fi; \
	mkdir -p "$(CURDIR)/run"; \
	XDG_CONFIG_HOME="$(CURDIR)/run/config" build/release/sessiond serve --state-dir "$(STATE_DIR)" --listen "$(ADDRESS)" & pid=$$!; \
	trap "kill $$pid 2>/dev/null; wait $$pid" INT TERM EXIT; \
	until curl -sf -m 2 -o /dev/null http://$(ADDRESS)/readyz; do \
	  kill -0 $$pid 2>/dev/null || { echo "sessiond ended before it was ready on $(ADDRESS): see above"; exit 1; }; sleep 0.1; done; \
	printf '\n  Dashboard   http://%s/\n\n  In another terminal, first:\n\n' "$(ADDRESS)"; \
	printf '    %s\n' "export SESSIOND_STATE_DIR='$(STATE_DIR)'" 'export PATH="$(CURDIR)/build/release:$$PATH"' \
	  "export TOKEN=\$$(cat '$(CURDIR)/run/config/sessiond/admin.token')"; \
	printf '\n  Post a message:\n\n    %s\n\n  Follow every event:\n\n    %s\n\n' \
	  "curl -sS http://$(ADDRESS)/v1/inbound -H \"Authorization: Bearer \$$TOKEN\" --json '{\"channel\":\"slack\",\"chatType\":\"direct\",\"peer\":\"u1\",\"text\":\"hello\"}'" \
	  "curl -sSN http://$(ADDRESS)/v1/events -H \"Authorization: Bearer \$$TOKEN\""; \
	wait $$pid

# Shows web/src as it is edited, with the daemon that `make run` started; web/README.md.
web: | packages
	@web/install.sh; cd web && node dev.mjs --daemon http://$(ADDRESS)

# --- tests ---
# Unit and api tests under address+undefined sanitizers, without those that ask every route for every token or wait for Node; on more than two
# cores (or by `make tsan`) the api tests in which threads meet under the thread sanitizer; those of the release binary that depend on how it
# is built, and a mixture; requests held to their budget of instructions; real clients of the event stream (Chromium; npm's); random transcripts
# as four providers and OpenClaw take them; and a slice of what takes minutes.
# `make soak` runs the rest: all api tests of all three binaries, and the slices whole. A suite that has passed runs again when a file of
# the tree has changed since; `make retest` runs all of them. A build runs while suites of the build before it wait for disks and daemons.

test: build/.test-packages build/release/build.ninja build/asan/build.ninja build/tsan/build.ninja build/debug/build.ninja
	@python3 tests/faults.py
	@python3 tests/seeds/inventory.py
	@python3 tests/includes.py
	@python3 tests/documents.py
	@ninja -C build/debug -j $(JOBS) --quiet sessiond_precompiled_asio
	@python3 tests/lint.py --quick -j $(JOBS)
	@ninja -C build/asan -j $(JOBS) --quiet sessiond
	@SESSIOND_TEST_SLOW=6 $(MAKE) --no-print-directory -j4 --output-sync=target $(SUITES:%=build/passed/%)

tsan: build/.test-packages build/tsan/build.ninja
	@SESSIOND_TEST_SLOW=6 $(MAKE) --no-print-directory build/passed/api-tsan

retest:
	@rm -rf build/passed
	@$(MAKE) --no-print-directory test

# The longest first, four at a time: what runs the processor, and what mostly waits for the disk and for daemons to start.
SUITES := api-asan unit-asan points kill9 loop api-release views browser two-writers edge cost faults powercut earlier-boot flood damage hostile \
  full-disk seeds
# On two cores the thread sanitizer's build and tests would take a quarter of the whole time: `make tsan` runs them.
ifeq ($(shell [ $(JOBS) -gt 2 ] && echo more),more)
SUITES += api-tsan
endif
MEET    = backup clock day_of_a_bridge degraded durable earlier_boot events files foreign foreign_agents foreign_moments health idempotency inbound \
  journal_damage.BeforeCheckpoint journal_damage.Left journal_damage.UnderTheDaemon limits locks messages neighbours \
  reload scope stream_crowd streams tickets tls token_life transcripts
BUILT   = examples matrix newcomers scope hardening openapi readme spawn systemd tls day_of_a_bridge backup clock durable events foreign inbound messages sessions streams trees
BRIDGES = $(patsubst %,-k '*bridge_examples*%*',short answered_once same_id later)
api     = python3 tests/api/run.py -j $$((3 * $(JOBS))) --binary build/$(1)/sessiond $(patsubst %,-k test_%.,$(2))
crash   = python3 tests/crash/$(1).py --binary build/release/sessiond
build/passed/api-asan:    RUN = $(call api,asan) -x examples -x test_matrix -x newcomers -x test_scope
build/passed/api-tsan:    RUN = SESSIOND_TEST_THREADS=3 $(call api,tsan,$(MEET))
build/passed/api-release: RUN = $(call api,release,$(BUILT)) $(BRIDGES)
build/passed/unit-asan:   RUN = ctest --test-dir build/asan --output-on-failure -j $(JOBS) --no-tests=error
build/passed/browser:     RUN = python3 tests/browser/run.py --binary build/release/sessiond
build/passed/views:       RUN = python3 tests/views/run.py --binary build/release/sessiond -j 2
build/passed/seeds:       RUN = python3 tests/seeds/run.py --binary build/release/sessiond
build/passed/edge:        RUN = python3 tests/edge/run.py --binary build/asan/sessiond
build/passed/cost:        RUN = python3 tests/bench/cost.py
build/passed/flood:       RUN = python3 tests/edge/flood.py --binary build/release/sessiond --slice --connections 500
build/passed/hostile:     RUN = python3 tests/edge/hostile.py --binary build/release/sessiond --slice
build/passed/points:      RUN = python3 tests/crash/points.py --binary build/asan/sessiond --without build/release/sessiond -j $(JOBS)
build/passed/kill9:       RUN = $(call crash,kill9) --rounds 30 --writers 32 --load 0.1
build/passed/loop:        RUN = $(call crash,loop) --messages 200 --conversations 16 --kills 12 --runners 4 --bridges 2
build/passed/faults:      RUN = $(call crash,faults) --every 83
build/passed/powercut:    RUN = $(call crash,powercut) --rounds 30
build/passed/full-disk:   RUN = $(call crash,full_disk) --mib 24
build/passed/earlier-boot: RUN = $(call crash,kill9) --rounds 15 --writers 16 --load 0.1 --earlier-boot; \
  $(call crash,powercut) --rounds 12 --earlier-boot; $(call crash,two_writers) --updates 30 -k turns --earlier-boot
build/passed/damage:      RUN = $(call crash,damage) -j $(JOBS)
build/passed/two-writers: RUN = $(call crash,two_writers) --updates 60
TREE    = $(wildcard $(shell git ls-files --cached --others --exclude-standard))

# Suites of the asan daemon need nothing more; these wait for a build, one at a time.
$(addprefix build/passed/,kill9 loop api-release seeds views browser two-writers cost faults powercut earlier-boot flood damage hostile full-disk points): build/.made-release
build/passed/api-tsan: build/.made-tsan
build/passed/unit-asan: build/.made-asan
build/.made-release: TARGETS = sessiond crash_shim
build/.made-tsan:    TARGETS = sessiond
build/.made-%: $(TREE)
	@flock build ninja -C build/$* -j $(JOBS) --quiet $(TARGETS); touch $@

build/passed/%: $(TREE)
	@echo "$*: $(RUN)"; TIMEFORMAT='$*: took %0R s, %0U s of processor and %0S s of system'; time { $(RUN); }; mkdir -p $(@D); touch $@; echo "$*: passed"

soak: build build/tsan/build.ninja build/asan/build.ninja
	@ninja -C build/release -j $(JOBS) --quiet crash_shim
	@ninja -C build/tsan -j $(JOBS) --quiet sessiond
	@SESSIOND_TEST_SLOW=6 $(call api,release)
	@SESSIOND_TEST_SLOW=6 SESSIOND_TEST_THREADS=3 $(call api,tsan)
	@ninja -C build/asan -j $(JOBS) --quiet unit_daemon_decide
	@SESSIOND_TEST_LIVES=25 build/asan/tests/unit_daemon_decide
	@python3 tests/crash/kill9.py --binary build/release/sessiond --rounds $(ROUNDS)
	@python3 tests/crash/loop.py --binary build/release/sessiond
	@python3 tests/crash/powercut.py --binary build/release/sessiond --rounds $(ROUNDS)
	@python3 tests/crash/kill9.py --binary build/release/sessiond --rounds $(ROUNDS) --earlier-boot
	@python3 tests/crash/powercut.py --binary build/release/sessiond --rounds $(ROUNDS) --earlier-boot
	@python3 tests/crash/faults.py --binary build/release/sessiond
	@python3 tests/crash/full_disk.py --binary build/release/sessiond
	@python3 tests/crash/two_writers.py --binary build/release/sessiond --updates 10000
	@python3 tests/crash/two_writers.py --binary build/release/sessiond -k "daemon is stopped" --stale-ms 30000 --stop-seconds 10 --stops 1

fuzz: build/fuzz/build.ninja
	@ninja -C build/fuzz -j $(JOBS) --quiet $(patsubst tests/fuzz/%.cpp,fuzz_%,$(wildcard tests/fuzz/*.cpp))
	@python3 tests/edge/run.py --seeds build/corpus/fuzz_connection
	@mkdir -p build/corpus; for f in build/fuzz/fuzz_*; do \
	  corpus=build/corpus/$${f##*/}; mkdir -p $$corpus; echo "$$f for $(SECONDS_) s"; \
	  $$f -max_total_time=$(SECONDS_) -verbosity=0 -artifact_prefix=$$corpus- $$corpus; done

# Ten thousand half-open and slow connections: what a good client among them notices.
flood: build
	@python3 tests/edge/flood.py --binary build/release/sessiond --check

bench: build
	@ninja -C build/release -j $(JOBS) --quiet sessiond_bench
	@python3 tests/bench/run.py
	@python3 tests/bench/scale.py
	@python3 tests/bench/growth.py

bench-stream: build
	@ninja -C build/release -j $(JOBS) --quiet sessiond_stream_bench
	@python3 tests/bench/stream.py

# Instructions an operation, held against tests/bench/budget.json.
cost: build build/.test-packages
	@python3 tests/bench/cost.py

# --- tidiness ---

SOURCES = $(shell git ls-files --cached --others --exclude-standard '*.cpp' '*.hpp')

format: packages
	@clang-format-19 -i $(SOURCES)

lint: build/debug/build.ninja
	@ninja -C build/debug -j $(JOBS) --quiet sessiond_precompiled sessiond_precompiled_asio
	@python3 tests/lint.py -j $(JOBS)

clean:
	@rm -rf build
