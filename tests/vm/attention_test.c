/* Attention against a plain reading of its definition in vm/drive/attention.c, bit for bit:
 * every instruction set, one thread and two, every way of computing it (few rows, many
 * rows, packed blocks kept or not), masks, sinks, and parts of a batch alone. exp comes
 * from the portable kernels, one number at a time; it is tested elsewhere. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "tests/skip.h"
#include "vm/drive/attention.h"

static int failures, checks;
static const TsKernels *base;
static bool f32;

static uint64_t seed = 88172645463325252u;

static uint64_t rnd(void) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return seed * 2685821657736338717u >> 11;
}

static double uniform(void) { return (double)(rnd() % 2000001) / 1e6 - 1; }

/* ---- arithmetic of the wide type in doubles */
static double r(double x) { return f32 ? (double)(float)x : x; }

static double fused(double a, double b, double c) {
  return f32 ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
}

static double one_exp(double x) {
  float y = (float)x;
  if (f32)
    base->rows.exp[0](&y, &y, 1, 0, NULL);
  else
    base->rows.exp[1](&x, &x, 1, 0, NULL);
  return f32 ? (double)y : x;
}

static double at(const void *p, int64_t i) {
  return f32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static double tree(const double *p, int n) {
  double s[128];
  int w = 1;
  while (w < n) w *= 2;
  for (int i = 0; i < w; i++) s[i] = i < n ? p[i] : -0.0;
  for (int h = w / 2; h >= 1; h /= 2)
    for (int i = 0; i < h; i++) s[i] = r(s[i] + s[i + h]);
  return s[0];
}

static double above(double m) { return m == -INFINITY ? 0 : m; }

/* One row: query i of head h (numbered through the batch). */
static void naive_row(const TsAttention *a, int64_t h, int64_t i, double *y) {
  int64_t kv = h / a->heads * a->kv_heads + h % a->heads / (a->heads / a->kv_heads),
          here = i + a->t - a->s;
  int64_t lo = a->window ? here - a->window + 1 : 0, hi = a->causal ? here + 1 : a->t;
  double m = -INFINITY, l = 0, *o = calloc((size_t)a->dv, sizeof *o), p[128];
  for (int64_t first = 0; first < a->t; first += 128) {
    int n = (int)(a->t - first < 128 ? a->t - first : 128);
    if (lo >= first + n || hi <= first || lo >= hi) continue;
    double top = m;
    for (int j = 0; j < n; j++) {
      double s = 0;
      for (int64_t d = 0; d < a->d; d++)
        s = fused(at(a->q, a->q_at[h] + i * a->q_step + d),
                  at(a->k, a->k_at[kv] + (first + j) * a->k_step + d), s);
      s = r(s * r(a->scale));
      int64_t mask =
          a->mask_at ? a->mask_at[h] + i * a->mask_step + (first + j) * a->mask_key_step : 0;
      if (a->bias) s = r(s + at(a->bias, mask));
      if (first + j < lo || first + j >= hi || (a->seen && !a->seen[mask])) s = -INFINITY;
      p[j] = s;
      top = s > top ? s : top;
    }
    double alpha = one_exp(r(m - above(top)));
    for (int j = 0; j < n; j++) p[j] = one_exp(r(p[j] - above(top)));
    l = r(r(l * alpha) + tree(p, n));
    for (int64_t c = 0; c < a->dv; c++) {
      o[c] = r(o[c] * alpha);
      for (int j = 0; j < n; j++)
        o[c] = fused(p[j], at(a->v, a->v_at[kv] + (first + j) * a->v_step + c), o[c]);
    }
    m = top;
  }
  if (a->sink) {
    double x = at(a->sink, h % a->heads), top = x > m ? x : m,
           scale = one_exp(r(m - above(top)));
    l = r(r(l * scale) + one_exp(r(x - above(top))));
    for (int64_t c = 0; c < a->dv; c++) o[c] = r(o[c] * scale);
  }
  for (int64_t c = 0; c < a->dv; c++) y[c] = l == 0 ? 0 : r(r(o[c] * r(1 / l)) + 0);
  free(o);
}

/* ---- cases */
typedef struct Case {
  int64_t batch, heads, kv_heads, s, t, d, dv, window;
  bool causal, sink, special; /* special: NaN and infinity in hidden and seen values */
  int mask; /* 0 none, 1 bool, 2 float, 3 bool of one key, 4 float of one query */
} Case;

static void *fresh(int64_t n) {
  char *p = malloc((size_t)(n * 8 + 64));
  for (int64_t i = 0; i < n; i++) {
    if (f32)
      ((float *)(void *)p)[i] = (float)(2 * uniform());
    else
      ((double *)(void *)p)[i] = 2 * uniform();
  }
  return p;
}

static int64_t *steps(int64_t n, int64_t step) {
  int64_t *p = malloc((size_t)(n + 1) * sizeof *p);
  for (int64_t i = 0; i < n; i++) p[i] = i * step;
  return p;
}

static bool equal(double a, double b) {
  return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static void compare(const TsAttention *a, const double *want, const void *got, const char *what,
                    const char *isa) {
  int64_t n = a->batch * a->heads * a->s * a->dv;
  checks++;
  for (int64_t i = 0; i < n; i++) {
    if (equal(want[i], at(got, i))) continue;
    failures++;
    printf("%s, %s %s: b %lld h %lld/%lld s %lld t %lld d %lld: element %lld is %a, not %a\n",
           isa, what, f32 ? "f32" : "f64", (long long)a->batch, (long long)a->heads,
           (long long)a->kv_heads, (long long)a->s, (long long)a->t, (long long)a->d,
           (long long)i, at(got, i), want[i]);
    return;
  }
}

static void set_mask(const Case *c, TsAttention *a) {
  int64_t rows = c->mask == 4 ? 1 : a->s, keys = c->mask == 3 ? 1 : a->t,
          n = a->batch * a->heads * rows * keys;
  if (c->mask == 0) return;
  a->mask_at = steps(a->batch * a->heads, rows * keys);
  a->mask_step = c->mask == 4 ? 0 : keys, a->mask_key_step = c->mask != 3;
  if (c->mask == 2 || c->mask == 4) {
    a->bias = fresh(n);
    return;
  }
  uint8_t *seen = malloc((size_t)n + 64);
  for (int64_t i = 0; i < n; i++) seen[i] = rnd() % 4 != 0;
  a->seen = seen;
}

static void put(const void *p, int64_t i, double v) {
  if (f32)
    ((float *)(uintptr_t)p)[i] = (float)v;
  else
    ((double *)(uintptr_t)p)[i] = v;
}

static void run(const Case *c) {
  static const char *const isas[] = {"avx512", "avx2", "base"};
  TsAttention a = {.dtype = f32 ? TS_DT_f32 : TS_DT_f64,
                   .batch = c->batch,
                   .heads = c->heads,
                   .kv_heads = c->kv_heads,
                   .s = c->s,
                   .t = c->t,
                   .d = c->d,
                   .dv = c->dv,
                   .causal = c->causal,
                   .place = c->t - c->s,
                   .window = c->window,
                   .scale = 0.37};
  a.q_step = c->d + 3, a.k_step = c->d, a.v_step = c->dv + 1;
  int64_t heads = c->batch * c->heads, kv = c->batch * c->kv_heads, n = heads * c->s * c->dv;
  a.q = fresh(heads * c->s * a.q_step), a.k = fresh(kv * c->t * a.k_step),
  a.v = fresh(kv * c->t * a.v_step);
  a.q_at = steps(heads, c->s * a.q_step), a.k_at = steps(kv, c->t * a.k_step),
  a.v_at = steps(kv, c->t * a.v_step);
  if (c->sink) a.sink = fresh(c->heads);
  set_mask(c, &a);
  if (c->special && c->t > 1) {
    put(a.v, (c->t - 1) * a.v_step, NAN);
    put(a.v, c->t / 2 * a.v_step + c->dv - 1, INFINITY);
    put(a.q, a.q_step, -INFINITY);
  }
  double *want = malloc((size_t)(n + 1) * sizeof *want);
  for (int64_t i = 0; i < heads * c->s; i++)
    naive_row(&a, i / c->s, i % c->s, want + i * c->dv);
  void *y = malloc((size_t)(n * 8 + 64));
  a.y = y;
  for (int i = 0; i < 3; i++) {
    const TsKernels *k = ts_kernels_use(isas[i]);
    for (int threads = 1; k && threads <= 2; threads++) {
      ts_cpu_set_threads(threads);
      memset(y, 0x5a, (size_t)n * (f32 ? 4 : 8));
      ts_attention(&a, k);
      compare(&a, want, y, "all", isas[i]);
    }
    /* The last query alone: few rows instead of many, other items. */
    TsAttention part = a;
    int64_t *last = malloc((size_t)(heads + 1) * sizeof *last),
            *mask = malloc((size_t)(heads + 1) * sizeof *mask);
    double *tail = malloc((size_t)(heads * c->dv + 1) * sizeof *tail);
    for (int64_t h = 0; h < heads; h++) {
      last[h] = a.q_at[h] + (c->s - 1) * a.q_step;
      if (a.mask_at) mask[h] = a.mask_at[h] + (c->s - 1) * a.mask_step;
      memcpy(tail + h * c->dv, want + ((h + 1) * c->s - 1) * c->dv,
             (size_t)c->dv * sizeof *tail);
    }
    part.s = 1, part.place = c->t - 1, part.q_at = last;
    if (a.mask_at) part.mask_at = mask;
    if (k) ts_attention(&part, k), compare(&part, tail, y, "one query", isas[i]);
    /* The first batch entry alone. */
    part = a, part.batch = 1;
    if (k) ts_attention(&part, k), compare(&part, want, y, "one entry", isas[i]);
    free(last), free(mask), free(tail);
  }
  const void *made[] = {a.q,    a.k,    a.v,    a.q_at,    a.k_at, a.v_at,
                        a.sink, a.bias, a.seen, a.mask_at, y,      want};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) free((void *)(uintptr_t)made[i]);
}

int main(void) {
  static const Case cases[] = {
      {1, 1, 1, 1, 1, 1, 1, 0, false, false, false, 0},
      {2, 2, 2, 5, 9, 4, 3, 0, false, false, false, 1},
      {1, 2, 2, 5, 130, 48, 16, 0, true, false, false, 0}, /* 5 rows packed by 8 */
      {1, 4, 2, 13, 130, 7, 8, 0, true, true, false, 0},
      {2, 2, 1, 100, 257, 16, 17, 0, true, false, false, 2},
      {1, 2, 2, 97, 97, 20, 33, 31, true, true, false, 0},
      {1, 2, 1, 40, 300, 8, 40, 129, true, false, false, 3},
      {1, 3, 3, 30, 12, 5, 5, 0, true, false, false, 0},
      {1, 3, 3, 30, 12, 5, 5, 0, true, true, false, 1},
      {1, 8, 1, 1, 400, 32, 32, 0, false, false, false, 4},
      {1, 8, 2, 2, 385, 9, 12, 200, true, true, false, 2},
      {1, 2, 2, 150, 260, 6, 5, 64, false, false, true, 0},
      {2, 2, 2, 140, 140, 6, 5, 0, true, true, true, 1},
      {1, 1, 1, 20, 4200, 64, 64, 0, true, false, false, 0}};
  skip_isas();
  base = ts_kernels_use("base");
  for (int type = 0; type < 2; type++) {
    f32 = type == 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run(&cases[i]);
  }
  printf("checks %d failed %d\n", checks, failures);
  return failures != 0;
}
