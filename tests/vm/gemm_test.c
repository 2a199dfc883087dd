/* The matrix product against the naive chain of fma(): equal bits for all types,
 * edges of every block, all kinds of strides, each instruction set of this CPU,
 * one and several threads. A program of its own: it brings a pool that deals the
 * work out in random pieces, so that bits which depend on the split show up.
 * Usage: gemm_test [rounds [seed]] */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "tests/skip.h"
#include "vm/gemm/gemm.h"

/* ---- random numbers, and the pool ---- */

static uint64_t seed = 1;

static uint32_t rnd(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33);
}

static int64_t below(int64_t n) { return (int64_t)(rnd() % (uint64_t)n); }

static int n_threads = 1;

typedef struct Half {
  TsTask *task;
  void *arg;
  int64_t lo, hi;
} Half;

static void *second_half(void *p) {
  Half *h = p;
  if (h->lo < h->hi) h->task(h->arg, h->lo, h->hi, 1);
  return NULL;
}

int ts_cpu_threads(void) { return n_threads; }

/* Two threads run truly at once; three are pieces under random worker numbers. */
void ts_cpu_parallel(int64_t n, int64_t grain, TsTask *task, void *arg) {
  if (n_threads == 2) {
    pthread_t t;
    Half h = {task, arg, below(n + 1), n};
    pthread_create(&t, NULL, second_half, &h);
    if (h.lo > 0) task(arg, 0, h.lo, 0);
    pthread_join(t, NULL);
    return;
  }
  for (int64_t i = 0; i < n;) {
    int64_t piece = n_threads == 1 ? n : 1 + below(grain + 2);
    int64_t hi = i + piece < n ? i + piece : n;
    task(arg, i, hi, (int)below(n_threads));
    i = hi;
  }
}

/* ---- element types: to and from double, by tables for the narrow floats ---- */

enum { NAMES = TS_GEMM_COUNT };
static const char *const names[NAMES] = {"f32", "f64", "bf16", "f16", "e4m3", "e5m2", "i8",
                                         "u8",  "i16", "i32",  "i64", "c64",  "c128"};
static const int sizes[NAMES] = {4, 8, 2, 2, 1, 1, 1, 1, 2, 4, 8, 8, 16};

typedef struct Narrow {
  int bits, mant, bias;
  bool has_inf;
} Narrow;

static const Narrow narrow[NAMES] = {[TS_GEMM_bf16] = {16, 7, 127, true},
                                     [TS_GEMM_f16] = {16, 10, 15, true},
                                     [TS_GEMM_e4m3] = {8, 3, 7, false},
                                     [TS_GEMM_e5m2] = {8, 2, 15, true}};

static double magnitude(const Narrow *f, unsigned code) {
  int e = (int)(code >> f->mant), m = (int)(code & ((1u << f->mant) - 1));
  return e == 0 ? ldexp(m, 1 - f->bias - f->mant)
                : ldexp(m + (1 << f->mant), e - f->bias - f->mant);
}

static unsigned first_special(const Narrow *f) {
  return (1u << (f->bits - 1)) - (f->has_inf ? 1u << f->mant : 1u);
}

static double decode(const Narrow *f, unsigned code) {
  unsigned sign = code >> (f->bits - 1), mag = code & ((1u << (f->bits - 1)) - 1);
  double x = magnitude(f, mag);
  if (mag >= first_special(f)) x = f->has_inf && mag == first_special(f) ? INFINITY : NAN;
  return sign ? -x : x;
}

/* Nearest code by bisection over the codes' values, ties to the even code. What
 * is nearer to the value that infinity's code would have becomes it; a format
 * without infinity saturates. */
