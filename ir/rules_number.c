/* Guards and results of arithmetic with constants. */
#include <math.h>

#include "ir/graph_rewrite.h"

static double number(const TsRewrite *r, char name) {
  double value = 0;
  ts_rule_fill(ts_rule_var(r, name), &value);
  return value;
}

static TsDtype dtype_of(const TsRewrite *r) { return (TsDtype)ts_rule_type(r)->dtype; }
static bool of_floats(const TsRewrite *r) { return ts_dtype_is(dtype_of(r), TS_KIND_F); }

/* Well inside what the type holds as normal numbers, so that neither the constant nor its
 * products with ordinary values fall out of the range. */
static bool ordinary(TsDtype d, double v) {
  double most = d == TS_DT_f16 ? 0x1p8 : d == TS_DT_f64 ? 0x1p500 : 0x1p60;
  return fabs(v) <= most && fabs(v) >= 1 / most;
}

static bool power_of_two(TsDtype d, double v) {
  int e;
  return frexp(fabs(v), &e) == 0.5 && ordinary(d, v);
}

/* The number stands for itself in the arithmetic of the root: no tensor decides the type. */
static bool merges(const TsRewrite *r, double made) {
  return of_floats(r) && ts_rule_float(ts_rule_var(r, 'x')) &&
         ts_rule_var(r, 'x')->meta.dtype == ts_rule_type(r)->dtype &&
         ordinary(dtype_of(r), made) && ordinary(dtype_of(r), number(r, 'a')) &&
         ordinary(dtype_of(r), number(r, 'b'));
}

static bool inner_single(const TsRewrite *r) {
  for (int i = 0; i < r->root->nin; i++) {
    double value;
    if (!ts_rule_fill(r->root->in[i], &value)) return ts_rule_single(r, r->root->in[i]);
  }
  return false;
}

static TsVal scaled(TsRewrite *r, TsOp op, double by) {
  return ts_build2(&r->b, op, ts_rule_var(r, 'x'), ts_graph_number(r->g, by));
}

bool ts_rule_guard_merged_product(const TsRewrite *r) {
  return merges(r, number(r, 'a') * number(r, 'b')) && inner_single(r);
}
TsVal ts_rule_make_mul_mul(TsRewrite *r) {
  return scaled(r, TS_OP_mul, number(r, 'a') * number(r, 'b'));
}
TsVal ts_rule_make_div_div(TsRewrite *r) {
  return scaled(r, TS_OP_div, number(r, 'a') * number(r, 'b'));
}

bool ts_rule_guard_merged_quotient(const TsRewrite *r) {
  return merges(r, number(r, 'a') / number(r, 'b')) && inner_single(r);
}
TsVal ts_rule_make_div_mul(TsRewrite *r) {
  return scaled(r, TS_OP_mul, number(r, 'a') / number(r, 'b'));
}
TsVal ts_rule_make_mul_div(TsRewrite *r) { return ts_rule_make_div_mul(r); }

/* 1 / 2^k is a number of the type, and both operators round the same real number. */
bool ts_rule_guard_power_of_two(const TsRewrite *r) {
  return of_floats(r) && ts_rule_float(ts_rule_var(r, 'x')) &&
         power_of_two(dtype_of(r), number(r, 'a'));
}
TsVal ts_rule_make_div_power(TsRewrite *r) { return scaled(r, TS_OP_mul, 1 / number(r, 'a')); }

bool ts_rule_guard_float_root(const TsRewrite *r) { return of_floats(r); }

bool ts_rule_guard_float_inner(const TsRewrite *r) { return of_floats(r) && inner_single(r); }
TsVal ts_rule_make_neg_mul(TsRewrite *r) { return scaled(r, TS_OP_mul, -number(r, 'a')); }
TsVal ts_rule_make_neg_div(TsRewrite *r) { return scaled(r, TS_OP_div, -number(r, 'a')); }

/* ---- values that are not negative */
static bool never_negative(TsVal v, int depth) {
  const TsNode *n = v->node;
  double value;
  if (ts_rule_fill(v, &value)) return value >= 0;
  if (depth > 8 || v->meta.weak || ts_dtype_is((TsDtype)v->meta.dtype, TS_KIND_C)) return false;
  switch (n->op) {
  case TS_OP_square:
  case TS_OP_abs: return !ts_dtype_is((TsDtype)n->in[0]->meta.dtype, TS_KIND_C | TS_KIND_I);
  case TS_OP_exp:
  case TS_OP_exp2:
  case TS_OP_sqrt:
  case TS_OP_sigmoid:
  case TS_OP_softmax:
  case TS_OP_relu:
  case TS_OP_softplus:
  case TS_OP_var:
  case TS_OP_std:
  case TS_OP_norm:
  case TS_OP_hypot: return true;
  case TS_OP_add:
  case TS_OP_mul:
  case TS_OP_div:
  case TS_OP_minimum:
    return never_negative(n->in[0], depth + 1) && never_negative(n->in[1], depth + 1);
  case TS_OP_maximum:
    return never_negative(n->in[0], depth + 1) || never_negative(n->in[1], depth + 1);
  case TS_OP_sum:
  case TS_OP_mean:
  case TS_OP_max:
  case TS_OP_min:
  case TS_OP_reshape:
  case TS_OP_transpose:
  case TS_OP_permute:
  case TS_OP_broadcast_to: return never_negative(n->in[0], depth + 1);
  default: return false;
  }
}

bool ts_rule_guard_never_negative_x(const TsRewrite *r) {
  return of_floats(r) && never_negative(ts_rule_var(r, 'x'), 0);
}

/* ---- means */
bool ts_rule_guard_count_of_sum(const TsRewrite *r) {
  const TsMeta *x = &ts_rule_var(r, 'x')->meta, *y = ts_rule_type(r);
  double n = number(r, 'n'), count = (double)ts_meta_numel(x) / (double)ts_meta_numel(y);
  bool by = r->root->op == TS_OP_div ? n == count : fabs(n * count - 1) < 0x1p-22;
  return of_floats(r) && ts_rule_float(ts_rule_var(r, 'x')) && count >= 1 && by &&
         inner_single(r);
}

TsVal ts_rule_make_sum_mean(TsRewrite *r) {
  const TsNode *s = r->root->in[r->root->in[0]->node->op == TS_OP_sum ? 0 : 1]->node;
  TsVal x = ts_rule_var(r, 'x');
  return ts_build(
      &r->b, TS_OP_mean, TS_IN(x),
      TS_ATTRS({"axis", *ts_rule_attr(s, "axis")}, {"keepdims", *ts_rule_attr(s, "keepdims")}),
      NULL);
}
TsVal ts_rule_make_sum_mean_mul(TsRewrite *r) { return ts_rule_make_sum_mean(r); }
