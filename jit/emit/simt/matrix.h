/* Products of tiles by a matrix unit, in block form (ir/tile/square.h): what a unit is. */
#ifndef TS_JIT_EMIT_GPU_MATRIX_H
#define TS_JIT_EMIT_GPU_MATRIX_H

#include <llvm-c/Core.h>

#include "ir/tile/tile.h"

struct TsGpuEmit;
struct TsGpuFrame;

/* How numbers lie in the lanes of a wave: a row of the table of jit/emit/simt/amd_matrix.c. The
 * unit makes Y = X W + Y with X from B and W from A, so that a lane's sums are of one row: that of
 * its number mod 16. Of a row of A, or a column of B, it has `each` numbers: number e is at k[e] +
 * k_group times its group of 16 lanes. Sum i is in column i * col + group * col_group. */
typedef struct TsGpuMatrix {
  int lanes, depth;
  int each, k_group;
  int8_t k[16];
  int sums, col, col_group;
  const char *bf16, *f16; /* intrinsics */
  bool typed;             /* their names have types */
  bool bits;              /* bf16 is i16 to LLVM */
  bool flags;             /* three words of 0 follow the operands */
} TsGpuMatrix;

/* Whether the phase has a product by the unit. */
bool ts_gpu_matrix_used(const struct TsGpuEmit *g);
/* The frame of the tile, if it is of sums that a unit of this phase makes; NULL. */
struct TsGpuFrame *ts_gpu_matrix_frame(struct TsGpuEmit *g, const TsTileType *t);
/* Of a tile that has such a frame its numbers as vectors of the unit, which loops carry so that they
 * stay in their registers; NULL. And defined by them. */
LLVMValueRef *ts_gpu_matrix_wholes(struct TsGpuEmit *g, TsTileVal v, int *n);
void ts_gpu_matrix_define(struct TsGpuEmit *g, TsTileVal v, LLVMValueRef *whole);
/* false: there is no unit, and no instruction was emitted. */
bool ts_gpu_matrix_product(struct TsGpuEmit *g, const TsTileStmt *s);

#endif
