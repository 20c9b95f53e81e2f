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

.PHONY: packages build run web test check landable tsan soak fuzz flood bench bench-stream cost format lint clean help

help:
	@echo "make run | web | test | check | landable | tsan | soak ROUNDS=1000 | fuzz SECONDS=60 | flood | build | bench | bench-stream | cost | format | lint | clean"

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

# --- tests: tests/README.md says what runs where ---

# Every suite to its end, then one table.
test: build/.test-packages
	@python3 tests/run.py -j $(JOBS)

# Minutes: the build, the format, the unit tests, and the API tests of what changed since the last landable tree.
check: build/.test-packages
	@python3 tests/run.py --check -j $(JOBS)

# .ci/run on a clean clone of HEAD; when it passes, build/landable holds the id of the tree.
landable:
	@python3 tests/landable.py

# Tests in which threads meet, under the thread sanitizer.
tsan: build/.test-packages
	@python3 tests/run.py api-tsan -j $(JOBS)

# Hours: all API tests in the other builds, and what `make test` runs a slice of.
soak: build/.test-packages
	@python3 tests/run.py --soak --rounds $(ROUNDS) -j $(JOBS)

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

# Instructions an operation, held against tests/bench/budget.json: at most 5 % more.
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
