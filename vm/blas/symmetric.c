/* Symmetric and Hermitian matrices, of which half is stored: halves down to a block, which is
 * computed whole beside it. */
#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "vm/blas/matrix.h"

enum { BLOCK = 64 };

static void real_diagonal(const Blas *x, int64_t n, BlasMatrix c) {
  for (int64_t i = 0; i < n && x->complex; i++) {
    char *p = blas_at(x, c, i, i).p;
    if (x->type == TS_BLAS_c64)
      ((float *)p)[1] = 0;
    else
      ((double *)p)[1] = 0;
  }
}

typedef struct Rank {
  bool upper, two;
  int64_t k;
  const void *alpha, *other; /* other: conj(alpha) */
} Rank;

static void add(Blas *x, const Rank *r, int64_t m, int64_t n, BlasMatrix ai, BlasMatrix aj,
                BlasMatrix bi, BlasMatrix bj, BlasMatrix c) {
  blas_product(x, m, n, r->k, r->alpha, ai, blas_adjoint(x, bj), c);
  if (r->two) blas_product(x, m, n, r->k, r->other, bi, blas_adjoint(x, aj), c);
}

static void rank(Blas *x, const Rank *r, int64_t n, BlasMatrix a, BlasMatrix b, BlasMatrix c) {
  if (n <= 0 || x->failed || ts_cpu_interrupted()) return;
  if (n <= BLOCK) {
    void *p = blas_take(x, n * n);
    if (!p) return;
    BlasMatrix whole = {p, n, 1, false};
    const double zero[2] = {0, 0};
    blas_scale(x, n, n, whole, zero);
    blas_copy_half(x, n, r->upper, whole, c);
    add(x, r, n, n, a, a, b, b, whole);
    blas_copy_half(x, n, r->upper, c, whole);
    real_diagonal(x, n, c);
    ts_work_give(p);
    return;
  }
  int64_t h = (n / 2 + BLOCK - 1) / BLOCK * BLOCK;
  BlasMatrix a2 = blas_at(x, a, h, 0), b2 = blas_at(x, b, h, 0);
  rank(x, r, h, a, b, c);
  if (r->upper)
    add(x, r, h, n - h, a, a2, b, b2, blas_at(x, c, 0, h));
  else
    add(x, r, n - h, h, a2, a, b2, b, blas_at(x, c, h, 0));
  rank(x, r, n - h, a2, b2, blas_at(x, c, h, h));
}

void blas_rank(Blas *x, bool upper, int64_t n, int64_t k, const void *alpha, BlasMatrix a,
               BlasMatrix b, BlasMatrix c) {
  double space[2], other[2] = {0, 0};
  if (x->type == TS_BLAS_c64) {
    other[0] = ((const float *)alpha)[0], other[1] = -((const float *)alpha)[1];
  } else if (x->complex) {
    other[0] = ((const double *)alpha)[0], other[1] = -((const double *)alpha)[1];
  }
  Rank r = {.upper = upper, .two = a.p != b.p, .k = k, .alpha = alpha, .other = alpha};
  if (x->complex) r.other = blas_number(x, other, space);
  if (k > 0 && !blas_is(x, alpha, 0))
    rank(x, &r, n, a, b, c);
  else
    real_diagonal(x, n, c);
}

void blas_lower_product(Blas *x, int64_t n, int64_t k, BlasMatrix a, BlasMatrix b,
                        BlasMatrix c) {
  double space[2];
  const void *one = blas_number(x, blas_one, space);
  if (n <= 0 || x->failed || ts_cpu_interrupted()) return;
  if (n <= BLOCK) return blas_product(x, n, n, k, one, a, blas_transposed(b), c);
  int64_t h = (n / 2 + BLOCK - 1) / BLOCK * BLOCK;
  BlasMatrix a2 = blas_at(x, a, h, 0), b2 = blas_at(x, b, h, 0);
  blas_lower_product(x, h, k, a, b, c);
  blas_product(x, n - h, h, k, one, a2, blas_transposed(b), blas_at(x, c, h, 0));
  blas_lower_product(x, n - h, k, a2, b2, blas_at(x, c, h, h));
}

/* The block whole: `to` from the half of `from`. */
static void mirror(const Blas *x, bool upper, int64_t n, BlasMatrix to, BlasMatrix from) {
  blas_copy_half(x, n, upper, to, from);
  for (int64_t i = 0; i < n; i++) { /* column i of the half, its diagonal apart, into row i */
    int64_t at = upper ? 0 : i + 1, count = upper ? i : n - 1 - i;
    BlasMatrix f = blas_at(x, from, at, i), t = blas_at(x, to, i, at);
    f.conj = x->complex;
    blas_copy(x, 1, count, t, blas_transposed(f), NULL);
  }
  real_diagonal(x, n, to);
}

void blas_symmetric(Blas *x, bool upper, int64_t n, BlasMatrix a, BlasMatrix v, BlasMatrix y) {
  double space[2];
  const void *one = blas_number(x, blas_one, space);
  int64_t most = n < BLOCK ? n : BLOCK;
  void *p = blas_take(x, most * most);
  if (!p) return;
  for (int64_t j = 0; j < n && !ts_cpu_interrupted(); j += most) {
    int64_t cols = n - j < most ? n - j : most;
    BlasMatrix whole = {p, most, 1, false}, vj = blas_at(x, v, j, 0), yj = blas_at(x, y, j, 0);
    mirror(x, upper, cols, whole, blas_at(x, a, j, j));
    blas_product(x, cols, 1, cols, one, whole, vj, yj);
    int64_t i = upper ? 0 : j + cols, rows = upper ? j : n - i;
    BlasMatrix off = blas_at(x, a, i, j);
    blas_product(x, rows, 1, cols, one, off, vj, blas_at(x, y, i, 0));
    blas_product(x, cols, 1, rows, one, blas_adjoint(x, off), blas_at(x, v, i, 0), yj);
  }
  ts_work_give(p);
}
