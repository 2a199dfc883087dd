/* Rows that move whole boxes of elements: clone, cast, concat, pad, roll,
 * repeat_interleave. Everything is boxes of vm/core/copy.h. */
#include "vm/core/copy.h"

#include <string.h>

#include "vm/core/element.h"
#include "vm/core/exec.h"

typedef struct Box {
  int ndim, size;
  int64_t dim[TS_COPY_MAX_DIM];
  char *dst;
  int64_t ds[TS_COPY_MAX_DIM];
  const char *src;
  int64_t ss[TS_COPY_MAX_DIM];
} Box;

/* The box of all of x, its elements at the same places from y's first element on. */
static int open_box(Box *b, TsTensor *y, TsTensor *x) {
  b->ndim = x->meta.ndim, b->size = ts_dtypes[x->meta.dtype].nbytes;
  b->src = ts_tensor_read(x);
  b->dst = b->src ? ts_tensor_write(y) : NULL;
  for (int i = 0; i < b->ndim; i++) {
    b->dim[i] = x->meta.dim[i];
    b->ds[i] = y->stride[i] * b->size, b->ss[i] = x->stride[i] * b->size;
  }
  return b->dst ? 0 : -1;
}

static void copy_box(const Box *b) {
  ts_copy_nd(b->ndim, b->dim, b->dst, b->ds, b->src, b->ss, b->size);
}

int ts_exec_clone(TsCall *call) {
  TsTensor *x = call->in[0], *y = call->out[0];
  Box b;
  if (open_box(&b, y, x)) return -1;
  if (ts_dtype_in_blocks(x->meta.dtype))
    memcpy(b.dst, b.src, (size_t)ts_meta_nbytes(&y->meta)); /* it has no views */
  else
    copy_box(&b);
  return 0;
}

int ts_exec_cast(TsCall *call) {
  TsTensor *x = call->in[0], *y = call->out[0];
  TsDtype from = ts_tensor_dtype(x), to = ts_tensor_dtype(y);
  int64_t xs[TS_MAX_RANK], ys[TS_MAX_RANK];
  if (from == to) return ts_exec_clone(call);
  const void *src = ts_tensor_read(x);
  void *dst = src ? ts_tensor_write(y) : NULL;
  if (!dst) return -1;
  for (int i = 0; i < x->meta.ndim; i++) {
    xs[i] = ts_dtype_nbytes(from, x->stride[i]);
    ys[i] = ts_dtype_nbytes(to, y->stride[i]);
  }
  if (ts_tensor_numel(x)) ts_convert_nd(x->meta.ndim, x->meta.dim, dst, to, ys, src, from, xs);
  return 0;
}

static int normal_axis(int64_t axis, int ndim) { return (int)(axis < 0 ? axis + ndim : axis); }

/* The elements were made where they are to go (vm/code/rooms.h). */
static bool is_there(int ndim, const int64_t *dim, const char *dst, const int64_t *ds,
                     const char *src, const int64_t *ss) {
  if (dst != src) return false;
  for (int i = 0; i < ndim; i++)
    if (dim[i] > 1 && ds[i] != ss[i]) return false;
  return true;
}

int ts_exec_concat(TsCall *call) {
  TsTensor *y = call->out[0];
  TsDtype to = ts_tensor_dtype(y);
  int axis = normal_axis(call->attr[0].i, y->meta.ndim), size = ts_dtypes[to].nbytes;
  int64_t at = 0, ds[TS_MAX_RANK], ss[TS_MAX_RANK];
  char *dst = ts_tensor_write(y);
  if (!dst) return -1;
  for (int i = 0; i < y->meta.ndim; i++) ds[i] = y->stride[i] * size;
  for (int k = 0; k < call->nin; k++) {
    TsTensor *x = call->in[k];
    TsDtype from = ts_tensor_dtype(x);
    const char *src = ts_tensor_read(x);
    if (!src) return -1;
    for (int i = 0; i < y->meta.ndim; i++) ss[i] = x->stride[i] * ts_dtypes[from].nbytes;
    char *place = dst + at * ds[axis];
    if (from == to && !is_there(x->meta.ndim, x->meta.dim, place, ds, src, ss))
      ts_copy_nd(x->meta.ndim, x->meta.dim, place, ds, src, ss, size);
    else if (from != to)
      ts_convert_nd(x->meta.ndim, x->meta.dim, place, to, ds, src, from, ss);
    at += x->meta.dim[axis];
  }
  return 0;
}

int ts_exec_repeat_interleave(TsCall *call) {
  TsTensor *x = ts_tensor_ref(call->in[0]), *y = call->out[0];
  int64_t count = call->attr[0].i;
  bool flat = call->attr[1].type == TS_ATTR_none;
  int axis = flat ? 0 : normal_axis(call->attr[1].i, x->meta.ndim);
  Box b = {0};
  if (ts_tensor_numel(y) == 0) {
    ts_tensor_unref(x);
    return 0;
  }
  if (flat) {
    ts_tensor_unref(x);
    if (!(x = ts_tensor_contiguous(call->ctx, call->in[0]))) return -1;
  }
  b.size = ts_dtypes[y->meta.dtype].nbytes;
  b.src = ts_tensor_read(x);
  b.dst = b.src ? ts_tensor_write(y) : NULL;
  for (int i = 0; i < y->meta.ndim; i++) {
    b.dim[b.ndim] = flat ? ts_tensor_numel(x) : x->meta.dim[i];
    b.ss[b.ndim] = (flat ? 1 : x->stride[i]) * b.size;
    b.ds[b.ndim] = y->stride[i] * b.size * (i == axis ? count : 1);
    b.ndim++;
    if (i != axis) continue;
    b.dim[b.ndim] = count; /* the copies of one element, from the same place */
    b.ss[b.ndim] = 0;
    b.ds[b.ndim++] = y->stride[i] * b.size;
  }
  if (b.dst) copy_box(&b);
  ts_tensor_unref(x);
  return b.dst ? 0 : -1;
}

