/* NVIDIA's GPUs: intrinsics, and PTX as text where LLVM has none. */
#include <stdio.h>
#include <string.h>

#include "jit/emit/simt/emit.h"

typedef LLVMValueRef V;

static LLVMTypeRef i32(TsGpuEmit *g) { return ts_emit_int_type(g->e, 32, 0); }
static LLVMTypeRef i64(TsGpuEmit *g) { return ts_emit_int_type(g->e, 64, 0); }
static LLVMTypeRef nothing(TsGpuEmit *g) { return LLVMVoidTypeInContext(g->e->ctx); }

/* keeps: it does more than compute its result. */
static V text_of(TsGpuEmit *g, const char *text, const char *constraints, bool keeps,
                 LLVMTypeRef out, int nin, V *in) {
  LLVMTypeRef list[8];
  for (int i = 0; i < nin; i++) list[i] = LLVMTypeOf(in[i]);
  LLVMTypeRef t = LLVMFunctionType(out, list, (unsigned)nin, 0);
  V f = LLVMGetInlineAsm(t, text, strlen(text), constraints, strlen(constraints), keeps, 0,
                         LLVMInlineAsmDialectATT, 0);
  return LLVMBuildCall2(g->e->b, t, f, in, (unsigned)nin, "");
}

/* ---- kernels */
static void kernel(TsGpuEmit *g) {
  ts_emit_launch(g->e, "nvvm.maxntid", "maxntidx", g->threads * g->phase->rounds);
  if (g->phase->registers) ts_emit_launch(g->e, "nvvm.maxnreg", "maxnreg", g->phase->registers);
}

/* Arguments cannot be indexed in LLVM IR without a copy of all of them. */
static V word(TsGpuEmit *g, V i) {
  char text[200];
  snprintf(text, sizeof text,
           "{ .reg .b64 %%at; mov.b64 %%at, %s_param_0; add.s64 %%at, %%at, $1; "
           "ld.param.b64 $0, [%%at]; }",
           LLVMGetValueName(g->e->fn));
  V at = ts_gpu_mul(g, i, 8);
  return text_of(g, text, "=l,l", false, i64(g), 1, &at);
}

/* ---- the order of launches
 *
 * Kernels on sm_90 and newer may begin while the launch before still runs. A phase behind
 * another one of its kernel waits before it reads; addresses come out of the waiting, so that
 * no load is moved before it. A first phase of many blocks reads at once and waits before it
 * writes (TsLaunch.dependent); one of few, which is over in a moment, waits first, so that it
 * may begin early whatever it reads.
 * Blocks say that the next launch may come: before phases of their own kernel at their begin,
 * others when they have waited, since that launch relies on all before this one being over. */

/* By the last blocks alone: to say it takes 1.2 ns a block, whichever processor it is on, and
 * those before have ended by then, which says the same. */
static void say_next(TsGpuEmit *g) {
  enum { LAST = 2048 }; /* as many as run at a time */
  LLVMBuilderRef b = g->e->b;
  V all = ts_emit_call(g->e, "llvm.nvvm.read.ptx.sreg.nctaid.x", 0, NULL, 0, NULL);
  V this = ts_emit_call(g->e, "llvm.nvvm.read.ptx.sreg.ctaid.x", 0, NULL, 0, NULL);
  V left = LLVMBuildSub(b, all, this, "");
  V in = LLVMBuildICmp(b, LLVMIntULE, left, ts_emit_int(g->e, i32(g), LAST), "");
  text_of(g, "@$0 griddepcontrol.launch_dependents;", "b,~{memory}", true, nothing(g), 1, &in);
}

/* Gives 0 behind the wait, for addresses. What waits first lets the next launch come at
 * once. */
static V wait_if_few(TsGpuEmit *g) {
  V all = ts_emit_call(g->e, "llvm.nvvm.read.ptx.sreg.nctaid.x", 0, NULL, 0, NULL);
  V many = ts_emit_int(g->e, i32(g), TS_GPU_MANY_BLOCKS);
  V few = LLVMBuildICmp(g->e->b, LLVMIntULT, all, many, "");
  return text_of(g,
                 "@$1 griddepcontrol.wait; @$1 griddepcontrol.launch_dependents; "
                 "mov.u64 $0, 0;",
                 "=l,b,~{memory}", true, i64(g), 1, &few);
}

static bool is_last(const TsGpuEmit *g) {
  return g->phase == &g->plan->phase[g->plan->nphase - 1];
}

