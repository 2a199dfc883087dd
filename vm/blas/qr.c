/* QR of real matrices by reflections: panels by halves down to what a kernel takes, each with the
 * triangle that makes one product of its reflections (R. Schreiber and C. Van Loan, "A
 * storage-efficient WY representation for products of Householder transformations", SIAM J. Sci.
 * Stat. Comput. 10, 1989; halves: E. Elmroth and F. Gustavson, "Applying recursion to serial and
 * parallel QR factorization", IBM J. Res. Dev. 44, 2000). */
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "vm/blas/factor.h"
#include "vm/blas/matrix.h"

enum { WIDE = 64 }; /* columns that meet the rest at once */

typedef struct Panel {
  BlasMatrix a, v, t; /* 1 + v t v', as TsBlasReflect has it */
} Panel;

static void clear(const Blas *x, int64_t m, int64_t n, BlasMatrix c) {
  const double zero[2] = {0, 0};
  blas_scale(x, m, n, c, zero);
}

/* c += a b with c = 0 before. */
static void product(Blas *x, int64_t m, int64_t n, int64_t k, BlasMatrix a, BlasMatrix b,
                    BlasMatrix c) {
  double space[2];
  clear(x, m, n, c);
  blas_product(x, m, n, k, blas_number(x, blas_one, space), a, b, c);
}

static void add_product(Blas *x, int64_t m, int64_t n, int64_t k, BlasMatrix a, BlasMatrix b,
                        BlasMatrix c) {
  double space[2];
  blas_product(x, m, n, k, blas_number(x, blas_one, space), a, b, c);
}

/* c, m x cols, is reflected by the n columns of a panel, the last one first, or the first one first
 * (turned); w: 2 n cols numbers. */
static void apply(Blas *x, const Panel *p, bool turned, int64_t m, int64_t n, int64_t cols,
                  BlasMatrix c, char *w) {
  BlasMatrix low = {w, cols, 1, false}, high = {w + n * cols * x->size, cols, 1, false};
  product(x, n, cols, m, blas_transposed(p->v), c, low);
  product(x, n, cols, n, turned ? blas_transposed(p->t) : p->t, low, high);
  add_product(x, m, cols, n, p->v, high, c);
}

static Panel part(const Blas *x, const Panel *p, int64_t at) {
  return (Panel){blas_at(x, p->a, at, at), blas_at(x, p->v, at, at), blas_at(x, p->t, at, at)};
}

/* w: 2 WIDE WIDE numbers */
static void reflect(Blas *x, const Panel *p, int64_t m, int64_t n, char *w) {
  if (x->failed || ts_cpu_interrupted()) return;
  if (n <= TS_BLAS_REFLECT)
    return x->k->blas.reflect[x->type](m, (int)n, p->a.p, p->a.cs, p->v.p, p->v.cs, p->t.p,
                                       p->t.cs);
  int64_t h = (n / 2 + TS_BLAS_REFLECT - 1) / TS_BLAS_REFLECT * TS_BLAS_REFLECT, k = n - h;
  Panel left = *p, right = part(x, p, h);
  reflect(x, &left, m, h, w);
  apply(x, &left, true, m, h, k, blas_at(x, p->a, 0, h), w);
  reflect(x, &right, m - h, k, w);
  BlasMatrix v = blas_at(x, p->v, 0, h), t = blas_at(x, p->t, 0, h), sums = {w, k, 1, false},
             some = {w + h * k * x->size, k, 1, false};
  clear(x, h, k, v), clear(x, k, h, blas_at(x, p->t, h, 0));
  product(x, h, k, m - h, blas_transposed(blas_at(x, p->v, h, 0)), right.v, sums);
  product(x, h, k, k, sums, right.t, some);
  product(x, h, k, h, p->t, some, t);
}

/* Columns of q from those of a panel on, from what the panels behind it left: in them its own are
 * still those of 1, and its rows elsewhere 0. */
static void build(Blas *x, const Panel *p, int64_t m, int64_t n, int64_t cols, BlasMatrix q,
                  char *w) {
  BlasMatrix low = {w, cols, 1, false}, high = {w + n * cols * x->size, cols, 1, false};
  int64_t more = cols - n;
  BlasMatrix behind = blas_transposed(blas_at(x, p->v, n, 0));
  blas_copy(x, n, n, low, blas_transposed(p->v), NULL);
  product(x, n, more, m - n, behind, blas_at(x, q, n, n), blas_at(x, low, 0, n));
  product(x, n, cols, n, p->t, low, high);
  add_product(x, m, cols, n, p->v, high, q);
}

int64_t ts_factor_qr(TsFactor f, int64_t m, int64_t n, int64_t k, void *a, int64_t lda, void *q,
                     int64_t ldq) {
  Blas x = blas_of(f.k, f.type);
  int64_t least = m < n ? m : n, widest = n > k ? n : k;
  BlasMatrix r = {a, lda, 1, false}, to = {q, ldq, 1, false};
  char *v = blas_take(&x, m * least + 1), *t = blas_take(&x, WIDE * least + 1),
       *w = blas_take(&x, 2 * WIDE * (widest > WIDE ? widest : WIDE)),
       *own = blas_take(&x, m * WIDE);
  BlasMatrix vs = blas_columns(v, m), ts = blas_columns(t, WIDE);
  for (int64_t j = 0; j < least && !x.failed && !ts_cpu_interrupted(); j += WIDE) {
    int64_t wide = least - j < WIDE ? least - j : WIDE;
    Panel p = {blas_columns(own, m), blas_at(&x, vs, j, j), blas_at(&x, ts, 0, j)};
    blas_copy(&x, m - j, wide, p.a, blas_at(&x, r, j, j), NULL);
    reflect(&x, &p, m - j, wide, w);
    blas_copy(&x, wide, wide, blas_at(&x, r, j, j), p.a, NULL);
    apply(&x, &p, true, m - j, wide, n - j - wide, blas_at(&x, r, j, j + wide), w);
  }
  double space[2];
  clear(&x, m, k, to);
  for (int64_t i = 0; i < k; i++)
    memcpy(blas_at(&x, to, i, i).p, blas_number(&x, blas_one, space), (size_t)x.size);
  int64_t last = least ? (least - 1) / WIDE * WIDE : -1;
  for (int64_t j = last; j >= 0 && !x.failed && !ts_cpu_interrupted(); j -= WIDE) {
    int64_t wide = least - j < WIDE ? least - j : WIDE;
    Panel p = {r, blas_at(&x, vs, j, j), blas_at(&x, ts, 0, j)};
    build(&x, &p, m - j, wide, k - j, blas_at(&x, to, j, j), w);
  }
  ts_work_give(v), ts_work_give(t), ts_work_give(w), ts_work_give(own);
  return x.failed ? -1 : 0;
}
