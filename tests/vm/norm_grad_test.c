/* The two ways through rows of a norm's gradient that go past the caches, all in one walk
 * (vm/rows/norm_walk.h) and lane by lane (vm/kernels/rows/norm_lane.inc), against a scalar
 * reading of the definition in vm/exec/norm_grad.c, bit for bit, for every instruction set:
 * an operator takes one of them by what the processor is like. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/skip.h"
#include "vm/rows/norm_walk.h"

enum { ROWS = 7, LEAF = 4096 };

static int failures, checks;
static TsRowsGradKernels kernels[3];
static const char *const isa_names[3] = {"avx512", "avx2", "base"};
static uint64_t seed = 88172645463325252u;

static double uniform(void) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return (double)(int64_t)(seed * 2685821657736338717u) * 0x1p-63;
}

static bool f32;
static double r(double x) { return f32 ? (float)x : x; }

/* sum of a leaf or less, in the canonical order */
static double sum(const double *x, int64_t n) {
  int64_t lanes = f32 ? 256 : 128;
  double acc[256];
  for (int64_t l = 0; l < lanes; l++) acc[l] = -0.0;
  for (int64_t i = 0; i < n; i++) acc[i % lanes] = r(acc[i % lanes] + x[i]);
  for (int64_t h = lanes / 2; h > 0; h /= 2)
    for (int64_t l = 0; l < h; l++) acc[l] = r(acc[l] + acc[l + h]);
  return acc[0];
}

static double fma_of(double a, double b, double c) {
  return f32 ? fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
}

typedef struct Case {
  int64_t n;
  bool centered, weighted, biased;
  double eps;
} Case;

/* dx of one row; dw and db take it up. */
static void expected(const Case *c, const double *x, const double *g, const double *w,
                     double *dx, double *dw, double *db) {
  static double gw[LEAF], xc[LEAF], term[LEAF];
  int64_t n = c->n;
  double mean = c->centered ? r(sum(x, n) / (double)n) : 0;
  for (int64_t i = 0; i < n; i++) {
    xc[i] = c->centered ? r(x[i] - mean) : x[i];
    gw[i] = c->weighted ? r(g[i] * w[i]) : g[i];
    term[i] = r(xc[i] * xc[i]);
  }
  double var = r(sum(term, n) / (double)n), c1 = r(sum(gw, n) / (double)n);
  double rstd = r(1 / r(sqrt(r(var + r(c->eps)))));
  for (int64_t i = 0; i < n; i++) term[i] = r(gw[i] * xc[i]);
  double c2 = r(r(r(sum(term, n) * rstd) / (double)n) * rstd);
  for (int64_t i = 0; i < n; i++) {
    double t = c->centered ? r(gw[i] - c1) : gw[i];
    dx[i] = r(fma_of(-xc[i], c2, t) * rstd);
    if (c->weighted) dw[i] = fma_of(r(g[i] * xc[i]), rstd, dw[i]);
    if (c->biased) db[i] = r(db[i] + g[i]);
  }
}

static void *numbers(int64_t n) { return aligned_alloc(64, (size_t)(n * 8 + 63) / 64 * 64); }

static void put(void *to, const double *from, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (f32)
      ((float *)to)[i] = (float)from[i];
    else
      ((double *)to)[i] = from[i];
}

static void check(const char *what, const char *isa, const Case *c, const void *got,
                  const double *want, int64_t n) {
  void *w = numbers(n);
  put(w, want, n);
  checks++;
  if (memcmp(got, w, (size_t)n * (f32 ? 4 : 8)) && ++failures)
    printf("FAIL %s: %s, %s, n %d%s%s%s\n", what, isa, f32 ? "f32" : "f64", (int)c->n,
           c->centered ? ", mean" : "", c->weighted ? ", w" : "", c->biased ? ", b" : "");
  free(w);
}

typedef struct Data {
  double *x, *g, *w, *dx, *dw, *db; /* rows, and what is expected */
  char *px, *pg, *pw;               /* the same in the type */
  char *out, *out_dw, *out_db, *nothing;
} Data;

