/* Attention for GPUs (ir/tile/gpu/attention.c) in the interpreter: causal, window, sink, groups
 * of heads, ragged sizes, more tiles than blocks; bit by bit against plain C in the same order,
 * and near the right numbers. The text reads back. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/gpu/attention.h"
#include "tests/ir/gpu_roles.h"

typedef struct Case {
  TsDtype dtype;
  int d, b, n, j, s, t, g, p; /* n, j: heads of all batches */
  bool causal, sink;
  int window;
} Case;

/* One query: the kernel's order. */
typedef struct Row {
  float o[128], l[4], m, x[128];
} Row;

static bool sees(const Case *c, int i, int key) {
  int at = i + c->t - c->s;
  return key < c->t && !(c->causal && key > at) && !(c->window && key <= at - c->window);
}

static void block(const Case *c, Row *r, const void *q, const void *k, const void *v, int i,
                  int k0, bool first) {
  const float scale = (float)(1 / sqrt(c->d) * 1.4426950408889634);
  float most = -INFINITY;
  for (int j = 0; j < 128; j++) {
    float s = 0;
    for (int e = 0; e < c->d && k0 + j < c->t; e++)
      s = fmaf(get(c->dtype, q, (int64_t)i * c->d + e),
               get(c->dtype, k, (int64_t)(k0 + j) * c->d + e), s);
    r->x[j] = sees(c, i, k0 + j) ? s : -INFINITY;
    most = fmaxf(most, r->x[j]);
  }
  most = fmaxf(most, first ? -1e30f : r->m);
  float factor = exp2f((r->m - most) * scale), less = -(most * scale), part[4];
  for (int j = 0; j < 128; j++) r->x[j] = exp2f(fmaf(r->x[j], scale, less));
  for (int q4 = 0; q4 < 4; q4++) {
    part[q4] = r->x[2 * q4] + r->x[2 * q4 + 1];
    for (int j = 8 + 2 * q4; j < 128; j += 8) part[q4] += r->x[j] + r->x[j + 1];
    r->l[q4] = first ? part[q4] : fmaf(r->l[q4], factor, part[q4]);
  }
  for (int e = 0; e < c->d; e++) {
    float sum = first ? 0 : r->o[e] * factor;
    for (int j = 0; j < 128; j++) {
      float p = get(c->dtype, (uint16_t[]){narrow(c->dtype, r->x[j])}, 0);
      float y = k0 + j < c->t ? get(c->dtype, v, (int64_t)(k0 + j) * c->d + e) : 0;
      sum = fmaf(p, y, sum);
    }
    r->o[e] = sum;
  }
  r->m = most;
}

static bool any(const Case *c, int i, int k0) {
  for (int j = 0; j < 128; j++)
    if (sees(c, i, k0 + j)) return true;
  return false;
}

static void row(const Case *c, void *const *arg, int head, int i, uint16_t *y, float *lse) {
  const float scale = (float)(1 / sqrt(c->d) * 1.4426950408889634);
  int64_t key_head = head / (c->n / c->j);
  const uint16_t *q = (const uint16_t *)arg[0] + (int64_t)head * c->s * c->d;
  const uint16_t *k = (const uint16_t *)arg[1] + key_head * c->t * c->d;
  const uint16_t *v = (const uint16_t *)arg[2] + key_head * c->t * c->d;
  Row r = {.m = -1e30f};
  bool first = true;
  for (int k0 = 0; k0 < c->t; k0 += 128) {
    if (!any(c, i, k0)) continue;
    block(c, &r, q, k, v, i, k0, first);
    first = false;
  }
  float l = (r.l[0] + r.l[1]) + (r.l[2] + r.l[3]), u = r.m * scale, part = 1;
  if (c->sink) {
    float x = ((const float *)arg[3])[head % (c->n / c->b)] * (float)1.4426950408889634;
    float most = fmaxf(u, x);
    part = exp2f(u - most);
    l = fmaf(l, part, exp2f(x - most));
    u = most;
  }
  *lse = (u + log2f(l)) * (float)0.6931471805599453;
  float factor = l == 0 ? 0 : part / l;
  for (int e = 0; e < c->d; e++) y[e] = narrow(c->dtype, r.o[e] * factor);
}

static void compare(const Case *c, void *const *arg, const uint16_t *y, const float *lse) {
  uint16_t want[128];
  float log;
  for (int h = 0; h < c->n; h++)
    for (int i = 0; i < c->s; i++) {
      row(c, arg, h, i, want, &log);
      int64_t at = (int64_t)h * c->s + i;
      if (!memcmp(want, y + at * c->d, (size_t)c->d * 2) && !memcmp(&log, lse + at, 4))
        continue;
      printf("d %d s %d t %d causal %d window %d sink %d: head %d row %d: %g, not %g; %g, not "
             "%g\n",
             c->d, c->s, c->t, c->causal, c->window, c->sink, h, i,
             (double)get(c->dtype, y, at * c->d), (double)get(c->dtype, want, 0),
             (double)lse[at], (double)log);
      failed++;
      return;
    }
}

static void one(const Case *c) {
  TsError err = {0};
  TsGpuAttention x = ts_gpu_attention(c->dtype, c->d, c->causal, c->window, c->sink);
  TsTile *k = ts_tile_gpu_attention(&x, &err);
  if (!k || ts_tile_check(k, &hopper, &err)) {
    failed++, printf("%s\n", err.message);
    return;
  }
  round_trip(k);
  int64_t dim[7] = {c->b, c->n / c->b, c->j / c->b, c->s, c->t, c->g, c->p};
  int64_t nq = (int64_t)c->n * c->s * c->d, nk = (int64_t)c->j * c->t * c->d;
  float *sink = malloc(4 * (size_t)c->n), *lse = malloc(4 * (size_t)(c->n * c->s));
  int32_t counter = 0;
  for (int i = 0; i < c->n; i++) sink[i] = (float)i - 1;
  void *arg[7] = {numbers(c->dtype, nq), numbers(c->dtype, nk), numbers(c->dtype, nk)};
  uint16_t *y = malloc((size_t)nq * 2);
  int n = 3;
  if (c->sink) arg[n++] = sink;
  memset(y, 0xff, (size_t)nq * 2);
  arg[n++] = y, arg[n++] = lse, arg[n++] = &counter;
  if (ts_tile_run(k, arg, dim, &err))
    failed++, printf("%s\n", err.message);
  else
    compare(c, arg, y, lse);
  if (counter) failed++, printf("the counter is left at %d\n", counter);
  for (int i = 0; i < 3; i++) free(arg[i]);
  free(sink), free(lse), free(y);
  ts_tile_free(k);
}

int main(void) {
  static const Case all[] = {
      {TS_DT_bf16, 64, 2, 2, 2, 200, 200, 1, 2, true, false, 0},
      {TS_DT_bf16, 128, 1, 1, 1, 130, 300, 1, 1, false, false, 0},
      {TS_DT_f16, 64, 2, 4, 2, 70, 330, 4, 3, true, true, 0},
      {TS_DT_bf16, 64, 1, 2, 1, 300, 300, 2, 1, true, true, 60},
      {TS_DT_bf16, 128, 1, 1, 1, 150, 100, 1, 2, true, false, 0},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) one(&all[i]);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
