/* Threads of a group: who they are, how they meet, what they share; small pieces of IR. Here,
 * and nowhere else, a GPU and its emulation on the host differ. */
#include <stdio.h>
#include <string.h>

#include "jit/emit/simt/emit.h"

typedef LLVMValueRef V;

enum { KERNEL_CALL = 71 }; /* LLVM's calling convention of PTX kernels */

static LLVMTypeRef i32(TsGpuEmit *g) { return ts_emit_int_type(g->e, 32, 0); }
static LLVMTypeRef i64(TsGpuEmit *g) { return ts_emit_int_type(g->e, 64, 0); }
static LLVMTypeRef pointer(TsGpuEmit *g, int space) {
  return LLVMPointerTypeInContext(g->e->ctx, (unsigned)space);
}

/* ---- small pieces */
V ts_gpu_i64(TsGpuEmit *g, int64_t v) { return ts_emit_i64(g->e, v); }

static bool is_zero(V x) { return LLVMIsAConstantInt(x) && !LLVMConstIntGetSExtValue(x); }

V ts_gpu_add(TsGpuEmit *g, V x, V y) {
  if (!x || is_zero(x)) return y;
  return !y || is_zero(y) ? x : LLVMBuildNSWAdd(g->e->b, x, y, "");
}

V ts_gpu_mul(TsGpuEmit *g, V x, int64_t by) {
  if (by == 1) return x;
  return LLVMBuildNSWMul(g->e->b, x, ts_gpu_i64(g, by), "");
}

static V narrow(TsGpuEmit *g, V x) { return LLVMBuildTrunc(g->e->b, x, i32(g), ""); }

V ts_gpu_div(TsGpuEmit *g, V x, int64_t by) {
  if (by == 1) return x;
  V q = LLVMBuildUDiv(g->e->b, narrow(g, x), ts_emit_int(g->e, i32(g), by), "");
  return LLVMBuildZExt(g->e->b, q, i64(g), "");
}

V ts_gpu_mod(TsGpuEmit *g, V x, int64_t by) {
  if (by == 1) return ts_gpu_i64(g, 0);
  V r = LLVMBuildURem(g->e->b, narrow(g, x), ts_emit_int(g->e, i32(g), by), "");
  return LLVMBuildZExt(g->e->b, r, i64(g), "");
}

V ts_gpu_below(TsGpuEmit *g, V x, V y) { return LLVMBuildICmp(g->e->b, LLVMIntULT, x, y, ""); }

V ts_gpu_and(TsGpuEmit *g, V x, V y) {
  return !x ? y : !y ? x : LLVMBuildAnd(g->e->b, x, y, "");
}

V ts_gpu_coord(TsGpuEmit *g, TsGpuCoord c) {
  return ts_gpu_add(g, c.base, ts_gpu_i64(g, c.off));
}

static LLVMBasicBlockRef block(TsGpuEmit *g) {
  return LLVMAppendBasicBlockInContext(g->e->ctx, g->e->fn, "");
}

TsGpuLoop ts_gpu_loop(TsGpuEmit *g, V lo, V hi, V step) {
  LLVMBuilderRef b = g->e->b;
  TsGpuLoop l = {.body = block(g), .after = block(g), .hi = hi, .step = step};
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, lo, hi, ""), l.body, l.after);
  LLVMPositionBuilderAtEnd(b, l.body);
  l.i = LLVMBuildPhi(b, i64(g), "");
  LLVMAddIncoming(l.i, &lo, &before, 1);
  return l;
}

void ts_gpu_loop_end(TsGpuEmit *g, TsGpuLoop *l) {
  LLVMBuilderRef b = g->e->b;
  LLVMBasicBlockRef last = LLVMGetInsertBlock(b);
  V next = LLVMBuildNSWAdd(b, l->i, l->step, "");
  LLVMAddIncoming(l->i, &next, &last, 1);
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, next, l->hi, ""), l->body, l->after);
  LLVMMoveBasicBlockAfter(l->after, last);
  LLVMPositionBuilderAtEnd(b, l->after);
}

LLVMBasicBlockRef ts_gpu_if(TsGpuEmit *g, V c) {
  LLVMBasicBlockRef then = block(g), after = block(g);
  LLVMBuildCondBr(g->e->b, c, then, after);
  LLVMPositionBuilderAtEnd(g->e->b, then);
  return after;
}

