# Thin over CMake presets: `make help` lists what there is.
.DEFAULT_GOAL := build
.PHONY: demo run build bindings check test test-all bench lint fmt fuzz torture mutants coverage install uninstall package clean help

DATA ?= ./tarry-data
PREFIX ?= /usr/local
CMAKE_BUILD = cmake --build

demo: build ## see it work: a server, a hundred orders, ten of them cancelled; TARGET=http: delivered by callbacks; STORE=redis, STORE=postgres, STORE=mysql: on a Redis, PostgreSQL or MariaDB of its own
	@scripts/setup $(if $(filter redis postgres mysql,$(STORE)),demo_$(STORE),demo)
	@STORE="$(STORE)" TARGET="$(TARGET)" scripts/demo

run: build ## a server in the foreground, jobs in DATA=./tarry-data
	@build/tarry serve --data "$(DATA)" $(FLAGS)

build: ## the program, optimised: build/tarry
	@scripts/setup build
	@test -f build/build.ninja || cmake --preset release -G Ninja >/dev/null
	@$(CMAKE_BUILD) build --target tarry

bindings: ## libtarry for Python and Java, a wheel and a jar in build-bindings; LANGUAGE=python: one of them
	@scripts/setup bindings
	@scripts/bindings $(LANGUAGE)

check: ## quick, a minute, no sanitizers; ROOM=queue: the unit tests of a room; TEST=waiter: those with that in their name
	@scripts/setup build check lint
	@scripts/check $(if $(ROOM),ROOM=$(ROOM)) $(if $(TEST),TEST=$(TEST))

test: ## the tests of every day, under sanitizers, ten minutes; GROUP=redis: one group, of test-all too
	@scripts/setup $(if $(GROUP),lint,build lint test)
	$(if $(GROUP),@scripts/setup $$(scripts/test --sets $(GROUP)))
	@scripts/test $(GROUP)

test-all: ## every test: brokers, MariaDB, browsers, packages, clients, bindings; half an hour
	@scripts/setup lint
	@scripts/setup $$(scripts/test --sets all)
	@scripts/test all

bench: ## throughput and lateness on this machine
	@scripts/setup bench
	@bench/run $(FLAGS)

lint: ## formatting, direction of includes, syntax of scripts
	@scripts/setup lint
	@scripts/lint

fmt: ## formats the C sources in place
	@scripts/setup lint
	@find include src tests bench bindings -name '*.[ch]' | xargs clang-format-14 -i

fuzz: ## libFuzzer on every parser, FUZZ_SECONDS=60 each
	@scripts/setup build fuzz
	@scripts/fuzz

torture: build ## kill -9 over and over, and an independent judge
	@scripts/setup test_all
	@scripts/torture

mutants: ## deliberate faults, each of which a test must notice; NAMES="one two": only these
	@scripts/setup build test_all
	@scripts/mutants $(NAMES)

coverage: ## lines and branches of store, engine and wheel that their tests reach
	@scripts/setup build test coverage
	@scripts/coverage

install: ## what `make` built, to PREFIX=/usr/local, under DESTDIR where given; builds nothing
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" SYSCONFDIR="$(SYSCONFDIR)" scripts/install

uninstall: ## takes away what `make install` put there; keeps jobs, and a changed configuration
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" SYSCONFDIR="$(SYSCONFDIR)" scripts/install --uninstall

package: ## Debian packages (server, library) and a tar archive in build-package/; RELEASE=1 is the package's own number
	@scripts/setup build package
	@RELEASE="$(RELEASE)" scripts/package

clean: ## removes what was built
	@rm -rf build build-asan build-tsan build-dev build-fuzz build-package build-bench build-mutants build-coverage build-slim build-test build-openapi build-otlp build-axe build-bindings

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "  make %-10s %s\n", $$1, $$2 }'
