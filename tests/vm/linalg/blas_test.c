/* The routines of BLAS that LAPACK calls, and factorisations, against their definitions in f64: all
 * options, types, strides and sizes around every block; what is no part of the result keeps its bits,
 * and each instruction set and number of threads gives the same bits. Usage: blas_test [rounds] */
#include <complex.h>
#undef complex
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/blas/blas.h"
#include "vm/blas/factor.h"

typedef double _Complex Z;
typedef const char *Char;
typedef const int *Int;

static uint64_t seed = 1;
static int below(int n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((seed >> 33) % (uint64_t)n);
}

typedef void Gemm(Char, Char, Int, Int, Int, const void *, const void *, Int, const void *, Int,
                  const void *, void *, Int, size_t, size_t);
typedef void Gemv(Char, Int, Int, const void *, const void *, Int, const void *, Int,
                  const void *, void *, Int, size_t);
typedef void Ger(Int, Int, const void *, const void *, Int, const void *, Int, void *, Int);
typedef void Trm(Char, Char, Char, Char, Int, Int, const void *, const void *, Int, void *, Int,
                 size_t, size_t, size_t, size_t);
typedef void Trv(Char, Char, Char, Int, const void *, Int, void *, Int, size_t, size_t, size_t);
typedef void Rank(Char, Char, Int, Int, const void *, const void *, Int, const void *, void *,
                  Int, size_t, size_t);
typedef void Rank2(Char, Char, Int, Int, const void *, const void *, Int, const void *, Int,
                   const void *, void *, Int, size_t, size_t);
typedef void Symv(Char, Int, const void *, const void *, Int, const void *, Int, const void *,
                  void *, Int, size_t);
#define NAMES(s, ger, syrk, syr2k, symv)                                                       \
  Gemm s##gemm_;                                                                               \
  Gemv s##gemv_;                                                                               \
  Ger ger;                                                                                     \
  Trm s##trsm_, s##trmm_;                                                                      \
  Trv s##trsv_, s##trmv_;                                                                      \
  Rank syrk;                                                                                   \
  Rank2 syr2k;                                                                                 \
  Symv symv;
NAMES(s, sger_, ssyrk_, ssyr2k_, ssymv_)
NAMES(d, dger_, dsyrk_, dsyr2k_, dsymv_)
NAMES(c, cgerc_, cherk_, cher2k_, chemv_)
NAMES(z, zgerc_, zherk_, zher2k_, zhemv_)
#undef NAMES

static const struct Names {
  TsBlasType type;
  int size;
  double eps;
  Gemm *gemm;
  Gemv *gemv;
  Ger *ger;
  Trm *trsm, *trmm;
  Trv *trsv, *trmv;
  Rank *rank;
  Rank2 *rank2;
  Symv *symv;
} types[] = {
    {TS_BLAS_f32, 4, 0x1p-23, sgemm_, sgemv_, sger_, strsm_, strmm_, strsv_, strmv_, ssyrk_,
     ssyr2k_, ssymv_},
    {TS_BLAS_f64, 8, 0x1p-52, dgemm_, dgemv_, dger_, dtrsm_, dtrmm_, dtrsv_, dtrmv_, dsyrk_,
     dsyr2k_, dsymv_},
    {TS_BLAS_c64, 8, 0x1p-23, cgemm_, cgemv_, cgerc_, ctrsm_, ctrmm_, ctrsv_, ctrmv_, cherk_,
     cher2k_, chemv_},
    {TS_BLAS_c128, 16, 0x1p-52, zgemm_, zgemv_, zgerc_, ztrsm_, ztrmm_, ztrsv_, ztrmv_, zherk_,
     zher2k_, zhemv_},
};
static const struct Names *t; /* the type under test */

static bool is_complex(void) { return t->type >= TS_BLAS_c64; }

