/* Profile marks: a stage's time is the sum of the clock at its ends less that at its
 * beginnings, kept with their number behind the thread's local memory (jit/code/kernel.h). The
 * counter is read without a fence, which would cost more than what is measured; what the
 * processor does ahead of it belongs to the stage before. */
#include "ir/tile/marks.h"
#include "jit/emit/cpu/emit.h"
#include "jit/code/kernel.h"

typedef LLVMValueRef V;

static V word_at(TsEmit *e, int64_t offset) {
  V by = ts_emit_i64(e, offset);
  return LLVMBuildInBoundsGEP2(e->b, ts_emit_int_type(e, 8, 0), e->local, &by, 1, "");
}

/* Volatile: these stand in loops, whose order they are about. */
static void add_to(TsEmit *e, int64_t offset, V x, bool subtract) {
  LLVMTypeRef i64 = ts_emit_int_type(e, 64, 0);
  V at = word_at(e, offset), old = LLVMBuildLoad2(e->b, i64, at, "");
  V sum = subtract ? LLVMBuildSub(e->b, old, x, "") : LLVMBuildAdd(e->b, old, x, "");
  V put = LLVMBuildStore(e->b, sum, at);
  LLVMSetVolatile(old, 1);
  LLVMSetVolatile(put, 1);
}

void ts_emit_mark(TsEmit *e, const TsTileStmt *s) {
  TsTileMark mark[TS_TILE_MARKS];
  int i = ts_tile_mark_index(ts_tile_marks(e->k, mark), mark, s);
  if (i < 0) return;
  int64_t at = ts_kernel_marks_at(e->k) + (int64_t)sizeof(TsKernelClock) * i;
  bool end = ts_tile_attr(s, "end")->i;
  V now = ts_emit_call(e, "llvm.readcyclecounter", 0, NULL, 0, NULL);
  add_to(e, at, now, !end);
  if (end) add_to(e, at + 8, ts_emit_i64(e, 1), false);
}
