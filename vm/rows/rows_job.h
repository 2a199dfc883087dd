/* Rows under way: what vm/rows/rows.c sets up and chooses from. vm/rows/rows_line.c has rows
 * that one thread does, vm/rows/rows_past.c those whose results go past the caches,
 * vm/rows/rows_shared.c long ones that all threads do, vm/rows/rows_panel.c columns. Private
 * to those. */
#ifndef TS_VM_ROWS_JOB_H
#define TS_VM_ROWS_JOB_H

#include <math.h>

#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "vm/rows/rows.h"

enum {
  TS_ROWS_CACHED = 1 << 18,   /* bytes that stay in L2 between the passes of a row */
  TS_ROWS_PREFETCH = 48 << 10 /* bytes from what is read to what is asked for */
};

typedef struct TsRowsJob {
  const TsRows *r;
  const TsReduceKernels *red;
  const TsRowsKernels *k;
  const TsCopyKernels *copy;
  TsLoad *load, *store; /* NULL: x and y are of the statistics' type */
  int acc, esize, tsize;
  int64_t outer;
  int past;
  bool failed;
  /* of a shared row: */
  const char *row;
  char *to, *part;
  double m, s;
} TsRowsJob;

static inline int64_t ts_rows_min(int64_t a, int64_t b) { return a < b ? a : b; }

/* The statistics' type: what the double holds after one operation on two such values
 * is rounded once more, which for f32 gives the f32 operation's result. */
static inline double ts_rows_rounded(const TsRowsJob *j, double x) {
  return j->acc == TS_RED_F32 ? (float)x : x;
}

static inline double ts_rows_value(const TsRowsJob *j, const void *p, int64_t i) {
  return j->acc == TS_RED_F32 ? ((const float *)p)[i] : ((const double *)p)[i];
}

static inline double ts_rows_scale(const TsRowsJob *j, double square_sum) {
  double v = ts_rows_rounded(j, square_sum / (double)j->r->n);
  return ts_rows_rounded(
      j, 1 / ts_rows_rounded(j, sqrt(ts_rows_rounded(j, v + ts_rows_rounded(j, j->r->eps)))));
}

/* How many rows behind the one that is read to ask for, whatever their length: the second cache
 * has it when its turn comes. */
static inline int64_t ts_rows_prefetch(const TsRowsJob *j) {
  int64_t rows = TS_ROWS_PREFETCH / (j->r->n * j->esize);
  return rows < 1 ? 1 : rows;
}

static inline void ts_rows_offsets(const TsRows *r, int64_t o, int64_t *x, int64_t *y) {
  *x = *y = 0;
  for (int d = r->nouter - 1; d >= 0; d--) {
    int64_t i = o % r->outer_dim[d];
    o /= r->outer_dim[d];
    *x += i * r->x_stride[d];
    *y += i * r->y_stride[d];
  }
}

/* One after the other by this thread where there is little work. */
void ts_rows_spread(int64_t items, int64_t work, TsTask *task, void *arg);

/* ---- the canonical sum of a row: leaves on a stack that merges like a counter */
typedef struct TsRowsSum {
  double stack[64];
  int depth;
  int64_t count;
} TsRowsSum;

static inline void ts_rows_sum_push(const TsRowsJob *j, TsRowsSum *s, double x) {
  for (int64_t c = s->count++; c & 1; c >>= 1) x = ts_rows_rounded(j, s->stack[--s->depth] + x);
  s->stack[s->depth++] = x;
}

static inline double ts_rows_sum_end(const TsRowsJob *j, TsRowsSum *s) {
  double x = s->stack[--s->depth];
  while (s->depth > 0) x = ts_rows_rounded(j, s->stack[--s->depth] + x);
  return x;
}

/* ---- vm/rows/rows_line.c */
/* The sums of `leaves` leaves of n elements each, to out. */
void ts_rows_leaf_sums(const TsRowsJob *j, int map, const void *x, int64_t leaves, int64_t n,
                       double c, void *out);
double ts_rows_sum(const TsRowsJob *j, int map, const char *x, int64_t n, double c);
/* e = exp(x - m), one leaf at a time, and its sum; e of a leaf only if !keep. Touches the row at
 * `prefetch`, if any. */
double ts_rows_exp_sum(const TsRowsJob *j, const char *x, char *e, int64_t n, double m,
                       bool keep, const char *prefetch);
/* x and y in the statistics' type; e is scratch for the row, or y itself. */
void ts_rows_one(const TsRowsJob *j, const char *x, char *y, char *e, int past,
                 const char *prefetch);
/* Contiguous rows lo .. hi-1 of a job, as all tasks here: in blocks of short ones, any. */
TsTask ts_rows_short_task, ts_rows_line_task;

/* ---- vm/rows/rows_past.c */
TsTask ts_rows_soft_task, ts_rows_norm_task;

/* ---- 0, or -1 when there is no memory */
int ts_rows_shared(TsRowsJob *j);
int ts_rows_panels(TsRowsJob *j);

#endif
