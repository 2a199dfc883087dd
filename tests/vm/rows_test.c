/* Softmax, norms and scans against scalar readings of their definitions, bit for bit, for
 * every instruction set, thread count and layout. exp, log and log1p are defined (and
 * tested) elsewhere: they come from the portable kernels, one element at a time. */
#include "devices/cpu_pool.h"
#include "tests/skip.h"
#include "vm/rows/rows.h"
#include "vm/drive/scan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures, checks;
static TsReduceKernels reduces[3];
static TsRowsKernels rows[3];
static TsConvertKernels converts[3];
static TsCopyKernels copies[3];
static bool isa_ok[3];
static const char *const isa_names[3] = {"avx512", "avx2", "base"};

static uint64_t seed = 88172645463325252u;

static uint64_t rnd(void) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return seed * 2685821657736338717u >> 11;
}

static int64_t below(int64_t n) { return (int64_t)(rnd() % (uint64_t)n); }

/* ---- arithmetic of the statistics' type, in doubles */

static bool f32;
static double r(double x) { return f32 ? (float)x : x; }

static double naive_sum(const double *x, int64_t n) {
  int64_t leaves = (n + 4095) / 4096, lanes = f32 ? 256 : 128;
  double *s = malloc((size_t)leaves * sizeof *s), acc[256];
  for (int64_t j = 0; j < leaves; j++) {
    int64_t k = n - j * 4096 < 4096 ? n - j * 4096 : 4096, w = 1;
    while (w < k && w < lanes) w *= 2;
    for (int64_t l = 0; l < lanes; l++) acc[l] = -0.0;
    for (int64_t i = 0; i < k; i++) acc[i % lanes] = r(acc[i % lanes] + x[j * 4096 + i]);
    for (int64_t h = w / 2; h >= 1; h /= 2)
      for (int64_t l = 0; l < h; l++) acc[l] = r(acc[l] + acc[l + h]);
    s[j] = acc[0];
  }
  for (; leaves > 1; leaves = (leaves + 1) / 2) {
    for (int64_t i = 0; i < leaves / 2; i++) s[i] = r(s[2 * i] + s[2 * i + 1]);
    if (leaves % 2) s[leaves / 2] = s[leaves - 1];
  }
  double sum = s[0];
  free(s);
  return sum;
}

static double one_exp(double x) {
  float y = (float)x;
  if (f32)
    rows[2].exp[0](&y, &y, 1, 0, NULL);
  else
    rows[2].exp[1](&x, &x, 1, 0, NULL);
  return f32 ? y : x;
}

/* One row by the definitions in vm/rows/rows.h. */
static void naive_row(const TsRows *a, const double *x, const double *w, const double *b,
                      double *y) {
  int64_t n = a->n;
  double m = -INFINITY, s, *t = calloc((size_t)n, sizeof *t);
  for (int64_t i = 0; i < n; i++) m = m < x[i] ? x[i] : m;
  switch (a->op) {
  case TS_ROWS_softmax:
  case TS_ROWS_log_softmax:
    for (int64_t i = 0; i < n; i++) t[i] = one_exp(r(x[i] - m));
    s = naive_sum(t, n);
    if (a->op == TS_ROWS_softmax)
      for (int64_t i = 0; i < n; i++) y[i] = r(t[i] * r(1 / s));
    else
      for (int64_t i = 0; i < n; i++) y[i] = r(r(x[i] - m) - rows[2].log[!f32](s));
    break;
  default:
    m = a->op == TS_ROWS_layernorm ? r(naive_sum(x, n) / (double)n) : 0;
    for (int64_t i = 0; i < n; i++) t[i] = r(r(x[i] - m) * r(x[i] - m));
    s = r(1 / r(sqrt(r(r(naive_sum(t, n) / (double)n) + r(a->eps)))));
    for (int64_t i = 0; i < n; i++) {
      y[i] = r(r(x[i] - m) * s);
      if (w) y[i] = r(y[i] * w[i]);
      if (b) y[i] = r(y[i] + b[i]);
    }
  }
  free(t);
}

/* ---- arrays */

