/* VIEW rows: the same storage seen with other sizes and strides. The result's
 * shape comes from the row's shape rule; here stand only strides and offsets. */
#include <string.h>

#include "vm/core/exec.h"

static int view(TsCall *call, const TsMeta *m, const int64_t *stride, int64_t start) {
  TsTensor *x = call->in[0];
  int64_t size = ts_dtypes[x->meta.dtype].nbytes;
  if (ts_dtype_in_blocks(x->meta.dtype))
    return ts_error_set(&call->ctx->err, TS_ERR_dtype,
                        "%s: %s is stored in blocks and has no such view",
                        ts_op_info(call->op)->name, ts_dtype_name(ts_tensor_dtype(x)));
  call->out[0] = ts_tensor_view(x, m, stride, x->offset + start * size);
  return call->out[0] ? 0 : -1;
}

/* The result type once more: handlers get calls, not metas. */
static int result_meta(TsCall *call, TsMeta *m) {
  const TsMeta *in[1] = {&call->in[0]->meta};
  TsInfer inf = {
      .op = call->op, .nin = 1, .in = in, .attr = call->attr, .err = &call->ctx->err};
  if (ts_op_infer(&inf)) return -1;
  *m = inf.out[0];
  m->device = call->in[0]->meta.device;
  return 0;
}

static int normal_axis(int64_t axis, int ndim) { return (int)(axis < 0 ? axis + ndim : axis); }

/* Strides for other sizes over the same row-major order, if they exist: old and
 * new axes are grouped from the left until both groups hold as many elements; the
 * old axes of a group must then be walked evenly. */
static bool reshape_strides(const TsTensor *x, const TsMeta *m, int64_t *stride) {
  int64_t dim[TS_MAX_RANK], step[TS_MAX_RANK];
  int nold = 0, old = 0, new = 0;
  for (int i = 0; i < x->meta.ndim; i++)
    if (x->meta.dim[i] != 1) dim[nold] = x->meta.dim[i], step[nold++] = x->stride[i];
  while (old < nold && new < m->ndim) {
    int old_end = old + 1, new_end = new + 1;
    int64_t have = dim[old], want = m->dim[new];
    while (have != want) {
      if (have < want)
        have *= dim[old_end++];
      else
        want *= m->dim[new_end++];
    }
    for (int i = old; i + 1 < old_end; i++)
      if (step[i] != step[i + 1] * dim[i + 1]) return false;
    stride[new_end - 1] = step[old_end - 1];
    for (int i = new_end - 1; i > new; i--) stride[i - 1] = stride[i] * m->dim[i];
    old = old_end;
    new = new_end;
  }
  for (; new < m->ndim; new ++) stride[new] = 1;
  return true;
}

static int reshaped(TsCall *call, TsTensor *x, const TsMeta *m) {
  int64_t stride[TS_MAX_RANK];
  if (x->contiguous || ts_meta_numel(m) == 0)
    ts_meta_strides(m, stride);
  else if (!reshape_strides(x, m, stride))
    return 1;
  call->out[0] = ts_tensor_view(x, m, stride, x->offset);
  return call->out[0] ? 0 : -1;
}

int ts_view_reshape(TsCall *call) {
  TsMeta m;
  if (result_meta(call, &m)) return -1;
  int r = reshaped(call, call->in[0], &m);
  if (r <= 0) return r;
  TsTensor *x = ts_tensor_copy(call->ctx, call->in[0]);
  if (!x) return -1;
  r = reshaped(call, x, &m);
  ts_tensor_unref(x);
  return r;
}

int ts_view_flatten(TsCall *call) { return ts_view_reshape(call); }

int ts_view_transpose(TsCall *call) {
  TsTensor *x = call->in[0];
  int nd = x->meta.ndim, a = normal_axis(call->attr[0].i, nd),
      b = normal_axis(call->attr[1].i, nd);
  TsMeta m = x->meta;
  int64_t stride[TS_MAX_RANK];
  memcpy(stride, x->stride, sizeof stride);
  stride[a] = x->stride[b], stride[b] = x->stride[a];
  m.dim[a] = x->meta.dim[b], m.dim[b] = x->meta.dim[a];
  m.weak = 0;
  return view(call, &m, stride, 0);
}

