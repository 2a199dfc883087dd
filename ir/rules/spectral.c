/* Guards and results around Fourier and cosine transforms: what is linear is added up before
 * it is transformed, and a transform back and forth is left out where nothing is lost by it.
 *
 * irfft ignores the imaginary parts of its first term and, for an even length, of its last.
 * rfft(irfft(t)) is t only where those are zero, which derivatives by transforms guarantee by
 * the form of their factors. */
#include <math.h>
#include <string.h>

#include "ir/rules/rewrite.h"

static bool same_attrs(const TsNode *a, const TsNode *b) {
  int nd = a->out[0].meta.ndim;
  const TsAttr *m = ts_rule_attr(a, "n"), *n = ts_rule_attr(b, "n");
  return nd == b->out[0].meta.ndim &&
         ts_rule_axis(a, "axis", nd) == ts_rule_axis(b, "axis", nd) &&
         ts_rule_attr(a, "norm")->i == ts_rule_attr(b, "norm")->i && m->type == n->type &&
         (m->type == TS_ATTR_none || m->i == n->i);
}

static bool transforms(uint16_t op) {
  return op == TS_OP_fft || op == TS_OP_ifft || op == TS_OP_rfft || op == TS_OP_irfft ||
         op == TS_OP_dct || op == TS_OP_idct;
}

/* F(a) + F(b) of the same form: one transform does. */
static bool alike(const TsRewrite *r) {
  TsVal x = r->root->in[0], y = r->root->in[1];
  const TsNode *a = x->node, *b = y->node;
  if (a == b || a->op != b->op || !transforms(a->op) || !same_attrs(a, b)) return false;
  const TsMeta *m = &a->in[0]->meta, *n = &b->in[0]->meta;
  return ts_rule_single(r, x) && ts_rule_single(r, y) && m->dtype == n->dtype && !m->weak &&
         !n->weak && !ts_dtype_is((TsDtype)m->dtype, TS_KIND_I | TS_KIND_U | TS_KIND_B) &&
         ts_meta_same_shape(m, n);
}

bool ts_rule_guard_transforms_alike(const TsRewrite *r) { return alike(r); }

static TsVal added_before(TsRewrite *r) {
  const TsNode *a = r->root->in[0]->node, *b = r->root->in[1]->node;
  TsVal x = ts_build2(&r->b, (TsOp)r->root->op, a->in[0], b->in[0]);
  return r->b.failed ? NULL : r->b.emit(&r->b, (TsOp)a->op, 1, &x, a->attr, NULL);
}
TsVal ts_rule_make_add_transforms(TsRewrite *r) { return added_before(r); }
TsVal ts_rule_make_sub_transforms(TsRewrite *r) { return added_before(r); }

/* Factors of known size, so that the order of products matters only to what is close to the
 * largest numbers; or nobody asks. */
static const double BOUND = 0x1p20;

static bool small_numbers(const TsRewrite *r, TsVal a, TsVal b) {
  return ts_rule_fast(r) || (ts_rule_bound(a) <= BOUND && ts_rule_bound(b) <= BOUND);
}

/* A constant beyond an inverse transform goes into a factor that is small. */
static const TsNode *scaled_spectrum(const TsRewrite *r, TsVal *small) {
  TsVal y = r->root->in[transforms(r->root->in[0]->node->op) ? 0 : 1];
  const TsNode *f = y->node, *p = f->nin == 1 ? ts_rule_node(f->in[0], TS_OP_mul) : NULL;
  if (!transforms(f->op) || !p || !ts_rule_single(r, y) || !ts_rule_single(r, f->in[0]))
    return NULL;
  if (y->meta.dtype != ts_rule_type(r)->dtype || !ts_meta_same_shape(&y->meta, ts_rule_type(r)))
    return NULL;
  for (int i = 0; i < 2; i++) {
    *small = p->in[i];
    bool varies = ts_dtype_is((TsDtype)(*small)->meta.dtype, TS_KIND_F | TS_KIND_C) &&
                  !(*small)->meta.weak;
    if (varies && ts_meta_numel(&(*small)->meta) * 8 <= ts_meta_numel(&p->out[0].meta))
      return f;
  }
  return NULL;
}

bool ts_rule_guard_small_factor_inside(const TsRewrite *r) {
  TsVal small;
  return scaled_spectrum(r, &small) && small_numbers(r, small, ts_rule_var(r, 'a'));
}

