/* ifft(fft(x) * h) and its kin as spectral_filter, which does the same steps in the same types.
 * Such a node hides transforms and factors from the rules that join those, so these rules come
 * last (final).
 *
 * The terms must have no other reader: a gradient by h reads them too, and then they are made
 * once, in memory, for both. */
#include "ir/rules/rewrite.h"

typedef struct Found {
  const TsNode *there, *back; /* the two transforms */
  TsVal x, h;
} Found;

static TsOp other_way(uint16_t op) {
  switch (op) {
  case TS_OP_ifft: return TS_OP_fft;
  case TS_OP_irfft: return TS_OP_rfft;
  case TS_OP_ifft2: return TS_OP_fft2;
  default: return TS_OP_fftn;
  }
}

static bool along_one(const TsNode *n) { return n->op == TS_OP_ifft || n->op == TS_OP_irfft; }

static int64_t size_of(const TsValue *v, int axis) { return v->meta.dim[axis]; }

/* Both transforms go along the same axis, and the second has the length of the first. */
static bool same_axis(const TsNode *there, const TsNode *back) {
  int nd = back->out[0].meta.ndim, axis = ts_rule_axis(there, "axis", nd);
  if (axis != ts_rule_axis(back, "axis", nd)) return false;
  const TsAttr *n = ts_rule_attr(there, "n");
  int64_t length = n->type == TS_ATTR_none ? size_of(there->in[0], axis) : n->i;
  return size_of(&back->out[0], axis) == length;
}

static bool same_axes(const TsNode *there, const TsNode *back) {
  const TsAttr *a = ts_rule_attr(there, "axes"), *b = ts_rule_attr(back, "axes");
  int nd = back->out[0].meta.ndim;
  if (a->type != b->type || (a->type != TS_ATTR_none && a->n != b->n)) return false;
  for (int i = 0; a->type != TS_ATTR_none && i < a->n; i++)
    if ((a->ints[i] + nd) % nd != (b->ints[i] + nd) % nd) return false;
  return true;
}

/* A signal that the operator takes as the transform did: floats and complex numbers, real ones
 * of a complex transform after a cast. */
static bool a_signal(const TsMeta *x) {
  return !x->weak && x->ndim > 0 && ts_dtype_is((TsDtype)x->dtype, TS_KIND_F | TS_KIND_C);
}

static bool a_filter(TsVal h, TsVal terms) {
  const TsMeta *m = &h->meta;
  TsMeta both;
  return ts_dtype_is((TsDtype)m->dtype, TS_KIND_F | TS_KIND_C) &&
         !ts_meta_broadcast(m, &terms->meta, &both) && ts_meta_same_shape(&both, &terms->meta);
}

/* Of two transforms that are multiplied, the larger one is the signal's. */
static bool find(const TsRewrite *r, Found *f) {
  const TsNode *p = r->root->in[0]->node;
  *f = (Found){.back = r->root};
  if (!ts_rule_single(r, r->root->in[0]) || p->in[0] == p->in[1]) return false;
  for (int i = 0; i < 2; i++) {
    TsVal t = p->in[i], h = p->in[1 - i];
    const TsNode *n = ts_rule_node(t, other_way(r->root->op));
    if (!n || !ts_rule_single(r, t) || !a_signal(&n->in[0]->meta) || !a_filter(h, t)) continue;
    if (t->meta.dtype != p->out[0].meta.dtype) continue;
    if (ts_rule_attr(n, "norm")->i != ts_rule_attr(r->root, "norm")->i) continue;
    if (along_one(r->root) ? !same_axis(n, r->root) : !same_axes(n, r->root)) continue;
    f->there = n, f->x = n->in[0], f->h = h;
    return true;
  }
  return false;
}

bool ts_rule_guard_terms_there_and_back(const TsRewrite *r) {
  Found f;
  return find(r, &f);
}

/* x in the type in which it is transformed. */
static TsVal ready(TsRewrite *r, const Found *f) {
  TsDtype terms = (TsDtype)f->there->out[0].meta.dtype;
  TsDtype want = f->there->op == TS_OP_rfft ? ts_dtype_real(terms) : terms;
  return (TsDtype)f->x->meta.dtype == want ? f->x : ts_build_cast(&r->b, f->x, want);
}

