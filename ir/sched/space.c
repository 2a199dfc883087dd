/* Axes of a group's space, and strides along them. */
#include "ir/sched/space.h"

#include <string.h>

/* Sizes as positions between axes: products of the sizes from the right on. */
static int cuts_of(int n, const int64_t *dim, int64_t *cut) {
  int ncut = 0;
  int64_t product = 1;
  for (int i = n; i-- > 0;) {
    if (dim[i] == 1) continue;
    cut[ncut++] = product *= dim[i];
  }
  return ncut;
}

bool ts_space_refine(const TsSpaceAxes *a, const TsMeta *m, int64_t row, TsSpaceAxes *out) {
  int64_t left[TS_TILE_RANK + 1], right[TS_MAX_RANK + 1], all[2 * TS_MAX_RANK + 4];
  int nleft = cuts_of(a->naxis, a->axis, left), nright = cuts_of(m->ndim, m->dim, right);
  int n = 0, i = 0, k = 0;
  if ((nleft ? left[nleft - 1] : 1) != (nright ? right[nright - 1] : 1)) return false;
  while (i < nleft || k < nright) {
    int64_t x = i < nleft ? left[i] : INT64_MAX, y = k < nright ? right[k] : INT64_MAX;
    int64_t next = x < y ? x : y;
    if (row > 1 && row < next && (n == 0 || all[n - 1] < row)) next = row;
    i += x == next, k += y == next;
    all[n++] = next;
  }
  if (n > TS_TILE_RANK - 1) return false;
  *out = (TsSpaceAxes){.naxis = n, .columns = a->columns};
  for (int j = 0; j < n; j++) {
    int64_t below = j ? all[j - 1] : 1;
    if (all[j] % below) return false;
    out->axis[n - 1 - j] = all[j] / below;
    if (row > 1 && all[j] <= row) out->nrow++;
  }
  return true;
}

static int64_t numel(const TsSpaceAxes *a, int lo, int hi) {
  int64_t n = 1;
  for (int i = lo; i < hi; i++) n *= a->axis[i];
  return n;
}

/* The axes [lo, hi) that something covers: all, or those of row values. */
static void covered(const TsSpaceAxes *a, bool full, int *lo, int *hi) {
  *lo = !full && a->columns ? a->naxis - a->nrow : 0;
  *hi = full || a->columns ? a->naxis : a->naxis - a->nrow;
}

void ts_space_own(const TsSpaceAxes *a, bool full, int64_t *out) {
  int lo, hi;
  int64_t step = 1;
  covered(a, full, &lo, &hi);
  for (int i = a->naxis; i-- > 0;) {
    bool in = lo <= i && i < hi;
    out[i] = in ? step : 0;
    if (in) step *= a->axis[i];
  }
}

bool ts_space_strides(const TsSpaceAxes *a, const TsMeta *at, const TsMeta *operand,
                      const int64_t *stride, int64_t *out) {
  int64_t own[TS_MAX_RANK], n = ts_meta_numel(at);
  int first, axis, skip = at->ndim - operand->ndim;
  if (!stride) ts_meta_strides(operand, own), stride = own;
  covered(a, n == numel(a, 0, a->naxis), &first, &axis);
  if (n != numel(a, first, axis) || skip < 0) return false;
  for (int i = 0; i < a->naxis; i++) out[i] = 0;
  for (int i = at->ndim; i-- > 0;) {
    bool spread = i < skip || operand->dim[i - skip] == 1;
    int64_t left = at->dim[i], s = spread ? 0 : stride[i - skip];
    while (left > 1) {
      if (axis == first || left % a->axis[axis - 1]) return false;
      out[--axis] = s;
      left /= a->axis[axis];
      s *= a->axis[axis];
    }
  }
  return true;
}