void ts_gpu_if_end(TsGpuEmit *g, LLVMBasicBlockRef after) {
  LLVMBasicBlockRef last = LLVMGetInsertBlock(g->e->b);
  LLVMBuildBr(g->e->b, after);
  LLVMMoveBasicBlockAfter(after, last);
  LLVMPositionBuilderAtEnd(g->e->b, after);
}

/* ---- functions */
static V special(TsGpuEmit *g, const char *name) {
  return ts_emit_call(g->e, name, 0, NULL, 0, NULL);
}

static V read_at(TsGpuEmit *g, LLVMTypeRef t, V list, int i) {
  V at = ts_gpu_i64(g, i);
  return LLVMBuildLoad2(g->e->b, t, LLVMBuildInBoundsGEP2(g->e->b, t, list, &at, 1, ""), "");
}

/* Kernels on sm_90 and newer may begin while the launch before still runs. A phase behind another
 * one of its kernel waits before it reads; addresses come out of the waiting, so that no load is
 * moved before it. The first phase reads at once and waits before it writes (TsLaunch.ahead).
 * Blocks say that the next launch may come: before phases of their own kernel at their begin,
 * others when they have waited, since that launch relies on all before this one being over. */
static V control(TsGpuEmit *g, const char *text, const char *constraints, LLVMTypeRef out) {
  LLVMTypeRef t = LLVMFunctionType(out, NULL, 0, 0);
  V f = LLVMGetInlineAsm(t, text, strlen(text), constraints, strlen(constraints), 1, 0,
                         LLVMInlineAsmDialectATT, 0);
  return LLVMBuildCall2(g->e->b, t, f, NULL, 0, "");
}

/* By the last blocks alone: to say it takes 1.2 ns a block, whichever processor it is on, and those
 * before have ended by then, which says the same. */
static void say_next(TsGpuEmit *g) {
  enum { LAST = 2048 }; /* as many as run at a time */
  static const char text[] = "@$0 griddepcontrol.launch_dependents;", how[] = "b,~{memory}";
  LLVMBuilderRef b = g->e->b;
  V all = special(g, "llvm.nvvm.read.ptx.sreg.nctaid.x"),
    this = special(g, "llvm.nvvm.read.ptx.sreg.ctaid.x");
  V left = LLVMBuildSub(b, all, this, "");
  V in = LLVMBuildICmp(b, LLVMIntULE, left, ts_emit_int(g->e, i32(g), LAST), "");
  LLVMTypeRef from = LLVMTypeOf(in),
              t = LLVMFunctionType(LLVMVoidTypeInContext(g->e->ctx), &from, 1, 0);
  V f = LLVMGetInlineAsm(t, text, sizeof text - 1, how, sizeof how - 1, 1, 0,
                         LLVMInlineAsmDialectATT, 0);
  LLVMBuildCall2(b, t, f, &in, 1, "");
}

static bool is_last(const TsGpuEmit *g) {
  return g->phase == &g->plan->phase[g->plan->nphase - 1];
}

static void order_phases(TsGpuEmit *g) {
  bool first = g->phase == g->plan->phase;
  g->after = NULL, g->followed = NULL, g->awaited = false;
  g->follows = !g->batch && ts_target_has(g->e->target, TS_UNIT_early);
  if (!g->follows) return;
  if (!first)
    g->after = control(g, "griddepcontrol.wait; mov.u64 $0, 0;", "=l,~{memory}", i64(g));
  if (!first || !is_last(g)) say_next(g);
  g->follows = first;
}

/* To wait again costs nothing, so what comes in another block of code need not know. */
void ts_gpu_await_last(TsGpuEmit *g) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->e->b);
  if (!g->follows || g->followed == here) return;
  g->followed = here;
  control(g, "griddepcontrol.wait;", "~{memory}", LLVMVoidTypeInContext(g->e->ctx));
  if (is_last(g)) say_next(g);
}

static V behind(TsGpuEmit *g, V p) {
  if (!g->after) return p;
  return LLVMBuildInBoundsGEP2(g->e->b, ts_emit_int_type(g->e, 8, 0), p, &g->after, 1, "");
}

