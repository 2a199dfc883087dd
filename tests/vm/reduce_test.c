/* Reductions against a scalar reading of the order in numerics: bit for bit, for every
 * instruction set, thread count and layout; and their accuracy against long double. */
#include "devices/cpu_pool.h"
#include "tests/skip.h"
#include "vm/rows/reduce.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures, checks;
static TsReduceKernels kernels[3];
static TsConvertKernels converts[3];
static const char *const isa_names[3] = {"avx512", "avx2", "base"};
static bool isa_ok[3];

/* ---- random numbers */

static uint64_t seed = 88172645463325252u;

static uint64_t rnd(void) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return seed * 2685821657736338717u >> 11;
}

static int64_t below(int64_t n) { return (int64_t)(rnd() % (uint64_t)n); }

/* ---- the order, as it is written */

typedef double Comb(double a, double b);
static double add_f32(double a, double b) { return (float)a + (float)b; }
static double mul_f32(double a, double b) { return (float)a * (float)b; }
static double add_f64(double a, double b) { return a + b; }
static double mul_f64(double a, double b) { return a * b; }

static double naive_tree(const double *x, int64_t n, int64_t lanes, double first, Comb *f) {
  int64_t leaves = (n + 4095) / 4096;
  if (n == 0) return 0;
  double *s = malloc((size_t)leaves * sizeof *s), acc[256];
  for (int64_t j = 0; j < leaves; j++) {
    int64_t k = n - j * 4096 < 4096 ? n - j * 4096 : 4096, w = 1;
    while (w < k && w < lanes) w *= 2;
    for (int64_t l = 0; l < lanes; l++) acc[l] = first;
    for (int64_t i = 0; i < k; i++) acc[i % lanes] = f(acc[i % lanes], x[j * 4096 + i]);
    for (int64_t h = w / 2; h >= 1; h /= 2)
      for (int64_t l = 0; l < h; l++) acc[l] = f(acc[l], acc[l + h]);
    s[j] = acc[0];
  }
  for (; leaves > 1; leaves = (leaves + 1) / 2) {
    for (int64_t i = 0; i < leaves / 2; i++) s[i] = f(s[2 * i], s[2 * i + 1]);
    if (leaves % 2) s[leaves / 2] = s[leaves - 1];
  }
  double r = s[0];
  free(s);
  return r;
}

/* ---- elements as doubles (exact), integers as integers */

static double decode(unsigned bits, int exponent_bits, int mantissa_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  int e = (int)(bits >> mantissa_bits) & top, m = (int)(bits & ((1u << mantissa_bits) - 1));
  double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
  if (e == top && exponent_bits == 4) return m == 7 ? NAN : sign * ldexp(8 + m, e - bias - 3);
  if (e == top) return m ? NAN : sign * INFINITY;
  if (e == 0) return sign * ldexp(m, 1 - bias - mantissa_bits);
  return sign * ldexp((1 << mantissa_bits) + m, e - bias - mantissa_bits);
}

static double float_at(TsDtype d, const void *x, int64_t i) {
  switch (d) {
  case TS_DT_f32: return ((const float *)x)[i];
  case TS_DT_f64: return ((const double *)x)[i];
  case TS_DT_f16: return decode(((const uint16_t *)x)[i], 5, 10);
  case TS_DT_bf16: return decode(((const uint16_t *)x)[i], 8, 7);
  case TS_DT_fp8_e4m3: return decode(((const uint8_t *)x)[i], 4, 3);
  case TS_DT_fp8_e5m2: return decode(((const uint8_t *)x)[i], 5, 2);
  default: return NAN;
  }
}

static int64_t int_at(TsDtype d, const void *x, int64_t i) {
  switch (d) {
  case TS_DT_bool:
  case TS_DT_u8: return ((const uint8_t *)x)[i];
  case TS_DT_i8: return ((const int8_t *)x)[i];
  case TS_DT_i16: return ((const int16_t *)x)[i];
  case TS_DT_i32: return ((const int32_t *)x)[i];
  default: return ((const int64_t *)x)[i];
  }
}

