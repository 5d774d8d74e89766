# Each target sets up what it needs (tools/setup); a second run takes seconds.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
BIN := $(CURDIR)/.venv/bin
export PATH := $(BIN):$(PATH)

# Address space randomisation of newer kernels is more than TSan's runtime can take.
NO_ASLR := $(shell setarch -R true 2>/dev/null && echo setarch -R)

.PHONY: help
help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

.PHONY: setup
setup: ## install what is missing: Debian packages, .venv, headrace in it
	@tools/setup

.PHONY: quickstart
quickstart: setup ## real photographs through a pipeline; writes build/quickstart.png
	@tools/fetch_photos
	@python examples/quickstart.py .cache/photos

.PHONY: test
test: setup ## the C tests and the Python tests
	@tools/build release
	@status=0
	meson test -C build/release --no-rebuild --print-errorlogs || status=1
	python -m pytest -q || status=1
	exit $$status

.PHONY: sheet
sheet: setup ## a scene in every format, by every option: look at build/sheet.png
	@python tests/python/image_sheet.py build/sheet.png

.PHONY: plain
plain: setup ## the C tests of pictures, built without the optional libraries
	@tools/build plain
	@meson test -C build/plain --no-rebuild --print-errorlogs studio_test jpeg_test \
		png_test load_test load_batch_test canvas_test image_op_test

.PHONY: lint
lint: setup ## formatters, analyzers, type checkers, the arrows between folders
	@tools/lint

.PHONY: format
format: setup ## format C and Python files in place
	@clang-format -i $$(git ls-files "*.[ch]")
	@ruff check --quiet --fix-only . && ruff format --quiet .

.PHONY: asan
asan: setup ## the C tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/build asan
	@meson test -C build/asan --no-rebuild --print-errorlogs \
		--timeout-multiplier 3

.PHONY: tsan
tsan: setup ## the C tests under ThreadSanitizer
	@tools/build tsan
	@$(NO_ASLR) meson test -C build/tsan --no-rebuild --print-errorlogs \
		--timeout-multiplier 3

.PHONY: asan-python
asan-python: ## the Python tests, with the extension under the same sanitizers
	@tools/test_sanitized asan

.PHONY: tsan-python
tsan-python: ## pipelines on free-threaded CPython, all under ThreadSanitizer
	@tools/test_sanitized tsan

.PHONY: planted
planted: setup ## plant a fault in the extension for each of them, see it reported
	@tests/python/planted.py

.PHONY: freethreaded
freethreaded: ## the Python tests on CPython 3.13 without the GIL; builds it once
	@tools/test_freethreaded

.PHONY: sim
sim: SEEDS ?= 20000
sim: setup ## the scheduler through SEEDS=20000 random pipelines and schedules
	@tools/build release
	@build/release/tests/sim/sim --seeds $(SEEDS)

.PHONY: fuzz
fuzz: SECONDS_EACH ?= 60
fuzz: setup ## look for inputs that break a decoder, SECONDS_EACH=60 for each format
	@tools/fuzz $(SECONDS_EACH)

.PHONY: model
model: setup ## every schedule of small plans; the hand-off to consumers in spin
	@. tools/debian.sh && debian_packages spin
	@tools/build release
	@tests/model/check_model.py build/release/tests/model/explore

.PHONY: mutants
mutants: setup ## break the scheduler in forty ways; tests must notice each
	@tests/sim/mutants.py

.PHONY: bench
bench: setup ## headrace and its peers side by side; takes some ten minutes
	@bench/run

.PHONY: clean
clean: ## remove build/; .venv and .cache stay
	@rm -rf build
