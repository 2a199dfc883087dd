/* The routines by their Fortran names, for the types that LAPACK calls them with: arguments into
 * matrices. The trailing size_t are the hidden lengths of gfortran's character arguments. */
#include "devices/work.h"
#include "vm/blas/matrix.h"

typedef const char *Char;
typedef const int *Int;
typedef const void *In;

#define ROUTINE(name, ...)                                                                     \
  void name(__VA_ARGS__);                                                                      \
  void name(__VA_ARGS__)

static bool is(Char c, char letter) { return (*c & ~32) == letter; }

/* op(A) as the argument trans says. */
static BlasMatrix given(const Blas *x, Char trans, In a, Int lda) {
  BlasMatrix m = blas_columns(a, *lda);
  if (is(trans, 'N')) return m;
  return is(trans, 'C') ? blas_adjoint(x, m) : blas_transposed(m);
}

/* A vector as a column; of negative steps the first element stands last. */
static BlasMatrix vector(const Blas *x, In v, Int n, Int inc) {
  BlasMatrix m = {(char *)(uintptr_t)v, *inc, 1 << 30, false};
  if (*inc < 0) m.p += (1 - (int64_t)*n) * *inc * x->size;
  return m;
}

/* A vector that is changed, or read in place, with unit steps: itself or a copy. */
static BlasMatrix unit(Blas *x, BlasMatrix v, int64_t n, const void *alpha, void **copy) {
  *copy = NULL;
  if (v.rs == 1 && !alpha) return v;
  BlasMatrix m = { *copy = blas_take(x, n), 1, 1 << 30, false};
  if (m.p) blas_copy(x, n, 1, m, v, alpha);
  return m;
}

/* Puts a changed copy back. */
static void back(const Blas *x, BlasMatrix v, int64_t n, BlasMatrix m, void *copy) {
  if (copy) blas_copy(x, 1, n, blas_transposed(v), blas_transposed(m), NULL);
  ts_work_give(copy);
}

/* ---- products */

static void gemm(TsBlasType type, Char ta, Char tb, Int m, Int n, Int k, In alpha, In a,
                 Int lda, In b, Int ldb, In beta, void *c, Int ldc) {
  Blas x = blas_begin(type);
  BlasMatrix to = blas_columns(c, *ldc);
  blas_scale(&x, *m, *n, to, beta);
  blas_product(&x, *m, *n, *k, alpha, given(&x, ta, a, lda), given(&x, tb, b, ldb), to);
  blas_end(&x);
}

/* Elements of a real matrix that are not worth packing and threads, but worth lanes. */
enum { DIRECT_LEAST = 1 << 10, DIRECT_MOST = 1 << 16 };

/* y += alpha a v, or alpha a' v: sums of columns, or of the lanes of TsBlasDots. */
static void by_columns(Blas *x, bool turned, int64_t m, int64_t n, In alpha, In a, int64_t lda,
                       BlasMatrix v, void *y) {
  const TsBlasColumns *k = &x->k->blas.columns[x->type];
  double minus[2], space[2];
  x->k->blas.scaled[x->type](1, minus, alpha, false, blas_number(x, blas_minus_one, space));
  char *own = blas_take(x, m + n + 1);
  BlasMatrix by = {own, 1, 1 << 30, false};
  if (!own || m <= 0 || n <= 0) return ts_work_give(own);
  if (turned) {
    char *sums = own + m * x->size;
    blas_copy(x, m, 1, by, v, NULL);
    k->dots((int)n, m, own, a, lda, sums);
    k->take_columns(1, n, minus, sums, 0, y);
  } else {
    blas_copy(x, n, 1, by, v, minus);
    k->take_columns((int)n, m, own, a, lda, y);
  }
  ts_work_give(own);
}

static void gemv(TsBlasType type, Char trans, Int m, Int n, In alpha, In a, Int lda, In v,
                 Int incv, In beta, void *y, Int incy) {
  Blas x = blas_begin(type);
  Int rows = is(trans, 'N') ? m : n, cols = is(trans, 'N') ? n : m;
  BlasMatrix to = vector(&x, y, rows, incy);
  void *copy;
  blas_scale(&x, *rows, 1, to, beta);
  BlasMatrix own = unit(&x, to, *rows, NULL, &copy);
  int64_t all = (int64_t)*rows * *cols;
  if (!x.complex && all > DIRECT_LEAST && all <= DIRECT_MOST)
    by_columns(&x, !is(trans, 'N'), *m, *n, alpha, a, *lda, vector(&x, v, cols, incv), own.p);
  else
    blas_product(&x, *rows, 1, *cols, alpha, given(&x, trans, a, lda),
                 vector(&x, v, cols, incv), own);
  back(&x, to, *rows, own, copy);
  blas_end(&x);
}

