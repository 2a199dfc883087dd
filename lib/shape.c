/* Shapes as text, broadcasting, size limits. */
#include "lib/shape.h"

#include "lib/mesh.h"

#include <math.h>
#include <stdio.h>

TsMeta ts_meta_number(double value) {
  bool whole = value >= -0x1p63 && value < 0x1p63 && value == (double)(int64_t)value;
  bool minus_zero = value == 0 && signbit(value);
  return (TsMeta){.dtype = whole && !minus_zero ? TS_DT_i64 : TS_DT_f64,
                  .weak = minus_zero ? TS_WEAK_minus_zero : TS_WEAK_number};
}

/* "8", or "8@dp" of an axis that is split. */
static int put_size(const TsMeta *m, int d, char *at, int room) {
  const TsLayout *l = m->layout ? ts_layout_of(m) : NULL;
  TsText t = {0};
  if (l && d < l->ndim) ts_layout_axis_text(l, d, &t);
  int n = snprintf(at, (size_t)room, "%s%lld%s", d ? "," : "", (long long)m->dim[d],
                   t.at ? t.at : "");
  ts_text_free(&t);
  return n;
}

const char *ts_meta_text(const TsMeta *m, char buffer[TS_META_TEXT]) {
  int n = snprintf(buffer, TS_META_TEXT, "%s[", ts_dtype_name((TsDtype)m->dtype));
  for (int i = 0; i < m->ndim && n < TS_META_TEXT - 40; i++)
    n += put_size(m, i, buffer + n, TS_META_TEXT - n);
  if (n > TS_META_TEXT - 2) n = TS_META_TEXT - 2;
  n += snprintf(buffer + n, (size_t)(TS_META_TEXT - n), "]");
  const TsLayout *l = m->layout ? ts_layout_of(m) : NULL;
  for (int a = 0; l && a < l->mesh->naxis && n < TS_META_TEXT - 24; a++)
    if (l->partial >> a & 1)
      n += snprintf(buffer + n, (size_t)(TS_META_TEXT - n), " sum@%s", l->mesh->axis[a]);
  for (int a = 0; l && a < l->mesh->naxis && n < TS_META_TEXT - 24; a++)
    if (l->pin[a])
      n += snprintf(buffer + n, (size_t)(TS_META_TEXT - n), " %s=%d", l->mesh->axis[a],
                    l->pin[a] - 1);
  return buffer;
}

int ts_meta_broadcast(const TsMeta *a, const TsMeta *b, TsMeta *out) {
  int nd = a->ndim > b->ndim ? a->ndim : b->ndim;
  int64_t dim[TS_MAX_RANK];
  for (int i = 1; i <= nd; i++) {
    int64_t da = i <= a->ndim ? a->dim[a->ndim - i] : 1;
    int64_t db = i <= b->ndim ? b->dim[b->ndim - i] : 1;
    if (da != db && da != 1 && db != 1) return -1;
    dim[nd - i] = da == 1 ? db : da;
  }
  memcpy(out->dim, dim, (size_t)nd * sizeof *dim);
  out->ndim = (uint8_t)nd;
  return 0;
}

void ts_shape_strides(int n, const int64_t *dim, int64_t *stride) {
  int64_t step = 1;
  for (int i = n; i-- > 0;) {
    stride[i] = step;
    step *= dim[i] > 0 ? dim[i] : 1;
  }
}

bool ts_shape_row_major(int n, const int64_t *dim, const int64_t *stride) {
  uint64_t step = 1; /* as in ts_shape_settle */
  for (int i = n; i-- > 0;) {
    if (dim[i] == 0) return true;
    if (dim[i] != 1 && stride[i] != (int64_t)step) return false;
    step *= (uint64_t)dim[i];
  }
  return true;
}

void ts_shape_settle(int n, const int64_t *dim, int64_t *stride) {
  uint64_t step = 1; /* wraps around behind sizes of Tile IR that are known at the launch only */
  for (int i = n; i-- > 0; step *= (uint64_t)dim[i])
    if (dim[i] == 1) stride[i] = (int64_t)step;
}

/* Sizes of an empty tensor count as if the others were alone: it has no bytes, but sizes are
 * multiplied and added in all orders. */
int ts_meta_check_size(const TsMeta *m, const char *what, TsError *err) {
  int64_t n = 32;
  bool large = false;
  char text[TS_META_TEXT];
  for (int i = 0; i < m->ndim; i++) {
    if (m->dim[i] < 0)
      return ts_error_set(err, TS_ERR_shape, "%s: size %lld of axis %d is negative", what,
                          (long long)m->dim[i], i);
    if (m->dim[i] > 0 && !large)
      large = __builtin_mul_overflow(n, m->dim[i], &n) || n > (INT64_C(1) << 61);
  }
  if (large)
    return ts_error_set(err, TS_ERR_memory, "%s: %s is larger than any memory", what,
                        ts_meta_text(m, text));
  int block = ts_dtypes[m->dtype].block;
  if (block == 1 || (m->ndim && m->dim[m->ndim - 1] % block == 0)) return 0;
  return ts_error_set(err, TS_ERR_shape,
                      "%s: %s needs a last axis of a multiple of %d elements, not %s", what,
                      ts_dtype_name((TsDtype)m->dtype), block, ts_meta_text(m, text));
}
