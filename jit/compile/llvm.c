/* Context, verification, passes, machine code. See jit/compile/llvm.h.
 *
 * LLVM ends the process where it cannot go on, and where memory runs out. Its handler, and the
 * one of malloc, leave by longjmp instead: over frames of C++ that are not unwound, so what they
 * own is lost, and the context with it. That is some memory for a kernel that could not be
 * compiled, and the program lives. Where there is little left nothing is begun. */
#include "lib/clock.h"
#include "lib/activity.h"
#include "jit/compile/llvm.h"

#ifdef TS_LLVM

#include <llvm-c/Analysis.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <llvm/Config/llvm-config.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "devices/memory.h"
#include "jit/compile/spirv.h"
#include "jit/emit/cpu/emit.h"

/* What the emitter writes is already in vectors and registers, with what does not change before
 * the loop, and the code generator combines instructions itself: default<O2> takes twice the
 * time of everything for the same speed (docs/performance_notes.md has the numbers). */
static const char usual_passes[] = "function(early-cse)";

/* Steps of the code generator that cost more than they bring here: positions are one counter and
 * constants, so no loop needs to be reduced in strength. Scheduling stays: without it a softmax
 * takes a fifth longer. */
static const char *const options[] = {"tessera", "-disable-lsr", "-disable-cgp",
#ifdef TS_LLVM_SPIRV
                                      /* shuffles; a clock, of profile marks; what else code
                                       * may need of SPIR-V 1.2 */
                                      "-spirv-ext=+SPV_INTEL_subgroups,+SPV_KHR_shader_clock"
#if LLVM_VERSION_MAJOR >= 22
                                      /* the target "cooperative" */
                                      ",+SPV_KHR_cooperative_matrix,+SPV_KHR_bfloat16"
#endif
#endif
};

typedef struct Work {
  TsEmit e;
  const char *passes;
  LLVMTargetMachineRef machine;
  LLVMMemoryBufferRef object;
  LLVMCodeGenFileType kind;
  bool readable; /* values keep their names */
  TsLlvmEmit *emit;
  void *arg;
  char *text;
  TsError *err;
  jmp_buf out;
} Work;

static _Thread_local Work *current;

static void fatal(const char *reason) {
  if (!current) return; /* LLVM ends the process */
  ts_error_set(current->err, TS_ERR_device, "jit: LLVM: %s", reason);
  longjmp(current->out, 2);
}

enum {
  LEAST_LEFT = 64 << 20 /* bytes, before a compile begins: a kernel takes up to a third */
};

static void refused(size_t n) {
  (void)n;
  ts_memory_on_refusal(NULL);
  ts_error_set(current->err, TS_ERR_memory, "jit: out of memory while LLVM compiles");
  longjmp(current->out, 2);
}

/* Back ends begin once, and cannot be left: they have what they ask for. The system was asked before
 * whether it has that. */
static void given(size_t n) { (void)n; }

/* What the system would give now, if it were asked. */
static bool is_room(void) {
  void *p = ts_memory_map(LEAST_LEFT);
  if (p) munmap(p, LEAST_LEFT);
  return p != NULL;
}

static void diagnose(LLVMDiagnosticInfoRef info, void *arg) {
  Work *w = arg;
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
  char *text = LLVMGetDiagInfoDescription(info);
  ts_error_set(w->err, TS_ERR_device, "jit: LLVM: %s", text);
  LLVMDisposeMessage(text);
  longjmp(w->out, 1);
}

static void start(void) {
  LLVMInstallFatalErrorHandler(fatal);
  LLVMParseCommandLineOptions(sizeof options / sizeof *options, options, NULL);
#if defined __x86_64__
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeX86AsmParser(); /* of inline assembly */
#endif
}

static void start_nvidia(void) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
}

static void start_amd(void) {
  LLVMInitializeAMDGPUTargetInfo();
  LLVMInitializeAMDGPUTarget();
  LLVMInitializeAMDGPUTargetMC();
  LLVMInitializeAMDGPUAsmPrinter();
}

static void start_spirv(void) {
#ifdef TS_LLVM_SPIRV
  LLVMInitializeSPIRVTargetInfo();
  LLVMInitializeSPIRVTarget();
  LLVMInitializeSPIRVTargetMC();
  LLVMInitializeSPIRVAsmPrinter();
#endif
}

static void start_gpu(TsTargetMaker maker) {
  static struct {
    void (*start)(void);
    pthread_once_t once;
  } row[] = {[TS_MAKER_nvidia] = {start_nvidia, PTHREAD_ONCE_INIT},
             [TS_MAKER_amd] = {start_amd, PTHREAD_ONCE_INIT},
             [TS_MAKER_spirv] = {start_spirv, PTHREAD_ONCE_INIT}};
  pthread_once(&row[maker].once, row[maker].start);
}

