/* What reductions combine: numbers in the canonical order, or keys in the order of the values
 * with places, in registers and in shared memory. */
#ifndef TS_JIT_EMIT_GPU_FOLD_H
#define TS_JIT_EMIT_GPU_FOLD_H

#include "jit/emit/simt/emit.h"

typedef struct TsGpuFold {
  int op;
  TsDtype d, from; /* of what is combined; integers: of the tile */
  bool order, min, place;
  bool plain;       /* the numbers themselves, by instructions that let NaN win */
  LLVMTypeRef type; /* of what lies in shared memory */
  int size;         /* its bytes */
} TsGpuFold;

/* A number, and its place where that is wanted (else NULL). */
typedef struct TsGpuItem {
  LLVMValueRef x, at;
} TsGpuItem;

typedef struct TsGpuRoom {
  int64_t at, places; /* offsets */
} TsGpuRoom;

TsGpuFold ts_gpu_fold(TsGpuEmit *g, const TsTileStmt *s);
/* Of floats, NaN winning. */
LLVMValueRef ts_gpu_extreme(TsGpuEmit *g, bool min, LLVMValueRef x, LLVMValueRef y);
TsGpuItem ts_gpu_fold_none(TsGpuEmit *g, const TsGpuFold *f); /* combining it changes nothing */
TsGpuItem ts_gpu_fold_two(TsGpuEmit *g, const TsGpuFold *f, TsGpuItem a, TsGpuItem b);
/* x, in the type of its tile, at this place (i64). */
TsGpuItem ts_gpu_fold_item(TsGpuEmit *g, const TsGpuFold *f, LLVMValueRef x,
                           LLVMValueRef place);
LLVMValueRef ts_gpu_fold_result(TsGpuEmit *g, const TsGpuFold *f, TsGpuItem i);
TsGpuRoom ts_gpu_fold_take(TsGpuEmit *g, const TsGpuFold *f, int64_t n);
TsGpuItem ts_gpu_fold_get(TsGpuEmit *g, const TsGpuFold *f, TsGpuRoom r, LLVMValueRef i);
void ts_gpu_fold_put(TsGpuEmit *g, const TsGpuFold *f, TsGpuRoom r, LLVMValueRef i,
                     TsGpuItem x);

/* ---- jit/emit/simt/row.c: what all threads of the group have */
TsGpuItem ts_gpu_meet(TsGpuEmit *g, const TsGpuFold *f, TsGpuItem own);
/* Of a warp: n lanes of each thread, those that are v apart its own; acc is used up. */
LLVMValueRef ts_gpu_halve_warp(TsGpuEmit *g, const TsGpuFold *f, LLVMValueRef *acc, int n,
                               int v);

#endif
