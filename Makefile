# SPDX-License-Identifier: Apache-2.0
# The few words a person types; 'make help' lists them. meson and ninja do the work, in build/.

BUILD  := build
PREFIX ?= /usr/local
MESON  := $(firstword $(wildcard /usr/bin/meson) meson)

# An absolute prefix, also for 'make install PREFIX=out'.
prefix := $(abspath $(PREFIX))

FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 600
ARCH ?= arm64
STATIC ?= native

.PHONY: all setup setup-test setup-dev build demo test check attack landlock lint format fuzz soak bench bench-docs \
    bench-against bench-peers kernels install uninstall cross dist static deb check-deb check-rpm clean help
.NOTPARALLEL:

all: build

help:
	@echo 'make           build the programs and the library into build/; the tests are built when they are run'
	@echo 'make setup     install the Debian packages that are missing (through sudo when not root)'
	@echo 'make demo      set up, build, and show it at work'
	@echo 'make test      set up, build, and run every test'
	@echo 'make check T=NAME   one test: [SUITE/]NAME[/CASE], as in T=integration/run/tty or T=attack/git-hook'
	@echo 'make attack    every known attack on commands, without the sandbox and with it: the table'
	@echo 'make landlock  the same attacks as on kernels with older versions of Landlock, and with none'
	@echo 'make install   install below PREFIX=DIR (default /usr/local); DESTDIR is honoured'
	@echo 'make cross     build for another machine, ARCH=arm64, into build-arm64/, with Debian'\''s cross compiler'
	@echo 'make static    the programs without shared libraries, as a tarball in dist/; STATIC=arm64 for another machine'
	@echo 'make dist      the sources of the last commit as a tarball in dist/, with checksums and what is linked (SPDX)'
	@echo 'make uninstall remove what make install installed, with the same PREFIX and DESTDIR'
	@echo 'make deb       build the Debian packages into build-deb/'
	@echo 'make check-deb build them, and try them in a fresh Debian (as root)'
	@echo 'make check-rpm build the rpm packages, and check them with rpmlint'
	@echo 'make bench     measure beside a baseline of the same run, into build/bench.json too; plots in build-bench/plots'
	@echo 'make bench-docs   put the results of make bench into docs/BENCHMARKS.md, its plots and README.md'
	@echo 'make bench-against OTHER=COMMIT   measure this tree and that one, interleaved in one run'
	@echo 'make bench-peers   the same for srt, codex, firejail, tinyproxy and squid, as far as they can be installed'
	@echo 'make kernels   boot the kernels of Debian packages under qemu and test inside; K="6.1 5.10" chooses, SHORT=1 tries less'
	@echo 'make lint      clang-format, clang-tidy, shellcheck, include directions, symbols'
	@echo 'make format    format the sources with clang-format'
	@echo 'make fuzz      every fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS) each (clang)'
	@echo 'make soak      kill workers, and race them, under load for SOAK_SECONDS=$(SOAK_SECONDS) each'
	@echo 'make clean     remove what was built'

setup:
	@tools/setup build

setup-test:
	@tools/setup build test

setup-dev:
	@tools/setup build test dev

$(BUILD)/build.ninja:
	@tools/setup --check build
	@$(MESON) setup $(BUILD) -Dtests=false -Dfuzz=off >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@mv $(BUILD).log $(BUILD)/meson-setup.log

build: $(BUILD)/build.ninja
	@$(MESON) compile -C $(BUILD)

demo: setup build
	@rm -rf $(BUILD)/stage
	@DESTDIR='$(CURDIR)/$(BUILD)/stage' $(MESON) install -C $(BUILD) --no-rebuild --quiet
	@examples/demo.sh "$(CURDIR)/$(BUILD)/stage$$(tools/build-option $(BUILD) prefix)/bin/koda-sandbox"

test: setup-test
	@tools/in-reachable-tree tools/test $(BUILD)

check: setup-test
	@tools/in-reachable-tree tools/check $(BUILD) '$(T)'

attack: setup
	@tools/in-reachable-tree tests/escape/commands/attack-table $(BUILD)

landlock: setup
	@tools/in-reachable-tree tests/escape/commands/landlock-tables build-landlock

lint: setup-dev
	@tools/with-tests $(BUILD)
	@$(MESON) compile -C $(BUILD)
	@tools/lint $(BUILD)

format:
	@tools/list-files | grep -zE '\.[ch]$$' | xargs -0 clang-format -i

fuzz: setup-dev
	@tools/fuzz build-fuzz $(FUZZ_SECONDS)

soak: setup build
	@KODA_SOAK_SECONDS=$(SOAK_SECONDS) tools/in-reachable-tree \
	    tools/test $(BUILD) --suite soak --timeout-multiplier 0

bench: setup
	@tools/bench build-bench
	@mkdir -p $(BUILD) && cp build-bench/bench.json $(BUILD)/bench.json

bench-docs:
	@tools/bench-docs update build-bench/bench.json $(wildcard build-bench/bench-peers.json)

bench-against: setup
	@tools/bench-against build-bench-against '$(OTHER)'

bench-peers: setup
	@tools/bench-peers build-bench

# The libraries for the other machine are unpacked into a directory of their own.
cross:
	@tools/setup build cross
	@tools/cross/root $(ARCH) build-$(ARCH)-root
	@[ -f build-$(ARCH)/build.ninja ] || $(MESON) setup build-$(ARCH) \
	    --cross-file tools/cross/$(ARCH).ini --cross-file build-$(ARCH)-root/root.ini -Dtests=false -Dfuzz=off
	@$(MESON) compile -C build-$(ARCH)

static:
	@tools/setup build static $(if $(filter-out native,$(STATIC)),cross)
	@tools/make-static $(STATIC) build-static-$(STATIC) dist

dist: setup build
	@tools/make-dist $(BUILD) dist

kernels: setup
	@tools/setup kernels
	@tools/kernels $(if $(SHORT),--short) $(K)

install: $(BUILD)/build.ninja
	@[ "$$(tools/build-option $(BUILD) prefix)" = '$(prefix)' ] || \
	    $(MESON) configure $(BUILD) -Dprefix='$(prefix)'
	@$(MESON) compile -C $(BUILD)
	@$(MESON) install -C $(BUILD) --no-rebuild
	@tools/uninstall --note $(BUILD)

uninstall: $(BUILD)/build.ninja
	@[ "$$(tools/build-option $(BUILD) prefix)" = '$(prefix)' ] || \
	    $(MESON) setup --reconfigure $(BUILD) -Dprefix='$(prefix)' >/dev/null
	@tools/uninstall $(BUILD)

deb: setup
	@tools/make-deb build-deb

check-rpm: setup-dev
	@tools/check-packaging --build .

check-deb: deb
	@tests/install/check-deb build-deb '$(CURDIR)'

clean:
	rm -rf $(BUILD) $(BUILD).log build-landlock build-landlock.log build-fuzz build-bench build-bench-against build-kernels \
	    build-arm64 build-arm64-root build-static-* build-deb dist build-ci-*
