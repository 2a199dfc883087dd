/* Derivatives of fields on regular grids, and the integral of samples.
 *
 * fd: the central differences of second order, f' = (f[i+1] - f[i-1]) / 2h and
 * f'' = (f[i+1] - 2 f[i] + f[i-1]) / h^2 (Fornberg 1988, table 1); at an edge the
 * one-sided ones of second order. spectral: multiplication of the transform by
 * (i k)^order, the Nyquist term of odd derivatives being zero for even n. */
#include <math.h>

#include "ir/compose/compose.h"

enum { FD, SPECTRAL };
enum { PERIODIC, EDGE };

typedef struct Scheme {
  TsBuild *b;
  int64_t method, boundary;
} Scheme;

static TsVal rolled(TsBuild *b, TsVal f, int axis, int64_t shift) {
  int64_t a = axis;
  return ts_build(b, TS_OP_roll, TS_IN(f),
                  TS_ATTRS({"shift", ts_b_ints(&shift, 1)}, {"axis", ts_b_ints(&a, 1)}), NULL);
}

static TsVal at(TsBuild *b, TsVal f, int axis, int64_t i) {
  return ts_build_narrow(b, f, axis, i, 1);
}

static TsVal joined(TsBuild *b, TsVal x, TsVal y, TsVal z, int axis) {
  return ts_build(b, TS_OP_concat, TS_IN(x, y, z), TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
}

/* Weighted sum of the elements i, i+d, i+2d, ... along axis. */
static TsVal one_sided(TsBuild *b, TsVal f, int axis, int64_t i, int64_t d, const double *w,
                       int n) {
  TsVal s = ts_build_scale(b, at(b, f, axis, i), w[0]);
  for (int j = 1; j < n; j++)
    s = ts_build_add(b, s, ts_build_scale(b, at(b, f, axis, i + j * d), w[j]));
  return s;
}

static TsVal difference(Scheme s, TsVal f, int axis, int order, double h) {
  static const double first[3] = {-1.5, 2, -0.5}, first_end[3] = {1.5, -2, 0.5};
  static const double second[4] = {2, -5, 4, -1};
  TsBuild *b = s.b;
  int64_t n = b->meta(b, f)->dim[axis];
  double unit = order == 1 ? 1 / (2 * h) : 1 / (h * h);
  TsVal lo, hi, mid = f;
  if (s.boundary == PERIODIC) {
    lo = rolled(b, f, axis, 1), hi = rolled(b, f, axis, -1);
  } else {
    lo = ts_build_narrow(b, f, axis, 0, n - 2), hi = ts_build_narrow(b, f, axis, 2, n - 2);
    mid = ts_build_narrow(b, f, axis, 1, n - 2);
  }
  TsVal inner = order == 1
                    ? ts_build_sub(b, hi, lo)
                    : ts_build_add(b, ts_build_sub(b, hi, ts_build_scale(b, mid, 2)), lo);
  inner = ts_build_scale(b, inner, unit);
  if (s.boundary == PERIODIC) return inner;
  double end = order == 1 ? 1 / h : unit;
  int terms = order == 1 ? 3 : 4;
  TsVal begin = one_sided(b, f, axis, 0, 1, order == 1 ? first : second, terms);
  TsVal stop = one_sided(b, f, axis, n - 1, -1, order == 1 ? first_end : second, terms);
  return joined(b, ts_build_scale(b, begin, end), inner, ts_build_scale(b, stop, end), axis);
}

/* (2 pi / (n h)) * (0, 1, .., n/2) along axis, shaped to broadcast. */
static TsVal wave_numbers(TsBuild *b, TsDtype d, int64_t n, int axis, int ndim, double h) {
  int64_t dim[TS_MAX_RANK];
  TsVal k = ts_build(b, TS_OP_arange, 0, NULL,
                     TS_ATTRS({"start", ts_b_f((double)(n / 2 + 1))}, {"dtype", ts_b_dtype(d)}),
                     NULL);
  for (int i = 0; i < ndim; i++) dim[i] = i == axis ? n / 2 + 1 : 1;
  return ts_build_scale(b, ts_build_reshape(b, k, dim, ndim), 2 * M_PI / ((double)n * h));
}

/* 1 everywhere but 0 at the last of n/2 + 1 terms. */
static TsVal without_nyquist(TsBuild *b, TsVal k, int64_t n, int axis) {
  TsVal head = ts_build_narrow(b, k, axis, 0, n / 2);
  TsVal last = ts_build_scale(b, ts_build_narrow(b, k, axis, n / 2, 1), 0);
  return ts_build(b, TS_OP_concat, TS_IN(head, last), TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
}

static TsVal spectral(TsBuild *b, TsVal f, int axis, int order, double h) {
  TsMeta m = *b->meta(b, f);
  int64_t n = m.dim[axis];
  TsDtype d = m.dtype == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32;
  TsVal k = wave_numbers(b, d, n, axis, m.ndim, h);
  if (order == 1 && n % 2 == 0) k = without_nyquist(b, k, n, axis);
  TsVal zero = ts_build_scale(b, k, 0), factor;
  if (order == 1)
    factor = ts_build2(b, TS_OP_complex, zero, k);
  else
    factor = ts_build1(b, TS_OP_neg, ts_build1(b, TS_OP_square, k));
  TsVal t = ts_build(b, TS_OP_rfft, TS_IN(f), TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
  t = ts_build2(b, TS_OP_mul, t, factor);
  TsVal y = ts_build(b, TS_OP_irfft, TS_IN(t),
                     TS_ATTRS({"axis", ts_b_int(axis)}, {"n", ts_b_int(n)}), NULL);
  return m.dtype == d ? y : ts_build_cast(b, y, (TsDtype)m.dtype);
}

/* Derivative along axis; fails where the grid is too small for the scheme. */
static TsVal derivative(Scheme s, TsVal f, int axis, int order, double h) {
  TsBuild *b = s.b;
  const TsMeta *m = b->meta(b, f);
  char text[TS_META_TEXT];
  int64_t least = s.method == FD && s.boundary == EDGE ? 4 : 1;
  if (m->dim[axis] < least) {
    ts_build_fail(b, TS_ERR_shape, "derivative: axis %d of %s has fewer than %lld points", axis,
                  ts_meta_text(m, text), (long long)least);
    return NULL;
  }
  return s.method == SPECTRAL ? spectral(b, f, axis, order, h)
                              : difference(s, f, axis, order, h);
}

static double spacing(const TsAttr *a, int i) {
  return a->type == TS_ATTR_none ? 1 : a->floats[a->n == 1 ? 0 : i];
}

static int check_spacing(TsCompose *k, const TsAttr *a, int n) {
  if (a->type == TS_ATTR_none || a->n == 1 || a->n == n) return 0;
  return ts_build_fail(k->b, TS_ERR_attribute, "%s: %d spacings for %d axes",
                       ts_op_info(k->op)->name, a->n, n);
}

int ts_compose_d(TsCompose *k) {
  const TsAttr *a = k->attr;
  const TsMeta *m = k->b->meta(k->b, k->in[0]);
  char text[TS_META_TEXT];
  int64_t axis = a[0].i < 0 ? a[0].i + m->ndim : a[0].i;
  if (axis < 0 || axis >= m->ndim)
    return ts_build_fail(k->b, TS_ERR_index, "d: axis %lld is out of range for %s",
                         (long long)a[0].i, ts_meta_text(m, text));
  if (a[2].i != 1 && a[2].i != 2)
    return ts_build_fail(k->b, TS_ERR_value, "d: order must be 1 or 2, not %lld",
                         (long long)a[2].i);
  Scheme s = {k->b, a[3].i, a[4].i};
  return ts_compose_finish(k, derivative(s, k->in[0], (int)axis, (int)a[2].i, a[1].f));
}

static TsVal part(TsBuild *b, TsVal v, int64_t i) {
  return ts_build(b, TS_OP_select, TS_IN(v),
                  TS_ATTRS({"axis", ts_b_int(0)}, {"index", ts_b_int(i)}), NULL);
}

static int check_field(TsCompose *k, int least, int most) {
  const TsMeta *m = k->b->meta(k->b, k->in[0]);
  char text[TS_META_TEXT];
  int n = m->ndim - 1;
  if (n >= least && n <= most && m->dim[0] == n) return check_spacing(k, &k->attr[0], n);
  return ts_build_fail(k->b, TS_ERR_shape,
                       "%s: a field [n, x1, .., xn] has n components, not %s",
                       ts_op_info(k->op)->name, ts_meta_text(m, text));
}

int ts_compose_divergence(TsCompose *k) {
  if (check_field(k, 1, TS_MAX_RANK)) return -1;
  Scheme s = {k->b, k->attr[1].i, k->attr[2].i};
  int n = k->b->meta(k->b, k->in[0])->ndim - 1;
  TsVal sum = NULL;
  for (int i = 0; i < n; i++) {
    TsVal d = derivative(s, part(k->b, k->in[0], i), i, 1, spacing(&k->attr[0], i));
    sum = i ? ts_build_add(k->b, sum, d) : d;
  }
  return ts_compose_finish(k, sum);
}

int ts_compose_curl(TsCompose *k) {
  if (check_field(k, 2, 3)) return -1;
  TsBuild *b = k->b;
  Scheme s = {b, k->attr[1].i, k->attr[2].i};
  const TsAttr *h = &k->attr[0];
  TsVal v = k->in[0];
#define D(component, axis) derivative(s, part(b, v, component), axis, 1, spacing(h, axis))
  if (b->meta(b, v)->ndim == 3) return ts_compose_finish(k, ts_build_sub(b, D(1, 0), D(0, 1)));
  TsVal x = ts_build_sub(b, D(2, 1), D(1, 2)), y = ts_build_sub(b, D(0, 2), D(2, 0)),
        z = ts_build_sub(b, D(1, 0), D(0, 1));
#undef D
  return ts_compose_finish(k, ts_build(b, TS_OP_stack, TS_IN(x, y, z), TS_NO_ATTRS, NULL));
}

int ts_compose_laplacian(TsCompose *k) {
  TsBuild *b = k->b;
  const TsMeta *m = b->meta(b, k->in[0]);
  const TsAttr *axes = &k->attr[1];
  int n = axes->type == TS_ATTR_none ? m->ndim : axes->n, nd = m->ndim;
  char text[TS_META_TEXT];
  Scheme s = {b, k->attr[2].i, k->attr[3].i};
  TsVal sum = NULL;
  if (n < 1)
    return ts_build_fail(b, TS_ERR_shape, "laplacian: no axes in %s", ts_meta_text(m, text));
  if (check_spacing(k, &k->attr[0], n)) return -1;
  for (int i = 0; i < n; i++) {
    int64_t axis =
        axes->type == TS_ATTR_none ? i : axes->ints[i] + (axes->ints[i] < 0 ? nd : 0);
    if (axis < 0 || axis >= nd)
      return ts_build_fail(b, TS_ERR_index, "laplacian: axis %lld is out of range for %s",
                           (long long)axis, ts_meta_text(m, text));
    TsVal d = derivative(s, k->in[0], (int)axis, 2, spacing(&k->attr[0], i));
    sum = i ? ts_build_add(b, sum, d) : d;
  }
  return ts_compose_finish(k, sum);
}

/* ---- the trapezoidal rule */
/* Elements along axis without the last, or from the second on. */
static TsVal all_but(TsBuild *b, TsVal v, int axis, bool first) {
  int64_t n = b->failed ? 0 : b->meta(b, v)->dim[axis];
  return ts_build_narrow(b, v, axis, first && n ? 1 : 0, n ? n - 1 : 0);
}

/* Distances of the points along axis of y, shaped to broadcast. */
static TsVal distances(TsCompose *k, TsVal x, const TsMeta *y, int axis) {
  TsBuild *b = k->b;
  const TsMeta *m = b->meta(b, x);
  char tx[TS_META_TEXT], ty[TS_META_TEXT];
  int at = m->ndim == 1 ? 0 : axis - (y->ndim - m->ndim);
  if (at < 0 || m->dim[at] != y->dim[axis]) {
    ts_build_fail(b, TS_ERR_shape,
                  "trapezoid: x does not hold the points along axis %d: %s x %s", axis,
                  ts_meta_text(y, ty), ts_meta_text(m, tx));
    return NULL;
  }
  bool line = m->ndim == 1;
  int64_t dim[TS_MAX_RANK];
  TsVal d = ts_build_sub(b, all_but(b, x, at, true), all_but(b, x, at, false));
  if (!line || b->failed) return d;
  for (int i = 0; i < y->ndim; i++) dim[i] = i == axis ? b->meta(b, d)->dim[0] : 1;
  return ts_build_reshape(b, d, dim, y->ndim);
}

int ts_compose_trapezoid(TsCompose *k) {
  TsBuild *b = k->b;
  TsMeta y = *b->meta(b, k->in[0]);
  TsVal x = k->nin > 1 ? k->in[1] : NULL;
  int64_t axis = ts_compose_axis(k, k->attr[1].i, y.ndim);
  if (axis < 0) return -1;
  TsVal both = ts_build_add(b, all_but(b, k->in[0], (int)axis, true),
                            all_but(b, k->in[0], (int)axis, false));
  if (x) both = ts_build2(b, TS_OP_mul, both, distances(k, x, &y, (int)axis));
  return ts_compose_finish(
      k, ts_build_scale(b, ts_build_sum(b, both, &axis, 1, false), x ? 0.5 : k->attr[0].f / 2));
}