static unsigned encode(const Narrow *f, double x) {
  unsigned sign = signbit(x) ? 1u << (f->bits - 1) : 0, lo = 0, hi = first_special(f);
  if (isnan(x)) return sign | (hi + (f->has_inf ? 1 : 0));
  x = fabs(x);
  if (!f->has_inf) hi--;
  if (x >= magnitude(f, hi)) return sign | hi;
  while (hi - lo > 1) {
    unsigned mid = (lo + hi) / 2;
    if (magnitude(f, mid) <= x)
      lo = mid;
    else
      hi = mid;
  }
  double down = x - magnitude(f, lo), up = magnitude(f, hi) - x;
  return sign | (down < up || (down == up && lo % 2 == 0) ? lo : hi);
}

static double get_float(TsGemmType t, const void *p) {
  float f;
  double d;
  uint16_t h;
  if (t == TS_GEMM_f32 || t == TS_GEMM_c64) return memcpy(&f, p, 4), f;
  if (t == TS_GEMM_f64 || t == TS_GEMM_c128) return memcpy(&d, p, 8), d;
  memcpy(&h, p, (size_t)sizes[t]);
  return decode(&narrow[t], sizes[t] == 1 ? *(const uint8_t *)p : h);
}

static void put_float(TsGemmType t, void *p, double x) {
  float f = (float)x;
  if (t == TS_GEMM_f32 || t == TS_GEMM_c64)
    memcpy(p, &f, 4);
  else if (t == TS_GEMM_f64 || t == TS_GEMM_c128)
    memcpy(p, &x, 8);
  else {
    uint16_t code = (uint16_t)encode(&narrow[t], x);
    memcpy(p, &code, (size_t)sizes[t]);
  }
}

static int64_t get_int(TsGemmType t, const void *p) {
  int16_t h;
  int32_t i;
  int64_t l;
  if (t == TS_GEMM_i8) return *(const int8_t *)p;
  if (t == TS_GEMM_u8) return *(const uint8_t *)p;
  if (t == TS_GEMM_i16) return memcpy(&h, p, 2), h;
  if (t == TS_GEMM_i32) return memcpy(&i, p, 4), i;
  return memcpy(&l, p, 8), l;
}

static bool is_int(TsGemmType t) { return t >= TS_GEMM_i8 && t <= TS_GEMM_i64; }
static bool is_complex(TsGemmType t) { return t == TS_GEMM_c64 || t == TS_GEMM_c128; }
static bool is_f64(TsGemmType t) { return t == TS_GEMM_f64 || t == TS_GEMM_c128; }

/* Numbers of mixed size; now and then something special. */
static void put_random(TsGemmType t, void *p, bool special) {
  if (is_int(t)) {
    uint64_t x = (uint64_t)rnd() << 33 ^ rnd();
    memcpy(p, &x, (size_t)sizes[t]);
    return;
  }
  for (int part = 0; part < (is_complex(t) ? 2 : 1); part++) {
    double x = ldexp((double)rnd() - 0x1p30, (int)below(12) - 36);
    if (special && below(40) == 0) {
      static const double odd[] = {INFINITY, -INFINITY, NAN, -0.0, 0x1p-140, 3e38, 0x1p-16};
      x = odd[below(7)];
    }
    put_float(t, (char *)p + part * sizes[t] / 2, x);
  }
}

/* ---- matrices under all kinds of strides ---- */

typedef struct Matrix {
  char *mem, *p; /* allocated exactly, so that a sanitizer sees every overrun */
  int64_t rs, cs, nbytes, *batch;
} Matrix;

enum { OPERAND, RESULT, PLAIN, PLAIN_SHARED }; /* plain: dense, batch after batch */

