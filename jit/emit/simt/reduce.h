/* Between the files of reductions of any form. */
#ifndef TS_JIT_EMIT_GPU_REDUCE_H
#define TS_JIT_EMIT_GPU_REDUCE_H

#include "jit/emit/simt/fold.h"

typedef struct TsGpuReduce {
  const TsTileStmt *s;
  TsTileVal x;
  TsGpuFold f;
  int axis;
  bool last;      /* the axis is the fastest one */
  int64_t outs;   /* results */
  int64_t length; /* of the axis, or -1 */
  LLVMValueRef n;
  int64_t lanes;  /* of a leaf, or what threads have left of them */
  int64_t batch;  /* leaves at a time */
  int64_t levels; /* of the counter; the last one is the result */
  TsGpuRoom lane, level;
  int wide; /* columns: lanes that a thread has at a time; 0: another form */
  int64_t steps;
} TsGpuReduce;

/* Where lane l of result o in leaf b of the batch lies: neighbouring threads have
 * neighbours. */
LLVMValueRef ts_gpu_lane_place(TsGpuEmit *g, const TsGpuReduce *r, LLVMValueRef b,
                               LLVMValueRef o, LLVMValueRef l);
/* jit/emit/simt/columns.c: whether threads share the columns of a tile too large for
 * registers; what of r this changes. Then the lanes of one leaf, to shared memory. */
bool ts_gpu_columns(TsGpuEmit *g, TsGpuReduce *r);
void ts_gpu_put_columns(TsGpuEmit *g, const TsGpuReduce *r, LLVMValueRef leaf,
                        LLVMValueRef count);

#endif