static void order(TsGpuEmit *g) {
  bool first = g->phase == g->plan->phase;
  g->after = first ? wait_if_few(g)
                   : text_of(g, "griddepcontrol.wait; mov.u64 $0, 0;", "=l,~{memory}", true,
                             i64(g), 0, NULL);
  if (!first || !is_last(g)) say_next(g);
  g->dependent = first;
}

static void await_last(TsGpuEmit *g) {
  text_of(g, "griddepcontrol.wait;", "~{memory}", true, nothing(g), 0, NULL);
  if (is_last(g)) say_next(g);
}

/* ---- meeting */
static void meet(TsGpuEmit *g, const char *text, const char *constraints, int nin, V *in) {
  V call = text_of(g, text, constraints, true, nothing(g), nin, in);
  unsigned kind = LLVMGetEnumAttributeKindForName("convergent", 10);
  LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                           LLVMCreateEnumAttribute(g->e->ctx, kind, 0));
}

static void warp_sync(TsGpuEmit *g) {
  meet(g, "bar.warp.sync 0xffffffff;", "~{memory}", 0, NULL);
}

static void sync(TsGpuEmit *g) {
  if (g->phase->rounds == 1) {
    meet(g, "bar.sync 0;", "~{memory}", 0, NULL);
  } else if (g->threads == TS_GPU_WARP) {
    warp_sync(g);
  } else {
    V id = LLVMBuildTrunc(g->e->b, ts_gpu_add(g, g->group, ts_gpu_i64(g, 1)), i32(g), "");
    V in[2] = {id, ts_emit_int(g->e, i32(g), g->threads)};
    meet(g, "bar.sync $0, $1;", "r,r,~{memory}", 2, in);
  }
}

/* ---- meeting of devices
 *
 * Thread q of a block tells device q, and waits for what device q tells this one: a word each,
 * and the number of the meeting, which the slot counts, so that a launch that is replayed has a
 * number of its own. All threads of the block meet before and behind it: a release of one is
 * behind what the others wrote, an acquire before what they read then (PTX, causality order).
 *
 * Nothing else is done before it is found that the others are there: the kernel has read the
 * number long before, the counter is written while one waits, and what tells of a failure,
 * which takes as long to read as the word, is looked at once in so many times. */
static V word_at(TsGpuEmit *g, V words, V i) {
  return LLVMBuildInBoundsGEP2(g->e->b, i32(g), words, &i, 1, "");
}

static V chosen(TsGpuEmit *g, int n, const V *of, V i) {
  V x = of[0];
  for (int q = 1; q < n; q++) {
    V is = LLVMBuildICmp(g->e->b, LLVMIntEQ, i, ts_gpu_i64(g, q), "");
    x = LLVMBuildSelect(g->e->b, is, of[q], x, "");
  }
  return x;
}

/* in: the word to write, that to look at, the number, the first word of all, 1 + who is waited
 * for. */
static void tell_and_wait(TsGpuEmit *g, V *in, int64_t patience) {
  char text[900];
  snprintf(text, sizeof text,
           "{ .reg .pred p; .reg .b32 v, k; .reg .b64 s, t;\n"
           "st.release.sys.global.b32 [$0], $2; mov.b32 k, 0; mov.b64 s, 0;\n"
           "again_${:uid}: ld.acquire.sys.global.b32 v, [$1]; sub.s32 v, v, $2;\n"
           "setp.ge.s32 p, v, 0; @p bra there_${:uid};\n"
           "add.s32 k, k, 1; and.b32 v, k, 63; setp.ne.s32 p, v, 0; @p bra again_${:uid};\n"
           "ld.volatile.global.b32 v, [$3]; setp.ne.s32 p, v, 0; @p bra there_${:uid};\n"
           "mov.u64 t, %%globaltimer; setp.eq.s64 p, s, 0; selp.b64 s, t, s, p;\n"
           "sub.s64 t, t, s; setp.lt.s64 p, t, %lld; @p bra again_${:uid};\n"
           "st.volatile.global.b32 [$3], $4;\n"
           "there_${:uid}: mov.b32 v, 0; }",
           (long long)patience * 1000000);
  meet(g, text, "l,l,r,l,r,~{memory}", 5, in);
}

static void count_on(TsGpuEmit *g, V count, V number) {
  V in[2] = {count, number};
  LLVMBasicBlockRef after =
      ts_gpu_if(g, LLVMBuildICmp(g->e->b, LLVMIntEQ, g->tid64, ts_gpu_i64(g, 0), ""));
  meet(g, "st.volatile.global.b32 [$0], $1;", "l,r,~{memory}", 2, in);
  ts_gpu_if_end(g, after);
}