/* Element i of an array of the type. */
static Z get(const void *p, int64_t i) {
  switch (t->type) {
  case TS_BLAS_f32: return (double)((const float *)p)[i];
  case TS_BLAS_f64: return ((const double *)p)[i];
  case TS_BLAS_c64:
    return (double)((const float *)p)[2 * i] +
           (double)((const float *)p)[2 * i + 1] * _Complex_I;
  default: return ((const double *)p)[2 * i] + ((const double *)p)[2 * i + 1] * _Complex_I;
  }
}

static void set(void *p, int64_t i, Z z) {
  switch (t->type) {
  case TS_BLAS_f32: ((float *)p)[i] = (float)creal(z); break;
  case TS_BLAS_f64: ((double *)p)[i] = creal(z); break;
  case TS_BLAS_c64:
    ((float *)p)[2 * i] = (float)creal(z), ((float *)p)[2 * i + 1] = (float)cimag(z);
    break;
  default: ((double *)p)[2 * i] = creal(z), ((double *)p)[2 * i + 1] = cimag(z); break;
  }
}

static Z draw(void) {
  double re = (below(2001) - 1000) / 1024.0, im = (below(2001) - 1000) / 1024.0;
  return is_complex() ? re + im * _Complex_I : re;
}

enum { MOST = 150, ELEMENTS = (MOST + 5) * (MOST + 5) };

typedef struct Array {
  char bytes[ELEMENTS * 16];
} Array;
static Array a, b, c, was, first;
static Z want[ELEMENTS];
static bool touched[ELEMENTS]; /* elements that want has */

static void fill(Array *x) {
  for (int i = 0; i < ELEMENTS; i++) set(x->bytes, i, draw());
}

/* A random size, near the edges of blocks now and then. */
static int size_of(void) {
  static const int edges[] = {0,  1,  2,  7,  8,  9,  15,  16,  17,
                              31, 32, 33, 63, 64, 65, 127, 128, 129};
  int n = (int)(sizeof edges / sizeof *edges);
  return below(3) ? edges[below(n)] : below(MOST);
}

static Z scalar(void *to) {
  int kind = below(5);
  Z z = kind == 0 ? 0 : kind == 1 ? 1 : kind == 2 ? -1 : draw();
  set(to, 0, z);
  return get(to, 0);
}
static Z real_scalar(void *to) { /* alone, where complex routines take real numbers */
  Z z = creal(scalar(to));
  double d = creal(z);
  float f = (float)d;
  if (t->eps > 1e-10)
    memcpy(to, &f, 4);
  else
    memcpy(to, &d, 8);
  return t->eps > 1e-10 ? (double)f : d;
}

static Z op(Char trans, const Array *x, int ld, int i, int j) {
  if (*trans == 'N') return get(x->bytes, i + (int64_t)j * ld);
  Z z = get(x->bytes, j + (int64_t)i * ld);
  return *trans == 'C' ? conj(z) : z;
}

/* Element (i, j) of the triangle op(t). */
static Z corner(Char uplo, Char trans, Char diag, const Array *x, int ld, int i, int j) {
  int r = *trans == 'N' ? i : j, s = *trans == 'N' ? j : i;
  if (r == s && *diag == 'U') return 1;
  return *uplo == 'U' ? (r <= s ? op(trans, x, ld, i, j) : 0)
         : r >= s     ? op(trans, x, ld, i, j)
                      : 0;
}

/* ---- running one case everywhere */

static const TsKernels *kernels[3];
static int nkernels, bad, cases;
static sigjmp_buf out;

static void compare(const char *name, double scale) {
  for (int64_t i = 0; i < ELEMENTS; i++) {
    if (!touched[i]) {
      if (!memcmp(c.bytes + i * t->size, was.bytes + i * t->size, (size_t)t->size)) continue;
      printf("%s type %d: element %lld is not its own\n", name, t->type, (long long)i);
    } else {
      Z got = get(c.bytes, i);
      if (cabs(got - want[i]) <= scale * t->eps * (1 + cabs(want[i]))) continue;
      printf("%s type %d: element %lld is %g%+gi, not %g%+gi\n", name, t->type, (long long)i,
             creal(got), cimag(got), creal(want[i]), cimag(want[i]));
    }
    bad++;
    return;
  }
}

