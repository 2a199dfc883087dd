/* Threads of a group: who they are, how they meet, what they share; small pieces of IR. What
 * makers have in their own ways is in their files (jit/emit/simt/maker.h). */
#include <stdio.h>
#include <string.h>

#include "jit/emit/simt/emit.h"

typedef LLVMValueRef V;

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
V ts_gpu_read_at(TsGpuEmit *g, LLVMTypeRef t, V list, int i) {
  V at = ts_gpu_i64(g, i);
  return LLVMBuildLoad2(g->e->b, t, LLVMBuildInBoundsGEP2(g->e->b, t, list, &at, 1, ""), "");
}

static V special(TsGpuEmit *g, const char *name) {
  return ts_emit_call(g->e, name, 0, NULL, 0, NULL);
}

static void order_phases(TsGpuEmit *g) {
  g->after = NULL, g->awaited_in = NULL, g->awaited = false;
  g->dependent = !g->batch && g->maker->order && ts_target_has(g->e->target, TS_UNIT_early);
  if (g->dependent) g->maker->order(g);
}

/* To wait again costs nothing, so what comes in another block of code need not know. */
void ts_gpu_await_last(TsGpuEmit *g) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->e->b);
  if (!g->dependent || g->awaited_in == here) return;
  g->awaited_in = here;
  g->maker->await_last(g);
}

static V behind(TsGpuEmit *g, V p) {
  if (!g->after) return p;
  return LLVMBuildInBoundsGEP2(g->e->b, ts_emit_int_type(g->e, 8, 0), p, &g->after, 1, "");
}

bool ts_gpu_marks_said(const TsGpuEmit *g) {
  return g->e->k->marks && g->maker->cycles && !g->batch;
}

V ts_gpu_shared_memory(TsGpuEmit *g) {
  TsEmit *e = g->e;
  V memory = LLVMGetNamedGlobal(e->module, "shared");
  if (memory) return memory;
  LLVMTypeRef t = LLVMArrayType2(ts_emit_int_type(e, 8, 0), 0);
  memory = LLVMAddGlobalInAddressSpace(e->module, t, "shared", (unsigned)g->maker->shared);
  LLVMSetAlignment(memory, 16);
  return memory;
}

void ts_gpu_begin(TsGpuEmit *g, const char *name) {
  TsEmit *e = g->e;
  const TsTile *k = e->k;
  const TsGpuMaker *m = g->maker;
  bool said = ts_gpu_marks_said(g);
  int n = g->batch ? 1 : k->nparam + g->nscratch + said, own = g->batch; /* sizes of each run */
  int words = k->ndim - own + (said ? TS_GPU_MARKS_WORDS : 0);
  LLVMTypeRef *in = ts_emit_take(e, sizeof *in * (size_t)(n + words + 1));
  for (int i = 0; i < n; i++) in[i] = pointer(g, g->batch ? m->table : m->global);
  for (int i = 0; i < words; i++) in[n + i] = i64(g);
  LLVMTypeRef t = LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), in, (unsigned)(n + words), 0);
  e->fn = LLVMAddFunction(e->module, name, t);
  LLVMSetFunctionCallConv(e->fn, m->call);
  if (g->batch) ts_gpu_batch_declare(g);
  m->kernel(g);
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""));
  order_phases(g);
  g->marks.argument = (unsigned)(n + k->ndim);
  for (int i = own; i < k->ndim; i++) e->dim[i] = LLVMGetParam(e->fn, (unsigned)(n + i - own));
  for (int i = 0; !g->batch && i < k->nparam; i++)
    ts_gpu_memory_begin(g, k->param[i], behind(g, LLVMGetParam(e->fn, (unsigned)i)));
  g->tid = m->place ? m->place(g, false) : special(g, m->thread);
  V block = m->place ? m->place(g, true) : special(g, m->block);
  g->block = LLVMBuildZExt(e->b, block, i64(g), "");
  V memory = m->memory ? m->memory(g) : ts_gpu_shared_memory(g);
  g->own_shared = m->memory ? memory : NULL;
  g->shared = memory;
}

V ts_gpu_scratch_argument(TsGpuEmit *g, int i) {
  return behind(g, LLVMGetParam(g->e->fn, (unsigned)(g->e->k->nparam + i)));
}

void ts_gpu_thread_begin(TsGpuEmit *g, int phase) {
  TsEmit *e = g->e;
  char name[32];
  snprintf(name, sizeof name, "phase%d", phase);
  const char *own = g->task ? g->task : name;
  g->threads = g->phase->threads;
  g->shared_used = g->shared_most = 0;
  g->maker->begin(g, own);
  if (g->batch) ts_gpu_batch_begin(g);
  g->round = g->block;
  V thread = g->tid; /* of the block */
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
  g->lane = LLVMBuildAnd(e->b, g->tid, ts_emit_int(e, i32(g), TS_GPU_WARP - 1), "");
  bool said = ts_gpu_marks_said(g);
  g->marks.g = g;
  if (said || g->maker == &ts_gpu_nvidia)
    ts_gpu_marks_begin(&g->marks, said ? &ts_gpu_marks_clock : &ts_gpu_marks_ptx, e, thread,
                       narrow(g, g->block),
                       (g->threads * g->phase->rounds + TS_GPU_WARP - 1) / TS_GPU_WARP);
}

