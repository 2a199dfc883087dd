/* Threads of a GPU's kernel on the host, one after the other (jit/compile/gpu_emulate.c): how
 * tests compare bits where there is no GPU. */
#include "jit/emit/simt/emit.h"

typedef LLVMValueRef V;

static LLVMTypeRef i32(TsGpuEmit *g) { return ts_emit_int_type(g->e, 32, 0); }
static LLVMTypeRef i64(TsGpuEmit *g) { return ts_emit_int_type(g->e, 64, 0); }
static LLVMTypeRef pointer(TsGpuEmit *g) { return LLVMPointerTypeInContext(g->e->ctx, 0); }

/* void phase(void **arg, int64_t *dim, int64_t block, int32_t thread, void *shared,
 * void *env) */
static void begin(TsGpuEmit *g, const char *name) {
  TsEmit *e = g->e;
  LLVMTypeRef p = pointer(g), in[] = {p, p, i64(g), i32(g), p, p};
  e->fn = LLVMAddFunction(e->module, name,
                          LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), in, 6, 0));
  ts_emit_attribute(e, "target-cpu", e->target->cpu);
  ts_emit_attribute(e, "target-features", e->target->features);
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""));
  for (int i = 0; i < e->k->ndim; i++)
    e->dim[i] = ts_gpu_read_at(g, i64(g), LLVMGetParam(e->fn, 1), i);
  e->args = LLVMGetParam(e->fn, 0);
  for (int i = 0; !g->batch && i < e->k->nparam; i++)
    ts_gpu_memory_begin(g, e->k->param[i], ts_gpu_read_at(g, p, e->args, i));
  g->block = LLVMGetParam(e->fn, 2);
  g->tid = LLVMGetParam(e->fn, 3);
  g->shared = LLVMGetParam(e->fn, 4);
  g->env = LLVMGetParam(e->fn, 5);
}

static V scratch(TsGpuEmit *g, int i) {
  return ts_gpu_read_at(g, pointer(g), g->e->args, g->e->k->nparam + i);
}

static V word(TsGpuEmit *g, V i) {
  V at = LLVMBuildInBoundsGEP2(g->e->b, i64(g), g->e->args, &i, 1, "");
  return LLVMBuildLoad2(g->e->b, i64(g), at, "");
}

/* What the emulator gives begins with a function, and the exchange: what every thread said. */
static void meet(TsGpuEmit *g) {
  LLVMTypeRef p = pointer(g);
  LLVMTypeRef t = LLVMFunctionType(LLVMVoidTypeInContext(g->e->ctx), &p, 1, 0);
  LLVMBuildCall2(g->e->b, t, ts_gpu_read_at(g, p, g->env, 0), &g->env, 1, "");
}

static V say(TsGpuEmit *g, V x) {
  LLVMBuilderRef b = g->e->b;
  V list = ts_gpu_read_at(g, pointer(g), g->env, 1), wide = LLVMBuildZExt(b, x, i64(g), "");
  LLVMBuildStore(b, wide, LLVMBuildInBoundsGEP2(b, i64(g), list, &g->tid64, 1, ""));
  meet(g);
  return list;
}

static V said_by(TsGpuEmit *g, V list, V thread) {
  LLVMBuilderRef b = g->e->b;
  V at = LLVMBuildInBoundsGEP2(b, i64(g), list, &thread, 1, "");
  V x = LLVMBuildLoad2(b, i64(g), at, "");
  LLVMSetVolatile(x, 1);
  return LLVMBuildTrunc(b, x, i32(g), "");
}

static V equals(TsGpuEmit *g, V x) {
  LLVMBuilderRef b = g->e->b;
  V list = say(g, x), y = ts_emit_int(g->e, i32(g), 0);
  V first = LLVMBuildAnd(b, g->tid64, ts_gpu_i64(g, -TS_GPU_WARP), "");
  for (int i = 0; i < TS_GPU_WARP; i++) {
    V other = said_by(g, list, ts_gpu_add(g, first, ts_gpu_i64(g, i)));
    V same = LLVMBuildZExt(b, LLVMBuildICmp(b, LLVMIntEQ, other, x, ""), i32(g), "");
    y = LLVMBuildOr(b, y, LLVMBuildShl(b, same, ts_emit_int(g->e, i32(g), i), ""), "");
  }
  meet(g);
  return y;
}

static V shuffle(TsGpuEmit *g, V x, int mask) {
  V list = say(g, x);
  V y = said_by(g, list, LLVMBuildXor(g->e->b, g->tid64, ts_gpu_i64(g, mask), ""));
  meet(g);
  return y;
}

const TsGpuMaker ts_gpu_host = {
    .begin = begin,
    .scratch = scratch,
    .word = word,
    .sync = meet,
    .warp_sync = meet,
    .shuffle = shuffle,
    .equals = equals,
};
