/* See jit/emit/simt/mark.h. */
#include "jit/emit/simt/mark.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef LLVMValueRef V;

static LLVMTypeRef i32(TsGpuMarks *m) { return ts_emit_int_type(m->e, 32, 0); }
static LLVMTypeRef i64(TsGpuMarks *m) { return ts_emit_int_type(m->e, 64, 0); }

/* Marks are one piece of assembly each, without branches: a loop stays one block of code. */
static V text_of(TsGpuMarks *m, LLVMTypeRef out, const char *text, const char *constraints,
                 int nin, V *in) {
  LLVMTypeRef list[8];
  for (int i = 0; i < nin; i++) list[i] = LLVMTypeOf(in[i]);
  LLVMTypeRef t = LLVMFunctionType(out, list, (unsigned)nin, 0);
  V f = LLVMGetInlineAsm(t, text, strlen(text), constraints, strlen(constraints), true, false,
                         LLVMInlineAsmDialectATT, false);
  return LLVMBuildCall2(m->e->b, t, f, in, (unsigned)nin, "");
}

static V kept(TsGpuMarks *m, LLVMTypeRef t, V first) {
  V at = LLVMBuildAlloca(m->e->b, t, "");
  LLVMBuildStore(m->e->b, first, at);
  return at;
}

/* Constants of the module, which threads read alike: that all of a block go one way is seen by the
 * driver's compiler. */
enum { CONSTANTS = 4 };

static V room_word(TsGpuMarks *m, LLVMTypeRef t, int64_t offset) {
  TsEmit *e = m->e;
  V room = LLVMGetNamedGlobal(e->module, TS_GPU_MARKS_NAME);
  LLVMTypeRef all = LLVMArrayType2(ts_emit_int_type(e, 8, 0), sizeof(TsGpuMarksRoom));
  if (!room) {
    room = LLVMAddGlobalInAddressSpace(e->module, all, TS_GPU_MARKS_NAME, CONSTANTS);
    LLVMSetInitializer(room, LLVMConstNull(all));
    LLVMSetAlignment(room, 16);
    LLVMSetExternallyInitialized(room, true);
    LLVMSetGlobalConstant(room, true);
  }
  V by = ts_emit_i64(e, offset);
  V at = LLVMBuildInBoundsGEP2(e->b, ts_emit_int_type(e, 8, 0), room, &by, 1, "");
  return LLVMBuildLoad2(e->b, t, at, "");
}

static V equals(TsGpuMarks *m, V x, int64_t y) {
  return LLVMBuildICmp(m->e->b, LLVMIntEQ, x, ts_emit_int(m->e, LLVMTypeOf(x), y), "");
}

static V part_of(TsGpuMarks *m, V start, V index, V nbytes) {
  LLVMBuilderRef b = m->e->b;
  V by = LLVMBuildMul(b, LLVMBuildZExt(b, index, i64(m), ""),
                      LLVMBuildZExt(b, nbytes, i64(m), ""), "");
  return LLVMBuildAdd(b, start, by, "");
}

/* The number of this block among some of all. */
typedef struct Nth {
  V number, is_one;
} Nth;

static Nth nth(TsGpuMarks *m, V block, size_t some) {
  LLVMBuilderRef b = m->e->b;
  V inverse = room_word(m, i32(m), (int64_t)(some + offsetof(TsGpuSome, inverse)));
  V blocks = room_word(m, i32(m), (int64_t)(some + offsetof(TsGpuSome, blocks)));
  V number = LLVMBuildMul(b, block, inverse, "");
  return (Nth){number, LLVMBuildICmp(b, LLVMIntULT, number, blocks, "")};
}

/* Where the record of this warp is, and its list of turns, which has room for so many: no record in
 * other threads than the warp's first one, and where there is none; then no room either. */
static void find_record(TsGpuMarks *m, V thread, V block, int warps) {
  TsEmit *e = m->e;
  LLVMBuilderRef b = e->b;
  V zero = ts_emit_int(e, i32(m), 0), none = ts_emit_i64(e, 0);
  V all = ts_emit_int(e, i32(m), warps);
  V warp = LLVMBuildLShr(b, thread, ts_emit_int(e, i32(m), 5), "");
  V first = equals(m, LLVMBuildAnd(b, thread, ts_emit_int(e, i32(m), 31), ""), 0);
  Nth is = nth(m, block, offsetof(TsGpuMarksRoom, recorded));
  V index = LLVMBuildAdd(b, LLVMBuildMul(b, is.number, all, ""), warp, "");
  V records = room_word(m, i64(m), offsetof(TsGpuMarksRoom, records));
  V at = part_of(m, records, index, ts_emit_int(e, i32(m), sizeof(TsGpuRecord)));
  V in = LLVMBuildAnd(b, first, is.is_one, "");
  m->record = LLVMBuildSelect(b, in, at, none, "");
  m->room = zero, m->list = none;
  if (!m->nmark) return;
  is = nth(m, block, offsetof(TsGpuMarksRoom, listed));
  m->listed = is.is_one;
  index = LLVMBuildAdd(b, LLVMBuildMul(b, is.number, all, ""), warp, "");
  V turns = room_word(m, i32(m), offsetof(TsGpuMarksRoom, turns));
  V nbytes = LLVMBuildMul(b, turns, ts_emit_int(e, i32(m), sizeof(TsGpuTurn)), "");
  m->list = part_of(m, room_word(m, i64(m), offsetof(TsGpuMarksRoom, lists)), index, nbytes);
  m->room = LLVMBuildSelect(b, LLVMBuildAnd(b, first, is.is_one, ""), turns, zero, "");
}

