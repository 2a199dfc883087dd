/* One long row by all threads, in segments of some leaves. See vm/rows/rows_job.h. */
#include "vm/rows/rows_job.h"

#include <stdlib.h>
#include <string.h>

typedef TsRowsJob Job;

enum { SEGMENT = 8 * TS_RED_LEAF };

typedef void Piece(Job *j, int64_t first, int64_t n);

typedef struct Shared {
  Job *j;
  Piece *piece;
} Shared;

static void shared_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Shared *s = arg;
  int64_t first = lo * SEGMENT;
  (void)worker;
  s->piece(s->j, first, ts_rows_min(hi * SEGMENT, s->j->r->n) - first);
}

static void share(Job *j, Piece *piece) {
  Shared s = {j, piece};
  ts_cpu_parallel((j->r->n + SEGMENT - 1) / SEGMENT, 1, shared_task, &s);
}

static void piece_load(Job *j, int64_t i, int64_t n) {
  j->load(n, j->to + i * j->tsize, j->row + i * j->esize);
}

static void piece_max(Job *j, int64_t i, int64_t n) {
  for (int64_t k = 0; k < n; k += SEGMENT) {
    double m = j->k->max[j->acc](j->row + (i + k) * j->tsize, ts_rows_min(SEGMENT, n - k));
    memcpy(j->part + (i + k) / SEGMENT * 8, &m, sizeof m);
  }
}

/* Leaf sums of exp(x - m), of x, or of a map of x, to part. */
static void piece_sums(Job *j, int64_t i, int64_t n, int map) {
  bool exps = j->r->op == TS_ROWS_softmax || j->r->op == TS_ROWS_log_softmax;
  double leaf[TS_RED_LEAF];
  for (int64_t k = i; k < i + n; k += TS_RED_LEAF) {
    int64_t len = ts_rows_min(TS_RED_LEAF, i + n - k);
    const char *x = j->row + k * j->tsize;
    char *out = j->part + k / TS_RED_LEAF * j->tsize;
    char *e = j->r->op == TS_ROWS_softmax ? j->to + k * j->tsize : (char *)leaf;
    if (exps) j->k->exp[j->acc](e, x, len, j->m, NULL), x = e;
    ts_rows_leaf_sums(j, map, x, 1, len, j->m, out);
  }
}

static void piece_sum(Job *j, int64_t i, int64_t n) { piece_sums(j, i, n, TS_MAP_none); }
static void piece_sqdev(Job *j, int64_t i, int64_t n) { piece_sums(j, i, n, TS_MAP_sqdev); }
static void piece_square(Job *j, int64_t i, int64_t n) { piece_sums(j, i, n, TS_MAP_square); }

static void piece_finish(Job *j, int64_t i, int64_t n) {
  const TsRows *r = j->r;
  int64_t at = i * j->tsize;
  const char *x = j->row + at, *w = r->w, *b = r->b;
  char *y = j->to + at;
  if (r->op == TS_ROWS_softmax)
    j->k->scale[j->acc](y, y, n, j->s, 0);
  else if (r->op == TS_ROWS_log_softmax)
    j->k->shift[j->acc](y, x, n, j->m, j->s, j->past);
  else
    j->k->affine[j->acc](y, x, n, j->m, j->s, w ? w + at : NULL, b ? b + at : NULL, j->past, x);
  if (j->past) ts_copy_fence();
}

static void piece_store(Job *j, int64_t i, int64_t n) {
  j->store(n, (char *)j->part + i * j->esize, j->to + i * j->tsize);
}

static double shared_sum(Job *j, Piece *piece) {
  share(j, piece);
  j->red->tree[j->acc](TS_RED_SUM, j->part, (j->r->n + TS_RED_LEAF - 1) / TS_RED_LEAF, 1);
  return ts_rows_value(j, j->part, 0);
}

static void shared_passes(Job *j) {
  int64_t n = j->r->n, segments = (n + SEGMENT - 1) / SEGMENT;
  j->m = 0;
  if (j->r->op == TS_ROWS_softmax || j->r->op == TS_ROWS_log_softmax) {
    share(j, piece_max);
    const double *m = (const double *)(void *)j->part;
    j->m = m[0];
    for (int64_t i = 1; i < segments; i++) j->m = j->m < m[i] ? m[i] : j->m;
    j->s = shared_sum(j, piece_sum);
    j->s = j->r->op == TS_ROWS_softmax ? ts_rows_rounded(j, 1 / j->s) : j->k->log[j->acc](j->s);
  } else if (j->r->op == TS_ROWS_layernorm) {
    j->m = ts_rows_rounded(j, shared_sum(j, piece_sum) / (double)n);
    j->s = ts_rows_scale(j, shared_sum(j, piece_sqdev));
  } else {
    j->s = ts_rows_scale(j, shared_sum(j, piece_square));
  }
  share(j, piece_finish);
}

int ts_rows_shared(Job *j) {
  const TsRows *r = j->r;
  int64_t leaves = (r->n + TS_RED_LEAF - 1) / TS_RED_LEAF, ox, oy;
  char *part = ts_work_take(leaves * 8);
  char *wide = j->load ? ts_work_take(r->n * j->tsize) : NULL;
  if (!part || (j->load && !wide)) j->failed = true;
  if (j->load) j->past = 0;
  for (int64_t o = 0; o < j->outer && !j->failed; o++) {
    ts_rows_offsets(r, o, &ox, &oy);
    char *y = (char *)r->y + oy * j->esize;
    j->part = part;
    j->row = (const char *)r->x + ox * j->esize;
    j->to = j->load ? wide : y;
    if (j->load) share(j, piece_load), j->row = wide;
    shared_passes(j);
    j->part = y;
    if (j->load) share(j, piece_store);
  }
  ts_work_give(part), ts_work_give(wide);
  return j->failed ? -1 : 0;
}
