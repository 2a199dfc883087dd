/* Attention of few queries (ir/tile/gpu/decode.c) in the interpreter: groups of heads, several
 * queries, window, sink, ragged sizes, more parts than blocks; bit by bit against plain C in
 * the same order. The text reads back, and the scratch is left as it was found. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/gpu/decode.h"
#include "tests/ir/gpu_attend.h"

typedef struct Case {
  TsDtype dtype;
  int d, j, e, t, c, p, queries; /* sizes as the kernel's */
  bool causal, sink;
  int window;
} Case;

static bool sees(const Case *c, int row, int key) {
  int at = row % c->queries + c->t - c->queries;
  return key < c->t && !(c->causal && key > at) && !(c->window && key <= at - c->window);
}

enum { PARTS = 64 };

static void row(const Case *c, void *const *arg, int head, int r, uint16_t *y) {
  static Attended part[PARTS]; /* each over one chunk */
  const float scale = (float)(1 / sqrt(c->d) * 1.4426950408889634);
  const uint16_t *q = (const uint16_t *)arg[0] + ((int64_t)head * c->e + r) * c->d;
  const uint16_t *k = (const uint16_t *)arg[1] + (int64_t)head * c->t * c->d;
  const uint16_t *v = (const uint16_t *)arg[2] + (int64_t)head * c->t * c->d;
  int low = c->window ? c->t - c->queries - c->window + 1 : 0, n = 0;
  if (low < 0) low = 0;
  for (int c0 = low / 128 / c->c * c->c; c0 * 128 < c->t; c0 += c->c, n++)
    for (int i = c0; i < c0 + c->c && i * 128 < c->t; i++) {
      bool seen[128], first = i == (c0 > low / 128 ? c0 : low / 128);
      for (int j = 0; j < 128; j++) seen[j] = sees(c, r, i * 128 + j);
      if (i >= low / 128) attend(c->dtype, c->d, c->t, &part[n], q, k, v, i * 128, seen, first);
    }
  float sink = c->sink ? ((const float *)arg[3])[(head * c->e + r) % (c->j * c->e)] : -INFINITY;
  sink *= (float)1.4426950408889634;
  float most = sink, sum, o[128] = {0};
  for (int i = 0; i < n; i++) most = fmaxf(most, part[i].m * scale);
  sum = c->sink ? exp2f(sink - most) : 0;
  for (int i = 0; i < n; i++) {
    Attended *x = &part[i];
    float f = exp2f(x->m * scale - most), l = (x->l[0] + x->l[1]) + (x->l[2] + x->l[3]);
    sum = fmaf(l, f, sum);
    for (int e = 0; e < c->d; e++) o[e] = fmaf(x->o[e], f, o[e]);
  }
  float factor = sum == 0 ? 0 : 1 / sum;
  for (int e = 0; e < c->d; e++) y[e] = narrow(c->dtype, o[e] * factor);
}

static void compare(const Case *c, void *const *arg, const uint16_t *y) {
  uint16_t want[128];
  for (int h = 0; h < c->j; h++)
    for (int r = 0; r < c->e; r++) {
      row(c, arg, h, r, want);
      const uint16_t *got = y + ((int64_t)h * c->e + r) * c->d;
      int at = 0;
      while (at < c->d && want[at] == got[at]) at++;
      if (at == c->d) continue;
      printf(
          "d %d e %d t %d c %d queries %d causal %d window %d sink %d: head %d row %d column "
          "%d: %g, not %g\n",
          c->d, c->e, c->t, c->c, c->queries, c->causal, c->window, c->sink, h, r, at,
          (double)get(c->dtype, got, at), (double)get(c->dtype, want, at));
      failed++;
      return;
    }
}

static void one(const Case *c) {
  TsError err = {0};
  TsGpuDecode x = ts_gpu_decode(c->dtype, c->d, c->e, 1);
  x.causal = c->causal, x.window = c->window, x.sink = c->sink, x.queries = c->queries;
  int64_t chunks = ts_gpu_decode_chunks(&x, c->j, c->t, c->c);
  if (chunks > x.room || chunks > PARTS) failed++, printf("%d chunks\n", (int)chunks);
  TsTile *k = ts_tile_gpu_decode(&x, &err);
  if (!k || ts_tile_check(k, &hopper, &err)) {
    failed++, printf("%s\n", err.message);
    return;
  }
  round_trip(k);
  int64_t nq = (int64_t)c->j * c->e * c->d, nk = (int64_t)c->j * c->t * c->d;
  float *sink = malloc(4 * (size_t)(c->j * c->e));
  for (int i = 0; i < c->j * c->e; i++) sink[i] = (float)i - 1;
  void *arg[5] = {numbers(c->dtype, nq), numbers(c->dtype, nk), numbers(c->dtype, nk)};
  uint16_t *y = malloc((size_t)nq * 2), *first = malloc((size_t)nq * 2);
  int n = 3;
  if (c->sink) arg[n++] = sink;
  arg[n++] = y;
  for (int i = 1; i < 5; i++) { /* parts of a chunk, then long ones and short ones */
    TsGpuDecodeSplits splits = ts_gpu_decode_splits_of(&x, c->j, c->t, c->c, i, i - 1);
    int64_t blocks = splits.all < c->p ? splits.all : c->p;
    int64_t dim[8] = {c->j, c->e, c->t, c->c, splits.n, splits.longs, c->j * c->e, blocks};
    memset(y, 0xff, (size_t)nq * 2);
    if (ts_tile_run(k, arg, dim, &err))
      failed++, printf("%s\n", err.message);
    else
      compare(c, arg, y);
    if (i == 1) memcpy(first, y, (size_t)nq * 2);
    if (memcmp(first, y, (size_t)nq * 2)) failed++, printf("other bits in other parts\n");
  }
  for (int i = 0; i < 3; i++) free(arg[i]);
  free(sink), free(y), free(first);
  ts_tile_free(k);
}

int main(void) {
  static const Case all[] = {
      {TS_DT_bf16, 128, 2, 8, 700, 2, 2, 1, false, false, 0},
      {TS_DT_bf16, 64, 2, 8, 1300, 1, 3, 1, true, true, 0},
      {TS_DT_f16, 64, 1, 12, 1000, 4, 1, 4, true, false, 0},
      {TS_DT_f16, 128, 1, 24, 300, 2, 1, 3, false, false, 0},
      {TS_DT_bf16, 128, 1, 3, 900, 2, 2, 1, true, true, 200},
      {TS_DT_bf16, 64, 2, 8, 1500, 3, 2, 2, true, false, 300},
      {TS_DT_bf16, 128, 3, 1, 100, 4, 2, 1, true, false, 0},
      {TS_DT_bf16, 64, 2, 1, 5000, 4, 20, 1, true, false, 0},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) one(&all[i]);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
