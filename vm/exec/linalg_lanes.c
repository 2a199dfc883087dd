/* Batches of small matrices in lanes of vectors (vm/blas/lanes.h): operands, results and errors of
 * one call. */
#include <string.h>

#include "vm/exec/linalg.h"

/* Which matrix of x each of count results takes; NULL where it is its own. */
static const int64_t *taken(TsLinalg *w, const TsTensor *x, int nx, const TsTensor *y, int ny,
                            int64_t count) {
  if (ts_linalg_count_of(x, nx) == count) return NULL;
  int64_t *at = ts_linalg_take(w, count * (int64_t)sizeof *at);
  for (int64_t i = 0; at && i < count; i++) at[i] = ts_linalg_meets(x, nx, y, ny, i);
  return at;
}

static void *elements(const TsTensor *t) { return (char *)t->storage->host + t->offset; }

/* Where numbers of type d for y go: y itself, or memory that is rounded into it later. */
static void *place(TsLinalg *w, TsTensor *y, int64_t numbers, TsDtype d) {
  if (ts_tensor_dtype(y) == d) return elements(y);
  return ts_linalg_take(w, numbers * ts_dtypes[d].nbytes);
}
static void round_into(const TsLinalg *w, TsTensor *y, int64_t numbers, const void *from,
                       TsDtype d) {
  if (from != elements(y)) ts_linalg_put(w, y, 0, numbers, from, d);
}

/* The error of the first matrix that has one. */
static int refused(TsLinalg *w, const TsLanes *l) {
  if (l->what == TS_LANES_DET || l->what == TS_LANES_LU) return 0;
  const char *what = l->what == TS_LANES_CHOLESKY ? "not positive definite" : "singular";
  for (int64_t i = 0; i < l->count; i++)
    if (l->lost[i]) return ts_linalg_singular(w, i, what, l->lost[i]);
  return 0;
}

bool ts_linalg_lanes(TsLinalg *w, TsLanes l, int ny, int *failed) {
  TsTensor *y = w->call->out[0];
  l.f = w->f, l.count = ts_linalg_count_of(y, ny);
  if (!ts_lanes_take(&l)) return false;
  l.a_at = taken(w, w->a, 2, y, ny, l.count), l.a = elements(w->a);
  if (w->b) l.b_at = taken(w, w->b, ny, y, ny, l.count), l.b = elements(w->b);
  int64_t all = l.count * (l.what == TS_LANES_DET ? 1 : (int64_t)l.n * (l.k ? l.k : l.m));
  TsDtype d = l.what == TS_LANES_DET ? TS_DT_f64 : w->d;
  bool own = l.out;
  if (!own) l.out = place(w, y, all, d);
  l.lost = ts_linalg_take(w, l.count * (int64_t)sizeof *l.lost);
  *failed = w->failed;
  if (w->failed) return true;
  memset(l.lost, 0, (size_t)l.count * sizeof *l.lost);
  int none;
  if (ts_linalg_lost(w, ts_lanes_run(&l), &none)) return true;
  *failed = refused(w, &l);
  if (!own && !*failed) round_into(w, y, all, l.out, d);
  return true;
}

bool ts_linalg_lanes_factors(TsLinalg *w, TsLanes l, TsTensor *y, TsTensor *y2) {
  l.f = w->f, l.count = ts_linalg_count_of(w->a, 2);
  if (!ts_lanes_take(&l)) return false;
  int64_t all = l.count * l.m * l.k, all2 = l.count * l.n * (l.what == TS_LANES_QR ? l.k : 1);
  l.a = elements(w->a);
  l.out = place(w, y, all, w->d), l.out2 = place(w, y2, all2, w->d);
  int none;
  if (w->failed || ts_linalg_lost(w, ts_lanes_run(&l), &none)) return true;
  round_into(w, y, all, l.out, w->d);
  round_into(w, y2, all2, l.out2, w->d);
  return true;
}
