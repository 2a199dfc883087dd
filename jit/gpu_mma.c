/* PTX of kernels with roles: LLVM's NVPTX target around jit/emit_mma.c. See jit/gpu_mma.h. */
#include "jit/gpu_mma.h"

#ifdef TS_LLVM

#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <llvm/Config/llvm-config.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "jit/emit_mma.h"

/* The loop of products is what the Tile IR says it is; addresses leave it, and that is all. */
static const char passes[] =
    "function(sroa,early-cse,instsimplify,simplifycfg,loop-mssa(licm),early-cse)";

static void start(void) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
}

typedef struct Work {
  TsEmit e;
  TsJitTarget target;
  LLVMTargetMachineRef machine;
  TsGpuMma *info;
  TsText *text;
  TsError *err;
  jmp_buf out;
} Work;

static int failed(Work *w, const char *what, char *text) {
  ts_error_set(w->err, TS_ERR_device, "jit: LLVM: %s: %s", what, text ? text : "");
  if (text) LLVMDisposeMessage(text);
  return -1;
}

static int make_machine(Work *w) {
  LLVMTargetRef target;
  char *text = NULL;
  if (LLVMGetTargetFromTriple(w->target.triple, &target, &text))
    return failed(w, w->target.triple, text);
  w->machine =
      LLVMCreateTargetMachine(target, w->target.triple, w->target.cpu, w->target.features,
                              LLVMCodeGenLevelDefault, LLVMRelocDefault, LLVMCodeModelDefault);
  return w->machine ? 0 : failed(w, "no target machine for", NULL);
}

static void begin_module(Work *w) {
  TsEmit *e = &w->e;
  e->ctx = LLVMContextCreate();
  e->module = LLVMModuleCreateWithNameInContext("kernel", e->ctx);
  e->b = LLVMCreateBuilderInContext(e->ctx);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(w->machine);
  LLVMSetModuleDataLayout(e->module, layout);
  LLVMDisposeTargetData(layout);
  LLVMSetTarget(e->module, w->target.triple);
}

static int run_passes(Work *w) {
  char *text = NULL;
  if (LLVMVerifyModule(w->e.module, LLVMReturnStatusAction, &text))
    return failed(w, "the module is not valid", text);
  LLVMDisposeMessage(text);
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(w->e.module, passes, w->machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (!error) return 0;
  char *message = LLVMGetErrorMessage(error);
  ts_error_set(w->err, TS_ERR_device, "jit: LLVM: %s", message);
  LLVMDisposeErrorMessage(message);
  return -1;
}

static int compile(Work *w, bool llvm) {
  char *text = NULL;
  LLVMMemoryBufferRef ptx = NULL;
  if (make_machine(w)) return -1;
  begin_module(w);
  ts_emit_mma_module(&w->e, w->info);
  if (run_passes(w)) return -1;
  if (llvm) {
    text = LLVMPrintModuleToString(w->e.module);
    ts_text_str(w->text, text);
    LLVMDisposeMessage(text);
    return 0;
  }
  if (LLVMTargetMachineEmitToMemoryBuffer(w->machine, w->e.module, LLVMAssemblyFile, &text,
                                          &ptx))
    return failed(w, "no code", text);
  ts_text_add(w->text, LLVMGetBufferStart(ptx), LLVMGetBufferSize(ptx));
  LLVMDisposeMemoryBuffer(ptx);
  return w->text->failed ? ts_error_set(w->err, TS_ERR_memory, "jit: no memory") : 0;
}

static void end(Work *w) {
  if (w->e.b) LLVMDisposeBuilder(w->e.b);
  if (w->e.module) LLVMDisposeModule(w->e.module);
  if (w->machine) LLVMDisposeTargetMachine(w->machine);
  if (w->e.ctx) LLVMContextDispose(w->e.ctx);
  ts_arena_free(&w->e.arena);
  free(w);
}

int ts_gpu_mma_text(const TsTile *k, bool llvm, TsGpuMma *info, TsText *text, TsError *err) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  TsTile *expanded = ts_tile_expand(k, err);
  Work *w = expanded ? calloc(1, sizeof *w) : NULL;
  int how = -1;
  if (w) {
    pthread_once(&once, start);
    w->target = (TsJitTarget){.tile = {.name = k->target, .fma = true},
                              .triple = "nvptx64-nvidia-cuda",
                              .cpu = k->target,
                              .features = "+ptx83",
                              .half = true,
                              .round = true};
    w->info = info, w->text = text, w->err = err;
    w->e.k = expanded, w->e.target = &w->target, w->e.err = err, w->e.out = &w->out;
    how = setjmp(w->out) ? -1 : compile(w, llvm);
    end(w);
  } else if (expanded) {
    ts_error_set(err, TS_ERR_memory, "jit: no memory");
  }
  ts_tile_free(expanded);
  return how;
}

#else

int ts_gpu_mma_text(const TsTile *k, bool llvm, TsGpuMma *info, TsText *text, TsError *err) {
  (void)k, (void)llvm, (void)info, (void)text;
  ts_error_set(err, TS_ERR_device, "jit: this tessera was built without LLVM");
  return ts_error_hint(err, "install llvm-22-dev (scripts/setup.sh does) and build again");
}

#endif
