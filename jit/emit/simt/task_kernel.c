/* The kernel of a persistent program: its blocks walk the tasks, and do the turns that are
 * theirs. See jit/gpu/persistent.h for what it is given.
 *
 * A warp waits for all counters of a wait at a time, a lane each. All threads of the block meet
 * behind a wait and behind a turn, at a barrier that tasks do not use: an acquire of one is
 * then before what the others read, their writes are before the release of one (PTX, causality
 * order). What the copy engine reads and writes is behind a proxy, so there is a fence of it on
 * both sides. Who waits longer than PATIENCE looks says so in a word, and nobody waits any
 * more: results are wrong then, and the host looks at that word. */
#include "jit/emit/simt/task.h"

#include <stdio.h>
#include <string.h>

#include "jit/gpu/persistent.h"

typedef LLVMValueRef V;

enum { MEETING = 15, PATIENCE = 1 << 23, CHUNK = 4096, WARP = 32, PTX_KERNEL = 71 };

typedef struct Kernel {
  TsEmit *e;
  int threads, parts, part;
  bool engine; /* there is a copy engine */
} Kernel;

enum { TABLE, COUNTERS, TARGETS, FAILED, NTASK, BLOCKS, LAUNCH, ARGUMENTS }; /* of the kernel */

static LLVMTypeRef i32(Kernel *m) { return ts_emit_int_type(m->e, 32, 0); }
static LLVMTypeRef i64(Kernel *m) { return ts_emit_int_type(m->e, 64, 0); }
static V number(Kernel *m, int64_t v) { return ts_emit_int(m->e, i32(m), v); }

static V text_of(Kernel *m, LLVMTypeRef out, const char *text, const char *constraints, int n,
                 V *in) {
  LLVMTypeRef of[12];
  for (int i = 0; i < n; i++) of[i] = LLVMTypeOf(in[i]);
  LLVMTypeRef t =
      LLVMFunctionType(out ? out : LLVMVoidTypeInContext(m->e->ctx), of, (unsigned)n, 0);
  V f = LLVMGetInlineAsm(t, text, strlen(text), constraints, strlen(constraints), true, false,
                         LLVMInlineAsmDialectATT, false);
  V call = LLVMBuildCall2(m->e->b, t, f, in, (unsigned)n, "");
  unsigned kind = LLVMGetEnumAttributeKindForName("convergent", 10);
  LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                           LLVMCreateEnumAttribute(m->e->ctx, kind, 0));
  return call;
}

/* Arguments and numbers of threads are read where they are wanted: registers that would hold
 * them belong to tasks. */
static V argument(Kernel *m, int i) {
  char text[64];
  bool address = i < NTASK;
  snprintf(text, sizeof text, "ld.param.b%d $0, [%s_param_%d];", address ? 64 : 32,
           LLVMGetValueName(m->e->fn), i);
  return text_of(m, address ? LLVMPointerTypeInContext(m->e->ctx, 1) : i32(m), text,
                 address ? "=l" : "=r", 0, NULL);
}

static V thread(Kernel *m) { return text_of(m, i32(m), "mov.u32 $0, %tid.x;", "=r", 0, NULL); }
static V this_block(Kernel *m) {
  return text_of(m, i32(m), "mov.u32 $0, %ctaid.x;", "=r", 0, NULL);
}

static LLVMBasicBlockRef block(Kernel *m) {
  return LLVMAppendBasicBlockInContext(m->e->ctx, m->e->fn, "");
}

/* ---- what is fetched before a wait */
static void ahead(Kernel *m, V list, V n) {
  char text[900];
  snprintf(text, sizeof text,
           "{ .reg .pred p; .reg .b32 n, lane, left; .reg .b64 r, at, size, off, by, end;\n"
           "setp.ge.u32 p, $2, %d; @p bra done_${:uid};\n"
           "mov.b32 n, $1; mov.b64 r, $0;\n"
           "mul.wide.u32 by, $4, %d;\n"
           "list_${:uid}: setp.eq.s32 p, n, 0; @p bra done_${:uid};\n"
           "ld.global.v2.b64 {at, size}, [r];\n"
           "mad.lo.u32 lane, $2, $4, $3; mul.wide.u32 off, lane, %d;\n"
           "chunk_${:uid}: setp.ge.u64 p, off, size; @p bra next_${:uid};\n"
           "sub.s64 end, size, off; min.u64 end, end, %d; cvt.u32.u64 left, end;\n"
           "and.b32 left, left, -16; add.s64 end, at, off;\n"
           "setp.ne.u32 p, left, 0; @p cp.async.bulk.prefetch.L2.global [end], left;\n"
           "add.s64 off, off, by; bra chunk_${:uid};\n"
           "next_${:uid}: add.s64 r, r, 16; sub.s32 n, n, 1; bra list_${:uid};\n"
           "done_${:uid}: mov.b32 n, 0; }",
           WARP, WARP * CHUNK, CHUNK, CHUNK);
  if (!m->engine || m->part) return;
  V in[5] = {list, n, thread(m), this_block(m), argument(m, BLOCKS)};
  text_of(m, NULL, text, "l,r,r,r,r,~{memory}", 5, in);
}