static Matrix make_matrix(TsGemmType t, int64_t batch, int64_t rows, int64_t cols, int role,
                          bool special) {
  int64_t r1 = rows > 0 ? rows - 1 : 0, c1 = cols > 0 ? cols - 1 : 0;
  int64_t pad = role >= PLAIN ? 0 : below(4);
  Matrix x = {.rs = cols + pad, .cs = 1};
  switch (role >= PLAIN ? 9 : below(role == RESULT ? 6 : 9)) {
  case 0: x.rs = 1, x.cs = rows + pad; break;
  case 1: x.rs = 2 * (cols + pad), x.cs = 2; break;
  case 2: x.rs = -x.rs; break;
  case 3: x.rs = 3, x.cs = -3 * (rows + pad); break;
  case 6: x.rs = 0; break;
  case 7: x.cs = 0; break;
  case 8: x.rs = 1, x.cs = 0; break;
  default: break;
  }
  int64_t lo = (x.rs < 0 ? x.rs * r1 : 0) + (x.cs < 0 ? x.cs * c1 : 0);
  int64_t hi = (x.rs > 0 ? x.rs * r1 : 0) + (x.cs > 0 ? x.cs * c1 : 0);
  int64_t each = hi - lo + 1;
  bool shared = role == PLAIN_SHARED || (role == OPERAND && below(2));
  x.nbytes = (shared ? 1 : batch) * each * sizes[t];
  x.mem = malloc((size_t)(x.nbytes > 0 ? x.nbytes : 1));
  x.p = x.mem - lo * sizes[t];
  x.batch = malloc((size_t)(batch + 1) * sizeof(int64_t));
  for (int64_t b = 0; b < batch; b++) x.batch[b] = shared ? 0 : b * each;
  for (int64_t i = 0; i < x.nbytes; i += sizes[t]) {
    put_random(t, x.mem + i, special);
  }
  return x;
}

static char *at(const Matrix *x, TsGemmType t, int64_t b, int64_t i, int64_t j) {
  return x->p + (x->batch[b] + i * x->rs + j * x->cs) * sizes[t];
}

static void free_matrix(Matrix *x) {
  free(x->mem);
  free(x->batch);
}

/* ---- one case ---- */

typedef struct Case {
  TsGemm g;
  Matrix a, b, c, want;
  TsGemmType in, out;
  void *bias;
  uint8_t *seen; /* by the finish callback */
} Case;

/* The finish of the tests: negates and adds the column's parity. */
static double finished(double acc, int64_t col) { return -acc + (double)(col % 2); }
static float finished_f(float acc, int64_t col) { return -acc + (float)(col % 2); }

static void finish(void *arg, void *acc, int64_t batch, int64_t row, int64_t col, int64_t n) {
  Case *s = arg;
  for (int64_t j = 0; j < n; j++) {
    __atomic_add_fetch(&s->seen[(batch * s->g.m + row) * s->g.n + col + j], 1,
                       __ATOMIC_RELAXED);
    if (s->in == TS_GEMM_f64)
      ((double *)acc)[j] = finished(((double *)acc)[j], col + j);
    else
      ((float *)acc)[j] = finished_f(((float *)acc)[j], col + j);
  }
}

static void fill(const Matrix *x, bool columns, TsGemmType t, void *dst, int width, int64_t b,
                 int64_t i0, int64_t n, int64_t k0, int64_t nk) {
  for (int64_t k = 0; k < nk; k++) {
    for (int64_t i = 0; i < width; i++) {
      char *p = columns ? at(x, t, b, k0 + k, i0 + i) : at(x, t, b, i0 + i, k0 + k);
      double v = i < n ? get_float(t, p) : 0;
      if (t == TS_GEMM_f64)
        ((double *)dst)[k * width + i] = v;
      else
        ((float *)dst)[k * width + i] = (float)v;
    }
  }
}

static void fill_a(void *arg, void *dst, int width, int64_t batch, int64_t i0, int64_t n,
                   int64_t k0, int64_t nk) {
  const Case *s = arg;
  fill(&s->a, false, s->in, dst, width, batch, i0, n, k0, nk);
}

static void fill_b(void *arg, void *dst, int width, int64_t batch, int64_t i0, int64_t n,
                   int64_t k0, int64_t nk) {
  const Case *s = arg;
  fill(&s->b, true, s->in, dst, width, batch, i0, n, k0, nk);
}

static double fma_in(bool f64, double a, double b, double c) {
  return f64 ? fma(a, b, c) : (double)fmaf((float)a, (float)b, (float)c);
}

