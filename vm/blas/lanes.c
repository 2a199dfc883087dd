/* Matrices into lanes and back, group by group. */
#include "vm/blas/lanes.h"

#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/work.h"

typedef struct Group {
  const TsLanes *l;
  int size, lanes; /* bytes of a number; matrices of a group */
  int64_t nbytes;  /* work memory of a thread */
  char *work;
} Group;

/* A thread's work memory: numbers of every lane. */
typedef struct Space {
  char *a, *b, *pivot, *lost;
} Space;

/* Numbers of the second matrix. */
static int64_t beside(const TsLanes *l) {
  return (int64_t)(l->what == TS_LANES_QR ? l->m : l->n) * l->k;
}

static Space space_of(const Group *g, int worker) {
  const TsLanes *l = g->l;
  Space s = {.a = g->work + worker * g->nbytes};
  s.b = s.a + (int64_t)l->m * l->n * TS_BLAS_GROUP_BYTES;
  s.pivot = s.b + beside(l) * TS_BLAS_GROUP_BYTES;
  s.lost = s.pivot + (int64_t)(l->m + l->n) * TS_BLAS_GROUP_BYTES;
  return s;
}

/* `some` matrices of so many numbers, from result `first` on; lanes behind them have the last one,
 * since no lane may hold what is not a number of anybody. */
static void gather(const Group *g, void *to, int64_t numbers, const char *from,
                   const int64_t *at, int64_t first, int some) {
  const TsCopyKernels *copy = &g->l->f.k->copy;
  int64_t size = g->size, step = numbers * size;
  if (!at)
    copy->transpose(numbers, some, to, TS_BLAS_GROUP_BYTES, from + first * step, step, g->size,
                    0);
  for (int i = at ? 0 : some; i < g->lanes; i++) {
    int64_t last = first + (i < some ? i : some - 1);
    copy->scatter(numbers, (char *)to + i * size, TS_BLAS_GROUP_BYTES,
                  from + (at ? at[last] : last) * step, g->size);
  }
}

static void scatter(const Group *g, void *to, int64_t numbers, const void *from, int64_t first,
                    int some) {
  int64_t step = numbers * g->size;
  g->l->f.k->copy.transpose(some, numbers, (char *)to + first * step, step, from,
                            TS_BLAS_GROUP_BYTES, g->size, 0);
}

static double number(const Group *g, const char *at, int64_t i, int lane) {
  const char *p = at + i * TS_BLAS_GROUP_BYTES;
  return g->size == 8 ? ((const double *)(const void *)p)[lane]
                      : (double)((const float *)(const void *)p)[lane];
}

/* The product of the diagonal, in increasing order, with the permutation's sign. */
static double determinant(const Group *g, const Space *s, int lane) {
  double det = 1;
  for (int i = 0; i < g->l->n; i++) {
    det *= number(g, s->a, (int64_t)i * (g->l->n + 1), lane);
    if (number(g, s->pivot, i, lane) != i) det = -det;
  }
  return det;
}

static void identities(const Group *g, char *to) {
  int n = g->l->n;
  memset(to, 0, (size_t)(n * n) * TS_BLAS_GROUP_BYTES);
  for (int i = 0; i < n; i++) {
    char *at = to + (int64_t)i * (n + 1) * TS_BLAS_GROUP_BYTES;
    for (int lane = 0; lane < g->lanes; lane++)
      if (g->size == 8)
        ((double *)(void *)at)[lane] = 1;
      else
        ((float *)(void *)at)[lane] = 1;
  }
}

static void run_kernel(const TsLanes *l, const TsBlasLanes *p) {
  const TsBlasLanesKernels *k = &l->f.k->blas.lanes[l->f.type];
  switch (l->what) {
  case TS_LANES_LU:
  case TS_LANES_DET: k->lu(p); break;
  case TS_LANES_SOLVE:
  case TS_LANES_INVERSE: k->solve(p); break;
  case TS_LANES_TRIANGLE: k->triangle(p); break;
  case TS_LANES_CHOLESKY: k->cholesky(p); break;
  case TS_LANES_QR: k->qr(p); break;
  case TS_LANES_EIGH: k->eigh(p); break;
  }
}

static void run_group(const Group *g, const Space *s, int64_t first, int some) {
  const TsLanes *l = g->l;
  int64_t nm = (int64_t)l->m * l->n, nb = beside(l);
  int least = l->m < l->n ? l->m : l->n;
  bool factors = l->what >= TS_LANES_QR;
  gather(g, s->a, nm, l->a, l->a_at, first, some);
  if (l->what == TS_LANES_INVERSE)
    identities(g, s->b);
  else if (nb && !factors)
    gather(g, s->b, nb, l->b, l->b_at, first, some);
  run_kernel(l, &(TsBlasLanes){l->m, l->n, l->k, l->upper, l->transposed, l->unit, s->a, s->b,
                               s->pivot, s->lost});
  if (l->what != TS_LANES_DET) scatter(g, l->out, nb ? nb : nm, nb ? s->b : s->a, first, some);
  if (l->what == TS_LANES_QR) scatter(g, l->out2, (int64_t)l->k * l->n, s->a, first, some);
  if (l->what == TS_LANES_EIGH) scatter(g, l->out2, l->n, s->pivot, first, some);
  for (int i = 0; i < some && !factors; i++) {
    l->lost[first + i] = (int)number(g, s->lost, 0, i);
    if (l->what == TS_LANES_DET) ((double *)l->out)[first + i] = determinant(g, s, i);
    for (int j = 0; j < least && l->pivot; j++)
      l->pivot[(first + i) * least + j] = (int)number(g, s->pivot, j, i);
  }
}

static void run_groups(void *arg, int64_t lo, int64_t hi, int worker) {
  const Group *g = arg;
  Space s = space_of(g, worker);
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) {
    int64_t first = i * g->lanes, left = g->l->count - first;
    run_group(g, &s, first, left < g->lanes ? (int)left : g->lanes);
  }
}

static int lanes_of(const TsLanes *l) { return l->f.type == TS_BLAS_f32 ? 16 : 8; }

bool ts_lanes_take(const TsLanes *l) {
  int least = l->m < l->n ? l->m : l->n;
  if (l->f.type >= TS_BLAS_c64 || least <= 0 || l->count <= 0 || l->m > TS_BLAS_LANES_MOST ||
      l->n > TS_BLAS_LANES_MOST)
    return false;
  if (l->what == TS_LANES_QR) return least <= TS_BLAS_LANES_QR;
  if (l->what == TS_LANES_EIGH) return l->n <= TS_BLAS_LANES_EIGH;
  return l->count >= lanes_of(l) / 4 && l->k <= 2 * TS_BLAS_LANES_MOST;
}

int ts_lanes_run(const TsLanes *l) {
  enum { WORTH = 1 << 14 }; /* multiply-adds of lanes for a thread */
  int64_t m = l->m, n = l->n, each = m * n * (n + l->k) + 64;
  Group g = {.l = l, .lanes = lanes_of(l)};
  if (l->what >= TS_LANES_QR) each *= 4;
  g.size = TS_BLAS_GROUP_BYTES / g.lanes;
  g.nbytes = (m * n + beside(l) + m + n + 1) * TS_BLAS_GROUP_BYTES;
  g.work = ts_work_take(g.nbytes * ts_cpu_threads());
  if (!g.work) return -1;
  ts_cpu_parallel((l->count - 1) / g.lanes + 1, 1 + WORTH / each, run_groups, &g);
  ts_work_give(g.work);
  return 0;
}
