/* Shape rules of views and of broadcasting. */
#include <math.h>

#include "lib/infer.h"

static const char *opname(const TsInfer *inf) { return ts_op_info(inf->op)->name; }

static int copy_meta(TsInfer *inf) {
  int dtype = inf->out[0].dtype;
  inf->out[0] = *inf->in[0];
  inf->out[0].dtype = (uint8_t)dtype;
  inf->out[0].weak = 0;
  return 0;
}

static int too_deep(TsInfer *inf) {
  return ts_error_set(inf->err, TS_ERR_shape, "%s: more than %d axes", opname(inf),
                      TS_MAX_RANK);
}

/* Shapes of all inputs aligned at the right. */
int ts_shape_rule_broadcast(TsInfer *inf) {
  TsMeta *m = &inf->out[0];
  m->ndim = inf->in[0]->ndim;
  memcpy(m->dim, inf->in[0]->dim, m->ndim * sizeof *m->dim);
  for (int i = 1; i < inf->nin; i++) {
    if (ts_meta_same_shape(m, inf->in[i])) continue;
    if (ts_meta_broadcast(m, inf->in[i], m)) {
      ts_infer_mismatch(inf, "shapes do not broadcast", 0, i);
      return ts_error_hint(inf->err, "sizes are aligned at the right and must be equal or 1");
    }
  }
  return 0;
}

/* Bounds of integers are integers, or infinite and limit nothing. */
int ts_shape_rule_clamp(TsInfer *inf) {
  for (int i = 0; i < 2; i++) {
    double v = inf->attr[i].f;
    if (!isinf(v) && ts_dtype_check_number(inf->compute, v, "clamp", inf->err)) return -1;
  }
  return copy_meta(inf);
}

int ts_shape_rule_softplus(TsInfer *inf) {
  double beta = inf->attr[0].f;
  if (!(beta > 0) || isinf(beta))
    return ts_error_set(inf->err, TS_ERR_value, "softplus: beta = %g is not above 0", beta);
  return copy_meta(inf);
}

int ts_shape_rule_reshape(TsInfer *inf) {
  const TsAttr *a = &inf->attr[0];
  int64_t have = ts_meta_numel(inf->in[0]), known = 1;
  int hole = -1;
  char text[TS_META_TEXT], want[TS_META_TEXT];
  if (a->n > TS_MAX_RANK) return too_deep(inf);
  copy_meta(inf);
  TsMeta *m = &inf->out[0];
  m->ndim = (uint8_t)a->n;
  for (int i = 0; i < a->n; i++) {
    m->dim[i] = a->ints[i];
    if (a->ints[i] == -1 && hole < 0)
      hole = i;
    else if (a->ints[i] < 0 || __builtin_mul_overflow(known, a->ints[i], &known))
      return ts_error_set(inf->err, TS_ERR_shape, "reshape: %s has a size that makes no sense",
                          ts_meta_text(m, want));
  }
  if (hole >= 0) m->dim[hole] = known ? have / known : 0;
  if (ts_meta_numel(m) == have && (hole < 0 || known)) return 0;
  if (hole >= 0) m->dim[hole] = -1;
  ts_error_set(inf->err, TS_ERR_shape, "reshape: %s has %lld elements, %s needs %s%lld",
               ts_meta_text(inf->in[0], text), (long long)have, ts_meta_text(m, want),
               hole < 0 ? "" : "a multiple of ", (long long)known);
  return ts_error_hint(inf->err, "use -1 for one size to have it computed");
}

int ts_shape_rule_transpose(TsInfer *inf) {
  int a, b, nd = inf->in[0]->ndim;
  if (ts_infer_axis(inf, inf->attr[0].i, nd, &a)) return -1;
  if (ts_infer_axis(inf, inf->attr[1].i, nd, &b)) return -1;
  copy_meta(inf);
  inf->out[0].dim[a] = inf->in[0]->dim[b];
  inf->out[0].dim[b] = inf->in[0]->dim[a];
  return 0;
}

int ts_shape_rule_permute(TsInfer *inf) {
  bool seen[TS_MAX_RANK] = {false};
  int nd = inf->in[0]->ndim;
  char text[TS_META_TEXT];
  if (inf->attr[0].n != nd)
    return ts_error_set(inf->err, TS_ERR_attribute, "permute: %d axes named for %s",
                        inf->attr[0].n, ts_meta_text(inf->in[0], text));
  copy_meta(inf);
  for (int i = 0; i < nd; i++) {
    int a;
    if (ts_infer_axis(inf, inf->attr[0].ints[i], nd, &a)) return -1;
    if (seen[a])
      return ts_error_set(inf->err, TS_ERR_attribute, "permute: axis %d is named twice", a);
    seen[a] = true;
    inf->out[0].dim[i] = inf->in[0]->dim[a];
  }
  return 0;
}

