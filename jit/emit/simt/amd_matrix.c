/* The matrix units of AMD's GPUs, as its documents of their instruction sets lay out registers. */
#include "jit/emit/simt/emit.h"

/* MFMA of CDNA, waves of 64: a lane's sums are four columns one behind the other, of f64 four
 * columns apart. WMMA of RDNA 3, whose two groups of lanes have the same operands, and of RDNA 4.
 * Sums of whole numbers are right in any order of k, so what is most convenient stands there. */
#define MFMA(n, d, k, e, w, what)                                                              \
  {.unit = TS_MATRIX_##n, .of = TS_DT_##d, .name = "llvm.amdgcn.mfma." what, .lanes = 64,      \
   .depth = k, .each = e, .run = e, .k_group = e, .sums = 4, .col = 1, .col_group = 4,         \
   .words = TS_MATRIX_##w, .flags = true}
#define MFMA_64(n)                                                                             \
  {.unit = TS_MATRIX_##n, .of = TS_DT_f64, .name = "llvm.amdgcn.mfma.f64.16x16x4f64",          \
   .lanes = 64, .depth = 4, .each = 1, .run = 1, .k_group = 1, .sums = 4, .col = 4,            \
   .col_group = 1, .words = TS_MATRIX_numbers, .flags = true}
#define WMMA3(d, w, what, s)                                                                   \
  {.unit = TS_MATRIX_wmma3, .of = TS_DT_##d, .name = "llvm.amdgcn.wmma." what, .lanes = 32,    \
   .depth = 16, .each = 16, .run = 16, .sums = 8, .col = 2, .col_group = 1,                    \
   .words = TS_MATRIX_##w, .typed = true, .signs = s}
#define WMMA4(d, w, r, what, s)                                                                \
  {.unit = TS_MATRIX_wmma4, .of = TS_DT_##d, .name = "llvm.amdgcn.wmma." what, .lanes = 32,    \
   .depth = 16, .each = 8, .run = r, .far = 8, .k_group = r, .sums = 8, .col = 1,              \
   .col_group = 8, .words = TS_MATRIX_##w, .typed = true, .signs = s}

static const TsGpuMatrix row[] = {
    MFMA(mfma2, bf16, 16, 4, shorts, "f32.16x16x16bf16.1k"),
    MFMA(mfma2, f16, 16, 4, numbers, "f32.16x16x16f16"),
    MFMA(mfma2, f32, 4, 1, numbers, "f32.16x16x4f32"),
    MFMA_64(mfma2),
    MFMA(mfma2, i8, 16, 4, words, "i32.16x16x16i8"),
    MFMA(mfma3, bf16, 16, 4, shorts, "f32.16x16x16bf16.1k"),
    MFMA(mfma3, f16, 16, 4, numbers, "f32.16x16x16f16"),
    MFMA(mfma3, f32, 4, 1, numbers, "f32.16x16x4f32"),
    MFMA_64(mfma3),
    MFMA(mfma3, i8, 32, 8, long, "i32.16x16x32.i8"),
    MFMA(mfma4, bf16, 32, 8, numbers, "f32.16x16x32.bf16"),
    MFMA(mfma4, f16, 32, 8, numbers, "f32.16x16x32.f16"),
    MFMA(mfma4, f32, 4, 1, numbers, "f32.16x16x4f32"),
    MFMA_64(mfma4),
    MFMA(mfma4, i8, 64, 16, words, "i32.16x16x64.i8"),
    MFMA(mfma4, fp8_e4m3, 32, 8, long, "f32.16x16x32.fp8.fp8"),
    MFMA(mfma4, fp8_e5m2, 32, 8, long, "f32.16x16x32.bf8.bf8"),
    WMMA3(bf16, shorts, "f32.16x16x16.bf16", false),
    WMMA3(f16, numbers, "f32.16x16x16.f16", false),
    WMMA3(i8, words, "i32.16x16x16.iu8", true),
    WMMA4(bf16, shorts, 4, "f32.16x16x16.bf16", false),
    WMMA4(f16, numbers, 4, "f32.16x16x16.f16", false),
    WMMA4(i8, words, 8, "i32.16x16x16.iu8", true),
    WMMA4(fp8_e4m3, words, 4, "f32.16x16x16.fp8.fp8", false),
    WMMA4(fp8_e5m2, words, 4, "f32.16x16x16.bf8.bf8", false),
};

const TsGpuMatrix *ts_gpu_amd_matrix(const TsGpuEmit *g, TsDtype d) {
  TsTargetMatrix m = g->e->target->matrix;
  for (size_t i = 0; m && i < sizeof row / sizeof *row; i++)
    if (row[i].unit == m && row[i].of == d) return &row[i];
  return NULL;
}
