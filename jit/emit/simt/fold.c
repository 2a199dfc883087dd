/* See jit/emit/simt/fold.h. */
#include "jit/emit/simt/fold.h"

#include <math.h>

typedef LLVMValueRef V;

static bool is_float(TsDtype d) { return ts_dtype_is(d, TS_KIND_F); }

/* ---- what is combined: numbers, or keys in the order of the values, with places */

V ts_gpu_identity(TsGpuEmit *g, int op, TsDtype d) {
  if (op == TS_TILE_prod) return ts_emit_number(g->e, d, 0, 1);
  return ts_emit_number(g->e, d, 0, is_float(d) ? -0.0 : 0);
}

V ts_gpu_combine(TsGpuEmit *g, int op, TsDtype d, V x, V y) {
  V in[2] = {x, y};
  return ts_emit_pointwise(g->e, op == TS_TILE_prod ? TS_OP_mul : TS_OP_add, d, in);
}

static int key_bits(TsDtype d) { return ts_dtypes[d].nbytes == 8 ? 64 : 32; }

TsGpuFold ts_gpu_fold(TsGpuEmit *g, const TsTileStmt *s) {
  TsDtype d = (TsDtype)s->in[0]->type.dtype;
  TsGpuFold f = {
      .op = s->op, .d = d, .type = ts_emit_elem(g->e, d), .size = ts_dtypes[d].nbytes};
  f.min = s->op == TS_TILE_min || s->op == TS_TILE_argmin;
  f.place = s->op == TS_TILE_argmax || s->op == TS_TILE_argmin;
  f.order = f.place || s->op == TS_TILE_max || s->op == TS_TILE_min;
  if (is_float(d) && d != TS_DT_f32 && d != TS_DT_f64)
    ts_emit_fail(g->e, "%s: %s is a storage type", ts_tile_op_name(s->op), ts_dtype_name(d));
  f.plain = f.order && !f.place && d == TS_DT_f32; /* f64 has no such instructions */
  if (f.plain) return f;
  if (f.order) {
    f.type = ts_emit_int_type(g->e, key_bits(d), 0);
    f.size = key_bits(d) / 8;
  } else if (!is_float(d)) {
    f.from = d;
    f.d = (TsDtype)s->out[0]->type.dtype; /* integers wrap in any width */
    f.type = ts_emit_elem(g->e, f.d);
    f.size = ts_dtypes[f.d].nbytes;
  }
  return f;
}

/* Negative numbers turned over below the sign: its own inverse. */
static V flipped(TsGpuEmit *g, V u) {
  LLVMTypeRef t = LLVMTypeOf(u);
  V sign = LLVMBuildAShr(g->e->b, u, ts_emit_int(g->e, t, (int)LLVMGetIntTypeWidth(t) - 1), "");
  V mask = LLVMBuildLShr(g->e->b, sign, ts_emit_int(g->e, t, 1), "");
  return LLVMBuildXor(g->e->b, u, mask, "");
}

static int64_t most_key(const TsGpuFold *f) { return f->size == 4 ? INT32_MAX : INT64_MAX; }

/* Signed whole numbers in the order of the values, turned for min so that the largest wins; NaN
 * above all. */
static V key_of(TsGpuEmit *g, const TsGpuFold *f, V x) {
  TsEmit *e = g->e;
  V key, nan = NULL;
  if (is_float(f->d)) {
    V zero = LLVMConstNull(LLVMTypeOf(x));
    nan = LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, "");
    if (f->place)
      x = LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealOEQ, x, zero, ""), zero, x, "");
    key = flipped(g, LLVMBuildBitCast(e->b, x, f->type, ""));
  } else if (LLVMTypeOf(x) == f->type) {
    key = x;
  } else if (ts_dtype_is(f->d, TS_KIND_U | TS_KIND_B)) {
    key = LLVMBuildZExt(e->b, x, f->type, "");
  } else {
    key = LLVMBuildSExt(e->b, x, f->type, "");
  }
  if (f->min) key = LLVMBuildNot(e->b, key, "");
  return nan ? LLVMBuildSelect(e->b, nan, ts_emit_int(e, f->type, most_key(f)), key, "") : key;
}

static V value_of(TsGpuEmit *g, const TsGpuFold *f, V key) {
  TsEmit *e = g->e;
  LLVMTypeRef t = ts_emit_elem(e, f->d);
  V plain = f->min ? LLVMBuildNot(e->b, key, "") : key;
  if (!is_float(f->d)) return t == f->type ? plain : LLVMBuildTrunc(e->b, plain, t, "");
  int64_t quiet = f->size == 4 ? 0x7fc00000 : 0x7ff8000000000000;
  V nan = LLVMBuildICmp(e->b, LLVMIntEQ, key, ts_emit_int(e, f->type, most_key(f)), "");
  V u = LLVMBuildSelect(e->b, nan, ts_emit_int(e, f->type, quiet), flipped(g, plain), "");
  return LLVMBuildBitCast(e->b, u, t, "");
}

