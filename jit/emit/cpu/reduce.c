/* Reductions in the canonical order (vm/kernels/rows/reduce_tree.h says it exactly): lane l
 * adds the elements l, l + L, .. in turn, then the upper half of the lanes is added to the
 * lower one until one is left. Extremes go through keys, integers whose order is total, so
 * that any tree gives the same bits. And contractions: one chain of fused multiply-adds an
 * element. */
#include "jit/emit/cpu/emit.h"
#include "vm/kernels/rows/reduce.h"

typedef LLVMValueRef V;

enum { FEW = 4 }; /* lanes of a reduction that LLVM takes well as a whole */

static bool is_float(TsDtype d) { return ts_dtype_is(d, TS_KIND_F); }

/* ---- sums and products */
static V combine(TsEmit *e, int op, TsDtype d, V x, V y) {
  if (op == TS_TILE_prod)
    return is_float(d) ? LLVMBuildFMul(e->b, x, y, "") : LLVMBuildMul(e->b, x, y, "");
  return is_float(d) ? LLVMBuildFAdd(e->b, x, y, "") : LLVMBuildAdd(e->b, x, y, "");
}

/* Adding it changes nothing, not even the sign of a zero. */
static V identity(TsEmit *e, int op, TsDtype d, int lanes) {
  return ts_emit_number(e, d, lanes, op == TS_TILE_prod ? 1 : -0.0);
}

static V padded(TsEmit *e, int op, TsDtype d, V x, int n) {
  int have = ts_emit_lanes(x), index[TS_EMIT_VECTOR];
  if (have == n) return x;
  V none = identity(e, op, d, have);
  for (int i = 0; i < n; i++) index[i] = i < have ? i : have;
  return ts_emit_shuffle(e, x, none, n, index);
}

static int lanes_of(TsDtype d) { return d == TS_DT_f64 ? TS_RED_LANES_f64 : TS_RED_LANES_f32; }

static int pow2ceil(int n) {
  int w = 1;
  while (w < n) w *= 2;
  return w;
}

/* What follows is a block of its own. LLVM looks from each operation into what it is made of,
 * six deep and into both operands: halves of halves of a vector are exponential to it. */
static void seam(TsEmit *e) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
  LLVMBasicBlockRef next = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
  LLVMMoveBasicBlockAfter(next, here);
  LLVMBuildBr(e->b, next);
  LLVMPositionBuilderAtEnd(e->b, next);
}

static V halves(TsEmit *e, int op, TsDtype d, V x, bool alone) {
  int n = ts_emit_lanes(x), most = lanes_of(d);
  if (n > TS_RED_LEAF)
    ts_emit_fail(e, "%s of %d elements: longer than a leaf", ts_tile_op_name(op), n);
  if (n > most) {
    V sum = ts_emit_span(e, x, 0, most);
    for (int at = most; at < n; at += most) {
      V next = ts_emit_span(e, x, at, n - at < most ? n - at : most);
      sum = combine(e, op, d, sum, padded(e, op, d, next, most));
    }
    x = sum, n = most;
  }
  int each = e->target->vector_bytes / ts_dtypes[d].nbytes;
  for (int h = pow2ceil(n) / 2; h; n = h, h /= 2) {
    if (alone && n == each) seam(e);
    V low = ts_emit_span(e, x, 0, h), high = ts_emit_span(e, x, h, n - h);
    x = combine(e, op, d, low, padded(e, op, d, high, h));
  }
  return ts_emit_lane(e, x, 0);
}

/* Neighbours, level by level. */
static V pairs(TsEmit *e, TsDtype d, V x) {
  int even[TS_EMIT_VECTOR], odd[TS_EMIT_VECTOR];
  for (int n = ts_emit_lanes(x); n > 1; n = (n + 1) / 2) {
    int m = (n + 1) / 2;
    x = padded(e, TS_TILE_sum, d, x, 2 * m);
    for (int i = 0; i < m; i++) even[i] = 2 * i, odd[i] = 2 * i + 1;
    x = combine(e, TS_TILE_sum, d, ts_emit_shuffle(e, x, NULL, m, even),
                ts_emit_shuffle(e, x, NULL, m, odd));
  }
  return ts_emit_lane(e, x, 0);
}