#ifdef TS_LLVM_SPIRV
static const bool has_spirv = true;
#else
static const bool has_spirv = false;
#endif

static int failed(Work *w, const char *what, char *text) {
  ts_error_set(w->err, TS_ERR_device, "jit: LLVM: %s: %s", what, text ? text : "");
  if (text) LLVMDisposeMessage(text);
  return -1;
}

/* A machine keeps tables for its instruction set, which take a millisecond to make: those that
 * no compile uses wait here for the next one. That of SPIR-V keeps types of a module's values as
 * well, by their addresses, and is for one module. */
static struct {
  pthread_mutex_t lock;
  struct {
    LLVMTargetMachineRef machine;
    const char *triple, *cpu, *features;
  } idle[4];
} machines = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum { IDLE = sizeof machines.idle / sizeof *machines.idle };

static LLVMTargetMachineRef take_machine(const TsTarget *t) {
  LLVMTargetMachineRef found = NULL;
  pthread_mutex_lock(&machines.lock);
  for (int i = 0; i < IDLE && !found; i++)
    if (machines.idle[i].machine && machines.idle[i].features == t->features &&
        machines.idle[i].triple == t->triple && machines.idle[i].cpu == t->cpu) {
      found = machines.idle[i].machine;
      machines.idle[i].machine = NULL;
    }
  pthread_mutex_unlock(&machines.lock);
  return found;
}

static void put_machine(const TsTarget *t, LLVMTargetMachineRef machine) {
  if (t->maker == TS_MAKER_spirv) {
    LLVMDisposeTargetMachine(machine);
    return;
  }
  pthread_mutex_lock(&machines.lock);
  for (int i = 0; i < IDLE && machine; i++) {
    if (machines.idle[i].machine) continue;
    machines.idle[i].machine = machine;
    machines.idle[i].features = t->features;
    machines.idle[i].triple = t->triple;
    machines.idle[i].cpu = t->cpu;
    machine = NULL;
  }
  pthread_mutex_unlock(&machines.lock);
  if (machine) LLVMDisposeTargetMachine(machine);
}

/* No flag here or in the IR lets LLVM change a rounding: contraction needs the flag `contract`,
 * and denormals are kept unless an attribute says otherwise. */
static int make_machine(Work *w) {
  const TsTarget *t = w->e.target;
  LLVMTargetRef target;
  char *text = NULL;
  if ((w->machine = take_machine(t))) return 0;
  if (LLVMGetTargetFromTriple(t->triple, &target, &text)) return failed(w, t->triple, text);
  w->machine =
      LLVMCreateTargetMachine(target, t->triple, t->cpu, t->features, LLVMCodeGenLevelDefault,
                              LLVMRelocPIC, LLVMCodeModelSmall);
  return w->machine ? 0 : failed(w, "no target machine for", NULL);
}

static void begin_module(Work *w) {
  TsEmit *e = &w->e;
  e->ctx = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(e->ctx, diagnose, w);
  LLVMContextSetDiscardValueNames(e->ctx, !w->readable);
  e->module = LLVMModuleCreateWithNameInContext("kernel", e->ctx);
  e->b = LLVMCreateBuilderInContext(e->ctx);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(w->machine);
  LLVMSetModuleDataLayout(e->module, layout);
  LLVMDisposeTargetData(layout);
  LLVMSetTarget(e->module, e->target->triple);
}

static int run_passes(Work *w) {
  char *text = NULL;
  if (LLVMVerifyModule(w->e.module, LLVMReturnStatusAction, &text))
    return failed(w, "the module is not valid", text);
  LLVMDisposeMessage(text);
  if (!*w->passes || w->e.unit) return 0;
  LLVMPassBuilderOptionsRef settings = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(w->e.module, w->passes, w->machine, settings);
  LLVMDisposePassBuilderOptions(settings);
  if (!error) return 0;
  char *message = LLVMGetErrorMessage(error);
  ts_error_set(w->err, TS_ERR_device, "jit: LLVM: %s", message);
  LLVMDisposeErrorMessage(message);
  return -1;
}

static atomic_int broken;

void ts_llvm_break(int compiles) { broken = compiles; }

/* The function that was emitted last asks for what its machine has not. */
static void break_module(TsEmit *e) {
  if (broken <= 0 || atomic_fetch_sub(&broken, 1) <= 0) return;
  LLVMPositionBuilderBefore(e->b, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(e->fn)));
  ts_emit_call(e, "llvm.nvvm.membar.gl", 0, NULL, 0, NULL);
}