static void want_float(Case *s, int64_t b, int64_t i, int64_t j) {
  bool f64 = is_f64(s->in);
  double acc = 0;
  for (int64_t k = 0; k < s->g.k; k++) {
    double x = get_float(s->in, at(&s->a, s->in, b, i, k));
    acc = fma_in(f64, x, get_float(s->in, at(&s->b, s->in, b, k, j)), acc);
  }
  if (s->g.bias) {
    const char *p = (const char *)s->bias + j * s->g.bias_stride * (f64 ? 8 : 4);
    acc = f64 ? acc + *(const double *)p : (double)((float)acc + *(const float *)p);
  }
  if (s->g.finish) acc = f64 ? finished(acc, j) : (double)finished_f((float)acc, j);
  put_float(s->out, at(&s->want, s->out, b, i, j), acc);
}

static void want_complex(Case *s, int64_t b, int64_t i, int64_t j) {
  bool f64 = is_f64(s->in);
  double re = 0, im = 0;
  int half = sizes[s->in] / 2;
  for (int64_t k = 0; k < s->g.k; k++) {
    const char *p = at(&s->a, s->in, b, i, k), *q = at(&s->b, s->in, b, k, j);
    double ar = get_float(s->in, p), ai = get_float(s->in, p + half);
    double br = get_float(s->in, q), bi = get_float(s->in, q + half);
    re = fma_in(f64, -ai, bi, fma_in(f64, ar, br, re));
    im = fma_in(f64, ai, br, fma_in(f64, ar, bi, im));
  }
  if (s->g.bias) {
    const char *p = (const char *)s->bias + j * s->g.bias_stride * sizes[s->in];
    double br = get_float(s->in, p), bi = get_float(s->in, p + half);
    re = f64 ? re + br : (double)((float)re + (float)br);
    im = f64 ? im + bi : (double)((float)im + (float)bi);
  }
  put_float(s->out, at(&s->want, s->out, b, i, j), re);
  put_float(s->out, at(&s->want, s->out, b, i, j) + half, im);
}

static void want_int(Case *s, int64_t b, int64_t i, int64_t j) {
  uint64_t acc = 0;
  for (int64_t k = 0; k < s->g.k; k++) {
    acc += (uint64_t)get_int(s->in, at(&s->a, s->in, b, i, k)) *
           (uint64_t)get_int(s->in, at(&s->b, s->in, b, k, j));
  }
  memcpy(at(&s->want, s->out, b, i, j), &acc, (size_t)sizes[s->out]);
}

static void compute_want(Case *s) {
  for (int64_t b = 0; b < s->g.batch; b++) {
    for (int64_t i = 0; i < s->g.m; i++) {
      for (int64_t j = 0; j < s->g.n; j++) {
        if (is_int(s->in))
          want_int(s, b, i, j);
        else if (is_complex(s->in))
          want_complex(s, b, i, j);
        else
          want_float(s, b, i, j);
      }
    }
  }
}

/* Every byte of C's memory, also between the elements; any NaN equals any. */
static bool same(const Case *s) {
  if (!memcmp(s->c.mem, s->want.mem, (size_t)s->c.nbytes)) return true;
  if (is_int(s->out)) return false;
  int step = sizes[s->out] / (is_complex(s->out) ? 2 : 1);
  for (int64_t i = 0; i < s->c.nbytes; i += step) {
    const char *p = s->c.mem + i, *q = s->want.mem + i;
    bool nans = isnan(get_float(s->out, p)) && isnan(get_float(s->out, q));
    if (memcmp(p, q, (size_t)step) && !nans) return false;
  }
  return true;
}

static bool seen_once(const Case *s) {
  for (int64_t i = 0; s->g.finish && i < s->g.batch * s->g.m * s->g.n; i++) {
    if (s->seen[i] != 1) return false;
  }
  return true;
}