static void to_wide(TsDtype d, int64_t n, const void *x, double *y) {
  if (d == TS_DT_f64)
    memcpy(y, x, (size_t)n * sizeof *y);
  else
    converts[2].convert[d][TS_DT_f64](n, y, x);
}

/* Rounds to d (through f32 for what is narrower) and returns the value. */
static double round_to(TsDtype d, double x) {
  float f = (float)x;
  uint64_t raw = 0;
  if (d == TS_DT_f64) return x;
  if (d == TS_DT_f32) return f;
  converts[2].convert[TS_DT_f32][d](1, &raw, &f);
  to_wide(d, 1, &raw, &x);
  return x;
}

static void *array(TsDtype d, int64_t n, bool special) {
  static const float odd[] = {INFINITY, -INFINITY, NAN, 0, -0.0f};
  char *x = malloc((size_t)(n + 1) * 8);
  for (int64_t i = 0; i < n; i++) {
    float f = (float)below(1 << 24) / (1 << 21) - 4.0f;
    if (special && below(400) == 0) f = odd[below(5)];
    if (d == TS_DT_f32)
      memcpy(x + i * 4, &f, 4);
    else
      converts[2].convert[TS_DT_f32][d](1, x + i * ts_dtypes[d].nbytes, &f);
  }
  return x;
}

static bool same(double a, double b) { return (a != a && b != b) || memcmp(&a, &b, 8) == 0; }

static int64_t offset_of(int64_t o, int nd, const int64_t *dim, const int64_t *stride) {
  int64_t at = 0;
  for (int d = nd - 1; d >= 0; d--) at += o % dim[d] * stride[d], o /= dim[d];
  return at;
}

static void report(const char *what, int op, TsDtype d, int isa, int threads, int64_t n,
                   int64_t at, double got, double want) {
  if (++failures > 20) return;
  printf("FAIL %s op %d %s isa %s threads %d n %lld element %lld: %a not %a\n", what, op,
         ts_dtype_name(d), isa_names[isa], threads, (long long)n, (long long)at, got, want);
}

/* ---- one case of ts_rows, on all sets; `size` elements span x and y */

static void check_rows(TsRows *a, int64_t size) {
  int64_t outer = 1, n = a->n;
  for (int d = 0; d < a->nouter; d++) outer *= a->outer_dim[d];
  f32 = a->dtype != TS_DT_f64;
  TsDtype wide_type = f32 ? TS_DT_f32 : TS_DT_f64;
  double *wide = malloc((size_t)size * 8), *want = malloc((size_t)size * 8);
  double *row = malloc((size_t)n * 32), *y = row + n, *w = y + n, *b = w + n;
  to_wide(a->dtype, size, a->x, wide);
  if (a->w) to_wide(wide_type, n, a->w, w);
  if (a->b) to_wide(wide_type, n, a->b, b);
  for (int64_t o = 0; o < outer; o++) {
    int64_t ox = offset_of(o, a->nouter, a->outer_dim, a->x_stride);
    for (int64_t i = 0; i < n; i++) row[i] = wide[ox + i * a->x_step];
    naive_row(a, row, a->w ? w : NULL, a->b ? b : NULL, y);
    for (int64_t i = 0; i < n; i++) want[o * n + i] = round_to(a->dtype, y[i]);
  }
  void *out = aligned_alloc(64, (size_t)(size * 8 + 63) / 64 * 64);
  for (int isa = 0; isa < 3; isa++)
    for (int threads = 1; threads <= 2 && isa_ok[isa]; threads++) {
      TsRowsTables t = {&reduces[isa], &rows[isa], &converts[isa], &copies[isa]};
      ts_cpu_set_threads(threads);
      memset(out, 0x5a, (size_t)size * 8);
      a->y = out;
      if (ts_rows(a, &t) != 0) failures++;
      to_wide(a->dtype, size, out, wide);
      for (int64_t i = 0; i < outer * n; i++, checks++) {
        int64_t oy = offset_of(i / n, a->nouter, a->outer_dim, a->y_stride);
        double got = wide[oy + i % n * a->y_step];
        if (!same(got, want[i]))
          report("rows", a->op, a->dtype, isa, threads, n, i, got, want[i]);
      }
    }
  free(wide), free(want), free(row), free(out);
}

