/* Rows element by element that choose among others, and sums that leave out what is no number. */
#include <math.h>

#include "ir/compose/compose.h"

static TsDtype dtype_of(TsBuild *b, TsVal x) { return (TsDtype)b->meta(b, x)->dtype; }

/* ---- limits */
/* An input where there is one, else the option. */
static TsVal limit(TsCompose *k, int input, int option, double none) {
  if (input < k->nin && k->in[input]) return k->in[input];
  double v = k->attr[option].f;
  return v == none ? NULL : k->b->number(k->b, v);
}

int ts_compose_clip(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal x = k->in[0], min = limit(k, 1, 0, -INFINITY), max = limit(k, 2, 1, INFINITY);
  if (min) x = ts_build_where(b, ts_build2(b, TS_OP_lt, x, min), min, x);
  if (max) x = ts_build_where(b, ts_build2(b, TS_OP_gt, x, max), max, x);
  return ts_compose_finish(k, min || max ? x : ts_build1(b, TS_OP_clone, x));
}

/* ---- what is no number */
static double greatest(TsDtype d) {
  switch ((int)d) {
  case TS_DT_fp8_e4m3: return 448;
  case TS_DT_fp8_e5m2: return 57344;
  case TS_DT_f16: return 65504;
  case TS_DT_bf16: return 0x1.fep127;
  case TS_DT_f64: return 0x1.fffffffffffffp1023;
  default: return 0x1.fffffep127;
  }
}

int ts_compose_nan_to_num(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal x = k->in[0], inf = b->number(b, INFINITY), y = x;
  if (!ts_dtype_is(dtype_of(b, x), TS_KIND_F))
    return ts_compose_finish(k, ts_build1(b, TS_OP_clone, x));
  double most = greatest(dtype_of(b, x));
  double up = k->attr[1].type == TS_ATTR_none ? most : k->attr[1].f;
  double down = k->attr[2].type == TS_ATTR_none ? -most : k->attr[2].f;
  if (dtype_of(b, x) != TS_DT_fp8_e4m3) { /* which has no infinity */
    y = ts_build_where(b, ts_build2(b, TS_OP_eq, x, inf), b->number(b, up), y);
    y = ts_build_where(b, ts_build2(b, TS_OP_eq, x, b->number(b, -INFINITY)),
                       b->number(b, down), y);
  }
  return ts_compose_finish(
      k, ts_build_where(b, ts_build1(b, TS_OP_isnan, x), b->number(b, k->attr[0].f), y));
}

static TsVal summed(TsCompose *k, TsVal x) {
  return ts_build(k->b, TS_OP_sum, TS_IN(x),
                  TS_ATTRS({"axis", k->attr[0]}, {"keepdims", k->attr[1]}), NULL);
}

static TsVal without_nan(TsBuild *b, TsVal x) {
  return ts_build_where(b, ts_build1(b, TS_OP_isnan, x), b->number(b, 0), x);
}

int ts_compose_nansum(TsCompose *k) {
  bool any = ts_dtype_is(dtype_of(k->b, k->in[0]), TS_KIND_F);
  return ts_compose_finish(k, summed(k, any ? without_nan(k->b, k->in[0]) : k->in[0]));
}

int ts_compose_nanmean(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal x = k->in[0], sum = summed(k, without_nan(b, x));
  TsVal count = summed(k, ts_build1(b, TS_OP_logical_not, ts_build1(b, TS_OP_isnan, x)));
  if (b->failed) return -1;
  return ts_compose_finish(
      k, ts_build2(b, TS_OP_div, sum, ts_build_cast(b, count, dtype_of(b, sum))));
}

/* ---- differences of neighbours */
static TsVal joined(TsCompose *k, int axis) {
  TsVal part[3];
  int n = 0;
  TsVal first = k->nin > 1 ? k->in[1] : NULL, last = k->nin > 2 ? k->in[2] : NULL;
  if (first) part[n++] = first;
  part[n++] = k->in[0];
  if (last) part[n++] = last;
  if (n == 1) return part[0];
  return ts_build(k->b, TS_OP_concat, n, part, TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
}

int ts_compose_diff(TsCompose *k) {
  TsBuild *b = k->b;
  int axis = ts_compose_axis(k, k->attr[1].i, b->meta(b, k->in[0])->ndim);
  if (axis < 0) return -1;
  if (k->attr[0].i < 0)
    return ts_build_fail(b, TS_ERR_value, "diff: n = %lld differences",
                         (long long)k->attr[0].i);
  TsVal x = joined(k, axis);
  for (int64_t i = 0; i < k->attr[0].i && !b->failed; i++) {
    int64_t n = b->meta(b, x)->dim[axis], rest = n ? n - 1 : 0;
    TsOp op = dtype_of(b, x) == TS_DT_bool ? TS_OP_logical_xor : TS_OP_sub;
    x = ts_build2(b, op, ts_build_narrow(b, x, axis, n - rest, rest),
                  ts_build_narrow(b, x, axis, 0, rest));
    if (rest == 0) break;
  }
  return ts_compose_finish(k, k->attr[0].i ? x : ts_build1(b, TS_OP_clone, x));
}

/* ---- activations */
static TsVal above_0(TsBuild *b, TsVal x, TsVal above, TsVal below) {
  return ts_build_where(b, ts_build2(b, TS_OP_gt, x, b->number(b, 0)), above, below);
}

/* One weight, or one for each channel. */
int ts_compose_prelu(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal x = k->in[0], w = k->in[1];
  TsMeta m = *b->meta(b, x), mw = *b->meta(b, w);
  char tx[TS_META_TEXT], tw[TS_META_TEXT];
  int64_t n = ts_meta_numel(&mw), dim[TS_MAX_RANK];
  if (n != 1 && (mw.ndim != 1 || m.ndim < 2 || n != m.dim[1]))
    return ts_build_fail(
        b, TS_ERR_shape,
        "prelu: one weight is needed, or one for each channel (axis 1): %s x %s",
        ts_meta_text(&m, tx), ts_meta_text(&mw, tw));
  if (n != 1) {
    for (int i = 1; i < m.ndim; i++) dim[i - 1] = i == 1 ? n : 1;
    w = ts_build_reshape(b, w, dim, m.ndim - 1);
  } else {
    w = ts_build_reshape(b, w, dim, 0);
  }
  return ts_compose_finish(k, above_0(b, x, x, ts_build2(b, TS_OP_mul, x, w)));
}

static TsVal elu(TsBuild *b, TsVal x, double alpha) {
  return ts_build(b, TS_OP_elu, TS_IN(x), TS_ATTRS({"alpha", ts_b_f(alpha)}), NULL);
}

/* The two numbers keep mean 0 and variance 1 (arXiv 1706.02515). */
int ts_compose_selu(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal y = elu(b, k->in[0], 1.6732632423543772848);
  return ts_compose_finish(k, ts_build2(b, TS_OP_mul, y, b->number(b, 1.0507009873554804934)));
}

int ts_compose_celu(TsCompose *k) {
  TsBuild *b = k->b;
  double alpha = k->attr[0].f;
  TsVal x = k->in[0], a = b->number(b, alpha);
  if (!(alpha > 0)) return ts_build_fail(b, TS_ERR_value, "celu: alpha = %g", alpha);
  TsVal below = ts_build2(b, TS_OP_mul, elu(b, ts_build2(b, TS_OP_div, x, a), 1), a);
  return ts_compose_finish(k, above_0(b, x, x, below));
}
