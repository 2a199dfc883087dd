/* Rows of f32 in fewer instructions than the form for all processors takes: integer units,
 * comparisons and conversions of a GPU are half as wide as multiplication, or less.
 *
 * NaN is one value, so what chooses between NaN and something else may as well compute it. */
#include <string.h>

#include "jit/emit_gpu.h"

typedef LLVMValueRef V;

static V i32(TsGpuEmit *g, int64_t v) {
  return ts_emit_int(g->e, ts_emit_int_type(g->e, 32, 0), v);
}

static V bits(TsGpuEmit *g, V x) {
  return LLVMBuildBitCast(g->e->b, x, ts_emit_int_type(g->e, 32, 0), "");
}

static bool is_number(V x, double *v) {
  LLVMBool loses;
  if (!LLVMIsAConstantFP(x)) return false;
  *v = LLVMConstRealGetDouble(x, &loses);
  return true;
}

/* ---- what is known about a value */
static const TsTileStmt *made_by(const TsTileValue *v, int op) {
  return v->stmt && v->stmt->op == op ? v->stmt : NULL;
}

/* Less than or equal to zero, or NaN: a difference from the largest of the row. */
static bool never_positive(const TsTileValue *v) {
  const TsTileStmt *s = made_by(v, TS_OP_sub);
  const TsTileStmt *spread = s ? made_by(s->in[1], TS_TILE_broadcast) : NULL;
  const TsTileStmt *max = spread ? made_by(spread->in[0], TS_TILE_max) : NULL;
  return max && max->in[0] == s->in[0] && v->type.rank == 1;
}

/* ---- x 2^n */
/* n + magic has n in its last bits, for |n| < 2^22, and zeros up to bit 22. */
static const double magic = 0x1.8p23;

/* A word whose last bits are n. It comes from an integer, from a sum with magic, or gets one.
 * NaN gives anything: x is NaN as well then. */
static V whole(TsGpuEmit *g, V n) {
  double by;
  V t = NULL;
  if (LLVMIsAInstruction(n) && LLVMGetInstructionOpcode(n) == LLVMSIToFP)
    return LLVMGetOperand(n, 0);
  if (LLVMIsAInstruction(n) && LLVMGetInstructionOpcode(n) == LLVMFSub &&
      is_number(LLVMGetOperand(n, 1), &by) && by == magic)
    t = LLVMGetOperand(n, 0);
  if (!t) t = LLVMBuildFAdd(g->e->b, n, ts_emit_number(g->e, TS_DT_f32, 0, magic), "");
  return bits(g, t);
}

static V power(TsGpuEmit *g, V k) {
  LLVMBuilderRef b = g->e->b;
  V u = LLVMBuildAdd(b, LLVMBuildShl(b, k, i32(g, 23), ""), i32(g, 0x3f800000), "");
  return LLVMBuildBitCast(b, u, ts_emit_elem(g->e, TS_DT_f32), "");
}

static V of_two(TsGpuEmit *g, const char *text, V x, V k) {
  LLVMTypeRef f32 = LLVMTypeOf(x), in[2] = {f32, LLVMTypeOf(k)};
  LLVMTypeRef t = LLVMFunctionType(f32, in, 2, 0);
  V f = LLVMGetInlineAsm(t, text, strlen(text), "=f,f,r", 6, 0, 0, LLVMInlineAsmDialectATT, 0);
  return LLVMBuildCall2(g->e->b, t, f, (V[]){x, k}, 2, "");
}

/* The n of e^x for an x that is never positive: -150 to 0, beside a factor near 1. */
static bool is_low(const TsTileValue *n) {
  const TsTileStmt *s = made_by(n, TS_OP_sub), *t = s ? made_by(s->in[0], TS_OP_fma) : NULL;
  const TsTileStmt *max = t ? made_by(t->in[0], TS_OP_where) : NULL;
  const TsTileStmt *min = max ? made_by(max->in[2], TS_OP_where) : NULL;
  return min && never_positive(min->in[2]);
}

/* 2^(n + 32), which is a normal number, and 2^-32, whose product is the one that rounds. */
static V scale_low(TsGpuEmit *g, V x, V k) {
  static const char text[] = "{ .reg .b32 a; .reg .f32 y; shl.b32 a, $2, 23;"
                             " add.s32 a, a, 0x4f800000; mul.rn.f32 y, $1, a;"
                             " mul.rn.f32 $0, y, 0f2F800000; }";
  LLVMBuilderRef b = g->e->b;
  if (!g->host) return of_two(g, text, x, k);
  V up = LLVMBuildAdd(b, LLVMBuildShl(b, k, i32(g, 23), ""), i32(g, 0x4f800000), "");
  up = LLVMBuildBitCast(b, up, LLVMTypeOf(x), "");
  return LLVMBuildFMul(b, LLVMBuildFMul(b, x, up, ""),
                       ts_emit_number(g->e, TS_DT_f32, 0, 0x1p-32), "");
}