/* The same over rows: x[] is overwritten. */
static V halves_rows(TsEmit *e, int op, TsDtype d, V *x, int n) {
  int most = lanes_of(d);
  if (n > TS_RED_LEAF)
    ts_emit_fail(e, "%s of %d rows: longer than a leaf", ts_tile_op_name(op), n);
  for (int i = most; i < n; i++) x[i % most] = combine(e, op, d, x[i % most], x[i]);
  if (n > most) n = most;
  for (int h = pow2ceil(n) / 2; h; n = h, h /= 2)
    for (int i = h; i < n; i++) x[i - h] = combine(e, op, d, x[i - h], x[i]);
  return x[0];
}

static V pairs_rows(TsEmit *e, TsDtype d, V *x, int n) {
  for (; n > 1; n = (n + 1) / 2)
    for (int i = 0; i < n; i += 2)
      x[i / 2] = i + 1 < n ? combine(e, TS_TILE_sum, d, x[i], x[i + 1]) : x[i];
  return x[0];
}

/* ---- extremes */
typedef struct Order {
  int op;
  TsDtype d;
  bool min, index;
} Order;

static int key_bits(TsDtype d) {
  return ts_dtypes[d].nbytes < 2 ? 16 : 8 * ts_dtypes[d].nbytes;
}

/* The bits, those of negative numbers turned over below the sign: its own inverse. */
static V flip(TsEmit *e, V u, int bits) {
  LLVMTypeRef t = LLVMTypeOf(u);
  V sign = LLVMBuildAShr(e->b, u, ts_emit_int(e, t, bits - 1), "");
  V mask = LLVMBuildLShr(e->b, sign, ts_emit_int(e, t, 1), "");
  return LLVMBuildXor(e->b, u, mask, "");
}

/* Signed integers in the order of the values; NaN wins: it is above all for max, below for
 * min. */
static V key_of(TsEmit *e, const Order *o, V x) {
  int bits = key_bits(o->d);
  LLVMTypeRef t = ts_emit_int_type(e, bits, ts_emit_lanes(x));
  if (!is_float(o->d)) {
    if (ts_dtypes[o->d].nbytes > 1) return x;
    return o->d == TS_DT_i8 ? LLVMBuildSExt(e->b, x, t, "") : LLVMBuildZExt(e->b, x, t, "");
  }
  if (o->d != TS_DT_f32 && o->d != TS_DT_f64)
    ts_emit_fail(e, "%s: %s is a storage type", ts_tile_op_name(o->op), ts_dtype_name(o->d));
  V nan = LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, ""), zero = LLVMConstNull(LLVMTypeOf(x));
  if (o->index)
    x = LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealOEQ, x, zero, ""), zero, x, "");
  V key = flip(e, LLVMBuildBitCast(e->b, x, t, ""), bits);
  int64_t most = bits == 32 ? INT32_MAX : INT64_MAX;
  return LLVMBuildSelect(e->b, nan, ts_emit_int(e, t, o->min ? -most - 1 : most), key, "");
}

/* A key beyond those of the infinities is NaN's. */
static V value_of(TsEmit *e, const Order *o, V key) {
  LLVMTypeRef t = ts_emit_type(e, o->d, ts_emit_lanes(key));
  int bits = key_bits(o->d);
  if (!is_float(o->d)) return t == LLVMTypeOf(key) ? key : LLVMBuildTrunc(e->b, key, t, "");
  LLVMTypeRef it = LLVMTypeOf(key);
  int64_t most = bits == 32 ? INT32_MAX : INT64_MAX;
  int64_t quiet = bits == 32 ? 0x7fc00000 : 0x7ff8000000000000;
  V nan =
      LLVMBuildICmp(e->b, LLVMIntEQ, key, ts_emit_int(e, it, o->min ? -most - 1 : most), "");
  V u = LLVMBuildSelect(e->b, nan, ts_emit_int(e, it, quiet), flip(e, key, bits), "");
  return LLVMBuildBitCast(e->b, u, t, "");
}

