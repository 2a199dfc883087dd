# Tessera. `make` builds bin/tessera; `make help` lists everything else.
# Variants: make CC=clang, make VARIANT=asan, make VARIANT=tsan, make VARIANT=debug.

ifeq ($(origin CC),default)
CC := gcc
endif
VARIANT  ?= release
PREFIX   ?= /usr/local
VERSION  := 0.1.0
BUILD    := build/$(VARIANT)$(if $(findstring clang,$(CC)),-clang)
BIN      := $(if $(filter build/release,$(BUILD)),bin/tessera,$(BUILD)/tessera)

WARN  := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef \
         -Wpointer-arith -Wwrite-strings
MODE_release := -O2
MODE_debug   := -O0 -g
MODE_asan    := -O1 -g -fsanitize=address,undefined,float-cast-overflow \
                -fno-sanitize-recover=undefined,float-cast-overflow \
                -fno-omit-frame-pointer
MODE_tsan    := -O1 -g -fsanitize=thread -fno-omit-frame-pointer
CFLAGS   += -std=gnu11 $(WARN) $(MODE_$(VARIANT)) -ffp-contract=off -fno-math-errno \
            -fno-trapping-math -ffunction-sections -fdata-sections -fno-pie
CPPFLAGS += -I. -D_GNU_SOURCE -DTS_VERSION='"$(VERSION)"'
LDFLAGS  += -no-pie -Wl,--gc-sections $(if $(filter asan tsan,$(VARIANT)),,-static-libgcc) $(filter -fsanitize%,$(MODE_$(VARIANT)))

# Every malloc of the program, and of the libraries in it, is that of devices/heap.c; every lock goes by
# devices/held.c.
HEAP := $(foreach f,malloc calloc realloc aligned_alloc posix_memalign strdup strndup __register_frame \
        pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock pthread_rwlock_rdlock \
        pthread_rwlock_tryrdlock pthread_rwlock_wrlock pthread_rwlock_trywrlock pthread_rwlock_unlock \
        pthread_once __cxa_guard_acquire __cxa_guard_release __cxa_guard_abort, \
        -Wl,--wrap=$(strip $(f)))
# The one call by which LuaJIT draws a seed (repl/main.c).
SEED := -Wl,--wrap=syscall

# LuaJIT and LAPACK are linked statically: one program, and bits that do not
# depend on which BLAS a machine has installed.
LUA_CFLAGS := $(shell pkg-config --cflags luajit 2>/dev/null || echo -I/usr/include/luajit-2.1)
LUA_LIB    := $(firstword $(wildcard /usr/lib/*/libluajit-5.1.a /usr/lib/libluajit-5.1.a) -lluajit-5.1)
LUA_SHARE  := $(firstword $(wildcard /usr/share/luajit-2.1*/jit))
LAPACK_LIB := $(firstword $(wildcard /usr/lib/*/lapack/liblapack.a)) \
              $(firstword $(wildcard /usr/lib/*/blas/libblas.a))
