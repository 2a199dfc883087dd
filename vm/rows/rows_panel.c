/* Softmax along another axis: panels of columns, copied to dense rows that stay in the
 * second-level cache between the passes. See vm/rows/rows_job.h. */
#include "vm/rows/rows_job.h"

#include <stdlib.h>

typedef TsRowsJob Job;

static int64_t panel_width(const Job *j, int64_t columns) {
  int64_t w = 2048 / j->tsize, line = 64 / j->tsize;
  while (w > 2 * line && (w * j->r->n * j->tsize > 2 * TS_ROWS_CACHED ||
                          (columns + w - 1) / w < 2 * ts_cpu_threads()))
    w /= 2;
  return w;
}

/* The sums of the panel's w columns (map exp: of exp(e - c)), leaf by leaf, to part. */
static void panel_sums(const Job *j, int map, const char *e, int64_t w, const void *c,
                       char *part) {
  int64_t n = j->r->n, leaves = 0;
  for (int64_t i = 0; i < n; i += TS_RED_LEAF, leaves++) {
    TsReduceCols a = {TS_RED_SUM,
                      map,
                      e + i * w * j->tsize,
                      ts_rows_min(TS_RED_LEAF, n - i),
                      w,
                      w,
                      NULL,
                      NULL,
                      j->tsize,
                      c,
                      0,
                      part + leaves * w * j->tsize};
    j->red->cols[j->acc](&a);
  }
  j->red->tree[j->acc](TS_RED_SUM, part, leaves, w);
}

static void one_panel(const Job *j, const char *x, char *y, int64_t w, char *e, char *m,
                      char *part) {
  const TsRows *r = j->r;
  j->k->panel_max[j->acc](e, x, r->x_step, r->n, w, m);
  if (r->op == TS_ROWS_log_softmax) {
    panel_sums(j, TS_MAP_exp, e, w, m, part);
    j->k->logv[j->acc](part, part, w);
    j->k->panel_shift[j->acc](y, r->y_step, e, r->n, w, m, part, j->past);
    return;
  }
  j->k->panel_exp[j->acc](e, r->n, w, m);
  panel_sums(j, TS_MAP_none, e, w, NULL, part);
  float *s32 = (float *)(void *)part;
  double *s64 = (double *)(void *)part;
  for (int64_t i = 0; i < w; i++) {
    if (j->acc == TS_RED_F32)
      s32[i] = 1 / s32[i];
    else
      s64[i] = 1 / s64[i];
  }
  j->k->panel_scale[j->acc](y, r->y_step, e, r->n, w, part, j->past);
}

typedef struct Panels {
  Job *j;
  int64_t width, count, columns;
} Panels;

static void panel_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Panels *p = arg;
  Job *j = p->j;
  int64_t leaves = (j->r->n + TS_RED_LEAF - 1) / TS_RED_LEAF, ox, oy;
  int64_t row = p->width * j->tsize;
  char *e = ts_work_take((j->r->n + 1 + leaves) * row);
  (void)worker;
  if (!e) j->failed = true;
  for (int64_t i = lo; i < hi && e; i++) {
    int64_t col = i % p->count * p->width, w = ts_rows_min(p->width, p->columns - col);
    ts_rows_offsets(j->r, i / p->count * p->columns + col, &ox, &oy);
    one_panel(j, (const char *)j->r->x + ox * j->esize, (char *)j->r->y + oy * j->esize, w, e,
              e + j->r->n * row, e + (j->r->n + 1) * row);
  }
  ts_work_give(e);
  if (j->past) ts_copy_fence();
}

int ts_rows_panels(Job *j) {
  int64_t columns = j->r->outer_dim[j->r->nouter - 1], w = panel_width(j, columns);
  Panels p = {j, w, (columns + w - 1) / w, columns};
  ts_rows_spread(j->outer / columns * p.count, w * j->r->n, panel_task, &p);
  return j->failed ? -1 : 0;
}
