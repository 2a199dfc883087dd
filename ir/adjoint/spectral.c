/* Adjoints of transforms. With s the factor of the norm and F the sum over e^(-2 pi i jk/n),
 * the adjoint of s F is s F^H, the other transform with the same factor: ortho stays, and
 * backward and forward change places, since each names the transform that has 1/n. Cutting
 * an input and filling it with zeros are each other's adjoints. */
#include "ir/adjoint/adjoint.h"

enum { ORTHO, BACKWARD, FORWARD };

static TsAttr other_norm(const TsAttr *norm) {
  return ts_b_choice(norm->i == ORTHO ? ORTHO : norm->i == BACKWARD ? FORWARD : BACKWARD);
}

/* The axis of a row with attributes n, axis, norm. */
static int axis_of(const TsAdjoint *a) {
  int64_t axis = a->attr[1].i;
  return (int)(axis < 0 ? axis + a->b->meta(a->b, a->in[0])->ndim : axis);
}

static TsVal transform(const TsAdjoint *a, TsOp op, TsVal g, int64_t n) {
  return ts_build(
      a->b, op, TS_IN(g),
      TS_ATTRS({"n", ts_b_int(n)}, {"axis", a->attr[1]}, {"norm", other_norm(&a->attr[2])}),
      NULL);
}

/* g, cut or filled with zeros to the size of the input along axis, which is counted from the
 * end: g may have more axes in front. */
static TsVal fit_axis(const TsAdjoint *a, TsVal g, int axis) {
  TsBuild *b = a->b;
  if (b->failed) return NULL;
  TsMeta x = *b->meta(b, a->in[0]), m = *b->meta(b, g);
  int64_t n = m.dim[m.ndim + axis], want = x.dim[x.ndim + axis], pads[2 * TS_MAX_RANK] = {0};
  if (want < n) return ts_build_narrow(b, g, m.ndim + axis, 0, want);
  pads[1] = want - n;
  if (want == n) return g;
  return ts_build(b, TS_OP_pad, TS_IN(g), TS_ATTRS({"pads", ts_b_ints(pads, -2 * axis)}), NULL);
}

static TsVal fit_length(const TsAdjoint *a, TsVal g, int axis) {
  return fit_axis(a, g, axis - a->b->meta(a->b, a->in[0])->ndim);
}

/* g times `inner` along axis, but `end` for the first element, and for the last if both. */
static TsVal weighted(TsBuild *b, TsVal g, int axis, double inner, double end, bool both) {
  if (b->failed) return NULL;
  TsMeta m = *b->meta(b, g);
  int64_t n = m.dim[axis], dim[TS_MAX_RANK] = {n};
  int64_t pads[2] = {1, both && n > 1}, middle = n - pads[0] - pads[1];
  TsVal w = ts_build(b, TS_OP_full, 0, NULL,
                     TS_ATTRS({"shape", ts_b_ints(&middle, 1)}, {"value", ts_b_f(inner)},
                              {"dtype", ts_b_dtype(ts_dtype_real((TsDtype)m.dtype))}),
                     NULL);
  w = ts_build(b, TS_OP_pad, TS_IN(w),
               TS_ATTRS({"pads", ts_b_ints(pads, 2)}, {"value", ts_b_f(end)}), NULL);
  for (int i = 1; i < m.ndim - axis; i++) dim[i] = 1;
  if (axis < m.ndim - 1) w = ts_build_reshape(b, w, dim, m.ndim - axis);
  return ts_build_mul(b, g, w);
}

/* ---- complex transforms; of real inputs ts_adjoint_fit takes the real part */
static int along_axis(TsAdjoint *a, TsOp back) {
  int axis = axis_of(a);
  TsVal g = transform(a, back, a->grad[0], a->b->meta(a->b, a->grad[0])->dim[axis]);
  a->grad_in[0] = fit_length(a, g, axis);
  return 0;
}

int ts_adjoint_fft(TsAdjoint *a) { return along_axis(a, TS_OP_ifft); }
int ts_adjoint_ifft(TsAdjoint *a) { return along_axis(a, TS_OP_fft); }

static int along_axes(TsAdjoint *a, TsOp back) {
  a->grad_in[0] =
      ts_build(a->b, back, TS_IN(a->grad[0]),
               TS_ATTRS({"axes", a->attr[0]}, {"norm", other_norm(&a->attr[1])}), NULL);
  return 0;
}

int ts_adjoint_fft2(TsAdjoint *a) { return along_axes(a, TS_OP_ifft2); }
int ts_adjoint_ifft2(TsAdjoint *a) { return along_axes(a, TS_OP_fft2); }
int ts_adjoint_fftn(TsAdjoint *a) { return along_axes(a, TS_OP_ifftn); }
int ts_adjoint_ifftn(TsAdjoint *a) { return along_axes(a, TS_OP_fftn); }

/* ---- real transforms. rfft leaves out terms k > n/2, and so does its adjoint: irfft counts
 * every term but the first and, for even n, the last twice, so those inside are halved.
 * irfft's own adjoint doubles them. */
