/* Structured control as blocks and phis. */
#include <string.h>

#include "jit/emit/cpu/emit.h"

typedef LLVMValueRef V;

static LLVMBasicBlockRef block(TsEmit *e) {
  return LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
}

static void define_all(TsEmit *e, TsTileVal v, V *part) {
  memcpy(ts_emit_define(e, v), part, sizeof *part * (size_t)ts_emit_rows(&v->type));
}

/* The body once, for position i: the carried values go in and come out. */
static void round_of(TsEmit *e, const TsTileStmt *s, V i, V **carry) {
  const TsTileRegion *r = s->region[0];
  bool outside = e->crowded;
  e->crowded = ts_emit_is_crowded(s);
  e->nheld = 0;
  define_all(e, r->param[0], &i);
  for (int c = 0; c < s->nout; c++) define_all(e, r->param[1 + c], carry[c]);
  ts_emit_region(e, r, carry);
  if (e->crowded) ts_emit_hold(e); /* carry[] are the places of the values that go through it */
  e->crowded = outside;
}

/* Phis of one value's parts, all from `from`. */
static V *phis(TsEmit *e, const TsTileType *t, V *part, LLVMBasicBlockRef from) {
  int n = ts_emit_rows(t);
  V *phi = ts_emit_take(e, sizeof *phi * (size_t)n);
  for (int r = 0; r < n; r++) {
    phi[r] = LLVMBuildPhi(e->b, ts_emit_register_type(e, t), "");
    LLVMAddIncoming(phi[r], &part[r], &from, 1);
  }
  return phi;
}

static void add_incoming(const TsTileType *t, V *phi, V *part, LLVMBasicBlockRef from) {
  for (int r = 0; r < ts_emit_rows(t); r++) LLVMAddIncoming(phi[r], &part[r], &from, 1);
}

/* The body of a loop begins; entry is the branch into it. */
static void enter(TsEmit *e, V entry) {
  TsEmitLoop *l = ts_emit_take(e, sizeof *l);
  *l = (TsEmitLoop){.outer = e->loop, .entry = entry, .depth = 1};
  if (l->outer) l->depth += l->outer->depth;
  e->loop = l;
}

/* Without a question whether there is a round at all, what is carried has one way in. */
static bool is_below(V lo, V hi) {
  return LLVMIsAConstantInt(lo) && LLVMIsAConstantInt(hi) &&
         LLVMConstIntGetSExtValue(lo) < LLVMConstIntGetSExtValue(hi);
}

/* for (i = lo; i < hi; i += repeat * step), the body `repeat` times in each round; gives where
 * i ended. carry[]: the values before, then those after. */
static V loop(TsEmit *e, const TsTileStmt *s, V lo, V hi, int repeat, V **carry) {
  LLVMBuilderRef b = e->b;
  LLVMTypeRef i64 = ts_emit_int_type(e, 64, 0);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b), head = block(e), after = block(e), last;
  int n = s->nout;
  V **in = ts_emit_take(e, sizeof *in * (size_t)(n + 1)), **out = carry;
  V **now = ts_emit_take(e, sizeof *now * (size_t)(n + 1));
  bool sure = is_below(lo, hi);
  V entry = sure ? LLVMBuildBr(b, head)
                 : LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, lo, hi, ""), head, after);

  LLVMPositionBuilderAtEnd(b, head);
  V i = LLVMBuildPhi(b, i64, "i"), at = i;
  LLVMAddIncoming(i, &lo, &before, 1);
  for (int c = 0; c < n; c++) now[c] = in[c] = phis(e, &s->out[c]->type, carry[c], before);
  V step = ts_emit_i64(e, ts_tile_attr(s, "step")->i);
  enter(e, entry);
  for (int k = 0; k < repeat; k++) {
    round_of(e, s, at, now);
    at = LLVMBuildNSWAdd(b, at, step, "");
  }
  e->loop = e->loop->outer;
  last = LLVMGetInsertBlock(b);
  LLVMAddIncoming(i, &at, &last, 1);
  for (int c = 0; c < n; c++) add_incoming(&s->out[c]->type, in[c], now[c], last);
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, at, hi, ""), head, after);

  LLVMMoveBasicBlockAfter(after, last);
  LLVMPositionBuilderAtEnd(b, after);
  if (sure) {
    memcpy(out, now, sizeof *out * (size_t)n);
    return at;
  }
  V end = LLVMBuildPhi(b, i64, "");
  LLVMAddIncoming(end, &lo, &before, 1);
  LLVMAddIncoming(end, &at, &last, 1);
  for (int c = 0; c < n; c++) {
    out[c] = phis(e, &s->out[c]->type, carry[c], before);
    add_incoming(&s->out[c]->type, out[c], now[c], last);
  }
  return end;
}

