/* Recognising attention: softmax(q k^T * scale + mask) v, whatever the order in which scale,
 * mask and casts are written. A mask whose form is known to be the lower triangle that ends
 * at the last key becomes causal=true. */
#include <math.h>
#include <string.h>

#include "ir/rules/rewrite.h"

typedef struct Attend {
  TsVal q, kt, v;
  double scale;
  bool causal;
  TsVal add;        /* added to the scores */
  TsVal seen;       /* bool: which keys count */
  bool hides;       /* seen is where they do not */
  TsVal where;      /* a mask of bools that hides by a large number: this is added instead */
  double hidden;    /* that number */
  TsMeta probs;     /* of the softmax: its leading axes are those of the attention */
  bool under, over; /* the product before, the one after it has them in another form */
} Attend;

/* Scores of hidden keys: e^(-1e9 - max) is 0 for every score that is a number of use. Where a
 * row may see no key at all the number must swallow its scores as well, so that all of them
 * are equal, as they were. */
static const double FAR = -1e9, SWALLOWS = -1e20;

/* A reshape of the axes before the last two. */
static bool reshapes_heads(const TsNode *n) {
  const TsMeta *x = n->nin ? &n->in[0]->meta : NULL, *y = &n->out[0].meta;
  return n->op == TS_OP_reshape && x->ndim >= 2 && y->ndim >= 2 &&
         !memcmp(x->dim + x->ndim - 2, y->dim + y->ndim - 2, 2 * sizeof *x->dim);
}

static bool lossless_cast(const TsNode *n) {
  return n->op == TS_OP_cast && ts_rule_float(n->in[0]) &&
         ts_rule_holds((TsDtype)n->out[0].meta.dtype, (TsDtype)n->in[0]->meta.dtype);
}

/* What is scaled by a number, or NULL. */
static TsVal scaled(TsVal v, double *by) {
  const TsNode *n = v->node;
  double c;
  if (n->op != TS_OP_mul && n->op != TS_OP_div) return NULL;
  for (int i = 1; i >= (n->op == TS_OP_div ? 1 : 0); i--) {
    TsVal x = n->in[1 - i];
    if (!ts_rule_fill(n->in[i], &c) || !ts_rule_float(x) ||
        !ts_meta_same_shape(&x->meta, &v->meta) || x->meta.dtype != v->meta.dtype)
      continue;
    *by *= n->op == TS_OP_div ? 1 / c : c;
    return x;
  }
  return NULL;
}

/* ---- masks */
/* The form of a mask over [.., S, T] that shows query i the keys up to i + T - S. */
static bool ends_at_last_key(const TsRewrite *r, TsVal mask, const TsMeta *scores, double *upto,
                             double *beyond) {
  int64_t last, s = scores->dim[scores->ndim - 2], t = scores->dim[scores->ndim - 1];
  const TsMeta *m = &mask->meta;
  return m->ndim >= 2 && m->dim[m->ndim - 2] == s && m->dim[m->ndim - 1] == t && t >= s &&
         ts_rule_step(r, mask, &last, upto, beyond) && last == t - s;
}

static bool fits(TsVal mask, const TsMeta *scores) {
  TsMeta both;
  return !mask->meta.weak && mask->meta.ndim > 0 &&
         !ts_meta_broadcast(&mask->meta, scores, &both) && ts_meta_same_shape(&both, scores);
}

static bool take_added(const TsRewrite *r, TsVal mask, const TsMeta *scores, Attend *a) {
  double upto, beyond;
  if (!ts_rule_float(mask) || !fits(mask, scores) || a->add || a->seen || a->where)
    return false;
  if (!a->causal && ends_at_last_key(r, mask, scores, &upto, &beyond) && upto == 0 &&
      beyond <= FAR)
    a->causal = true;
  else
    a->add = mask;
  return true;
}

