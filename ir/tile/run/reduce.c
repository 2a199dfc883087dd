/* Reductions and products of the interpreter of Tile IR, in the canonical order, which
 * vm/kernels/rows/reduce_tree.h explains: scalar loops that are slow and plain, written apart from
 * the VM's kernels. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "ir/tile/run/run.h"

enum { LEAF = 4096 };

/* One of T's additions or products; prod says which. */
#define TREE(NAME, T, LANES)                                                                   \
  static T combine_##NAME(bool prod, T a, T b) { return prod ? a * b : a + b; }                \
                                                                                               \
  static T leaf_##NAME(bool prod, const T *x, int64_t n) {                                     \
    T lane[LANES];                                                                             \
    int64_t width = 1;                                                                         \
    while (width < n && width < LANES) width *= 2;                                             \
    for (int64_t i = 0; i < LANES; i++) lane[i] = prod ? (T)1 : -(T)0;                         \
    for (int64_t i = 0; i < n; i++)                                                            \
      lane[i % LANES] = combine_##NAME(prod, lane[i % LANES], x[i]);                           \
    for (int64_t h = width / 2; h >= 1; h /= 2)                                                \
      for (int64_t i = 0; i < h; i++) lane[i] = combine_##NAME(prod, lane[i], lane[i + h]);    \
    return lane[0];                                                                            \
  }                                                                                            \
                                                                                               \
  static T pairs_##NAME(bool prod, T *s, int64_t n) {                                          \
    for (; n > 1; n = (n + 1) / 2) {                                                           \
      for (int64_t i = 0; i < n / 2; i++) s[i] = combine_##NAME(prod, s[2 * i], s[2 * i + 1]); \
      if (n % 2) s[n / 2] = s[n - 1];                                                          \
    }                                                                                          \
    return s[0];                                                                               \
  }                                                                                            \
                                                                                               \
  static T tree_##NAME(int op, const T *x, int64_t n, T *work) {                               \
    bool prod = op == TS_TILE_prod;                                                            \
    int64_t leaves = 0;                                                                        \
    if (n == 0) return prod;                                                                   \
    if (op == TS_TILE_pairs) {                                                                 \
      memcpy(work, x, (size_t)n * sizeof(T));                                                  \
      return pairs_##NAME(false, work, n);                                                     \
    }                                                                                          \
    for (int64_t i = 0; i < n; i += LEAF)                                                      \
      work[leaves++] = leaf_##NAME(prod, x + i, n - i < LEAF ? n - i : LEAF);                  \
    return pairs_##NAME(prod, work, leaves);                                                   \
  }

TREE(f32, float, 256)
TREE(f64, double, 128)

/* Integers wrap: any order is the same. */
static int64_t tree_int(int op, TsDtype d, const void *x, int64_t n) {
  uint64_t y = op == TS_TILE_prod;
  for (int64_t i = 0; i < n; i++) {
    uint64_t e = (uint64_t)ts_tile_run_int(d, x, i);
    y = op == TS_TILE_prod ? y * e : y + e;
  }
  return (int64_t)y;
}

/* ---- the largest and the smallest */
static bool below(double a, double b) { return a < b || (a == b && signbit(a) && !signbit(b)); }

static double extreme(bool max, TsDtype d, const void *x, int64_t n) {
  double best = max ? -INFINITY : INFINITY;
  for (int64_t i = 0; i < n; i++) {
    double e = d == TS_DT_f32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
    if (isnan(e)) return NAN;
    if (max ? below(best, e) : below(e, best)) best = e;
  }
  return best;
}

static int64_t extreme_int(bool max, TsDtype d, const void *x, int64_t n) {
  int64_t lo, hi;
  ts_dtype_int_range(d, &lo, &hi);
  int64_t best = max ? lo : hi;
  for (int64_t i = 0; i < n; i++) {
    int64_t e = ts_tile_run_int(d, x, i);
    if (max ? e > best : e < best) best = e;
  }
  return best;
}

