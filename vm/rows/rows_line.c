/* Sums over a row, a row, contiguous rows each by one thread; short ones in blocks. See
 * vm/rows/rows_job.h. */
#include "vm/rows/rows_job.h"

#include <stdlib.h>

typedef TsRowsJob Job;

enum { SHORT_BLOCK = 64 /* short rows of a block, at most */ };

typedef TsRowsSum Sum;

/* ---- sums */
/* The sums of `leaves` leaves of n elements each, to out. */
void ts_rows_leaf_sums(const Job *j, int map, const void *x, int64_t leaves, int64_t n,
                       double c, void *out) {
  float c32 = (float)c;
  TsReduceRows a = {TS_RED_SUM, map, x, leaves, TS_RED_LEAF, n, &c, 0, 0, out, 0};
  if (j->acc == TS_RED_F32) a.c = &c32;
  j->red->rows[j->acc](&a);
}

double ts_rows_sum(const Job *j, int map, const char *x, int64_t n, double c) {
  double part[16];
  Sum s = {.depth = 0, .count = 0};
  while (n > 0) {
    int64_t k = ts_rows_min(n / TS_RED_LEAF, 16), len = TS_RED_LEAF;
    if (k == 0) k = 1, len = n;
    ts_rows_leaf_sums(j, map, x, k, len, c, part);
    for (int64_t i = 0; i < k; i++) ts_rows_sum_push(j, &s, ts_rows_value(j, part, i));
    x += k * len * j->tsize, n -= k * len;
  }
  return ts_rows_sum_end(j, &s);
}

double ts_rows_exp_sum(const Job *j, const char *x, char *e, int64_t n, double m, bool keep,
                       const char *prefetch) {
  double part;
  Sum s = {.depth = 0, .count = 0};
  for (int64_t i = 0; i < n; i += TS_RED_LEAF) {
    int64_t k = ts_rows_min(n - i, TS_RED_LEAF), at = i * j->tsize;
    char *to = keep ? e + at : e;
    j->k->exp[j->acc](to, x + at, k, m, prefetch ? prefetch + at : NULL);
    ts_rows_leaf_sums(j, TS_MAP_none, to, 1, k, 0, &part);
    ts_rows_sum_push(j, &s, ts_rows_value(j, &part, 0));
  }
  return ts_rows_sum_end(j, &s);
}

/* ---- one row */
/* x and y in the statistics' type; e is scratch for the row, or y itself. */
void ts_rows_one(const Job *j, const char *x, char *y, char *e, int past,
                 const char *prefetch) {
  const TsRows *r = j->r;
  int64_t n = r->n;
  double m, s;
  switch (r->op) {
  case TS_ROWS_softmax:
    m = j->k->max[j->acc](x, n);
    s = ts_rows_exp_sum(j, x, e, n, m, true, prefetch);
    j->k->scale[j->acc](y, e, n, ts_rows_rounded(j, 1 / s), past);
    break;
  case TS_ROWS_log_softmax: {
    double leaf[TS_RED_LEAF];
    m = j->k->max[j->acc](x, n);
    s = ts_rows_exp_sum(j, x, (char *)leaf, n, m, false, prefetch);
    j->k->shift[j->acc](y, x, n, m, j->k->log[j->acc](s), past);
    break;
  }
  case TS_ROWS_layernorm:
    m = ts_rows_rounded(j, ts_rows_sum(j, TS_MAP_none, x, n, 0) / (double)n);
    s = ts_rows_scale(j, ts_rows_sum(j, TS_MAP_sqdev, x, n, m));
    j->k->affine[j->acc](y, x, n, m, s, r->w, r->b, past, prefetch);
    break;
  case TS_ROWS_rmsnorm:
    s = ts_rows_scale(j, ts_rows_sum(j, TS_MAP_square, x, n, 0));
    j->k->affine[j->acc](y, x, n, 0, s, r->w, r->b, past, prefetch);
    break;
  }
}