/* call() on c, for each instruction set and 1 and 2 threads. */
static void everywhere(const char *name, double scale, void (*call)(void)) {
  was = c;
  cases++;
  for (int i = 0; i < nkernels; i++)
    for (int threads = 1; threads <= 2; threads++) {
      c = was;
      ts_cpu_set_threads(threads);
      ts_blas_begin(kernels[i], &out);
      call();
      ts_blas_end();
      if (i == 0 && threads == 1) {
        compare(name, scale);
        first = c;
      } else if (memcmp(first.bytes, c.bytes, sizeof c.bytes)) {
        printf("%s type %d: other bits on %s with %d threads\n", name, t->type, kernels[i]->isa,
               threads);
        bad++;
      }
    }
}

static void begin(void) {
  fill(&a), fill(&b), fill(&c);
  memset(touched, 0, sizeof touched);
}
static void expect(int64_t at, Z z) { want[at] = z, touched[at] = true; }

/* The arguments of the case at hand. */
static int m, n, k, lda, ldb, ldc, incx, incy;
static Char ta, tb, uplo, diag, side;
static char alpha[16], beta[16];
static Char trans_of(void) { return below(3) == 0 ? "N" : below(2) ? "T" : "C"; }

static void call_gemm(void) {
  t->gemm(ta, tb, &m, &n, &k, alpha, a.bytes, &lda, b.bytes, &ldb, beta, c.bytes, &ldc, 1, 1);
}
static void test_gemm(void) {
  begin();
  m = size_of(), n = size_of(), k = size_of(), ta = trans_of(), tb = trans_of();
  lda = (*ta == 'N' ? m : k) + 1 + below(4), ldb = (*tb == 'N' ? k : n) + 1 + below(4);
  ldc = m + 1 + below(4);
  Z al = scalar(alpha), be = scalar(beta);
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) {
      Z sum = 0;
      for (int l = 0; l < k; l++) sum += op(ta, &a, lda, i, l) * op(tb, &b, ldb, l, j);
      int64_t at = i + (int64_t)j * ldc;
      expect(at, al * sum + be * get(c.bytes, at));
    }
  everywhere("gemm", 4 * k + 8, call_gemm);
}

static int step_of(void) { return below(2) ? 1 : below(2) ? 3 : -2; }
static int64_t place(int count, int inc, int i) {
  return inc > 0 ? (int64_t)i * inc : (int64_t)(i + 1 - count) * inc;
}

static void call_gemv(void) {
  t->gemv(ta, &m, &n, alpha, a.bytes, &lda, b.bytes, &incx, beta, c.bytes, &incy, 1);
}
static void test_gemv(void) {
  begin();
  m = size_of(), n = size_of(), ta = trans_of(), lda = m + 1 + below(4);
  incx = step_of(), incy = step_of();
  Z al = scalar(alpha), be = scalar(beta);
  int rows = *ta == 'N' ? m : n, cols = *ta == 'N' ? n : m;
  for (int i = 0; i < rows; i++) {
    Z sum = 0;
    for (int l = 0; l < cols; l++)
      sum += op(ta, &a, lda, i, l) * get(b.bytes, place(cols, incx, l));
    int64_t at = place(rows, incy, i);
    expect(at, al * sum + be * get(c.bytes, at));
  }
  everywhere("gemv", 4 * cols + 8, call_gemv);
}

static void call_ger(void) {
  t->ger(&m, &n, alpha, a.bytes, &incx, b.bytes, &incy, c.bytes, &ldc);
}
static void test_ger(void) {
  begin();
  m = size_of(), n = size_of(), ldc = m + 1 + below(4), incx = step_of(), incy = step_of();
  Z al = scalar(alpha);
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) {
      Z y = get(b.bytes, place(n, incy, j));
      int64_t at = i + (int64_t)j * ldc;
      expect(at, get(c.bytes, at) + al * get(a.bytes, place(m, incx, i)) * conj(y));
    }
  everywhere("ger", 16, call_ger);
}

