/* Writing into strided parts: slice_update, slice_add and fold. All of it is assignment
 * to and addition into views of the result. */
#include <string.h>

#include "vm/core/exec.h"

static int normal_axis(int64_t axis, int ndim) { return (int)(axis < 0 ? axis + ndim : axis); }

/* x[start:stop:step] by the attributes of the call. */
static TsTensor *slice_of(TsCall *call, TsTensor *x) {
  const TsAttr *a = call->attr;
  TsAttr full[TS_MAX_ATTR];
  ts_op_defaults(TS_OP_slice, full);
  full[0] = a[0], full[1] = a[1], full[2] = a[2];
  return ts_vm_call1(call->ctx, TS_OP_slice, 1, &x, full);
}

static int add_into(TsContext *c, TsTensor *y, TsTensor *src) {
  TsTensor *in[2] = {y, src};
  return ts_vm_call_into(c, TS_OP_add, 2, in, NULL, y);
}

static int write_slice(TsCall *call, bool add) {
  TsContext *c = call->ctx;
  TsTensor *y = call->out[0];
  if (ts_vm_assign(c, y, call->in[0])) return -1;
  TsTensor *part = slice_of(call, y);
  int failed = -1;
  if (part && ts_tensor_numel(part) == 0)
    failed = 0;
  else if (part)
    failed = add ? add_into(c, part, call->in[1]) : ts_vm_assign(c, part, call->in[1]);
  ts_tensor_unref(part);
  return failed;
}

int ts_exec_slice_update(TsCall *call) { return write_slice(call, false); }
int ts_exec_slice_add(TsCall *call) { return write_slice(call, true); }

/* ---- fold */
typedef struct Fold {
  TsContext *c;
  TsTensor *x, *y;
  int axis, last; /* of the windows; of the elements of a window */
  int64_t step;
} Fold;

/* x without the axis `drop`, at its element i. */
static TsTensor *part_of(const Fold *f, int drop, int64_t i) {
  TsMeta m = f->x->meta;
  int64_t stride[TS_MAX_RANK], size = ts_dtypes[m.dtype].nbytes;
  memcpy(stride, f->x->stride, sizeof stride);
  for (int a = drop; a + 1 < m.ndim; a++) m.dim[a] = m.dim[a + 1], stride[a] = stride[a + 1];
  m.ndim--;
  return ts_tensor_view(f->x, &m, stride, f->x->offset + i * f->x->stride[drop] * size);
}

/* Window i: its elements, the last axis of x, on the axis of y. */
static TsTensor *window_of(const Fold *f, int64_t i) {
  TsTensor *w = part_of(f, f->axis, i);
  if (!w) return NULL;
  TsMeta m = w->meta;
  int64_t stride[TS_MAX_RANK], last = m.ndim - 1;
  memcpy(stride, w->stride, sizeof stride);
  for (int64_t a = last; a > f->axis; a--) m.dim[a] = m.dim[a - 1], stride[a] = stride[a - 1];
  m.dim[f->axis] = w->meta.dim[last], stride[f->axis] = w->stride[last];
  TsTensor *transposed = ts_tensor_view(w, &m, stride, w->offset);
  ts_tensor_unref(w);
  return transposed;
}

/* part, one reference, added to y from element `start` of the axis on, `step` apart. */
static int add_part(const Fold *f, TsTensor *part, int64_t start, int64_t step) {
  if (!part) return -1;
  int64_t stride[TS_MAX_RANK], along = f->y->stride[f->axis];
  int64_t offset = f->y->offset + start * along * ts_dtypes[part->meta.dtype].nbytes;
  memcpy(stride, f->y->stride, sizeof stride);
  stride[f->axis] = along * step;
  TsTensor *y = ts_tensor_view(f->y, &part->meta, stride, offset);
  int failed = y ? add_into(f->c, y, part) : -1;
  ts_tensor_unref(y);
  ts_tensor_unref(part);
  return failed;
}

/* Every element of y adds up its windows from the last to the first. Two walks have that
 * order: over the places in a window, upwards, each a strided addition of all windows;
 * and over the windows, downwards. The shorter one is taken. */
static int fold_into(const Fold *f) {
  int64_t windows = f->x->meta.dim[f->axis], size = f->x->meta.dim[f->last];
  int failed = 0;
  if (windows < size)
    for (int64_t w = windows; w-- > 0 && !failed;)
      failed = add_part(f, window_of(f, w), w * f->step, 1);
  else
    for (int64_t i = 0; i < size && !failed; i++)
      failed = add_part(f, part_of(f, f->last, i), i, f->step);
  return failed;
}

/* 8-bit and 16-bit floats add in f32 and round once. */
int ts_exec_fold(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *out = call->out[0], *zero = ts_tensor_number(c, 0);
  TsMeta m = out->meta;
  TsDtype d = ts_tensor_dtype(out), sum = (TsDtype)ts_dtypes[d].compute;
  m.dtype = (uint8_t)sum;
  Fold f = {.c = c,
            .axis = normal_axis(call->attr[0].i, m.ndim),
            .last = m.ndim,
            .step = call->attr[2].i};
  f.x = zero ? ts_tensor_cast(c, call->in[0], sum) : NULL;
  f.y = !f.x ? NULL : sum == d ? ts_tensor_ref(out) : ts_tensor_new(c, &m);
  int failed = !f.y || ts_vm_assign(c, f.y, zero) ? -1 : 0;
  if (!failed && ts_tensor_numel(f.x) > 0) failed = fold_into(&f);
  if (!failed && sum != d) failed = ts_vm_assign(c, out, f.y);
  ts_tensor_unref(zero);
  ts_tensor_unref(f.x);
  ts_tensor_unref(f.y);
  return failed;
}
