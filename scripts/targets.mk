# Targets beside the build itself; included by the Makefile.

# ---- tests in C: tests/<folder>/.../<name>_test.c, and three by name, each linked with the core.
# Programs for a GPU, *_device.c, say that there is none.
CTEST     := $(patsubst %.c,%,$(sort $(wildcard $(foreach d,tests/* tests/*/*,$(d)/*_test.c $(d)/*_device.c))) \
             tests/elem/ulp.c tests/elem/kernels.c tests/devices/driver/hip_program.c)
CTEST_BIN := $(CTEST:%=$(BUILD)/%)

# Sources beside the program's own, libraries, linker flags.
WITH_tests/repl/edit_test := tests/repl/edit_session.c tests/repl/screen_model.c
WITH_tests/repl/edit_screen_test := $(WITH_tests/repl/edit_test)
WITH_tests/repl/prompt_test := tests/repl/terminal.c
WITH_tests/repl/stops_test  := tests/repl/terminal.c
WITH_tests/repl/edit_kernel_test := tests/repl/terminal.c
WITH_tests/repl/cells_test  := tests/repl/terminal.c
# A terminal of another's make.
VTERM := $(wildcard /usr/include/vterm.h)
LINK_tests/repl/cells_test := $(if $(VTERM),-lvterm)
$(BUILD)/tests/repl/cells_test.o: CPPFLAGS += $(if $(VTERM),-DTS_VTERM)
WITH_tests/devices/driver/cuda_test := tests/devices/driver/fake_cuda.c
# It stands for the driver: found by its names in the program.
LINK_tests/devices/driver/cuda_test := -Wl,--export-dynamic
WITH_tests/devices/driver/hip_test := tests/devices/driver/fake_hip.c
LINK_tests/devices/driver/hip_test := -Wl,--export-dynamic $(HEAP)
WITH_tests/devices/driver/level_zero_test := tests/devices/driver/fake_ze.c
LINK_tests/devices/driver/level_zero_test := -Wl,--export-dynamic $(HEAP)
# The program itself, with AMD's driver in it.
WITH_tests/devices/driver/hip_program := tests/devices/driver/fake_hip.c repl/main.c
LINK_tests/devices/driver/hip_program := -Wl,--export-dynamic $(HEAP) $(SEED) -Wl,--wrap=ts_gpu_code \
                                  -Wl,--wrap=ts_gpu_batch_table
ARGS_tests/devices/driver/hip_program := scripts/run_test.lua tests/devices/driver/_hip.lua
WITH_tests/net/world_test := tests/devices/driver/fake_cuda.c
LINK_tests/net/world_test := -Wl,--export-dynamic
LINK_tests/lib/commit_test := -Wl,--wrap=flock
LINK_tests/repl/edit_test := -Wl,--wrap=malloc,--wrap=realloc,--wrap=strdup
# tests/ir/failing.h
FAILING := $(foreach f,malloc calloc realloc free,-Wl,--wrap=$(f))
LINK_tests/ir/failing_test := $(FAILING)
LINK_tests/jit/device_set_test := $(HEAP)
LINK_tests/ir/graph_text_test := $(FAILING)
LINK_tests/ir/tile_text_test := $(FAILING)
LINK_tests/ir/tile_run_test := $(FAILING)
# The pool of gemm_test hides the one of the core.
LINK_tests/vm/gemm_test   := -Wl,-z,muldefs
LINK_tests/elem/ulp       := -Wl,-Bstatic -lquadmath -Wl,-Bdynamic

# Arguments: of a usual run, which has minutes for everything, and of a long one.
ARGS_tests/elem/ulp      := --step 40009 --random 100000
LONG_tests/elem/ulp      := --step 1009 --random 1000000
ARGS_tests/ir/failing_test := 5
LONG_tests/ir/failing_test := 1
LONG_tests/ir/graph_text_test := 10000
LONG_tests/ir/tile_text_test := 100000
ARGS_tests/jit/gpu/kernels_test  := 8
LONG_tests/jit/gpu/kernels_test  := 48
ARGS_tests/vm/fft_test   := 3
LONG_tests/vm/fft_test   := 1
ARGS_tests/vm/gemm_test  := 8
ARGS_tests/repl/stops_test := 20
LONG_tests/repl/stops_test := 200
LONG_tests/vm/gemm_test  := 400
LONG_tests/vm/linalg/blas_test  := 400

CTEST_OBJ := $(foreach t,$(CTEST),$(patsubst %.c,$(BUILD)/%.o,$(t).c $(WITH_$(t))))
CTEST_RUN := $(foreach t,$(CTEST),"$(strip $(BUILD)/$(t) $(ARGS_$(t)))")
CTEST_LONG := $(foreach t,$(CTEST),"$(strip $(BUILD)/$(t) $(or $(LONG_$(t)),$(ARGS_$(t))))")

# binary128, which the exact values are computed in, is gcc's.
$(BUILD)/tests/elem/ulp.o: override CC := gcc

# LLVM's tools read what it writes.
$(BUILD)/tests/jit/gpu/amd_test.o: CPPFLAGS += $(if $(LLVM),-DLLVM_TOOLS='"$(dir $(LLVM))"')

# An archive of the program without its main: a test gets what it calls, and few call LLVM.
CORE_LIB := $(BUILD)/core.a
$(CORE_LIB): $(CORE)
	@rm -f $@
	@ar rcs $@ $(CORE)

define CTEST_RULE
$(BUILD)/$(1): $(patsubst %.c,$(BUILD)/%.o,$(1).c $(WITH_$(1))) $(CORE_LIB)
	@echo "  link   $$@"
	@$$(CC) $$(LDFLAGS) $(LINK_$(1)) -o $$@ $$^ $$(LIBS) $(LINK_$(1))
endef
$(foreach t,$(CTEST) tests/jit/speed tests/jit/speed_kernels tests/vm/speed,$(eval $(call CTEST_RULE,$(t))))

-include $(CTEST_OBJ:.o=.d)

# Allocations of absurd sizes are tested. Leaks are looked for where the Lua state is closed,
# at the end of a program and by os.exit(code, true): LuaJIT's heap hides from the search what
# an open state refers to, so scripts run by tests must not end by a plain os.exit.
ifeq ($(VARIANT),asan)
export ASAN_OPTIONS := allocator_may_return_null=1:detect_leaks=1
# Intel's driver is opened in a way that the sanitizer forbids.
export TESSERA_LIBZE := /none
endif

# The command that CI runs, on a fresh Debian as root too: installs what is missing,
# builds, passes the tests.
check:
	@sh scripts/check.sh

# ONLY=word runs the tests whose names contain the word. DEV=cuda, sim, cuda:1, ..: the device of
# the tests in tests/devices; a simulated GPU if it is not given.
export DEV
# Programs of scripts/python.sh, in front of others: their version is known.
export PATH := $(if $(wildcard build/python/programs),$(CURDIR)/build/python/programs:)$(PATH)
FUSED = "sh tests/house/fused.sh $(BUILD)"
test: $(BIN) $(CTEST_BIN) layers
	@$(BIN) scripts/check.lua --c $(CTEST_RUN) $(FUSED) -- $(ONLY)

# LONG=1: scripts take what their slices leave out.
test-long: $(BIN) $(CTEST_BIN) layers
	@LONG=1 KILLS=200 $(BIN) scripts/check.lua --c $(CTEST_LONG) $(FUSED) -- $(ONLY)

# Whole programs, generated, run in every way: an hour, or FUZZ_SECONDS or FUZZ_COUNT of them from
# FUZZ_SEED on; DEV=cuda:0: on that device beside the CPU (tests/fuzz/programs). Then files of models.
fuzz: $(BIN)
	@$(BIN) tests/fuzz/programs/_main.lua
	@$(MAKE) --no-print-directory fuzz-models

# Tokenizers with the package tokenizers (make python): a million random strings for each of 77 vocabularies,
# or FUZZ_COUNT from FUZZ_SEED on; VOCABULARIES=folder: tokenizer.json files and GGUF vocabularies too.
fuzz-text: $(BIN)
	@FUZZ_COUNT=$${FUZZ_COUNT:-1000000} $(BIN) scripts/run_test.lua tests/text/long.lua

# Files and texts of models, damaged: safetensors, GGUF, tokenizer.json, chat templates, GBNF, expressions, JSON schemas; a million of
# each, or FUZZ_COUNT from FUZZ_SEED on, FUZZ_FORMAT=word for some. Texts of random schemas with the package jsonschema (make python).
fuzz-models: $(BIN)
	@FUZZ_SHOW=1 FUZZ_COUNT=$${FUZZ_COUNT:-1000000} $(BIN) scripts/run_test.lua tests/fuzz/models.lua
	@FUZZ_COUNT=$$(($${FUZZ_COUNT:-1000000} / 50)) $(BIN) scripts/run_test.lua tests/hf/grammar/long.lua

# What tests expect, rewritten to what comes out: read the difference. Of ONLY, or of all; what
# fails all the same, such as an error that is none, is said by `make test`.
golden: $(BIN)
	@GOLDEN=1 $(BIN) scripts/check.lua -- $(ONLY) | tail -1
	@git diff --stat -- tests

# Memory that runs out at every allocation, Ctrl-C at every point (tests/upsets); some hours. FUZZ_COUNT: points
# of a scenario at most; UPSET=word: scenarios whose names contain it.
upsets: $(BIN)
	@for t in memory interrupts signals compilers; do \
	  FUZZ_COUNT=$${FUZZ_COUNT:-20000} $(BIN) scripts/run_test.lua tests/upsets/$$t.lua || exit 1; done

# The accuracy of every pointwise row over all f32 numbers; hours, so not a test.
ulp: $(BUILD)/tests/elem/ulp
	@$< --step 1 --random 10000000 --out tests/elem/ulp.txt

# Compile times and speed of generated kernels.
jit-speed: $(BUILD)/tests/jit/speed
	@$< compile && $< passes && $< run

# Operators over rows, in memory and in the cache.
rows-speed: $(BUILD)/tests/vm/speed
	@$<

# The main job on real input.
demo:
	@sh scripts/demo.sh

setup:
	@sh scripts/setup.sh

python:
	@sh scripts/python.sh

layers:
	@sh scripts/layers.sh

bench: $(BIN)
	@sh scripts/bench/run.sh

docs: $(BIN)
	@$(BIN) scripts/docs.lua docs/operators.md
	@$(BIN) scripts/docs_library.lua docs/library.md

CLANG_FORMAT ?= clang-format-14
format:
	@$(CLANG_FORMAT) -i $$(git ls-files '*.c' '*.h')

# ---- installation
DEST := $(DESTDIR)$(PREFIX)
install: $(BIN)
	install -D -m 755 $(BIN) $(DEST)/bin/tessera
	install -d $(DEST)/share/tessera/lua
	install -D -m 644 docs/tessera.1 $(DEST)/share/man/man1/tessera.1
	install -D -m 644 scripts/completion/tessera.bash $(DEST)/share/bash-completion/completions/tessera
	install -D -m 644 scripts/completion/_tessera $(DEST)/share/zsh/site-functions/_tessera

clean:
	rm -rf build bin

help:
	@echo "make            build bin/tessera"
	@echo "make demo       set up, build, run the main job on real text"
	@echo "make check      set up, build, run all tests"
	@echo "make test       the tests without installing anything (ONLY=word for some)"
	@echo "                DEV=cuda: those in tests/devices on a GPU, else on a simulated one"
	@echo "                TIMES=1: seconds of processors by folder; SLOW=30: and of the 30 slowest tests"
	@echo "make fuzz       generated programs in every way for an hour, then fuzz-models (FUZZ_SECONDS, FUZZ_COUNT, FUZZ_SEED, DEV)"
	@echo "make fuzz-models  files, templates, grammars and schemas of models, damaged: a million each (FUZZ_COUNT, FUZZ_FORMAT)"
	@echo "make fuzz-text  tokenizers with the package tokenizers: a million strings each (FUZZ_COUNT, VOCABULARIES)"
	@echo "make upsets     memory that runs out, and Ctrl-C, at every point of many scenarios (FUZZ_COUNT, UPSET)"
	@echo "make golden     rewrite what tests expect to what comes out (ONLY=word); then git diff"
	@echo "make test-long  the tests with more cases: the slices of fuzzers, operators, layouts and models whole"
	@echo "make python     set up what tests use of Python's package index, in build/python (ptxas, Perfetto)"
	@echo "make ulp        measure the accuracy of every pointwise row: tests/elem/ulp.txt"
	@echo "make jit-speed  compile times and speed of generated kernels"
	@echo "make rows-speed  operators over rows, in memory and in the cache"
	@echo "make bench      measure beside the peers that are installed (DEV=cuda: on a GPU)"
	@echo "make docs       write docs/operators.md from the operator table, docs/library.md from lib/lua"
	@echo "make layers     check the include direction"
	@echo "make format     lay out the C files as .clang-format says (CLANG_FORMAT=clang-format-14)"
	@echo "make install    PREFIX=/usr/local DESTDIR="
	@echo "VARIANT=asan|tsan|debug and CC=clang choose another build"

.PHONY: check test test-long fuzz fuzz-text fuzz-models upsets golden ulp jit-speed rows-speed demo setup python layers bench docs format install clean help
.SECONDARY: $(CTEST_OBJ)
