/* Profile marks as PTX: one piece of assembly each, without branches, so that a loop stays one
 * block of code. See jit/emit/simt/mark.h. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "jit/emit/simt/mark.h"

typedef LLVMValueRef V;

static LLVMTypeRef i32(TsGpuMarks *m) { return ts_emit_int_type(m->e, 32, 0); }

static V text_of(TsGpuMarks *m, LLVMTypeRef out, const char *text, const char *constraints,
                 int nin, V *in) {
  LLVMTypeRef list[8];
  for (int i = 0; i < nin; i++) list[i] = LLVMTypeOf(in[i]);
  LLVMTypeRef t = LLVMFunctionType(out, list, (unsigned)nin, 0);
  V f = LLVMGetInlineAsm(t, text, strlen(text), constraints, strlen(constraints), true, false,
                         LLVMInlineAsmDialectATT, false);
  return LLVMBuildCall2(m->e->b, t, f, in, (unsigned)nin, "");
}

/* Constants of the module, which threads read alike: that all of a block go one way is seen by the
 * driver's compiler. */
enum { CONSTANTS = 4 };

static V word(TsGpuMarks *m, LLVMTypeRef t, size_t offset) {
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
  V by = ts_emit_i64(e, (int64_t)offset);
  V at = LLVMBuildInBoundsGEP2(e->b, ts_emit_int_type(e, 8, 0), room, &by, 1, "");
  return LLVMBuildLoad2(e->b, t, at, "");
}

static V place(TsGpuMarks *m, size_t offset, V by) {
  return LLVMBuildAdd(m->e->b, word(m, ts_emit_int_type(m->e, 64, 0), offset), by, "");
}

static V record(TsGpuMarks *m, V by, V c) {
  V at = place(m, offsetof(TsGpuMarksRoom, records), by);
  return LLVMBuildSelect(m->e->b, c, at, ts_emit_i64(m->e, 0), "");
}

static V list(TsGpuMarks *m, V by) { return place(m, offsetof(TsGpuMarksRoom, lists), by); }

/* Six instructions, which wait for nothing. */
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

static void begin(TsGpuMarks *m, V block, V thread) {
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
  text_of(m, LLVMVoidTypeInContext(m->e->ctx), text, "l,r,r,~{memory}", 3, in);
}

static void end(TsGpuMarks *m, V nturn) {
  V in[2] = {m->record, nturn};
  char text[400];
  snprintf(text, sizeof text,
           "{ .reg .pred p; .reg .b64 t, c; setp.ne.u64 p, $0, 0;\n"
           "mov.u64 c, %%clock64; mov.u64 t, %%globaltimer;\n"
           "@p st.global.b64 [$0+%zu], t; @p st.global.b64 [$0+%zu], c;\n"
           "@p st.global.b32 [$0+%zu], $1; }",
           offsetof(TsGpuRecord, ended_ns), offsetof(TsGpuRecord, ended),
           offsetof(TsGpuRecord, nturn));
  text_of(m, LLVMVoidTypeInContext(m->e->ctx), text, "l,r,~{memory}", 2, in);
}

const TsGpuMarkForm ts_gpu_marks_ptx = {
    .word = word, .record = record, .list = list, .begin = begin, .turn = turn, .end = end};
