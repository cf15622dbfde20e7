# The few words to know: `make up` shows it running, `make test` proves it. Everything is built under build/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
JOBS ?= $(shell nproc)

# Measured data sets are optional; tests that need them are skipped without.
ifndef WATTLE_DATA
  ifneq ($(wildcard ../shared/data/.),)
    export WATTLE_DATA := $(abspath ../shared/data)
  endif
endif

.PHONY: deps build install deb up test test-asan test-tsan test-engines test-deploy bench format clean

# Debian packages: what tests and benchmarks need, too.
deps:
	@tools/install.sh

build:
	@tools/install.sh --build
	cmake --preset release -DWATTLE_BUILD_TESTS=OFF -DWATTLE_BUILD_BENCHES=OFF -DWATTLE_TORCH=OFF
	cmake --build build/release -j $(JOBS)

# Anywhere: binary, specs, recipes, the fake NVML, manual pages, completion and systemd units. DESTDIR= is honoured.
PREFIX ?= /usr/local
install: build
	cmake --install build/release --prefix $(PREFIX)
deb: build
	cd build/release && cpack -G DEB

# How long `make up` runs; FOR= (nothing) runs the whole trace, until Ctrl-C.
FOR ?= 60s
up: build
	build/release/wattle up $(if $(FOR),--for $(FOR))

# Every test, then the tests that threads or hostile bytes could break once more under the sanitizers.
test: deps
	@tools/test.sh release asan tsan

# The whole suite under one sanitizer; much slower to build.
test-asan: deps
	@tools/test.sh --all asan
test-tsan: deps
	@tools/test.sh --all tsan

# Real engines, from the package registries, behind the gateway: llama.cpp within seconds, vLLM within minutes and 6 GB of disk.
test-engines: deps
	cmake --preset release -DWATTLE_BUILD_TESTS=ON -DWATTLE_ENGINES=ON
	cmake --build build/release -j $(JOBS) --target wattle fake_nvml
	ctest --test-dir build/release -L engines --verbose --no-tests=error; status=$$?; \
	  cmake --preset release -DWATTLE_ENGINES=OFF > /dev/null; exit $$status  # or the next `make test` would run them, too

# The image, its containers and the pods, with a Docker and a cluster of the test's own: a quarter of an hour and 5 GB of disk, most of it once.
test-deploy: deps
	@tools/install.sh mmdebstrap iproute2 iptables
	PYTHONPATH=tests/agent_e2e python3 -B tests/deploy/image.py --root .
	PYTHONPATH=tests/agent_e2e python3 -B tests/deploy/cluster.py --root .

bench: deps
	cmake --preset release -DWATTLE_BUILD_TESTS=OFF -DWATTLE_BUILD_BENCHES=ON
	cmake --build build/release -j $(JOBS)
	python3 tools/bench.py --build build/release --out build/bench.json

format:
	git ls-files -co --exclude-standard '*.h' '*.cc' '*.c' | xargs -r clang-format-14 -i

clean:
	rm -rf build
