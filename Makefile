# Pando: GNU make. `make run` and `make check` need only make and git: they install the rest.
#
#   make              build/pandod, build/pando-tool, build/libpandostore.a
#   make tests        every test program
#   make run          install what is missing, build, serve on 127.0.0.1:6379 (PORT=, DATA=)
#   make check        every suite once; SAN=address (with UBSan) or SAN=thread: under that sanitizer
#   make soak         for hours: 1,000 kills, ten times the check's random rounds (SEED=)
#   make fuzz         every fuzz target for FUZZ_SECONDS (60) under libFuzzer; FUZZ=NAME: one of them
#   make bench        the server beside redis-server (about 15 minutes; QUICK=1: a look)
#   make bench-engine the engine beside LMDB, RocksDB, LevelDB, SQLite (about 40 minutes; QUICK=1)
#   make install      to PREFIX (/usr/local), below DESTDIR; make uninstall: removes what that put
#   make format | lint | clean | deps | deps-test | deps-bench
#
# Variables: CC (gcc, clang), SAN, RULES (1: the engine's rules can be left out by tests that have to
# notice: storage/rules.h), IMAGE (the data file is `mapped`, or is, as usual with a sanitizer,
# `anonymous` memory in which races show: storage/image.h), BUILD (root of all output), V=1 (show
# commands), EXTRA (flags).
# Sources are found by their place; adding a file needs no edit here. Each combination of compiler
# and sanitizer has its own folder below BUILD, so that none disturbs another's objects.

ifeq ($(origin CC),default)
CC := gcc
endif
BUILD ?= build
SAN ?=
EXTRA ?=
PORT ?= 6379
DATA ?= data
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

FUZZ_SECONDS ?= 60

ifeq ($(SAN),fuzzer)
CC := clang
endif
IS_CLANG := $(findstring clang,$(notdir $(CC)))
ifneq ($(filter-out address thread fuzzer,$(SAN)),)
$(error SAN must be address or thread (or, for fuzz targets, fuzzer), not '$(SAN)')
endif
VARIANT := $(if $(SAN),$(if $(filter fuzzer,$(SAN)),,$(if $(IS_CLANG),clang-))$(SAN),$(IS_CLANG))
IMAGE_USUAL := $(if $(filter address thread,$(SAN)),anonymous,mapped)
IMAGE ?= $(IMAGE_USUAL)
ifneq ($(filter-out anonymous mapped,$(IMAGE)),)
$(error IMAGE must be anonymous or mapped, not '$(IMAGE)')
endif
ifneq ($(IMAGE),$(IMAGE_USUAL))
VARIANT := $(if $(VARIANT),$(VARIANT)-)$(IMAGE)
endif
RULES ?=
ifneq ($(filter-out 1,$(RULES)),)
$(error RULES must be 1 or nothing, not '$(RULES)')
endif
ifeq ($(RULES),1)
VARIANT := $(if $(VARIANT),$(VARIANT)-)rules
endif
OUT := $(BUILD)$(if $(VARIANT),/$(VARIANT))
OBJ := $(OUT)/obj

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-5s %s\n'
endif

# ---- flags ----------------------------------------------------------------------------------

PKGS := libevent libevent_pthreads libsystemd
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) jansson 2>/dev/null)
PKG_LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null)
# migrate-from-lmdb and migrate-to-lmdb, where LMDB is installed (LMDB=0: not even then).
LMDB ?= $(if $(shell pkg-config --exists lmdb 2>/dev/null && echo yes),1,0)
TOOL_LIBS := $(shell pkg-config --libs jansson 2>/dev/null) $(if $(filter 1,$(LMDB)),-llmdb)
TEST_LIBS := -lcmocka
ENGINE_LIBS := -llz4 -lzstd

WARN := -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
MACHINE := $(shell uname -m)
ARCH_x86_64 := -msse4.2
ARCH_aarch64 := -march=armv8-a+crc
SAN_address := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SAN_fuzzer := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
              -fno-omit-frame-pointer
