/* Small matrices in lanes against the same ones alone through vm/blas/factor.h, bit for bit: every size,
 * any number of them, singular ones and those with a NaN too, each instruction set, 1 and 2 threads.
 * Usage: lanes_test [rounds] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/blas/lanes.h"

enum { MOST = TS_BLAS_LANES_MOST, COUNT = 20, NUMBERS = MOST * MOST };

static uint64_t seed = 1;
static int below(int n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((seed >> 33) % (uint64_t)n);
}

static int size, bad, cases; /* size: bytes of a number */
static double a[COUNT][NUMBERS], b[COUNT][NUMBERS], out[COUNT][NUMBERS];
static int pivots[COUNT * MOST], lost[COUNT];

static double get(const void *p, int64_t i) {
  return size == 8 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}
static void set(void *p, int64_t i, double x) {
  if (size == 8)
    ((double *)p)[i] = x;
  else
    ((float *)p)[i] = (float)x;
}
/* Matrix i of an array of them, n numbers each. */
static void *nth(void *p, int64_t i, int64_t n) { return (char *)p + i * n * size; }

static bool same(double x, double y) {
  return (isnan(x) && isnan(y)) || (x == y && signbit(x) == signbit(y));
}

/* count matrices: random ones, some of lower rank, some with a NaN, an infinity or zeros. */
static void fill(void *p, int count, int m, int n, double diagonal) {
  static const double odd[] = {NAN, INFINITY, 0, -0.0, 1e30};
  for (int x = 0; x < count; x++) {
    void *at = nth(p, x, (int64_t)m * n);
    for (int i = 0; i < m * n; i++) set(at, i, (below(2001) - 1000) / 512.0);
    for (int i = 0; i < m && i < n; i++) set(at, i * (n + 1), get(at, i * (n + 1)) + diagonal);
    int kind = below(8), one = below(m * n), c = below(n);
    for (int i = 0; i < m && kind == 1; i++) set(at, i * n + c, get(at, i * n));
    for (int i = 0; i < m && kind == 2; i++) set(at, i * n + c, 0);
    if (kind == 3) set(at, one, odd[below(5)]);
    if (kind == 4) set(at, c * (m == n) * (n + 1), -1);
  }
}

static void compare(const TsLanes *l, const char *isa, int64_t x, int64_t numbers,
                    const void *got, const void *want) {
  for (int64_t i = 0; i < numbers; i++)
    if (!same(get(got, i), get(want, i))) {
      printf("%s, %d x %d, %d: what %d: matrix %lld of %lld, number %lld is %g, not %g\n", isa,
             l->m, l->n, l->k, l->what, (long long)x, (long long)l->count, (long long)i,
             get(got, i), get(want, i));
      bad++;
      return;
    }
}

static void flip(void *to, const void *from, int rows, int cols) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < cols; j++) set(to, j * rows + i, get(from, i * cols + j));
}

/* Result x alone, by row. */
static int64_t alone(const TsLanes *l, int64_t x, void *to, int *pivot, double *det) {
  static double t[NUMBERS], y[NUMBERS];
  int m = l->m, n = l->n, k = l->k;
  const void *at = nth(a, l->a_at ? l->a_at[x] : x, (int64_t)m * n);
  int64_t info;
  if (l->what == TS_LANES_CHOLESKY) {
    flip(t, at, n, n);
    info = ts_factor_cholesky(l->f, l->upper, n, t, n);
    for (int i = 0; i < n * n; i++) /* by column */
      if (l->upper ? i % n > i / n : i % n < i / n) set(t, i, 0);
    flip(to, t, n, n);
    return info;
  }
  if (l->what == TS_LANES_INVERSE) {
    memset(y, 0, sizeof y);
    for (int i = 0; i < n; i++) set(y, i * (n + 1), 1);
  } else if (k) {
    memcpy(y, nth(b, l->b_at ? l->b_at[x] : x, (int64_t)n * k), (size_t)(n * k * size));
  }
  if (l->what == TS_LANES_TRIANGLE) {
    info = ts_factor_solve(l->f, l->upper, l->transposed, l->unit, n, k, at, n, y, k);
  } else {
    flip(t, at, m, n);
    info = ts_factor_lu(l->f, m, n, t, m, pivot);
    *det = 1;
    for (int i = 0; i < m && i < n; i++)
      *det *= get(t, i * (m + 1)), *det = pivot[i] == i ? *det : -*det;
    if (k && !info) ts_factor_lu_solve(l->f, n, k, t, n, pivot, y, k);
  }
  if (k)
    memcpy(to, y, (size_t)(n * k * size));
  else
    flip(to, t, n, m);
  return info;
}

