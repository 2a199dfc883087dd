/* See jit/emit/simt/mark.h. What all forms of marks share: which record a warp has, and which
 * stage a turn is to. */
#include "jit/emit/simt/mark.h"

#include <stddef.h>
#include <string.h>

typedef LLVMValueRef V;

static LLVMTypeRef i32(TsGpuMarks *m) { return ts_emit_int_type(m->e, 32, 0); }
static LLVMTypeRef i64(TsGpuMarks *m) { return ts_emit_int_type(m->e, 64, 0); }

static V kept(TsGpuMarks *m, LLVMTypeRef t, V first) {
  V at = LLVMBuildAlloca(m->e->b, t, "");
  LLVMBuildStore(m->e->b, first, at);
  return at;
}

static V equals(TsGpuMarks *m, V x, int64_t y) {
  return LLVMBuildICmp(m->e->b, LLVMIntEQ, x, ts_emit_int(m->e, LLVMTypeOf(x), y), "");
}

static V bytes_before(TsGpuMarks *m, V index, V nbytes) {
  LLVMBuilderRef b = m->e->b;
  return LLVMBuildMul(b, LLVMBuildZExt(b, index, i64(m), ""),
                      LLVMBuildZExt(b, nbytes, i64(m), ""), "");
}

/* The number of this block among some of all. */
typedef struct Nth {
  V number, is_one;
} Nth;

static Nth nth(TsGpuMarks *m, V block, size_t some) {
  LLVMBuilderRef b = m->e->b;
  V inverse = m->form->word(m, i32(m), some + offsetof(TsGpuSome, inverse));
  V blocks = m->form->word(m, i32(m), some + offsetof(TsGpuSome, blocks));
  V number = LLVMBuildMul(b, block, inverse, "");
  return (Nth){number, LLVMBuildICmp(b, LLVMIntULT, number, blocks, "")};
}

/* Where the record of this warp is, and its list of turns, which has room for so many: no record in
 * other threads than the warp's first one, and where there is none; then no room either. */
static void find_record(TsGpuMarks *m, V thread, V block, int warps) {
  TsEmit *e = m->e;
  LLVMBuilderRef b = e->b;
  V zero = ts_emit_int(e, i32(m), 0);
  V all = ts_emit_int(e, i32(m), warps);
  V warp = LLVMBuildLShr(b, thread, ts_emit_int(e, i32(m), 5), "");
  V first = equals(m, LLVMBuildAnd(b, thread, ts_emit_int(e, i32(m), 31), ""), 0);
  Nth is = nth(m, block, offsetof(TsGpuMarksRoom, recorded));
  V index = LLVMBuildAdd(b, LLVMBuildMul(b, is.number, all, ""), warp, "");
  V size = ts_emit_int(e, i32(m), sizeof(TsGpuRecord));
  m->recorded = LLVMBuildAnd(b, first, is.is_one, "");
  m->record = m->form->record(m, bytes_before(m, index, size), m->recorded);
  m->room = zero, m->list = ts_emit_i64(e, 0);
  if (!m->nmark) return;
  is = nth(m, block, offsetof(TsGpuMarksRoom, listed));
  m->listed = is.is_one;
  index = LLVMBuildAdd(b, LLVMBuildMul(b, is.number, all, ""), warp, "");
  V turns = m->form->word(m, i32(m), offsetof(TsGpuMarksRoom, turns));
  V nbytes = LLVMBuildMul(b, turns, ts_emit_int(e, i32(m), sizeof(TsGpuTurn)), "");
  m->list = m->form->list(m, bytes_before(m, index, nbytes));
  m->room = LLVMBuildSelect(b, LLVMBuildAnd(b, first, is.is_one, ""), turns, zero, "");
}

void ts_gpu_marks_begin(TsGpuMarks *m, const TsGpuMarkForm *form, TsEmit *e, V thread, V block,
                        int warps) {
  struct TsGpuEmit *g = m->g;
  unsigned argument = m->argument;
  memset(m, 0, sizeof *m);
  m->e = e, m->form = form, m->g = g, m->argument = argument;
  if (!e->k->marks) return;
  m->nmark = ts_tile_marks(e->k, m->mark);
  find_record(m, thread, block, warps);
  m->count = kept(m, i32(m), ts_emit_int(e, i32(m), 0)); /* registers have it: at the entry */
  form->begin(m, block, thread);
}

void ts_gpu_marks_open(TsGpuMarks *m) {
  m->on = m->listed != NULL;
  if (m->on) m->form->turn(m, 0);
}

/* Where another stage begins directly, the end of this one is the same turn. */
static bool goes_on(const TsTileStmt *s) {
  return s->next && s->next->op == TS_TILE_mark && !ts_tile_attr(s->next, "end")->i;
}

void ts_gpu_marks_put(TsGpuMarks *m, const TsTileStmt *s) {
  if (!m->on) return;
  int i =
      ts_tile_mark_index(m->nmark, m->mark, s); /* -1, which is what lies between: too many */
  if (!ts_tile_attr(s, "end")->i) {
    if (m->depth + 1 < (int)(sizeof m->within / sizeof *m->within))
      m->within[++m->depth] = 1 + i;
    m->form->turn(m, m->within[m->depth]);
    return;
  }
  m->depth -= m->depth > 0;
  if (!goes_on(s)) m->form->turn(m, m->within[m->depth]);
}

void ts_gpu_marks_end(TsGpuMarks *m) {
  if (!m->record) return;
  LLVMBuilderRef b = m->e->b;
  V zero = ts_emit_int(m->e, i32(m), 0), some = LLVMBuildICmp(b, LLVMIntNE, m->room, zero, "");
  V count = LLVMBuildLoad2(b, i32(m), m->count, "");
  m->form->end(m, LLVMBuildSelect(b, some, count, zero, ""));
}