/* One turn: six instructions, which wait for nothing. */
static void turn(TsGpuMarks *m, int stage) {
  LLVMBuilderRef b = m->e->b;
  char text[400];
  snprintf(text, sizeof text,
           "{ .reg .pred p; .reg .b32 c; .reg .b64 a;\n"
           "setp.lt.u32 p, $3, $2; mad.wide.u32 a, $3, %zu, $1; mov.u32 c, %%clock;\n"
           "@p st.global.v2.b32 [a], {c, $4}; add.u32 $0, $3, 1; }",
           sizeof(TsGpuTurn));
  V in[4] = {m->list, m->room, LLVMBuildLoad2(b, i32(m), m->count, ""),
             ts_emit_int(m->e, i32(m), stage)};
  LLVMBuildStore(b, text_of(m, i32(m), text, "=r,l,r,r,r,~{memory}", 4, in), m->count);
}

void ts_gpu_marks_begin(TsGpuMarks *m, TsEmit *e, V thread, V block, int warps) {
  memset(m, 0, sizeof *m);
  m->e = e;
  if (!e->k->marks || e->target->maker != TS_MAKER_nvidia) return;
  m->nmark = ts_tile_marks(e->k, m->mark);
  find_record(m, thread, block, warps);
  V in[3] = {m->record, block, thread};
  char text[640];
  snprintf(text, sizeof text,
           "{ .reg .pred p; .reg .b64 t, c; .reg .b32 s, w;\n"
           "setp.ne.u64 p, $0, 0; mov.u64 t, %%globaltimer; mov.u64 c, %%clock64;\n"
           "mov.u32 s, %%smid; shr.u32 w, $2, 5;\n"
           "@p st.global.v2.b32 [$0+%zu], {s, $1}; @p st.global.b32 [$0+%zu], w;\n"
           "@p st.global.b64 [$0+%zu], t; @p st.global.b64 [$0+%zu], c; }",
           offsetof(TsGpuRecord, processor), offsetof(TsGpuRecord, warp),
           offsetof(TsGpuRecord, begun_ns), offsetof(TsGpuRecord, begun));
  text_of(m, LLVMVoidTypeInContext(e->ctx), text, "l,r,r,~{memory}", 3, in);
  m->count = kept(m, i32(m), ts_emit_int(e, i32(m), 0));
}

void ts_gpu_marks_open(TsGpuMarks *m) {
  m->on = m->listed != NULL;
  if (m->on) turn(m, 0);
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
    turn(m, m->within[m->depth]);
    return;
  }
  m->depth -= m->depth > 0;
  if (!goes_on(s)) turn(m, m->within[m->depth]);
}

void ts_gpu_marks_end(TsGpuMarks *m) {
  if (!m->record) return;
  LLVMBuilderRef b = m->e->b;
  char text[400];
  V zero = ts_emit_int(m->e, i32(m), 0), some = LLVMBuildICmp(b, LLVMIntNE, m->room, zero, "");
  V count = LLVMBuildLoad2(b, i32(m), m->count, "");
  V in[2] = {m->record, LLVMBuildSelect(b, some, count, zero, "")};
  snprintf(text, sizeof text,
           "{ .reg .pred p; .reg .b64 t, c; setp.ne.u64 p, $0, 0;\n"
           "mov.u64 c, %%clock64; mov.u64 t, %%globaltimer;\n"
           "@p st.global.b64 [$0+%zu], t; @p st.global.b64 [$0+%zu], c;\n"
           "@p st.global.b32 [$0+%zu], $1; }",
           offsetof(TsGpuRecord, ended_ns), offsetof(TsGpuRecord, ended),
           offsetof(TsGpuRecord, nturn));
  text_of(m, LLVMVoidTypeInContext(m->e->ctx), text, "l,r,~{memory}", 2, in);
}