static void begin_device(TsGpuEmit *g, const char *name) {
  TsEmit *e = g->e;
  const TsTile *k = e->k;
  int n = g->batch ? 1 : k->nparam + g->nscratch, own = g->batch; /* sizes of each run */
  LLVMTypeRef *in = ts_emit_take(e, sizeof *in * (size_t)(n + k->ndim + 1));
  for (int i = 0; i < n; i++) in[i] = pointer(g, g->batch ? 0 : g->global);
  for (int i = own; i < k->ndim; i++) in[n + i - own] = i64(g);
  LLVMTypeRef t =
      LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), in, (unsigned)(n + k->ndim - own), 0);
  e->fn = LLVMAddFunction(e->module, name, t);
  LLVMSetFunctionCallConv(e->fn, KERNEL_CALL);
  if (g->batch) ts_gpu_batch_declare(g);
  ts_emit_launch(e, "nvvm.maxntid", "maxntidx", g->threads * g->phase->rounds);
  if (g->phase->registers) ts_emit_launch(e, "nvvm.maxnreg", "maxnreg", g->phase->registers);
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""));
  order_phases(g);
  for (int i = own; i < k->ndim; i++) e->dim[i] = LLVMGetParam(e->fn, (unsigned)(n + i - own));
  for (int i = 0; !g->batch && i < k->nparam; i++)
    ts_gpu_memory_begin(g, k->param[i], behind(g, LLVMGetParam(e->fn, (unsigned)i)));
  g->tid = special(g, "llvm.nvvm.read.ptx.sreg.tid.x");
  g->block = LLVMBuildZExt(e->b, special(g, "llvm.nvvm.read.ptx.sreg.ctaid.x"), i64(g), "");
  V memory = LLVMGetNamedGlobal(e->module, "shared");
  if (!memory) {
    memory =
        LLVMAddGlobalInAddressSpace(e->module, LLVMArrayType2(ts_emit_int_type(e, 8, 0), 0),
                                    "shared", (unsigned)g->shared_space);
    LLVMSetAlignment(memory, 16);
  }
  g->shared = memory;
}

/* void phase(void **arg, int64_t *dim, int64_t block, int32_t thread, void *shared,
 * void *env) */
static void begin_host(TsGpuEmit *g, const char *name) {
  TsEmit *e = g->e;
  LLVMTypeRef p = pointer(g, 0), in[] = {p, p, i64(g), i32(g), p, p};
  e->fn = LLVMAddFunction(e->module, name,
                          LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), in, 6, 0));
  ts_emit_attribute(e, "target-cpu", e->target->cpu);
  ts_emit_attribute(e, "target-features", e->target->features);
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""));
  for (int i = 0; i < e->k->ndim; i++)
    e->dim[i] = read_at(g, i64(g), LLVMGetParam(e->fn, 1), i);
  e->args = LLVMGetParam(e->fn, 0);
  for (int i = 0; !g->batch && i < e->k->nparam; i++)
    ts_gpu_memory_begin(g, e->k->param[i], read_at(g, p, e->args, i));
  g->block = LLVMGetParam(e->fn, 2);
  g->tid = LLVMGetParam(e->fn, 3);
  g->shared = LLVMGetParam(e->fn, 4);
  g->env = LLVMGetParam(e->fn, 5);
}

void ts_gpu_thread_begin(TsGpuEmit *g, int phase) {
  TsEmit *e = g->e;
  char name[32];
  snprintf(name, sizeof name, "phase%d", phase);
  g->threads = g->phase->threads;
  g->shared_used = g->shared_most = 0;
  if (g->host)
    begin_host(g, name);
  else
    begin_device(g, name);
  if (g->batch) ts_gpu_batch_begin(g);
  g->round = g->block;
  if (g->phase->rounds > 1) {
    V t = ts_emit_int(e, i32(g), g->threads);
    V group = LLVMBuildZExt(e->b, LLVMBuildUDiv(e->b, g->tid, t, ""), i64(g), "");
    g->tid = LLVMBuildURem(e->b, g->tid, t, "");
    g->round = ts_gpu_add(g, ts_gpu_mul(g, g->block, g->phase->rounds), group);
    g->held = LLVMBuildFreeze(e->b, LLVMGetPoison(i64(g)), "");
    V by = LLVMBuildMul(e->b, group, g->held, "");
    g->group = group;
    g->shared = LLVMBuildInBoundsGEP2(e->b, ts_emit_int_type(e, 8, 0), g->shared, &by, 1, "");
  }
  g->tid64 = LLVMBuildZExt(e->b, g->tid, i64(g), "");
  g->lane = LLVMBuildAnd(e->b, g->tid, ts_emit_int(e, i32(g), 31), "");
}

