/* One call of BLAS, copies, and the product that all routines are made of. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "vm/blas/matrix.h"
#include "vm/gemm/gemm.h"

enum { SMALL = 1024 }; /* multiply-adds that packing and threads are not worth */

static _Thread_local const TsKernels *kernels;
static _Thread_local sigjmp_buf *leave;

void ts_blas_begin(const TsKernels *k, sigjmp_buf *out) {
  kernels = k, leave = out;
  ts_cpu_escape(out);
}

void ts_blas_end(void) { ts_cpu_escape(NULL); }

Blas blas_of(const TsKernels *k, TsBlasType type) {
  static const uint8_t size[TS_BLAS_COUNT] = {4, 8, 8, 16};
  return (Blas){.type = type, .size = size[type], .complex = type >= TS_BLAS_c64, .k = k};
}

const TsKernels *blas_kernels(void) { return kernels; }

Blas blas_begin(TsBlasType type) {
  ts_cpu_escape(NULL);
  return blas_of(kernels, type);
}

void blas_end(const Blas *x) {
  if (x->failed) siglongjmp(*leave, TS_BLAS_NO_MEMORY);
  ts_cpu_escape(leave);
}

void *blas_take(Blas *x, int64_t elements) {
  void *p = x->failed ? NULL : ts_work_take(elements * x->size);
  if (!p) x->failed = true;
  return p;
}

/* ---- numbers */

const double blas_zero[2] = {0, 0}, blas_one[2] = {1, 0}, blas_minus_one[2] = {-1, 0};

static bool is_f32(const Blas *x) { return x->type == TS_BLAS_f32 || x->type == TS_BLAS_c64; }

bool blas_is(const Blas *x, const void *number, double re) {
  if (is_f32(x)) {
    const float *f = number;
    return f[0] == (float)re && (!x->complex || f[1] == 0);
  }
  const double *d = number;
  return d[0] == re && (!x->complex || d[1] == 0);
}

const void *blas_number(const Blas *x, const double value[2], double space[2]) {
  if (!is_f32(x)) return value;
  float *f = (float *)space;
  f[0] = (float)value[0], f[1] = (float)value[1];
  return space;
}

/* ---- copies */

/* A line of n elements; alpha NULL: 1. */
static void copy_line(const Blas *x, int64_t n, char *to, int64_t ts, const char *from,
                      int64_t fs, bool conj, const void *alpha) {
  const TsBlasKernels *k = &x->k->blas;
  double space[2];
  if (!alpha && !conj) {
    x->k->copy.strided(n, to, ts * x->size, from, fs * x->size, x->size);
    return;
  }
  if (!alpha) alpha = blas_number(x, blas_one, space);
  if (ts == 1 && fs == 1) return k->scaled[x->type](n, to, from, conj, alpha);
  for (int64_t i = 0; i < n; i++)
    k->scaled[x->type](1, to + i * ts * x->size, from + i * fs * x->size, conj, alpha);
}

void blas_copy(const Blas *x, int64_t m, int64_t n, BlasMatrix to, BlasMatrix from,
               const void *alpha) {
  bool columns = to.rs == 1; /* side by side in `to` */
  const TsCopyKernels *copy = &x->k->copy;
  int64_t size = x->size;
  if (!alpha && to.conj == from.conj && m > 1 && n > 1) { /* by whole blocks */
    if (columns && from.cs == 1)
      return copy->transpose(n, m, to.p, to.cs * size, from.p, from.rs * size, (int)size, 0);
    if (to.cs == 1 && from.rs == 1)
      return copy->transpose(m, n, to.p, to.rs * size, from.p, from.cs * size, (int)size, 0);
    if (columns && from.rs == 1)
      return copy->runs(n, m * size, to.p, to.cs * size, from.p, from.cs * size);
    if (to.cs == 1 && from.cs == 1)
      return copy->runs(m, n * size, to.p, to.rs * size, from.p, from.rs * size);
  }
  int64_t lines = columns ? n : m, length = columns ? m : n;
  for (int64_t i = 0; i < lines; i++) {
    BlasMatrix t = blas_at(x, to, columns ? 0 : i, columns ? i : 0);
    BlasMatrix f = blas_at(x, from, columns ? 0 : i, columns ? i : 0);
    copy_line(x, length, t.p, columns ? 1 : to.cs, f.p, columns ? from.rs : from.cs,
              from.conj != to.conj, alpha);
  }
}

void blas_scale(const Blas *x, int64_t m, int64_t n, BlasMatrix c, const void *beta) {
  if (blas_is(x, beta, 1)) return;
  if (!blas_is(x, beta, 0)) return blas_copy(x, m, n, c, c, beta);
  bool columns = c.rs == 1;
  int64_t lines = columns ? n : m, length = columns ? m : n, step = columns ? 1 : c.cs;
  for (int64_t i = 0; i < lines; i++) {
    char *p = blas_at(x, c, columns ? 0 : i, columns ? i : 0).p;
    if (step == 1) {
      memset(p, 0, (size_t)(length * x->size));
    } else {
      for (int64_t j = 0; j < length; j++) memset(p + j * step * x->size, 0, (size_t)x->size);
    }
  }
}

