/* QR, tridiagonal matrices, eigenvalues of small ones and of diagonal ones with a vector beside them:
 * what they are factors of, orthogonality, and the same bits in each instruction set, with 1 and 2
 * threads, alone and among others, and after an interrupt at any look. Usage: orthogonal_test
 * [rounds] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/blas/lanes.h"

enum { MOST = 270, NUMBERS = MOST * MOST };

static uint64_t seed = 1;
static int below(int n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((seed >> 33) % (uint64_t)n);
}

static const TsKernels *kernels[3];
static int nkernels, bad, cases;
static TsBlasType type;
static double eps;

static int size_of(void) { return type == TS_BLAS_f64 ? 8 : 4; }
static double get(const void *p, int64_t i) {
  return type == TS_BLAS_f64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}
static void set(void *p, int64_t i, double x) {
  if (type == TS_BLAS_f64)
    ((double *)p)[i] = x;
  else
    ((float *)p)[i] = (float)x;
}

static double a[NUMBERS], b[NUMBERS], q[NUMBERS], v[NUMBERS], first[2][NUMBERS];
static double d[MOST], e[MOST], tau[MOST], rho[1];

static void fill(double *x, int n) {
  for (int i = 0; i < n; i++) set(x, i, (below(2001) - 1000) / 512.0);
}

static void wrong(const char *what, int m, int n, double error) {
  printf("%s, type %d, %d x %d: %g eps\n", what, type, m, n, error / eps);
  bad++;
}

/* Columns of m x k by row. */
static void check_orthonormal(const char *what, int m, int k, const double *x) {
  double most = 0;
  for (int i = 0; i < k; i++)
    for (int j = 0; j <= i; j++) {
      double sum = i == j ? -1 : 0;
      for (int l = 0; l < m; l++) sum += get(x, l * k + i) * get(x, l * k + j);
      most = fabs(sum) > most ? fabs(sum) : most;
    }
  if (!(most <= (20 + m / 4.0) * eps)) wrong(what, m, k, most);
}

/* The results of one instruction set and number of threads are those of the first. */
static void same(const char *what, bool begin, const void *x, const void *y, int nx, int ny) {
  size_t bx = (size_t)(nx * size_of()), by = (size_t)(ny * size_of());
  if (begin)
    memcpy(first[0], x, bx), memcpy(first[1], y, by);
  else if (memcmp(first[0], x, bx) || memcmp(first[1], y, by))
    printf("%s, type %d: other bits\n", what, type), bad++;
}

/* run() once more, left at each look. */
static void leave(void (*run)(void)) {
  for (int64_t look = 1, left = 0; left <= 0 && look < 200; look++) {
    ts_cpu_call_at_look(look, ts_cpu_interrupt);
    run();
    left = ts_cpu_call_at_look(0, NULL);
    ts_cpu_clear_interrupt();
  }
}

/* ---- QR */

static int m, n, k;
static const TsKernels *now;

static void run_qr(void) {
  memcpy(b, a, sizeof b);
  if (ts_factor_qr((TsFactor){now, type}, m, n, k, b, n, q, k)) puts("no memory"), bad++;
}

static void test_qr(void) {
  m = 1 + below(MOST), n = 1 + below(MOST), k = m < n || below(2) ? (m < n ? m : n) : m;
  fill(a, m * n);
  if (!below(4))
    for (int i = 0; i < m; i++) set(a, i * n + below(n), 0);
  double by = below(3) ? 1 : type == TS_BLAS_f64 ? 0x1p-700 : 0x1p-100;
  for (int i = 0; i < m * n; i++) set(a, i, get(a, i) * by);
  now = kernels[0], leave(run_qr);
  for (int i = 0; i < 2 * nkernels; i++) {
    now = kernels[i / 2], ts_cpu_set_threads(1 + i % 2), run_qr();
    for (int r = 1; r < m; r++)
      for (int c = 0; c < r && c < n; c++) set(b, r * n + c, 0); /* anything */
    same("qr", i == 0, b, q, m * n, m * k);
  }
  check_orthonormal("q", m, k, q);
  double most = 0;
  for (int r = 0; r < m; r++)
    for (int c = 0; c < n; c++) {
      double sum = -get(a, r * n + c) / by;
      for (int l = 0; l <= c && l < k; l++) sum += get(q, r * k + l) * (get(b, l * n + c) / by);
      most = fabs(sum) > most ? fabs(sum) : most;
    }
  if (!(most <= 2 * (20 + m / 2.0) * eps)) wrong("q r", m, n, most);
  cases++;
}

/* ---- tridiagonal matrices */

static void run_tridiagonal(void) {
  memcpy(b, a, sizeof b);
  TsFactor f = {now, type};
  memset(q, 0, sizeof q);
  for (int i = 0; i < n; i++) set(q, i * (n + 1), 1);
  if (ts_factor_tridiagonal(f, n, b, n, d, e, v, n, tau)) puts("no memory"), bad++;
  if (!ts_cpu_interrupted() && ts_factor_tridiagonal_back(f, n, v, n, tau, q, n)) bad++;
}