static const int64_t lengths[] = {1,   2,   3,   7,    15,   16,   17,   63,   64,   100,
                                  255, 256, 257, 1000, 2048, 4095, 4096, 4097, 8192, 9001};
enum { NLENGTHS = sizeof lengths / sizeof *lengths };

/* m rows of n, the axis last (axis 1) or first (axis 0), y dense, x perhaps with gaps. */
static void case_rows(TsRowsOp op, TsDtype d, int64_t m, int64_t n, int axis, int64_t gap,
                      bool special) {
  int64_t size = (m + gap) * (n + gap), inner = (axis ? n : m) + gap;
  int64_t xs[1] = {axis ? inner : 1}, ys[1] = {axis ? n : 1};
  TsDtype wide = d == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32;
  void *x = array(d, size, special), *w = array(wide, n, false), *b = array(wide, n, false);
  TsRows a = {.op = op,
              .dtype = d,
              .nouter = 1,
              .outer_dim = &m,
              .x_stride = xs,
              .y_stride = ys,
              .n = n,
              .x_step = axis ? 1 : inner,
              .y_step = axis ? 1 : m,
              .x = x,
              .eps = 1e-5};
  if (op == TS_ROWS_layernorm || op == TS_ROWS_rmsnorm) {
    if (below(3)) a.w = w;
    if (below(2)) a.b = op == TS_ROWS_layernorm ? b : NULL;
  }
  check_rows(&a, size);
  free(x), free(w), free(b);
}

static void test_rows(void) {
  static const TsDtype types[] = {TS_DT_f32, TS_DT_f64, TS_DT_f16, TS_DT_bf16};
  for (int t = 0; t < 4; t++)
    for (int op = 0; op < 4; op++)
      for (int i = 0; i < NLENGTHS; i++) {
        int64_t n = lengths[i], m = n > 1000 ? 3 : 1 + below(70);
        case_rows((TsRowsOp)op, types[t], m, n, 1, below(2) * 3, i % 3 == 2);
        if (t < 2 || n < 5000) case_rows((TsRowsOp)op, types[t], m, n, 0, below(2), i % 3 == 2);
      }
  for (int op = 0; op < 4; op++) {
    case_rows((TsRowsOp)op, TS_DT_f32, 40, 300, 0, 0, false);
    case_rows((TsRowsOp)op, TS_DT_f32, 530, 130, 0, 0, false);
    case_rows((TsRowsOp)op, TS_DT_f32, 2200, 1000, 1, 0, false); /* stores past the caches */
    case_rows((TsRowsOp)op, TS_DT_f32, 2200, 1003, 1, 0, false);
    for (int i = 0; i < 8; i++) /* and overlap, with weights, a bias, both, and without */
      case_rows((TsRowsOp)op, TS_DT_f32, 2100, 1024, 1, 16 * (i % 2), i % 4 == 1);
    for (int i = 0; i < 2; i++) { /* of more than one leaf */
      case_rows((TsRowsOp)op, TS_DT_f32, 450, 4096 + 1024, 1, 0, i == 1);
      case_rows((TsRowsOp)op, TS_DT_f64, 1030, 1024, 1, 0, i == 1);
    }
    case_rows((TsRowsOp)op, TS_DT_f32, 2100, 1040, 1, 0, false);
    case_rows((TsRowsOp)op, TS_DT_f32, 1000, 2200, 0, 0, false);
    case_rows((TsRowsOp)op, TS_DT_f32, 2, 300001, 1, 0, false); /* all threads on a row */
    case_rows((TsRowsOp)op, TS_DT_f64, 1, 270000, 1, 0, false);
    case_rows((TsRowsOp)op, TS_DT_bf16, 1, 270000, 1, 0, false);
  }
}

/* The axis in the middle of three. */
static void test_middle(void) {
  int64_t a = 5, n = 37, c = 29, dim[] = {a, c}, stride[] = {n * c, 1};
  for (int op = 0; op < 4; op++) {
    void *x = array(TS_DT_f32, a * n * c, false);
    TsRows t = {.op = (TsRowsOp)op,
                .dtype = TS_DT_f32,
                .nouter = 2,
                .outer_dim = dim,
                .x_stride = stride,
                .y_stride = stride,
                .n = n,
                .x_step = c,
                .y_step = c,
                .x = x,
                .eps = 1e-5};
    check_rows(&t, a * n * c);
    free(x);
  }
}