/* ---- short rows */
/* k short rows at once: their sums come from one call. Scratch e holds their exps. */
static void short_rows(const Job *j, const char *x, int64_t ldx, char *y, int64_t ldy,
                       int64_t k, char *e) {
  const TsRows *r = j->r;
  int64_t n = r->n, ts = j->tsize;
  double m[SHORT_BLOCK], s[SHORT_BLOCK], c[SHORT_BLOCK]; /* s and c: of the statistics' type */
  bool soft = r->op == TS_ROWS_softmax || r->op == TS_ROWS_log_softmax;
  TsReduceRows a = {TS_RED_SUM, TS_MAP_none, e, k, n, n, c, 1, 0, s, 0};
  if (soft) {
    for (int64_t i = 0; i < k; i++) {
      m[i] = j->k->max[j->acc](x + i * ldx * ts, n);
      j->k->exp[j->acc](e + i * n * ts, x + i * ldx * ts, n, m[i], NULL);
    }
  } else {
    a.x = x, a.ld = ldx;
    for (int64_t i = 0; i < k; i++) m[i] = 0;
    if (r->op == TS_ROWS_layernorm) {
      a.out = c;
      j->red->rows[j->acc](&a);
      for (int64_t i = 0; i < k; i++) {
        m[i] = ts_rows_rounded(j, ts_rows_value(j, c, i) / (double)n);
        if (j->acc == TS_RED_F32)
          ((float *)(void *)c)[i] = (float)m[i];
        else
          c[i] = m[i];
      }
      a.out = s, a.map = TS_MAP_sqdev;
    } else {
      a.map = TS_MAP_square;
    }
  }
  j->red->rows[j->acc](&a);
  for (int64_t i = 0; i < k; i++) {
    const char *xi = x + i * ldx * ts, *ei = e + i * n * ts;
    char *yi = y + i * ldy * ts;
    double si = ts_rows_value(j, s, i);
    if (r->op == TS_ROWS_softmax)
      j->k->scale[j->acc](yi, ei, n, ts_rows_rounded(j, 1 / si), 0);
    else if (r->op == TS_ROWS_log_softmax)
      j->k->shift[j->acc](yi, xi, n, m[i], j->k->log[j->acc](si), 0);
    else
      j->k->affine[j->acc](yi, xi, n, m[i], ts_rows_scale(j, si), r->w, r->b, 0, NULL);
  }
}

/* Rows lo .. hi-1 in blocks within the last outer axis. */
void ts_rows_short_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const TsRows *r = j->r;
  double e[TS_RED_LEAF];
  int last = r->nouter - 1;
  int64_t run = r->nouter ? r->outer_dim[last] : 1, block = TS_RED_LEAF / r->n, ox, oy;
  (void)worker;
  if (block > SHORT_BLOCK) block = SHORT_BLOCK;
  for (int64_t o = lo, k; o < hi; o += k) {
    k = ts_rows_min(ts_rows_min(block, hi - o), run - o % run);
    ts_rows_offsets(r, o, &ox, &oy);
    short_rows(j, (const char *)r->x + ox * j->esize, r->nouter ? r->x_stride[last] : 0,
               (char *)r->y + oy * j->esize, r->nouter ? r->y_stride[last] : 0, k, (char *)e);
  }
}

/* ---- rows of any length */
void ts_rows_line_task(void *arg, int64_t lo, int64_t hi, int worker) {
  Job *j = arg;
  const TsRows *r = j->r;
  char local[TS_RED_LEAF * 4] __attribute__((aligned(64)));
  int64_t nbytes = r->n * j->tsize, ox, oy;
  bool in_y = !j->load && (!j->past || r->op != TS_ROWS_softmax || nbytes > TS_ROWS_CACHED);
  int past = j->past && !(in_y && r->op == TS_ROWS_softmax) && !j->load;
  char *e = in_y || nbytes <= (int64_t)sizeof local ? local : ts_work_take(nbytes);
  int64_t next = ts_rows_prefetch(j);
  (void)worker;
  if (!e) j->failed = true;
  for (int64_t o = lo; o < hi && e; o++) {
    ts_rows_offsets(r, o, &ox, &oy);
    const char *x = (const char *)r->x + ox * j->esize, *prefetch = NULL;
    char *y = (char *)r->y + oy * j->esize;
    if (j->load) {
      j->load(r->n, e, x);
      ts_rows_one(j, e, e, e, 0, NULL);
      j->store(r->n, y, e);
      continue;
    }
    if (o + next < hi)
      ts_rows_offsets(r, o + next, &ox, &oy), prefetch = (const char *)r->x + ox * j->esize;
    ts_rows_one(j, x, y, in_y ? y : e, past, prefetch);
  }
  if (e != local) ts_work_give(e);
  if (j->past) ts_copy_fence();
}
