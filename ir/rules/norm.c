/* Recognising layernorm and rmsnorm where they are written by means, squares and roots:
 *
 *   (x - mean(x)) / sqrt(var + eps)      var: mean((x - mean(x))^2), or var(x)
 *   x / sqrt(mean(x^2) + eps)
 *
 * with the root as a divisor or as a factor 1/sqrt. Other rules have brought squares,
 * reciprocals and powers into one form before. */
#include <math.h>

#include "ir/rules/rewrite.h"

typedef struct Norm {
  TsOp op; /* layernorm or rmsnorm */
  TsVal x;
  int dims;
  double eps;
} Norm;

/* A reduction over the last axes that keeps them: how many. 0 if it is not one. */
static int last_axes(const TsNode *n) {
  const TsMeta *x = &n->in[0]->meta;
  unsigned axes = ts_rule_axes(n, x);
  int dims = 0;
  while (dims < x->ndim && axes >> (x->ndim - 1 - dims) & 1) dims++;
  bool alone = dims > 0 && !(axes & ((1u << (x->ndim - dims)) - 1));
  /* Without keepdims a whole reduction broadcasts as well. */
  return alone && (ts_rule_attr(n, "keepdims")->i || dims == x->ndim) ? dims : 0;
}

/* The mean of x, if that is what m is. */
static bool is_mean(TsVal m, TsVal x, int dims) {
  const TsNode *n = ts_rule_node(m, TS_OP_mean);
  return n && n->in[0] == x && last_axes(n) == dims;
}

/* c = x - mean(x): x, if so. */
static TsVal centred(TsVal c, int dims) {
  const TsNode *n = ts_rule_node(c, TS_OP_sub);
  return n && ts_rule_float(n->in[0]) && is_mean(n->in[1], n->in[0], dims) ? n->in[0] : NULL;
}

/* What stands under the root: the spread of c, with eps. */
static bool spread_of(const TsRewrite *r, TsVal under, TsVal c, Norm *f) {
  const TsNode *a = ts_rule_node(under, TS_OP_add), *n;
  TsVal v = under;
  f->eps = 0;
  if (a && ts_rule_fill(a->in[1], &f->eps))
    v = a->in[0];
  else if (a && ts_rule_fill(a->in[0], &f->eps))
    v = a->in[1];
  if (!(f->eps >= 0) || !isfinite(f->eps) || !ts_rule_single(r, v) || !ts_rule_float(c))
    return false;
  if ((n = ts_rule_node(v, TS_OP_var))) {
    f->dims = last_axes(n);
    if (!f->dims || ts_rule_attr(n, "correction")->f != 0) return false;
    f->x = centred(c, f->dims);
    f->op = TS_OP_layernorm;
    /* The variance of x, or of what is centred already. */
    return f->x && (n->in[0] == f->x || n->in[0] == c) && ts_rule_uses(r, c) <= 2;
  }
  if (!(n = ts_rule_node(v, TS_OP_mean)) || !(f->dims = last_axes(n))) return false;
  const TsNode *square = ts_rule_node(n->in[0], TS_OP_square);
  if (!square || square->in[0] != c || !ts_rule_single(r, n->in[0])) return false;
  f->x = centred(c, f->dims);
  f->op = f->x ? TS_OP_layernorm : TS_OP_rmsnorm;
  if (!f->x) f->x = c;
  return f->op == TS_OP_rmsnorm || ts_rule_uses(r, c) <= 2; /* the square and the root */
}

/* c / sqrt(..), or c * rsqrt(..) with the operands either way round. */
static bool find(const TsRewrite *r, Norm *f) {
  const TsNode *root = r->root, *d;
  if (root->op == TS_OP_div) {
    if (!(d = ts_rule_node(root->in[1], TS_OP_sqrt)) || !ts_rule_single(r, root->in[1])) {
      if (!(d = ts_rule_node(root->in[1], TS_OP_std)) || !ts_rule_single(r, root->in[1]))
        return false;
      f->dims = last_axes(d);
      f->eps = 0;
      f->op = TS_OP_layernorm;
      return f->dims && ts_rule_attr(d, "correction")->f == 0 &&
             (f->x = centred(root->in[0], f->dims)) &&
             (d->in[0] == f->x || d->in[0] == root->in[0]) && ts_rule_uses(r, root->in[0]) <= 2;
    }
    return ts_rule_single(r, d->in[0]) && spread_of(r, d->in[0], root->in[0], f);
  }
  for (int i = 0; i < 2; i++)
    if ((d = ts_rule_node(root->in[i], TS_OP_rsqrt)) && ts_rule_single(r, root->in[i]) &&
        ts_rule_single(r, d->in[0]) && spread_of(r, d->in[0], root->in[1 - i], f))
      return true;
  return false;
}

/* Squares of 16 bits that are rounded to 0 are none inside of the operator: where nothing is
 * added to them, a division by zero is one no more. */
static bool divides_alike(const TsRewrite *r, const Norm *f) {
  TsDtype d = (TsDtype)f->x->meta.dtype;
  return ts_dtype_stored(d, f->eps) > 0 || d == TS_DT_f32 || d == TS_DT_f64 || ts_rule_fast(r);
}

