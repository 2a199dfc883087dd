/* The matrix unit of Intel's GPUs, and the 2D block loads that feed it. Shared by
 * jit/emit/simt/intel_matrix.c, which says how numbers lie in lanes, and intel_boxes.c. */
#ifndef TS_JIT_EMIT_SIMT_INTEL_H
#define TS_JIT_EMIT_SIMT_INTEL_H

#include "jit/emit/simt/emit.h"

enum {
  TS_INTEL_LANES = 16,
  TS_INTEL_RUN = 8,        /* sums of a lane of an instruction */
  TS_INTEL_STEP_BYTES = 32 /* of k of an instruction */
};

/* A matrix in memory, as the loads are told of it: i32 but base, i64. */
typedef struct TsIntelBoxes {
  LLVMValueRef base, width, height, pitch; /* bytes, lines, bytes; the last three less 1 */
  LLVMValueRef at[2];                      /* where the operand begins: row, column */
  int along;                               /* of these, whose neighbours are in one line */
  int nbytes;                              /* of a number */
} TsIntelBoxes;

TsIntelBoxes ts_gpu_intel_boxes_of(TsGpuEmit *g, const TsTileStmt *product, int side);
/* Of the left operand, 8 rows from this one on: of two instructions, one behind the other along
 * k. */
void ts_gpu_intel_left(TsGpuEmit *g, const TsIntelBoxes *of, LLVMValueRef row, int64_t k,
                       LLVMValueRef out[2]);
/* Of the right one 16 columns, of one. */
LLVMValueRef ts_gpu_intel_right(TsGpuEmit *g, const TsIntelBoxes *of, int64_t k,
                                LLVMValueRef col);

#endif
