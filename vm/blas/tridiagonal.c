/* Symmetric real matrices to tridiagonal ones and back. A block of columns is reduced one by one
 * against the matrix as it was before the block, which then changes by one product (J. Dongarra, S.
 * Hammarling and D. Sorensen, "Block reduction of matrices to condensed forms for eigenvalue
 * computations", J. Comput. Appl. Math. 27, 1989). */
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "vm/blas/factor.h"
#include "vm/blas/reflect.h"

enum {
  BLOCK = 32,  /* columns */
  STRIPE = 128 /* columns whose part of a product with the matrix is summed by itself */
};

/* y = a v in stripes of columns, each with sums of its own, so that no bit depends on threads. */
typedef struct Times {
  const Blas *x;
  int64_t n;
  BlasMatrix a;
  const char *v;
  char *sums; /* STRIPES x n */
} Times;

static void times_stripes(void *arg, int64_t lo, int64_t hi, int worker) {
  const Times *t = arg;
  const Blas *x = t->x;
  (void)worker;
  for (int64_t s = lo; s < hi && !ts_cpu_interrupted(); s++) {
    int64_t j = s * STRIPE, m = t->n - j;
    char *y = t->sums + (s * t->n + j) * x->size;
    memset(y, 0, (size_t)(m * x->size));
    x->k->blas.columns[x->type].symmetric(m, m < STRIPE ? m : STRIPE, blas_at(x, t->a, j, j).p,
                                          t->a.cs, t->v + j * x->size, y);
  }
}

/* y is the first stripe's sums. */
static void times(const Times *t) {
  enum { ALONE = 1 << 16 }; /* elements that threads are not worth */
  const Blas *x = t->x;
  int64_t stripes = (t->n - 1) / STRIPE + 1;
  double space[2];
  const void *minus = blas_number(x, blas_minus_one, space);
  ts_cpu_parallel(stripes, t->n * STRIPE < ALONE ? stripes : 1, times_stripes, (void *)t);
  for (int64_t s = 1; s < stripes; s++) {
    int64_t j = s * STRIPE;
    x->k->blas.columns[x->type].take_columns(
        1, t->n - j, minus, t->sums + (s * t->n + j) * x->size, t->n, t->sums + j * x->size);
  }
}

/* A reduction under way: w has a column for each of the block's vectors, from row 0 on. */
typedef struct Reduction {
  Blas x;
  const TsBlasColumns *k;
  int64_t n;
  BlasMatrix a, v, w;
  char *d, *e, *tau, *few, *sums; /* few: 2 BLOCK numbers */
} Reduction;

/* y -= v w[row]' + w v[row]' of the block's first c vectors, rows from `row` on. */
static void take_block(Reduction *r, int64_t j, int c, const char *by_v, const char *by_w,
                       int64_t row, char *y) {
  const Blas *x = &r->x;
  r->k->take_columns(c, r->n - row, by_v, blas_at(x, r->v, row, j).p, r->v.cs, y);
  r->k->take_columns(c, r->n - row, by_w, blas_at(x, r->w, row, 0).p, r->w.cs, y);
}

/* The numbers of row i in c columns of m from j on, side by side. */
static void row_of(const Reduction *r, BlasMatrix m, int64_t i, int64_t j, int c, char *to) {
  r->x.k->copy.strided(c, to, r->x.size, blas_at(&r->x, m, i, j).p, m.cs * r->x.size,
                       r->x.size);
}

static double get(const Blas *x, const void *at) {
  return x->size == 8 ? *(const double *)at : (double)*(const float *)at;
}
static void set(const Blas *x, void *at, double value) {
  if (x->size == 8)
    *(double *)at = value;
  else
    *(float *)at = (float)value;
}

/* Column j, the c-th of its block. */
static void reduce_column(Reduction *r, int64_t j, int c) {
  Blas *x = &r->x;
  int64_t size = x->size, first = j - c, m = r->n - j - 1;
  char *few = r->few, *more = few + BLOCK * size, *col = blas_at(x, r->a, j, j).p;
  row_of(r, r->w, j, 0, c, few), row_of(r, r->v, j, first, c, more);
  take_block(r, first, c, few, more, j, col);
  memcpy(r->d + j * size, col, (size_t)size);
  char *v = blas_at(x, r->v, j + 1, j).p, *w = blas_at(x, r->w, j + 1, c).p;
  memset(blas_at(x, r->v, 0, j).p, 0, (size_t)((j + 1) * size));
  r->k->reflect_one(m, col + size, v, r->tau + j * size);
  memcpy(r->e + j * size, col + size, (size_t)size);
  times(&(Times){x, m, blas_at(x, r->a, j + 1, j + 1), v, r->sums});
  memcpy(w, r->sums, (size_t)(m * size));
  r->k->dots(c, m, v, blas_at(x, r->w, j + 1, 0).p, r->w.cs, few);
  r->k->dots(c, m, v, blas_at(x, r->v, j + 1, first).p, r->v.cs, more);
  take_block(r, first, c, few, more, j + 1, w);
  /* w = tau (w - tau/2 (w' v) v) */
  double space[2];
  x->k->blas.scaled[x->type](m, w, w, false, r->tau + j * size);
  r->k->dots(1, m, v, w, 0, space);
  set(x, space, get(x, space) * (get(x, r->tau + j * size) / 2));
  r->k->take_columns(1, m, space, v, 0, w);
}