/* Views are read by the copy engine, which has a cache of its own for them. */
static void ahead_maps(Kernel *m, V maps, V n) {
  if (!m->engine || m->part) return;
  V in[3] = {thread(m), n, maps};
  text_of(m, NULL,
          "{ .reg .pred p; .reg .b64 at; setp.lt.u32 p, $0, $1; mad.wide.u32 at, $0, 128, $2;\n"
          "@p prefetch.tensormap [at]; bar.warp.sync 0xffffffff; }",
          "r,r,l,~{memory}", 3, in);
}

/* ---- waits */
/* Gives the words of the task, which come out of the waiting, so that no load is moved before
 * it. */
static V await(Kernel *m, V waits, V nwait, V turn, V task, V words) {
  char text[2200];
  if (m->part) { /* the first part waits for it */
    snprintf(text, sizeof text, "bar.sync %d, %d; %s mov.b64 $0, $1;", MEETING, m->threads,
             m->engine ? "fence.proxy.async;" : "");
    return text_of(m, LLVMPointerTypeInContext(m->e->ctx, 1), text, "=l,l,~{memory}", 1,
                   &words);
  }
  snprintf(
      text, sizeof text,
      "{ .reg .pred p; .reg .b32 n, base, from, to, c, v, want, tries; .reg .b64 w, r, at;\n"
      "setp.ge.u32 p, $2, %d; @p bra done_${:uid};\n"
      "mov.b32 n, $4; mov.b64 w, $3; mov.b32 tries, 0;\n"
      "next_${:uid}: setp.eq.s32 p, n, 0; @p bra done_${:uid};\n"
      "ld.global.v2.b32 {base, to}, [w]; ld.global.b64 r, [w+8]; mov.b32 from, 0;\n"
      "setp.eq.s64 p, r, 0; @p bra all_${:uid};\n"
      "mad.wide.u32 at, $5, 8, r; ld.global.v2.b32 {from, to}, [at];\n"
      "all_${:uid}: add.s32 c, from, $2; setp.ge.s32 p, c, to; @p bra there_${:uid};\n"
      "add.s32 c, c, base; mad.wide.u32 at, c, 4, $8; ld.global.b32 want, [at];\n"
      "mul.lo.s32 want, want, $6; mad.wide.u32 at, c, 4, $7;\n"
      "again_${:uid}: ld.acquire.gpu.global.b32 v, [at]; sub.s32 v, v, want;\n"
      "setp.ge.s32 p, v, 0; @p bra there_${:uid};\n"
      "add.s32 tries, tries, 1; and.b32 v, tries, 1023; setp.ne.s32 p, v, 0;\n"
      "@p bra again_${:uid};\n"
      "ld.relaxed.gpu.global.b32 v, [$9]; setp.ne.s32 p, v, 0; @p bra there_${:uid};\n"
      "setp.lt.s32 p, tries, %d; @p bra again_${:uid};\n"
      "add.s32 v, $10, 1; st.relaxed.gpu.global.b32 [$9], v;\n"
      "there_${:uid}: add.s64 w, w, 16; sub.s32 n, n, 1; bra next_${:uid};\n"
      "done_${:uid}: bar.warp.sync 0xffffffff;\n"
      "bar.sync %d, %d; %s mov.b64 $0, $1; }",
      WARP, PATIENCE, MEETING, m->threads, m->engine ? "fence.proxy.async;" : "");
  V in[10] = {words,
              thread(m),
              waits,
              nwait,
              turn,
              argument(m, LAUNCH),
              argument(m, COUNTERS),
              argument(m, TARGETS),
              argument(m, FAILED),
              task};
  return text_of(m, LLVMPointerTypeInContext(m->e->ctx, 1), text,
                 "=l,l,r,l,r,r,r,l,l,l,r,~{memory}", 10, in);
}