/* All rounds one behind the other. */
static void straight(TsEmit *e, const TsTileStmt *s, int64_t lo, int64_t rounds, V **carry) {
  int64_t step = ts_tile_attr(s, "step")->i;
  for (int64_t k = 0; k < rounds; k++) round_of(e, s, ts_emit_i64(e, lo + k * step), carry);
}

static void choose_loop(TsEmit *e, const TsTileStmt *s, V lo, V hi, V **carry) {
  int64_t step = ts_tile_attr(s, "step")->i, unroll = ts_tile_attr(s, "unroll")->i;
  if (step < 1) ts_emit_fail(e, "a loop with step %lld", (long long)step);
  if (unroll < 1 || unroll > 64)
    ts_emit_fail(e, "a loop unrolled %lld times", (long long)unroll);
  int64_t rounds = -1;
  if (LLVMIsAConstantInt(lo) && LLVMIsAConstantInt(hi)) {
    rounds = (LLVMConstIntGetSExtValue(hi) - LLVMConstIntGetSExtValue(lo) + step - 1) / step;
    if (rounds < 0) rounds = 0;
  }
  if (rounds >= 0 && (rounds <= 1 || rounds <= unroll)) {
    straight(e, s, LLVMConstIntGetSExtValue(lo), rounds, carry);
    return;
  }
  if (unroll > 1) {
    V less = LLVMBuildNSWSub(e->b, hi, ts_emit_i64(e, (unroll - 1) * step), "");
    lo = loop(e, s, lo, less, (int)unroll, carry);
    if (rounds >= 0 && rounds % unroll == 0) return;
  }
  loop(e, s, lo, hi, 1, carry);
}

void ts_emit_loop(TsEmit *e, const TsTileStmt *s) {
  V lo = ts_emit_scalar(e, s->in[0]), hi = ts_emit_scalar(e, s->in[1]);
  V **carry = ts_emit_take(e, sizeof *carry * (size_t)(s->nout + 1));
  for (int c = 0; c < s->nout; c++) carry[c] = ts_emit_registers(e, s->in[2 + c]);
  choose_loop(e, s, lo, hi, carry);
  for (int c = 0; c < s->nout; c++) define_all(e, s->out[c], carry[c]);
}

void ts_emit_rounds(TsEmit *e, const TsTileStmt *s, LLVMValueRef lo, LLVMValueRef hi) {
  choose_loop(e, s, lo, hi, NULL);
}

void ts_emit_if(TsEmit *e, const TsTileStmt *s) {
  LLVMBasicBlockRef side[2] = {block(e), block(e)}, end = block(e), last[2];
  V **yield[2];
  LLVMBuildCondBr(e->b, ts_emit_scalar(e, s->in[0]), side[0], side[1]);
  for (int i = 0; i < 2; i++) {
    yield[i] = ts_emit_take(e, sizeof *yield[i] * (size_t)(s->nout + 1));
    LLVMMoveBasicBlockAfter(side[i], LLVMGetLastBasicBlock(e->fn));
    LLVMPositionBuilderAtEnd(e->b, side[i]);
    ts_emit_region(e, s->region[i], yield[i]);
    last[i] = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, end);
  }
  LLVMMoveBasicBlockAfter(end, LLVMGetLastBasicBlock(e->fn));
  LLVMPositionBuilderAtEnd(e->b, end);
  for (int c = 0; c < s->nout; c++) {
    V *phi = phis(e, &s->out[c]->type, yield[0][c], last[0]);
    add_incoming(&s->out[c]->type, phi, yield[1][c], last[1]);
    define_all(e, s->out[c], phi);
  }
}
