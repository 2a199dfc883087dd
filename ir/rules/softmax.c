/* Guards and results around softmax: recognised where it is written by exponentials, and
 * freed of what cancels. */
#include <math.h>

#include "ir/rules/rewrite.h"

static bool other_operand(const TsNode *n, TsVal v, TsVal *other) {
  if (n->nin != 2 || (n->in[0] != v && n->in[1] != v)) return false;
  *other = n->in[n->in[0] == v];
  return true;
}

static TsVal along(TsRewrite *r, TsOp op, TsVal x, int axis) {
  return ts_build(&r->b, op, TS_IN(x), TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
}

/* The largest elements of x along the axes, in a form that broadcasts to x: what is shifted by
 * it has no overflow, whatever x is, and where x has infinities the result is none either. */
static bool is_peak(TsVal m, TsVal x, unsigned axes) {
  while (ts_rule_node(m, TS_OP_stop_gradient)) m = m->node->in[0];
  const TsNode *n = ts_rule_node(m, TS_OP_max);
  bool alone = n && (ts_rule_attr(n, "keepdims")->i || axes == (1u << x->meta.ndim) - 1);
  return alone && n->in[0] == x && ts_rule_axes(n, &x->meta) == axes;
}

/* x - max(x): exponentials of it are at most 1, and one of them is. */
static bool below_peak(const TsRewrite *r, TsVal x, unsigned axes) {
  const TsNode *n = ts_rule_node(x, TS_OP_sub);
  return ts_rule_fast(r) || (n && ts_meta_same_shape(&n->in[0]->meta, &x->meta) &&
                             is_peak(n->in[1], n->in[0], axes));
}

/* The sum of e along one axis, in a form that broadcasts to e along that axis: that axis. */
static int summed_axis(TsVal s, TsVal e) {
  const TsNode *n = ts_rule_node(s, TS_OP_sum);
  if (!n || n->in[0] != e) return -1;
  unsigned axes = ts_rule_axes(n, &e->meta);
  int axis = ts_rule_one_axis(axes);
  bool alone = axis >= 0 && (ts_rule_attr(n, "keepdims")->i || axis == 0);
  return alone && ts_rule_constant_along(&s->meta, &e->meta, axes) ? axis : -1;
}

/* The axis along which the root divides exponentials by their sum. */
static int softmax_axis(const TsRewrite *r) {
  TsVal e = r->root->in[0], s = r->root->in[1];
  if (r->root->op == TS_OP_mul) { /* e * (1 / sum) */
    const TsNode *one = ts_rule_node(s, TS_OP_reciprocal);
    if (!one) one = ts_rule_node(e, TS_OP_reciprocal), e = s;
    if (!one || !ts_rule_single(r, (TsVal)&one->out[0])) return -1;
    s = one->in[0];
  }
  if (!ts_rule_node(e, TS_OP_exp) || !ts_rule_float(e) || !ts_rule_float(e->node->in[0]))
    return -1;
  /* Read by the sum and by the root alone. */
  if (ts_rule_uses(r, e) > 2 || !ts_rule_single(r, s)) return -1;
  int axis = summed_axis(s, e);
  return axis >= 0 && below_peak(r, e->node->in[0], 1u << axis) ? axis : -1;
}

bool ts_rule_guard_shares_of_exp(const TsRewrite *r) { return softmax_axis(r) >= 0; }

static TsVal softmax(TsRewrite *r) {
  const TsNode *e = ts_rule_node(r->root->in[0], TS_OP_exp);
  if (!e) e = r->root->in[1]->node;
  return along(r, TS_OP_softmax, e->in[0], softmax_axis(r));
}
TsVal ts_rule_make_exp_share(TsRewrite *r) { return softmax(r); }
TsVal ts_rule_make_exp_share_mul(TsRewrite *r) { return softmax(r); }

/* ---- a shift along the axis cancels */
/* Without the shift m the result is finite where it was: m is the largest element, or a number
 * that does not lead out of the range. */
static bool harmless(const TsRewrite *r, TsVal x, TsVal m, unsigned axes, bool subtracted) {
  TsDtype d = (TsDtype)x->meta.dtype;
  double value;
  if (ts_rule_fast(r) || (subtracted && is_peak(m, x, axes))) return true;
  return ts_rule_fill(m, &value) && fabs(value) <= 0x1p20 && d != TS_DT_f16 &&
         ts_dtypes[d].nbytes > 1;
}

/* The operand of x +- m that varies along the axes, where the other one does not. */
static TsVal unshifted(const TsRewrite *r, const TsNode *n, unsigned axes) {
  if (n->op != TS_OP_sub && n->op != TS_OP_add) return NULL;
  for (int i = 0; i < (n->op == TS_OP_add ? 2 : 1); i++) {
    TsVal x = n->in[i], m = n->in[1 - i];
    if (ts_rule_float(x) && x->meta.dtype == n->out[0].meta.dtype &&
        ts_meta_same_shape(&x->meta, &n->out[0].meta) &&
        ts_rule_constant_along(&m->meta, &x->meta, axes) &&
        harmless(r, x, m, axes, n->op == TS_OP_sub))
      return x;
  }
  return NULL;
}

static TsVal shifted_input(const TsRewrite *r) {
  TsVal v = r->root->in[0];
  int axis = ts_rule_axis(r->root, "axis", v->meta.ndim);
  return v->meta.ndim ? unshifted(r, v->node, 1u << axis) : NULL;
}

bool ts_rule_guard_shifted(const TsRewrite *r) { return shifted_input(r) != NULL; }

static TsVal without_shift(TsRewrite *r) {
  TsVal x = shifted_input(r);
  return r->b.emit(&r->b, (TsOp)r->root->op, 1, &x, r->root->attr, NULL);
}
TsVal ts_rule_make_softmax_shift(TsRewrite *r) { return without_shift(r); }
TsVal ts_rule_make_log_softmax_shift(TsRewrite *r) { return without_shift(r); }

/* ---- logarithms */
bool ts_rule_guard_single_inner(const TsRewrite *r) {
  return ts_rule_single(r, r->root->in[0]);
}

TsVal ts_rule_make_log_of_softmax(TsRewrite *r) {
  TsVal x = ts_rule_var(r, 'x');
  const TsNode *s = r->root->in[0]->node;
  return r->b.emit(&r->b, TS_OP_log_softmax, 1, &x, s->attr, NULL);
}

bool ts_rule_guard_single_sum(const TsRewrite *r) {
  TsVal s = r->root->in[0];
  TsVal x = ts_rule_var(r, 'x');
  return ts_rule_single(r, s) && ts_rule_single(r, s->node->in[0]) && ts_rule_float(x) &&
         below_peak(r, x, ts_rule_axes(s->node, &x->meta));
}

TsVal ts_rule_make_log_sum_exp(TsRewrite *r) {
  const TsNode *s = r->root->in[0]->node;
  return ts_build(
      &r->b, TS_OP_logsumexp, TS_IN(ts_rule_var(r, 'x')),
      TS_ATTRS({"axis", *ts_rule_attr(s, "axis")}, {"keepdims", *ts_rule_attr(s, "keepdims")}),
      NULL);
}

/* log(sum(e^(x - m))) + m */
static TsVal lifted(const TsRewrite *r) {
  TsVal l = r->root->in[r->root->in[0]->node->op == TS_OP_logsumexp ? 0 : 1], m;
  if (!other_operand(r->root, l, &m) || !ts_rule_node(l, TS_OP_logsumexp) ||
      !ts_rule_single(r, l))
    return NULL;
  const TsNode *shift = ts_rule_node(l->node->in[0], TS_OP_sub);
  if (!shift || shift->in[1] != m || !ts_rule_attr(l->node, "keepdims")->i) return NULL;
  return unshifted(r, shift, ts_rule_axes(l->node, &shift->out[0].meta));
}

bool ts_rule_guard_lifted(const TsRewrite *r) { return lifted(r) != NULL; }

TsVal ts_rule_make_logsumexp_lift(TsRewrite *r) {
  TsVal x = lifted(r);
  const TsNode *l = ts_rule_node(r->root->in[0], TS_OP_logsumexp);
  if (!l) l = r->root->in[1]->node;
  return r->b.emit(&r->b, TS_OP_logsumexp, 1, &x, l->attr, NULL);
}

static int normaliser_axis(const TsRewrite *r) {
  TsVal x = r->root->in[0], l = r->root->in[1];
  const TsNode *n = ts_rule_node(l, TS_OP_logsumexp);
  if (!n || n->in[0] != x || !ts_rule_single(r, l) || !ts_rule_float(x)) return -1;
  unsigned axes = ts_rule_axes(n, &x->meta);
  int axis = ts_rule_one_axis(axes);
  bool alone = axis >= 0 && (ts_rule_attr(n, "keepdims")->i || axis == 0);
  return alone && ts_rule_constant_along(&l->meta, &x->meta, axes) ? axis : -1;
}

bool ts_rule_guard_normalised(const TsRewrite *r) { return normaliser_axis(r) >= 0; }
TsVal ts_rule_make_sub_logsumexp(TsRewrite *r) {
  return along(r, TS_OP_log_softmax, r->root->in[0], normaliser_axis(r));
}

/* ---- the logarithm at one class of each row is a cross entropy with its sign changed */
static bool classes_last(const TsRewrite *r, TsVal logp) {
  int nd = logp->meta.ndim;
  return nd > 0 && ts_rule_single(r, logp) && ts_rule_float(ts_rule_var(r, 'x')) &&
         ts_rule_axis(logp->node, "axis", nd) == nd - 1;
}

bool ts_rule_guard_one_class_a_row(const TsRewrite *r) {
  TsVal logp = r->root->in[0], i = ts_rule_var(r, 'i');
  int nd = logp->meta.ndim;
  TsMeta one = logp->meta;
  if (!classes_last(r, logp) || ts_rule_axis(r->root, "axis", nd) != nd - 1) return false;
  one.dim[nd - 1] = 1;
  return ts_meta_same_shape(&i->meta, &one);
}

enum { MEAN, SUM, NONE }; /* words of its reduction option */

/* -cross_entropy(x, class), a number a row. No class is ignored. */
static TsVal minus_loss(TsRewrite *r, TsVal x, TsVal class) {
  TsAttr none[TS_MAX_ATTR];
  ts_op_defaults(TS_OP_cross_entropy, none);
  int64_t nothing = -(INT64_C(1) << 53);
  TsVal in[2] = {x, class};
  none[0] = (TsAttr){.type = TS_ATTR_choice, .i = NONE};
  none[1] = ts_b_int(nothing);
  TsVal y = r->b.emit(&r->b, TS_OP_cross_entropy, 2, in, none, NULL);
  return y ? ts_build1(&r->b, TS_OP_neg, y) : NULL;
}

/* gather counts negative indices from the end. */
TsVal ts_rule_make_picked_loss(TsRewrite *r) {
  TsBuild *b = &r->b;
  TsVal x = ts_rule_var(r, 'x'), i = ts_rule_var(r, 'i');
  const TsMeta *m = &x->meta;
  TsVal at = ts_build_reshape(b, ts_build_cast(b, i, TS_DT_i64), i->meta.dim, m->ndim - 1);
  TsVal end = ts_build2(b, TS_OP_add, at, b->number(b, (double)m->dim[m->ndim - 1]));
  TsVal negative = ts_build2(b, TS_OP_lt, at, b->number(b, 0));
  TsVal class = ts_build(b, TS_OP_where, TS_IN(negative, end, at), TS_NO_ATTRS, NULL);
  TsVal y = minus_loss(r, x, class);
  return y ? ts_build_reshape(b, y, ts_rule_type(r)->dim, ts_rule_type(r)->ndim) : NULL;
}

bool ts_rule_guard_over_classes(const TsRewrite *r) {
  TsVal product = r->root->in[0], logp = product->node->in[0];
  if (logp->node->op != TS_OP_log_softmax) logp = product->node->in[1];
  const TsMeta *m = &logp->meta;
  TsVal hot = product->node->in[product->node->in[0] == logp];
  /* The logarithm of an impossible class is -inf, which the product makes NaN. */
  if (!ts_rule_finite(r, ts_rule_var(r, 'x')) && !ts_rule_fast(r)) return false;
  return classes_last(r, logp) && ts_rule_single(r, product) && hot->meta.dtype == m->dtype &&
         ts_meta_same_shape(&hot->meta, m) && !ts_rule_attr(r->root, "keepdims")->i &&
         ts_rule_axes(r->root, m) == 1u << (m->ndim - 1);
}

TsVal ts_rule_make_one_hot_loss(TsRewrite *r) {
  return minus_loss(r, ts_rule_var(r, 'x'), ts_rule_var(r, 't'));
}

/* ---- a row operator on what was cast up for it, cast down again: its statistics are wide
 * in any case */
bool ts_rule_guard_wide_rows(const TsRewrite *r) {
  const TsNode *n = r->root->in[0]->node,
               *up = n->nin ? ts_rule_node(n->in[0], TS_OP_cast) : NULL;
  bool rows = n->op == TS_OP_softmax || n->op == TS_OP_log_softmax || n->op == TS_OP_rmsnorm ||
              n->op == TS_OP_layernorm;
  TsDtype d = (TsDtype)ts_rule_type(r)->dtype;
  return rows && up && n->nin == 1 && ts_rule_single(r, r->root->in[0]) &&
         !up->in[0]->meta.weak && up->in[0]->meta.dtype == d &&
         (d == TS_DT_f16 || d == TS_DT_bf16) && up->out[0].meta.dtype == TS_DT_f32;
}

TsVal ts_rule_make_cast_rows(TsRewrite *r) {
  const TsNode *n = r->root->in[0]->node;
  TsVal x = n->in[0]->node->in[0];
  return r->b.emit(&r->b, (TsOp)n->op, 1, &x, n->attr, NULL);
}
