/* Many runs of a kernel in one launch, as the kernel sees it (run_many of
 * jit/device/gpu_kernel.c starts it).
 *
 * A model has a hundred parameters of all sizes, and an optimiser's step of one is a launch of
 * some microseconds, most of which are its beginning and its end. In this form a kernel has a
 * table among its arguments, which lie in the memory of constants: for each run the number of
 * its first block, and a row with the addresses of its parameters and its size 0. A block looks
 * itself up by halves and goes on as if it were of that run alone; other sizes are those of all
 * runs. Rejected: a table in the device's memory (it has to be moved when an address changes,
 * in the order of launches that are recorded), a row of blocks for each run (all would have as
 * many as the largest). */
#include <string.h>

#include "jit/emit/simt/emit.h"

typedef LLVMValueRef V;

static LLVMTypeRef i64(TsGpuEmit *g) { return ts_emit_int_type(g->e, 64, 0); }

LLVMTypeRef ts_gpu_batch_type(TsGpuEmit *g) {
  return LLVMArrayType2(i64(g), TS_GPU_BATCH_WORDS);
}

void ts_gpu_batch_declare(TsGpuEmit *g) {
  LLVMAttributeRef a = LLVMCreateTypeAttribute(
      g->e->ctx, LLVMGetEnumAttributeKindForName(g->maker->by, strlen(g->maker->by)),
      ts_gpu_batch_type(g));
  LLVMAddAttributeAtIndex(g->e->fn, 1, a);
  a = LLVMCreateEnumAttribute(g->e->ctx, LLVMGetEnumAttributeKindForName("align", 5), 8);
  LLVMAddAttributeAtIndex(g->e->fn, 1, a);
}

static V word(TsGpuEmit *g, V i) { return g->maker->word(g, i); }

/* The last run whose first block is not behind this one; the table ends with the largest
 * number. */
static V find_run(TsGpuEmit *g) {
  LLVMBuilderRef b = g->e->b;
  V run = ts_gpu_i64(g, 0);
  for (int step = TS_GPU_BATCH_RUNS / 2; step; step /= 2) {
    V next = ts_gpu_add(g, run, ts_gpu_i64(g, step));
    V before = LLVMBuildICmp(b, LLVMIntSLE, word(g, next), g->block, "");
    run = LLVMBuildSelect(b, before, next, run, "");
  }
  return run;
}

void ts_gpu_batch_begin(TsGpuEmit *g) {
  TsEmit *e = g->e;
  const TsTile *k = e->k;
  LLVMTypeRef p = LLVMPointerTypeInContext(e->ctx, (unsigned)g->maker->global);
  V run = find_run(g);
  V row = ts_gpu_add(g, ts_gpu_mul(g, run, k->nparam + 1), ts_gpu_i64(g, TS_GPU_BATCH_RUNS));
  e->dim[0] = word(g, ts_gpu_add(g, row, ts_gpu_i64(g, k->nparam)));
  for (int i = 0; i < k->nparam; i++) {
    V at = word(g, ts_gpu_add(g, row, ts_gpu_i64(g, i)));
    ts_gpu_memory_begin(g, k->param[i], LLVMBuildIntToPtr(e->b, at, p, ""));
  }
  g->block = LLVMBuildNSWSub(e->b, g->block, word(g, run), "");
}
