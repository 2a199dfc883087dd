/* Shape rules of tensors from nothing. */
#include <math.h>

#include "lib/infer.h"

int ts_shape_rule_create(TsInfer *inf) {
  const TsAttr *a = &inf->attr[0];
  TsMeta *m = &inf->out[0];
  const char *name = ts_op_info(inf->op)->name;
  if (a->n > TS_MAX_RANK)
    return ts_error_set(inf->err, TS_ERR_shape, "%s: %d axes are more than %d", name, a->n,
                        TS_MAX_RANK);
  m->ndim = (uint8_t)a->n;
  if (a->n) memcpy(m->dim, a->ints, (size_t)a->n * sizeof *m->dim);
  return 0;
}

int ts_shape_rule_same(TsInfer *inf) {
  int dtype = inf->out[0].dtype;
  inf->out[0] = *inf->in[0];
  inf->out[0].dtype = (uint8_t)dtype;
  inf->out[0].weak = 0;
  return 0;
}

/* What is filled with a number must be able to hold it. */
static int holds(TsInfer *inf, double value) {
  return ts_dtype_check_number((TsDtype)inf->out[0].dtype, value, ts_op_info(inf->op)->name,
                               inf->err);
}

int ts_shape_rule_fill(TsInfer *inf) {
  return ts_shape_rule_create(inf) || holds(inf, inf->attr[1].f) ? -1 : 0;
}

int ts_shape_rule_fill_like(TsInfer *inf) {
  return ts_shape_rule_same(inf) || holds(inf, inf->attr[0].f) ? -1 : 0;
}

static int vector(TsInfer *inf, int64_t n) {
  inf->out[0].ndim = 1;
  inf->out[0].dim[0] = n;
  if (n >= 0) return 0;
  return ts_error_set(inf->err, TS_ERR_value, "%s: the number of elements %lld is negative",
                      ts_op_info(inf->op)->name, (long long)n);
}

int ts_shape_rule_eye1(TsInfer *inf) { return vector(inf, inf->attr[0].i); }

int ts_shape_rule_eye(TsInfer *inf) {
  int64_t n = inf->attr[0].i, m = inf->attr[1].type == TS_ATTR_int ? inf->attr[1].i : n;
  inf->out[0].ndim = 2;
  inf->out[0].dim[0] = n, inf->out[0].dim[1] = m;
  return 0;
}

int ts_shape_rule_arange(TsInfer *inf) {
  const TsAttr *a = inf->attr;
  double start = a[1].type == TS_ATTR_f ? a[0].f : 0;
  double stop = a[1].type == TS_ATTR_f ? a[1].f : a[0].f, step = a[2].f;
  if (step == 0 || !isfinite(start) || !isfinite(stop) || !isfinite(step))
    return ts_error_set(inf->err, TS_ERR_value, "arange: no finite count from %g to %g by %g",
                        start, stop, step);
  double n = ceil((stop - start) / step);
  return vector(inf, n > 0 ? n < 0x1p63 ? (int64_t)n : INT64_MAX : 0);
}

int ts_shape_rule_linspace(TsInfer *inf) { return vector(inf, inf->attr[2].i); }

int ts_shape_rule_matrix(TsInfer *inf) {
  char text[TS_META_TEXT];
  if (inf->in[0]->ndim < 2)
    return ts_error_set(inf->err, TS_ERR_shape, "%s: needs at least two axes, not %s",
                        ts_op_info(inf->op)->name, ts_meta_text(inf->in[0], text));
  return ts_shape_rule_same(inf);
}

int ts_shape_rule_one_hot(TsInfer *inf) {
  if (ts_shape_rule_same(inf)) return -1;
  TsMeta *m = &inf->out[0];
  if (m->ndim == TS_MAX_RANK)
    return ts_error_set(inf->err, TS_ERR_shape, "one_hot: more than %d axes", TS_MAX_RANK);
  m->dim[m->ndim++] = inf->attr[0].i;
  return 0;
}

int ts_shape_rule_categorical(TsInfer *inf) {
  char text[TS_META_TEXT];
  if (inf->in[0]->ndim < 1 || inf->in[0]->dim[inf->in[0]->ndim - 1] < 1)
    return ts_error_set(inf->err, TS_ERR_shape, "categorical: no classes in %s",
                        ts_meta_text(inf->in[0], text));
  if (ts_shape_rule_same(inf)) return -1;
  inf->out[0].dim[inf->out[0].ndim - 1] = inf->attr[0].i;
  return 0;
}
