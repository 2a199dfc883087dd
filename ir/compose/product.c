/* Products of tensors of several kinds, and distances: kron, cross, tensordot, cdist,
 * cosine_similarity. */
#include "ir/compose/compose.h"

static int differ(TsCompose *k, const char *what) {
  char tx[TS_META_TEXT], ty[TS_META_TEXT];
  return ts_build_fail(k->b, TS_ERR_shape, "%s: %s: %s x %s", ts_op_info(k->op)->name, what,
                       ts_meta_text(k->b->meta(k->b, k->in[0]), tx),
                       ts_meta_text(k->b->meta(k->b, k->in[1]), ty));
}

/* x[i] y[j] at i n + j, n the size of y, in each axis; the shorter shape gets leading axes. */
int ts_compose_kron(TsCompose *k) {
  TsBuild *b = k->b;
  TsMeta x = *b->meta(b, k->in[0]), y = *b->meta(b, k->in[1]);
  int64_t dx[2 * TS_MAX_RANK], dy[2 * TS_MAX_RANK], dim[TS_MAX_RANK];
  int nd = x.ndim > y.ndim ? x.ndim : y.ndim;
  if (2 * nd > TS_MAX_RANK) return differ(k, "too many axes");
  for (int i = 0; i < nd; i++) {
    int ax = i - (nd - x.ndim), ay = i - (nd - y.ndim);
    dx[2 * i] = ax < 0 ? 1 : x.dim[ax], dx[2 * i + 1] = 1;
    dy[2 * i + 1] = ay < 0 ? 1 : y.dim[ay], dy[2 * i] = 1;
    dim[i] = dx[2 * i] * dy[2 * i + 1];
  }
  TsVal p = ts_build_mul(b, ts_build_reshape(b, k->in[0], dx, 2 * nd),
                         ts_build_reshape(b, k->in[1], dy, 2 * nd));
  return ts_compose_finish(k, ts_build_reshape(b, p, dim, nd));
}

/* ---- cross */
static TsVal turned(TsBuild *b, TsVal x, int64_t shift, int64_t axis) {
  return ts_build(b, TS_OP_roll, TS_IN(x),
                  TS_ATTRS({"shift", ts_b_ints(&shift, 1)}, {"axis", ts_b_ints(&axis, 1)}),
                  NULL);
}

int ts_compose_cross(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal x = k->in[0], y = k->in[1];
  const TsMeta *mx = b->meta(b, x), *my = b->meta(b, y);
  int ax = ts_compose_axis(k, k->attr[0].i, mx->ndim);
  int ay = ax < 0 ? -1 : ts_compose_axis(k, k->attr[0].i, my->ndim);
  if (ay < 0) return -1;
  if (mx->dim[ax] != 3 || my->dim[ay] != 3)
    return differ(k, "three elements are needed along axis");
  TsVal right = ts_build_mul(b, turned(b, x, -1, ax), turned(b, y, -2, ay));
  TsVal left = ts_build_mul(b, turned(b, x, -2, ax), turned(b, y, -1, ay));
  return ts_compose_finish(k, ts_build2(b, TS_OP_sub, right, left));
}

/* ---- tensordot */
/* Marks the named axes of an input; their number, or -1. */
static int marked(TsCompose *k, const TsAttr *axes, int ndim, int64_t *named, bool *mark) {
  for (int i = 0; i < ndim; i++) mark[i] = false;
  for (int i = 0; i < axes->n; i++) {
    int at = ts_compose_axis(k, axes->ints[i], ndim);
    if (at < 0) return -1;
    if (mark[at])
      return ts_build_fail(k->b, TS_ERR_attribute, "tensordot: axis %d is named twice", at);
    mark[at] = true;
    named[i] = at;
  }
  return axes->n;
}

/* The axes that stay and those that are summed, behind or before them, as a matrix. */
static TsVal matrix(TsBuild *b, TsVal x, const int64_t *named, int n, const bool *mark,
                    bool summed_last, int64_t *kept, int *nkept) {
  TsMeta m = *b->meta(b, x);
  int64_t perm[TS_MAX_RANK], size[2] = {1, 1};
  int at = 0;
  for (int i = 0; i < n && !summed_last; i++) perm[at++] = named[i];
  for (int i = 0; i < m.ndim; i++)
    if (!mark[i]) perm[at++] = i, kept[(*nkept)++] = m.dim[i], size[!summed_last] *= m.dim[i];
  for (int i = 0; i < n && summed_last; i++) perm[at++] = named[i];
  for (int i = 0; i < n; i++) size[summed_last] *= m.dim[named[i]];
  return ts_build_reshape(b, ts_build_permute(b, x, perm, at), size, 2);
}

