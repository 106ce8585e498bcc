# pith: GNU make, wildcards, no list of files to edit. `make help` lists the targets.
VERSION := 0.1.0
CC      ?= gcc
BUILD   ?= build
OPT     ?= -O2
prefix  ?= /usr/local
# Folders of src/ that are compiled; a developer of one layer may name only what it needs.
FOLDERS ?= $(notdir $(patsubst %/,%,$(wildcard src/*/)))

MACHINE := $(shell uname -m)
SKIP_x86_64  := neon
SKIP_aarch64 := avx2 avx512
ISA_avx2   := -mavx2 -mfma -mf16c
ISA_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c

WARN := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Wstrict-prototypes \
        -Wmissing-prototypes -Werror
PKGS := jansson libpcre2-8 libutf8proc libcrypto
CFLAGS_ALL = -std=c17 -D_POSIX_C_SOURCE=200809L -DPITH_VERSION='"$(VERSION)"' $(WARN) $(OPT) -g \
             -ffp-contract=off -fPIC -fvisibility=default -I. -Iinclude -Isrc -pthread \
             $(shell pkg-config --cflags $(PKGS) 2>/dev/null) $(CFLAGS)
LIBS = $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -pthread

skipped  = $(foreach s,$(SKIP_$(MACHINE)),$(filter src/kern/$(s)/%,$(1)))
SRC_ALL := $(foreach d,$(FOLDERS),$(wildcard src/$(d)/*.c src/$(d)/*/*.c))
SRC     := $(filter-out $(call skipped,$(SRC_ALL)),$(SRC_ALL))
OBJ     := $(SRC:%.c=$(BUILD)/%.o)
CLI_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard cli/*.c))
# Unit tests: one program a file; the folder under tests/unit/ is the module.
TEST_SRC := $(foreach d,$(FOLDERS),$(wildcard tests/unit/$(d)/test_*.c))
TEST_BIN := $(TEST_SRC:%.c=$(BUILD)/%)

.DEFAULT_GOAL := all
.SECONDARY:
.DELETE_ON_ERROR:
.PHONY: all help deps lib unit clean check-layers check-symbols check-size

all: deps ## build the library and the program
	@$(MAKE) --no-print-directory lib $(BUILD)/pith

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

deps:
	@tools/deps.sh

lib: $(BUILD)/libpith.a $(BUILD)/libpith.so

$(BUILD)/libpith.a: $(OBJ)
	@rm -f $@
	@ar rcs $@ $^

$(BUILD)/libpith.so: $(OBJ)
	@$(CC) $(CFLAGS_ALL) $(LDFLAGS) -shared -Wl,-soname,libpith.so.0 -o $@ $^ $(LIBS)

$(BUILD)/pith: $(CLI_OBJ) $(BUILD)/libpith.a
	@$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	@echo "cc $<"
	@$(CC) $(CFLAGS_ALL) $(ISA_$(notdir $(patsubst %/,%,$(dir $<)))) -MMD -MP -c -o $@ $<

$(BUILD)/tests/unit/%: tests/unit/%.c $(BUILD)/libpith.a
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS_ALL) -Itests -MMD -MP $(LDFLAGS) -o $@ $< $(BUILD)/libpith.a -lcmocka $(LIBS)

unit: $(TEST_BIN) ## build and run the unit tests of FOLDERS
	@tools/run_tests.sh $(TEST_BIN)

check-layers: ## folders include only lower layers
	@tools/check_layers.sh
check-size: ## file, function and line lengths
	@tools/check_size.sh
check-symbols: lib ## the library neither prints nor exits
	@tools/check_symbols.sh $(BUILD)

clean: ## remove what was built
	rm -rf $(BUILD)

$(BUILD)/src/calib/corpus_builtin.o: src/calib/builtin.txt

-include $(OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(TEST_BIN:=.d)
