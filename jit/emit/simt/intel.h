/* The matrix unit of Intel's GPUs, the 2D block loads that feed it, and cooperative matrices. Shared by
 * jit/emit/simt/intel_matrix.c, which says how numbers lie in lanes, intel_boxes.c and cooperative.c. */
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

/* Of the right one, whose lines are along k, 8 columns, as the left one of a product that is turned. */
LLVMValueRef ts_gpu_intel_lines(TsGpuEmit *g, const TsIntelBoxes *of, int64_t k,
                                LLVMValueRef col);
/* 16 lines from this row or column of the operand on: a lane has eight words of its own. */
LLVMValueRef ts_gpu_intel_words(TsGpuEmit *g, const TsIntelBoxes *of, LLVMValueRef row,
                                LLVMValueRef col);
LLVMValueRef ts_gpu_intel_multiply(TsGpuEmit *g, TsDtype d, LLVMValueRef a, LLVMValueRef b,
                                   LLVMValueRef sum);

/* ---- how sub-groups divide a tile of sums (intel_matrix.c) */
typedef struct TsIntelGroups {
  int high, across;
  int bands, strips; /* of one: of a lane's rows and columns */
  int rows, cols;    /* of an instruction: those of a band, of a strip */
  bool columns;      /* a lane has a column of an instruction; else a row */
} TsIntelGroups;

/* Where this thread is: its sub-group's first row and column, its lane. */
typedef struct TsIntelPlace {
  LLVMValueRef row, col, lane;
} TsIntelPlace;

/* An operand in shared memory. */
typedef struct TsIntelSide {
  int64_t at, pitch; /* bytes from the group's memory; numbers of a row */
  LLVMTypeRef number;
} TsIntelSide;

LLVMValueRef ts_gpu_intel_group(TsGpuEmit *g); /* its number, which all lanes have alike */
TsIntelPlace ts_gpu_intel_place(TsGpuEmit *g, const TsIntelGroups *w);
TsIntelSide ts_gpu_intel_put(TsGpuEmit *g, TsTileVal v);
LLVMValueRef ts_gpu_intel_at(TsGpuEmit *g, const TsIntelSide *o, LLVMValueRef row,
                             LLVMValueRef col);

/* ---- intel_rows.c: where lanes have whole rows. What sums are added to it makes itself, and gives what
 * they are: the product, or what a `where` behind it makes of it. */
TsTileVal ts_gpu_intel_rows_product(TsGpuEmit *g, const TsTileStmt *s, const TsIntelGroups *w,
                                    LLVMValueRef *sum);

/* ---- cooperative.c */
bool ts_gpu_cooperative(const TsGpuEmit *g); /* whether that is the target's unit */
/* Of a product these sums, and what it adds. */
void ts_gpu_cooperative_sums(TsGpuEmit *g, const TsTileStmt *s, const TsIntelGroups *w,
                             LLVMValueRef *sum);
/* A lane's columns of 8 become matrices, and back. */
void ts_gpu_cooperative_join(TsGpuEmit *g, int n, LLVMValueRef *x);
void ts_gpu_cooperative_split(TsGpuEmit *g, LLVMTypeRef number, int n, const LLVMValueRef *x,
                              LLVMValueRef *out);

#endif