void ts_gpu_thread_end(TsGpuEmit *g) {
  if (!g->awaited) ts_gpu_await_last(g); /* also who writes nothing ends behind those before */
  LLVMBuildRetVoid(g->e->b);
  int64_t most = (g->shared_most + 15) & -16;
  if (g->phase->rounds > 1) {
    LLVMReplaceAllUsesWith(g->held, ts_gpu_i64(g, most));
    LLVMInstructionEraseFromParent(g->held);
  }
  g->shared_bytes[g->phase - g->plan->phase] = most;
}

V ts_gpu_scratch(TsGpuEmit *g, int i) {
  int at = g->e->k->nparam + i;
  return g->host ? read_at(g, pointer(g, 0), g->e->args, at)
                 : behind(g, LLVMGetParam(g->e->fn, (unsigned)at));
}

/* ---- meeting */
static V convergent(TsGpuEmit *g, V call) {
  unsigned kind = LLVMGetEnumAttributeKindForName("convergent", 10);
  LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                           LLVMCreateEnumAttribute(g->e->ctx, kind, 0));
  return call;
}

static void call_asm(TsGpuEmit *g, const char *text, const char *constraints, int nin, V *in) {
  LLVMTypeRef list[4];
  for (int i = 0; i < nin; i++) list[i] = LLVMTypeOf(in[i]);
  LLVMTypeRef t = LLVMFunctionType(LLVMVoidTypeInContext(g->e->ctx), list, (unsigned)nin, 0);
  V f = LLVMGetInlineAsm(t, text, strlen(text), constraints, strlen(constraints), 1, 0,
                         LLVMInlineAsmDialectATT, 0);
  convergent(g, LLVMBuildCall2(g->e->b, t, f, in, (unsigned)nin, ""));
}

static void meet_host(TsGpuEmit *g) {
  LLVMTypeRef p = pointer(g, 0);
  LLVMTypeRef t = LLVMFunctionType(LLVMVoidTypeInContext(g->e->ctx), &p, 1, 0);
  LLVMBuildCall2(g->e->b, t, read_at(g, p, g->env, 0), &g->env, 1, "");
}

void ts_gpu_sync(TsGpuEmit *g) {
  g->wrote = g->read = false;
  g->meetings++;
  if (!g->followed) ts_gpu_await_last(g); /* behind the first loads: the next launch may come */
  if (g->host) {
    meet_host(g);
  } else if (g->phase->rounds == 1) {
    call_asm(g, "bar.sync 0;", "~{memory}", 0, NULL);
  } else if (g->threads == 32) {
    call_asm(g, "bar.warp.sync 0xffffffff;", "~{memory}", 0, NULL);
  } else {
    V id = LLVMBuildTrunc(g->e->b, ts_gpu_add(g, g->group, ts_gpu_i64(g, 1)), i32(g), "");
    V in[2] = {id, ts_emit_int(g->e, i32(g), g->threads)};
    call_asm(g, "bar.sync $0, $1;", "r,r,~{memory}", 2, in);
  }
}

void ts_gpu_warp_sync(TsGpuEmit *g) {
  if (g->host)
    meet_host(g);
  else
    call_asm(g, "bar.warp.sync 0xffffffff;", "~{memory}", 0, NULL);
}

/* The exchange holds what every thread said. */
static V equals_host(TsGpuEmit *g, V x) {
  LLVMBuilderRef b = g->e->b;
  V list = read_at(g, pointer(g, 0), g->env, 1), y = ts_emit_int(g->e, i32(g), 0);
  V wide = LLVMBuildZExt(b, x, i64(g), "");
  LLVMBuildStore(b, wide, LLVMBuildInBoundsGEP2(b, i64(g), list, &g->tid64, 1, ""));
  meet_host(g);
  V first = LLVMBuildAnd(b, g->tid64, ts_gpu_i64(g, -32), "");
  for (int i = 0; i < 32; i++) {
    V at = ts_gpu_add(g, first, ts_gpu_i64(g, i));
    V other = LLVMBuildLoad2(b, i64(g), LLVMBuildInBoundsGEP2(b, i64(g), list, &at, 1, ""), "");
    LLVMSetVolatile(other, 1);
    V same = LLVMBuildICmp(b, LLVMIntEQ, other, wide, "");
    same = LLVMBuildZExt(b, same, i32(g), "");
    y = LLVMBuildOr(b, y, LLVMBuildShl(b, same, ts_emit_int(g->e, i32(g), i), ""), "");
  }
  meet_host(g);
  return y;
}