int ts_shape_rule_squeeze(TsInfer *inf) {
  bool drop[TS_MAX_RANK];
  const TsMeta *x = inf->in[0];
  char text[TS_META_TEXT];
  if (ts_infer_axes(inf, &inf->attr[0], x->ndim, drop)) return -1;
  copy_meta(inf);
  TsMeta *m = &inf->out[0];
  m->ndim = 0;
  for (int i = 0; i < x->ndim; i++) {
    if (drop[i] && x->dim[i] == 1) continue;
    if (drop[i] && inf->attr[0].type == TS_ATTR_ints)
      return ts_error_set(inf->err, TS_ERR_shape, "squeeze: axis %d of %s does not have size 1",
                          i, ts_meta_text(x, text));
    m->dim[m->ndim++] = x->dim[i];
  }
  return 0;
}

int ts_shape_rule_unsqueeze(TsInfer *inf) {
  int axis, nd = inf->in[0]->ndim;
  if (nd == TS_MAX_RANK) return too_deep(inf);
  if (ts_infer_axis(inf, inf->attr[0].i, nd + 1, &axis)) return -1;
  copy_meta(inf);
  TsMeta *m = &inf->out[0];
  memmove(m->dim + axis + 1, m->dim + axis, (size_t)(nd - axis) * sizeof *m->dim);
  m->dim[axis] = 1;
  m->ndim++;
  return 0;
}

int ts_shape_rule_expand(TsInfer *inf) {
  const TsAttr *a = &inf->attr[0];
  const TsMeta *x = inf->in[0];
  char text[TS_META_TEXT], want[TS_META_TEXT];
  if (a->n > TS_MAX_RANK) return too_deep(inf);
  copy_meta(inf);
  TsMeta *m = &inf->out[0];
  m->ndim = (uint8_t)a->n;
  bool fits = a->n >= x->ndim;
  for (int i = 0; i < a->n; i++) m->dim[i] = a->ints[i];
  for (int i = 0; fits && i < a->n; i++) {
    int j = i - (a->n - x->ndim);
    int64_t old = j < 0 ? 1 : x->dim[j];
    if (m->dim[i] == -1 && j >= 0) m->dim[i] = old;
    if (m->dim[i] < 0 || (old != 1 && old != m->dim[i])) fits = false;
  }
  if (fits) return 0;
  return ts_error_set(inf->err, TS_ERR_shape, "%s: %s cannot become %s", opname(inf),
                      ts_meta_text(x, text), ts_meta_text(m, want));
}

int ts_shape_rule_flatten(TsInfer *inf) {
  const TsMeta *x = inf->in[0];
  int nd = x->ndim ? x->ndim : 1, a, b;
  if (ts_infer_axis(inf, inf->attr[0].i, nd, &a)) return -1;
  if (ts_infer_axis(inf, inf->attr[1].i, nd, &b)) return -1;
  copy_meta(inf);
  TsMeta *m = &inf->out[0];
  int64_t n = 1;
  for (int i = a; i <= b && i < x->ndim; i++) n *= x->dim[i];
  if (b < a) return ts_error_set(inf->err, TS_ERR_attribute, "flatten: stop is before start");
  m->ndim = (uint8_t)(nd - (b - a));
  m->dim[a] = n;
  for (int i = b + 1; i < nd; i++) m->dim[i - (b - a)] = x->dim[i];
  return 0;
}

/* Python's rule: the positions that start, stop, step visit in 0..n-1. A start
 * or stop of INT64_MIN stands for "not given". */
int64_t ts_slice_count(int64_t n, int64_t *start, int64_t stop, int64_t step) {
  int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? n : n - 1;
  int64_t b = *start == INT64_MIN ? (step > 0 ? lo : hi) : *start < 0 ? *start + n : *start;
  int64_t e = stop == INT64_MIN ? (step > 0 ? hi : lo) : stop < 0 ? stop + n : stop;
  b = b < lo ? lo : b > hi ? hi : b;
  e = e < lo ? lo : e > hi ? hi : e;
  *start = b;
  if (step > 0) return e > b ? (e - b - 1) / step + 1 : 0;
  return b > e ? 1 - (b - e - 1) / step : 0;
}

