/* Functions of tasks: those of kernels, but for where arguments are, which block this is, and
 * how many threads meet. See jit/emit/simt/task.h. */
#include "jit/emit/simt/task.h"

#include <stdio.h>
#include <string.h>

typedef LLVMValueRef V;

static LLVMTypeRef device_pointer(TsEmit *e) { return LLVMPointerTypeInContext(e->ctx, 1); }

V ts_gpu_task_function(TsEmit *e, const char *name) {
  LLVMTypeRef in[2] = {device_pointer(e), ts_emit_int_type(e, 32, 0)};
  LLVMTypeRef t = LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), in, 2, 0);
  unsigned kind = LLVMGetEnumAttributeKindForName("alwaysinline", 12);
  e->fn = LLVMAddFunction(e->module, name, t);
  LLVMSetLinkage(e->fn, LLVMInternalLinkage);
  LLVMAddAttributeAtIndex(e->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(e->ctx, kind, 0));
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""));
  return e->fn;
}

V ts_gpu_task_word(TsEmit *e, int i) {
  V at = ts_emit_i64(e, i), words = LLVMGetParam(e->fn, 0);
  LLVMTypeRef t = ts_emit_int_type(e, 64, 0);
  return LLVMBuildLoad2(e->b, t, LLVMBuildInBoundsGEP2(e->b, t, words, &at, 1, ""), "");
}

V ts_gpu_task_pointer(TsEmit *e, int i) {
  return LLVMBuildIntToPtr(e->b, ts_gpu_task_word(e, i), device_pointer(e), "");
}

/* ---- kernels in block form */
static void begin(TsGpuEmit *g, const char *name) {
  TsEmit *e = g->e;
  const TsTile *k = e->k;
  ts_gpu_task_function(e, name);
  g->after = NULL, g->awaited_in = NULL, g->awaited = g->dependent = false;
  for (int i = 0; i < k->ndim; i++)
    e->dim[i] = ts_gpu_task_word(e, k->nparam + g->nscratch + i);
  for (int i = 0; i < k->nparam; i++)
    ts_gpu_memory_begin(g, k->param[i], ts_gpu_task_pointer(e, i));
  g->tid = ts_emit_call(e, g->maker->thread, 0, NULL, 0, NULL);
  if (g->task_from)
    g->tid = LLVMBuildSub(e->b, g->tid,
                          ts_emit_int(e, ts_emit_int_type(e, 32, 0), g->task_from), "");
  g->block = LLVMBuildZExt(e->b, LLVMGetParam(e->fn, 1), ts_emit_int_type(e, 64, 0), "");
  g->shared = ts_gpu_shared_memory(g);
  g->own_shared = NULL;
}

static V scratch(TsGpuEmit *g, int i) { return ts_gpu_task_pointer(g->e, g->e->k->nparam + i); }

/* Other threads of the block wait at another barrier. */
static void sync(TsGpuEmit *g) {
  if (g->phase->rounds > 1) {
    ts_gpu_nvidia.sync(g);
    return;
  }
  char text[32];
  snprintf(text, sizeof text, "bar.sync 0, %d;", g->threads);
  LLVMTypeRef t = LLVMFunctionType(LLVMVoidTypeInContext(g->e->ctx), NULL, 0, 0);
  V f = LLVMGetInlineAsm(t, text, strlen(text), "~{memory}", 9, true, 0,
                         LLVMInlineAsmDialectATT, 0);
  V call = LLVMBuildCall2(g->e->b, t, f, NULL, 0, "");
  unsigned kind = LLVMGetEnumAttributeKindForName("convergent", 10);
  LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                           LLVMCreateEnumAttribute(g->e->ctx, kind, 0));
}

const TsGpuMaker *ts_gpu_task_maker(TsEmit *e) {
  TsGpuMaker *m = ts_emit_take(e, sizeof *m);
  *m = ts_gpu_nvidia;
  m->begin = begin, m->scratch = scratch, m->sync = sync;
  m->order = NULL, m->await_last = NULL, m->word = NULL, m->cycles = NULL;
  return m;
}