/* where(c, scores, far) or where(c, far, scores): the scores. */
static TsVal take_where(const TsRewrite *r, const TsNode *n, Attend *a) {
  double upto, beyond, far;
  TsDtype d = (TsDtype)n->out[0].meta.dtype;
  bool hides = ts_rule_fill(n->in[1], &far);
  if (!hides && !ts_rule_fill(n->in[2], &far)) return NULL;
  TsVal c = n->in[0], x = n->in[hides ? 2 : 1];
  const TsMeta *scores = &n->out[0].meta;
  if (d == TS_DT_f16 && far < -65520) far = -INFINITY;
  if (!(far <= FAR) || !ts_rule_float(x) || !ts_meta_same_shape(&x->meta, scores)) return NULL;
  if (!fits(c, scores)) return NULL;
  bool known = !a->causal && ends_at_last_key(r, c, scores, &upto, &beyond);
  if (known && (hides ? upto == 0 && beyond != 0 : upto != 0 && beyond == 0)) {
    a->causal = true;
    return x;
  }
  if (a->add || a->seen || a->where || far > SWALLOWS || c->meta.dtype != TS_DT_bool)
    return NULL;
  a->hides = hides;
  a->hidden = far;
  if (isinf(far))
    a->seen = c;
  else
    a->where = c;
  return x;
}

/* ---- scores */
static bool words_are(const TsNode *n, const char *words) {
  const TsAttr *w = ts_rule_attr(n, "epilogue");
  return w->type == TS_ATTR_str ? !strcmp(w->str, words) : !*words;
}

static bool product(const TsRewrite *r, const TsNode *n, Attend *a, bool scaled_after) {
  const TsMeta *scores = &n->out[0].meta;
  if (n->op != TS_OP_matmul || ts_rule_attr(n, "accumulate")->type != TS_ATTR_none)
    return false;
  if (n->in[0]->meta.ndim < 2 || n->in[1]->meta.ndim < 2) return false;
  /* A mask that a rule has moved into the product's epilogue. */
  if (n->nin == 3 && words_are(n, "bias") && n->in[2]) {
    if (scaled_after || !take_added(r, n->in[2], scores, a)) return false;
  } else if (n->nin == 4 && words_are(n, "residual") && !n->in[2] && n->in[3]) {
    if (scaled_after || !take_added(r, n->in[3], scores, a)) return false;
  } else if (n->nin != 2 || !words_are(n, "")) {
    return false;
  }
  a->q = n->in[0];
  a->kt = n->in[1];
  return true;
}

enum { DEEPEST = 8 };

/* Reads the scores from the softmax down to the product. Every value on the way is read by
 * nothing else. Masks stand outside of scales. */
static bool scores(const TsRewrite *r, TsVal v, Attend *a, bool scaled_after, int depth) {
  const TsNode *n = v->node;
  Attend before = *a;
  if (depth > DEEPEST || !ts_rule_single(r, v)) return false;
  if (n->op == TS_OP_matmul) return product(r, n, a, scaled_after);
  if (lossless_cast(n)) return scores(r, n->in[0], a, scaled_after, depth + 1);
  if (reshapes_heads(n)) {
    /* Masks fit the scores as the softmax sees them, so none may stand further down. */
    a->under = true;
    return scores(r, n->in[0], a, true, depth + 1);
  }
  if (n->op == TS_OP_where && !scaled_after) {
    TsVal x = take_where(r, n, a);
    return x && scores(r, x, a, scaled_after, depth + 1);
  }
  TsVal x = scaled(v, &a->scale);
  if (x) return scores(r, x, a, true, depth + 1);
  if (n->op != TS_OP_add || scaled_after) return false;
  for (int i = 0; i < 2; i++) {
    bool same = ts_meta_same_shape(&n->in[i]->meta, &v->meta);
    *a = before;
    if (same && take_added(r, n->in[1 - i], &v->meta, a) &&
        scores(r, n->in[i], a, false, depth + 1))
      return true;
  }
  return false;
}