static void meet_devices(TsGpuEmit *g, int n, const V *word, const V *where, int64_t patience) {
  V rank = where[0], first = ts_gpu_add(g, ts_gpu_mul(g, where[1], n + 1), ts_gpu_i64(g, 1));
  V number = LLVMBuildTrunc(g->e->b, ts_gpu_add(g, where[2], ts_gpu_i64(g, 1)), i32(g), "");
  V own = chosen(g, n, word, rank);
  V count = word_at(g, own, ts_gpu_add(g, first, ts_gpu_i64(g, n)));
  V to = word_at(g, chosen(g, n, word, g->tid64), ts_gpu_add(g, first, rank));
  V from = word_at(g, own, ts_gpu_add(g, first, g->tid64));
  V who = LLVMBuildTrunc(g->e->b, ts_gpu_add(g, g->tid64, ts_gpu_i64(g, 1)), i32(g), "");
  ts_gpu_sync(g);
  LLVMBasicBlockRef after = ts_gpu_if(g, ts_gpu_below(g, g->tid64, ts_gpu_i64(g, n)));
  tell_and_wait(g, (V[]){to, from, number, own, who}, patience);
  ts_gpu_if_end(g, after);
  ts_gpu_sync(g);
  count_on(g, count, number);
}

static V shuffle(TsGpuEmit *g, V x, int mask) {
  TsEmit *e = g->e;
  V in[4] = {ts_emit_int(e, i32(g), -1), x, ts_emit_int(e, i32(g), mask),
             ts_emit_int(e, i32(g), TS_GPU_WARP - 1)};
  return ts_emit_call(e, "llvm.nvvm.shfl.sync.bfly.i32", 0, NULL, 4, in);
}

static V vote(TsGpuEmit *g, V is) {
  V in[2] = {ts_emit_int(g->e, i32(g), -1), is};
  return ts_emit_call(g->e, "llvm.nvvm.vote.ballot.sync", 0, NULL, 2, in);
}

/* ---- memory */
static LLVMTypeRef words(TsGpuEmit *g, LLVMTypeRef word, int n) {
  LLVMTypeRef list[4] = {word, word, word, word};
  return n == 1 ? word : LLVMStructTypeInContext(g->e->ctx, list, (unsigned)n, 0);
}

/* As text, for LLVM has no such load. */
static V read_guarded(TsGpuEmit *g, V p, int by, V c, int n, int bits, const V *old) {
  char text[160], constraints[64];
  const char *r = bits == 64 ? "l" : "r";
  V in[6] = {p, c};
  int at = n > 1 ? snprintf(text, sizeof text, "@$%d ld.global.v%d.b%d {", n + 1, n, bits)
                 : snprintf(text, sizeof text, "@$%d ld.global.b%d ", n + 1, bits);
  for (int i = 0; i < n; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, i ? ", $%d" : "$%d", i);
  snprintf(text + at, sizeof text - (size_t)at, "%s, [$%d+%d];", n > 1 ? "}" : "", n, by);
  at = 0;
  for (int i = 0; i < n; i++) at += snprintf(constraints + at, 8, i ? ",=%s" : "=%s", r);
  at += snprintf(constraints + at, 8, ",l,b");
  for (int i = 0; i < n; i++) in[2 + i] = old[i], at += snprintf(constraints + at, 8, ",%d", i);
  return text_of(g, text, constraints, true, words(g, LLVMTypeOf(old[0]), n), 2 + n, in);
}

static void write_guarded(TsGpuEmit *g, V p, int by, V c, int nbytes, V x) {
  char text[64], constraints[16];
  V in[3] = {p, x, c};
  snprintf(text, sizeof text, "@$2 st.global.b%d [$0+%d], $1;", 8 * nbytes, by);
  snprintf(constraints, sizeof constraints, "l,%s,b", nbytes == 8 ? "l" : "r");
  text_of(g, text, constraints, true, nothing(g), 3, in);
}

/* What all rounds read stays in the first cache. What is read once, and what is written, has no
 * hint: with L1::no_allocate for both a norm took 132 or 137 us, by what ran before it. */
static V read_hinted(TsGpuEmit *g, V p, bool once, int n) {
  static const char *const two[] = {"ld.global.nc.L1::evict_last.v2.b32 {$0, $1}, [$2];",
                                    "ld.global.v2.b32 {$0, $1}, [$2];"};
  static const char *const four[] = {
      "ld.global.nc.L1::evict_last.v4.b32 {$0, $1, $2, $3}, [$4];",
      "ld.global.v4.b32 {$0, $1, $2, $3}, [$4];"};
  return text_of(g, n == 4 ? four[once] : two[once], n == 4 ? "=r,=r,=r,=r,l" : "=r,=r,l",
                 g->stays, words(g, i32(g), n), 1, &p);
}