/* ---- the expected value of one output */

static bool same_f(double a, double b) { return (a != a && b != b) || memcmp(&a, &b, 8) == 0; }

/* a precedes b in the total order of minimum and maximum */
static bool lower(double a, double b) { return a < b || (a == b && signbit(a) && !signbit(b)); }

static double pick(const double *x, int64_t n, bool max) {
  double best = max ? -INFINITY : INFINITY;
  for (int64_t i = 0; i < n; i++) {
    if (x[i] != x[i]) return NAN;
    if (max ? lower(best, x[i]) : lower(x[i], best)) best = x[i];
  }
  return best;
}

static int64_t pick_index(const double *x, int64_t n, bool max) {
  int64_t best = n ? 0 : -1;
  for (int64_t i = 0; i < n; i++) {
    if (x[i] != x[i]) return i;
    if (max ? x[i] > x[best] : x[i] < x[best]) best = i;
  }
  return best;
}

static double round_to(bool f32, double x) { return f32 ? (float)x : x; }

/* exp, pow and log are defined elsewhere: taken from the portable kernels, one by one. */
static double map_one(bool f32, int map, double x, double c, double p) {
  switch (map) {
  case TS_MAP_none: return x;
  case TS_MAP_square: return round_to(f32, x * x);
  case TS_MAP_abs: return fabs(x);
  case TS_MAP_sqdev: {
    double d = round_to(f32, x - c);
    return round_to(f32, d * d);
  }
  case TS_MAP_nonzero: return x != 0;
  default: {
    float f = (float)x;
    if (f32)
      kernels[2].map[TS_RED_F32](map, &f, &f, 1, c, p);
    else
      kernels[2].map[TS_RED_F64](map, &x, &x, 1, c, p);
    return f32 ? f : x;
  }
  }
}

static double mapped_sum(const TsReduce *r, bool f32, const double *x, int64_t n, int map,
                         double c, bool prod) {
  double *y = malloc((size_t)(n + 1) * sizeof *y);
  for (int64_t i = 0; i < n; i++) y[i] = map_one(f32, map, x[i], c, r->p);
  double s = prod ? naive_tree(y, n, f32 ? 256 : 128, 1.0, f32 ? mul_f32 : mul_f64)
                  : naive_tree(y, n, f32 ? 256 : 128, -0.0, f32 ? add_f32 : add_f64);
  free(y);
  return prod && n == 0 ? 1 : s;
}

static double expect_float(const TsReduce *r, bool f32, const double *x, int64_t n, double c) {
  double s, m, count = (double)n - r->correction;
  switch (r->op) {
  case TS_REDUCE_sum: return mapped_sum(r, f32, x, n, (int)r->map, c, false);
  case TS_REDUCE_prod: return mapped_sum(r, f32, x, n, (int)r->map, c, true);
  case TS_REDUCE_mean: return round_to(f32, mapped_sum(r, f32, x, n, 0, 0, false) / (double)n);
  case TS_REDUCE_var:
  case TS_REDUCE_std:
    m = round_to(f32, mapped_sum(r, f32, x, n, 0, 0, false) / (double)n);
    s = mapped_sum(r, f32, x, n, TS_MAP_sqdev, m, false);
    s = round_to(f32, s / (count > 0 ? count : 0));
    return r->op == TS_REDUCE_std ? round_to(f32, sqrt(s)) : s;
  case TS_REDUCE_logsumexp: {
    m = pick(x, n, true);
    m = isfinite(m) ? m : 0;
    s = mapped_sum(r, f32, x, n, TS_MAP_exp, m, false);
    float mf = (float)m, sf = (float)s;
    if (f32)
      kernels[2].log_add[0](&sf, &mf, 1);
    else
      kernels[2].log_add[1](&s, &m, 1);
    return f32 ? sf : s;
  }
  default: {
    double *y = malloc((size_t)(n + 1) * sizeof *y);
    for (int64_t i = 0; i < n; i++) y[i] = map_one(f32, (int)r->map, x[i], c, r->p);
    s = pick(y, n, r->op == TS_REDUCE_max);
    free(y);
    return s;
  }
  }
}