/* What is behind a block of c columns that ends before column j. */
static void take_rest(Reduction *r, int64_t j, int c, char *space) {
  Blas *x = &r->x;
  int64_t m = r->n - j;
  double minus[2];
  BlasMatrix left = blas_columns(space, m),
             right = blas_columns(space + m * 2 * BLOCK * x->size, m);
  BlasMatrix v = blas_at(x, r->v, j, j - c), w = blas_at(x, r->w, j, 0);
  const void *alpha = blas_number(x, blas_minus_one, minus);
  blas_copy(x, m, c, left, v, NULL), blas_copy(x, m, c, blas_at(x, left, 0, c), w, NULL);
  blas_copy(x, m, c, right, w, alpha), blas_copy(x, m, c, blas_at(x, right, 0, c), v, alpha);
  blas_lower_product(x, m, 2 * c, left, right, blas_at(x, r->a, j, j));
}

int64_t ts_factor_tridiagonal(TsFactor f, int64_t n, void *a, int64_t lda, void *d, void *e,
                              void *v, int64_t ldv, void *tau) {
  Reduction r = {.x = blas_of(f.k, f.type),
                 .k = &f.k->blas.columns[f.type],
                 .n = n,
                 .a = blas_columns(a, lda),
                 .v = blas_columns(v, ldv),
                 .d = d,
                 .e = e,
                 .tau = tau};
  Blas *x = &r.x;
  char *w = blas_take(x, n * BLOCK), *few = blas_take(x, 2 * BLOCK);
  char *sums = blas_take(x, n * ((n - 1) / STRIPE + 1)), *space = blas_take(x, n * 4 * BLOCK);
  r.w = blas_columns(w, n), r.few = few, r.sums = sums;
  for (int64_t j = 0; j < n - 1 && !x->failed && !ts_cpu_interrupted();) {
    int c = 0;
    for (; c < BLOCK && j < n - 1 && !ts_cpu_interrupted(); c++, j++) reduce_column(&r, j, c);
    take_rest(&r, j, c, space);
  }
  memcpy((char *)d + (n - 1) * x->size, blas_at(x, r.a, n - 1, n - 1).p, (size_t)x->size);
  ts_work_give(w), ts_work_give(few), ts_work_give(sums), ts_work_give(space);
  return x->failed ? -1 : 0;
}

/* t of a panel whose vectors and tau are there. */
static void join(Blas *x, const BlasPanel *p, const char *tau, int64_t m, int64_t n, char *w) {
  if (n <= TS_BLAS_REFLECT) {
    x->k->blas.columns[x->type].join(m, (int)n, tau, p->v.p, p->v.cs, p->t.p, p->t.cs);
    return;
  }
  int64_t h = blas_panel_half(n);
  BlasPanel right = blas_panel_at(x, p, h);
  join(x, p, tau, m, h, w);
  join(x, &right, tau + h * x->size, m - h, n - h, w);
  blas_panel_join(x, p, m, n, h, w);
}

int64_t ts_factor_tridiagonal_back(TsFactor f, int64_t n, const void *v, int64_t ldv,
                                   const void *tau, void *z, int64_t ldz) {
  Blas x = blas_of(f.k, f.type);
  BlasMatrix vs = blas_columns(v, ldv), to = {z, ldz, 1, false};
  char *t = blas_take(&x, BLAS_WIDE * BLAS_WIDE),
       *w = blas_take(&x, 2 * BLAS_WIDE * (n > BLAS_WIDE ? n : BLAS_WIDE));
  for (int64_t j = n > 1 ? (n - 2) / BLAS_WIDE * BLAS_WIDE : -1;
       j >= 0 && !x.failed && !ts_cpu_interrupted(); j -= BLAS_WIDE) {
    int64_t left = n - 1 - j, wide = left < BLAS_WIDE ? left : BLAS_WIDE;
    BlasPanel p = {blas_at(&x, vs, j + 1, j), blas_columns(t, BLAS_WIDE)};
    join(&x, &p, (const char *)tau + j * x.size, left, wide, w);
    blas_panel_apply(&x, &p, false, left, wide, n, blas_at(&x, to, j + 1, 0), w);
  }
  ts_work_give(t), ts_work_give(w);
  return x.failed ? -1 : 0;
}