static TsVal filtered(TsRewrite *r) {
  Found f;
  if (!find(r, &f)) return NULL;
  TsAttr axes = {0}, n = {0};
  int64_t list[TS_MAX_RANK];
  int nd = f.x->meta.ndim;
  if (along_one(f.back)) {
    list[0] = ts_rule_axis(f.there, "axis", nd) - nd;
    axes = ts_b_ints(list, 1);
    n = *ts_rule_attr(f.there, "n");
  } else if (ts_rule_attr(f.there, "axes")->type == TS_ATTR_none) {
    for (int i = 0; i < nd; i++) list[i] = i;
    axes = ts_b_ints(list, nd);
  } else {
    axes = *ts_rule_attr(f.there, "axes");
  }
  return ts_build(&r->b, TS_OP_spectral_filter, TS_IN(ready(r, &f), f.h),
                  TS_ATTRS({"axes", axes}, {"n", n}, {"norm", *ts_rule_attr(f.back, "norm")}),
                  NULL);
}

TsVal ts_rule_make_filter_fft(TsRewrite *r) { return filtered(r); }
TsVal ts_rule_make_filter_rfft(TsRewrite *r) { return filtered(r); }
TsVal ts_rule_make_filter_fft2(TsRewrite *r) { return filtered(r); }
TsVal ts_rule_make_filter_fftn(TsRewrite *r) { return filtered(r); }

/* ---- irfft(ifft(fft(rfft(x)) * h)): the inner pair is a filter along its axis already */
static bool transforms_axis(const TsNode *filter, int axis, int nd) {
  const TsAttr *a = ts_rule_attr(filter, "axes");
  for (int i = 0; i < a->n; i++)
    if ((a->ints[i] + nd) % nd == axis) return true;
  return false;
}

bool ts_rule_guard_another_axis(const TsRewrite *r) {
  TsVal mid = r->root->in[0], t = mid->node->in[0];
  const TsNode *filter = mid->node, *there = t->node;
  int nd = r->root->out[0].meta.ndim, axis = ts_rule_axis(r->root, "axis", nd);
  int64_t norm = ts_rule_attr(r->root, "norm")->i;
  if (!ts_rule_single(r, mid) || !ts_rule_single(r, t) || t->meta.ndim != nd) return false;
  if (ts_rule_attr(filter, "norm")->i != norm || ts_rule_attr(there, "norm")->i != norm ||
      ts_rule_attr(filter, "n")->type != TS_ATTR_none)
    return false;
  return !transforms_axis(filter, axis, nd) && a_signal(&there->in[0]->meta) &&
         a_filter(filter->in[1], t) && t->meta.dtype == mid->meta.dtype &&
         same_axis(there, r->root);
}

TsVal ts_rule_make_filter_axes(TsRewrite *r) {
  const TsNode *filter = r->root->in[0]->node, *there = filter->in[0]->node;
  const TsAttr *a = ts_rule_attr(filter, "axes");
  int64_t axes[TS_MAX_RANK];
  int nd = r->root->out[0].meta.ndim;
  for (int i = 0; i < a->n; i++) axes[i] = a->ints[i];
  axes[a->n] = ts_rule_axis(r->root, "axis", nd);
  Found f = {.there = there, .x = there->in[0]};
  return ts_build(&r->b, TS_OP_spectral_filter, TS_IN(ready(r, &f), filter->in[1]),
                  TS_ATTRS({"axes", ts_b_ints(axes, a->n + 1)},
                           {"n", *ts_rule_attr(there, "n")},
                           {"norm", *ts_rule_attr(r->root, "norm")}),
                  NULL);
}

/* ---- where(mask, fft(x), 0) */
bool ts_rule_guard_mask_of_terms(const TsRewrite *r) {
  TsVal t = ts_rule_var(r, 't'), m = ts_rule_var(r, 'm');
  uint16_t op = t->node->op;
  bool terms = op == TS_OP_fft || op == TS_OP_rfft || op == TS_OP_fft2 || op == TS_OP_fftn;
  return terms && ts_rule_single(r, t) && m->meta.dtype == TS_DT_bool && !m->meta.weak &&
         ts_meta_same_shape(&t->meta, ts_rule_type(r)) &&
         t->meta.dtype == ts_rule_type(r)->dtype;
}

TsVal ts_rule_make_masked_terms(TsRewrite *r) {
  TsVal t = ts_rule_var(r, 't'), m = ts_rule_var(r, 'm');
  TsDtype real = ts_dtype_real((TsDtype)t->meta.dtype);
  return ts_build2(&r->b, TS_OP_mul, t, ts_build_cast(&r->b, m, real));
}