static int64_t expect_int(const TsReduce *r, const int64_t *x, int64_t n) {
  uint64_t s = r->op == TS_REDUCE_prod;
  int64_t best = r->op == TS_REDUCE_max ? INT64_MIN : INT64_MAX, at = n ? 0 : -1;
  for (int64_t i = 0; i < n; i++) {
    int64_t v = x[i];
    if (r->map == TS_MAP_square) v = (int64_t)((uint64_t)v * (uint64_t)v);
    if (r->map == TS_MAP_abs && v < 0) v = (int64_t)(0 - (uint64_t)v);
    if (r->map == TS_MAP_nonzero) v = v != 0;
    s = r->op == TS_REDUCE_prod ? s * (uint64_t)v : s + (uint64_t)v;
    if (r->op == TS_REDUCE_max ? v > best : v < best) best = v;
    if (r->op == TS_REDUCE_argmax ? v > x[at] : v < x[at]) at = i;
  }
  if (r->op == TS_REDUCE_argmin || r->op == TS_REDUCE_argmax) return at;
  return r->op == TS_REDUCE_min || r->op == TS_REDUCE_max ? best : (int64_t)s;
}

static int64_t offset_of(int64_t i, int nd, const int64_t *dim, const int64_t *stride) {
  int64_t at = 0;
  for (int d = nd - 1; d >= 0; d--) at += i % dim[d] * stride[d], i /= dim[d];
  return at;
}

static int64_t product(const int64_t *d, int n) {
  int64_t p = 1;
  for (int i = 0; i < n; i++) p *= d[i];
  return p;
}

static bool is_test_op(TsReduceOp op) {
  return op == TS_REDUCE_any || op == TS_REDUCE_all || op == TS_REDUCE_count_nonzero;
}

/* Complex products by the definition in reduce_cprod.h. */
static void naive_cprod(double (*x)[2], int64_t n, bool f32, double *out) {
  int64_t lanes = f32 ? 256 : 128, leaves = (n + 4095) / 4096;
#define CMUL(a, b)                                                                             \
  do {                                                                                         \
    double re_ =                                                                               \
        round_to(f32, round_to(f32, (a)[0] * (b)[0]) - round_to(f32, (a)[1] * (b)[1]));        \
    double im_ =                                                                               \
        round_to(f32, round_to(f32, (a)[0] * (b)[1]) + round_to(f32, (a)[1] * (b)[0]));        \
    (a)[0] = re_, (a)[1] = im_;                                                                \
  } while (0)
  for (int64_t j = 0; j < leaves; j++) {
    double(*y)[2] = x + j * 4096;
    int64_t k = n - j * 4096 < 4096 ? n - j * 4096 : 4096, live = k < lanes ? k : lanes, w = 1;
    while (w < live) w *= 2;
    for (int64_t i = lanes; i < k; i++) CMUL(y[i % lanes], y[i]);
    for (int64_t h = w / 2; h >= 1; h /= 2)
      for (int64_t l = 0; l < h; l++)
        if (l + h < live) CMUL(y[l], y[l + h]);
    memcpy(x[j], y[0], sizeof x[0]);
  }
  for (; leaves > 1; leaves = (leaves + 1) / 2) {
    for (int64_t i = 0; i < leaves / 2; i++) {
      CMUL(x[2 * i], x[2 * i + 1]);
      memcpy(x[i], x[2 * i], sizeof x[0]);
    }
    if (leaves % 2) memcpy(x[leaves / 2], x[leaves - 1], sizeof x[0]);
  }
  memcpy(out, x[0], sizeof x[0]);
}

