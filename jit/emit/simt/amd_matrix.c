/* The matrix units of AMD's GPUs, as its documents of their instruction sets lay out registers. */
#include "jit/emit/simt/emit.h"

/* MFMA of CDNA 2 and 3, of CDNA 4; WMMA of RDNA 3, whose two groups of lanes have the same
 * operands, and of RDNA 4. */
static const TsGpuMatrix row[] = {
    [TS_MATRIX_mfma16] = {.lanes = 64,
                          .depth = 16,
                          .each = 4,
                          .k_group = 4,
                          .k = {0, 1, 2, 3},
                          .sums = 4,
                          .col = 1,
                          .col_group = 4,
                          .bf16 = "llvm.amdgcn.mfma.f32.16x16x16bf16.1k",
                          .f16 = "llvm.amdgcn.mfma.f32.16x16x16f16",
                          .bits = true,
                          .flags = true},
    [TS_MATRIX_mfma32] = {.lanes = 64,
                          .depth = 32,
                          .each = 8,
                          .k_group = 8,
                          .k = {0, 1, 2, 3, 4, 5, 6, 7},
                          .sums = 4,
                          .col = 1,
                          .col_group = 4,
                          .bf16 = "llvm.amdgcn.mfma.f32.16x16x32.bf16",
                          .f16 = "llvm.amdgcn.mfma.f32.16x16x32.f16",
                          .flags = true},
    [TS_MATRIX_wmma3] = {.lanes = 32,
                         .depth = 16,
                         .each = 16,
                         .k = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                         .sums = 8,
                         .col = 2,
                         .col_group = 1,
                         .bf16 = "llvm.amdgcn.wmma.f32.16x16x16.bf16",
                         .f16 = "llvm.amdgcn.wmma.f32.16x16x16.f16",
                         .typed = true,
                         .bits = true},
    [TS_MATRIX_wmma4] = {.lanes = 32,
                         .depth = 16,
                         .each = 8,
                         .k_group = 4,
                         .k = {0, 1, 2, 3, 8, 9, 10, 11},
                         .sums = 8,
                         .col = 1,
                         .col_group = 8,
                         .bf16 = "llvm.amdgcn.wmma.f32.16x16x16.bf16",
                         .f16 = "llvm.amdgcn.wmma.f32.16x16x16.f16",
                         .typed = true,
                         .bits = true},
};

const TsGpuMatrix *ts_gpu_amd_matrix(const TsGpuEmit *g) {
  TsTargetMatrix m = g->e->target->matrix;
  return m ? &row[m] : NULL;
}
