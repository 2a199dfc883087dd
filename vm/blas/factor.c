/* LU, Cholesky, and systems: halves down to what a kernel takes, and products between them. */
#include "vm/blas/factor.h"

#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "vm/blas/matrix.h"

#define EXCHANGE(bits, T)                                                                      \
  static void exchange_##bits(int64_t cols, T *a, int64_t lda, const int *pivot, int64_t lo,   \
                              int64_t hi) {                                                    \
    for (int64_t c = 0; c < cols; c++, a += lda)                                               \
      for (int64_t i = lo; i < hi; i++) {                                                      \
        T t = a[i];                                                                            \
        a[i] = a[pivot[i]], a[pivot[i]] = t;                                                   \
      }                                                                                        \
  }
EXCHANGE(32, uint32_t)
EXCHANGE(64, uint64_t)
EXCHANGE(128, __uint128_t)
#undef EXCHANGE

/* Bytes of two rows. */
static void exchange_rows(int64_t nbytes, char *a, char *b) {
  char t[256];
  for (int64_t some; nbytes > 0; nbytes -= some, a += some, b += some) {
    some = nbytes < (int64_t)sizeof t ? nbytes : (int64_t)sizeof t;
    memcpy(t, a, (size_t)some);
    memcpy(a, b, (size_t)some);
    memcpy(b, t, (size_t)some);
  }
}

/* Rows i and pivot[i] of a change places, i from lo to before hi. */
static void exchange(const Blas *x, int64_t cols, BlasMatrix a, const int *pivot, int64_t lo,
                     int64_t hi) {
  void *p = a.p;
  if (a.rs != 1) { /* by row */
    for (int64_t i = lo; i < hi; i++)
      if (pivot[i] != i)
        exchange_rows(cols * x->size, blas_at(x, a, i, 0).p, blas_at(x, a, pivot[i], 0).p);
    return;
  }
  switch (x->size) {
  case 4: exchange_32(cols, p, a.cs, pivot, lo, hi); break;
  case 8: exchange_64(cols, p, a.cs, pivot, lo, hi); break;
  default: exchange_128(cols, p, a.cs, pivot, lo, hi); break;
  }
}

static int64_t lu(Blas *x, int64_t m, int64_t n, BlasMatrix a, int *pivot) {
  int64_t k = m < n ? m : n, h = (k / 2 + TS_BLAS_PANEL - 1) / TS_BLAS_PANEL * TS_BLAS_PANEL;
  if (!k) return 0;
  if (x->failed || ts_cpu_interrupted()) { /* callers exchange rows still: none of these */
    for (int64_t i = 0; i < k; i++) pivot[i] = (int)i;
    return 0;
  }
  if (n <= TS_BLAS_PANEL) return x->k->blas.lu[x->type](m, (int)n, a.p, a.cs, pivot);
  if (k <= TS_BLAS_PANEL) h = k; /* few rows: the columns behind them have no pivots */
  double space[2];
  const void *minus = blas_number(x, blas_minus_one, space);
  BlasMatrix right = blas_at(x, a, 0, h), low = blas_at(x, a, h, 0), rest = blas_at(x, a, h, h);
  int64_t lost = lu(x, m, h, a, pivot);
  exchange(x, n - h, right, pivot, 0, h);
  blas_triangle(x, (BlasTriangle){a, false, true, true}, h, n - h, right);
  blas_product(x, m - h, n - h, h, minus, low, right, rest);
  if (k == h) return lost;
  int64_t then = lu(x, m - h, n - h, rest, pivot + h);
  exchange(x, h, low, pivot + h, 0, k - h);
  for (int64_t i = h; i < k; i++) pivot[i] += (int)h;
  return lost ? lost : then ? then + h : 0;
}

int64_t ts_factor_lu(TsFactor f, int64_t m, int64_t n, void *a, int64_t lda, int *pivot) {
  Blas x = blas_of(f.k, f.type);
  int64_t lost = lu(&x, m, n, blas_columns(a, lda), pivot);
  return x.failed ? -1 : lost;
}