int ts_adjoint_rfft(TsAdjoint *a) {
  TsBuild *b = a->b;
  int axis = axis_of(a);
  int64_t n = a->attr[0].type == TS_ATTR_int ? a->attr[0].i : b->meta(b, a->in[0])->dim[axis];
  TsVal g = weighted(b, a->grad[0], axis, 0.5, 1, n % 2 == 0);
  a->grad_in[0] = fit_length(a, transform(a, TS_OP_irfft, g, n), axis);
  return 0;
}

int ts_adjoint_irfft(TsAdjoint *a) {
  TsBuild *b = a->b;
  int axis = axis_of(a);
  int64_t n = b->meta(b, a->grad[0])->dim[axis];
  TsVal g = transform(a, TS_OP_rfft, a->grad[0], n);
  a->grad_in[0] = fit_length(a, weighted(b, g, axis, 2, 1, n % 2 == 0), axis);
  return 0;
}

/* ---- cosine transforms: ortho is orthogonal; otherwise y = C x has rows 2 cos, and the
 * inverse's form counts its first term once where the transpose counts it twice. */
int ts_adjoint_dct(TsAdjoint *a) {
  TsBuild *b = a->b;
  int axis = axis_of(a);
  TsVal g = a->grad[0];
  if (a->attr[2].i != ORTHO) g = weighted(b, g, axis, 1, 2, false);
  g = transform(a, TS_OP_idct, g, b->failed ? 0 : b->meta(b, g)->dim[axis]);
  a->grad_in[0] = fit_length(a, g, axis);
  return 0;
}

int ts_adjoint_idct(TsAdjoint *a) {
  TsBuild *b = a->b;
  int axis = axis_of(a);
  TsVal g = transform(a, TS_OP_dct, a->grad[0], b->meta(b, a->grad[0])->dim[axis]);
  if (a->attr[2].i != ORTHO) g = weighted(b, g, axis, 1, 0.5, false);
  a->grad_in[0] = fit_length(a, g, axis);
  return 0;
}

/* ---- spectral_filter, y = B (h * F x). Its transpose in x is the same with the other norm and
 * conj h; also for real x, of whose terms only those count that a real result has. In h it is
 * conj(F x) times the adjoint of B. */
typedef struct Filtered {
  int naxis;
  int64_t axes[TS_MAX_RANK], n; /* axes from the end; length of the last one */
  bool real;
} Filtered;

static Filtered filtered(const TsAdjoint *a) {
  const TsMeta *x = a->b->meta(a->b, a->in[0]), *y = a->b->meta(a->b, a->out[0]);
  Filtered f = {.naxis = a->attr[0].n, .real = ts_dtype_is((TsDtype)x->dtype, TS_KIND_F)};
  for (int i = 0; i < f.naxis; i++)
    f.axes[i] = a->attr[0].ints[i] - (a->attr[0].ints[i] < 0 ? 0 : x->ndim);
  f.n = y->dim[y->ndim + f.axes[f.naxis - 1]];
  return f;
}

/* The terms of v as the row makes them, with the adjoint's weights if they are those of B. */
static TsVal terms(const TsAdjoint *a, const Filtered *f, TsVal v, const TsAttr *norm,
                   bool of_back) {
  TsBuild *b = a->b;
  if (b->failed) return NULL;
  for (int i = f->naxis - 1; i >= 0; i--) {
    bool last = i == f->naxis - 1;
    v = ts_build(b, f->real && last ? TS_OP_rfft : TS_OP_fft, TS_IN(v),
                 TS_ATTRS({"n", last ? ts_b_int(f->n) : (TsAttr){0}},
                          {"axis", ts_b_int(f->axes[i])}, {"norm", *norm}),
                 NULL);
    if (b->failed) return NULL;
    int axis = (int)(b->meta(b, v)->ndim + f->axes[i]);
    if (f->real && last && of_back) v = weighted(b, v, axis, 2, 1, f->n % 2 == 0);
  }
  return v;
}

/* x in the precision of the product. */
static TsVal in_precision(const TsAdjoint *a, TsVal x) {
  TsBuild *b = a->b;
  TsDtype d = (TsDtype)b->meta(b, x)->dtype, h = (TsDtype)b->meta(b, a->in[1])->dtype;
  TsDtype both = ts_dtype_complex(ts_dtype_promote(d, h));
  if (ts_dtype_is(d, TS_KIND_F)) both = ts_dtype_real(both);
  return both == d ? x : ts_build_cast(b, x, both);
}

int ts_adjoint_filter(TsAdjoint *a) {
  TsBuild *b = a->b;
  Filtered f = filtered(a);
  TsAttr norm = other_norm(&a->attr[2]);
  if (ts_wanted(a, 0)) {
    TsVal g = ts_build(
        b, TS_OP_spectral_filter, TS_IN(a->grad[0], ts_build_conj(b, a->in[1])),
        TS_ATTRS({"axes", ts_b_ints(f.axes, f.naxis)}, {"n", ts_b_int(f.n)}, {"norm", norm}),
        NULL);
    a->grad_in[0] = fit_axis(a, g, (int)f.axes[f.naxis - 1]);
  }
  if (ts_wanted(a, 1)) {
    TsVal x = terms(a, &f, in_precision(a, a->in[0]), &a->attr[2], false);
    TsVal g = terms(a, &f, in_precision(a, a->grad[0]), &norm, true);
    a->grad_in[1] = ts_build_mul(b, ts_build_conj(b, x), g);
  }
  return 0;
}