/* ---- the whole */
static bool attends(TsDtype d) {
  return d == TS_DT_f32 || d == TS_DT_f64 || d == TS_DT_f16 || d == TS_DT_bf16;
}

static bool last_axis(const TsNode *softmax) {
  int nd = softmax->out[0].meta.ndim;
  return nd >= 2 && ts_rule_axis(softmax, "axis", nd) == nd - 1;
}

/* The leading axes of x broadcast to those of y; or hold as many elements, if x has them in
 * another form. */
static bool leads(const TsMeta *x, const TsMeta *y, bool reshaped) {
  int skip = y->ndim - x->ndim;
  int64_t n = 1, m = 1;
  for (int i = 0; i < x->ndim - 2; i++) n *= x->dim[i];
  for (int i = 0; i < y->ndim - 2; i++) m *= y->dim[i];
  if (reshaped) return n == m;
  if (skip < 0) return false;
  for (int i = 0; i < x->ndim - 2; i++)
    if (x->dim[i] != y->dim[i + skip] && x->dim[i] != 1) return false;
  return true;
}

static bool sizes_fit(const Attend *a, TsDtype d) {
  const TsMeta *q = &a->q->meta, *k = &a->kt->meta, *v = &a->v->meta, *p = &a->probs;
  return attends(d) && q->dtype == d && k->dtype == d && v->dtype == d &&
         leads(q, p, a->under) && leads(k, p, a->under) && leads(v, p, a->over) &&
         ts_meta_numel(p) > 0 && q->dim[q->ndim - 1] > 0 && v->dim[v->ndim - 1] > 0 &&
         q->dim[q->ndim - 2] == p->dim[p->ndim - 2] &&
         k->dim[k->ndim - 1] == p->dim[p->ndim - 1];
}

/* A key that is hidden adds nothing, where 0 times what is not finite was NaN. */
static bool hidden_alike(const TsRewrite *r, const Attend *a) {
  bool masked = a->causal || a->add || a->seen || a->where;
  return !masked || ts_rule_fast(r) || (ts_rule_finite(r, a->kt) && ts_rule_finite(r, a->v));
}

static bool find(const TsRewrite *r, Attend *a) {
  const TsNode *root = r->root;
  TsVal p = root->in[0];
  *a = (Attend){.scale = 1, .v = root->in[1]};
  if (root->nin != 2 || !words_are(root, "") ||
      ts_rule_attr(root, "accumulate")->type != TS_ATTR_none)
    return false;
  if (p->meta.ndim < 2 || root->in[1]->meta.ndim < 2) return false;
  for (int i = 0; i < 2 && p->node->op != TS_OP_softmax; i++) {
    bool heads = reshapes_heads(p->node);
    if ((p->node->op != TS_OP_cast && !heads) || !ts_rule_single(r, p)) return false;
    a->over |= heads;
    p = p->node->in[0];
  }
  if (p->node->op != TS_OP_softmax || !ts_rule_single(r, p) || !last_axis(p->node))
    return false;
  if (!scores(r, p->node->in[0], a, false, 0)) return false;
  a->probs = p->meta;
  /* The heads of the result are those of the probabilities, in one form or the other. */
  return isfinite(a->scale) && a->scale != 0 && sizes_fit(a, (TsDtype)ts_rule_type(r)->dtype) &&
         leads(ts_rule_type(r), &a->probs, true) && hidden_alike(r, a);
}

bool ts_rule_guard_attends(const TsRewrite *r) {
  Attend a;
  return find(r, &a);
}

/* x with the leading axes of the softmax: repeated as a view where it broadcasts. */
static TsVal led(TsRewrite *r, const TsMeta *probs, TsVal x, bool reshaped) {
  if (r->b.failed) return NULL;
  TsMeta m = *probs, *have = &x->meta;
  for (int i = 1; i <= 2; i++) m.dim[m.ndim - i] = have->dim[have->ndim - i];
  if (ts_meta_same_shape(&m, have)) return x;
  return ts_build(&r->b, reshaped ? TS_OP_reshape : TS_OP_broadcast_to, TS_IN(x),
                  TS_ATTRS({"shape", ts_b_ints(m.dim, m.ndim)}), NULL);
}

