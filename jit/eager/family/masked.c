/* masked_scatter on a device, of operators that it has: a stable order of the mask brings the
 * places of what is true to the front, and the source is scattered there. How many there are is
 * read back, as the operator complains where the source has another number. */
#include "jit/eager/family/own.h"

/* x as a vector: of its own elements, broadcast to m's shape, row-major. NULL with the
 * error. */
static TsTensor *flat(const TsCall *call, TsTensor *x, const TsMeta *to) {
  TsMeta m = *to, line = {.dtype = x->meta.dtype, .ndim = 1, .dim = {ts_meta_numel(to)}};
  int64_t stride[TS_MAX_RANK], one = 1;
  int skip = m.ndim - x->meta.ndim;
  m.dtype = x->meta.dtype;
  for (int i = 0; i < m.ndim; i++)
    stride[i] = i < skip || x->meta.dim[i - skip] == 1 ? 0 : x->stride[i - skip];
  TsTensor *view = ts_tensor_view(x, &m, stride, x->offset);
  TsTensor *whole = view ? ts_tensor_contiguous(call->ctx, view) : NULL;
  TsTensor *y = whole ? ts_tensor_view(whole, &line, &one, whole->offset) : NULL;
  ts_tensor_unref(view), ts_tensor_unref(whole);
  return y;
}

/* Of a vector of bools; -1 with the error. */
static int64_t count(const TsCall *call, TsTensor *mask) {
  TsAttr attr[2] = {{.type = TS_ATTR_none}, {.type = TS_ATTR_bool, .i = false}};
  TsTensor *n = ts_vm_call1(call->ctx, TS_OP_count_nonzero, 1, &mask, attr);
  const int64_t *at = n ? ts_tensor_read(n) : NULL;
  int64_t number = at ? *at : -1;
  ts_tensor_unref(n);
  return number;
}

/* Where the n true elements of a vector are, in order. */
static TsTensor *places(const TsCall *call, TsTensor *mask, int64_t n) {
  TsAttr attr[2] = {{.type = TS_ATTR_int, .i = 0}, {.type = TS_ATTR_bool, .i = true}};
  TsMeta m = {.dtype = TS_DT_i64, .ndim = 1, .dim = {n}};
  int64_t one = 1;
  TsTensor *all = ts_vm_call1(call->ctx, TS_OP_argsort, 1, &mask, attr);
  TsTensor *first = all ? ts_tensor_view(all, &m, &one, all->offset) : NULL;
  ts_tensor_unref(all);
  return first;
}

static int scatter(const TsCall *call, TsTensor *x, TsTensor *at, TsTensor *src) {
  TsTensor *in[3] = {x, at, src}, *y = call->out[0];
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  int64_t stride[TS_MAX_RANK], step = 1;
  TsTensor *made = ts_vm_call1(call->ctx, TS_OP_scatter, 3, in, &axis);
  for (int i = y->meta.ndim; i-- > 0; step *= y->meta.dim[i]) stride[i] = step;
  TsTensor *view = made ? ts_tensor_view(made, &y->meta, stride, made->offset) : NULL;
  int failed = !view || ts_vm_assign(call->ctx, y, view);
  ts_tensor_unref(made), ts_tensor_unref(view);
  return failed ? -1 : 1;
}

int ts_offload_masked(TsOffloader *o, TsCall *call, int device) {
  (void)o;
  const char *why;
  if (call->op != TS_OP_masked_scatter) return 0;
  TsTensor *y = call->out[0], *x = NULL, *mask = NULL, *src = NULL, *at = NULL;
  int64_t given = ts_tensor_numel(call->in[2]);
  bool bools = ts_tensor_dtype(call->in[1]) == TS_DT_bool;
  if (!given || !bools || !ts_device_target(ts_device_at(device), &why)) return 0;
  int done = -1;
  mask = flat(call, call->in[1], &y->meta);
  int64_t n = mask ? count(call, mask) : -1;
  if (n >= 0 && n != given) done = 0; /* the CPU says so */
  TsTensor *cast =
      n == given ? ts_tensor_cast(call->ctx, call->in[2], ts_tensor_dtype(y)) : NULL;
  if (cast) src = flat(call, cast, &cast->meta);
  if (src) x = flat(call, call->in[0], &y->meta);
  if (x) at = places(call, mask, n);
  if (at) done = scatter(call, x, at, src);
  ts_tensor_unref(cast), ts_tensor_unref(mask), ts_tensor_unref(src);
  ts_tensor_unref(x), ts_tensor_unref(at);
  return done;
}
