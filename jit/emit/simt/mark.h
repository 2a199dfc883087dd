/* Profile marks of kernels of GPUs. A warp, or the one thread of a role that acts for it, keeps a
 * record in memory of the device: at which cycle it turned to which stage. Its time is all of some
 * stage, so that stages of a warp add up to its time. Who reads the records: jit/device/marks.h. */
#ifndef TS_JIT_EMIT_GPU_MARK_H
#define TS_JIT_EMIT_GPU_MARK_H

#include "ir/tile/marks.h"
#include "jit/emit/cpu/emit.h"
#include "jit/gpu/marks.h"

typedef struct TsGpuMarks {
  TsEmit *e;
  TsTileMark mark[TS_TILE_MARKS];
  int nmark;
  /* i64, i64, i32 the same all the time; i32 in memory of the thread. NULL: no marks. */
  LLVMValueRef record, list, room, count;
  LLVMValueRef listed;   /* i1: this block writes its turns down; NULL: none does */
  bool on;               /* the code at hand has turns */
  int within[16], depth; /* stages around, by 1 + the number of their mark; 0: between stages */
} TsGpuMarks;

/* At the beginning of a function: warp, i32, of the block, which has so many. Nothing where the kernel
 * has no marks, or its maker no clock. */
void ts_gpu_marks_begin(TsGpuMarks *m, TsEmit *e, LLVMValueRef thread, LLVMValueRef block,
                        int warps);
/* From here on the code has turns; what stands before it, and on other ways from there, has none. */
void ts_gpu_marks_open(TsGpuMarks *m);
void ts_gpu_marks_put(TsGpuMarks *m, const TsTileStmt *s);
void ts_gpu_marks_end(TsGpuMarks *m); /* before it returns */

#endif