static void check(const TsLanes *l, const char *isa) {
  int least = l->m < l->n ? l->m : l->n, pivot[MOST];
  int64_t numbers = l->k ? (int64_t)l->n * l->k : (int64_t)l->m * l->n;
  static double want[NUMBERS];
  for (int64_t x = 0; x < l->count; x++) {
    double det = 0;
    int64_t info = alone(l, x, want, pivot, &det);
    if (info != lost[x]) {
      printf("%s, %d x %d: what %d: matrix %lld is lost at %d, not %lld\n", isa, l->m, l->n,
             l->what, (long long)x, lost[x], (long long)info);
      bad++;
    }
    if (l->what == TS_LANES_LU && memcmp(pivot, pivots + x * least, (size_t)least * 4))
      printf("%s: other pivots\n", isa), bad++;
    if (l->what == TS_LANES_DET) {
      if (!same(det, out[0][x])) printf("%s: det %g, not %g\n", isa, out[0][x], det), bad++;
    } else if (!info || l->what == TS_LANES_LU) {
      compare(l, isa, x, numbers, nth(out, x, numbers), want);
    }
  }
}

static void one_case(const TsKernels *k, TsBlasType type, TsLanesWhat what, int n,
                     int threads) {
  static int64_t a_at[COUNT], b_at[COUNT];
  TsLanes l = {.f = {k, type},
               .what = what,
               .m = what == TS_LANES_LU ? 1 + below(MOST) : n,
               .n = n,
               .upper = below(2),
               .transposed = below(2),
               .unit = below(2),
               .count = 1 + below(COUNT),
               .a = a,
               .b = b,
               .out = out,
               .pivot = what == TS_LANES_LU ? pivots : NULL,
               .lost = lost};
  if (what == TS_LANES_SOLVE || what == TS_LANES_TRIANGLE) l.k = 1 + below(MOST);
  if (what == TS_LANES_INVERSE) l.k = n;
  for (int i = 0; i < COUNT; i++) a_at[i] = below(COUNT), b_at[i] = below(COUNT);
  if (!below(3)) l.a_at = a_at;
  if (!below(3)) l.b_at = b_at;
  fill(a, COUNT, l.m, n, what == TS_LANES_CHOLESKY ? 4 * n : what == TS_LANES_TRIANGLE ? n : 0);
  fill(b, COUNT, n, l.k ? l.k : 1, 0);
  ts_cpu_set_threads(threads);
  if (ts_lanes_run(&l)) puts("lanes: out of memory"), bad++;
  check(&l, k->isa);
  cases++;
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 2;
  static const char *isa[] = {"base", "avx2", "avx512"};
  for (int r = 0; r < rounds; r++)
    for (int i = 0; i < 3; i++)
      for (int type = 0; type < TS_BLAS_c64 && ts_kernels_have(isa[i]); type++)
        for (int n = 1; n <= MOST; n++)
          for (int what = 0; what <= TS_LANES_CHOLESKY; what++) {
            size = type ? 8 : 4;
            one_case(ts_kernels_of(isa[i]), (TsBlasType)type, (TsLanesWhat)what, n,
                     1 + (n + r) % 2);
          }
  printf("lanes: %d cases\n", cases);
  return bad != 0;
}
