/* Rows of f32 in fewer instructions than the form for all processors takes: integer units,
 * comparisons and conversions of a GPU are half as wide as multiplication, or less.
 *
 * NaN is one value, so what chooses between NaN and something else may as well compute it. */
#include <math.h>

#include "jit/emit/simt/emit.h"
#include "jit/emit/simt/fold.h"

typedef LLVMValueRef V;

enum { GATES = true }; /* 0: scales and quotients of gates have the forms for all arguments */

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
const TsTileStmt *ts_gpu_row_max(const TsTileValue *v) {
  const TsTileStmt *s = made_by(v, TS_OP_sub);
  const TsTileStmt *spread = s ? made_by(s->in[1], TS_TILE_broadcast) : NULL;
  const TsTileStmt *max = spread ? made_by(spread->in[0], TS_TILE_max) : NULL;
  return max && max->in[0] == s->in[0] && v->type.rank == 1 ? max : NULL;
}

/* The same for where(a < v, ..): limited below or above. */
static const TsTileStmt *limited_max(const TsTileValue *v) {
  const TsTileStmt *s = made_by(v, TS_OP_where);
  return s ? ts_gpu_row_max(s->in[2]) : NULL;
}

typedef struct Range {
  double low, high;
} Range;

static bool number_of(const TsTileValue *v, double *x) {
  const TsTileStmt *s = made_by(v, TS_TILE_const);
  if (s) *x = ts_tile_attr(s, "value")->f;
  return s != NULL;
}

/* where(a < b, a, b) of a number a. */
static bool is_least(const TsTileStmt *s, double *a) {
  const TsTileStmt *c = s->in[0]->stmt;
  return c && c->op == TS_OP_lt && c->in[0] == s->in[1] && c->in[1] == s->in[2] &&
         number_of(s->in[1], a);
}

/* Between which numbers v is, but for roundings, if it is not NaN: sums and products of what is
 * not negative, and what is limited. */