static void test_tridiagonal(void) {
  n = 2 + below(MOST - 1);
  fill(a, n * n);
  now = kernels[0], leave(run_tridiagonal);
  for (int i = 0; i < 2 * nkernels; i++) {
    now = kernels[i / 2], ts_cpu_set_threads(1 + i % 2), run_tridiagonal();
    same("tridiagonal", i == 0, d, q, n, n * n);
  }
  check_orthonormal("q of a tridiagonal matrix", n, n, q);
  double most = 0;
  for (int i = 0; i < n; i++) /* a q = q t, of which a's lower half by column */
    for (int j = 0; j < n; j++) {
      double sum = -get(q, i * n + j) * get(d, j);
      if (j) sum -= get(q, i * n + j - 1) * get(e, j - 1);
      if (j + 1 < n) sum -= get(q, i * n + j + 1) * get(e, j);
      for (int l = 0; l < n; l++)
        sum += get(a, l > i ? i * n + l : l * n + i) * get(q, l * n + j);
      most = fabs(sum) > most ? fabs(sum) : most;
    }
  if (!(most <= 2 * sqrt(n) * (20 + n / 2.0) * eps)) wrong("q t q'", n, n, most);
  cases++;
}

/* ---- roots: of the z that belongs to exactly these eigenvalues (M. Gu and S. Eisenstat, SIAM J.
 * Matrix Anal. Appl. 15, 1994) nothing is far from z, if each distance is exact.
 *
 * How far follows from where the search for root i ends: where f = 1 / rho + sum of z[k]^2 / b[i][k]
 * is what rounding makes of it, f <= 12 eps t, with t the sum of the terms' magnitudes (9 of it
 * are what the search asks for, and 3 the rounding of the sum itself). With the slope s of f, the
 * sum of z[k]^2 / b[i][k]^2, the root is f / s away, so b[i][j] is wrong by 12 eps t / (s b[i][j])
 * of itself. z[j]^2 is a product of those, and half of their sum is what z[j] may be wrong by, next
 * to the rounding of the n distances. Where z[j] is small and the other terms cancel near d[j] that
 * is up to n eps |z| / z[j]: a bound of n eps alone would ask for more than the numbers have. */
static void distances(void) {
  double most = 0, near[MOST];
  for (int i = 0; i < n; i++) {
    double t = 1 / get(rho, 0), s = 0;
    for (int l = 0; l < n; l++) {
      double z = get(e, l), from = get(b, i * n + l);
      t += fabs(z * z / from), s += z * z / (from * from);
    }
    near[i] = 12 * eps * t / s;
  }
  for (int j = 0; j < n; j++) {
    double square = -get(b, j * n + j) / get(rho, 0), bound = 2 * n * eps;
    for (int i = 0; i < n; i++) {
      if (i != j) square *= -get(b, i * n + j) / (get(d, i) - get(d, j));
      bound += near[i] / fabs(get(b, i * n + j)) / 2;
    }
    double error = fabs(sqrt(square) / get(e, j) - 1) / bound;
    most = error > most || error != error ? error : most;
  }
  if (!(most <= 1)) wrong("roots, of what is allowed", n, n, most * eps);
}

/* Of two: the eigenvectors, as LAPACK's own routine for them has them, which our BLAS leaves alone. */
void slaed5_(const int *i, const void *d, const void *z, void *delta, const void *rho, void *x);
void dlaed5_(const int *i, const void *d, const void *z, void *delta, const void *rho, void *x);

static void two_vectors(void) {
  double most = 0, other = 0, x[1], delta[2];
  double size = fabs(get(d, 0)) + fabs(get(d, 1)) + get(rho, 0);
  for (int j = 0; j < 2; j++) {
    double along = 0;
    for (int i = 0; i < 2; i++) along += get(e, i) * get(b, j * 2 + i);
    for (int i = 0; i < 2; i++) {
      double left =
          (get(d, i) - get(tau, j)) * get(b, j * 2 + i) + get(rho, 0) * get(e, i) * along;
      most = fmax(most, fabs(left) / size);
    }
    (type == TS_BLAS_f64 ? dlaed5_ : slaed5_)(&(int){j + 1}, d, e, delta, rho, x);
    for (int i = 0; i < 2; i++) other = fmax(other, fabs(get(delta, i) - get(b, j * 2 + i)));
  }
  if (!(most <= 8 * eps)) wrong("two roots", 2, 2, most);
  check_orthonormal("two vectors", 2, 2, b);
  /* a vector is as certain as the distance of its pole, which the smaller weight has */
  if (!(other <= 16 * eps / fmin(get(e, 0), get(e, 1)))) wrong("LAPACK's vectors", 2, 2, other);
}

