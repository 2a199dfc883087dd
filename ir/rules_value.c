/* What guards know of values by what they are made of, without computing them: their sign,
 * whether they are finite, a bound of their magnitude. */
#include <math.h>

#include "ir/graph_rewrite.h"

enum { DEEPEST = 12 };

/* ---- signs */
static TsRuleSign least(TsRuleSign a, TsRuleSign b) { return a < b ? a : b; }
static TsRuleSign most(TsRuleSign a, TsRuleSign b) { return a > b ? a : b; }

static TsRuleSign sign_of(TsVal v, int depth);

static TsRuleSign operand(const TsNode *n, int i, int depth) {
  return sign_of(n->in[i], depth + 1);
}

/* Of nothing, sums are -0 and means NaN. */
static TsRuleSign sum(const TsNode *n, int depth) {
  TsRuleSign x = operand(n, 0, depth);
  bool nothing = !ts_meta_numel(&n->in[0]->meta);
  return nothing ? least(x, TS_SIGN_minus_zero) : x;
}

/* -0 as a divisor makes a negative infinity. */
static TsRuleSign quotient(const TsNode *n, int depth) {
  TsRuleSign y = operand(n, 1, depth);
  return y == TS_SIGN_none ? operand(n, 0, depth) : TS_SIGN_any;
}

static TsRuleSign sign_of(TsVal v, int depth) {
  const TsNode *n = v->node;
  double value;
  if (ts_rule_fill(v, &value))
    return value > 0 || isnan(value) ? TS_SIGN_none
           : value < 0               ? TS_SIGN_any
           : signbit(value)          ? TS_SIGN_minus_zero
                                     : TS_SIGN_none;
  if (depth > DEEPEST || !ts_rule_float(v)) return TS_SIGN_any;
  switch (n->op) {
  case TS_OP_square:
  case TS_OP_abs:
  case TS_OP_exp:
  case TS_OP_exp2:
  case TS_OP_sigmoid:
  case TS_OP_softmax:
  case TS_OP_softplus:
  case TS_OP_var:
  case TS_OP_std:
  case TS_OP_norm:
  case TS_OP_hypot: return TS_SIGN_none;
  case TS_OP_relu: return TS_SIGN_minus_zero;
  case TS_OP_sqrt: return operand(n, 0, depth) == TS_SIGN_none ? TS_SIGN_none : TS_SIGN_minus_zero;
  case TS_OP_add: /* -0 is the sum of two -0 alone */
    if (operand(n, 0, depth) == TS_SIGN_any || operand(n, 1, depth) == TS_SIGN_any)
      return TS_SIGN_any;
    return most(operand(n, 0, depth), operand(n, 1, depth));
  case TS_OP_mul:
  case TS_OP_minimum: return least(operand(n, 0, depth), operand(n, 1, depth));
  case TS_OP_maximum: return most(operand(n, 0, depth), operand(n, 1, depth));
  case TS_OP_div: return quotient(n, depth);
  case TS_OP_sum:
  case TS_OP_mean:
  case TS_OP_max:
  case TS_OP_min: return sum(n, depth);
  case TS_OP_reshape:
  case TS_OP_transpose:
  case TS_OP_permute:
  case TS_OP_broadcast_to: return operand(n, 0, depth);
  default: return TS_SIGN_any;
  }
}

TsRuleSign ts_rule_sign(TsVal v) { return sign_of(v, 0); }

/* ---- what is finite where the inputs are */
enum { DEEPEST_FINITE = 400, MOST_SEEN = 2000 };

/* How often values are looked at is bounded: a value may be reached in many ways. */
static bool is_finite(TsVal v, int depth, int *budget);

static bool finite_inputs(const TsNode *n, int depth, int *budget) {
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && !is_finite(n->in[i], depth + 1, budget)) return false;
  return true;
}

/* Sums and products of these types leave the range only where something is very large. */
static bool wide(TsVal v) {
  TsDtype d = (TsDtype)v->meta.dtype;
  return d == TS_DT_bf16 || d == TS_DT_f32 || d == TS_DT_f64;
}

