# A thin layer over CMake presets. `make help` lists the commands.
.DEFAULT_GOAL := build
.PHONY: demo run build bindings check test test-all bench lint fmt fuzz torture mutants coverage install uninstall package clean help

DATA ?= ./tarry-data
PREFIX ?= /usr/local
CMAKE_BUILD = cmake --build

demo: build ## run a demo: a server, a hundred orders, ten of them cancelled; TARGET=http: deliver with callbacks; STORE=redis, postgres or mysql: use a temporary Redis, PostgreSQL or MariaDB
	@scripts/setup $(if $(filter redis postgres mysql,$(STORE)),demo_$(STORE),demo)
	@STORE="$(STORE)" TARGET="$(TARGET)" scripts/demo

run: build ## run a server in the foreground, with its jobs in DATA=./tarry-data
	@exec build/tarry serve --data "$(DATA)" $(FLAGS)

build: ## build the optimised program: build/tarry
	@scripts/setup build
	@test -f build/build.ninja || cmake --preset release -G Ninja >/dev/null
	@$(CMAKE_BUILD) build --target tarry

bindings: ## build libtarry for Python and Java, a wheel and a jar in build-bindings; LANGUAGE=python: only one
	@scripts/setup bindings
	@scripts/bindings $(LANGUAGE)

check: ## run quick tests without sanitizers in a minute; ROOM=queue: unit tests of a room; TEST=waiter: tests with this in their name
	@scripts/setup build check lint
	@scripts/check $(if $(ROOM),ROOM=$(ROOM)) $(if $(TEST),TEST=$(TEST))

test: ## run the usual tests under sanitizers in ten minutes; GROUP=redis: only one group, also of test-all
	@scripts/setup $(if $(GROUP),lint,build lint test)
	$(if $(GROUP),@scripts/setup $$(scripts/test --sets $(GROUP)))
	@scripts/test $(GROUP)

test-all: ## run every test in half an hour: brokers, MariaDB, browsers, packages, clients, bindings
	@scripts/setup lint
	@scripts/setup $$(scripts/test --sets all)
	@scripts/test all

bench: ## measure throughput and lateness on this machine
	@scripts/setup bench
	@bench/run $(FLAGS)

lint: ## check formatting, plain English, direction of includes and syntax of scripts
	@scripts/setup lint
	@scripts/lint

fmt: ## format the C sources in place
	@scripts/setup lint
	@find include src tests bench bindings -name '*.[ch]' | xargs clang-format-14 -i

fuzz: ## run libFuzzer on every parser, FUZZ_SECONDS=60 each
	@scripts/setup build fuzz
	@scripts/fuzz

torture: build ## kill the server repeatedly, with an independent check of the results
	@scripts/setup test_all
	@scripts/torture

mutants: ## insert deliberate faults that the tests must find; NAMES="one two": only these
	@scripts/setup build test_all
	@scripts/mutants $(NAMES)

coverage: ## measure which lines and branches of store, engine and wheel the tests reach
	@scripts/setup build test coverage
	@scripts/coverage

install: ## install the built program to PREFIX=/usr/local, below DESTDIR if given; builds nothing
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" SYSCONFDIR="$(SYSCONFDIR)" scripts/install

uninstall: ## remove the files of `make install`; keeps jobs and a changed configuration
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" SYSCONFDIR="$(SYSCONFDIR)" scripts/install --uninstall

package: ## build Debian packages (server, library) and a tar archive in build-package/; RELEASE=1 is the release number of the package; ARCH=arm64: for that processor, in build-package-arm64/
	@scripts/setup build package $(if $(filter arm64,$(ARCH)),arm64)
	@RELEASE="$(RELEASE)" ARCH="$(ARCH)" scripts/package

clean: ## remove all build directories
	@rm -rf build build-asan build-tsan build-dev build-fuzz build-package build-package-arm64 build-arm64 build-sysroot build-bench build-mutants build-coverage build-slim build-test build-openapi build-otlp build-axe build-bindings build-generated

help: ## print this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "  make %-10s %s\n", $$1, $$2 }'