/* ---- scans */

static double naive_log_add(double a, double b) {
  double hi = a < b || b != b ? b : a, lo = a < b || b != b ? a : b, y;
  float fa = (float)lo, fb = (float)hi, fy;
  TsScanArgs s = {TS_SCAN_logsumexp,
                  f32 ? (void *)&fb : (void *)&hi,
                  NULL,
                  f32 ? (void *)&fa : (void *)&lo,
                  f32 ? (void *)&fy : (void *)&y,
                  NULL,
                  1,
                  1,
                  1,
                  1,
                  1};
  rows[2].scan[f32 ? 0 : 1](&s);
  return f32 ? fy : y;
}

static void naive_scan(TsScanOp op, const double *x, int64_t n, double *y, int64_t *index) {
  for (int64_t i = 0; i < n; i++) {
    index[i] = i;
    y[i] = x[i];
    if (i == 0) continue;
    if (op == TS_SCAN_sum) y[i] = r(y[i - 1] + x[i]);
    if (op == TS_SCAN_prod) y[i] = r(y[i - 1] * x[i]);
    if (op == TS_SCAN_logsumexp) y[i] = naive_log_add(y[i - 1], x[i]);
    bool up = x[i] > y[i - 1] || (x[i] != x[i] && y[i - 1] == y[i - 1]);
    if (op == TS_SCAN_max && !up) y[i] = y[i - 1], index[i] = index[i - 1];
  }
}

/* Integers are small enough to be exact in doubles. */
static void case_scan(TsScanOp op, TsDtype d, TsDtype dy, int64_t m, int64_t n, int axis,
                      bool special) {
  int64_t size = m * n, xs = axis ? n : 1, step = axis ? 1 : m;
  void *x = array(d, size, special), *out = malloc((size_t)size * 8);
  int64_t *index = malloc((size_t)size * 24), *want_at = index + size, *at = want_at + size;
  double *wide = malloc((size_t)size * 32), *want = wide + size, *row = want + size,
         *y = row + size;
  f32 = ts_dtypes[d].accum == TS_DT_f32;
  to_wide(d, size, x, wide);
  for (int64_t o = 0; o < m; o++) {
    for (int64_t i = 0; i < n; i++) row[i] = wide[o * xs + i * step];
    naive_scan(op, row, n, y, at);
    for (int64_t i = 0; i < n; i++) {
      want[o * xs + i * step] = ts_dtype_is(dy, TS_KIND_F) ? round_to(dy, y[i]) : y[i];
      want_at[o * xs + i * step] = at[i];
    }
  }
  for (int isa = 0; isa < 3; isa++)
    for (int threads = 1; threads <= 2 && isa_ok[isa]; threads++) {
      ts_cpu_set_threads(threads);
      TsScan s = {
          op, d, dy, 1, &m, &xs, &xs, n, step, step, x, out, op == TS_SCAN_max ? index : NULL};
      ts_scan(&s, &rows[isa], &converts[isa], &copies[isa]);
      to_wide(dy, size, out, wide);
      for (int64_t i = 0; i < size; i++, checks++) {
        if (!same(wide[i], want[i]))
          report("scan", op, d, isa, threads, n, i, wide[i], want[i]);
        if (op == TS_SCAN_max && index[i] != want_at[i])
          report("scan index", op, d, isa, threads, n, i, (double)index[i], (double)want_at[i]);
      }
    }
  free(x), free(out), free(index), free(wide);
}