/* The extreme key of a vector; of a long one by halves until few are left. */
static V best_of(TsEmit *e, const Order *o, V key, bool alone) {
  int n = ts_emit_lanes(key);
  bool halved = alone && n > FEW && !(n & (n - 1));
  for (; halved && n > FEW; n /= 2)
    key = ts_emit_call2(e, o->min ? "llvm.smin" : "llvm.smax", ts_emit_span(e, key, 0, n / 2),
                        ts_emit_span(e, key, n / 2, n / 2));
  if (halved) seam(e);
  return ts_emit_call1(e, o->min ? "llvm.vector.reduce.smin" : "llvm.vector.reduce.smax", key);
}

static V extreme(TsEmit *e, const Order *o, V x, bool alone) {
  if (o->d == TS_DT_bool && !o->index)
    return ts_emit_call1(e, o->min ? "llvm.vector.reduce.and" : "llvm.vector.reduce.or", x);
  V key = key_of(e, o, x);
  V best = best_of(e, o, key, alone);
  if (!o->index) return value_of(e, o, best);
  int n = ts_emit_lanes(x);
  LLVMTypeRef t = ts_emit_int_type(e, 32, n);
  V is = LLVMBuildICmp(e->b, LLVMIntEQ, key, ts_emit_splat(e, best, n), "");
  V at = LLVMBuildSelect(e->b, is, ts_emit_iota(e, 32, n), ts_emit_int(e, t, n), "");
  at = ts_emit_call1(e, "llvm.vector.reduce.umin", at);
  return LLVMBuildZExt(e->b, at, ts_emit_int_type(e, 64, 0), "");
}

static V extreme_rows(TsEmit *e, const Order *o, V *x, int n) {
  V best = key_of(e, o, x[0]);
  LLVMTypeRef t = ts_emit_int_type(e, 64, ts_emit_lanes(best));
  V at = ts_emit_int(e, t, 0);
  for (int i = 1; i < n; i++) {
    V key = key_of(e, o, x[i]);
    if (o->index) {
      V better = LLVMBuildICmp(e->b, o->min ? LLVMIntSLT : LLVMIntSGT, key, best, "");
      at = LLVMBuildSelect(e->b, better, ts_emit_int(e, t, i), at, "");
    }
    best = ts_emit_call2(e, o->min ? "llvm.smin" : "llvm.smax", best, key);
  }
  return o->index ? at : value_of(e, o, best);
}

/* ---- statements */
static Order order_of(const TsTileStmt *s) {
  return (Order){.op = s->op,
                 .d = s->in[0]->type.dtype,
                 .min = s->op == TS_TILE_min || s->op == TS_TILE_argmin,
                 .index = s->op == TS_TILE_argmax || s->op == TS_TILE_argmin};
}

static bool is_order(int op) {
  return op == TS_TILE_max || op == TS_TILE_min || op == TS_TILE_argmax || op == TS_TILE_argmin;
}

/* alone: not one of the rows of a tile. */
static V reduce_vector(TsEmit *e, const TsTileStmt *s, V x, bool alone) {
  TsDtype d = s->in[0]->type.dtype;
  Order o = order_of(s);
  if (is_order(s->op)) return extreme(e, &o, x, alone);
  return s->op == TS_TILE_pairs ? pairs(e, d, x) : halves(e, s->op, d, x, alone);
}