static bool solve;
static void call_triangle(void) {
  (solve ? t->trsm : t->trmm)(side, uplo, ta, diag, &m, &n, alpha, a.bytes, &lda, c.bytes, &ldc,
                              1, 1, 1, 1);
}
static void call_line(void) {
  (solve ? t->trsv : t->trmv)(uplo, ta, diag, &n, a.bytes, &lda, c.bytes, &incx, 1, 1, 1);
}

/* Small numbers beside a diagonal near 2, so that systems are well conditioned. */
static void tame(int size) {
  for (int j = 0; j < size; j++)
    for (int i = 0; i < size; i++) {
      int64_t at = i + (int64_t)j * lda;
      set(a.bytes, at, get(a.bytes, at) / (i == j ? 4 : 2 * size) + (i == j ? 2 : 0));
    }
}

/* A system's solution is checked by making its right-hand side from a known one. */
static void test_triangle(void) {
  begin();
  m = size_of(), n = size_of(), solve = below(2), side = below(2) ? "L" : "R";
  uplo = below(2) ? "U" : "L", ta = trans_of(), diag = below(2) ? "U" : "N";
  int size = *side == 'L' ? m : n;
  lda = size + 1 + below(4), ldc = m + 1 + below(4);
  tame(size);
  set(alpha, 0, solve ? 2 : draw());
  Z al = get(alpha, 0);
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) {
      Z sum = 0;
      for (int l = 0; l < size; l++)
        sum += *side == 'L'
                   ? corner(uplo, ta, diag, &a, lda, i, l) * get(c.bytes, l + (int64_t)j * ldc)
                   : get(c.bytes, i + (int64_t)l * ldc) * corner(uplo, ta, diag, &a, lda, l, j);
      expect(i + (int64_t)j * ldc, sum);
    }
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) {
      int64_t at = i + (int64_t)j * ldc;
      Z x = get(c.bytes, at), y = want[at];
      if (solve) set(c.bytes, at, y / 2);
      want[at] = solve ? x : al * y;
    }
  everywhere(solve ? "trsm" : "trmm", 40 + 8 * size, call_triangle);
}

static void test_line(void) {
  begin();
  n = size_of(), solve = below(2), incx = step_of();
  uplo = below(2) ? "U" : "L", ta = trans_of(), diag = below(2) ? "U" : "N";
  lda = n + 1 + below(4);
  tame(n);
  for (int i = 0; i < n; i++) {
    Z sum = 0;
    for (int l = 0; l < n; l++)
      sum += corner(uplo, ta, diag, &a, lda, i, l) * get(c.bytes, place(n, incx, l));
    expect(place(n, incx, i), sum);
  }
  for (int i = 0; i < n && solve; i++) {
    int64_t at = place(n, incx, i);
    Z x = get(c.bytes, at);
    set(c.bytes, at, want[at]);
    want[at] = x;
  }
  everywhere(solve ? "trsv" : "trmv", 40 + 8 * n, call_line);
}

