/* Rows along one axis: the axis is moved last by a transposing copy and back. */
#include "vm/core/axis.h"

#include "devices/memory.h"
#include "vm/core/copy.h"

/* dim and stride of t with axis moved last; strides in bytes. */
static void move_last(const TsTensor *t, int axis, TsMeta *m, int64_t *stride) {
  int n = 0, nd = t->meta.ndim, size = ts_dtypes[t->meta.dtype].nbytes;
  *m = t->meta;
  for (int i = 0; i <= nd; i++) {
    int from = i < nd ? i : axis;
    if (i == axis || nd == 0) continue;
    m->dim[n] = t->meta.dim[from];
    stride[n++] = t->stride[from] * size;
  }
}

int ts_axis_read(TsContext *c, TsTensor *x, int axis, TsAxisRows *r) {
  int last = x->meta.ndim - 1, size = ts_dtypes[x->meta.dtype].nbytes;
  int64_t total = ts_tensor_numel(x), stride[TS_MAX_RANK];
  r->n = axis < 0 || last < 0 ? total : x->meta.dim[axis];
  r->rows = r->n ? total / r->n : 0;
  if (axis < 0 || axis >= last) {
    r->t = ts_tensor_contiguous(c, x);
  } else {
    TsMeta m;
    move_last(x, axis, &m, stride);
    for (int i = 0; i < m.ndim; i++) stride[i] /= size;
    TsTensor *view = ts_tensor_view(x, &m, stride, x->offset);
    r->t = view ? ts_tensor_contiguous(c, view) : NULL;
    ts_tensor_unref(view);
  }
  r->at = r->t ? ts_tensor_read(r->t) : NULL;
  if (r->at) return 0;
  ts_tensor_unref(r->t);
  return -1;
}

int ts_axis_open(TsContext *c, TsTensor *out, int axis, TsAxisOut *o) {
  *o = (TsAxisOut){.t = out, .axis = axis};
  if (axis < 0 || axis >= out->meta.ndim - 1) {
    o->at = ts_tensor_write(out);
    return o->at ? 0 : -1;
  }
  o->scratch = ts_meta_nbytes(&out->meta);
  o->at = ts_memory_alloc(o->scratch);
  if (o->at && ts_tensor_write(out)) return 0;
  if (o->at) ts_memory_free(o->at, o->scratch);
  o->at = NULL;
  return ts_error_set(&c->err, TS_ERR_memory, "out of memory: %lld bytes for rows",
                      (long long)o->scratch);
}

void ts_axis_close(TsAxisOut *o) {
  if (!o->at || o->axis < 0 || o->axis >= o->t->meta.ndim - 1) return;
  TsMeta m;
  int64_t ds[TS_MAX_RANK], ss[TS_MAX_RANK];
  int size = ts_dtypes[o->t->meta.dtype].nbytes;
  move_last(o->t, o->axis, &m, ds);
  ts_meta_strides(&m, ss);
  for (int i = 0; i < m.ndim; i++) ss[i] *= size;
  ts_copy_nd(m.ndim, m.dim, ts_tensor_write(o->t), ds, o->at, ss, size);
  ts_memory_free(o->at, o->scratch);
}
