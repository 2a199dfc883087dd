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