/* The lowest index of the extreme; zeros are equal, the first NaN wins. Of nothing: -1. */
static int64_t place(bool max, TsDtype d, const void *x, int64_t n) {
  int64_t best = n ? 0 : -1;
  for (int64_t i = 0; i < n; i++) {
    double e = d == TS_DT_f32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
    double b = d == TS_DT_f32 ? (double)((const float *)x)[best] : ((const double *)x)[best];
    if (isnan(e)) return i;
    if (max ? e > b : e < b) best = i;
  }
  return best;
}

static int64_t place_int(bool max, TsDtype d, const void *x, int64_t n) {
  int64_t best = n ? 0 : -1;
  for (int64_t i = 0; i < n; i++) {
    int64_t e = ts_tile_run_int(d, x, i), b = ts_tile_run_int(d, x, best);
    if (max ? e > b : e < b) best = i;
  }
  return best;
}

static int reduce_int(int op, TsDtype to, void *out, TsDtype d, const void *x, int64_t n) {
  bool max = op == TS_TILE_max || op == TS_TILE_argmax;
  int64_t y = op == TS_TILE_max || op == TS_TILE_min         ? extreme_int(max, d, x, n)
              : op == TS_TILE_argmax || op == TS_TILE_argmin ? place_int(max, d, x, n)
                                                             : tree_int(op, d, x, n);
  return ts_tile_run_cast(to, out, TS_DT_i64, &y, 1);
}

static int reduce_float(int op, TsDtype to, void *out, TsDtype d, const void *x, int64_t n,
                        void *work) {
  double y;
  if (op == TS_TILE_argmax || op == TS_TILE_argmin) {
    int64_t at = place(op == TS_TILE_argmax, d, x, n);
    return ts_tile_run_cast(to, out, TS_DT_i64, &at, 1);
  }
  if (op == TS_TILE_max || op == TS_TILE_min)
    y = extreme(op == TS_TILE_max, d, x, n);
  else if (d == TS_DT_f32)
    y = (double)tree_f32(op, x, n, work);
  else
    y = tree_f64(op, x, n, work);
  return ts_tile_run_cast(to, out, TS_DT_f64, &y, 1);
}

int ts_tile_run_reduce(int op, TsDtype to, void *out, TsDtype d, const void *x, int64_t n,
                       void *work) {
  if (ts_dtype_is(d, TS_KIND_B | TS_KIND_U | TS_KIND_I))
    return reduce_int(op, to, out, d, x, n);
  if (d != TS_DT_f32 && d != TS_DT_f64) return -1;
  return reduce_float(op, to, out, d, x, n, work);
}

/* ---- products */
#define MMA(NAME, T, step)                                                                     \
  static void mma_##NAME(int64_t m, int64_t n, int64_t k, const T *a, const T *b, T *acc) {    \
    for (int64_t i = 0; i < m; i++)                                                            \
      for (int64_t l = 0; l < k; l++)                                                          \
        for (int64_t j = 0; j < n; j++) {                                                      \
          const T x = a[i * k + l], y = b[l * n + j], c = acc[i * n + j];                      \
          acc[i * n + j] = (T)(step);                                                          \
        }                                                                                      \
  }

MMA(f32, float, fmaf(x, y, c))
MMA(f64, double, fma(x, y, c))
MMA(i32, int32_t, ((uint32_t)x * (uint32_t)y) + (uint32_t)c)
MMA(i64, int64_t, ((uint64_t)x * (uint64_t)y) + (uint64_t)c)

int ts_tile_run_mma(TsDtype d, int64_t m, int64_t n, int64_t k, const void *a, const void *b,
                    void *acc) {
  switch (d) {
  case TS_DT_f32: mma_f32(m, n, k, a, b, acc); return 0;
  case TS_DT_f64: mma_f64(m, n, k, a, b, acc); return 0;
  case TS_DT_i32: mma_i32(m, n, k, a, b, acc); return 0;
  case TS_DT_i64: mma_i64(m, n, k, a, b, acc); return 0;
  default: return -1;
  }
}
