/* Batches of small matrices in lanes of vectors (vm/blas/lanes.h): operands, results and errors of
 * one call. */
#include <string.h>

#include "vm/exec/linalg.h"

/* Which matrix of x each of count results takes; NULL where it is its own. */
static const int64_t *taken(Linalg *w, const TsTensor *x, int nx, const TsTensor *y, int ny,
                            int64_t count) {
  if (count_of(x, nx) == count) return NULL;
  int64_t *at = linalg_take(w, count * (int64_t)sizeof *at);
  for (int64_t i = 0; at && i < count; i++) at[i] = linalg_meets(x, nx, y, ny, i);
  return at;
}

static void *elements(const TsTensor *t) { return (char *)t->storage->host + t->offset; }

bool linalg_lanes(Linalg *w, TsLanes l, int ny, int *failed) {
  TsTensor *y = w->call->out[0];
  l.f = w->f, l.count = count_of(y, ny);
  if (!ts_lanes_take(&l)) return false;
  l.a_at = taken(w, w->a, 2, y, ny, l.count), l.a = elements(w->a);
  if (w->b) l.b_at = taken(w, w->b, ny, y, ny, l.count), l.b = elements(w->b);
  int64_t numbers = l.what == TS_LANES_DET ? 1 : (int64_t)(l.k ? l.n * l.k : l.m * l.n);
  TsDtype d = l.what == TS_LANES_DET ? TS_DT_f64 : w->d;
  bool own = l.out, direct = !own && ts_tensor_dtype(y) == d;
  if (!own)
    l.out = direct ? elements(y) : linalg_take(w, l.count * numbers * ts_dtypes[d].nbytes);
  l.lost = linalg_take(w, l.count * (int64_t)sizeof *l.lost);
  *failed = w->failed;
  if (w->failed) return true;
  memset(l.lost, 0, (size_t)l.count * sizeof *l.lost);
  int none;
  if (linalg_lost(w, ts_lanes_run(&l), &none)) return true;
  bool fails = l.what != TS_LANES_DET && l.what != TS_LANES_LU;
  for (int64_t i = 0; fails && i < l.count && !*failed; i++)
    if (l.lost[i])
      *failed = linalg_singular(
          w, i, l.what == TS_LANES_CHOLESKY ? "not positive definite" : "singular", l.lost[i]);
  if (!own && !direct && !*failed) linalg_put(w, y, 0, l.count * numbers, l.out, d);
  return true;
}