static void test_scans(void) {
  static const TsDtype in[] = {TS_DT_f32, TS_DT_f64, TS_DT_bf16, TS_DT_i32, TS_DT_u8};
  static const TsDtype to[] = {TS_DT_f32, TS_DT_f64, TS_DT_bf16, TS_DT_i64, TS_DT_i64};
  for (int t = 0; t < 5; t++)
    for (int op = 0; op < 4; op++)
      for (int i = 0; i < NLENGTHS; i++) {
        int64_t n = lengths[i], m = n > 500 ? 3 : 1 + below(90);
        bool ints = !ts_dtype_is(in[t], TS_KIND_F);
        if (ints && (op == TS_SCAN_logsumexp || op == TS_SCAN_prod)) continue;
        case_scan((TsScanOp)op, in[t], to[t], m, n, 1, i % 3 == 2 && !ints);
        case_scan((TsScanOp)op, in[t], to[t], m, n, 0, i % 3 == 2 && !ints);
      }
  case_scan(TS_SCAN_sum, TS_DT_f32, TS_DT_f32, 1, 70000, 1, false);
  case_scan(TS_SCAN_sum, TS_DT_f32, TS_DT_f32, 700, 90, 0, false);
}

/* log(e^a + e^b) within 2 ulp of the larger of 1 and |result| of long double. */
static void test_log_add(void) {
  f32 = true;
  for (int i = 0; i < 20000; i++, checks++) {
    float a = (float)below(1 << 20) / (1 << 14) - 32,
          b = (float)below(1 << 20) / (1 << 14) - 32;
    long double want = logl(expl(a) + expl(b)), size = fabsl(want) > 1 ? fabsl(want) : 1;
    double got = naive_log_add(a, b);
    if (fabsl(got - want) > 2 * size * 0x1p-23L)
      report("log_add", 0, TS_DT_f32, 2, 1, i, 0, got, (double)want);
  }
  if (naive_log_add(-INFINITY, -INFINITY) != -INFINITY) failures++, printf("FAIL -inf -inf\n");
  if (naive_log_add(INFINITY, INFINITY) != INFINITY) failures++, printf("FAIL inf inf\n");
  if (naive_log_add(-INFINITY, 3) != 3) failures++, printf("FAIL -inf 3\n");
  if (!isnan(naive_log_add(NAN, INFINITY))) failures++, printf("FAIL NaN inf\n");
}

/* Against long double: softmax relative, norm relative to the row's magnitude 1. */
static void test_accuracy(void) {
  int64_t n = 3000, one = 1, zero = 0;
  float *x = array(TS_DT_f32, n, false), y[3000];
  TsRowsTables t = {&reduces[2], &rows[2], &converts[2], &copies[2]};
  TsRows a = {.op = TS_ROWS_softmax,
              .dtype = TS_DT_f32,
              .nouter = 1,
              .outer_dim = &one,
              .x_stride = &zero,
              .y_stride = &zero,
              .n = n,
              .x_step = 1,
              .y_step = 1,
              .x = x,
              .y = y};
  long double sum = 0, mean = 0, var = 0;
  for (int64_t i = 0; i < n; i++) sum += expl(x[i]), mean += x[i] / (long double)n;
  for (int64_t i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / n;
  ts_rows(&a, &t);
  for (int64_t i = 0; i < n; i++, checks++)
    if (fabsl(y[i] / (expl(x[i]) / sum) - 1) > 16 * 0x1p-23L)
      failures++, printf("FAIL softmax accuracy\n");
  a.op = TS_ROWS_layernorm;
  ts_rows(&a, &t);
  for (int64_t i = 0; i < n; i++, checks++)
    if (fabsl(y[i] - (x[i] - mean) / sqrtl(var)) > 8 * 0x1p-23L)
      failures++, printf("FAIL layernorm accuracy\n");
  free(x);
}

#define FILL(i, set)                                                                           \
  ts_kernels_reduce_##set(&reduces[i]), ts_kernels_rows_##set(&rows[i]),                       \
      ts_kernels_convert_##set(&converts[i]), ts_kernels_copy_##set(&copies[i])

int main(void) {
  skip_isas();
  isa_ok[0] = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
  isa_ok[1] = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  isa_ok[2] = true;
  if (isa_ok[0]) FILL(0, avx512);
  if (isa_ok[1]) FILL(1, avx2);
  FILL(2, base);
  test_rows();
  test_middle();
  test_scans();
  test_log_add();
  test_accuracy();
  printf("rows: %d checks, %d failures\n", checks, failures);
  return failures != 0;
}
