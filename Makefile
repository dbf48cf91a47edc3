# The front door: two commands for users, `make run` and `make test`; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.NOTPARALLEL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

JOBS := $(shell nproc)
TYPE ?= q8_0
FUZZ_SECONDS ?= 60
FOREIGN ?= aarch64 arm wasm simde
ifneq ($(filter-out q8_0 q4_0,$(TYPE)),)
$(error TYPE is q8_0 or q4_0, not '$(TYPE)')
endif
# The prompt reaches the recipe unchanged, through the environment: make must not expand a $ in it, and the
# shell must not interpret its quotes. Only a PROMPT of the command line counts, because some shells export
# their own.
ifeq ($(origin PROMPT),command line)
  KRAFLA_PROMPT := $(value PROMPT)
else
  KRAFLA_PROMPT := What is a volcano?
endif
export KRAFLA_PROMPT
unexport PROMPT
MAKEOVERRIDES :=

KRAFLA := build/release/krafla
GGUF := models/cache/SmolLM2-135M-Instruct.Q4_1.gguf
MODEL := models/smollm2-135m-instruct$(if $(filter q4_0,$(TYPE)),-q4_0)
# Folders are included, because their time changes when a file is added or removed.
SOURCES := $(shell find src include cmake CMakeLists.txt CMakePresets.json)
CXX_FILES := find $(wildcard src include tests fuzz) \
  -name '*.cpp' -o -name '*.h' -o -name '*.hpp' -o -name '*.c'
PYTHON := $(shell find tools tests bench -name '*.py')
TIDY := run-clang-tidy-19 -quiet -j $(JOBS) -p build/dev
BLACK := black -q -l 110 -C
# A test that hangs must not block the rest.
CTEST := ctest -j$(JOBS) --output-on-failure --timeout 900
# Tests that need the real model are not among the fast tests.
SLOW := model

.PHONY: build run test check check-all help setup-% build-tests lint analyze format fuzz bench \
  bench-tokenizers clean check-isa check-foreign check-programs check-sanitizers check-model FORCE

build: $(KRAFLA)  ## the program: build/release/krafla

run: $(KRAFLA) $(MODEL).mlb  ## answers PROMPT="..." with SmolLM2-135M, TYPE=q8_0|q4_0; gets and converts it
	@$(KRAFLA) run $(MODEL) --max-tokens 400 --prompt "$$KRAFLA_PROMPT"

# With SETUP=no, no package is installed.
setup-%:
	@$(if $(filter no,$(SETUP)),:,tools/setup.sh $*)

# A stamp file stands for the program: a change that relinks nothing leaves the program's time as it is, and
# make would call ninja every time.
$(KRAFLA): build/release/.built ;
build/release/.built: $(SOURCES) | setup-run
	@[ -f build/release/build.ninja ] || cmake --preset release -DKRAFLA_TESTS=OFF >&2
	@cmake --build build/release --target krafla >&2
	@touch $@

$(GGUF): FORCE | setup-run
	@tools/fetch_model.py

# The program is among the prerequisites, so a changed converter converts again.
$(MODEL).mlb $(MODEL).mlt $(MODEL).json &: $(GGUF) $(KRAFLA)
	@$(KRAFLA) convert $(GGUF) $(MODEL) --type $(TYPE) >&2

test: build-tests  ## the fast tests
	@$(CTEST) --test-dir build/release -LE '$(SLOW)'

build-tests: setup-test
	@tools/venv.sh build/venv tests/requirements.txt || \
	  echo "WARNING: no numpy for the Python tests (is the package index reachable?): they will be SKIPPED" >&2
	@cmake --preset release -DKRAFLA_TESTS=ON >&2
	@cmake --build build/release >&2

check: lint check-isa check-foreign check-sanitizers check-model  ## what CI runs after the fast tests

# The kernels' own tests cover all sets. The tests that use the kernels run with each set forced, all others
# only with scalar; `make test` has run everything with the fastest.
check-isa: build-tests $(KRAFLA)  ## the fast tests with each instruction set forced
	@$(KRAFLA) cpu >&2
	@names="import json, sys; print(*(i['name'] for i in json.load(sys.stdin)['isas'] if i['here'] is"; \
	list() { $(KRAFLA) cpu --json | python3 -c "$$names $$1))"; }; \
	for isa in $$(list False); do echo "WARNING: this CPU has no $$isa: its tests are SKIPPED" >&2; done; \
	here=$$(list True); \
	for isa in $$here; do \
	  only="-L isa"; [ $$isa != scalar ] || only=""; \
	  echo "==== KRAFLA_ISA=$$isa"; \
	  KRAFLA_ISA=$$isa $(CTEST) --test-dir build/release -LE '$(SLOW)|lint' $$only; \
	done

