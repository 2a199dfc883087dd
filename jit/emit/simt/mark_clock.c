/* Profile marks by the maker's functions for clocks, which are read behind a branch: nothing that a
 * stage does is moved over its end by the code generator, as it is another block of code there.
 * What says where records are comes with each launch (TsGpuMarksWords). See jit/emit/simt/mark.h. */
#include <stddef.h>

#include "jit/emit/simt/emit.h"

typedef LLVMValueRef V;

static LLVMTypeRef i32(TsGpuMarks *m) { return ts_emit_int_type(m->e, 32, 0); }
static LLVMTypeRef i8(TsGpuMarks *m) { return ts_emit_int_type(m->e, 8, 0); }

static V argument(TsGpuMarks *m, size_t offset) {
  return LLVMGetParam(m->e->fn, m->argument + (unsigned)(offset / sizeof(uint64_t)));
}

/* Halves of a number, the low one first, as they lie in memory. */
static V word(TsGpuMarks *m, LLVMTypeRef t, size_t offset) {
  LLVMBuilderRef b = m->e->b;
  size_t at = offset - offsetof(TsGpuMarksRoom, lists);
  V x = argument(m, at);
  if (at % sizeof(uint64_t)) x = LLVMBuildLShr(b, x, ts_emit_i64(m->e, 32), "");
  return LLVMBuildTrunc(b, x, t, "");
}

static V behind(TsGpuMarks *m, V p, V by) {
  return LLVMBuildGEP2(m->e->b, i8(m), p, &by, 1, "");
}

/* In front of the numbers are sizes of the kernel, and in front of these is the records' memory. */
static V records(TsGpuMarks *m) {
  return LLVMGetParam(m->e->fn, m->argument - (unsigned)m->e->k->ndim - 1);
}

static V record(TsGpuMarks *m, V by, V c) {
  (void)c; /* looked at before each store */
  return behind(m, records(m), by);
}

static V list(TsGpuMarks *m, V by) {
  V first = argument(m, 0);
  return behind(m, records(m), LLVMBuildAdd(m->e->b, first, by, ""));
}

static void put(TsGpuMarks *m, V x, V at, size_t offset) {
  LLVMValueRef s =
      LLVMBuildStore(m->e->b, x, behind(m, at, ts_emit_i64(m->e, (int64_t)offset)));
  LLVMSetAlignment(s, LLVMGetIntTypeWidth(LLVMTypeOf(x)) / 8);
}

static void turn(TsGpuMarks *m, int stage) {
  LLVMBuilderRef b = m->e->b;
  V count = LLVMBuildLoad2(b, i32(m), m->count, "");
  LLVMBasicBlockRef after = ts_gpu_if(m->g, LLVMBuildICmp(b, LLVMIntULT, count, m->room, ""));
  V now = LLVMBuildTrunc(b, m->g->maker->cycles(m->g), i32(m), "");
  V wide = LLVMBuildZExt(b, count, ts_emit_int_type(m->e, 64, 0), "");
  V at = behind(m, m->list, ts_gpu_mul(m->g, wide, sizeof(TsGpuTurn)));
  put(m, now, at, offsetof(TsGpuTurn, at));
  put(m, ts_emit_int(m->e, i32(m), stage), at, offsetof(TsGpuTurn, stage));
  ts_gpu_if_end(m->g, after);
  LLVMBuildStore(b, LLVMBuildAdd(b, count, ts_emit_int(m->e, i32(m), 1), ""), m->count);
}

static void begin(TsGpuMarks *m, V block, V thread) {
  const TsGpuMaker *maker = m->g->maker;
  LLVMBuilderRef b = m->e->b;
  V steady = maker->steady(m->g), cycles = maker->cycles(m->g);
  V processor = maker->processor(m->g);
  LLVMBasicBlockRef after = ts_gpu_if(m->g, m->recorded);
  put(m, steady, m->record, offsetof(TsGpuRecord, begun_ns));
  put(m, cycles, m->record, offsetof(TsGpuRecord, begun));
  put(m, processor, m->record, offsetof(TsGpuRecord, processor));
  put(m, block, m->record, offsetof(TsGpuRecord, block));
  V warp = LLVMBuildLShr(b, thread, ts_emit_int(m->e, i32(m), 5), "");
  put(m, warp, m->record, offsetof(TsGpuRecord, warp));
  ts_gpu_if_end(m->g, after);
}

static void end(TsGpuMarks *m, V nturn) {
  const TsGpuMaker *maker = m->g->maker;
  V cycles = maker->cycles(m->g), steady = maker->steady(m->g);
  LLVMBasicBlockRef after = ts_gpu_if(m->g, m->recorded);
  put(m, steady, m->record, offsetof(TsGpuRecord, ended_ns));
  put(m, cycles, m->record, offsetof(TsGpuRecord, ended));
  put(m, nturn, m->record, offsetof(TsGpuRecord, nturn));
  ts_gpu_if_end(m->g, after);
}

const TsGpuMarkForm ts_gpu_marks_clock = {
    .word = word, .record = record, .list = list, .begin = begin, .turn = turn, .end = end};