static bool is_finite(TsVal v, int depth, int *budget) {
  const TsNode *n = v->node;
  double value;
  if (ts_rule_fill(v, &value)) return isfinite(value);
  if (n->op == TS_NODE_param || ts_dtype_is((TsDtype)v->meta.dtype, TS_KIND_B | TS_KIND_U | TS_KIND_I))
    return true;
  if (depth > DEEPEST_FINITE || --*budget < 0) return false;
  switch (n->op) {
  case TS_OP_cast:
    if (!wide(v) && !ts_rule_holds((TsDtype)v->meta.dtype, (TsDtype)n->in[0]->meta.dtype))
      return false;
    return finite_inputs(n, depth, budget);
  case TS_OP_add:
  case TS_OP_sub:
  case TS_OP_mul:
  case TS_OP_fma:
  case TS_OP_square:
  case TS_OP_matmul:
  case TS_OP_conv1d:
  case TS_OP_conv2d:
  case TS_OP_conv3d:
  case TS_OP_sum:
  case TS_OP_index_add:
  case TS_OP_scatter_add: return wide(v) && finite_inputs(n, depth, budget);
  case TS_OP_layernorm:
  case TS_OP_rmsnorm:
    return ts_rule_attr(n, "eps")->f > 0 && wide(v) && finite_inputs(n, depth, budget);
  case TS_OP_mean:
  case TS_OP_max:
  case TS_OP_min:
  case TS_OP_var:
  case TS_OP_softmax:
    return ts_meta_numel(&n->in[0]->meta) > 0 && finite_inputs(n, depth, budget);
  case TS_OP_neg:
  case TS_OP_abs:
  case TS_OP_sign:
  case TS_OP_floor:
  case TS_OP_ceil:
  case TS_OP_round:
  case TS_OP_trunc:
  case TS_OP_minimum:
  case TS_OP_maximum:
  case TS_OP_where:
  case TS_OP_relu:
  case TS_OP_leaky_relu:
  case TS_OP_gelu_erf:
  case TS_OP_gelu_tanh:
  case TS_OP_silu:
  case TS_OP_softplus:
  case TS_OP_sigmoid:
  case TS_OP_tanh:
  case TS_OP_erf:
  case TS_OP_sin:
  case TS_OP_cos:
  case TS_OP_atan:
  case TS_OP_rope:
  case TS_OP_reshape:
  case TS_OP_transpose:
  case TS_OP_permute:
  case TS_OP_squeeze:
  case TS_OP_unsqueeze:
  case TS_OP_broadcast_to:
  case TS_OP_expand:
  case TS_OP_flatten:
  case TS_OP_slice:
  case TS_OP_slice_update:
  case TS_OP_narrow:
  case TS_OP_select:
  case TS_OP_flip:
  case TS_OP_unfold:
  case TS_OP_contiguous:
  case TS_OP_clone:
  case TS_OP_stop_gradient:
  case TS_OP_concat:
  case TS_OP_roll:
  case TS_OP_repeat_interleave:
  case TS_OP_gather:
  case TS_OP_take:
  case TS_OP_index_select:
  case TS_OP_embedding:
  case TS_OP_tril:
  case TS_OP_triu: return finite_inputs(n, depth, budget);
  case TS_OP_pad: return isfinite(ts_rule_attr(n, "value")->f) && finite_inputs(n, depth, budget);
  case TS_OP_arange:
  case TS_OP_linspace:
  case TS_OP_eye:
  case TS_OP_one_hot:
  case TS_OP_normal:
  case TS_OP_uniform: return true;
  default: return false;
  }
}

bool ts_rule_finite(TsVal v) {
  int budget = MOST_SEEN;
  return is_finite(v, 0, &budget);
}

/* ---- bounds */
static double bound_of(TsVal v, int depth) {
  const TsNode *n = v->node;
  double value, bound = 0;
  if (ts_rule_fill(v, &value)) return fabs(value);
  if (depth > DEEPEST) return INFINITY;
  switch (n->op) {
  case TS_OP_arange: {
    const TsAttr *stop = ts_rule_attr(n, "stop");
    double start = fabs(ts_rule_attr(n, "start")->f);
    return stop->type == TS_ATTR_none ? start : fmax(start, fabs(stop->f));
  }
  case TS_OP_reshape:
  case TS_OP_unsqueeze:
  case TS_OP_broadcast_to:
  case TS_OP_cast:
  case TS_OP_narrow:
  case TS_OP_neg: return bound_of(n->in[0], depth + 1);
  case TS_OP_square:
    bound = bound_of(n->in[0], depth + 1);
    return bound * bound;
  case TS_OP_mul: return bound_of(n->in[0], depth + 1) * bound_of(n->in[1], depth + 1);
  case TS_OP_complex: /* of each part */
    return fmax(bound_of(n->in[0], depth + 1), bound_of(n->in[1], depth + 1));
  case TS_OP_add:
  case TS_OP_sub: return bound_of(n->in[0], depth + 1) + bound_of(n->in[1], depth + 1);
  case TS_OP_div:
    if (!ts_rule_fill(n->in[1], &value) || !value) return INFINITY;
    return bound_of(n->in[0], depth + 1) / fabs(value);
  case TS_OP_where:
    return fmax(bound_of(n->in[1], depth + 1), bound_of(n->in[2], depth + 1));
  case TS_OP_concat:
    for (int i = 0; i < n->nin; i++) bound = fmax(bound, bound_of(n->in[i], depth + 1));
    return bound;
  default: return INFINITY;
  }
}

double ts_rule_bound(TsVal v) { return bound_of(v, 0); }