static void test_secular(void) {
  n = below(3) ? 1 + below(60) : 2;
  double length = 0, x[1], last = -1;
  for (int i = 0; i < n; i++) {
    last += below(4) ? (1 + below(1000)) / 1000.0 : 16 * (1 + below(9)) * eps;
    set(d, i, last);
    double y = (1 + below(1000)) / (below(4) ? 1000.0 : 1e6);
    set(e, i, y), length += y * y;
  }
  for (int i = 0; i < n; i++) set(e, i, get(e, i) / sqrt(length));
  set(rho, 0, (1 + below(1000)) / 100.0);
  for (int i = 0; i < nkernels; i++) {
    for (int j = 0; j < n; j++) {
      if (kernels[i]->blas.columns[type].secular(n, j, d, e, rho, (char *)b + j * n * size_of(),
                                                 x))
        wrong("no root", n, j, 0);
      set(tau, j, get(x, 0));
    }
    same("roots", i == 0, tau, b, n, n * n);
  }
  if (n == 2) two_vectors();
  if (n > 2) distances();
  cases++;
}

/* ---- in lanes */

static double out[NUMBERS], out2[NUMBERS];

static void run_lanes(TsLanesWhat what, int64_t at, int64_t count, void *to, void *to2) {
  TsLanes l = {.f = {now, type},
               .what = what,
               .m = m,
               .n = n,
               .k = k,
               .count = count,
               .a = (char *)a + at * m * n * size_of(),
               .out = to,
               .out2 = to2};
  if (!ts_lanes_take(&l) || ts_lanes_run(&l)) puts("not by lanes"), bad++;
}

static void test_lanes(TsLanesWhat what, int kind) {
  bool is_qr = what == TS_LANES_QR;
  int count = 1 + below(40), least;
  n = is_qr ? 1 + below(20) : 1 + below(TS_BLAS_LANES_EIGH);
  m = is_qr ? 1 + below(20) : n;
  if (m > 16 && n > 16) m = 16;
  least = m < n ? m : n, k = is_qr && m > n && below(2) ? m : least;
  fill(a, count * m * n);
  double by = kind == 3 ? (type == TS_BLAS_f64 ? 0x1p-700 : 0x1p-100) : 1;
  for (int i = 0; i < count * m * n; i++) {
    int c = i % n, r = i / n % m;
    if (kind == 1 && c) set(a, i, get(a, i - c)); /* columns that are one */
    if (kind == 2) set(a, i, r == c ? 1 : 0);
    if (kind == 4) set(a, i, get(a, i) * pow(2, -6 * (r + c)));
    set(a, i, get(a, i) * by);
  }
  int n2 = is_qr ? k * n : n;
  for (int i = 0; i < 2 * nkernels; i++) {
    now = kernels[i / 2], ts_cpu_set_threads(1 + i % 2);
    run_lanes(what, 0, count, out, out2);
    same("lanes", i == 0, out, out2, count * m * k, count * n2);
  }
  int x = below(count);
  run_lanes(what, x, 1, q, v);
  int size = size_of();
  if (memcmp(q, (char *)out + x * m * k * size, (size_t)(m * k * size)) ||
      memcmp(v, (char *)out2 + x * n2 * size, (size_t)(n2 * size)))
    printf("%d x %d: other bits alone\n", m, n), bad++;
  check_orthonormal("lanes", m, k, q);
  double most = 0;
  const char *from = (const char *)a + x * m * n * size;
  for (int r = 0; r < m; r++)
    for (int c = 0; c < n; c++) {
      double sum = is_qr ? -get(from, r * n + c) / by : -get(q, r * n + c) * (get(v, c) / by);
      for (int l = 0; l < (is_qr ? k : n); l++)
        sum += is_qr ? get(q, r * k + l) * (get(v, l * n + c) / by)
                     : get(from, l > r ? l * n + r : r * n + l) / by * get(q, l * n + c);
      most = fabs(sum) > most ? fabs(sum) : most;
    }
  if (!(most <= 2 * (20 + 2 * m) * eps)) wrong("lanes", m, n, most);
  for (int i = 1; i < n && !is_qr; i++)
    if (get(v, i) < get(v, i - 1)) wrong("values do not ascend", m, n, 0);
  cases++;
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 6;
  static const char *isa[] = {"base", "avx2", "avx512"};
  for (int i = 0; i < 3; i++)
    if (ts_kernels_have(isa[i])) kernels[nkernels++] = ts_kernels_of(isa[i]);
  for (int r = 0; r < rounds; r++)
    for (type = TS_BLAS_f32; type < TS_BLAS_c64; type++) {
      eps = type == TS_BLAS_f64 ? 0x1p-52 : 0x1p-23;
      test_qr(), test_tridiagonal();
      for (int i = 0; i < 20; i++) test_secular();
      for (int kind = 0; kind < 5; kind++)
        for (int i = 0; i < 10; i++)
          test_lanes(TS_LANES_QR, kind), test_lanes(TS_LANES_EIGH, kind);
    }
  printf("orthogonal: %d cases on %d instruction sets\n", cases, nkernels);
  return bad != 0;
}