static int compile(Work *w, bool as_ir) {
  char *text = NULL;
  if (make_machine(w)) return -1;
  begin_module(w);
  w->emit(&w->e, w->arg);
  break_module(&w->e);
  if (run_passes(w)) return -1;
  if (as_ir) return w->text = LLVMPrintModuleToString(w->e.module), 0;
  if (LLVMTargetMachineEmitToMemoryBuffer(w->machine, w->e.module, w->kind, &text, &w->object))
    return failed(w, "no code", text);
  return 0;
}

static void end(Work *w, bool lost) {
  if (w->object) LLVMDisposeMemoryBuffer(w->object);
  if (w->text) LLVMDisposeMessage(w->text);
  if (!lost) {
    if (w->e.b) LLVMDisposeBuilder(w->e.b);
    if (w->e.module) LLVMDisposeModule(w->e.module);
    if (w->machine) put_machine(w->e.target, w->machine);
    if (w->e.ctx) LLVMContextDispose(w->e.ctx);
  }
  ts_arena_free(&w->e.arena);
  free(w);
}

static void emit_cpu(TsEmit *e, void *arg) {
  (void)arg;
  ts_emit_module(e);
}

static Work *begin(const TsTile *k, const TsTarget *t, const char *passes, TsError *err) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (!t->triple)
    return ts_error_set(err, TS_ERR_device, "jit: no code for this machine"), NULL;
  Work *w = calloc(1, sizeof *w);
  if (!w) return ts_error_set(err, TS_ERR_memory, "jit: out of memory"), NULL;
  if (t->maker == TS_MAKER_spirv && !has_spirv) {
    free(w);
    ts_error_set(err, TS_ERR_device,
                 "jit: LLVM %s, with which this tessera was built, has no SPIR-V",
                 LLVM_VERSION_STRING);
    ts_error_hint(err, "install llvm-22-dev (scripts/setup.sh does) and build again");
    return NULL;
  }
  if (!is_room()) {
    free(w);
    ts_error_set(err, TS_ERR_memory, "jit: out of memory, before LLVM begins");
    return NULL;
  }
  ts_memory_on_refusal(given);
  pthread_once(&once, start);
  if (ts_target_gpu(t)) start_gpu(t->maker);
  ts_memory_on_refusal(NULL);
  w->emit = emit_cpu;
  w->passes = passes ? passes : usual_passes;
  w->err = err;
  w->kind = LLVMObjectFile;
  w->e.k = k, w->e.target = t, w->e.err = err, w->e.out = &w->out;
  return w;
}

/* 0, or 1 when the module was left in good order, 2 when LLVM gave up within its own code. */
static int guarded(Work *w, bool as_ir) {
  bool aside = !ts_activities && ts_activity_anywhere();
  int64_t start = aside ? ts_clock_nsec() : 0;
  TsActivity *node = ts_activity_begin(TS_ACTIVITY_compile, w->e.k->name, NULL);
  current = w;
  int how = setjmp(w->out);
  if (!how) {
    ts_memory_on_refusal(refused);
    how = compile(w, as_ir) ? 1 : 0;
  }
  ts_memory_on_refusal(NULL);
  current = NULL;
  ts_activity_end(node, 0, 0);
  if (aside) ts_activity_compiled_aside(ts_clock_nsec() - start);
  return how;
}

static int emit_once(const TsTile *k, const TsTarget *t, const char *passes, TsLlvmForm form,
                     TsLlvmEmit *emit, void *arg, TsText *text, TsError *err) {
  Work *w = begin(k, t, passes, err);
  if (!w) return -1;
  w->emit = emit, w->arg = arg;
  w->kind = form == TS_LLVM_object ? LLVMObjectFile : LLVMAssemblyFile;
  w->readable = form == TS_LLVM_ir;
  int how = guarded(w, form == TS_LLVM_ir);
  if (!how && form == TS_LLVM_ir)
    ts_text_str(text, w->text);
  else if (!how)
    ts_text_add(text, LLVMGetBufferStart(w->object), LLVMGetBufferSize(w->object));
  end(w, how == 2);
  return how ? -1 : 0;
}

/* LLVM's SPIR-V has one state for the whole process: by the address of a machine function it knows
 * ids of blocks for ever. So modules are made one at a time, and looked at. What is not sound is
 * made again at another address: each time twice as many blocks of that size are held, until none
 * is left that was there before. */