static void tell(Kernel *m, V counter) {
  char text[400];
  if (m->part) {
    snprintf(text, sizeof text, "bar.warp.sync 0xffffffff; %s bar.sync %d, %d;",
             m->engine ? "cp.async.bulk.wait_group 0; fence.proxy.async;" : "", MEETING,
             m->threads);
    text_of(m, NULL, text, "~{memory}", 0, NULL);
    return;
  }
  snprintf(text, sizeof text,
           "{ .reg .pred p; bar.warp.sync 0xffffffff; %s bar.sync %d, %d;\n"
           "setp.ne.s32 p, $1, 0; @p bra done_${:uid};\n"
           "fence.acq_rel.gpu; red.relaxed.gpu.global.add.u32 [$0], 1;\n"
           "done_${:uid}: bar.warp.sync 0xffffffff; }",
           m->engine ? "cp.async.bulk.wait_group 0; fence.proxy.async;" : "", MEETING,
           m->threads);
  V in[2] = {counter, thread(m)};
  text_of(m, NULL, text, "l,r,~{memory}", 2, in);
}

/* ---- the walk */
static V field(Kernel *m, V record, LLVMTypeRef t, int byte) {
  V at = ts_emit_i64(m->e, byte);
  V p = LLVMBuildInBoundsGEP2(m->e->b, ts_emit_int_type(m->e, 8, 0), record, &at, 1, "");
  return LLVMBuildLoad2(m->e->b, t, p, "");
}

static V pointer_field(Kernel *m, V record, int byte) {
  return LLVMBuildIntToPtr(m->e->b, field(m, record, i64(m), byte),
                           LLVMPointerTypeInContext(m->e->ctx, 1), "");
}

/* The function of this code, by as many threads as it has. */
static void call(Kernel *m, int n, const TsGpuTaskFunction *of, V code, V words, V turn) {
  LLVMBuilderRef b = m->e->b;
  LLVMBasicBlockRef join = block(m), none = block(m);
  V in[2] = {words, turn}, go = LLVMBuildSwitch(b, code, none, (unsigned)n);
  LLVMPositionBuilderAtEnd(b, none);
  LLVMBuildBr(b, join);
  for (int i = 0; i < n; i++) {
    V fn = of[i].fn[m->part];
    if (!fn) continue;
    LLVMBasicBlockRef mine = block(m), does = block(m);
    LLVMAddCase(go, number(m, i), mine);
    LLVMPositionBuilderAtEnd(b, mine);
    V some = LLVMBuildICmp(b, LLVMIntULT, thread(m), number(m, of[i].threads), "");
    LLVMBuildCondBr(b, some, does, join);
    LLVMPositionBuilderAtEnd(b, does);
    LLVMBuildCall2(b, LLVMGlobalGetValueType(fn), fn, in, 2, "");
    LLVMBuildBr(b, join);
  }
  LLVMPositionBuilderAtEnd(b, join);
}

static V record_of(Kernel *m, V task) {
  LLVMBuilderRef b = m->e->b;
  V at = LLVMBuildMul(b, LLVMBuildZExt(b, task, i64(m), ""),
                      ts_emit_i64(m->e, TS_GPU_TASK_BYTES), "");
  return LLVMBuildInBoundsGEP2(b, ts_emit_int_type(m->e, 8, 0), argument(m, TABLE), &at, 1, "");
}

static V first_turn(Kernel *m, V record) {
  LLVMBuilderRef b = m->e->b;
  V own = LLVMBuildSub(b, this_block(m), field(m, record, i32(m), TS_GPU_TASK_first), "");
  V behind = LLVMBuildICmp(b, LLVMIntSLT, own, number(m, 0), "");
  return LLVMBuildSelect(b, behind, LLVMBuildAdd(b, own, argument(m, BLOCKS), ""), own, "");
}

static void turn_of(Kernel *m, int n, const TsGpuTaskFunction *of, V task, V turn) {
  LLVMBuilderRef b = m->e->b;
  V record = record_of(m, task);
  ahead_maps(m, pointer_field(m, record, TS_GPU_TASK_maps),
             field(m, record, i32(m), TS_GPU_TASK_nmap));
  V words = await(m, pointer_field(m, record, TS_GPU_TASK_waits),
                  field(m, record, i32(m), TS_GPU_TASK_nwait), turn, task,
                  pointer_field(m, record, TS_GPU_TASK_words));
  call(m, n, of, field(m, record, i32(m), TS_GPU_TASK_code), words, turn);
  record = record_of(m, task);
  V c = LLVMBuildUDiv(b, turn, field(m, record, i32(m), TS_GPU_TASK_piece), "");
  c = LLVMBuildAdd(b, field(m, record, i32(m), TS_GPU_TASK_counter), c, "");
  c = LLVMBuildZExt(b, c, i64(m), "");
  tell(m, LLVMBuildInBoundsGEP2(b, i32(m), argument(m, COUNTERS), &c, 1, ""));
}

