/* The end of products of bf16 in the profile "fast": what happens to finished sums. */
#include "vm/gemm/pairs_job.h"

static int64_t size_of(TsGemmType t) {
  static const uint8_t size[TS_GEMM_COUNT] = {[TS_GEMM_f32] = 4,
                                              [TS_GEMM_bf16] = 2,
                                              [TS_GEMM_f16] = 2,
                                              [TS_GEMM_e4m3] = 1,
                                              [TS_GEMM_e5m2] = 1};
  return size[t];
}

static char *result_at(const GemmPairsEnd *e, int64_t row, int64_t col) {
  const TsGemm *g = e->g;
  int64_t at = gemm_offset(g->c_batch, e->batch);
  at += (e->m0 + row) * g->c_rs + (e->n0 + col) * g->c_cs;
  return (char *)g->c + at * size_of(g->out);
}

void *ts_gemm_pairs_place(const GemmPairsEnd *e, int64_t row, int64_t col, int64_t cols) {
  const TsGemm *g = e->g;
  bool plain = !g->finish && g->out == TS_GEMM_bf16 && g->c_cs == 1 && cols % 16 == 0;
  return plain ? result_at(e, row, col) : NULL;
}

void ts_gemm_pairs_end(const GemmPairsEnd *e, int64_t row, int64_t rows, int64_t col,
                       int64_t cols, float *sums, int64_t ld) {
  const TsGemm *g = e->g;
  const TsKernels *k = e->k;
  for (int64_t i = 0; g->finish && i < rows; i++)
    g->finish(g->finish_arg, sums + i * ld, e->batch, e->m0 + row + i, e->n0 + col, cols);
  if (g->out == TS_GEMM_bf16 && g->c_cs == 1 &&
      k->gemm_pairs.store(rows, cols, sums, ld, result_at(e, row, col), g->c_rs))
    return;
  for (int64_t i = 0; i < rows; i++)
    k->gemm.f32->store[g->out](result_at(e, row + i, col), g->c_cs, sums + i * ld, cols);
}

void ts_gemm_pairs_ask(const GemmPairsEnd *e, int64_t row, int64_t rows, int64_t col,
                       int64_t cols) {
  const TsGemm *g = e->g;
  int64_t size = size_of(g->out), nbytes = g->c_cs == 1 ? cols * size : 0;
  const char *line = result_at(e, row, col);
  for (int64_t i = 0; i < rows; i++, line += g->c_rs * size)
    for (int64_t at = 0; at < nbytes; at += 64) __builtin_prefetch(line + at, 1);
}
