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

.PHONY: packages build run test test-sanitized test-crash bench bench-stream soak fuzz flood format lint clean help

help:
	@echo "make run | test | build | bench | bench-stream | soak ROUNDS=1000 | fuzz SECONDS=60 | flood | format | lint | clean"

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
	@if curl -s -o /dev/null http://$(ADDRESS)/healthz; then echo "something already listens on $(ADDRESS)"; exit 1; fi; \
	mkdir -p "$(CURDIR)/run"; \
	XDG_CONFIG_HOME="$(CURDIR)/run/config" build/release/sessiond serve --state-dir "$(STATE_DIR)" & pid=$$!; \
	trap "kill $$pid 2>/dev/null" INT TERM EXIT; \
	until curl -sf -o /dev/null http://$(ADDRESS)/readyz; do kill -0 $$pid 2>/dev/null || exit 1; sleep 0.1; done; \
	token="\$$(cat '$(CURDIR)/run/config/sessiond/admin.token')"; \
	printf '\n  Dashboard   http://%s/\n\n  Post a message:\n\n    %s\n\n  Follow every event:\n\n    %s\n\n' "$(ADDRESS)" \
	  "curl -sS http://$(ADDRESS)/v1/inbound -H \"Authorization: Bearer $$token\" --json '{\"channel\":\"slack\",\"chatType\":\"direct\",\"peer\":\"u1\",\"text\":\"hello\"}'" \
	  "curl -sSN http://$(ADDRESS)/v1/events -H \"Authorization: Bearer $$token\""; \
	wait $$pid

# --- tests ---
# Unit and api tests under address+undefined sanitizers, api tests of the release binary and under the thread sanitizer, real clients of the
# event stream (Chromium; npm's), and a slice of what takes minutes (`make soak`, `make fuzz`).

test: build/.test-packages build/release/build.ninja build/asan/build.ninja build/tsan/build.ninja
	@ninja -C build/release -j $(JOBS) --quiet sessiond sessiond_bench crash_shim
	@ninja -C build/asan -j $(JOBS) --quiet
	@ninja -C build/tsan -j $(JOBS) --quiet sessiond
	@SESSIOND_TEST_SLOW=6 $(MAKE) --no-print-directory -j3 --output-sync=target test-units test-sanitized test-release

# Three at a time: what runs the processor, and what mostly waits for the disk and for daemons to start.
test-units:
	@ctest --test-dir build/asan --output-on-failure -j $(JOBS) --no-tests=error
	@python3 tests/edge/run.py --binary build/asan/sessiond
	@python3 tests/crash/points.py --binary build/asan/sessiond --without build/release/sessiond -j $(JOBS)
	@python3 tests/browser/run.py --binary build/release/sessiond

test-sanitized:
	@python3 tests/api/run.py --binary build/asan/sessiond -j $(JOBS)
	@SESSIOND_TEST_THREADS=3 python3 tests/api/run.py --binary build/tsan/sessiond -j $(JOBS)

test-release:
	@python3 tests/api/run.py --binary build/release/sessiond -j $(JOBS)
	@python3 tests/edge/flood.py --binary build/release/sessiond --slice --connections 500
	@python3 tests/crash/kill9.py --binary build/release/sessiond --rounds 100 --writers 32 --load 0.1
	@python3 tests/crash/faults.py --binary build/release/sessiond --every 83
	@python3 tests/crash/powercut.py --binary build/release/sessiond --rounds 40
	@python3 tests/crash/full_disk.py --binary build/release/sessiond --mib 24
	@python3 tests/crash/two_writers.py --binary build/release/sessiond --updates 60

soak: build
	@ninja -C build/release -j $(JOBS) --quiet crash_shim
	@python3 tests/crash/kill9.py --binary build/release/sessiond --rounds $(ROUNDS)
	@python3 tests/crash/powercut.py --binary build/release/sessiond --rounds $(ROUNDS)
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

bench-stream: build
	@ninja -C build/release -j $(JOBS) --quiet sessiond_stream_bench
	@python3 tests/bench/stream.py

# --- tidiness ---

SOURCES = $(shell git ls-files --cached --others --exclude-standard '*.cpp' '*.hpp')

format: packages
	@clang-format-19 -i $(SOURCES)

lint: build/debug/build.ninja
	@clang-format-19 --dry-run --Werror $(SOURCES)
	@run-clang-tidy-19 -quiet -p build/debug -j $(JOBS) '$(CURDIR)/(config|store|transcripts|policy|daemon)/.*\.cpp$$'

clean:
	@rm -rf build