static int run_case(Case *s, const TsGemmKernels *k, const char *isa) {
  const TsGemm *g = &s->g;
  memset(s->c.mem, 0xa5, (size_t)s->c.nbytes);
  if (s->seen) memset(s->seen, 0, (size_t)(g->batch * g->m * g->n + 1));
  int err = ts_gemm(g, k);
  if (!err && same(s) && seen_once(s)) return 0;
  printf("gemm %s->%s %s threads %d: %lld x [%lld,%lld,%lld] a(%lld,%lld) b(%lld,%lld) "
         "c(%lld,%lld)%s%s%s%s: %s\n",
         names[s->in], names[s->out], isa, n_threads, (long long)g->batch, (long long)g->m,
         (long long)g->n, (long long)g->k, (long long)g->a_rs, (long long)g->a_cs,
         (long long)g->b_rs, (long long)g->b_cs, (long long)g->c_rs, (long long)g->c_cs,
         g->bias ? " bias" : "", g->finish ? " finish" : "", g->fill_a ? " fill_a" : "",
         g->fill_b ? " fill_b" : "",
         err            ? "error"
         : seen_once(s) ? "bits differ"
                        : "finish calls");
  return 1;
}

typedef struct Isa {
  const char *name;
  TsGemmKernels k;
} Isa;

static int check(TsGemmType in, TsGemmType out, int64_t batch, int64_t m, int64_t n, int64_t k,
                 const Isa *isas, int n_isas) {
  bool special = below(4) == 0, real = !is_int(in) && !is_complex(in);
  Case s = {.in = in, .out = out};
  bool plain = below(3) == 0; /* with a shared B it becomes one product of more rows */
  s.a = make_matrix(in, batch, m, k, plain ? PLAIN : OPERAND, special);
  s.b = make_matrix(in, batch, k, n, plain ? PLAIN + (int)below(2) : OPERAND, special);
  s.c = make_matrix(out, batch, m, n, plain ? PLAIN : RESULT, false);
  s.want = s.c;
  s.want.p = (s.want.mem = malloc((size_t)s.c.nbytes + 1)) + (s.c.p - s.c.mem);
  memset(s.want.mem, 0xa5, (size_t)s.c.nbytes);
  s.g = (TsGemm){.in = in,
                 .out = out,
                 .batch = batch,
                 .m = m,
                 .n = n,
                 .k = k,
                 .a = s.a.p,
                 .a_rs = s.a.rs,
                 .a_cs = s.a.cs,
                 .a_batch = s.a.batch,
                 .b = s.b.p,
                 .b_rs = s.b.rs,
                 .b_cs = s.b.cs,
                 .b_batch = s.b.batch,
                 .c = s.c.p,
                 .c_rs = s.c.rs,
                 .c_cs = s.c.cs,
                 .c_batch = s.c.batch};
  if (!is_int(in) && below(4) == 0) {
    TsGemmType t = is_complex(in) || in == TS_GEMM_f64 ? in : TS_GEMM_f32;
    s.g.bias = s.bias = malloc((size_t)((2 * n + 1) * sizes[t]));
    s.g.bias_stride = below(3);
    for (int64_t i = 0; i <= 2 * n; i++) put_random(t, (char *)s.bias + i * sizes[t], false);
  }
  if (real && below(4) == 0) {
    s.g.finish = finish, s.g.finish_arg = &s;
    s.seen = malloc((size_t)(batch * m * n + 1));
  }
  if (real && below(8) == 0) s.g.fill_a = fill_a, s.g.fill_a_arg = &s;
  if (real && below(8) == 0) s.g.fill_b = fill_b, s.g.fill_b_arg = &s;
  compute_want(&s);
  int bad = 0;
  for (int i = 0; i < n_isas; i++) {
    for (n_threads = 1; n_threads <= 3; n_threads++)
      bad += run_case(&s, &isas[i].k, isas[i].name);
  }
  free_matrix(&s.a), free_matrix(&s.b), free_matrix(&s.c);
  free(s.want.mem), free(s.bias), free(s.seen);
  return bad;
}

/* ---- the cases ---- */