IMAGE_anonymous := -DPS_IMAGE_ANONYMOUS
RULES_1 := -DPS_RULES_CAN_BREAK
SAN_thread := -fsanitize=thread -fno-omit-frame-pointer $(if $(IS_CLANG),,-Wno-tsan)

CFLAGS := -std=c11 -D_GNU_SOURCE -O2 -g $(WARN) -I. $(ARCH_$(MACHINE)) -pthread \
          $(SAN_$(SAN)) $(IMAGE_$(IMAGE)) $(RULES_$(RULES)) $(PKG_CFLAGS) $(EXTRA)
LDFLAGS := -pthread $(SAN_$(SAN)) $(EXTRA)

# ---- sources --------------------------------------------------------------------------------

STORAGE_SRC := $(wildcard storage/*.c)
PROTOCOL_SRC := $(wildcard protocol/*.c)
SERVER_SRC := $(wildcard server/*.c server/*/*.c server/*/*/*.c)
TOOL_SRC := $(wildcard tools/pando-tool.c tools/tool_*.c)
SUPPORT_SRC := $(wildcard tests/support/*.c)
UNIT_SRC := $(wildcard tests/unit/test_*.c tests/unit/*/test_*.c)
# A folder of tests with C sources (model, explorer, ...) is one program of the folder's name.
PROGRAM_SRC := $(filter-out tests/unit/% tests/support/% tests/fuzz/%,$(wildcard tests/*/*.c))
PROGRAMS := $(sort $(patsubst tests/%/,%,$(dir $(PROGRAM_SRC))))
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
# libFuzzer brings a main; without it replay.c runs inputs that are named.
FUZZ_SUPPORT_SRC := $(filter-out $(FUZZ_SRC) $(if $(filter fuzzer,$(SAN)),tests/fuzz/replay.c),\
                    $(wildcard tests/fuzz/*.c))
BENCH_SRC := $(wildcard bench/*.c)
BENCH_SUPPORT_SRC := $(wildcard bench/support/*.c)

comma := ,
objects = $(patsubst %.c,$(OBJ)/%.o,$(1))

STORAGE_LIB := $(OUT)/libpandostore.a
# What test programs draw from besides the engine: archives, so that each takes what it uses.
PROTOCOL_LIB := $(OBJ)/libprotocol.a
SERVER_LIB := $(OBJ)/libserver.a
SUPPORT_LIB := $(OBJ)/libsupport.a
FUZZ_LIB := $(OBJ)/libfuzz.a
BENCH_SUPPORT_LIB := $(OBJ)/libbenchsupport.a

SERVER_PARTS := $(filter-out server/main.c,$(SERVER_SRC)) $(filter-out tools/pando-tool.c,$(TOOL_SRC))
BINARIES := $(if $(filter server/main.c,$(SERVER_SRC)),$(OUT)/pandod) \
            $(if $(filter tools/pando-tool.c,$(TOOL_SRC)),$(OUT)/pando-tool)
UNIT_BIN := $(patsubst %.c,$(OUT)/%,$(UNIT_SRC))
PROGRAM_BIN := $(addprefix $(OUT)/tests/,$(PROGRAMS))
# The calls that fuzz_dispatch makes up follow the grammar of the differential test.
FUZZ_GRAMMAR_SRC := $(addprefix tests/differential/,table.c grammar.c token.c random.c)
# fuzz_lmdb runs the streams of the comparison with LMDB.
FUZZ_LMDB_SRC := $(filter-out tests/lmdb/main.c,$(wildcard tests/lmdb/*.c))
# fuzz_store and fuzz_log damage files as the damage suite does.
FUZZ_DAMAGE_SRC := $(filter-out tests/damage/main.c tests/damage/leave_out.c,\
                     $(wildcard tests/damage/*.c))
FUZZ_BIN := $(patsubst %.c,$(OUT)/%,$(FUZZ_SRC))
BENCH_BIN := $(patsubst %.c,$(OUT)/%,$(BENCH_SRC))
ALL_SRC := $(STORAGE_SRC) $(PROTOCOL_SRC) $(SERVER_SRC) $(TOOL_SRC) $(SUPPORT_SRC) $(UNIT_SRC) \
           $(PROGRAM_SRC) $(FUZZ_SRC) $(FUZZ_SUPPORT_SRC) $(BENCH_SRC) $(BENCH_SUPPORT_SRC)

# Test programs that leave rules of the engine out (make RULES=1 rules).
RULE_BIN := $(addprefix $(OUT)/tests/,powerloss explorer \
            $(addprefix unit/test_,log store_damage store_powercut store_reserve))

.PHONY: all tests unit fuzzers rules benches
all: $(STORAGE_LIB) $(BINARIES)
unit: $(UNIT_BIN)
tests: all $(UNIT_BIN) $(PROGRAM_BIN) $(FUZZ_BIN)
fuzzers: $(FUZZ_BIN)
rules: $(RULE_BIN)
benches: all $(BENCH_BIN)

# ---- rules ----------------------------------------------------------------------------------

# Stamps that change only when their text does: objects depend on the flags, and whatever is
# linked also on the list of sources (a removed file must leave its archive).
FLAGS_STAMP := $(OBJ)/flags
SOURCES_STAMP := $(OBJ)/sources

define stamp
@mkdir -p $(@D); printf '%s\n' '$(1)' | cmp -s - $@ || printf '%s\n' '$(1)' >$@
endef

.PHONY: FORCE
FORCE:
$(FLAGS_STAMP): FORCE
	$(call stamp,$(CC) $(CFLAGS) / $(LDFLAGS) / $(PKG_LIBS) $(TOOL_LIBS) $(ENGINE_LIBS))
$(SOURCES_STAMP): FORCE
	$(call stamp,$(ALL_SRC))

# Fuzzing looks for new ways through protocol and server; the engine's threads and loops would only
# be noise. Except for fuzz_lmdb and fuzz_store, which look for ways through the engine; but the log
# is read byte by byte at each start, and has fuzz_log.
ENGINE_LIB := $(STORAGE_LIB)
FUZZ_LOG_OBJ :=
ifeq ($(SAN),fuzzer)
$(call objects,$(STORAGE_SRC)): CFLAGS += -fno-sanitize=fuzzer-no-link
ENGINE_LIB := $(OBJ)/engine/libpandostore.a
$(patsubst %.c,$(OBJ)/engine/%.o,$(wildcard storage/log*.c)): CFLAGS += -fno-sanitize=fuzzer-no-link
$(ENGINE_LIB): $(STORAGE_SRC:%.c=$(OBJ)/engine/%.o) $(SOURCES_STAMP)
	$(archive)
FUZZ_LOG_OBJ := $(patsubst %.c,$(OBJ)/log/%.o,$(wildcard storage/log*.c))
endif

ifeq ($(LMDB),1)
$(OBJ)/tools/tool_migrate.o $(OBJ)/tools/tool_migrate_to.o: CFLAGS += -DWITH_LMDB
endif

define compile
@mkdir -p $(@D)
$(say) CC $<
$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<
endef

$(OBJ)/engine/%.o: %.c $(FLAGS_STAMP)
	$(compile)
$(OBJ)/log/%.o: %.c $(FLAGS_STAMP)
	$(compile)
$(OBJ)/%.o: %.c $(FLAGS_STAMP)
	$(compile)

define archive
@mkdir -p $(@D); rm -f $@
$(say) AR $@
$(Q)ar rcs $@ $(filter %.o,$^)
endef

define link
@mkdir -p $(@D)
$(say) LD $@
$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(1) $(ENGINE_LIBS)
endef

$(STORAGE_LIB): $(call objects,$(STORAGE_SRC)) $(SOURCES_STAMP)
	$(archive)
$(PROTOCOL_LIB): $(call objects,$(PROTOCOL_SRC)) $(SOURCES_STAMP)
	$(archive)
$(SERVER_LIB): $(call objects,$(SERVER_PARTS)) $(SOURCES_STAMP)
	$(archive)
$(SUPPORT_LIB): $(call objects,$(SUPPORT_SRC)) $(SOURCES_STAMP)
	$(archive)
$(FUZZ_LIB): $(call objects,$(FUZZ_SUPPORT_SRC) $(FUZZ_GRAMMAR_SRC)) $(SOURCES_STAMP)
	$(archive)
$(BENCH_SUPPORT_LIB): $(call objects,$(BENCH_SUPPORT_SRC)) $(SOURCES_STAMP)
	$(archive)

$(OUT)/pandod: $(call objects,$(SERVER_SRC) $(PROTOCOL_SRC)) $(STORAGE_LIB) $(SOURCES_STAMP)
	$(call link,$(PKG_LIBS) -lm)
$(OUT)/pando-tool: $(call objects,$(TOOL_SRC)) $(STORAGE_LIB) $(SOURCES_STAMP)
	$(call link,$(TOOL_LIBS) -lm)

TEST_ARCHIVES := $(SUPPORT_LIB) $(if $(RULES),,$(SERVER_LIB)) $(PROTOCOL_LIB) $(STORAGE_LIB)

$(UNIT_BIN): $(OUT)/%: $(OBJ)/%.o $(TEST_ARCHIVES) $(SOURCES_STAMP)
	$(call link,$(TEST_LIBS) $(PKG_LIBS) $(TOOL_LIBS) -lm)

FUZZ_LMDB_BIN := $(OUT)/tests/fuzz/fuzz_lmdb
FUZZER_MAIN := $(if $(filter fuzzer,$(SAN)),-fsanitize=fuzzer)
FUZZ_DAMAGE_BIN := $(addprefix $(OUT)/tests/fuzz/,fuzz_store fuzz_log)
$(filter-out $(FUZZ_LMDB_BIN) $(FUZZ_DAMAGE_BIN),$(FUZZ_BIN)): $(OUT)/%: $(OBJ)/%.o $(FUZZ_LIB) $(TEST_ARCHIVES) \
    $(SOURCES_STAMP)
	$(call link,$(FUZZER_MAIN) $(PKG_LIBS) -lm)
$(FUZZ_LMDB_BIN): $(call objects,tests/fuzz/fuzz_lmdb.c $(FUZZ_LMDB_SRC)) $(FUZZ_LIB) \
    $(SUPPORT_LIB) $(PROTOCOL_LIB) $(ENGINE_LIB) $(SOURCES_STAMP)
	$(call link,$(FUZZER_MAIN) -llmdb -lm)
$(OUT)/tests/fuzz/fuzz_log: $(FUZZ_LOG_OBJ)
$(FUZZ_DAMAGE_BIN): $(OUT)/%: $(OBJ)/%.o $(call objects,$(FUZZ_DAMAGE_SRC)) $(FUZZ_LIB) \
    $(SUPPORT_LIB) $(PROTOCOL_LIB) $(ENGINE_LIB) $(SOURCES_STAMP)
	$(call link,$(FUZZER_MAIN) -lm)

define program
$(OUT)/tests/$(1): $(call objects,$(filter tests/$(1)/%,$(PROGRAM_SRC))) $(SUPPORT_LIB) \
    $(PROTOCOL_LIB) $(STORAGE_LIB) $(SOURCES_STAMP)
	$$(call link,-lm $$(LIBS_$(1)))
endef
# Only the crash test serves a disk of its own.
LIBS_crash := -lfuse3
# The damage suite leaves checks of the engine out, one at a time (leave_out.h).
LIBS_damage := $(addprefix -Wl$(comma)--wrap=,page_verify run_verify run_verify_part log_record_crc)
# Only comparisons of engines (fuzz_lmdb and bench/engine are others) know another engine.
LIBS_lmdb := -llmdb
LIBS_growth := -llmdb
$(foreach folder,$(PROGRAMS),$(eval $(call program,$(folder))))

$(OUT)/bench/engine: PEER_LIBS := -llmdb -lrocksdb -lleveldb -lsqlite3
$(BENCH_BIN): $(OUT)/%: $(OBJ)/%.o $(BENCH_SUPPORT_LIB) $(STORAGE_LIB) $(SOURCES_STAMP)
	$(call link,$(PEER_LIBS) -lm)

-include $(patsubst %.o,%.d,$(call objects,$(ALL_SRC)) $(STORAGE_SRC:%.c=$(OBJ)/engine/%.o) $(FUZZ_LOG_OBJ))

# ---- packages -------------------------------------------------------------------------------

DEPS := gcc libc6-dev pkg-config libevent-dev libjansson-dev libsystemd-dev \
        liblz4-dev libzstd-dev
DEPS_TEST := binutils clang libclang-rt-14-dev clang-format clang-tidy cppcheck libcmocka-dev \
             libfuse3-dev e2fsprogs mount python3 python3-pytest python3-redis python3-psutil redis-server redis-tools \
             wamerican-huge procps liblmdb-dev lmdb-utils \
             groff man-db systemd strace debootstrap buildah podman runc python3-yaml
DEPS_BENCH := liblmdb-dev librocksdb-dev libleveldb-dev libsqlite3-dev linux-perf python3 \
              python3-matplotlib redis-server redis-tools

.PHONY: deps deps-test deps-bench
deps:
	@.ci/packages $(DEPS)
deps-test: deps
	@.ci/packages $(DEPS_TEST)
deps-bench: deps
	@.ci/packages $(DEPS_BENCH)

# ---- tasks ----------------------------------------------------------------------------------
# Those that install run make again, so that pkg-config is asked after it exists.

.PHONY: run serve check soak fuzz bench bench-engine format lint clean
run: deps
	@$(MAKE) --no-print-directory -j$(JOBS) serve
serve: all
	@mkdir -p $(DATA)
	@exec $(OUT)/pandod conf/pando.conf --bind 127.0.0.1 --port $(PORT) --dir $(DATA)

check: deps-test
	@/usr/bin/python3 tests/run-check --build $(BUILD) $(if $(SAN),--san $(SAN))

soak: deps-test
	@/usr/bin/python3 tests/run-check --build $(BUILD) --table soak

fuzz: deps-test
	@$(MAKE) --no-print-directory -j$(JOBS) SAN=fuzzer fuzzers
	@/usr/bin/python3 tests/run-fuzz --out $(BUILD)/fuzzer --seconds $(FUZZ_SECONDS) $(FUZZ)

bench: deps-bench
	@$(MAKE) --no-print-directory -j$(JOBS) benches
	@bench/run --build $(OUT) $(if $(QUICK),--quick)

bench-engine: deps-bench
	@$(MAKE) --no-print-directory -j$(JOBS) benches
	@bench/engine --build $(OUT) $(if $(QUICK),--quick)

# ---- installing -----------------------------------------------------------------------------
# The configuration is the administrator's: it is replaced or removed only if it is still what the
# last installation put there, of which share/pando keeps a copy.

PREFIX ?= /usr/local
DESTDIR ?=
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
SYSCONFDIR ?= $(if $(filter /usr /usr/local,$(PREFIX)),/etc,$(PREFIX)/etc)
UNITDIR ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
VERSION = $(shell sed -n 's/.*PANDO_VERSION *"\(.*\)"/\1/p' server/observe/info.h)

CONF := $(DESTDIR)$(SYSCONFDIR)/pando/pando.conf
CONF_AS_INSTALLED := $(DESTDIR)$(DATADIR)/pando/pando.conf
TO_PREFIX := sed 's|/usr/local/bin|$(BINDIR)|g; s|/etc/pando|$(SYSCONFDIR)/pando|g'
# Everything but the configuration.
INSTALLED := $(addprefix $(DESTDIR),$(BINDIR)/pandod $(BINDIR)/pando-tool $(LIBDIR)/libpandostore.a \
    $(LIBDIR)/pkgconfig/pandostore.pc $(INCLUDEDIR)/pandostore.h $(UNITDIR)/pandod.service \
    $(MANDIR)/man3/pandostore.3 $(DATADIR)/doc/pandostore/example.c $(SYSUSERSDIR)/pando.conf) \
    $(CONF_AS_INSTALLED)

.PHONY: install uninstall
install: all
	$(Q)install -D -m 755 $(OUT)/pandod $(DESTDIR)$(BINDIR)/pandod
	$(Q)install -D -m 755 $(OUT)/pando-tool $(DESTDIR)$(BINDIR)/pando-tool
	$(Q)install -D -m 644 $(STORAGE_LIB) $(DESTDIR)$(LIBDIR)/libpandostore.a
	$(Q)install -D -m 644 storage/pandostore.h $(DESTDIR)$(INCLUDEDIR)/pandostore.h
	$(Q)install -D -m 644 /dev/null $(DESTDIR)$(LIBDIR)/pkgconfig/pandostore.pc
	$(Q)sed 's|@LIBDIR@|$(LIBDIR)|; s|@INCLUDEDIR@|$(INCLUDEDIR)|; s|@VERSION@|$(VERSION)|' \
	    storage/pandostore.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/pandostore.pc
	$(Q)install -D -m 644 /dev/null $(DESTDIR)$(MANDIR)/man3/pandostore.3
	$(Q)sed 's|@DATADIR@|$(DATADIR)|' storage/manual/pandostore.3 >$(DESTDIR)$(MANDIR)/man3/pandostore.3
	$(Q)install -D -m 644 storage/manual/example.c $(DESTDIR)$(DATADIR)/doc/pandostore/example.c
	$(Q)install -D -m 644 systemd/sysusers.conf $(DESTDIR)$(SYSUSERSDIR)/pando.conf
	$(Q)install -D -m 644 /dev/null $(DESTDIR)$(UNITDIR)/pandod.service
	$(Q)$(TO_PREFIX) systemd/pandod.service >$(DESTDIR)$(UNITDIR)/pandod.service
	$(Q)if [ ! -e $(CONF) ] || cmp -s $(CONF) $(CONF_AS_INSTALLED); then \
	    install -D -m 644 conf/pando.conf $(CONF); \
	elif ! cmp -s $(CONF) conf/pando.conf; then \
	    echo 'kept $(CONF), which differs; the new defaults: $(CONF_AS_INSTALLED)'; fi
	$(Q)install -D -m 644 conf/pando.conf $(CONF_AS_INSTALLED)
uninstall:
	$(Q)if cmp -s $(CONF) $(CONF_AS_INSTALLED); then rm -f $(CONF); \
	elif [ -e $(CONF) ]; then echo 'kept $(CONF), which was edited'; fi
	$(Q)rm -f $(INSTALLED)
	$(Q)rmdir $(dir $(CONF)) $(dir $(CONF_AS_INSTALLED)) $(DESTDIR)$(DATADIR)/doc/pandostore 2>/dev/null || true

C_FILES = $(sort $(ALL_SRC) $(wildcard storage/manual/*.c) $(foreach d,. *,$(wildcard storage/$(d)/*.h protocol/$(d)/*.h \
          server/$(d)/*.h tools/$(d)/*.h tests/$(d)/*.h bench/$(d)/*.h)))

format: deps-test
	@clang-format -i $(C_FILES)
lint: deps-test deps-bench
	@$(MAKE) --no-print-directory -j$(JOBS) tests
	@$(MAKE) --no-print-directory -j$(JOBS) lint-files
.PHONY: lint-files lint-format lint-cppcheck
LINT_SRC := $(sort $(ALL_SRC))
# cppcheck does not see that a test's helper fills in what it is given.
CPPCHECK_SRC := $(STORAGE_SRC) $(PROTOCOL_SRC) $(SERVER_SRC) $(TOOL_SRC)
lint-files: lint-format lint-cppcheck $(addprefix tidy/,$(LINT_SRC))
lint-format:
	@clang-format --dry-run --Werror $(C_FILES)
lint-cppcheck:
	@cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr --enable=warning,portability \
	    -D__x86_64__ -I. $(CPPCHECK_SRC)
.PHONY: $(addprefix tidy/,$(LINT_SRC))
$(addprefix tidy/,$(LINT_SRC)): tidy/%:
	$(say) TIDY $*
	@clang-tidy --quiet $* -- $(filter-out -W%,$(CFLAGS)) 2>/dev/null

clean:
	rm -rf $(BUILD)