int ts_view_permute(TsCall *call) {
  TsTensor *x = call->in[0];
  TsMeta m = x->meta;
  int64_t stride[TS_MAX_RANK];
  for (int i = 0; i < m.ndim; i++) {
    int a = normal_axis(call->attr[0].ints[i], m.ndim);
    m.dim[i] = x->meta.dim[a];
    stride[i] = x->stride[a];
  }
  return view(call, &m, stride, 0);
}

int ts_view_squeeze(TsCall *call) {
  TsTensor *x = call->in[0];
  TsMeta m;
  int64_t stride[TS_MAX_RANK];
  bool drop[TS_MAX_RANK];
  if (result_meta(call, &m)) return -1;
  const TsAttr *a = &call->attr[0];
  memset(drop, a->type == TS_ATTR_none, sizeof drop);
  for (int i = 0; a->type == TS_ATTR_ints && i < a->n; i++)
    drop[normal_axis(a->ints[i], x->meta.ndim)] = true;
  for (int i = 0, n = 0; i < x->meta.ndim; i++)
    if (!drop[i] || x->meta.dim[i] != 1) stride[n++] = x->stride[i];
  return view(call, &m, stride, 0);
}

int ts_view_unsqueeze(TsCall *call) {
  TsTensor *x = call->in[0];
  TsMeta m;
  int64_t stride[TS_MAX_RANK];
  if (result_meta(call, &m)) return -1;
  int axis = normal_axis(call->attr[0].i, m.ndim);
  for (int i = 0; i < m.ndim; i++)
    stride[i] = i < axis ? x->stride[i] : i > axis ? x->stride[i - 1] : 1;
  return view(call, &m, stride, 0);
}

int ts_view_expand(TsCall *call) {
  TsTensor *x = call->in[0];
  TsMeta m;
  int64_t stride[TS_MAX_RANK];
  if (result_meta(call, &m)) return -1;
  int skip = m.ndim - x->meta.ndim;
  for (int i = 0; i < m.ndim; i++)
    stride[i] = i < skip || x->meta.dim[i - skip] != m.dim[i] ? 0 : x->stride[i - skip];
  return view(call, &m, stride, 0);
}

int ts_view_broadcast_to(TsCall *call) { return ts_view_expand(call); }

int ts_view_slice(TsCall *call) {
  TsTensor *x = call->in[0];
  const TsAttr *a = call->attr;
  TsMeta m = x->meta;
  int64_t stride[TS_MAX_RANK], start = 0;
  memcpy(stride, x->stride, sizeof stride);
  for (int i = 0; i < a[0].n; i++) {
    int64_t begin = a[0].ints[i], step = a[2].type == TS_ATTR_ints ? a[2].ints[i] : 1;
    m.dim[i] = ts_slice_count(x->meta.dim[i], &begin, a[1].ints[i], step);
    if (m.dim[i] > 1) stride[i] *= step; /* of one element any stride is right */
    if (m.dim[i]) start += begin * x->stride[i];
  }
  return view(call, &m, stride, start);
}

int ts_view_narrow(TsCall *call) {
  TsTensor *x = call->in[0];
  TsMeta m = x->meta;
  int axis = normal_axis(call->attr[0].i, m.ndim);
  m.dim[axis] = call->attr[2].i;
  return view(call, &m, x->stride, call->attr[1].i * x->stride[axis]);
}

int ts_view_select(TsCall *call) {
  TsTensor *x = call->in[0];
  TsMeta m = x->meta;
  int64_t stride[TS_MAX_RANK];
  int axis = normal_axis(call->attr[0].i, m.ndim--);
  int64_t index = call->attr[1].i, n = x->meta.dim[axis];
  for (int i = 0; i < m.ndim; i++) {
    m.dim[i] = x->meta.dim[i + (i >= axis)];
    stride[i] = x->stride[i + (i >= axis)];
  }
  return view(call, &m, stride, (index < 0 ? index + n : index) * x->stride[axis]);
}