/* By row; one column is as well by column. */
static BlasMatrix rows(const void *b, int64_t ld, int64_t cols) {
  if (cols == 1 && ld == 1) return blas_columns(b, 1 << 30);
  return (BlasMatrix){(char *)(uintptr_t)b, ld, 1, false};
}

int64_t ts_factor_lu_solve(TsFactor f, int64_t n, int64_t cols, const void *lu, int64_t lda,
                           const int *pivot, void *b, int64_t ldb) {
  Blas x = blas_of(f.k, f.type);
  BlasMatrix to = rows(b, ldb, cols), t = blas_columns(lu, lda);
  exchange(&x, cols, to, pivot, 0, n);
  blas_triangle(&x, (BlasTriangle){t, false, true, true}, n, cols, to);
  blas_triangle(&x, (BlasTriangle){t, true, false, true}, n, cols, to);
  return x.failed ? -1 : 0;
}

/* rest -= low low* */
static void take_square(Blas *x, int64_t n, int64_t k, BlasMatrix low, BlasMatrix rest) {
  double space[2];
  const void *minus = blas_number(x, blas_minus_one, space);
  if (x->complex) return blas_rank(x, false, n, k, minus, low, low, rest);
  void *p = blas_take(x, n * k);
  if (!p) return;
  BlasMatrix other = {p, n, 1, false}; /* -low', by row: as a product reads it */
  blas_copy(x, k, n, other, blas_transposed(low), NULL);
  blas_copy(x, k, n, other, other, minus);
  blas_lower_product(x, n, k, low, blas_transposed(other), rest);
  ts_work_give(p);
}

static int64_t cholesky(Blas *x, int64_t n, BlasMatrix a) {
  if (x->failed || ts_cpu_interrupted()) return 0;
  if (n <= TS_BLAS_HALF) {
    if (a.rs == 1) return x->k->blas.cholesky[x->type]((int)n, a.p, a.cs);
    double own[TS_BLAS_HALF * TS_BLAS_HALF * 2];
    BlasMatrix block = {(char *)own, 1, TS_BLAS_HALF, false};
    blas_copy(x, n, n, block, a, NULL);
    int64_t lost = x->k->blas.cholesky[x->type]((int)n, block.p, block.cs);
    blas_copy_half(x, n, false, a, block);
    return lost;
  }
  int64_t h = (n / 2 + TS_BLAS_HALF - 1) / TS_BLAS_HALF * TS_BLAS_HALF;
  BlasMatrix low = blas_at(x, a, h, 0), rest = blas_at(x, a, h, h);
  int64_t lost = cholesky(x, h, a);
  if (lost) return lost;
  BlasMatrix left = a; /* low = low (l')^-1 is l* low^T = low^T */
  left.conj = x->complex;
  blas_triangle(x, (BlasTriangle){left, false, false, true}, h, n - h, blas_transposed(low));
  take_square(x, n - h, h, low, rest);
  lost = cholesky(x, n - h, rest);
  return lost ? lost + h : 0;
}

int64_t ts_factor_cholesky(TsFactor f, bool upper, int64_t n, void *a, int64_t lda) {
  Blas x = blas_of(f.k, f.type);
  BlasMatrix m =
      blas_columns(a, lda); /* read by rows, u' u is l l' of the conjugates with l = u^T */
  int64_t lost = cholesky(&x, n, upper ? blas_transposed(m) : m);
  return x.failed ? -1 : lost;
}

int64_t ts_factor_solve(TsFactor f, bool upper, bool transposed, bool unit, int64_t n,
                        int64_t cols, const void *t, int64_t ldt, void *b, int64_t ldb) {
  Blas x = blas_of(f.k, f.type);
  BlasMatrix m = rows(t, ldt, n);
  for (int64_t i = 0; i < n && !unit; i++)
    if (blas_is(&x, blas_at(&x, m, i, i).p, 0)) return i + 1;
  if (transposed) m = blas_transposed(m), upper = !upper;
  blas_triangle(&x, (BlasTriangle){m, upper, unit, true}, n, cols, rows(b, ldb, cols));
  return x.failed ? -1 : 0;
}
