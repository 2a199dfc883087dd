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

/* Where the record of this warp is, 0 in other threads than its first one and where there is none; and its list. */
static void find_record(TsGpuMarks *m, V thread, V block, int warps) {
  TsEmit *e = m->e;
  LLVMBuilderRef b = e->b;
  V all = ts_emit_int(e, i32(m), warps);
  V warp = LLVMBuildLShr(b, thread, ts_emit_int(e, i32(m), 5), "");
  m->lane = LLVMBuildAnd(b, thread, ts_emit_int(e, i32(m), 31), "");
  Nth is = nth(m, block, offsetof(TsGpuMarksRoom, recorded));
  V index = LLVMBuildAdd(b, LLVMBuildMul(b, is.number, all, ""), warp, "");
  V records = room_word(m, i64(m), offsetof(TsGpuMarksRoom, records));
  V at = part_of(m, records, index, ts_emit_int(e, i32(m), sizeof(TsGpuRecord)));
  V in = LLVMBuildAnd(b, equals(m, m->lane, 0), is.is_one, "");
  m->record = LLVMBuildSelect(b, in, at, ts_emit_i64(e, 0), "");
  if (!m->nmark) return;
  is = nth(m, block, offsetof(TsGpuMarksRoom, listed));
  m->listed = is.is_one;
  index = LLVMBuildAdd(b, LLVMBuildMul(b, is.number, all, ""), warp, "");
  V words = room_word(m, i32(m), offsetof(TsGpuMarksRoom, words));
  V lists = room_word(m, i64(m), offsetof(TsGpuMarksRoom, lists));
  m->list = part_of(m, lists, index, LLVMBuildMul(b, words, ts_emit_int(e, i32(m), 4), ""));
}

/* One turn, which waits for nothing: the clock of the one before has come by now. Of whole warps one lane keeps
 * the word, and 32 words are written at once; a block that has no list has counted too far for that. */
static void turn(TsGpuMarks *m, int stage) {
  LLVMBuilderRef b = m->e->b;
  char text[800];
  LLVMTypeRef three[3] = {i32(m), i32(m), i32(m)};
  V kept_in[3] = {m->count, m->held, m->last};
  V in[5] = {LLVMBuildLoad2(b, i32(m), m->count, ""), LLVMBuildLoad2(b, i32(m), m->held, ""),
             LLVMBuildLoad2(b, i32(m), m->last, ""), m->lane, m->list};
  int n = snprintf(text, sizeof text,
                   "{ .reg .pred p, q; .reg .b32 w, k, n, h; .reg .b64 a;\n"
                   "shl.b32 w, $5, %d; and.b32 w, w, %d; or.b32 w, w, %d; ld.const.b32 n, "
                   "[" TS_GPU_MARKS_NAME "+%zu];\n"
                   "setp.lt.u32 q, $3, n; mad.wide.u32 a, $3, 4, $7;\n",
                   TS_GPU_MARKS_STAGE - TS_GPU_MARKS_DROPPED, -(1 << TS_GPU_MARKS_STAGE), stage,
                   offsetof(TsGpuMarksRoom, words));
  snprintf(
      text + n, sizeof text - (size_t)n,
      "%s"
      "@q st.global.b32 [a%s], h; add.u32 $0, $3, 1; mov.b32 $1, h; mov.u32 $2, %%clock; }",
      m->warps ? "and.b32 k, $3, 31; setp.eq.u32 p, k, $6; selp.b32 h, w, $4, p; "
                 "setp.eq.and.u32 q, k, 31, q;\n"
                 "mad.wide.u32 a, $6, 4, a;\n"
               : "mov.b32 h, w;\n",
      m->warps ? "+-124" : "");
  V out = text_of(m, LLVMStructTypeInContext(m->e->ctx, three, 3, false), text,
                  "=&r,=&r,=&r,r,r,r,r,l,~{memory}", 5, in);
  for (unsigned i = 0; i < 3; i++)
    LLVMBuildStore(b, LLVMBuildExtractValue(b, out, i, ""), kept_in[i]);
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
  V zero = ts_emit_int(e, i32(m), 0),
    none = ts_emit_int(e, i32(m), (int64_t)TS_GPU_MARKS_UNLISTED);
  m->count =
      kept(m, i32(m), m->listed ? LLVMBuildSelect(e->b, m->listed, zero, none, "") : none);
  m->held = kept(m, i32(m), zero);
  m->last = kept(m, i32(m), zero);
}

void ts_gpu_marks_open(TsGpuMarks *m, bool warps) {
  m->on = m->listed != NULL;
  m->warps = warps;
  if (!m->on) return;
  if (!warps) { /* other threads than the warp's first one have no list */
    V count = LLVMBuildLoad2(m->e->b, i32(m), m->count, "");
    V none = ts_emit_int(m->e, i32(m), (int64_t)TS_GPU_MARKS_UNLISTED);
    count = LLVMBuildSelect(m->e->b, equals(m, m->lane, 0), count, none, "");
    LLVMBuildStore(m->e->b, count, m->count);
  }
  turn(m, 0);
}

/* The word of the end, and what lanes keep of the last 32. */
void ts_gpu_marks_close(TsGpuMarks *m) {
  LLVMBuilderRef b = m->e->b;
  if (!m->on) return;
  turn(m, TS_GPU_MARKS_OVER);
  m->on = false;
  if (!m->warps) return;
  char text[400];
  V in[4] = {LLVMBuildLoad2(b, i32(m), m->count, ""), LLVMBuildLoad2(b, i32(m), m->held, ""),
             m->lane, m->list};
  snprintf(text, sizeof text,
           "{ .reg .pred p; .reg .b32 k, n; .reg .b64 a; ld.const.b32 n, [" TS_GPU_MARKS_NAME
           "+%zu];\n"
           "and.b32 k, $0, 31; setp.lt.u32 p, $2, k; sub.u32 k, $0, k; add.u32 k, k, $2;\n"
           "setp.lt.and.u32 p, k, n, p; mad.wide.u32 a, k, 4, $3; @p st.global.b32 [a], $1; }",
           offsetof(TsGpuMarksRoom, words));
  text_of(m, LLVMVoidTypeInContext(m->e->ctx), text, "r,r,r,l,~{memory}", 4, in);
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
  char text[400];
  V in[2] = {m->record, LLVMBuildLoad2(m->e->b, i32(m), m->count, "")};
  snprintf(text, sizeof text,
           "{ .reg .pred p; .reg .b64 t, c; setp.ne.u64 p, $0, 0;\n"
           "mov.u64 c, %%clock64; mov.u64 t, %%globaltimer;\n"
           "@p st.global.b64 [$0+%zu], t; @p st.global.b64 [$0+%zu], c;\n"
           "@p st.global.b32 [$0+%zu], $1; }",
           offsetof(TsGpuRecord, ended_ns), offsetof(TsGpuRecord, ended),
           offsetof(TsGpuRecord, nturn));
  text_of(m, LLVMVoidTypeInContext(m->e->ctx), text, "l,r,~{memory}", 2, in);
}