void ts_gpu_thread_end(TsGpuEmit *g) {
  if (!g->awaited) ts_gpu_await_last(g); /* also who writes nothing ends behind those before */
  ts_gpu_marks_end(&g->marks);
  LLVMBuildRetVoid(g->e->b);
}

/* A launch need not say it. */
static void close_own(TsGpuEmit *g, int64_t nbytes) {
  if (nbytes > g->e->target->shared_bytes)
    ts_emit_fail(g->e, "a block needs %lld bytes of shared memory", (long long)nbytes);
  g->maker->close_memory(g, g->own_shared, nbytes);
}

void ts_gpu_thread_close(TsGpuEmit *g) {
  int64_t most = (g->shared_most + 15) & -16;
  if (g->phase->rounds > 1) {
    LLVMReplaceAllUsesWith(g->held, ts_gpu_i64(g, most));
    LLVMInstructionEraseFromParent(g->held);
  }
  g->shared_bytes[g->phase - g->plan->phase] = g->own_shared ? 0 : most;
  if (g->own_shared) close_own(g, most * g->phase->rounds);
}

V ts_gpu_scratch(TsGpuEmit *g, int i) { return g->maker->scratch(g, i); }

/* ---- meeting */
void ts_gpu_sync(TsGpuEmit *g) {
  g->wrote = g->read = false;
  g->meetings++;
  if (!g->awaited_in)
    ts_gpu_await_last(g); /* behind the first loads: the next launch may come */
  g->maker->sync(g);
}

void ts_gpu_warp_sync(TsGpuEmit *g) { g->maker->warp_sync(g); }

/* Bit by bit, by votes. */
V ts_gpu_equals(TsGpuEmit *g, V x, int bits) {
  LLVMBuilderRef b = g->e->b;
  V y = ts_emit_int(g->e, i32(g), -1), zero = ts_emit_int(g->e, i32(g), 0);
  if (g->maker->equals) return g->maker->equals(g, x);
  for (int i = 0; i < bits; i++) {
    V bit = LLVMBuildAnd(b, x, ts_emit_int(g->e, i32(g), (int64_t)1 << i), "");
    V set = LLVMBuildICmp(b, LLVMIntNE, bit, zero, ""), vote = g->maker->vote(g, set);
    y = LLVMBuildAnd(b, y, LLVMBuildSelect(b, set, vote, LLVMBuildNot(b, vote, ""), ""), "");
  }
  return y;
}

/* ---- shuffles */
static V shuffle_bits(TsGpuEmit *g, V x, int bits, int mask) {
  LLVMBuilderRef b = g->e->b;
  if (bits <= 32) {
    V wide = bits < 32 ? LLVMBuildZExt(b, x, i32(g), "") : x;
    return LLVMBuildTrunc(b, g->maker->shuffle(g, wide, mask), LLVMTypeOf(x), "");
  }
  V low = g->maker->shuffle(g, narrow(g, x), mask);
  V high = g->maker->shuffle(g, narrow(g, LLVMBuildLShr(b, x, ts_gpu_i64(g, 32), "")), mask);
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
/* No kernel relies on more than the oldest NVIDIA's blocks have; the emulation has that. */
int64_t ts_gpu_shared_most(const TsGpuEmit *g) {
  static const int64_t most = 163 << 10;
  int64_t own = g->e->target->shared_bytes;
  return own && own < most ? own : most;
}

int64_t ts_gpu_shared_take(TsGpuEmit *g, int64_t nbytes) {
  int64_t at = g->shared_used;
  g->shared_used = (at + nbytes + 15) & -16;
  if (g->shared_used > g->shared_most) g->shared_most = g->shared_used;
  if (g->shared_most <= ts_gpu_shared_most(g)) return at;
  if (g->crowded) *g->crowded = true;
  ts_emit_fail(g->e, "a round needs %lld bytes of shared memory", (long long)g->shared_most);
}

V ts_gpu_shared_at(TsGpuEmit *g, int64_t offset, LLVMTypeRef elem, V i) {
  V by = ts_gpu_i64(g, offset);
  V p = LLVMBuildInBoundsGEP2(g->e->b, ts_emit_int_type(g->e, 8, 0), g->shared, &by, 1, "");
  return i ? LLVMBuildInBoundsGEP2(g->e->b, elem, p, &i, 1, "") : p;
}