/* Output o into want[0..1] (floats) or *iwant; says which. */
static bool expect(const TsReduce *r, int64_t o, double *want, int64_t *iwant) {
  int64_t n = product(r->inner_dim, r->ninner);
  int64_t base = offset_of(o, r->nouter, r->outer_dim, r->outer_stride);
  bool complex = ts_dtype_is(r->dtype, TS_KIND_C), real = ts_dtype_is(r->dtype, TS_KIND_F);
  bool f32 = ts_dtypes[r->dtype].accum == TS_DT_f32 || r->dtype == TS_DT_complex64;
  TsDtype part = complex ? (f32 ? TS_DT_f32 : TS_DT_f64) : r->dtype;
  double *x = malloc((size_t)(2 * n + 2) * sizeof *x), *im = x + n + 1;
  int64_t *k = malloc((size_t)(n + 1) * sizeof *k), hits = 0;
  bool ints = !complex && !real;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = base + offset_of(i, r->ninner, r->inner_dim, r->inner_stride);
    if (ints)
      k[i] = int_at(r->dtype, r->x, at);
    else
      x[i] = float_at(part, r->x, complex ? 2 * at : at);
    if (complex) im[i] = float_at(part, r->x, 2 * at + 1);
    hits += ints ? k[i] != 0 : x[i] != 0 || (complex && im[i] != 0);
  }
  double c = r->c && !complex ? float_at(f32 ? TS_DT_f32 : TS_DT_f64, r->c, o) : 0;
  bool is_int = true;
  if (r->op == TS_REDUCE_any)
    *iwant = hits > 0;
  else if (r->op == TS_REDUCE_all)
    *iwant = hits == n;
  else if (r->op == TS_REDUCE_count_nonzero)
    *iwant = hits;
  else if (ints)
    *iwant = expect_int(r, k, n);
  else if (r->op == TS_REDUCE_argmin || r->op == TS_REDUCE_argmax)
    *iwant = pick_index(x, n, r->op == TS_REDUCE_argmax);
  else
    is_int = false;
  if (!is_int && complex && r->op == TS_REDUCE_prod) {
    double(*z)[2] = malloc((size_t)(n + 1) * sizeof *z);
    for (int64_t i = 0; i < n; i++) z[i][0] = x[i], z[i][1] = im[i];
    want[0] = 1, want[1] = 0;
    if (n) naive_cprod(z, n, f32, want);
    free(z);
  } else if (!is_int) {
    want[0] = expect_float(r, f32, x, n, c);
    if (complex) want[1] = expect_float(r, f32, im, n, c);
  }
  free(x), free(k);
  return is_int;
}

static void report(const TsReduce *r, int isa, int threads, int64_t o, const char *got) {
  if (++failures > 20) return;
  printf("FAIL op %d map %d %s isa %s threads %d output %lld: %s; outer", (int)r->op,
         (int)r->map, ts_dtype_name(r->dtype), isa_names[isa], threads, (long long)o, got);
  for (int i = 0; i < r->nouter; i++)
    printf(" %lld/%lld", (long long)r->outer_dim[i], (long long)r->outer_stride[i]);
  printf(" inner");
  for (int i = 0; i < r->ninner; i++)
    printf(" %lld/%lld", (long long)r->inner_dim[i], (long long)r->inner_stride[i]);
  printf("\n");
}

static void check_output(const TsReduce *r, int isa, int threads, int64_t o, bool is_int,
                         const double *want, int64_t iwant) {
  char text[160];
  bool complex = ts_dtype_is(r->dtype, TS_KIND_C);
  bool f32 = ts_dtypes[r->dtype].accum == TS_DT_f32 || r->dtype == TS_DT_complex64;
  checks++;
  if (is_int) {
    int64_t got = ((const int64_t *)r->out)[o];
    snprintf(text, sizeof text, "%lld not %lld", (long long)got, (long long)iwant);
    if (got != iwant) report(r, isa, threads, o, text);
    return;
  }
  for (int i = 0; i < 1 + complex; i++) {
    double got = float_at(f32 ? TS_DT_f32 : TS_DT_f64, r->out, o * (1 + complex) + i);
    snprintf(text, sizeof text, "%a not %a", got, want[i]);
    if (!same_f(got, want[i])) report(r, isa, threads, o, text);
  }
}