static const TsGemmType pairs[][2] = {
    {TS_GEMM_f32, TS_GEMM_f32},   {TS_GEMM_f32, TS_GEMM_f32},   {TS_GEMM_f64, TS_GEMM_f64},
    {TS_GEMM_f32, TS_GEMM_bf16},  {TS_GEMM_bf16, TS_GEMM_bf16}, {TS_GEMM_bf16, TS_GEMM_f32},
    {TS_GEMM_f16, TS_GEMM_f16},   {TS_GEMM_f16, TS_GEMM_f32},   {TS_GEMM_e4m3, TS_GEMM_e4m3},
    {TS_GEMM_e4m3, TS_GEMM_bf16}, {TS_GEMM_e5m2, TS_GEMM_e5m2}, {TS_GEMM_e5m2, TS_GEMM_f32},
    {TS_GEMM_i8, TS_GEMM_i32},    {TS_GEMM_i8, TS_GEMM_i8},     {TS_GEMM_u8, TS_GEMM_i32},
    {TS_GEMM_i16, TS_GEMM_i16},   {TS_GEMM_i32, TS_GEMM_i32},   {TS_GEMM_i32, TS_GEMM_i64},
    {TS_GEMM_i64, TS_GEMM_i64},   {TS_GEMM_i16, TS_GEMM_i64},   {TS_GEMM_c64, TS_GEMM_c64},
    {TS_GEMM_c128, TS_GEMM_c128}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

static int64_t dim(void) {
  static const int64_t edges[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  11, 12, 13,
                                  15, 16, 17, 24, 25, 31, 32, 33, 47, 48, 63, 64, 65};
  return edges[below(sizeof edges / sizeof *edges)];
}

static int64_t inner(void) {
  static const int64_t edges[] = {255, 256, 257, 511, 512, 513, 769, 1025};
  return below(3) ? dim() : edges[below(sizeof edges / sizeof *edges)];
}

/* Shapes for the boundaries of the rounds' and the packed way's blocks, few as they are slow. */
static const int64_t large[][4] = {{1, 191, 65, 513}, {1, 193, 33, 9},   {1, 17, 257, 513},
                                   {1, 18, 2081, 17}, {1, 97, 1153, 40}, {2, 65, 300, 129},
                                   {1, 1, 600, 700},  {1, 12, 515, 131}, {1, 700, 3, 90},
                                   {3, 130, 130, 64}, {1, 3, 70, 8200},  {1, 40, 40, 1200},
                                   {1, 13, 900, 520}};

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 40, bad = 0, n_isas = 0, n_cases = 0;
  if (argc > 2) seed = strtoull(argv[2], NULL, 10);
  skip_isas();
  Isa isas[3] = {{"base", {0}}};
  ts_kernels_gemm_base(&isas[n_isas++].k);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    isas[n_isas].name = "avx2";
    ts_kernels_gemm_avx2(&isas[n_isas++].k);
  }
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
    isas[n_isas].name = "avx512";
    ts_kernels_gemm_avx512(&isas[n_isas++].k);
  }
  for (int i = 0; i < rounds && bad < 20; i++) {
    for (int p = 0; p < PAIRS && bad < 20; p++, n_cases++) {
      int64_t batch = below(4) ? 1 : below(5), m = dim(), n = dim();
      bad += check(pairs[p][0], pairs[p][1], batch, m, n, inner(), isas, n_isas);
    }
  }
  for (size_t i = 0; i < sizeof large / sizeof *large && bad < 20; i++) {
    for (int p = (int)i % 2; p < PAIRS && bad < 20; p += rounds >= 40 ? 2 : 7, n_cases++) {
      const int64_t *d = large[i];
      bad += check(pairs[p][0], pairs[p][1], d[0], d[1], d[2], d[3], isas, n_isas);
    }
  }
  ts_work_trim();
  if (bad) return 1;
  printf("gemm: %d cases on %d instruction sets with equal bits\n", n_cases, n_isas);
  return 0;
}
