/* Shape rules of transforms. */
#include "lib/infer.h"

static const char *opname(const TsInfer *inf) { return ts_op_info(inf->op)->name; }

static int copy_shape(TsInfer *inf) {
  int dtype = inf->out[0].dtype;
  inf->out[0] = *inf->in[0];
  inf->out[0].dtype = (uint8_t)dtype;
  inf->out[0].weak = 0;
  return 0;
}

/* The transform's axis, and its length: n if given, else the size of the axis. */
static int axis_and_length(TsInfer *inf, int *axis, int64_t *n) {
  const TsMeta *x = inf->in[0];
  char text[TS_META_TEXT];
  if (ts_infer_axis(inf, inf->attr[1].i, x->ndim, axis)) return -1;
  *n = inf->attr[0].type == TS_ATTR_int ? inf->attr[0].i : x->dim[*axis];
  if (*n >= 1) return copy_shape(inf);
  return ts_error_set(inf->err, TS_ERR_value, "%s: a transform of length %lld of %s",
                      opname(inf), (long long)*n, ts_meta_text(x, text));
}

int ts_shape_rule_fft1(TsInfer *inf) {
  int axis;
  int64_t n;
  if (axis_and_length(inf, &axis, &n)) return -1;
  inf->out[0].dim[axis] = n;
  return 0;
}

int ts_shape_rule_rfft(TsInfer *inf) {
  int axis;
  int64_t n;
  if (axis_and_length(inf, &axis, &n)) return -1;
  inf->out[0].dim[axis] = n / 2 + 1;
  return 0;
}

int ts_shape_rule_irfft(TsInfer *inf) {
  const TsMeta *x = inf->in[0];
  char text[TS_META_TEXT];
  int axis;
  if (ts_infer_axis(inf, inf->attr[1].i, x->ndim, &axis)) return -1;
  int64_t n = inf->attr[0].type == TS_ATTR_int ? inf->attr[0].i : 2 * (x->dim[axis] - 1);
  if (n < 1 || x->dim[axis] < 1) {
    ts_error_set(inf->err, TS_ERR_value, "irfft: a transform of length %lld of %s",
                 (long long)n, ts_meta_text(x, text));
    return ts_error_hint(inf->err, "give the length: x:irfft{n = 1}");
  }
  copy_shape(inf);
  inf->out[0].dim[axis] = n;
  return 0;
}

int ts_shape_rule_fftn(TsInfer *inf) {
  bool axes[TS_MAX_RANK];
  const TsMeta *x = inf->in[0];
  char text[TS_META_TEXT];
  if (ts_infer_axes(inf, &inf->attr[0], x->ndim, axes)) return -1;
  for (int i = 0; i < x->ndim; i++)
    if (axes[i] && x->dim[i] < 1)
      return ts_error_set(inf->err, TS_ERR_value, "%s: axis %d of %s has no elements",
                          opname(inf), i, ts_meta_text(x, text));
  return copy_shape(inf);
}

/* The sizes of x's transform: the last of axes has n of them, or n/2 + 1 for real x. */
static int filter_terms(TsInfer *inf, TsMeta *terms, int *last, int64_t *n) {
  const TsMeta *x = inf->in[0];
  const TsAttr *axes = &inf->attr[0];
  bool along[TS_MAX_RANK];
  char text[TS_META_TEXT];
  if (x->ndim < 1)
    return ts_error_set(inf->err, TS_ERR_shape, "%s: needs a signal, not a scalar",
                        opname(inf));
  if (axes->n < 1)
    return ts_error_set(inf->err, TS_ERR_attribute, "%s: axes name no axis", opname(inf));
  if (ts_infer_axes(inf, axes, x->ndim, along) ||
      ts_infer_axis(inf, axes->ints[axes->n - 1], x->ndim, last))
    return -1;
  *terms = *x;
  *n = inf->attr[1].type == TS_ATTR_int ? inf->attr[1].i : x->dim[*last];
  terms->dim[*last] = ts_dtype_is((TsDtype)x->dtype, TS_KIND_F) ? *n / 2 + 1 : *n;
  terms->dtype = (uint8_t)ts_dtype_complex((TsDtype)x->dtype);
  for (int i = 0; i < x->ndim; i++)
    if (along[i] && (terms->dim[i] < 1 || *n < 1))
      return ts_error_set(inf->err, TS_ERR_value, "%s: a transform of length %lld of %s",
                          opname(inf), (long long)(i == *last ? *n : x->dim[i]),
                          ts_meta_text(x, text));
  return 0;
}

int ts_shape_rule_filter(TsInfer *inf) {
  const TsMeta *h = inf->in[1];
  int dtype = inf->out[0].dtype, last = 0;
  TsMeta terms, both;
  int64_t n = 0;
  char th[TS_META_TEXT], tt[TS_META_TEXT];
  if (filter_terms(inf, &terms, &last, &n)) return -1;
  bool fits = !ts_meta_broadcast(&terms, h, &both);
  int extra = fits ? both.ndim - terms.ndim : 0;
  for (int i = 0; fits && i < inf->attr[0].n; i++) {
    int64_t axis = inf->attr[0].ints[i] + (inf->attr[0].ints[i] < 0 ? terms.ndim : 0);
    fits = both.dim[axis + extra] == terms.dim[axis];
  }
  if (!fits)
    return ts_error_set(inf->err, TS_ERR_shape,
                        "%s: the filter %s does not broadcast to the transform, %s",
                        opname(inf), ts_meta_text(h, th), ts_meta_text(&terms, tt));
  both.dim[last + extra] = n;
  both.dtype = (uint8_t)dtype;
  both.weak = 0;
  inf->out[0] = both;
  return 0;
}