int ts_shape_rule_slice(TsInfer *inf) {
  const TsAttr *a = inf->attr;
  int nd = inf->in[0]->ndim;
  char text[TS_META_TEXT];
  if (a[0].n > nd || a[0].n != a[1].n || (a[2].type == TS_ATTR_ints && a[2].n != a[0].n))
    return ts_error_set(inf->err, TS_ERR_index, "%s: %d ranges for %s", opname(inf), a[0].n,
                        ts_meta_text(inf->in[0], text));
  copy_meta(inf);
  for (int i = 0; i < a[0].n; i++) {
    int64_t start = a[0].ints[i], step = a[2].type == TS_ATTR_ints ? a[2].ints[i] : 1;
    if (step == 0)
      return ts_error_set(inf->err, TS_ERR_value, "%s: step 0 on axis %d", opname(inf), i);
    inf->out[0].dim[i] = ts_slice_count(inf->in[0]->dim[i], &start, a[1].ints[i], step);
  }
  return 0;
}

/* src stands where the slice of x stood. */
int ts_shape_rule_slice_update(TsInfer *inf) {
  const TsMeta *x = inf->in[0], *src = inf->in[1];
  char text[TS_META_TEXT];
  if (ts_dtype_in_blocks(x->dtype) || ts_dtype_in_blocks(src->dtype))
    return ts_error_set(inf->err, TS_ERR_dtype,
                        "%s: what is stored in blocks has no slices to write into",
                        opname(inf));
  if (ts_shape_rule_slice(inf)) return -1;
  TsMeta part = inf->out[0], m = part;
  if (ts_meta_broadcast(&part, src, &m) || !ts_meta_same_shape(&m, &part)) {
    ts_infer_mismatch(inf, "the source does not fit the slice", 0, 1);
    return ts_error_hint(inf->err, "the slice is %s", ts_meta_text(&part, text));
  }
  if (src->weak) {
    if (ts_infer_number(inf, 1, (TsDtype)x->dtype)) return -1;
  } else if (ts_dtype_promote((TsDtype)x->dtype, (TsDtype)src->dtype) != x->dtype) {
    ts_infer_mismatch(inf, "the source's type does not fit", 0, 1);
    return ts_error_hint(inf->err, "convert with src:cast(\"%s\")",
                         ts_dtype_name((TsDtype)x->dtype));
  }
  return copy_meta(inf);
}

int ts_shape_rule_narrow(TsInfer *inf) {
  int axis;
  char text[TS_META_TEXT];
  if (ts_infer_axis(inf, inf->attr[0].i, inf->in[0]->ndim, &axis)) return -1;
  int64_t start = inf->attr[1].i, len = inf->attr[2].i, n = inf->in[0]->dim[axis];
  copy_meta(inf);
  inf->out[0].dim[axis] = len;
  if (start >= 0 && len >= 0 && start <= n && len <= n - start) return 0;
  int64_t end;
  if (__builtin_add_overflow(start, len, &end)) end = start < 0 ? INT64_MIN : INT64_MAX;
  return ts_error_set(inf->err, TS_ERR_index, "narrow: elements %lld..%lld of axis %d of %s",
                      (long long)start, (long long)end, axis, ts_meta_text(inf->in[0], text));
}

int ts_shape_rule_select(TsInfer *inf) {
  int axis;
  char text[TS_META_TEXT];
  const TsMeta *x = inf->in[0];
  if (ts_infer_axis(inf, inf->attr[0].i, x->ndim, &axis)) return -1;
  int64_t i = inf->attr[1].i, n = x->dim[axis];
  if (i < -n || i >= n) {
    ts_error_set(inf->err, TS_ERR_index, "select: index %lld is out of range for axis %d of %s",
                 (long long)i, axis, ts_meta_text(x, text));
    return n ? ts_error_hint(inf->err, "indices go from 0 to %lld, or from -%lld to -1",
                             (long long)(n - 1), (long long)n)
             : -1;
  }
  copy_meta(inf);
  TsMeta *m = &inf->out[0];
  m->ndim--;
  for (int j = axis; j < m->ndim; j++) m->dim[j] = x->dim[j + 1];
  return 0;
}

int ts_shape_rule_flip(TsInfer *inf) {
  bool axes[TS_MAX_RANK];
  if (ts_infer_axes(inf, &inf->attr[0], inf->in[0]->ndim, axes)) return -1;
  return copy_meta(inf);
}