static bool found(const TsRewrite *r) {
  Norm f;
  return find(r, &f) && divides_alike(r, &f) && f.x->meta.dtype == ts_rule_type(r)->dtype &&
         ts_meta_same_shape(&f.x->meta, ts_rule_type(r));
}

static TsVal norm(TsRewrite *r) {
  Norm f;
  if (!find(r, &f)) return NULL;
  return ts_build(&r->b, f.op, TS_IN(f.x),
                  TS_ATTRS({"dims", ts_b_int(f.dims)}, {"eps", ts_b_f(f.eps)}), NULL);
}

bool ts_rule_guard_by_its_spread(const TsRewrite *r) { return found(r); }
TsVal ts_rule_make_norm_div(TsRewrite *r) { return norm(r); }
TsVal ts_rule_make_norm_mul(TsRewrite *r) { return norm(r); }

/* ---- weight and bias */
/* The operand beside the normalised one, in the shape of the last axes. */
static TsVal beside(const TsRewrite *r, const TsNode **n) {
  for (int i = 0; i < 2; i++) {
    TsVal y = r->root->in[i], w = r->root->in[1 - i];
    if (y->node->op != TS_OP_layernorm && y->node->op != TS_OP_rmsnorm) continue;
    const TsMeta *m = &y->meta;
    int dims = (int)ts_rule_attr(y->node, "dims")->i, skip = w->meta.ndim - dims;
    bool fits =
        skip >= 0 && w->meta.ndim <= m->ndim && ts_rule_float(w) && w->meta.dtype == m->dtype;
    for (int k = 0; k < skip && fits; k++) fits = w->meta.dim[k] == 1;
    for (int k = 0; k < dims && fits; k++)
      fits = w->meta.dim[skip + k] == m->dim[m->ndim - dims + k];
    if (!fits || !ts_rule_single(r, y) || w == y) continue;
    *n = y->node;
    return w;
  }
  return NULL;
}

static TsVal operand(const TsNode *n, int i) { return i < n->nin ? n->in[i] : NULL; }

bool ts_rule_guard_plain_norm_beside(const TsRewrite *r) {
  const TsNode *n;
  return beside(r, &n) && n->nin == 1;
}

bool ts_rule_guard_norm_without_bias(const TsRewrite *r) {
  const TsNode *n;
  return beside(r, &n) && n->op == TS_OP_layernorm && !operand(n, 2);
}

static TsVal with(TsRewrite *r, int at) {
  const TsNode *n;
  TsVal w = beside(r, &n);
  int dims = (int)ts_rule_attr(n, "dims")->i;
  TsVal in[3] = {n->in[0], operand(n, 1), operand(n, 2)};
  in[at] = ts_build_reshape(&r->b, w, w->meta.dim + w->meta.ndim - dims, dims);
  return r->b.failed ? NULL : r->b.emit(&r->b, (TsOp)n->op, at + 1, in, n->attr, NULL);
}
TsVal ts_rule_make_norm_weight(TsRewrite *r) { return with(r, 1); }
TsVal ts_rule_make_norm_bias(TsRewrite *r) { return with(r, 2); }

/* ---- variances */
/* mean(x^2) - mean(x)^2 */
bool ts_rule_guard_of_one_mean(const TsRewrite *r) {
  const TsNode *a = r->root->in[0]->node, *b = r->root->in[1]->node->in[0]->node;
  const TsMeta *x = &ts_rule_var(r, 'x')->meta;
  return ts_rule_float(ts_rule_var(r, 'x')) && ts_rule_axes(a, x) == ts_rule_axes(b, x) &&
         ts_rule_attr(a, "keepdims")->i == ts_rule_attr(b, "keepdims")->i &&
         ts_rule_single(r, r->root->in[0]) && ts_rule_single(r, r->root->in[1]);
}

TsVal ts_rule_make_moments_var(TsRewrite *r) {
  const TsNode *a = r->root->in[0]->node;
  return ts_build(
      &r->b, TS_OP_var, TS_IN(ts_rule_var(r, 'x')),
      TS_ATTRS({"axis", *ts_rule_attr(a, "axis")}, {"keepdims", *ts_rule_attr(a, "keepdims")}),
      NULL);
}

/* mean((x - mean(x))^2) */
bool ts_rule_guard_about_its_mean(const TsRewrite *r) {
  const TsNode *m = r->root, *c = r->root->in[0]->node->in[0]->node;
  TsVal x = ts_rule_var(r, 'x');
  unsigned axes = ts_rule_axes(m, &x->meta);
  const TsNode *mu = c->in[1]->node;
  return ts_rule_float(x) && ts_meta_same_shape(&x->meta, &c->out[0].meta) && mu->in[0] == x &&
         ts_rule_axes(mu, &x->meta) == axes &&
         ts_rule_constant_along(&mu->out[0].meta, &x->meta, axes) &&
         (ts_rule_attr(mu, "keepdims")->i || axes == (1u << x->meta.ndim) - 1) &&
         ts_rule_single(r, (TsVal)&c->out[0]) && ts_rule_single(r, m->in[0]);
}

TsVal ts_rule_make_centred_var(TsRewrite *r) {
  return ts_build(&r->b, TS_OP_var, TS_IN(ts_rule_var(r, 'x')),
                  TS_ATTRS({"axis", *ts_rule_attr(r->root, "axis")},
                           {"keepdims", *ts_rule_attr(r->root, "keepdims")}),
                  NULL);
}
