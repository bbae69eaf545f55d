# Targets for contributors, included by Makefile: one test, a compilation database, coverage, a release. They need what a build has.

# ---- one: a single test, built with what it needs and shown in full ----
# make one TEST=unit/stock | TEST=integration/alloc_edges | TEST=jeprof/forms.t
ONE := $(patsubst %.c,%,$(patsubst %.cpp,%,$(TEST:test/%=%)))
ONE_PROGRAM := $(filter test/$(ONE),$(UNIT) $(FUZZ) $(INTEGRATION) $(INTEGRATION_CXX) $(STRESS))
ONE_SCRIPT := $(wildcard $(srcroot)test/$(filter %.t %.sh,$(ONE)))
ONE_SCRIPT := $(filter %.t %.sh,$(ONE_SCRIPT))
.PHONY: one
one: $(ONE_PROGRAM) $(if $(ONE_SCRIPT),build_lib build_tools doc/manual/manual $(if $(filter misuse/%,$(ONE)),$(MISUSE_PROGRAMS)))
	$(if $(ONE_PROGRAM)$(ONE_SCRIPT),,@echo 'make one: there is no test "$(ONE)"; write, for instance, TEST=unit/stock' >&2; exit 1)
	$(if $(ONE_PROGRAM)$(ONE_SCRIPT),env -u MALLOC_CONF -u LD_PRELOAD $(TEST_ENV) CC='$(CC)' $(PROVE) -v -e '' $(ONE_PROGRAM) $(ONE_SCRIPT))

# ---- bench-jeprof: what reading a dump costs, beside Debian's jeprof ----
.PHONY: bench-jeprof
bench-jeprof: build_lib build_tools
	$(TEST_ENV) CC='$(CC)' $(srcroot)test/stress/run-bench-jeprof $(BENCHFLAGS)

# ---- compdb: compile_commands.json in the build directory, for clangd and other tools that ask how a file is compiled ----
COMPDB := compile_commands.json
comma := ,
json = "$(subst ",\",$(subst \,\\,$(strip $(1))))"
# $(1) file below the source tree, $(2) the command that compiles it, without the file
compdb_add = $(file >>$(COMPDB),$(compdb_comma){"directory": $(call json,$(objroot:%/=%)), "file": $(call json,$(abspath $(srcroot)$(1))), \
  "command": $(call json,$(filter-out $(DEPS),$(2)) -c $(abspath $(srcroot)$(1)))})$(eval compdb_comma := $(comma))
.PHONY: compdb
compdb: src/config.h include/jemalloc/jemalloc.h
	$(file >$(COMPDB),[)$(eval compdb_comma :=)
	$(foreach f,$(C_SRCS),$(call compdb_add,$(f),$(COMPILE_C) $(PIC_FLAGS) $(CFLAGS)))
	$(foreach f,$(CXX_SRCS),$(call compdb_add,$(f),$(COMPILE_CXX) $(PIC_FLAGS) $(CXXFLAGS)))
	$(foreach f,$(call rel,bin/ctl/*.c bin/client/*.c),$(call compdb_add,$(f),$(COMPILE_CTL)))
	$(foreach f,$(AGENT_SRCS),$(call compdb_add,$(f),$(COMPILE_AGENT)))
	$(foreach f,$(call rel,bin/symbolize/*.c),$(call compdb_add,$(f),$(COMPILE_SYMBOLIZE)))
	$(call compdb_add,bin/deepbind.c,$(COMPILE_DEEPBIND) $(CFLAGS) -fPIC)
	$(foreach f,$(addsuffix .c,$(UNIT) $(FUZZ)),$(call compdb_add,$(f),$(CC) $(TEST_CFLAGS) $(INC) $(CPPFLAGS) $(CFLAGS)))
	$(foreach f,$(addsuffix .c,$(INTEGRATION) $(STRESS)),$(call compdb_add,$(f),$(CC) $(TEST_CFLAGS) -I$(objroot)include $(CPPFLAGS) $(CFLAGS)))
	$(foreach f,$(addsuffix .cpp,$(INTEGRATION_CXX)),$(call compdb_add,$(f),$(CXX) $(TEST_CXXFLAGS) -I$(objroot)include $(CPPFLAGS) $(CXXFLAGS)))
	$(file >>$(COMPDB),])@echo '$(objroot)$(COMPDB)'

# ---- dist: the release tarball of the commit that is checked out, in the build directory ----
.PHONY: dist
dist:
	@$(srcroot)scripts/dist .

# ---- coverage: lines and branches that unit and integration tests run, by folder; a build of its own in coverage/ ----
.PHONY: coverage
coverage:
	@$(srcroot)scripts/coverage coverage