/* Two factors, the first of which is exact. What magic adds is even and far above the bits that
 * become exponents. A GPU gets it as text: LLVM's search for common parts of sums takes a time
 * that grows with their square. */
static V scale_by_two(TsGpuEmit *g, V x, V k) {
  static const char text[] =
      "{ .reg .b32 a, b; .reg .f32 y; shr.s32 a, $2, 1; sub.s32 b, $2, a;"
      " shl.b32 a, a, 23; shl.b32 b, b, 23; add.s32 a, a, 0x3f800000;"
      " add.s32 b, b, 0x3f800000; mul.rn.f32 y, $1, a;"
      " mul.rn.f32 $0, y, b; }";
  LLVMBuilderRef b = g->e->b;
  if (!g->host) return of_two(g, text, x, k);
  V half = LLVMBuildAShr(b, k, i32(g, 1), "");
  V y = LLVMBuildFMul(b, x, power(g, half), "");
  return LLVMBuildFMul(b, y, power(g, LLVMBuildSub(b, k, half, "")), "");
}

static V scale(TsGpuEmit *g, const TsTileStmt *s, V *in) {
  V k = whole(g, in[1]);
  return is_low(s->in[1]) ? scale_low(g, in[0], k) : scale_by_two(g, in[0], k);
}

/* ---- where(a < b, a, b) and where(b < a, a, b), a a number: limits */
static V limit(TsGpuEmit *g, const TsTileStmt *s, V *in) {
  const TsTileStmt *c = s->in[0]->stmt;
  double a;
  if (!c || c->op != TS_OP_lt || !is_number(in[1], &a) || a != a || a == 0) return NULL;
  bool min = c->in[0] == s->in[1] && c->in[1] == s->in[2];
  bool max = c->in[1] == s->in[1] && c->in[0] == s->in[2];
  if (!min && !max) return NULL;
  if (min && a > 0 && never_positive(s->in[2])) return in[2];
  return ts_emit_call2(g->e, min ? "llvm.minimum" : "llvm.maximum", in[1], in[2]);
}

V ts_gpu_short_form(TsGpuEmit *g, const TsTileStmt *s, V *in) {
  TsDtype to = (TsDtype)s->out[0]->type.dtype;
  if (s->op == TS_TILE_cast && to == TS_DT_bf16 && !g->host &&
      s->in[0]->type.dtype == TS_DT_f32) {
    V h = LLVMBuildFPTrunc(g->e->b, in[0], LLVMBFloatTypeInContext(g->e->ctx), "");
    return LLVMBuildBitCast(g->e->b, h, ts_emit_elem(g->e, to), "");
  }
  if (to != TS_DT_f32) return NULL;
  if (s->op == TS_TILE_scale) return scale(g, s, in);
  return s->op == TS_OP_where ? limit(g, s, in) : NULL;
}

V ts_gpu_function(TsGpuEmit *g, int op, V x) {
  const char *text =
      op == TS_TILE_ex2 ? "ex2.approx.ftz.f32 $0, $1;" : "rcp.approx.ftz.f32 $0, $1;";
  LLVMTypeRef f32 = LLVMTypeOf(x), t = LLVMFunctionType(f32, &f32, 1, 0);
  if (g->host) ts_emit_fail(g->e, "%s is an instruction of GPUs", ts_tile_op_name(op));
  V f = LLVMGetInlineAsm(t, text, strlen(text), "=f,f", 4, 0, 0, LLVMInlineAsmDialectATT, 0);
  return LLVMBuildCall2(g->e->b, t, f, &x, 1, "");
}

/* ---- two at once */
/* The f32 that x is the rounding of. */
static V rounded_from(TsGpuEmit *g, V x) {
  if (!LLVMIsAInstruction(x) || LLVMGetInstructionOpcode(x) != LLVMBitCast) return NULL;
  V h = LLVMGetOperand(x, 0);
  if (!LLVMIsAInstruction(h) || LLVMGetInstructionOpcode(h) != LLVMFPTrunc) return NULL;
  if (LLVMGetTypeKind(LLVMTypeOf(h)) != LLVMBFloatTypeKind) return NULL;
  V f = LLVMGetOperand(h, 0);
  return LLVMTypeOf(f) == ts_emit_elem(g->e, TS_DT_f32) ? f : NULL;
}

V ts_gpu_short_pair(TsGpuEmit *g, V low, V high) {
  V in[2] = {rounded_from(g, high), rounded_from(g, low)};
  if (g->host || !in[0] || !in[1]) return NULL;
  V pair = ts_emit_call(g->e, "llvm.nvvm.ff2bf16x2.rn", 0, NULL, 2, in);
  return LLVMBuildBitCast(g->e->b, pair, ts_emit_int_type(g->e, 32, 0), "");
}