TsVal ts_rule_make_scaled_transform(TsRewrite *r) {
  TsVal small, c = ts_rule_var(r, 'a');
  const TsNode *f = scaled_spectrum(r, &small), *p = f->in[0]->node;
  double value = 0;
  ts_rule_fill(c, &value);
  TsVal k = ts_build2(&r->b, TS_OP_mul, small, ts_graph_number(r->g, value));
  TsVal x = ts_build2(&r->b, TS_OP_mul, p->in[p->in[0] == small], k);
  return r->b.failed ? NULL : r->b.emit(&r->b, (TsOp)f->op, 1, &x, f->attr, NULL);
}

/* ---- rfft(irfft(t)) */
static bool real_at(const TsRewrite *r, TsVal v, int axis, int64_t at, int64_t m, int depth);

/* The factor of a product, of its own rank, at the place `at` of the product's axis. */
static bool factor_real_at(const TsRewrite *r, TsVal v, int ndim, int axis, int64_t at,
                           int64_t m, int depth) {
  int own = axis - (ndim - v->meta.ndim);
  if (!ts_dtype_is((TsDtype)v->meta.dtype, TS_KIND_C)) return true;
  if (own < 0 || v->meta.dim[own] != m) return false;
  return real_at(r, v, own, at, m, depth);
}

/* Every term of v at the place `at` of m along the axis is real. */
static bool real_at(const TsRewrite *r, TsVal v, int axis, int64_t at, int64_t m, int depth) {
  const TsNode *n = v->node;
  double im;
  int nd = v->meta.ndim;
  if (!ts_dtype_is((TsDtype)v->meta.dtype, TS_KIND_C)) return true;
  if (depth > 12 || n->op >= TS_OP_COUNT) return false;
  switch (n->op) {
  case TS_OP_rfft: {
    /* Its first term, and the last one of an even length, are sums of reals. */
    const TsAttr *length = ts_rule_attr(n, "n");
    int64_t size = length->type == TS_ATTR_none ? n->in[0]->meta.dim[axis] : length->i;
    return ts_rule_axis(n, "axis", nd) == axis && (at == 0 || (size % 2 == 0 && at == m - 1));
  }
  case TS_OP_complex: {
    int own = axis - (nd - n->in[1]->meta.ndim);
    return own >= 0 &&
           ts_rule_element(r, n->in[1], own, n->in[1]->meta.dim[own] == 1 ? 0 : at, &im) &&
           im == 0;
  }
  case TS_OP_neg:
  case TS_OP_conj:
  case TS_OP_square: return real_at(r, n->in[0], axis, at, m, depth + 1);
  case TS_OP_mul:
  case TS_OP_div:
  case TS_OP_add:
  case TS_OP_sub:
    return factor_real_at(r, n->in[0], nd, axis, at, m, depth + 1) &&
           factor_real_at(r, n->in[1], nd, axis, at, m, depth + 1);
  default: return false;
  }
}

/* What a transform along the axis has made: one number that is not finite has made all terms
 * so, which the transform back and forth would do. */
static bool spread_along(TsVal v, int axis, int depth) {
  const TsNode *n = v->node;
  int nd = v->meta.ndim;
  if (depth > 12 || n->op >= TS_OP_COUNT) return false;
  switch (n->op) {
  case TS_OP_rfft: return ts_rule_axis(n, "axis", nd) == axis;
  case TS_OP_neg:
  case TS_OP_conj:
  case TS_OP_square: return spread_along(n->in[0], axis, depth + 1);
  case TS_OP_mul:
  case TS_OP_add:
  case TS_OP_sub:
    for (int i = 0; i < 2; i++)
      if (n->in[i]->meta.ndim == nd && n->in[i]->meta.dim[axis] == v->meta.dim[axis] &&
          spread_along(n->in[i], axis, depth + 1))
        return true;
    return false;
  default: return false;
  }
}

