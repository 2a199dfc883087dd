/* Shape rules of reductions, scans and sorting. */
#include "lib/infer.h"

static const char *opname(const TsInfer *inf) { return ts_op_info(inf->op)->name; }

static void remove_axes(TsInfer *inf, const bool *reduced, bool keepdims) {
  const TsMeta *x = inf->in[0];
  TsMeta *m = &inf->out[0];
  m->ndim = 0;
  for (int i = 0; i < x->ndim; i++) {
    if (!reduced[i])
      m->dim[m->ndim++] = x->dim[i];
    else if (keepdims)
      m->dim[m->ndim++] = 1;
  }
}

/* The row's axis and keepdims attributes stand together; norm has ord first. */
static const TsAttr *axis_attr(const TsInfer *inf) {
  return &inf->attr[inf->op == TS_OP_norm || inf->op == TS_OP_quantile ? 1 : 0];
}

int ts_shape_rule_reduce(TsInfer *inf) {
  bool reduced[TS_MAX_RANK];
  const TsAttr *a = axis_attr(inf);
  if (ts_infer_axes(inf, a, inf->in[0]->ndim, reduced)) return -1;
  remove_axes(inf, reduced, a[1].i);
  return 0;
}

static int not_empty(TsInfer *inf) {
  const TsMeta *x = inf->in[0], *m = &inf->out[0];
  char text[TS_META_TEXT];
  if (ts_meta_numel(x) > 0 || ts_meta_numel(m) == 0) return 0;
  return ts_error_set(inf->err, TS_ERR_value, "%s: of no elements: %s", opname(inf),
                      ts_meta_text(x, text));
}

/* min and max have no value for an empty set. */
int ts_shape_rule_reduce1(TsInfer *inf) {
  return ts_shape_rule_reduce(inf) ? -1 : not_empty(inf);
}

int ts_shape_rule_axisreduce(TsInfer *inf) {
  bool reduced[TS_MAX_RANK];
  const TsAttr *a = axis_attr(inf);
  int axis;
  memset(reduced, a->type == TS_ATTR_none, sizeof reduced);
  if (a->type == TS_ATTR_int) {
    if (ts_infer_axis(inf, a->i, inf->in[0]->ndim, &axis)) return -1;
    reduced[axis] = true;
  }
  remove_axes(inf, reduced, a[1].i);
  return not_empty(inf);
}

int ts_shape_rule_argreduce(TsInfer *inf) { return ts_shape_rule_axisreduce(inf); }

static int same_shape(TsInfer *inf, int i) {
  inf->out[i].ndim = inf->in[0]->ndim;
  inf->out[i].weak = 0;
  inf->out[i].device = inf->in[0]->device;
  memcpy(inf->out[i].dim, inf->in[0]->dim, sizeof inf->out[i].dim);
  return 0;
}

int ts_shape_rule_scan(TsInfer *inf) {
  int axis, nd = inf->in[0]->ndim;
  if (ts_infer_axis(inf, inf->attr[0].i, nd ? nd : 1, &axis)) return -1;
  return same_shape(inf, 0);
}

static int values_and_indices(TsInfer *inf) {
  same_shape(inf, 1);
  inf->out[1].dtype = TS_DT_i64;
  inf->nout = 2;
  return 0;
}

int ts_shape_rule_cummax(TsInfer *inf) {
  return ts_shape_rule_scan(inf) ? -1 : values_and_indices(inf);
}

int ts_shape_rule_sort(TsInfer *inf) { return ts_shape_rule_cummax(inf); }

int ts_shape_rule_topk(TsInfer *inf) {
  int axis, nd = inf->in[0]->ndim;
  char text[TS_META_TEXT];
  int64_t k = inf->attr[0].i;
  if (ts_infer_axis(inf, inf->attr[1].i, nd, &axis)) return -1;
  if (k < 0 || k > inf->in[0]->dim[axis])
    return ts_error_set(inf->err, TS_ERR_value,
                        "topk: k = %lld of %lld elements on axis %d of %s", (long long)k,
                        (long long)inf->in[0]->dim[axis], axis, ts_meta_text(inf->in[0], text));
  same_shape(inf, 0);
  values_and_indices(inf);
  inf->out[0].dim[axis] = inf->out[1].dim[axis] = k;
  return 0;
}

/* At most as many different values as elements. */
int ts_shape_rule_unique(TsInfer *inf) {
  same_shape(inf, 1);
  inf->out[0].ndim = inf->out[2].ndim = 1;
  inf->out[0].dim[0] = inf->out[2].dim[0] = ts_meta_numel(inf->in[0]);
  inf->out[0].weak = inf->out[2].weak = 0;
  inf->out[0].device = inf->out[2].device = inf->in[0]->device;
  inf->out[1].dtype = inf->out[2].dtype = TS_DT_i64;
  inf->nout = 3;
  inf->dynamic = true;
  return 0;
}

int ts_shape_rule_histogram(TsInfer *inf) {
  int64_t bins = inf->attr[0].i;
  if (bins < 1)
    return ts_error_set(inf->err, TS_ERR_value, "histogram: %lld bins", (long long)bins);
  inf->nout = 2;
  for (int i = 0; i < 2; i++) {
    inf->out[i].ndim = 1, inf->out[i].weak = 0, inf->out[i].device = inf->in[0]->device;
    inf->out[i].dim[0] = bins + i;
  }
  inf->out[1].dtype = (uint8_t)ts_dtype_float(inf->compute);
  return 0;
}

int ts_shape_rule_segment(TsInfer *inf) {
  const TsMeta *x = inf->in[0], *ids = inf->in[1];
  if (!ts_dtype_is((TsDtype)ids->dtype, TS_KIND_I | TS_KIND_U))
    return ts_error_set(inf->err, TS_ERR_dtype, "segment_reduce: ids must be integers, not %s",
                        ts_dtype_name((TsDtype)ids->dtype));
  if (x->ndim < 1 || ids->ndim != 1 || ids->dim[0] != x->dim[0])
    return ts_infer_mismatch(inf, "one id for each row is needed", 0, 1);
  same_shape(inf, 0);
  inf->out[0].dim[0] = inf->attr[0].i;
  return 0;
}

int ts_shape_rule_linear_scan(TsInfer *inf) {
  if (!ts_meta_same_shape(inf->in[0], inf->in[1]))
    return ts_infer_mismatch(inf, "a and b differ in shape", 0, 1);
  return ts_shape_rule_scan(inf);
}