static void copy(TsGpuEmit *g, V to, V from) {
  V in[2] = {LLVMBuildPtrToInt(g->e->b, to, i32(g), ""), from};
  text_of(g, "cp.async.cg.shared.global [$0], [$1], 16;", "r,l,~{memory}", true, nothing(g), 2,
          in);
}

static void wait_copies(TsGpuEmit *g) {
  text_of(g, "cp.async.wait_all;", "~{memory}", true, nothing(g), 0, NULL);
}

/* ---- numbers */
static V scale_far(TsGpuEmit *g, V x, V k, int far) {
  unsigned up = (127u + (unsigned)far) << 23, down = (127u - (unsigned)far) << 23;
  char text[160];
  snprintf(text, sizeof text,
           "{ .reg .b32 a; .reg .f32 y; shl.b32 a, $2, 23;"
           " add.s32 a, a, 0x%08x; mul.rn.f32 y, $1, a;"
           " mul.rn.f32 $0, y, 0f%08X; }",
           up, down);
  return text_of(g, text, "=f,f,r", false, LLVMTypeOf(x), 2, (V[]){x, k});
}

/* As text, since LLVM's search for common parts of sums takes a time that grows with their
 * square. */
static V scale_by_two(TsGpuEmit *g, V x, V k) {
  static const char text[] =
      "{ .reg .b32 a, b; .reg .f32 y; shr.s32 a, $2, 1; sub.s32 b, $2, a;"
      " shl.b32 a, a, 23; shl.b32 b, b, 23; add.s32 a, a, 0x3f800000;"
      " add.s32 b, b, 0x3f800000; mul.rn.f32 y, $1, a;"
      " mul.rn.f32 $0, y, b; }";
  return text_of(g, text, "=f,f,r", false, LLVMTypeOf(x), 2, (V[]){x, k});
}

/* What the driver's compiler makes of 1 / x, without the branch that finds out whether x is
 * large or small. */
static V inverse(TsGpuEmit *g, V x) {
  static const char text[] = "{ .reg .f32 n, r, e; neg.f32 n, $1; rcp.approx.ftz.f32 r, $1;"
                             " fma.rn.f32 e, n, r, 0f3F800000; fma.rn.f32 $0, r, e, r; }";
  return text_of(g, text, "=f,f", false, LLVMTypeOf(x), 1, &x);
}

static V round_two(TsGpuEmit *g, V high, V low) {
  V pair = ts_emit_call(g->e, "llvm.nvvm.ff2bf16x2.rn", 0, NULL, 2, (V[]){high, low});
  return LLVMBuildBitCast(g->e->b, pair, i32(g), "");
}

static V extreme_two(TsGpuEmit *g, bool min, V x, V y) {
  return text_of(g, min ? "min.NaN.bf16x2 $0, $1, $2;" : "max.NaN.bf16x2 $0, $1, $2;", "=r,r,r",
                 false, LLVMTypeOf(x), 2, (V[]){x, y});
}

static V function(TsGpuEmit *g, int op, V x) {
  const char *text = op == TS_TILE_ex2   ? "ex2.approx.ftz.f32 $0, $1;"
                     : op == TS_TILE_lg2 ? "lg2.approx.ftz.f32 $0, $1;"
                                         : "rcp.approx.ftz.f32 $0, $1;";
  return text_of(g, text, "=f,f", false, LLVMTypeOf(x), 1, &x);
}

const TsGpuMaker ts_gpu_nvidia = {
    .global = 1,
    .shared = 3,
    .table = 0,
    .constants = 1,
    .call = 71,
    .by = "byval",
    .thread = "llvm.nvvm.read.ptx.sreg.tid.x",
    .block = "llvm.nvvm.read.ptx.sreg.ctaid.x",
    .begin = ts_gpu_begin,
    .kernel = kernel,
    .scratch = ts_gpu_scratch_argument,
    .word = word,
    .sync = sync,
    .warp_sync = warp_sync,
    .shuffle = shuffle,
    .vote = vote,
    .meet = meet_devices,
    .order = order,
    .await_last = await_last,
    .read_guarded = read_guarded,
    .write_guarded = write_guarded,
    .read_hinted = read_hinted,
    .copy = copy,
    .wait_copies = wait_copies,
    .scale_far = scale_far,
    .scale_by_two = scale_by_two,
    .inverse = inverse,
    .round_two = round_two,
    .extreme_two = extreme_two,
    .function = function,
};