static void turns(Kernel *m, int n, const TsGpuTaskFunction *of, V task) {
  LLVMBuilderRef b = m->e->b;
  V record = record_of(m, task);
  ahead(m, pointer_field(m, record, TS_GPU_TASK_ahead),
        field(m, record, i32(m), TS_GPU_TASK_nahead));
  V own = first_turn(m, record);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b), head = block(m), body = block(m),
                    after = block(m);
  LLVMBuildBr(b, head);
  LLVMPositionBuilderAtEnd(b, head);
  V turn = LLVMBuildPhi(b, i32(m), "");
  LLVMAddIncoming(turn, &own, &before, 1);
  V all = field(m, record_of(m, task), i32(m), TS_GPU_TASK_turns);
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, turn, all, ""), body, after);
  LLVMPositionBuilderAtEnd(b, body);
  turn_of(m, n, of, task, turn);
  V next = LLVMBuildAdd(b, turn, argument(m, BLOCKS), "");
  LLVMBasicBlockRef last = LLVMGetInsertBlock(b);
  LLVMAddIncoming(turn, &next, &last, 1);
  LLVMBuildBr(b, head);
  LLVMPositionBuilderAtEnd(b, after);
}

static void walk(Kernel *m, int n, const TsGpuTaskFunction *of) {
  LLVMBuilderRef b = m->e->b;
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b), head = block(m), body = block(m),
                    after = block(m);
  V zero = number(m, 0);
  LLVMBuildBr(b, head);
  LLVMPositionBuilderAtEnd(b, head);
  V task = LLVMBuildPhi(b, i32(m), "");
  LLVMAddIncoming(task, &zero, &before, 1);
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, task, argument(m, NTASK), ""), body, after);
  LLVMPositionBuilderAtEnd(b, body);
  turns(m, n, of, task);
  V next = LLVMBuildAdd(b, task, number(m, 1), "");
  LLVMBasicBlockRef last = LLVMGetInsertBlock(b);
  LLVMAddIncoming(task, &next, &last, 1);
  LLVMBuildBr(b, head);
  LLVMPositionBuilderAtEnd(b, after);
  LLVMBuildRetVoid(b);
}

/* Each part by a branch of its own, with its registers. */
static void walks(Kernel *m, int n, const TsGpuTaskFunction *of) {
  LLVMBuilderRef b = m->e->b;
  LLVMBasicBlockRef way[TS_GPU_TASK_PARTS], none = block(m);
  V part = LLVMBuildLShr(b, thread(m), number(m, 7), "");
  for (int i = 0; i < m->parts; i++) way[i] = block(m);
  V go = LLVMBuildSwitch(b, part, none, (unsigned)m->parts);
  LLVMPositionBuilderAtEnd(b, none);
  LLVMBuildUnreachable(b);
  for (int i = 0; i < m->parts; i++) {
    char text[64];
    LLVMAddCase(go, number(m, i), way[i]);
    LLVMPositionBuilderAtEnd(b, way[i]);
    snprintf(text, sizeof text, "setmaxnreg.%s.sync.aligned.u32 %d;", i ? "inc" : "dec",
             i ? TS_GPU_TASK_MANY : TS_GPU_TASK_FEW);
    text_of(m, NULL, text, "~{memory}", 0, NULL);
    m->part = i;
    walk(m, n, of);
  }
}

void ts_gpu_task_kernel(TsEmit *e, const char *name, int n, const TsGpuTaskFunction *of,
                        int threads, int parts) {
  Kernel m = {.e = e,
              .threads = threads,
              .parts = parts,
              .engine = ts_target_has(e->target, TS_UNIT_copy)};
  LLVMTypeRef p = LLVMPointerTypeInContext(e->ctx, 1), w = i32(&m),
              in[ARGUMENTS] = {p, p, p, p, w, w, w};
  e->fn = LLVMAddFunction(e->module, name,
                          LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), in, ARGUMENTS, 0));
  LLVMSetFunctionCallConv(e->fn, PTX_KERNEL);
  ts_emit_launch(e, "nvvm.maxntid", "maxntidx", threads);
  ts_emit_launch(e, "nvvm.minctasm", "minctasm", 1);
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""));
  if (parts > 1)
    walks(&m, n, of);
  else
    walk(&m, n, of);
}