static void walk(const Case *c, const TsRowsGradKernels *k, const Data *d) {
  int64_t row = c->n * (f32 ? 4 : 8);
  TsNormOf of = {k, !f32, c->n, c->centered, c->eps, c->weighted ? d->pw : NULL};
  TsNormRows rows = {.of = &of};
  for (int64_t i = 0; i < ROWS; i++) {
    int64_t next = i + 1 < ROWS ? i + 1 : i;
    TsNormRow one = {.x = d->px + i * row,
                     .g = d->pg + i * row,
                     .dx = d->out + i * row,
                     .dw = c->weighted ? d->out_dw : NULL,
                     .db = c->biased ? d->out_db : NULL,
                     .nothing = i ? NULL : d->nothing,
                     .next_x = d->px + next * row,
                     .next_g = d->pg + next * row,
                     .far_x = d->px + next * row,
                     .far_g = d->pg + next * row};
    ts_norm_rows_push(&rows, &one);
  }
  ts_norm_rows_end(&rows);
}

/* far: as in TsNormLane. */
static void lane(const Case *c, const TsRowsGradKernels *k, const Data *d, int far) {
  TsNormLane a = {.x = d->px,
                  .g = d->pg,
                  .w = c->weighted ? d->pw : NULL,
                  .dx = d->out,
                  .dw = c->weighted ? d->out_dw : NULL,
                  .db = c->biased ? d->out_db : NULL,
                  .n = c->n,
                  .rows = ROWS,
                  .step = c->n,
                  .eps = c->eps,
                  .nothing = d->nothing,
                  .then_x = d->px,
                  .then_g = d->pg,
                  .then_rows = 1,
                  .far = far,
                  .centered = c->centered};
  k->norm_lane[!f32](&a);
}

static Data data_of(const Case *c) {
  int64_t n = c->n, all = n * ROWS;
  Data d = {numbers(all), numbers(all), numbers(n),   numbers(all), numbers(n),
            numbers(n),   numbers(all), numbers(all), numbers(n),   numbers(all),
            numbers(n),   numbers(n),   numbers(n)};
  for (int64_t i = 0; i < all; i++) d.x[i] = r(uniform() * 3 + 1), d.g[i] = r(uniform());
  for (int64_t i = 0; i < n; i++) d.w[i] = r(uniform() + 1), d.dw[i] = d.db[i] = -0.0;
  put(d.px, d.x, all), put(d.pg, d.g, all), put(d.pw, d.w, n), put(d.nothing, d.dw, n);
  for (int64_t i = 0; i < all; i += n) expected(c, d.x + i, d.g + i, d.w, d.dx + i, d.dw, d.db);
  return d;
}

static void test(const Case *c) {
  Data d = data_of(c);
  for (int isa = 0; isa < 3; isa++)
    for (int way = 0; way < 4; way++) {
      static const char *const names[] = {"walk", "lane, long rows", "lane, two rows", "lane"};
      if (!kernels[isa].norm_lane[0]) continue;
      if (way)
        lane(c, &kernels[isa], &d, way);
      else
        walk(c, &kernels[isa], &d);
      __sync_synchronize(); /* what went past the caches */
      check(names[way], isa_names[isa], c, d.out, d.dx, c->n * ROWS);
      if (c->weighted) check(names[way], isa_names[isa], c, d.out_dw, d.dw, c->n);
      if (c->biased) check(names[way], isa_names[isa], c, d.out_db, d.db, c->n);
    }
  void *all[] = {d.x,  d.g,  d.w,   d.dx,     d.dw,     d.db,     d.px,
                 d.pg, d.pw, d.out, d.out_dw, d.out_db, d.nothing};
  for (unsigned i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

int main(void) {
  skip_isas();
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    ts_kernels_rows_grad_avx512(&kernels[0]);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    ts_kernels_rows_grad_avx2(&kernels[1]);
  ts_kernels_rows_grad_base(&kernels[2]);
  static const int64_t widths[] = {512, 528, 1024, 1040, 2288, 4096};
  for (int type = 0; type < 2; type++)
    for (unsigned i = 0; i < sizeof widths / sizeof *widths; i++)
      for (int bits = 0; bits < 6; bits++) {
        bool centered = bits < 4;
        f32 = type == 0;
        test(&(Case){widths[i], centered, bits & 1, centered && bits & 2, 1e-5});
      }
  printf("gradients of norms: %d checks, %d failures\n", checks, failures);
  return failures != 0;
}