/* Runs r on every instruction set with one and two threads and compares all outputs. */
static void check(TsReduce *r) {
  int64_t outer = product(r->outer_dim, r->nouter);
  double(*want)[2] = malloc((size_t)(outer + 1) * sizeof *want);
  int64_t *iwant = malloc((size_t)(outer + 1) * sizeof *iwant);
  bool is_int = false;
  for (int64_t o = 0; o < outer; o++) is_int = expect(r, o, want[o], &iwant[o]);
  r->out = malloc((size_t)(outer + 1) * 16);
  for (int isa = 0; isa < 3; isa++)
    for (int threads = 1; threads <= 2 && isa_ok[isa]; threads++) {
      TsReduceTables t = {&kernels[isa], &converts[isa]};
      ts_cpu_set_threads(threads);
      memset(r->out, 0x5a, (size_t)(outer + 1) * 16);
      if (ts_reduce(r, &t) != 0) report(r, isa, threads, 0, "failed");
      for (int64_t o = 0; o < outer; o++)
        check_output(r, isa, threads, o, is_int, want[o], iwant[o]);
    }
  free(want), free(iwant), free(r->out);
}

/* ---- inputs */

/* Element i of a random array; `special`: one in 64 is an infinity, NaN or zero. */
static void put(TsDtype d, void *x, int64_t i, bool special) {
  static const double odd[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0, 1.0};
  double v = (double)below(1 << 24) / (1 << 22) - 2.0;
  if (special && below(64) == 0) v = odd[below(6)];
  if (special && below(16) == 0) v = below(2) ? -0.0 : 0.0;
  switch (d) {
  case TS_DT_f32: ((float *)x)[i] = (float)v; break;
  case TS_DT_f64: ((double *)x)[i] = v + ldexp((double)below(1000), -40); break;
  case TS_DT_f16:
    ((uint16_t *)x)[i] = (uint16_t)(special ? below(65536) : below(0x4000) | below(2) << 15);
    break;
  case TS_DT_bf16:
    ((uint16_t *)x)[i] = (uint16_t)(0x3f00 + below(256) + (below(2) << 15));
    break;
  case TS_DT_fp8_e4m3:
  case TS_DT_fp8_e5m2: ((uint8_t *)x)[i] = (uint8_t)(special ? below(256) : below(0x60)); break;
  case TS_DT_bool: ((uint8_t *)x)[i] = special ? below(2) : 1; break;
  case TS_DT_u8:
  case TS_DT_i8: ((uint8_t *)x)[i] = (uint8_t)(special ? below(4) / 3 : below(256)); break;
  case TS_DT_i16: ((int16_t *)x)[i] = (int16_t)below(65536); break;
  case TS_DT_i32: ((int32_t *)x)[i] = (int32_t)(rnd() >> 8); break;
  case TS_DT_i64: ((int64_t *)x)[i] = (int64_t)(rnd() << 11 ^ rnd()); break;
  case TS_DT_complex64:
    put(TS_DT_f32, x, 2 * i, special), put(TS_DT_f32, x, 2 * i + 1, special);
    break;
  case TS_DT_complex128:
    put(TS_DT_f64, x, 2 * i, special), put(TS_DT_f64, x, 2 * i + 1, special);
    break;
  default: break;
  }
}

static void *array(TsDtype d, int64_t n, bool special) {
  void *x = malloc((size_t)(n + 1) * ts_dtypes[d].nbytes);
  for (int64_t i = 0; i < n; i++) put(d, x, i, special);
  return x;
}

static const int64_t lengths[] = {0,    1,    2,    3,    7,     8,     15,    16,   17,   31,
                                  33,   63,   64,   65,   127,   128,   129,   200,  255,  256,
                                  257,  300,  511,  512,  1000,  1024,  2047,  4095, 4096, 4097,
                                  4352, 8191, 8192, 8193, 12289, 20480, 100003};
