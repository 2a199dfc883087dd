/* Profile marks of kernels of GPUs. A warp, or the one thread of a role that acts for it, keeps a
 * record in memory of the device: at which cycle it turned to which stage. Its time is all of some
 * stage, so that stages of a warp add up to its time. Who reads the records: jit/device/marks.h. */
#ifndef TS_JIT_EMIT_GPU_MARK_H
#define TS_JIT_EMIT_GPU_MARK_H

#include "ir/tile/marks.h"
#include "jit/emit/cpu/emit.h"
#include "jit/gpu/marks.h"

struct TsGpuEmit;
struct TsGpuMarks;

/* How threads of a maker's write marks down: a row each, like TsGpuMaker. */
typedef struct TsGpuMarkForm {
  /* A word of what says where records are, by its offset in TsGpuMarksRoom. */
  LLVMValueRef (*word)(struct TsGpuMarks *m, LLVMTypeRef t, size_t offset);
  /* The record that begins so many bytes (i64) behind the first one, if c holds; the list that
   * does behind the first one. */
  LLVMValueRef (*record)(struct TsGpuMarks *m, LLVMValueRef by, LLVMValueRef c);
  LLVMValueRef (*list)(struct TsGpuMarks *m, LLVMValueRef by);
  void (*begin)(struct TsGpuMarks *m, LLVMValueRef block, LLVMValueRef thread);
  void (*turn)(struct TsGpuMarks *m, int stage);
  void (*end)(struct TsGpuMarks *m, LLVMValueRef nturn); /* i32 */
} TsGpuMarkForm;

/* As PTX (mark_ptx.c), where a module's constant says where records are; with the maker's
 * functions for clocks (mark_clock.c), where arguments do. */
extern const TsGpuMarkForm ts_gpu_marks_ptx, ts_gpu_marks_clock;

typedef struct TsGpuMarks {
  TsEmit *e;
  const TsGpuMarkForm *form;
  struct TsGpuEmit *g; /* of mark_clock.c */
  unsigned argument;   /* there: the first of the numbers */
  TsTileMark mark[TS_TILE_MARKS];
  int nmark;
  /* Where they are, as the form has it; i1, i32 the same all the time; i32 in memory of the thread.
   * NULL: no marks. */
  LLVMValueRef record, list, recorded, room, count;
  LLVMValueRef listed;   /* i1: this block writes its turns down; NULL: none does */
  bool on;               /* the code at hand has turns */
  int within[16], depth; /* stages around, by 1 + the number of their mark; 0: between stages */
} TsGpuMarks;

/* At the beginning of a function: warp, i32, of the block, which has so many. Nothing where the kernel
 * has no marks. m has g and argument, if its form wants them. */
void ts_gpu_marks_begin(TsGpuMarks *m, const TsGpuMarkForm *form, TsEmit *e,
                        LLVMValueRef thread, LLVMValueRef block, int warps);
/* From here on the code has turns; what stands before it, and on other ways from there, has none. */
void ts_gpu_marks_open(TsGpuMarks *m);
void ts_gpu_marks_put(TsGpuMarks *m, const TsTileStmt *s);
void ts_gpu_marks_end(TsGpuMarks *m); /* before it returns */

#endif