static void ger(TsBlasType type, bool conj, Int m, Int n, In alpha, In u, Int incu, In v,
                Int incv, void *a, Int lda) {
  Blas x = blas_begin(type);
  BlasMatrix row = blas_transposed(vector(&x, v, n, incv));
  row.conj = conj;
  blas_product(&x, *m, *n, 1, alpha, vector(&x, u, m, incu), row, blas_columns(a, *lda));
  blas_end(&x);
}

#define PRODUCTS(s, type)                                                                      \
  ROUTINE(s##gemm_, Char ta, Char tb, Int m, Int n, Int k, In alpha, In a, Int lda, In b,      \
          Int ldb, In beta, void *c, Int ldc, size_t la, size_t lb) {                          \
    (void)la, (void)lb;                                                                        \
    gemm(type, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                          \
  }                                                                                            \
  ROUTINE(s##gemv_, Char trans, Int m, Int n, In alpha, In a, Int lda, In v, Int incv,         \
          In beta, void *y, Int incy, size_t lt) {                                             \
    (void)lt;                                                                                  \
    gemv(type, trans, m, n, alpha, a, lda, v, incv, beta, y, incy);                            \
  }
#define OUTER(name, type, conj)                                                                \
  ROUTINE(name, Int m, Int n, In alpha, In u, Int incu, In v, Int incv, void *a, Int lda) {    \
    ger(type, conj, m, n, alpha, u, incu, v, incv, a, lda);                                    \
  }
PRODUCTS(s, TS_BLAS_f32)
PRODUCTS(d, TS_BLAS_f64)
PRODUCTS(c, TS_BLAS_c64)
PRODUCTS(z, TS_BLAS_c128)
OUTER(sger_, TS_BLAS_f32, false)
OUTER(dger_, TS_BLAS_f64, false)
OUTER(cgeru_, TS_BLAS_c64, false)
OUTER(zgeru_, TS_BLAS_c128, false)
OUTER(cgerc_, TS_BLAS_c64, true)
OUTER(zgerc_, TS_BLAS_c128, true)

/* ---- triangles */

/* B = alpha op(T)^-1 B, alpha op(T) B, or with T on the right, which is the left of what is
 * transposed. */
static void matrix(TsBlasType type, bool solve, Char side, Char uplo, Char trans, Char diag,
                   Int m, Int n, In alpha, In a, Int lda, void *b, Int ldb) {
  Blas x = blas_begin(type);
  BlasMatrix to = blas_columns(b, *ldb);
  BlasTriangle t = {.t = given(&x, trans, a, lda),
                    .upper = is(uplo, 'U') == is(trans, 'N'),
                    .unit = is(diag, 'U'),
                    .solve = solve};
  blas_scale(&x, *m, *n, to, alpha);
  if (is(side, 'L')) {
    blas_triangle(&x, t, *m, *n, to);
  } else {
    t.t = blas_transposed(t.t), t.upper = !t.upper;
    blas_triangle(&x, t, *n, *m, blas_transposed(to));
  }
  blas_end(&x);
}

static void line(TsBlasType type, bool solve, Char uplo, Char trans, Char diag, Int n, In a,
                 Int lda, void *v, Int incv) {
  Blas x = blas_begin(type);
  BlasTriangle t = {.t = given(&x, trans, a, lda),
                    .upper = is(uplo, 'U') == is(trans, 'N'),
                    .unit = is(diag, 'U'),
                    .solve = solve};
  BlasMatrix to = vector(&x, v, n, incv);
  void *copy;
  BlasMatrix own = unit(&x, to, *n, NULL, &copy);
  blas_triangle(&x, t, *n, 1, own);
  back(&x, to, *n, own, copy);
  blas_end(&x);
}

#define TRIANGLE(s, name, type, solve)                                                         \
  ROUTINE(s##name##m_, Char side, Char uplo, Char trans, Char diag, Int m, Int n, In alpha,    \
          In a, Int lda, void *b, Int ldb, size_t ls, size_t lu, size_t lt, size_t ld) {       \
    (void)ls, (void)lu, (void)lt, (void)ld;                                                    \
    matrix(type, solve, side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb);                 \
  }                                                                                            \
  ROUTINE(s##name##v_, Char uplo, Char trans, Char diag, Int n, In a, Int lda, void *v,        \
          Int incv, size_t lu, size_t lt, size_t ld) {                                         \
    (void)lu, (void)lt, (void)ld;                                                              \
    line(type, solve, uplo, trans, diag, n, a, lda, v, incv);                                  \
  }
#define TRIANGLES(s, type) TRIANGLE(s, trs, type, true) TRIANGLE(s, trm, type, false)
TRIANGLES(s, TS_BLAS_f32)
TRIANGLES(d, TS_BLAS_f64)
TRIANGLES(c, TS_BLAS_c64)
TRIANGLES(z, TS_BLAS_c128)

/* ---- symmetric and Hermitian matrices */

/* alpha and beta: numbers of the type, also where Fortran's are real. */
static void rank_k(TsBlasType type, Char uplo, Char trans, Int n, Int k, In alpha, In a,
                   Int lda, In b, Int ldb, In beta, void *c, Int ldc) {
  Blas x = blas_begin(type);
  BlasMatrix to = blas_columns(c, *ldc), ma = given(&x, trans, a, lda),
             mb = given(&x, trans, b, ldb);
  blas_scale_half(&x, *n, is(uplo, 'U'), to, beta);
  blas_rank(&x, is(uplo, 'U'), *n, *k, alpha, ma, mb, to);
  blas_end(&x);
}

static void symmetric(TsBlasType type, Char uplo, Int n, In alpha, In a, Int lda, In v,
                      Int incv, In beta, void *y, Int incy) {
  Blas x = blas_begin(type);
  BlasMatrix to = vector(&x, y, n, incy);
  void *of_y, *of_v;
  blas_scale(&x, *n, 1, to, beta);
  BlasMatrix own = unit(&x, to, *n, NULL, &of_y);
  BlasMatrix from =
      unit(&x, vector(&x, v, n, incv), *n, blas_is(&x, alpha, 1) ? NULL : alpha, &of_v);
  if (!x.failed) blas_symmetric(&x, is(uplo, 'U'), *n, blas_columns(a, *lda), from, own);
  back(&x, to, *n, own, of_y);
  ts_work_give(of_v);
  blas_end(&x);
}

#define SYMMETRIC(rankk, rank2k, times, type, T)                                               \
  ROUTINE(rankk, Char uplo, Char trans, Int n, Int k, const T *alpha, In a, Int lda,           \
          const T *beta, void *c, Int ldc, size_t lu, size_t lt) {                             \
    (void)lu, (void)lt;                                                                        \
    T one[2] = {*alpha, 0}, two[2] = {*beta, 0};                                               \
    rank_k(type, uplo, trans, n, k, one, a, lda, a, lda, two, c, ldc);                         \
  }                                                                                            \
  ROUTINE(rank2k, Char uplo, Char trans, Int n, Int k, In alpha, In a, Int lda, In b, Int ldb, \
          const T *beta, void *c, Int ldc, size_t lu, size_t lt) {                             \
    (void)lu, (void)lt;                                                                        \
    T two[2] = {*beta, 0};                                                                     \
    rank_k(type, uplo, trans, n, k, alpha, a, lda, b, ldb, two, c, ldc);                       \
  }                                                                                            \
  ROUTINE(times, Char uplo, Int n, In alpha, In a, Int lda, In v, Int incv, In beta, void *y,  \
          Int incy, size_t lu) {                                                               \
    (void)lu;                                                                                  \
    symmetric(type, uplo, n, alpha, a, lda, v, incv, beta, y, incy);                           \
  }
SYMMETRIC(ssyrk_, ssyr2k_, ssymv_, TS_BLAS_f32, float)
SYMMETRIC(dsyrk_, dsyr2k_, dsymv_, TS_BLAS_f64, double)
SYMMETRIC(cherk_, cher2k_, chemv_, TS_BLAS_c64, float)
SYMMETRIC(zherk_, zher2k_, zhemv_, TS_BLAS_c128, double)

/* ---- of LAPACK itself: what its eigenvalues of tridiagonal matrices take most of their time for.
 * It holds nothing, so a jump may leave it. */

#define SECULAR(name, type)                                                                    \
  ROUTINE(name, Int n, Int i, In d, In z, void *delta, In rho, void *x, int *info) {           \
    *info = blas_kernels()->blas.columns[type].secular(*n, *i - 1, d, z, rho, delta, x);       \
  }
SECULAR(slaed4_, TS_BLAS_f32)
SECULAR(dlaed4_, TS_BLAS_f64)
