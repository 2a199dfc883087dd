/* Guards and results of arithmetic with constants. */
#include <math.h>

#include "ir/rules/rewrite.h"

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

/* Two steps x a b that become one. Where the first cannot overflow, or the second does not bring
 * back what did, both ways overflow alike. */
static bool overflows_alike(const TsRewrite *r, double first, double second) {
  return fabs(first) <= 1 || fabs(second) >= 1 || ts_rule_fast(r);
}

bool ts_rule_guard_merged_product(const TsRewrite *r) {
  double a = number(r, 'a'), b = number(r, 'b');
  return merges(r, a * b) && inner_single(r) && overflows_alike(r, a, b);
}
bool ts_rule_guard_merged_divisor(const TsRewrite *r) {
  double a = number(r, 'a'), b = number(r, 'b');
  return merges(r, a * b) && inner_single(r) && overflows_alike(r, 1 / a, 1 / b);
}
TsVal ts_rule_make_mul_mul(TsRewrite *r) {
  return scaled(r, TS_OP_mul, number(r, 'a') * number(r, 'b'));
}
TsVal ts_rule_make_div_div(TsRewrite *r) {
  return scaled(r, TS_OP_div, number(r, 'a') * number(r, 'b'));
}

bool ts_rule_guard_merged_quotient(const TsRewrite *r) {
  double a = number(r, 'a'), b = number(r, 'b');
  bool product_first = r->root->op == TS_OP_div;
  return merges(r, a / b) && inner_single(r) &&
         overflows_alike(r, product_first ? a : 1 / b, product_first ? 1 / b : a);
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

bool ts_rule_guard_single_operand(const TsRewrite *r) { return inner_single(r); }
TsVal ts_rule_make_neg_mul(TsRewrite *r) { return scaled(r, TS_OP_mul, -number(r, 'a')); }
TsVal ts_rule_make_neg_div(TsRewrite *r) { return scaled(r, TS_OP_div, -number(r, 'a')); }

/* The root of -0 is -0, its power is 0. */
bool ts_rule_guard_no_sign_x(const TsRewrite *r) {
  return ts_rule_sign(ts_rule_var(r, 'x')) == TS_SIGN_none;
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