/* Bit by bit, by votes. */
V ts_gpu_equals(TsGpuEmit *g, V x, int bits) {
  LLVMBuilderRef b = g->e->b;
  V y = ts_emit_int(g->e, i32(g), -1), zero = ts_emit_int(g->e, i32(g), 0);
  if (g->host) return equals_host(g, x);
  for (int i = 0; i < bits; i++) {
    V bit = LLVMBuildAnd(b, x, ts_emit_int(g->e, i32(g), (int64_t)1 << i), "");
    V set = LLVMBuildICmp(b, LLVMIntNE, bit, zero, "");
    V in[2] = {ts_emit_int(g->e, i32(g), -1), set};
    V vote = ts_emit_call(g->e, "llvm.nvvm.vote.ballot.sync", 0, NULL, 2, in);
    y = LLVMBuildAnd(b, y, LLVMBuildSelect(b, set, vote, LLVMBuildNot(b, vote, ""), ""), "");
  }
  return y;
}

/* ---- shuffles */
static V shuffle_word(TsGpuEmit *g, V x, int mask) {
  TsEmit *e = g->e;
  V in[4] = {ts_emit_int(e, i32(g), -1), x, ts_emit_int(e, i32(g), mask),
             ts_emit_int(e, i32(g), 31)};
  return ts_emit_call(e, "llvm.nvvm.shfl.sync.bfly.i32", 0, NULL, 4, in);
}

static V shuffle_host(TsGpuEmit *g, V x, int mask) {
  LLVMBuilderRef b = g->e->b;
  V list = read_at(g, pointer(g, 0), g->env, 1);
  V own = LLVMBuildInBoundsGEP2(b, i64(g), list, &g->tid64, 1, "");
  LLVMBuildStore(b, LLVMBuildZExt(b, x, i64(g), ""), own);
  meet_host(g);
  V other = LLVMBuildXor(b, g->tid64, ts_gpu_i64(g, mask), "");
  V y = LLVMBuildLoad2(b, i64(g), LLVMBuildInBoundsGEP2(b, i64(g), list, &other, 1, ""), "");
  LLVMSetVolatile(y, 1);
  meet_host(g);
  return LLVMBuildTrunc(b, y, LLVMTypeOf(x), "");
}

static V shuffle_bits(TsGpuEmit *g, V x, int bits, int mask) {
  LLVMBuilderRef b = g->e->b;
  if (g->host) return shuffle_host(g, x, mask);
  if (bits <= 32) {
    V wide = bits < 32 ? LLVMBuildZExt(b, x, i32(g), "") : x;
    return LLVMBuildTrunc(b, shuffle_word(g, wide, mask), LLVMTypeOf(x), "");
  }
  V low = shuffle_word(g, narrow(g, x), mask);
  V high = shuffle_word(g, narrow(g, LLVMBuildLShr(b, x, ts_gpu_i64(g, 32), "")), mask);
  high = LLVMBuildShl(b, LLVMBuildZExt(b, high, i64(g), ""), ts_gpu_i64(g, 32), "");
  return LLVMBuildOr(b, LLVMBuildZExt(b, low, i64(g), ""), high, "");
}

V ts_gpu_shuffle(TsGpuEmit *g, V x, int mask) {
  LLVMTypeRef t = LLVMTypeOf(x);
  LLVMTypeKind kind = LLVMGetTypeKind(t);
  int bits = kind == LLVMFloatTypeKind    ? 32
             : kind == LLVMDoubleTypeKind ? 64
                                          : (int)LLVMGetIntTypeWidth(t);
  x = LLVMBuildBitCast(g->e->b, x, ts_emit_int_type(g->e, bits, 0), "");
  return LLVMBuildBitCast(g->e->b, shuffle_bits(g, x, bits, mask), t, "");
}

/* ---- shared memory */
int64_t ts_gpu_shared_take(TsGpuEmit *g, int64_t nbytes) {
  int64_t at = g->shared_used;
  g->shared_used = (at + nbytes + 15) & -16;
  if (g->shared_used > g->shared_most) g->shared_most = g->shared_used;
  if (g->shared_most > TS_GPU_SHARED)
    ts_emit_fail(g->e, "a round needs %lld bytes of shared memory", (long long)g->shared_most);
  return at;
}

V ts_gpu_shared_at(TsGpuEmit *g, int64_t offset, LLVMTypeRef elem, V i) {
  V by = ts_gpu_i64(g, offset);
  V p = LLVMBuildInBoundsGEP2(g->e->b, ts_emit_int_type(g->e, 8, 0), g->shared, &by, 1, "");
  return i ? LLVMBuildInBoundsGEP2(g->e->b, elem, p, &i, 1, "") : p;
}