static bool range_of(const TsTileValue *v, int depth, Range *r) {
  const TsTileStmt *s = v->stmt;
  Range x, y;
  double a;
  if (!s || depth > 8) return false;
  if (number_of(v, &a)) return *r = (Range){a, a}, true;
  switch (s->op) {
  case TS_OP_abs: return *r = (Range){0, INFINITY}, true;
  case TS_OP_where:
    if (!is_least(s, &a) || !range_of(s->in[2], depth + 1, &x)) return false;
    return *r = (Range){fmin(a, x.low), fmin(a, x.high)}, true;
  case TS_OP_neg:
    if (!range_of(s->in[0], depth + 1, &x)) return false;
    return *r = (Range){-x.high, -x.low}, true;
  case TS_OP_add:
  case TS_OP_mul:
    if (!range_of(s->in[0], depth + 1, &x) || !range_of(s->in[1], depth + 1, &y)) return false;
    if (x.low < 0 || y.low < 0 || !isfinite(x.high) || !isfinite(y.high)) return false;
    *r = s->op == TS_OP_add ? (Range){x.low + y.low, x.high + y.high}
                            : (Range){x.low * y.low, x.high * y.high};
    return true;
  default: return false;
  }
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

/* The n of e^x for an x that is never positive: -150 to 0, beside a factor near 1. Gives the
 * largest of the row, which x is below; NULL: another n. */
static const TsTileStmt *low_of(const TsTileValue *n) {
  const TsTileStmt *s = made_by(n, TS_OP_sub), *t = s ? made_by(s->in[0], TS_OP_fma) : NULL;
  const TsTileStmt *max = t ? made_by(t->in[0], TS_OP_where) : NULL;
  return max ? limited_max(max->in[2]) : NULL;
}

/* x and x 2^n are normal numbers. */
static V scale_normal(TsGpuEmit *g, V x, V k) {
  V u = LLVMBuildAdd(g->e->b, bits(g, x), LLVMBuildShl(g->e->b, k, i32(g, 23), ""), "");
  return LLVMBuildBitCast(g->e->b, u, LLVMTypeOf(x), "");
}

/* Whether k, an integer or a float, is the n of e^x, x between a limit and 0: what lib/elem's
 * gates have. */
static bool is_gate(const TsTileValue *k) {
  const TsTileStmt *s = made_by(k, TS_OP_sub),
                   *u = s ? made_by(s->in[0], TS_TILE_bitcast) : NULL;
  const TsTileStmt *t = s ? made_by(u ? u->in[0] : s->in[0], TS_OP_fma) : NULL;
  double by, to;
  Range x;
  if (!GATES || !t || !number_of(t->in[1], &by) || !number_of(t->in[2], &to)) return false;
  if (to != magic || by < 1.44 || by > 1.45 || !range_of(t->in[0], 0, &x)) return false;
  return x.low >= -120 && x.high <= 0;
}

/* 2^(n + far), which is a normal number, and 2^-far, whose product is the one that rounds. */
static V scale_far(TsGpuEmit *g, V x, V k, int far) {
  LLVMBuilderRef b = g->e->b;
  if (g->maker->scale_far) return g->maker->scale_far(g, x, k, far);
  V y = LLVMBuildAdd(b, LLVMBuildShl(b, k, i32(g, 23), ""), i32(g, (127 + far) << 23), "");
  y = LLVMBuildBitCast(b, y, LLVMTypeOf(x), "");
  return LLVMBuildFMul(b, LLVMBuildFMul(b, x, y, ""),
                       ts_emit_number(g->e, TS_DT_f32, 0, ldexp(1, -far)), "");
}

/* n from -180 on: factors of gates are below 2^10, and not small where n is. */
static V scale_gate(TsGpuEmit *g, V x, V k) { return scale_far(g, x, k, 64); }

static V scale_low(TsGpuEmit *g, V x, V k) { return scale_far(g, x, k, 32); }

/* Two factors, the first of which is exact. What magic adds is even and far above the bits that
 * become exponents. */
static V scale_by_two(TsGpuEmit *g, V x, V k) {
  LLVMBuilderRef b = g->e->b;
  if (g->maker->scale_by_two) return g->maker->scale_by_two(g, x, k);
  V half = LLVMBuildAShr(b, k, i32(g, 1), "");
  V y = LLVMBuildFMul(b, x, power(g, half), "");
  return LLVMBuildFMul(b, y, power(g, LLVMBuildSub(b, k, half, "")), "");
}

static V scale(TsGpuEmit *g, const TsTileStmt *s, V *in) {
  V k = whole(g, in[1]);
  if (is_gate(s->in[1])) return scale_gate(g, in[0], k);
  const TsTileStmt *below = low_of(s->in[1]);
  if (below && below == g->rows.now) return scale_normal(g, in[0], k);
  return below ? scale_low(g, in[0], k) : scale_by_two(g, in[0], k);
}

/* ---- where(a < b, a, b) and where(b < a, a, b), a a number: limits */
static V limit(TsGpuEmit *g, const TsTileStmt *s, V *in) {
  const TsTileStmt *c = s->in[0]->stmt;
  double a;
  if (!c || c->op != TS_OP_lt || !is_number(in[1], &a) || a != a || a == 0) return NULL;
  bool min = c->in[0] == s->in[1] && c->in[1] == s->in[2];
  bool max = c->in[1] == s->in[1] && c->in[0] == s->in[2];
  if (!min && !max) return NULL;
  if (min && a > 0 && ts_gpu_row_max(s->in[2])) return in[2];
  if (max && a < -86 && g->rows.now && limited_max(s->in[2]) == g->rows.now) return in[2];
  return ts_gpu_extreme(g, min, in[1], in[2]);
}

/* ---- 1 / (1 + h 2^max(n, -100)), as gates have it: h is near 1 and n not positive */
static const TsTileStmt *either(const TsTileStmt *s, int op) {
  const TsTileStmt *x = s ? made_by(s->in[0], op) : NULL;
  return x || !s ? x : made_by(s->in[1], op);
}

static bool is_gate_sum(const TsTileStmt *sum) {
  double one;
  const TsTileStmt *m = sum ? made_by(sum->in[1], TS_OP_mul) : NULL;
  const TsTileStmt *power_of = m ? made_by(m->in[1], TS_TILE_bitcast) : NULL;
  const TsTileStmt *shift = power_of ? made_by(power_of->in[0], TS_TILE_shl) : NULL;
  const TsTileStmt *most = either(shift ? made_by(shift->in[0], TS_OP_add) : NULL, TS_OP_where);
  if (!most || !number_of(sum->in[0], &one) || one != 1) return false;
  const TsTileStmt *low = made_by(most->in[1], TS_TILE_bits);
  return low && (int32_t)ts_tile_attr(low, "value")->i == -100 && is_gate(most->in[2]);
}

/* Neither large nor small. */
static bool is_moderate(const TsTileValue *v) {
  Range x;
  return range_of(v, 0, &x) && x.low > 0x1p-100 && x.high < 0x1p100;
}

static V quotient(TsGpuEmit *g, const TsTileStmt *s, V *in) {
  double one;
  if (!g->maker->inverse || !number_of(s->in[0], &one) || one != 1) return NULL;
  if (!is_gate_sum(made_by(s->in[1], TS_OP_add)) && !is_moderate(s->in[1])) return NULL;
  return g->maker->inverse(g, in[1]);
}

/* Where no other number is rounded with it: the conversion of one alone has a quarter of the
 * speed of that of two. */
static V round_single(TsGpuEmit *g, V x) {
  V pair = g->maker->round_two(g, ts_emit_number(g->e, TS_DT_f32, 0, 0), x);
  return LLVMBuildTrunc(g->e->b, pair, ts_emit_elem(g->e, TS_DT_bf16), "");
}

V ts_gpu_short_form(TsGpuEmit *g, const TsTileStmt *s, V *in) {
  TsDtype to = (TsDtype)s->out[0]->type.dtype;
  if (s->op == TS_TILE_cast && to == TS_DT_bf16 && g->maker->round_two &&
      s->in[0]->type.dtype == TS_DT_f32) {
    if (g->single) return round_single(g, in[0]);
    V h = LLVMBuildFPTrunc(g->e->b, in[0], LLVMBFloatTypeInContext(g->e->ctx), "");
    return LLVMBuildBitCast(g->e->b, h, ts_emit_elem(g->e, to), "");
  }
  if (to != TS_DT_f32) return NULL;
  if (s->op == TS_TILE_scale) return scale(g, s, in);
  if (s->op == TS_OP_div) return quotient(g, s, in);
  return s->op == TS_OP_where ? limit(g, s, in) : NULL;
}

V ts_gpu_function(TsGpuEmit *g, int op, V x) {
  if (!g->maker->function)
    ts_emit_fail(g->e, "%s is an instruction of GPUs", ts_tile_op_name(op));
  return g->maker->function(g, op, x);
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
  V x = rounded_from(g, high), y = rounded_from(g, low);
  return g->maker->round_two && x && y ? g->maker->round_two(g, x, y) : NULL;
}