CJSON_LIB  := $(firstword $(wildcard /usr/lib/*/liblua5.1-cjson.a))
Z_LIB      := $(and $(wildcard /usr/include/zlib.h),$(firstword $(wildcard /usr/lib/*/libz.a /usr/lib/libz.a)))
# Unicode's tables and regular expressions, for tokenizers.
UTF8_LIB   := $(firstword $(wildcard /usr/lib/*/libutf8proc.a /usr/lib/libutf8proc.a) -lutf8proc)
PCRE_LIB   := $(firstword $(wildcard /usr/lib/*/libpcre2-8.a /usr/lib/libpcre2-8.a) -lpcre2-8)
# A server of HTTP, for --serve; without it the program is the same but for that.
EVENT_HAVE := $(shell pkg-config --exists 'libevent >= 2.1' 2>/dev/null && echo yes)
EVENT_LIB  := $(if $(EVENT_HAVE),$(firstword $(wildcard /usr/lib/*/libevent.a /usr/lib/libevent.a) -levent))
FFI_LIB    := $(firstword $(wildcard /usr/lib/*/libffi.a /usr/lib/libffi.a) -lffi)
LIBS       := $(CJSON_LIB) $(LUA_LIB) $(FFI_LIB) $(UTF8_LIB) $(PCRE_LIB) $(EVENT_LIB) $(LAPACK_LIB) -Wl,-Bstatic -lgfortran -lquadmath -Wl,-Bdynamic \
              $(Z_LIB) -lm -ldl -lpthread

# LLVM generates code while the program runs: the newest that is there, linked statically. Without
# it the program is the same but for that. A target is one word more in LLVM_PARTS and four calls
# in jit/compile/llvm.c. LLVM= builds without.
LLVM       ?= $(firstword $(wildcard $(foreach v,22 21 20 19,/usr/lib/llvm-$(v)/bin/llvm-config)))
LLVM_PARTS := x86codegen x86asmparser nvptxcodegen amdgpucodegen passes
# Not every LLVM has it: 19 does not.
LLVM_SPIRV := $(if $(LLVM),$(wildcard $(shell $(LLVM) --libdir)/libLLVMSPIRVCodeGen.a))
LLVM_PARTS += $(if $(LLVM_SPIRV),spirvcodegen)
LLVM_HAVE  := $(if $(LLVM),$(and $(wildcard $(shell $(LLVM) --libdir)/libLLVMPasses.a),\
              $(wildcard $(shell $(CC) -print-file-name=libstdc++.a))))
ifneq ($(LLVM_HAVE),)
LLVM_CFLAGS := -isystem $(shell $(LLVM) --includedir) -DTS_LLVM $(if $(LLVM_SPIRV),-DTS_LLVM_SPIRV)
LIBS        += $(shell $(LLVM) --link-static --libfiles $(LLVM_PARTS)) \
               $(foreach l,z zstd stdc++,-l:lib$(l).a) -lm -ldl -lpthread
else
NO_LLVM     := jit/emit/%.c
endif

# lld folds equal functions, but not those that are told apart by their address, and keeps what
# runs at the start together: half of the start's time and memory with LLVM in the program.
LLD := $(firstword $(wildcard $(if $(LLVM),$(dir $(LLVM))ld.lld) /usr/bin/ld.lld))
UNIQUE := ts_adjoint_zero $(addprefix ts_dtype_rule_,same float arith promote real angle)
ifneq ($(and $(LLD),$(filter release,$(VARIANT))),)
LDFLAGS += -B$(dir $(LLD)) -fuse-ld=lld
FOLD    := -Wl,--icf=all -Wl,-z,keep-text-section-prefix $(UNIQUE:%=-Wl,--keep-unique=%)
endif

# Instruction sets of the CPU kernels (vm/kernels/simd/isa.h).
ARCH := $(shell $(CC) -dumpmachine | cut -d- -f1)
ISA  := $(if $(filter x86_64,$(ARCH)),avx512 avx2) base
ISA_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mfma -mf16c -mavx2 -mbmi \
              -mbmi2 -mlzcnt -mprefer-vector-width=512
ISA_avx2   := -mavx2 -mfma -mf16c -mbmi -mbmi2 -mlzcnt
ISA_base   :=
KFLAGS     := $(if $(filter release,$(VARIANT)),$(filter-out -O2,$(CFLAGS)) -O3,$(CFLAGS))

# A folder's rooms are its folders, at most two deep.
files = $(foreach d,$(1),$(wildcard $(foreach r,$(d) $(d)/* $(d)/*/*,$(r)/*.$(2))))
KSRC := $(call files,vm/kernels,c)
SRC  := $(filter-out $(KSRC) $(NO_LLVM),$(call files,lib devices text net ir vm jit repl,c))
LUA  := $(wildcard lib/lua/*.lua lib/lua/*/*.lua lib/lua/*/*/*.lua)
OBJ  := $(SRC:%.c=$(BUILD)/%.o) $(foreach i,$(ISA),$(KSRC:%.c=$(BUILD)/%.$(i).o)) \
        $(BUILD)/embed.o
CORE := $(filter-out $(BUILD)/repl/main.o,$(OBJ))

all: $(BIN)

$(BIN): $(OBJ)
	@mkdir -p $(@D)
	@echo "  link   $@"
	@$(CC) $(LDFLAGS) $(HEAP) $(SEED) $(FOLD) -o $@ $(OBJ) $(LIBS)

$(BUILD)/repl/%.o $(BUILD)/tests/repl/%.o: CPPFLAGS += $(LUA_CFLAGS)
$(BUILD)/jit/%.o: CPPFLAGS += $(LLVM_CFLAGS)
$(BUILD)/lib/inflate.o: CPPFLAGS += $(if $(Z_LIB),-DTS_ZLIB)
$(BUILD)/net/http/%.o: CPPFLAGS += $(if $(EVENT_HAVE),-DTS_EVENT $(shell pkg-config --cflags libevent))
$(BUILD)/embed.o: CPPFLAGS += $(LUA_CFLAGS)

# `make install PREFIX=..` after a plain make rebuilds what knows the prefix.
$(BUILD)/repl/run.o: CPPFLAGS += -DTS_PREFIX='"$(PREFIX)"'
$(BUILD)/repl/run.o: $(BUILD)/prefix
$(BUILD)/prefix: FORCE
	@mkdir -p $(@D)
	@echo '$(PREFIX)' | cmp -s - $@ || echo '$(PREFIX)' > $@

# Generated code on disk is that of these sources: other sources, other names. Targets stand in
# devices/; of vm/, emitters take this header alone.
CODE := $(sort $(foreach e,c h inc def,$(call files,lib devices ir jit,$(e))) vm/kernels/rows/reduce.h)
$(BUILD)/jit/code/version.o: CPPFLAGS += -DTS_CODE='"$(shell cat $(CODE) | sha256sum | cut -c1-16)"'
$(BUILD)/jit/code/version.o: $(CODE)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  cc     $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

define ISA_RULE
$(BUILD)/%.$(1).o: %.c
	@mkdir -p $$(@D)
	@echo "  cc     $$< ($(1))"
	@$$(CC) $$(CPPFLAGS) $$(KFLAGS) $$(ISA_$(1)) -DTS_ISA_$(1) -MMD -MP -c -o $$@ $$<
endef
$(foreach i,$(ISA),$(eval $(call ISA_RULE,$(i))))

# The Lua library, and LuaJIT's own jit.* modules, become part of the program.
$(BUILD)/embed.c: scripts/embed.sh $(LUA)
	@mkdir -p $(@D)
	@sh scripts/embed.sh $(LUA_SHARE) $(LUA) > $@
$(BUILD)/embed.o: $(BUILD)/embed.c
	@$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

-include $(OBJ:.o=.d)

include scripts/targets.mk

.PHONY: all FORCE