bool ts_rule_guard_real_ends(const TsRewrite *r) {
  const TsNode *f = r->root, *back = ts_rule_node(f->in[0], TS_OP_irfft);
  TsVal t = ts_rule_var(r, 't');
  int nd = t->meta.ndim;
  if (!back || ts_rule_attr(f, "n")->type != TS_ATTR_none ||
      !ts_dtype_is((TsDtype)t->meta.dtype, TS_KIND_C))
    return false;
  int axis = ts_rule_axis(f, "axis", nd);
  int64_t n = back->out[0].meta.dim[axis], m = t->meta.dim[axis];
  if (axis != ts_rule_axis(back, "axis", nd) || n / 2 + 1 != m ||
      ts_rule_attr(f, "norm")->i != ts_rule_attr(back, "norm")->i)
    return false;
  if (!spread_along(t, axis, 0) && !ts_rule_fast(r)) return false;
  return real_at(r, t, axis, 0, m, 0) && (n % 2 || real_at(r, t, axis, m - 1, m, 0));
}

/* ---- x times two small factors: those are multiplied first */
static int64_t numel_of(const TsMeta *a, const TsMeta *b) {
  TsMeta both;
  return ts_meta_broadcast(a, b, &both) ? INT64_MAX : ts_meta_numel(&both);
}

/* The operands of the inner product: the large one, and the small one in *small. */
static TsVal large_operand(const TsRewrite *r, TsVal *small, TsVal *other) {
  for (int i = 0; i < 2; i++) {
    TsVal p = r->root->in[i], c = r->root->in[1 - i];
    if (!ts_rule_node(p, TS_OP_mul) || !ts_rule_single(r, p)) continue;
    for (int k = 0; k < 2; k++) {
      TsVal x = p->node->in[k], a = p->node->in[1 - k];
      double value;
      if (a->meta.weak || c->meta.weak || x->meta.weak || ts_rule_fill(a, &value) ||
          ts_rule_fill(c, &value))
        continue;
      if (!ts_dtype_is((TsDtype)a->meta.dtype, TS_KIND_F | TS_KIND_C) ||
          !ts_dtype_is((TsDtype)c->meta.dtype, TS_KIND_F | TS_KIND_C) ||
          x->meta.dtype != ts_rule_type(r)->dtype)
        continue;
      int64_t large = ts_meta_numel(&x->meta); /* of nothing, neither is small */
      if (!ts_meta_same_shape(&x->meta, ts_rule_type(r)) || !large ||
          numel_of(&a->meta, &c->meta) * 8 > large)
        continue;
      *small = a, *other = c;
      return x;
    }
  }
  return NULL;
}

bool ts_rule_guard_small_factors(const TsRewrite *r) {
  TsVal a, c;
  return large_operand(r, &a, &c) && small_numbers(r, a, c);
}

TsVal ts_rule_make_mul_small(TsRewrite *r) {
  TsVal a, c, x = large_operand(r, &a, &c);
  return ts_build2(&r->b, TS_OP_mul, x, ts_build2(&r->b, TS_OP_mul, a, c));
}

/* ---- t a + t b of a transform t: the factors are added first */
static bool small_factor(TsVal a, TsVal t) {
  return ts_dtype_is((TsDtype)a->meta.dtype, TS_KIND_F | TS_KIND_C) && !a->meta.weak &&
         ts_meta_numel(&t->meta) && ts_meta_numel(&a->meta) * 8 <= ts_meta_numel(&t->meta);
}

bool ts_rule_guard_small_factors_of_terms(const TsRewrite *r) {
  TsVal t = ts_rule_var(r, 't'), a = ts_rule_var(r, 'a'), b = ts_rule_var(r, 'b');
  return transforms(t->node->op) && ts_rule_single(r, r->root->in[0]) &&
         ts_rule_single(r, r->root->in[1]) && t->meta.dtype == ts_rule_type(r)->dtype &&
         ts_meta_same_shape(&t->meta, ts_rule_type(r)) && small_factor(a, t) &&
         small_factor(b, t) && small_numbers(r, a, b);
}

/* ---- (i k) (i l) is -k l: the square of the spectral first derivative is the second one. For
 * even lengths k is zero at the highest frequency, and so is -k k: that is the derivative of
 * the derivative, and not the second derivative, whose factor keeps that term. */
static bool zero_everywhere(TsVal v) { return ts_rule_bound(v) == 0; }

bool ts_rule_guard_imaginary(const TsRewrite *r) {
  return zero_everywhere(ts_rule_var(r, 'z'));
}

bool ts_rule_guard_both_imaginary(const TsRewrite *r) {
  return zero_everywhere(ts_rule_var(r, 'z')) && zero_everywhere(ts_rule_var(r, 'y'));
}