int ts_shape_rule_unfold(TsInfer *inf) {
  int axis;
  char text[TS_META_TEXT];
  const TsMeta *x = inf->in[0];
  if (x->ndim == TS_MAX_RANK) return too_deep(inf);
  if (ts_infer_axis(inf, inf->attr[0].i, x->ndim, &axis)) return -1;
  int64_t size = inf->attr[1].i, step = inf->attr[2].i;
  if (size < 0 || step < 1 || size > x->dim[axis])
    return ts_error_set(inf->err, TS_ERR_value, "unfold: size %lld, step %lld on axis %d of %s",
                        (long long)size, (long long)step, axis, ts_meta_text(x, text));
  copy_meta(inf);
  inf->out[0].dim[axis] = (x->dim[axis] - size) / step + 1;
  inf->out[0].dim[inf->out[0].ndim++] = size;
  return 0;
}

/* The axis of windows becomes one of length elements; the last axis, a window, goes. */
int ts_shape_rule_fold(TsInfer *inf) {
  const TsMeta *x = inf->in[0];
  int axis;
  char text[TS_META_TEXT];
  if (x->ndim < 2)
    return ts_error_set(inf->err, TS_ERR_shape, "fold: %s has no axis of windows",
                        ts_meta_text(x, text));
  if (ts_infer_axis(inf, inf->attr[0].i, x->ndim - 1, &axis)) return -1;
  int64_t length = inf->attr[1].i, step = inf->attr[2].i, size = x->dim[x->ndim - 1];
  if (step < 1 || length < size || (length - size) / step + 1 != x->dim[axis]) {
    ts_error_set(inf->err, TS_ERR_value, "fold: length %lld, step %lld on axis %d of %s",
                 (long long)length, (long long)step, axis, ts_meta_text(x, text));
    return ts_error_hint(inf->err, "the axis has (length - size) / step + 1 windows of the "
                                   "size of the last axis");
  }
  copy_meta(inf);
  inf->out[0].ndim--;
  inf->out[0].dim[axis] = length;
  return 0;
}

int ts_shape_rule_real_view(TsInfer *inf) {
  if (inf->in[0]->ndim == TS_MAX_RANK) return too_deep(inf);
  copy_meta(inf);
  inf->out[0].dim[inf->out[0].ndim++] = 2;
  return 0;
}

/* What a bool holds is 0 or 1, and a bare number has no bytes of a type. */
static int check_bits(TsInfer *inf, TsDtype from, TsDtype to) {
  if (inf->in[0]->weak)
    return ts_error_set(inf->err, TS_ERR_dtype, "bitcast: of tensors, not of a bare number");
  if (to != TS_DT_bool || from == TS_DT_bool) return 0;
  ts_error_set(inf->err, TS_ERR_dtype, "bitcast: the bytes of %s are no truth values",
               ts_dtype_name(from));
  return ts_error_hint(inf->err, "x:bitcast(\"u8\"):ne(0) looks at each byte");
}

int ts_shape_rule_bitcast(TsInfer *inf) {
  const TsMeta *x = inf->in[0];
  TsDtype from = (TsDtype)x->dtype, to = (TsDtype)inf->attr[0].i;
  int64_t have = ts_dtypes[from].nbytes, want = ts_dtypes[to].nbytes;
  bool same = have == want && ts_dtypes[from].block == ts_dtypes[to].block;
  char text[TS_META_TEXT];
  if (check_bits(inf, from, to)) return -1;
  copy_meta(inf);
  TsMeta *m = &inf->out[0];
  m->dtype = (uint8_t)to;
  if (same) return 0;
  if (x->ndim == 0)
    return ts_error_set(inf->err, TS_ERR_shape,
                        "bitcast: %s has no last axis to become one of %s, whose elements have "
                        "another size",
                        ts_meta_text(x, text), ts_dtype_name(to));
  int64_t bytes = ts_dtype_nbytes(from, x->dim[x->ndim - 1]);
  if (bytes % want) {
    ts_error_set(inf->err, TS_ERR_shape,
                 "bitcast: the last axis of %s has %lld bytes, not a "
                 "multiple of the %lld of an %s",
                 ts_meta_text(x, text), (long long)bytes, (long long)want, ts_dtype_name(to));
    return -1;
  }
  m->dim[m->ndim - 1] = bytes / want * ts_dtypes[to].block;
  return 0;
}