int ts_compose_tensordot(TsCompose *k) {
  TsBuild *b = k->b;
  TsMeta x = *b->meta(b, k->in[0]), y = *b->meta(b, k->in[1]);
  const TsAttr *left = &k->attr[1], *right = &k->attr[2];
  int64_t last[TS_MAX_RANK], first[TS_MAX_RANK], nx[TS_MAX_RANK], ny[TS_MAX_RANK];
  int64_t dim[2 * TS_MAX_RANK], count = k->attr[0].i;
  bool mx[TS_MAX_RANK], my[TS_MAX_RANK];
  TsAttr own_left, own_right;
  if ((left->type == TS_ATTR_none) != (right->type == TS_ATTR_none))
    return ts_build_fail(b, TS_ERR_attribute, "tensordot: left and right are needed together");
  if (left->type == TS_ATTR_none) {
    if (count < 0 || count > x.ndim || count > y.ndim)
      return differ(k, "fewer axes than to sum");
    for (int i = 0; i < count; i++) last[i] = x.ndim - count + i, first[i] = i;
    own_left = ts_b_ints(last, (int)count), own_right = ts_b_ints(first, (int)count);
    left = &own_left, right = &own_right;
  }
  if (left->n != right->n)
    return ts_build_fail(b, TS_ERR_attribute, "tensordot: %d axes on the left, %d on the right",
                         left->n, right->n);
  int n = marked(k, left, x.ndim, nx, mx), nkept = 0;
  if (n < 0 || marked(k, right, y.ndim, ny, my) < 0) return -1;
  for (int i = 0; i < n; i++)
    if (x.dim[nx[i]] != y.dim[ny[i]]) return differ(k, "sizes of summed axes differ");
  if (x.ndim + y.ndim - 2 * n > TS_MAX_RANK) return differ(k, "too many axes");
  TsVal a = matrix(b, k->in[0], nx, n, mx, true, dim, &nkept);
  TsVal c = matrix(b, k->in[1], ny, n, my, false, dim, &nkept);
  TsVal p = ts_build(b, TS_OP_matmul, TS_IN(a, c), TS_NO_ATTRS, NULL);
  return ts_compose_finish(k, ts_build_reshape(b, p, dim, nkept));
}

/* ---- distances and angles */
static TsVal with_axis(TsBuild *b, TsVal x, int axis) {
  return ts_build(b, TS_OP_unsqueeze, TS_IN(x), TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
}

static TsVal norm(TsBuild *b, TsVal x, double ord, int64_t axis) {
  return ts_build(b, TS_OP_norm, TS_IN(x),
                  TS_ATTRS({"ord", ts_b_f(ord)}, {"axis", ts_b_ints(&axis, 1)}), NULL);
}

int ts_compose_cdist(TsCompose *k) {
  TsBuild *b = k->b;
  const TsMeta *x = b->meta(b, k->in[0]), *y = b->meta(b, k->in[1]);
  if (x->ndim < 2 || y->ndim < 2) return differ(k, "rows of points are needed");
  if (x->dim[x->ndim - 1] != y->dim[y->ndim - 1]) return differ(k, "points differ in size");
  if (!(k->attr[0].f >= 0))
    return ts_build_fail(b, TS_ERR_value, "cdist: p = %g is below 0", k->attr[0].f);
  TsVal d = ts_build2(b, TS_OP_sub, with_axis(b, k->in[0], -2), with_axis(b, k->in[1], -3));
  return ts_compose_finish(k, norm(b, d, k->attr[0].f, -1));
}

int ts_compose_cosine_similarity(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal x = k->in[0], y = k->in[1], eps = b->number(b, k->attr[1].f);
  int64_t axis = k->attr[0].i;
  TsVal dot = ts_build_sum(b, ts_build_mul(b, x, y), &axis, 1, false);
  TsVal nx = ts_build2(b, TS_OP_maximum, norm(b, x, 2, axis), eps);
  TsVal ny = ts_build2(b, TS_OP_maximum, norm(b, y, 2, axis), eps);
  return ts_compose_finish(k, ts_build2(b, TS_OP_div, dot, ts_build_mul(b, nx, ny)));
}