static V reduce_rows(TsEmit *e, const TsTileStmt *s, V *in, int n) {
  TsDtype d = s->in[0]->type.dtype;
  Order o = order_of(s);
  if (is_order(s->op)) return extreme_rows(e, &o, in, n);
  V *x = ts_emit_take(e, sizeof *x * (size_t)n);
  for (int i = 0; i < n; i++) x[i] = in[i];
  return s->op == TS_TILE_pairs ? pairs_rows(e, d, x, n) : halves_rows(e, s->op, d, x, n);
}

void ts_emit_reduce(TsEmit *e, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type, *to = &s->out[0]->type;
  int64_t axis = ts_tile_attr(s, "axis")->i;
  bool arg = s->op == TS_TILE_argmax || s->op == TS_TILE_argmin;
  if (t->rank == 0 || axis < 0 || axis >= t->rank || to->rank != t->rank - 1)
    ts_emit_fail(e, "%s: no such axis", ts_tile_op_name(s->op));
  if (to->dtype != (arg ? TS_DT_i64 : t->dtype) || (t->dtype == TS_DT_bool && !is_order(s->op)))
    ts_emit_fail(e, "%s: wrong types", ts_tile_op_name(s->op));
  if (is_float(t->dtype) && t->dtype != TS_DT_f32 && t->dtype != TS_DT_f64)
    ts_emit_fail(e, "%s: %s is a storage type", ts_tile_op_name(s->op),
                 ts_dtype_name(t->dtype));
  V *in = ts_emit_registers(e, s->in[0]), *out = ts_emit_define(e, s->out[0]);
  if (t->rank == 1) {
    *out = reduce_vector(e, s, *in, true);
  } else if (axis == 0) {
    *out = reduce_rows(e, s, in, ts_emit_rows(t));
  } else {
    *out = LLVMGetPoison(ts_emit_type(e, to->dtype, ts_emit_width(to)));
    for (int r = 0; r < ts_emit_rows(t); r++)
      *out = LLVMBuildInsertElement(e->b, *out, reduce_vector(e, s, in[r], false),
                                    ts_emit_i64(e, r), "");
  }
}

/* ---- contractions */
/* Element i of a vector, in every lane. */
static V spread(TsEmit *e, TsTileVal v, int row, int i, int lanes) {
  const TsEmitted *m = &e->value[v->id];
  if (!m->part) ts_emit_fail(e, "a value is used where it is not visible");
  return ts_emit_splat(e, m->split ? m->part[i] : ts_emit_lane(e, m->part[row], i), lanes);
}

void ts_emit_contract(TsEmit *e, const TsTileStmt *s) {
  const TsTileType *a = &s->in[0]->type, *t = &s->in[2]->type;
  TsDtype d = t->dtype;
  bool outer = s->op == TS_TILE_outer;
  int m = ts_emit_rows(t), n = ts_emit_width(t), nk = outer ? 1 : ts_emit_width(a);
  if (t->rank != 2 || a->rank != (outer ? 1 : 2) || a->dtype != d ||
      s->in[1]->type.dtype != d || (int)a->dim[0] != m || ts_emit_width(&s->in[1]->type) != n ||
      ts_emit_rows(&s->in[1]->type) != nk)
    ts_emit_fail(e, "%s: operands do not fit", ts_tile_op_name(s->op));
  if (is_float(d) && d != TS_DT_f32 && d != TS_DT_f64)
    ts_emit_fail(e, "%s: %s is a storage type", ts_tile_op_name(s->op), ts_dtype_name(d));
  V *b = ts_emit_registers(e, s->in[1]), *acc = ts_emit_registers(e, s->in[2]);
  V *out = ts_emit_define(e, s->out[0]);
  for (int i = 0; i < m; i++) {
    out[i] = acc[i];
    for (int k = 0; k < nk; k++)
      out[i] =
          ts_emit_fma(e, d, spread(e, s->in[0], outer ? 0 : i, outer ? i : k, n), b[k], out[i]);
  }
}
