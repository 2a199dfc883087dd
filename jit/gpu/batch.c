/* Many runs of a kernel in one launch, as the host sees it: jit/emit/simt/batch.c has the
 * idea. */
#include "jit/gpu/gpu.h"

int ts_gpu_batch_most(const TsGpuCode *code) {
  int n = (TS_GPU_BATCH_WORDS - TS_GPU_BATCH_RUNS) / (code->nparam + 1);
  if (code->nphase != 1 || code->nscratch || !code->ndim || code->phase[0].cluster) return 1;
  return n < TS_GPU_BATCH_RUNS ? n : TS_GPU_BATCH_RUNS;
}

static int64_t blocks_of(const TsGpuCode *code, const int64_t *dim) {
  int64_t rounds[TS_GPU_PHASES];
  if (ts_gpu_rounds(code, dim, rounds)) return -1;
  return (rounds[0] + code->phase[0].rounds - 1) / code->phase[0].rounds;
}

int64_t ts_gpu_batch_table(const TsGpuCode *code, int n, void *const *arg, const int64_t *dim,
                           uint64_t table[TS_GPU_BATCH_WORDS], TsError *err) {
  int64_t all = 0;
  for (int i = 0; i < TS_GPU_BATCH_RUNS; i++) {
    table[i] = i < n ? (uint64_t)all : INT64_MAX;
    int64_t blocks = i < n ? blocks_of(code, dim + i * code->ndim) : 0;
    all += blocks;
    if (blocks < 0 || all > INT32_MAX)
      return ts_error_set(err, TS_ERR_value, "jit: sizes are too large");
  }
  for (int i = 0; i < n; i++) {
    uint64_t *row = table + TS_GPU_BATCH_RUNS + i * (code->nparam + 1);
    for (int k = 0; k < code->nparam; k++) row[k] = (uintptr_t)arg[i * code->nparam + k];
    row[code->nparam] = (uint64_t)dim[i * code->ndim];
  }
  return all;
}
