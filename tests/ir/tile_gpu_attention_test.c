/* Attention for GPUs (ir/tile/gpu/attention.c) in the interpreter: causal, window, sink, groups
 * of heads, ragged sizes, more tiles than blocks; bit by bit against plain C in the same order,
 * and near the right numbers. The text reads back. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/gpu/attention.h"
#include "tests/ir/gpu_attend.h"

typedef struct Case {
  TsDtype dtype;
  int d, b, n, j, s, t, g, p; /* n, j: heads of all batches */
  bool causal, sink;
  int window;
} Case;

static bool sees(const Case *c, int i, int key) {
  int at = i + c->t - c->s;
  return key < c->t && !(c->causal && key > at) && !(c->window && key <= at - c->window);
}

/* Which keys of a block query i sees; whether any. */
static bool find_seen(const Case *c, int i, int k0, bool seen[128]) {
  bool any = false;
  for (int j = 0; j < 128; j++) any |= seen[j] = sees(c, i, k0 + j);
  return any;
}

static void row(const Case *c, void *const *arg, int head, int i, uint16_t *y, float *lse) {
  const float scale = (float)(1 / sqrt(c->d) * 1.4426950408889634);
  int64_t key_head = head / (c->n / c->j);
  const uint16_t *q = (const uint16_t *)arg[0] + (int64_t)head * c->s * c->d;
  const uint16_t *k = (const uint16_t *)arg[1] + key_head * c->t * c->d;
  const uint16_t *v = (const uint16_t *)arg[2] + key_head * c->t * c->d;
  Attended r = {.m = -1e30f};
  bool first = true, seen[128];
  for (int k0 = 0; k0 < c->t; k0 += 128) {
    if (!find_seen(c, i, k0, seen)) continue;
    attend(c->dtype, c->d, c->t, &r, q + (int64_t)i * c->d, k, v, k0, seen, first);
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
