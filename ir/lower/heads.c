/* See ir/lower/heads.h. */
#include "ir/lower/heads.h"

#include <string.h>

enum { ALIGN = 16 /* bytes that rows are multiples of */ };

/* Axes first .. last - 1 as one, its size and stride. */
static bool join(const TsMeta *m, const int64_t *stride, int last, int64_t *size,
                 int64_t *step) {
  *size = 1, *step = 0;
  for (int i = last; i-- > 0;) {
    if (m->dim[i] == 1) continue;
    if (*size > 1 && stride[i] != *step * *size) return false;
    if (*size == 1) *step = stride[i];
    *size *= m->dim[i];
  }
  return true;
}

bool ts_lower_heads(TsLowerHeads *h, TsVal v, TsLayoutFn *layout, void *arg) {
  const TsMeta *m = &v->meta;
  int64_t stride[TS_MAX_RANK], n = m->ndim, bytes = ts_dtypes[m->dtype].nbytes;
  if (n < 2) return false;
  ts_sched_strides(layout, arg, v, stride);
  *h = (TsLowerHeads){.plain = false};
  for (int i = 1; i < 4; i++) {
    int at = (int)n - 4 + i;
    h->dim[i] = at < 0 ? 1 : m->dim[at], h->stride[i] = at < 0 ? 0 : stride[at];
  }
  if (!join(m, stride, n > 3 ? (int)n - 3 : 0, &h->dim[0], &h->stride[0])) return false;
  ts_shape_settle(4, h->dim, h->stride);
  h->plain = ts_shape_row_major(4, h->dim, h->stride);
  for (int i = 0; i < 4; i++)
    if (h->stride[i] < 1 || (i < 3 && h->stride[i] * bytes % ALIGN)) return false;
  return h->stride[3] == 1;
}

bool ts_lower_heads_fit(const TsLowerHeads *q, const TsLowerHeads *k, const TsLowerHeads *v) {
  const int64_t *a = q->dim, *b = k->dim;
  if (memcmp(b, v->dim, sizeof k->dim) || (a[3] != 64 && a[3] != 128) || a[3] != b[3])
    return false;
  return a[0] == b[0] && a[0] > 0 && b[1] > 0 && a[1] % b[1] == 0 && a[1] > 0 && a[2] > 0 &&
         b[2] > 0;
}

void ts_lower_heads_set_layout(const TsLowerHeads *h, TsTileVal param) {
  if (h->plain) return;
  param->type.strided = true;
  memcpy(param->type.stride, h->stride, sizeof h->stride);
}