static int emit_spirv(const TsTile *k, const TsTarget *t, const char *passes, TsLlvmForm form,
                      TsLlvmEmit *emit, void *arg, TsText *text, TsError *err) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  enum { TRIES = 14, LEAST = 1 << 10, STEP = 16, SIZES = 8 }; /* LLVM 22's has 1072 bytes */
  int (*is_sound)(const void *, size_t) =
      form == TS_LLVM_object ? ts_spirv_sound : ts_spirv_sound_text;
  struct Held {
    struct Held *last;
  } *held = NULL;
  int failed = 0, tries = 0, sound = 0;
  size_t from = text->len;
  pthread_mutex_lock(&lock);
  while (!sound && !failed && tries < TRIES) {
    for (int n = 1 << tries; tries && n; n--) {
      struct Held *next = malloc(LEAST + n % SIZES * STEP);
      if (!next) break;
      next->last = held, held = next;
    }
    tries++;
    text->len = from;
    failed = emit_once(k, t, passes, form, emit, arg, text, err);
    sound = failed || text->failed || form == TS_LLVM_ir
                ? 1
                : is_sound(text->at + from, text->len - from);
    if (sound < 0) failed = ts_error_set(err, TS_ERR_memory, "jit: out of memory");
  }
  pthread_mutex_unlock(&lock);
  for (struct Held *last; held; held = last) last = held->last, free(held);
  if (!sound) ts_error_set(err, TS_ERR_device, "jit: LLVM: SPIR-V in which ids are not unique");
  return failed || !sound ? -1 : 0;
}

int ts_llvm_emit(const TsTile *k, const TsTarget *t, const char *passes, TsLlvmForm form,
                 TsLlvmEmit *emit, void *arg, TsText *text, TsError *err) {
  return (t->maker == TS_MAKER_spirv ? emit_spirv : emit_once)(k, t, passes, form, emit, arg,
                                                               text, err);
}

bool ts_llvm_present(void) { return true; }
const char *ts_llvm_version(void) { return LLVM_VERSION_STRING; }

int ts_llvm_object(const TsTile *k, const TsTarget *t, const char *passes, void **object,
                   size_t *nbytes, TsError *err) {
  Work *w = begin(k, t, passes, err);
  if (!w) return -1;
  int how = guarded(w, false);
  if (!how) {
    *nbytes = LLVMGetBufferSize(w->object);
    *object = malloc(*nbytes ? *nbytes : 1);
    if (*object)
      memcpy(*object, LLVMGetBufferStart(w->object), *nbytes);
    else
      how = 1, ts_error_set(err, TS_ERR_memory, "jit: out of memory");
  }
  end(w, how == 2);
  return how ? -1 : 0;
}

int ts_llvm_text(const TsTile *k, const TsTarget *t, bool assembly, TsText *text,
                 TsError *err) {
  Work *w = begin(k, t, NULL, err);
  if (!w) return -1;
  w->kind = assembly ? LLVMAssemblyFile : LLVMObjectFile;
  w->readable = w->e.lines = true;
  int how = guarded(w, !assembly);
  if (!how && assembly)
    ts_emit_lines_text(k, true, LLVMGetBufferStart(w->object), LLVMGetBufferSize(w->object),
                       text);
  else if (!how)
    ts_emit_lines_text(k, false, w->text, strlen(w->text), text);
  end(w, how == 2);
  return how ? -1 : 0;
}

#else

static int absent(TsError *err) {
  ts_error_set(err, TS_ERR_device, "jit: this tessera was built without LLVM");
  return ts_error_hint(err, "install llvm-22-dev (scripts/setup.sh does) and build again");
}

bool ts_llvm_present(void) { return false; }
const char *ts_llvm_version(void) { return ""; }
void ts_llvm_break(int compiles) { (void)compiles; }

int ts_llvm_object(const TsTile *k, const TsTarget *t, const char *passes, void **object,
                   size_t *nbytes, TsError *err) {
  (void)k, (void)t, (void)passes, (void)object, (void)nbytes;
  return absent(err);
}

int ts_llvm_emit(const TsTile *k, const TsTarget *t, const char *passes, TsLlvmForm form,
                 TsLlvmEmit *emit, void *arg, TsText *text, TsError *err) {
  (void)k, (void)t, (void)passes, (void)form, (void)emit, (void)arg, (void)text;
  return absent(err);
}

int ts_llvm_text(const TsTile *k, const TsTarget *t, bool assembly, TsText *text,
                 TsError *err) {
  (void)k, (void)t, (void)assembly, (void)text;
  return absent(err);
}

#endif