/* ---- pad */
enum { PAD_constant, PAD_reflect, PAD_replicate, PAD_circular };

/* Elements [start, start + length) of axis, as the destination. */
static void narrow(Box *b, int axis, int64_t start, int64_t length) {
  b->dst += start * b->ds[axis];
  b->dim[axis] = length;
}

/* The margins of one axis, b being y with the margins of later axes cut off. */
static void fill_margins(Box b, int axis, int64_t before, int64_t n, const void *value) {
  int64_t after = b.dim[axis] - before - n;
  Box low = b, high = b;
  narrow(&low, axis, 0, before);
  narrow(&high, axis, before + n, after);
  ts_fill_nd(low.ndim, low.dim, low.dst, low.ds, low.size, value);
  ts_fill_nd(high.ndim, high.dim, high.dst, high.ds, high.size, value);
}

/* The same from y's own elements: margin element i comes from place first + i step. */
static void copy_margin(Box b, int axis, int64_t start, int64_t length, int64_t first,
                        int64_t step) {
  const char *base = b.dst;
  memcpy(b.ss, b.ds, sizeof b.ss);
  b.src = base + first * b.ds[axis];
  b.ss[axis] = step * b.ds[axis];
  narrow(&b, axis, start, length);
  if (length > 0) copy_box(&b);
}

static void mirror_margins(Box b, int axis, int64_t before, int64_t n, int64_t mode) {
  int64_t after = b.dim[axis] - before - n, end = before + n;
  if (mode == PAD_reflect) {
    copy_margin(b, axis, 0, before, 2 * before, -1);
    copy_margin(b, axis, end, after, end - 2, -1);
  } else if (mode == PAD_replicate) {
    copy_margin(b, axis, 0, before, before, 0);
    copy_margin(b, axis, end, after, end - 1, 0);
  } else {
    copy_margin(b, axis, 0, before, n, 1);
    copy_margin(b, axis, end, after, before, 1);
  }
}

/* Axis by axis: each one's margins span all of the axes before it and the middle of
 * those after it, so that corners follow from margins. */
int ts_exec_pad(TsCall *call) {
  TsTensor *x = call->in[0], *y = call->out[0];
  const TsAttr *pads = &call->attr[0];
  int64_t mode = call->attr[1].i;
  double value = call->attr[2].f;
  int nd = y->meta.ndim, first = nd - pads->n / 2;
  _Alignas(16) char element[16] = {0};
  Box b;
  if (ts_tensor_numel(y) == 0) return 0;
  if (mode == PAD_constant && ts_element_make(call, ts_tensor_dtype(y), value, element))
    return -1;
  if (open_box(&b, y, x)) return -1;
  Box middle = b;
  for (int i = first; i < nd; i++) middle.dst += pads->ints[2 * (i - first)] * b.ds[i];
  if (!is_there(b.ndim, b.dim, middle.dst, b.ds, b.src, b.ss)) copy_box(&middle);
  for (int axis = first; axis < nd; axis++) {
    const int64_t *p = pads->ints + 2 * (axis - first);
    Box m = b; /* all of y on axes up to this one, the middle on later ones */
    for (int i = first; i <= axis; i++) m.dim[i] = y->meta.dim[i];
    for (int i = axis + 1; i < nd; i++) m.dst += pads->ints[2 * (i - first)] * b.ds[i];
    if (mode == PAD_constant)
      fill_margins(m, axis, p[0], x->meta.dim[axis], element);
    else
      mirror_margins(m, axis, p[0], x->meta.dim[axis], mode);
  }
  return 0;
}

/* ---- roll */

/* Every axis with a shift s splits in two: x's first n - s go to s.., its last s to 0... */
static void roll_axis(const Box *b, int axis, const int64_t *shift) {
  while (axis < b->ndim && shift[axis] == 0) axis++;
  if (axis == b->ndim) {
    copy_box(b);
    return;
  }
  int64_t s = shift[axis], n = b->dim[axis];
  Box part = *b;
  narrow(&part, axis, s, n - s);
  roll_axis(&part, axis + 1, shift);
  part = *b;
  narrow(&part, axis, 0, s);
  part.src += (n - s) * part.ss[axis];
  roll_axis(&part, axis + 1, shift);
}

int ts_exec_roll(TsCall *call) {
  const TsAttr *by = &call->attr[0], *axes = &call->attr[1];
  bool flat = axes->type == TS_ATTR_none;
  TsTensor *x =
      flat ? ts_tensor_contiguous(call->ctx, call->in[0]) : ts_tensor_ref(call->in[0]);
  int64_t shift[TS_MAX_RANK] = {0}, n = ts_tensor_numel(call->in[0]);
  Box b;
  int failed = !x || open_box(&b, call->out[0], x) ? -1 : 0;
  if (!failed && n > 0) {
    if (flat) b.ndim = 1, b.dim[0] = n, b.ds[0] = b.ss[0] = b.size;
    for (int i = 0; i < by->n; i++) {
      int a = flat ? 0 : normal_axis(axes->ints[i], b.ndim);
      int64_t s = (shift[a] + by->ints[i] % b.dim[a]) % b.dim[a];
      shift[a] = s < 0 ? s + b.dim[a] : s;
    }
    roll_axis(&b, 0, shift);
  }
  ts_tensor_unref(x);
  return failed;
}