TsGpuItem ts_gpu_fold_none(TsGpuEmit *g, const TsGpuFold *f) {
  if (!f->order) return (TsGpuItem){ts_gpu_identity(g, f->op, f->d), NULL};
  if (f->plain)
    return (TsGpuItem){ts_emit_number(g->e, f->d, 0, f->min ? INFINITY : -INFINITY), NULL};
  TsGpuItem i = {ts_emit_int(g->e, f->type, -most_key(f) - 1), NULL};
  if (f->place) i.at = ts_gpu_i64(g, INT64_MAX);
  return i;
}

/* NaN wins, -0 is below +0. */
V ts_gpu_extreme(TsGpuEmit *g, bool min, V x, V y) {
  if (g->maker->extreme) return g->maker->extreme(g, min, x, y);
  return ts_emit_call2(g->e, min ? "llvm.minimum" : "llvm.maximum", x, y);
}

TsGpuItem ts_gpu_fold_two(TsGpuEmit *g, const TsGpuFold *f, TsGpuItem a, TsGpuItem b) {
  TsEmit *e = g->e;
  if (!f->order) return (TsGpuItem){ts_gpu_combine(g, f->op, f->d, a.x, b.x), NULL};
  if (f->plain) return (TsGpuItem){ts_gpu_extreme(g, f->min, a.x, b.x), NULL};
  TsGpuItem y = {ts_emit_call2(e, "llvm.smax", a.x, b.x), NULL};
  if (!f->place) return y;
  V more = LLVMBuildICmp(e->b, LLVMIntSGT, a.x, b.x, "");
  V same = LLVMBuildICmp(e->b, LLVMIntEQ, a.x, b.x, "");
  V low = ts_emit_call2(e, "llvm.smin", a.at, b.at);
  y.at = LLVMBuildSelect(e->b, same, low, LLVMBuildSelect(e->b, more, a.at, b.at, ""), "");
  return y;
}

TsGpuItem ts_gpu_fold_item(TsGpuEmit *g, const TsGpuFold *f, V x, V place) {
  if (f->plain) return (TsGpuItem){x, NULL};
  if (!f->order)
    return (TsGpuItem){is_float(f->d) ? x : ts_emit_cast(g->e, f->d, f->from, x), NULL};
  return (TsGpuItem){key_of(g, f, x), f->place ? place : NULL};
}

V ts_gpu_fold_result(TsGpuEmit *g, const TsGpuFold *f, TsGpuItem i) {
  if (!f->order) return i.x;
  if (f->plain) {
    V nan = LLVMBuildFCmp(g->e->b, LLVMRealUNO, i.x, i.x, "");
    return LLVMBuildSelect(g->e->b, nan, ts_emit_number(g->e, f->d, 0, NAN), i.x, "");
  }
  return f->place ? i.at : value_of(g, f, i.x);
}

/* ---- shared memory of items */

TsGpuRoom ts_gpu_fold_take(TsGpuEmit *g, const TsGpuFold *f, int64_t n) {
  TsGpuRoom r = {ts_gpu_shared_take(g, n * f->size), 0};
  if (f->place) r.places = ts_gpu_shared_take(g, n * 8);
  return r;
}

TsGpuItem ts_gpu_fold_get(TsGpuEmit *g, const TsGpuFold *f, TsGpuRoom r, V i) {
  LLVMTypeRef i64 = ts_emit_int_type(g->e, 64, 0);
  TsGpuItem x = {LLVMBuildLoad2(g->e->b, f->type, ts_gpu_shared_at(g, r.at, f->type, i), ""),
                 NULL};
  if (f->place) x.at = LLVMBuildLoad2(g->e->b, i64, ts_gpu_shared_at(g, r.places, i64, i), "");
  return x;
}

void ts_gpu_fold_put(TsGpuEmit *g, const TsGpuFold *f, TsGpuRoom r, V i, TsGpuItem x) {
  LLVMTypeRef i64 = ts_emit_int_type(g->e, 64, 0);
  LLVMBuildStore(g->e->b, x.x, ts_gpu_shared_at(g, r.at, f->type, i));
  if (f->place) LLVMBuildStore(g->e->b, x.at, ts_gpu_shared_at(g, r.places, i64, i));
}