static void call_rank(void) {
  t->rank(uplo, ta, &n, &k, alpha, a.bytes, &lda, beta, c.bytes, &ldc, 1, 1);
}
static void call_rank2(void) {
  t->rank2(uplo, ta, &n, &k, alpha, a.bytes, &lda, b.bytes, &lda, beta, c.bytes, &ldc, 1, 1);
}
static void test_rank(void) {
  bool two = below(2);
  begin();
  n = size_of(), k = size_of(), uplo = below(2) ? "U" : "L";
  ta = below(2) ? "N" : is_complex() ? "C" : "T";
  lda = (*ta == 'N' ? n : k) + 1 + below(4), ldc = n + 1 + below(4);
  Z al = two ? scalar(alpha) : real_scalar(alpha), be = real_scalar(beta);
  for (int j = 0; j < n; j++) { /* a Hermitian matrix has a real diagonal */
    int64_t at = j + (int64_t)j * ldc;
    set(c.bytes, at, creal(get(c.bytes, at)));
  }
  for (int j = 0; j < n; j++)
    for (int i = 0; i < n; i++) {
      if (*uplo == 'U' ? i > j : i < j) continue;
      Z sum = 0;
      for (int l = 0; l < k; l++) {
        Z ai = op(ta, &a, lda, i, l), aj = op(ta, &a, lda, j, l);
        Z bi = op(ta, &b, lda, i, l), bj = op(ta, &b, lda, j, l);
        sum += two ? al * ai * conj(bj) + conj(al) * bi * conj(aj) : al * ai * conj(aj);
      }
      int64_t at = i + (int64_t)j * ldc;
      expect(at, sum + be * get(c.bytes, at));
    }
  everywhere(two ? "rank2k" : "rankk", 8 * k + 16, two ? call_rank2 : call_rank);
}

static void call_symv(void) {
  t->symv(uplo, &n, alpha, a.bytes, &lda, b.bytes, &incx, beta, c.bytes, &incy, 1);
}
static void test_symv(void) {
  begin();
  n = size_of(), uplo = below(2) ? "U" : "L", lda = n + 1 + below(4);
  incx = step_of(), incy = step_of();
  Z al = scalar(alpha), be = scalar(beta);
  for (int i = 0; i < n; i++) {
    Z sum = 0;
    for (int l = 0; l < n; l++) {
      bool stored = *uplo == 'U' ? i <= l : i >= l;
      Z z = stored ? op("N", &a, lda, i, l) : op("C", &a, lda, i, l);
      if (i == l) z = creal(z);
      sum += z * get(b.bytes, place(n, incx, l));
    }
    int64_t at = place(n, incy, i);
    expect(at, al * sum + be * get(c.bytes, at));
  }
  everywhere("symv", 8 * n + 16, call_symv);
}

/* ---- factors */

static const TsKernels *now; /* of factors, which take them themselves */
static int pivots[MOST];

static void call_lu(void) {
  ts_factor_lu((TsFactor){now, t->type}, m, n, c.bytes, ldc, pivots);
}

/* p l u gives what was factored. */
static void check_lu(const char *name) {
  int least = m < n ? m : n;
  for (int j = 0; j < n; j++) {
    static Z col[MOST];
    for (int i = 0; i < m; i++) {
      Z sum = 0;
      for (int l = 0; l <= j && l <= i && l < least; l++)
        sum += (l == i ? 1 : get(c.bytes, i + (int64_t)l * ldc)) *
               get(c.bytes, l + (int64_t)j * ldc);
      col[i] = sum;
    }
    for (int i = least; i-- > 0;) {
      Z z = col[i];
      col[i] = col[pivots[i]], col[pivots[i]] = z;
    }
    for (int i = 0; i < m; i++)
      if (cabs(col[i] - get(was.bytes, i + (int64_t)j * ldc)) > 40 * (MOST + 1) * t->eps) {
        printf("%s type %d %d x %d: element %d, %d\n", name, t->type, m, n, i, j);
        bad++;
        return;
      }
  }
}

static void test_lu(void) {
  begin();
  m = size_of(), n = size_of(), ldc = m + 1 + below(4);
  if (below(3) == 0 && n > 1) /* a column that depends on another one */
    for (int i = 0; i < m; i++) set(c.bytes, i + (int64_t)(n - 1) * ldc, get(c.bytes, i));
  was = c, cases++;
  for (int i = 0; i < nkernels; i++) {
    now = kernels[i], c = was;
    ts_cpu_set_threads(1 + i % 2);
    call_lu();
    if (i == 0)
      check_lu("lu"), first = c;
    else if (memcmp(first.bytes, c.bytes, sizeof c.bytes))
      printf("lu: other bits on %s\n", now->isa), bad++;
  }
}

