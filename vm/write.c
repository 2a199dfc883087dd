/* Who may change a tensor in place: see vm/write.h. */
#include "vm/write.h"

#include <stdio.h>

#include "vm/region.h"

/* ---- overlap: is there a step, not zero, between two places of the layout whose distance is
 * zero? Steps along an axis of n elements are -(n - 1) .. n - 1, so this is an equation in
 * bounded integers. Sorted by stride, an axis that steps over all that the smaller ones reach
 * cannot take part, which decides all layouts that are no windows at once; the rest is searched,
 * where the reach of what is left bounds each step. */
typedef struct Axes {
  int n;
  int64_t step[TS_MAX_RANK],
      most[TS_MAX_RANK];          /* stride, largest number of steps; descending */
  int64_t reach[TS_MAX_RANK + 1]; /* of the axes from there on */
} Axes;

static void insert(Axes *a, int64_t step, int64_t most) {
  int at = a->n++;
  for (; at > 0 && a->step[at - 1] < step; at--)
    a->step[at] = a->step[at - 1], a->most[at] = a->most[at - 1];
  a->step[at] = step, a->most[at] = most;
}

/* Whether axes from i on can make up for `off`; moved: an axis before has taken a step. */
static bool meets(const Axes *a, int i, int64_t off, bool moved) {
  if (off > a->reach[i] || off < -a->reach[i]) return false;
  if (i == a->n) return moved;
  if (!moved && a->step[i] > a->reach[i + 1]) return meets(a, i + 1, off, false);
  int64_t step = a->step[i], from = -((off + a->reach[i + 1]) / step),
          to = (a->reach[i + 1] - off) / step;
  if (from < -a->most[i]) from = -a->most[i];
  if (to > a->most[i]) to = a->most[i];
  if (!moved && from < 0) from = 0; /* the mirror image of each step meets as well */
  for (int64_t k = from; k <= to; k++)
    if (meets(a, i + 1, off + k * step, moved || k)) return true;
  return false;
}

bool ts_write_overlaps(const TsTensor *t) {
  Axes a = {.n = 0};
  if (t->contiguous || t->storage->symbolic) return false;
  for (int i = 0; i < t->meta.ndim; i++) {
    int64_t step = t->stride[i] < 0 ? -t->stride[i] : t->stride[i];
    if (t->meta.dim[i] == 0) return false;
    if (t->meta.dim[i] > 1) insert(&a, step, t->meta.dim[i] - 1);
  }
  if (a.n && a.step[a.n - 1] == 0) return true;
  a.reach[a.n] = 0;
  for (int i = a.n; i-- > 0;) a.reach[i] = a.reach[i + 1] + a.step[i] * a.most[i];
  return meets(&a, 0, 0, false);
}

static int refuse_overlap(TsContext *c, const TsTensor *t) {
  char type[TS_META_TEXT], list[24 * TS_MAX_RANK] = "";
  size_t at = 0;
  for (int i = 0; i < t->meta.ndim; i++)
    at += (size_t)snprintf(list + at, sizeof list - at, "%s%lld", i ? ", " : "",
                           (long long)t->stride[i]);
  ts_error_set(&c->err, TS_ERR_value,
               "elements of the destination overlap: a view %s with strides {%s}",
               ts_meta_text(&t->meta, type), list);
  return ts_error_hint(&c->err, "change the tensor that it is a view of, or a copy: x:clone()");
}

/* ---- who may */
int ts_write_refuse(TsContext *c, const char *name) {
  ts_error_set(&c->err, TS_ERR_value, "%s: its function changes a tensor from outside in place",
               name);
  return ts_error_hint(&c->err, "return the new value, and assign it outside: x:copy_(new)");
}

int ts_write_check(TsContext *c, const TsTensor *t) {
  if (c->inside != (c->region ? c->region->inside : 0)) return 0;
  if (!t->contiguous && ts_write_overlaps(t)) return refuse_overlap(c, t);
  return c->region && ts_region_is_outside(c, t) ? ts_write_refuse(c, c->region->name) : 0;
}