int ts_view_flip(TsCall *call) {
  TsTensor *x = call->in[0];
  TsMeta m = x->meta;
  int64_t stride[TS_MAX_RANK], start = 0;
  const TsAttr *a = &call->attr[0];
  bool flip[TS_MAX_RANK];
  memset(flip, a->type == TS_ATTR_none, sizeof flip);
  for (int i = 0; a->type == TS_ATTR_ints && i < a->n; i++)
    flip[normal_axis(a->ints[i], m.ndim)] = true;
  for (int i = 0; i < m.ndim; i++) {
    stride[i] = flip[i] ? -x->stride[i] : x->stride[i];
    if (flip[i] && m.dim[i] > 0) start += (m.dim[i] - 1) * x->stride[i];
  }
  return view(call, &m, stride, start);
}

int ts_view_unfold(TsCall *call) {
  TsTensor *x = call->in[0];
  TsMeta m;
  int64_t stride[TS_MAX_RANK];
  if (result_meta(call, &m)) return -1;
  int axis = normal_axis(call->attr[0].i, x->meta.ndim);
  memcpy(stride, x->stride, sizeof stride);
  if (m.dim[axis] > 1) stride[axis] *= call->attr[2].i;
  stride[m.ndim - 1] = x->stride[axis];
  return view(call, &m, stride, 0);
}

/* A result is never the operand itself: a tape (ir/adjoint/reverse.c) knows values by address. */
int ts_view_contiguous(TsCall *call) {
  TsTensor *x = call->in[0];
  call->out[0] = x->contiguous ? ts_tensor_view(x, &x->meta, x->stride, x->offset)
                               : ts_tensor_contiguous(call->ctx, x);
  return call->out[0] ? 0 : -1;
}

int ts_view_real_view(TsCall *call) {
  TsTensor *x = call->in[0];
  TsMeta m;
  int64_t stride[TS_MAX_RANK];
  if (result_meta(call, &m)) return -1;
  for (int i = 0; i < x->meta.ndim; i++) stride[i] = x->stride[i] * 2;
  stride[x->meta.ndim] = 1;
  call->out[0] = ts_tensor_view(x, &m, stride, x->offset);
  return call->out[0] ? 0 : -1;
}

/* Whether elements of another size lie at whole distances; strides count them then, of what is
 * stored in blocks the elements of whole ones. */
static bool bitcast_strides(const TsTensor *x, const TsMeta *m, int64_t *stride) {
  TsDtype from = (TsDtype)x->meta.dtype;
  int64_t want = ts_dtypes[m->dtype].nbytes, block = ts_dtypes[m->dtype].block;
  bool same = ts_dtypes[from].nbytes == want && ts_dtypes[from].block == block;
  int last = m->ndim - 1;
  if (!same && x->meta.dim[last] > 1 && x->stride[last] != 1) return false;
  if (!same && block == 1 && x->offset % want) return false;
  for (int i = 0; i < m->ndim; i++) {
    bool walked = !same && i < last && x->meta.dim[i] > 1;
    int64_t bytes = ts_dtype_nbytes(from, x->stride[i]);
    if (walked && bytes % want) return false;
    stride[i] = bytes / want * block;
  }
  if (!same) stride[last] = 1;
  return true;
}

int ts_view_bitcast(TsCall *call) {
  TsMeta m;
  int64_t stride[TS_MAX_RANK];
  if (result_meta(call, &m)) return -1;
  TsTensor *x = call->in[0];
  bool fits = ts_meta_numel(&m) == 0 || bitcast_strides(x, &m, stride);
  if (ts_meta_numel(&m) == 0) ts_meta_strides(&m, stride);
  x = fits ? ts_tensor_ref(x) : ts_tensor_copy(call->ctx, x);
  if (!x) return -1;
  if (!fits) bitcast_strides(x, &m, stride);
  call->out[0] = ts_tensor_view(x, &m, stride, x->offset);
  ts_tensor_unref(x);
  return call->out[0] ? 0 : -1;
}

static int itself(TsCall *call) {
  return view(call, &call->in[0]->meta, call->in[0]->stride, 0);
}
int ts_view_stop_gradient(TsCall *call) { return itself(call); }
int ts_view_barrier(TsCall *call) { return itself(call); }
int ts_view_reshard(TsCall *call) { return itself(call); }
