/* Rows past the caches, each by one thread: the last pass of a row, which stores, goes together
 * with passes of the rows behind it, so that memory and arithmetic have work at the same time: of
 * a softmax all three, so that every line is touched in one walk (0.92 instead of 0.86 of a copy
 * on two threads). See vm/rows/rows_job.h. */
#include "vm/rows/rows_job.h"

#include <stdlib.h>

typedef TsRowsJob Job;

typedef TsRowsSum Sum;

typedef struct Row {
  const char *x;
  char *y;
  double m, s; /* y is a function of x, or of its exps, and these */
} Row;

static Row row_at(const Job *j, int64_t o) {
  int64_t ox, oy;
  ts_rows_offsets(j->r, o, &ox, &oy);
  return (Row){(const char *)j->r->x + ox * j->esize, (char *)j->r->y + oy * j->esize, 0, 0};
}

/* The sum of the exps of a row, while the last one is finished and the next one gets its maximum.
 * e holds the exps of the last row of a softmax, then those of this. */
static double soft_pass(const Job *j, const Row *last, const Row *row, Row *next, char *e,
                        const char *prefetch) {
  bool keep = j->r->op == TS_ROWS_softmax;
  Sum s = {.depth = 0, .count = 0};
  for (int64_t i = 0; i < j->r->n; i += TS_RED_LEAF) {
    int64_t k = ts_rows_min(j->r->n - i, TS_RED_LEAF), at = i * j->tsize;
    char *to = keep ? e + at : e;
    double part;
    if (keep)
      part = j->k->scale_exp[j->acc](last->y + at, to, row->x + at, k, last->s, row->m,
                                     next->x + at, prefetch + at, &next->m);
    else
      part = j->k->shift_exp[j->acc](last->y + at, last->x + at, to, row->x + at, k, last->m,
                                     last->s, row->m, next->x + at, prefetch + at, &next->m);
    ts_rows_sum_push(j, &s, part);
  }
  return ts_rows_sum_end(j, &s);
}

void ts_rows_soft_task(void *arg, int64_t lo, int64_t hi, int worker) {
  Job *j = arg;
  bool keep = j->r->op == TS_ROWS_softmax;
  char local[TS_RED_LEAF * 8] __attribute__((aligned(64)));
  int64_t n = j->r->n, room = (keep ? n : ts_rows_min(n, TS_RED_LEAF)) * j->tsize;
  char *e = room <= (int64_t)sizeof local ? local : ts_work_take(room);
  int64_t prefetch = ts_rows_prefetch(j);
  Row last = {.y = NULL}, row = row_at(j, lo);
  (void)worker;
  if (!e) j->failed = true;
  row.m = j->k->max[j->acc](row.x, n);
  for (int64_t o = lo; o < hi && e; o++) {
    Row next = row_at(j, ts_rows_min(o + 1, hi - 1));
    double s;
    if (last.y) {
      next.m = -INFINITY;
      s = soft_pass(j, &last, &row, &next, e,
                    row_at(j, ts_rows_min(o + 1 + prefetch, hi - 1)).x);
    } else {
      s = ts_rows_exp_sum(j, row.x, e, n, row.m, keep, NULL);
      next.m = j->k->max[j->acc](next.x, n);
    }
    row.s = keep ? ts_rows_rounded(j, 1 / s) : j->k->log[j->acc](s);
    last = row;
    row = next;
  }
  if (last.y && keep)
    j->k->scale[j->acc](last.y, e, n, last.s, 1);
  else if (last.y)
    j->k->shift[j->acc](last.y, last.x, n, last.m, last.s, 1);
  if (e != local) ts_work_give(e);
  ts_copy_fence();
}

/* The sum of a row, for rmsnorm of its squares, while the last one is finished. */
static double norm_pass(const Job *j, const Row *last, const Row *row, const char *prefetch) {
  const char *w = j->r->w, *b = j->r->b;
  bool centred = j->r->op == TS_ROWS_layernorm;
  Sum s = {.depth = 0, .count = 0};
  for (int64_t i = 0; i < j->r->n; i += TS_RED_LEAF) {
    int64_t k = ts_rows_min(j->r->n - i, TS_RED_LEAF), at = i * j->tsize;
    char *y = last->y + at;
    double part = centred
                      ? j->k->affine_sum[j->acc](y, last->x + at, k, last->m, last->s, w + at,
                                                 b ? b + at : NULL, row->x + at, prefetch + at)
                      : j->k->affine_squares[j->acc](y, last->x + at, k, last->s, w + at,
                                                     row->x + at, prefetch + at);
    ts_rows_sum_push(j, &s, part);
  }
  return ts_rows_sum_end(j, &s);
}

void ts_rows_norm_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const TsRows *r = j->r;
  int64_t prefetch = ts_rows_prefetch(j);
  bool centred = r->op == TS_ROWS_layernorm;
  Row last = {.y = NULL};
  (void)worker;
  for (int64_t o = lo; o < hi; o++) {
    Row row = row_at(j, o);
    double sum = last.y
                     ? norm_pass(j, &last, &row, row_at(j, ts_rows_min(o + prefetch, hi - 1)).x)
                     : ts_rows_sum(j, centred ? TS_MAP_none : TS_MAP_square, row.x, r->n, 0);
    if (centred) {
      row.m = ts_rows_rounded(j, sum / (double)r->n);
      sum = ts_rows_sum(j, TS_MAP_sqdev, row.x, r->n, row.m);
    }
    row.s = ts_rows_scale(j, sum);
    last = row;
  }
  if (last.y) j->k->affine[j->acc](last.y, last.x, r->n, last.m, last.s, r->w, r->b, 1, NULL);
  ts_copy_fence();
}