static TsVal mask_of(TsRewrite *r, Attend *a) {
  TsBuild *b = &r->b;
  if (a->add) return a->add;
  if (a->seen) return a->hides ? ts_build1(b, TS_OP_logical_not, a->seen) : a->seen;
  if (!a->where) return NULL;
  TsVal far = ts_graph_number(r->g, a->hidden);
  /* In the type of the statistics. */
  TsDtype d = (TsDtype)ts_dtypes[ts_rule_type(r)->dtype].accum;
  TsVal zero = ts_build(
      b, TS_OP_full, 0, NULL,
      TS_ATTRS({"shape", ts_b_ints(NULL, 0)}, {"value", ts_b_f(0)}, {"dtype", ts_b_dtype(d)}),
      NULL);
  return ts_build(b, TS_OP_where, TS_IN(a->where, a->hides ? far : zero, a->hides ? zero : far),
                  TS_NO_ATTRS, NULL);
}

/* ---- rows that see nothing: NaN where a softmax is written out, 0 of the operator */
/* A mask that is given, as it is or in another form: it may hide whole rows. */
static bool is_given(TsVal mask) {
  const TsNode *n = mask->node;
  while (n->op == TS_OP_cast || n->op == TS_OP_reshape || n->op == TS_OP_broadcast_to ||
         n->op == TS_OP_narrow || n->op == TS_OP_select || n->op == TS_OP_slice)
    n = n->in[0]->node;
  return n->op == TS_NODE_param;
}

/* A mask of known form of which each row shows a key. */
static bool shows_all_rows(const TsRewrite *r, const Attend *a) {
  TsVal mask = a->add ? a->add : a->seen;
  const TsMeta *p = &a->probs;
  int64_t last, s = p->dim[p->ndim - 2], t = p->dim[p->ndim - 1];
  double upto, beyond, far = -INFINITY;
  const TsMeta *m = mask ? &mask->meta : NULL;
  if (!mask || a->causal || m->ndim < 2 || m->dim[m->ndim - 2] != s ||
      m->dim[m->ndim - 1] != t || !ts_rule_step(r, mask, &last, &upto, &beyond))
    return false;
  bool first = a->add ? upto > far : (upto != 0) != a->hides;
  bool rest = a->add ? beyond > far : (beyond != 0) != a->hides;
  /* Row 0 has the fewest elements up to the step, the last one the fewest beyond it. */
  return (first && last >= 0) || (rest && last + s - 1 < t - 1) || (first && rest);
}

/* Which keys the mask shows, or NULL where each row shows some. */
static TsVal shown(TsRewrite *r, const Attend *a, TsVal mask) {
  if (shows_all_rows(r, a)) return NULL;
  if (a->seen) return mask;
  if (!a->add || (ts_rule_finite(r, mask) && !is_given(mask))) return NULL;
  return ts_build2(&r->b, TS_OP_ne, mask, ts_graph_number(r->g, -INFINITY));
}