check-foreign: build-tests  ## kernels of other CPUs: AArch64, 32-bit ARM (qemu), WASM (Node), AVX-512 (SIMDe)
	@SETUP=$(SETUP) tests/foreign.sh $(FOREIGN)

check-programs: build-tests  ## the whole program and all C++ tests on AArch64 and 32-bit ARM, in qemu
	@SETUP=$(SETUP) tests/foreign.sh programs

check-sanitizers: setup-sanitize  ## everything under ASan and UBSan, the threaded tests under TSan
	@cmake --preset asan-ubsan >&2 && cmake --build build/asan-ubsan >&2
	@echo "==== ASan and UBSan"; $(CTEST) --test-dir build/asan-ubsan -LE '$(SLOW)|lint'
	@cmake --preset tsan >&2 && cmake --build build/tsan --target threaded_tests >&2
	@echo "==== TSan"; $(CTEST) --test-dir build/tsan -L threads

check-model: build-tests  ## the tests that need the real model
	@tools/fetch_model.py || echo "WARNING: no real model: its tests will be SKIPPED" >&2
	@echo "==== real model"; $(CTEST) --test-dir build/release -L model --no-tests=error

check-all: test check check-programs analyze fuzz bench  ## also the analyzer, fuzzing and other engines

lint: setup-lint  ## format, clang-tidy, include rules, scripts
	@cmake --preset dev >/dev/null
	@$(CXX_FILES) | xargs clang-format-19 --dry-run -Werror
	@$(TIDY) -config-file=.clang-tidy "^$(CURDIR)/src/" >build/dev/tidy.log 2>&1 || \
	  { grep -E -A4 'error:|warning:' build/dev/tidy.log; exit 1; }
	@tools/check_includes.py
	@tools/check_tree.py
	@shellcheck tools/*.sh tests/*.sh .ci/run
	@python3 -W error -c 'import pathlib, sys; \
	  [compile(pathlib.Path(path).read_text(), path, "exec") for path in sys.argv[1:]]' $(PYTHON)
	@pyflakes3 $(PYTHON)
	@$(BLACK) --check $(PYTHON)
	@echo "lint: no complaints"

analyze: setup-lint  ## clang's static analyzer over src/ (slow)
	@cmake --preset dev >/dev/null
	@$(TIDY) -checks='-*,clang-analyzer-*,-clang-analyzer-optin.performance.Padding' "^$(CURDIR)/src/" \
	  >build/dev/analyze.log 2>&1 || \
	  { grep -E -A4 'error:|warning:' build/dev/analyze.log; exit 1; }

format: setup-format  ## formats C++ and Python
	@$(CXX_FILES) | xargs clang-format-19 -i
	@$(BLACK) $(PYTHON)

fuzz: setup-fuzz  ## each fuzz target for FUZZ_SECONDS=60, from its corpus
	@cmake --preset fuzz -DKRAFLA_TESTS=OFF >&2 && cmake --build build/fuzz >&2
	@tools/fuzz.sh build/fuzz/fuzz $(FUZZ_SECONDS)

bench: setup-peers $(KRAFLA) $(GGUF)  ## krafla, llama.cpp and ik_llama.cpp side by side (40 minutes once)
	@tools/venv.sh build/peers/venv bench/requirements.txt
	@build/peers/venv/bin/python bench/peers.py

bench-tokenizers: setup-peers $(KRAFLA)  ## krafla, tokenizers and tiktoken side by side
	@tools/venv.sh build/tokenizers/venv bench/tokenizer_requirements.txt
	@build/tokenizers/venv/bin/python bench/tokenizer_peers.py

clean:  ## removes build/; models/ stays
	@rm -rf build

help:  ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | \
	  while IFS=$$'\t' read -r name text; do printf '  make %-17s %s\n' "$$name" "$$text"; done