enum { NLENGTHS = sizeof lengths / sizeof *lengths };

static const TsDtype all_types[] = {
    TS_DT_bool, TS_DT_u8,       TS_DT_i8,        TS_DT_i16,       TS_DT_i32,
    TS_DT_i64,  TS_DT_fp8_e4m3, TS_DT_fp8_e5m2,  TS_DT_f16,       TS_DT_bf16,
    TS_DT_f32,  TS_DT_f64,      TS_DT_complex64, TS_DT_complex128};

/* Whether the operation takes the type. */
static bool takes(TsReduceOp op, TsDtype d) {
  if (ts_dtype_is(d, TS_KIND_C))
    return op == TS_REDUCE_sum || op == TS_REDUCE_prod || is_test_op(op);
  return ts_dtype_is(d, TS_KIND_F) || op < TS_REDUCE_mean;
}

static void test_rows(void) {
  for (int t = 10; t < 12; t++)
    for (int i = 0; i < NLENGTHS; i++) {
      int64_t n = lengths[i], rows = n > 10000 ? 3 : n > 1000 ? 5 : 37, gap = below(2) * 3;
      void *x = array(all_types[t], rows * (n + gap), i % 4 == 3);
      int64_t stride = n + gap, one = 1;
      for (int op = 0; op <= TS_REDUCE_logsumexp; op++)
        for (int map = 0; map <= TS_MAP_nonzero; map++) {
          if (map && (op > TS_REDUCE_max || n > 5000)) continue;
          void *c = array(all_types[t], rows, false);
          TsReduce r = {.op = (TsReduceOp)op,
                        .map = (TsReduceMap)map,
                        .dtype = all_types[t],
                        .nouter = 1,
                        .ninner = 1,
                        .outer_dim = &rows,
                        .outer_stride = &stride,
                        .inner_dim = &n,
                        .inner_stride = &one,
                        .x = x,
                        .p = 3,
                        .correction = 1};
          if (map == TS_MAP_sqdev || map == TS_MAP_exp) r.c = c;
          if (op != TS_REDUCE_logsumexp || n < 5000) check(&r);
          free(c);
        }
      free(x);
    }
}

static void test_columns(void) {
  static const int64_t widths[] = {1, 2, 3, 5, 16, 17, 63, 65, 130, 257, 511, 513, 1100};
  for (int t = 10; t < 12; t++)
    for (int i = 1; i < NLENGTHS; i++)
      for (int j = 0; j < 13; j++) {
        int64_t m = lengths[i], n = widths[j], ld = n + below(2) * below(5), one = 1;
        if (m * n > 300000 || (m > 600 && j % 3 != i % 3)) continue;
        void *x = array(all_types[t], m * ld, i % 4 == 3), *c = array(all_types[t], n, false);
        static const int maps[] = {0, 1, 2, 3, 5};
        TsReduce r = {.dtype = all_types[t],
                      .nouter = 1,
                      .ninner = 1,
                      .outer_dim = &n,
                      .outer_stride = &one,
                      .inner_dim = &m,
                      .inner_stride = &ld,
                      .x = x,
                      .c = c};
        for (int k = 0; k < 5; k++) {
          r.map = (TsReduceMap)maps[k];
          check(&r);
        }
        r.map = TS_MAP_none, r.c = NULL;
        r.op = TS_REDUCE_prod, check(&r);
        r.op = TS_REDUCE_max, check(&r);
        r.op = TS_REDUCE_argmin, check(&r);
        free(x), free(c);
      }
}