/* Interrupted at each look: memory holds anything before, and rows of the matrix after it. */
static void test_lu_left(void) {
  begin();
  m = size_of(), n = size_of(), ldc = m;
  now = kernels[0], cases++;
  for (int64_t look = 1, left = 0; left <= 0; look++) {
    memset(pivots, 0x7f, sizeof pivots);
    ts_cpu_call_at_look(look, ts_cpu_interrupt);
    call_lu();
    left = ts_cpu_call_at_look(0, NULL);
    ts_cpu_clear_interrupt();
    for (int i = 0; i < m && i < n; i++)
      if (pivots[i] < 0 || pivots[i] >= m) {
        printf("lu of %d x %d, left at look %lld: pivot %d is row %d\n", m, n, (long long)look,
               i, pivots[i]);
        bad++;
        return;
      }
  }
}

static void test_cholesky(void) {
  begin();
  n = size_of(), k = n, lda = ldc = n + 1 + below(4), uplo = below(2) ? "U" : "L";
  for (int j = 0; j < n; j++)
    for (int i = 0; i < n; i++) {
      Z sum = i == j ? 1 : 0;
      for (int l = 0; l < n; l++) sum += op("N", &a, lda, i, l) * conj(op("N", &a, lda, j, l));
      bool half = *uplo == 'U' ? i <= j : i >= j;
      if (half) set(c.bytes, i + (int64_t)j * ldc, sum);
    }
  was = c, cases++;
  for (int i = 0; i < nkernels; i++) {
    c = was;
    int64_t got =
        ts_factor_cholesky((TsFactor){kernels[i], t->type}, *uplo == 'U', n, c.bytes, ldc);
    if (got) printf("cholesky type %d of %d: %lld\n", t->type, n, (long long)got), bad++;
    if (i &&
        memcmp(first.bytes, c.bytes, sizeof c.bytes)) /* what is anything is so everywhere */
      printf("cholesky: other bits on %s\n", kernels[i]->isa), bad++;
    first = c;
  }
  for (int j = 0; j < n; j++)
    for (int i = 0; i < n; i++) {
      int64_t at = i + (int64_t)j * ldc;
      if (*uplo == 'U' ? i > j : i < j) continue; /* anything */
      Z sum = 0;
      for (int l = 0; l <= i && l <= j; l++)
        sum += *uplo == 'U' ? conj(op("N", &c, ldc, l, i)) * op("N", &c, ldc, l, j)
                            : op("N", &c, ldc, i, l) * conj(op("N", &c, ldc, j, l));
      if (cabs(sum - get(was.bytes, at)) > (8 * n + 16) * t->eps * (1 + n))
        printf("cholesky type %d of %d: element %d, %d\n", t->type, n, i, j), bad++, i = j = n;
    }
  if (n) { /* a pivot that is not positive is named */
    int at = below(n);
    c = was;
    set(c.bytes, at + (int64_t)at * ldc, -1);
    int64_t got =
        ts_factor_cholesky((TsFactor){kernels[0], t->type}, *uplo == 'U', n, c.bytes, ldc);
    if (got != at + 1)
      printf("cholesky of %d: pivot %lld, not %d\n", n, (long long)got, at + 1), bad++;
  }
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 12;
  static const char *isa[] = {"base", "avx2", "avx512"};
  for (int i = 0; i < 3; i++)
    if (ts_kernels_have(isa[i])) kernels[nkernels++] = ts_kernels_of(isa[i]);
  if (sigsetjmp(out, 0)) return puts("blas: out of memory"), 1;
  for (int r = 0; r < rounds; r++)
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
      t = &types[i];
      test_gemm(), test_gemv(), test_ger(), test_triangle(), test_triangle(), test_line();
      test_rank(), test_symv(), test_lu(), test_lu_left(), test_cholesky();
    }
  printf("blas: %d cases on %d instruction sets\n", cases, nkernels);
  return bad != 0;
}