/* Line i of a half: from the diagonal on, or up to it. */
static int64_t half_line(BlasMatrix c, int64_t n, bool upper, int64_t i, int64_t *from) {
  bool on = (c.rs == 1) != upper; /* lines run from the diagonal to the end */
  *from = on ? i : 0;
  return on ? n - i : i + 1;
}

void blas_copy_half(const Blas *x, int64_t n, bool upper, BlasMatrix to, BlasMatrix from) {
  for (int64_t i = 0; i < n; i++) {
    int64_t at, count = half_line(from, n, upper, i, &at);
    bool columns = from.rs == 1;
    BlasMatrix t = blas_at(x, to, columns ? at : i, columns ? i : at);
    BlasMatrix f = blas_at(x, from, columns ? at : i, columns ? i : at);
    copy_line(x, count, t.p, columns ? to.rs : to.cs, f.p, columns ? 1 : from.cs, false, NULL);
  }
}

void blas_scale_half(const Blas *x, int64_t n, bool upper, BlasMatrix c, const void *beta) {
  if (blas_is(x, beta, 1)) return;
  for (int64_t i = 0; i < n; i++) {
    int64_t at, count = half_line(c, n, upper, i, &at);
    bool columns = c.rs == 1;
    BlasMatrix line = blas_at(x, c, columns ? at : i, columns ? i : at);
    blas_scale(x, columns ? count : 1, columns ? 1 : count, line, beta);
  }
}

/* ---- the product */

static void small(const Blas *x, int64_t m, int64_t n, int64_t k, const void *alpha,
                  BlasMatrix a, BlasMatrix b, BlasMatrix c) {
  TsBlasSmall p = {.m = (int)m,
                   .n = (int)n,
                   .k = (int)k,
                   .alpha = alpha,
                   .a = a.p,
                   .b = b.p,
                   .c = c.p,
                   .ars = a.rs,
                   .acs = a.cs,
                   .brs = b.rs,
                   .bcs = b.cs,
                   .crs = c.rs,
                   .a_conj = a.conj,
                   .b_conj = b.conj};
  x->k->blas.small[x->type](&p);
}

/* A copy times alpha where the product cannot read m itself. */
static void *prepared(Blas *x, int64_t rows, int64_t cols, BlasMatrix *m, const void *alpha) {
  if (!m->conj && !alpha) return NULL;
  void *p = blas_take(x, rows * cols);
  if (!p) return NULL;
  bool columns = m->rs == 1;
  BlasMatrix to = {p, columns ? 1 : cols, columns ? rows : 1, false};
  blas_copy(x, rows, cols, to, *m, alpha);
  *m = to;
  return p;
}

static void large(Blas *x, int64_t m, int64_t n, int64_t k, const void *alpha, BlasMatrix a,
                  BlasMatrix b, BlasMatrix c) {
  static const TsGemmType type[TS_BLAS_COUNT] = {TS_GEMM_f32, TS_GEMM_f64, TS_GEMM_c64,
                                                 TS_GEMM_c128};
  if (blas_is(x, alpha, 1)) alpha = NULL;
  bool left = a.conj || (!b.conj && m <= n); /* takes alpha */
  void *pa = prepared(x, m, k, &a, left ? alpha : NULL);
  void *pb = prepared(x, k, n, &b, left ? NULL : alpha);
  TsGemm g = {.in = type[x->type],
              .out = type[x->type],
              .batch = 1,
              .m = m,
              .n = n,
              .k = k,
              .a = a.p,
              .a_rs = a.rs,
              .a_cs = a.cs,
              .b = b.p,
              .b_rs = b.rs,
              .b_cs = b.cs,
              .c = c.p,
              .c_rs = c.rs,
              .c_cs = 1,
              .resume = true};
  if (!x->failed && ts_gemm(&g, &x->k->gemm)) x->failed = true;
  ts_work_give(pa);
  ts_work_give(pb);
}

void blas_product(Blas *x, int64_t m, int64_t n, int64_t k, const void *alpha, BlasMatrix a,
                  BlasMatrix b, BlasMatrix c) {
  if (m <= 0 || n <= 0 || k <= 0 || x->failed || blas_is(x, alpha, 0)) return;
  if (c.cs != 1) { /* c' = b' a' has rows of elements side by side */
    BlasMatrix t = blas_transposed(a);
    a = blas_transposed(b), b = t, c = blas_transposed(c);
    int64_t rows = m;
    m = n, n = rows;
  }
  int64_t most = b.cs == 1 ? SMALL : SMALL / 4;
  (m * n * k <= most ? small(x, m, n, k, alpha, a, b, c) : large(x, m, n, k, alpha, a, b, c));
}
