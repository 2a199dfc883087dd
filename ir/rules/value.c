/* What guards know of values by what they are made of, without computing them: their sign,
 * whether they are finite, a bound of their magnitude. */
#include <math.h>
#include <stdlib.h>

#include "ir/rules/rewrite.h"

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
  if (n->op >= TS_OP_COUNT) return TS_SIGN_any;
  if (ts_op_info((TsOp)n->op)->positive) return TS_SIGN_none;
  if (ts_op_info((TsOp)n->op)->moves) return operand(n, 0, depth);
  switch (n->op) {
  case TS_OP_sqrt:
    return operand(n, 0, depth) == TS_SIGN_none ? TS_SIGN_none : TS_SIGN_minus_zero;
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
  default: return TS_SIGN_any;
  }
}

TsRuleSign ts_rule_sign(TsVal v) { return sign_of(v, 0); }

/* ---- what is finite where the inputs are */
/* Sums and products of these types leave the range only where something is very large. */
static bool wide(TsVal v) {
  TsDtype d = (TsDtype)v->meta.dtype;
  return d == TS_DT_bf16 || d == TS_DT_f32 || d == TS_DT_f64;
}

static bool floats(TsVal v) {
  return ts_dtype_is((TsDtype)v->meta.dtype, TS_KIND_F | TS_KIND_C);
}

/* Not near 0: what it divides stays in the range. */
static bool divides(TsVal v, int depth) {
  const double least = 0x1p-60;
  const TsNode *n = v->node;
  double value;
  if (ts_rule_fill(v, &value)) return fabs(value) >= least;
  if (depth > DEEPEST || !wide(v)) return false;
  switch (n->op) {
  case TS_OP_sqrt:
  case TS_OP_reshape:
  case TS_OP_broadcast_to: return divides(n->in[0], depth + 1);
  case TS_OP_maximum:
  case TS_OP_add:
    for (int i = 0; i < 2; i++)
      if (ts_rule_fill(n->in[i], &value) && value >= least)
        return n->op == TS_OP_maximum || ts_rule_sign(n->in[1 - i]) != TS_SIGN_any;
    return false;
  default: return false;
  }
}

/* Whether the results of a node are, inputs: whether those of the node are. */
static bool makes_finite(const TsNode *n, bool inputs) {
  TsVal v = (TsVal)&n->out[0];
  double value;
  if (n->op == TS_NODE_param || !floats(v)) return true;
  if (n->nout == 1 && ts_rule_fill(v, &value)) return isfinite(value);
  if (n->op >= TS_OP_COUNT) return false;
  switch (n->op) {
  case TS_OP_cast: {
    TsDtype from = (TsDtype)n->in[0]->meta.dtype;
    return inputs && (wide(v) || ts_rule_holds((TsDtype)v->meta.dtype, from));
  }
  case TS_OP_layernorm:
  case TS_OP_rmsnorm: return inputs && wide(v) && ts_rule_attr(n, "eps")->f > 0;
  case TS_OP_attention: return inputs && wide(v);
  case TS_OP_dropout: return inputs && wide(v) && ts_rule_attr(n, "p")->f < 1;
  case TS_OP_pad: return inputs && isfinite(ts_rule_attr(n, "value")->f);
  case TS_OP_div: return inputs && wide(v) && divides(n->in[1], 0);
  case TS_OP_reciprocal:
  case TS_OP_rsqrt: return inputs && divides(n->in[0], 0);
  case TS_OP_sqrt: return inputs && ts_rule_sign(n->in[0]) != TS_SIGN_any;
  default: break;
  }
  switch ((TsFinite)ts_op_info((TsOp)n->op)->finite) {
  case TS_FINITE_ALWAYS: return true;
  case TS_FINITE_KEEPS: return inputs;
  case TS_FINITE_WIDE: return inputs && wide(v);
  case TS_FINITE_SOME: return inputs && ts_meta_numel(&n->in[0]->meta) > 0;
  default: return false;
  }
}

/* Nodes stand behind their operands, so each is looked at once, as far as somebody asked. */
bool ts_rule_finite(const TsRewrite *r, TsVal v) {
  TsRuleFacts *f = r->facts;
  int id = (int)v->node->id;
  if (id >= f->cap) {
    int cap = r->g->nnode * 2 + 64;
    unsigned char *p = realloc(f->finite, (size_t)cap);
    if (!p) return false;
    f->finite = p;
    f->cap = cap;
  }
  for (; f->n <= id; f->n++) {
    const TsNode *n = r->g->node[f->n];
    bool inputs = true;
    for (int i = 0; i < n->nin && inputs; i++)
      inputs = !n->in[i] || !floats(n->in[i]) || f->finite[n->in[i]->node->id];
    f->finite[f->n] = n->nout > 0 && makes_finite(n, inputs);
  }
  return f->finite[id];
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
  case TS_OP_square: bound = bound_of(n->in[0], depth + 1); return bound * bound;
  case TS_OP_mul: return bound_of(n->in[0], depth + 1) * bound_of(n->in[1], depth + 1);
  case TS_OP_complex: /* of each part */
    return fmax(bound_of(n->in[0], depth + 1), bound_of(n->in[1], depth + 1));
  case TS_OP_add:
  case TS_OP_sub: return bound_of(n->in[0], depth + 1) + bound_of(n->in[1], depth + 1);
  case TS_OP_div:
    if (!ts_rule_fill(n->in[1], &value) || !value) return INFINITY;
    return bound_of(n->in[0], depth + 1) / fabs(value);
  case TS_OP_where: return fmax(bound_of(n->in[1], depth + 1), bound_of(n->in[2], depth + 1));
  case TS_OP_concat:
    for (int i = 0; i < n->nin; i++) bound = fmax(bound, bound_of(n->in[i], depth + 1));
    return bound;
  default: return INFINITY;
  }
}

double ts_rule_bound(TsVal v) { return bound_of(v, 0); }