/* 1 for rows of y that see a key, NaN for others; NULL where all do. */
static TsVal sees(TsRewrite *r, const Attend *a, TsVal mask) {
  TsBuild *b = &r->b;
  TsVal s = ts_rule_fast(r) ? NULL : shown(r, a, mask);
  int64_t last = -1;
  if (!s) return NULL;
  if (a->causal) { /* both masks together */
    TsMeta m = s->meta;
    const TsMeta *p = &a->probs;
    m.ndim = m.ndim < 2 ? 2 : m.ndim;
    for (int i = 1; i <= m.ndim; i++)
      m.dim[m.ndim - i] = i <= 2 ? p->dim[p->ndim - i] : s->meta.dim[s->meta.ndim - i];
    s = ts_build(b, TS_OP_broadcast_to, TS_IN(s), TS_ATTRS({"shape", ts_b_ints(m.dim, m.ndim)}),
                 NULL);
    int64_t diagonal = p->dim[p->ndim - 1] - p->dim[p->ndim - 2];
    s = ts_build(b, TS_OP_tril, TS_IN(s), TS_ATTRS({"diagonal", ts_b_int(diagonal)}), NULL);
  }
  s = ts_build(b, TS_OP_any, TS_IN(s),
               TS_ATTRS({"axis", ts_b_ints(&last, 1)}, {"keepdims", ts_b_bool(true)}), NULL);
  TsMeta one = {.dtype = ts_rule_type(r)->dtype};
  TsVal factor[2] = {ts_rule_filled(r, 1, &one), ts_rule_filled(r, NAN, &one)};
  return ts_build(b, TS_OP_where, TS_IN(s, factor[0], factor[1]), TS_NO_ATTRS, NULL);
}

TsVal ts_rule_make_softmax_attention(TsRewrite *r) {
  Attend a;
  TsBuild *b = &r->b;
  if (!find(r, &a)) return NULL;
  TsVal x, k, q = a.q, v = a.v;
  double scale = a.scale;
  while ((x = scaled(q, &scale))) q = x;
  while ((x = scaled(a.kt, &scale))) a.kt = x;
  if (a.under && reshapes_heads(a.kt->node)) a.kt = a.kt->node->in[0];
  k = ts_build1(b, TS_OP_transpose, a.kt);
  while (k && (x = scaled(k, &scale))) k = x;
  if (b->failed || !isfinite(scale) || scale == 0) return NULL;
  q = led(r, &a.probs, q, a.under), k = led(r, &a.probs, k, a.under),
  v = led(r, &a.probs, v, a.over);
  TsVal in[4] = {q, k, v, mask_of(r, &a)};
  TsVal y = ts_build(b, TS_OP_attention, in[3] ? 4 : 3, in,
                     TS_ATTRS({"causal", ts_b_bool(a.causal)}, {"scale", ts_b_f(scale)}), NULL);
  TsVal factor = y ? sees(r, &a, in[3]) : NULL;
  if (factor) y = ts_build2(b, TS_OP_mul, y, factor);
  return y && !ts_meta_same_shape(&y->meta, ts_rule_type(r))
             ? ts_build_reshape(b, y, ts_rule_type(r)->dim, ts_rule_type(r)->ndim)
             : y;
}

/* ---- attention with a mask of known form */
static bool causal_mask(const TsRewrite *r) {
  const TsNode *n = r->root;
  double upto, beyond;
  TsMeta s = n->in[0]->meta;
  if (n->nin < 4 || !n->in[3] || ts_rule_attr(n, "causal")->i) return false;
  s.dim[s.ndim - 1] = n->in[1]->meta.dim[s.ndim - 2];
  if (!ends_at_last_key(r, n->in[3], &s, &upto, &beyond)) return false;
  return n->in[3]->meta.dtype == TS_DT_bool ? upto != 0 && beyond == 0
                                            : upto == 0 && beyond <= FAR;
}

bool ts_rule_guard_causal_mask(const TsRewrite *r) {
  const TsNode *n = r->root;
  return causal_mask(r) &&
         (ts_rule_fast(r) || (ts_rule_finite(r, n->in[1]) && ts_rule_finite(r, n->in[2])));
}

TsVal ts_rule_make_attention_causal(TsRewrite *r) {
  const TsNode *n = r->root;
  TsAttr attr[TS_MAX_ATTR];
  TsVal in[TS_MAX_IN];
  memcpy(attr, n->attr, sizeof *attr * (size_t)n->nattr);
  attr[ts_rule_attr(n, "causal") - n->attr].i = 1;
  for (int i = 0; i < n->nin; i++) in[i] = i == 3 ? NULL : n->in[i];
  return r->b.emit(&r->b, TS_OP_attention, n->nin, in, attr, NULL);
}