/* Random axes in random memory order, some turned round or with gaps. */
static void test_layouts(int count) {
  for (int i = 0; i < count; i++) {
    TsDtype d = all_types[below(14)];
    TsReduceOp op = (TsReduceOp)below(TS_REDUCE_logsumexp + 1);
    if (!takes(op, d)) continue;
    int nd = 1 + (int)below(5), order[6], nin = (int)below(nd + 1);
    int64_t dim[6], stride[6], total = 1, base = 0;
    for (int a = 0; a < nd; a++) {
      dim[a] = below(8) == 0 ? 1 : 1 + below(below(6) == 0 ? 700 : below(3) ? 6 : 40);
      if (total * dim[a] > 60000) dim[a] = 1;
      total *= dim[a];
      order[a] = a;
    }
    for (int a = 0; a < nd; a++) {
      int b = (int)below(nd), s = order[a];
      order[a] = order[b], order[b] = s;
    }
    int64_t s = 1 + (below(4) == 0) * below(3);
    for (int a = nd - 1; a >= 0; a--) {
      stride[order[a]] = s;
      s *= dim[order[a]] + (below(6) == 0) * below(3);
    }
    for (int a = 0; a < nd; a++)
      if (below(6) == 0) base += (dim[a] - 1) * stride[a], stride[a] = -stride[a];
    char *x = array(d, s + 1, below(3) == 0);
    TsReduce r = {.op = op,
                  .dtype = d,
                  .nouter = nd - nin,
                  .ninner = nin,
                  .outer_dim = dim,
                  .outer_stride = stride,
                  .inner_dim = dim + nd - nin,
                  .inner_stride = stride + nd - nin,
                  .x = x + base * ts_dtypes[d].nbytes,
                  .correction = (double)below(2)};
    if (op <= TS_REDUCE_max && !ts_dtype_is(d, TS_KIND_C)) r.map = (TsReduceMap)below(3);
    check(&r);
    free(x);
  }
}

/* Long rows in every type, each operation. */
static void test_types(void) {
  int64_t n = 9000, one = 1;
  for (int t = 0; t < 14; t++)
    for (int op = 0; op <= TS_REDUCE_logsumexp; op++)
      for (int special = 0; special < 2; special++) {
        if (!takes((TsReduceOp)op, all_types[t])) continue;
        void *x = array(all_types[t], n, special);
        TsReduce r = {.op = (TsReduceOp)op,
                      .dtype = all_types[t],
                      .ninner = 1,
                      .inner_dim = &n,
                      .inner_stride = &one,
                      .x = x,
                      .correction = 1};
        check(&r);
        free(x);
      }
}

/* The tree's error grows with the logarithm of n: a bound from the chain in a lane (16
 * additions), 8 halves and log2 of the leaves, each half an ulp of the sum of magnitudes. */
static void test_accuracy(void) {
  int64_t n = 1 << 20, one = 1;
  float *x = malloc((size_t)n * sizeof *x), got;
  long double sum = 0, size = 0;
  for (int64_t i = 0; i < n; i++) {
    x[i] = (float)below(1 << 24) / (1 << 24) - 0.25f;
    sum += x[i], size += fabsf(x[i]);
  }
  TsReduce r = {.dtype = TS_DT_f32,
                .ninner = 1,
                .inner_dim = &n,
                .inner_stride = &one,
                .x = x,
                .out = &got};
  TsReduceTables t = {&kernels[2], &converts[2]};
  ts_reduce(&r, &t);
  if (fabsl(got - sum) > size * 32 * 0x1p-24L) failures++, printf("FAIL accuracy\n");
  checks++;
  free(x);
}

int main(void) {
  skip_isas();
  isa_ok[0] = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
  isa_ok[1] = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  isa_ok[2] = true;
  if (isa_ok[0]) ts_kernels_reduce_avx512(&kernels[0]), ts_kernels_convert_avx512(&converts[0]);
  if (isa_ok[1]) ts_kernels_reduce_avx2(&kernels[1]), ts_kernels_convert_avx2(&converts[1]);
  ts_kernels_reduce_base(&kernels[2]), ts_kernels_convert_base(&converts[2]);
  test_rows();
  test_columns();
  test_types();
  test_layouts(1500);
  test_accuracy();
  printf("reduce: %d checks, %d failures\n", checks, failures);
  return failures != 0;
}
