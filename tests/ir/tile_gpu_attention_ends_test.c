/* What stands before and behind the gradients of attention (ir/tile/gpu/attention_ends.c) in
 * the interpreter of Tile IR, against plain C: ragged sizes, rows that see nothing, strides,
 * sinks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/gpu/attention_ends.h"
#include "lib/convert_bits.h"

enum { B = 2, H = 3, S = 70, D = 64, ROWS = 64, LINES = B * H * 2 };

static int failed;

static float get(const uint16_t *x, int64_t i) { return f32_of_bf16(x[i]); }

static void near(const char *what, int i, float is, float want) {
  if (is == want || fabsf(is - want) <= 1e-4f * (1 + fabsf(want))) return;
  if (failed++ < 8) printf("%s %d is %g, not %g\n", what, i, (double)is, (double)want);
}

static void begin(const TsGpuAttentionGrad *x, bool transposed) {
  static uint16_t g[B * H * S * D], y[B * H * S * D];
  static float lse[B * H * S], lse2[LINES * ROWS], delta[LINES * ROWS];
  int64_t stride[4] = {H * S * D, transposed ? D : S * D, transposed ? H * D : D, 1};
  TsGpuHeads h = {.dim = {B, H, S, D}, .stride = transposed ? stride : NULL};
  TsError err = {0};
  for (int i = 0; i < B * H * S * D; i++)
    g[i] = bf16_of_f32((float)(i * 7 % 23 - 11)), y[i] = bf16_of_f32((float)(i * 5 % 19 - 9));
  for (int i = 0; i < B * H * S; i++) lse[i] = i % 9 ? (float)(i % 13) : -INFINITY;
  TsTile *k = ts_tile_gpu_attention_begin(x, &h, &h, &err);
  void *arg[] = {g, y, lse, lse2, delta};
  int64_t dim[TS_ATTENTION_BEGIN_SIZES];
  ts_gpu_attention_begin_sizes(x, &h, &h, dim);
  if (!k || ts_tile_check(k, NULL, &err) || ts_tile_run(k, arg, dim, &err))
    failed++, printf("%s\n", err.message);
  for (int i = 0; i < LINES * ROWS; i++) {
    int head = i / (2 * ROWS), row = i % (2 * ROWS);
    float sum = 0, log = INFINITY;
    for (int e = 0; e < D && row < S; e++) {
      int64_t at = head / H * stride[0] + head % H * stride[1] + row * stride[2] + e;
      sum += get(g, at) * get(y, at);
    }
    if (row < S && lse[head * S + row] > -1e29f) log = lse[head * S + row] * 1.44269504f;
    near("delta", i, delta[i], sum);
    near("lse", i, lse2[i], log);
  }
  ts_tile_free(k);
}

static void end(const TsGpuAttentionGrad *x) {
  enum { N = 5000 };
  static float sums[N];
  static uint16_t dq[N];
  TsError err = {0};
  int64_t n = N;
  for (int i = 0; i < N; i++) sums[i] = (float)(i % 77) - 30;
  TsTile *k = ts_tile_gpu_attention_end(x, NULL, &err);
  void *arg[] = {sums, dq};
  if (!k || ts_tile_check(k, NULL, &err) || ts_tile_run(k, arg, &n, &err))
    failed++, printf("%s\n", err.message);
  for (int i = 0; i < N; i++)
    near("dq", i, get(dq, i), get((uint16_t[]){bf16_of_f32(sums[i] * (float)x->scale)}, 0));
  ts_tile_free(k);
}

/* Part of a tensor [B,S,3,H,D]; what lies between stays as it is. */
static void end_apart(const TsGpuAttentionGrad *x) {
  enum { NB = 2, NH = 3, NS = 37, N = NB * NH * NS * D };
  static float sums[N];
  static uint16_t all[3 * N];
  TsError err = {0};
  int64_t stride[4] = {3 * NH * D * NS, D, 3 * NH * D, 1};
  TsGpuHeads h = {.dim = {NB, NH, NS, D}, .stride = stride};
  for (int i = 0; i < N; i++) sums[i] = (float)(i % 77) - 30;
  for (int i = 0; i < 3 * N; i++) all[i] = 0x7fc1;
  TsTile *k = ts_tile_gpu_attention_end(x, &h, &err);
  void *arg[] = {sums, all + NH * D};
  if (!k || ts_tile_check(k, NULL, &err) || ts_tile_run(k, arg, NULL, &err))
    failed++, printf("%s\n", err.message);
  for (int i = 0; i < N; i++) {
    int d = i % D, s = i / D % NS, head = i / D / NS % NH, b = i / D / NS / NH;
    int64_t at = b * stride[0] + head * stride[1] + s * stride[2] + d + NH * D;
    near("dq apart", i, get(all, at),
         get((uint16_t[]){bf16_of_f32(sums[i] * (float)x->scale)}, 0));
    all[at] = 0x7fc1;
  }
  for (int i = 0; i < 3 * N; i++)
    if (all[i] != 0x7fc1) failed++, printf("written beside dq: %d\n", i);
  ts_tile_free(k);
}

static void sinks(void) {
  enum { M = 300 };
  static float lse2[B * H * M], delta[B * H * M], sink[H], dsink[H];
  TsError err = {0};
  for (int i = 0; i < B * H * M; i++)
    lse2[i] = i % 17 ? (float)(i % 5) : INFINITY, delta[i] = (float)(i % 7) - 2;
  for (int h = 0; h < H; h++) sink[h] = (float)h - 1, dsink[h] = NAN;
  TsTile *k = ts_tile_gpu_attention_sink(B, H, M, &err);
  void *arg[] = {lse2, delta, sink, dsink};
  if (!k || ts_tile_check(k, NULL, &err) || ts_tile_run(k, arg, NULL, &err))
    failed++, printf("%s\n", err.message);
  for (int h = 0; h < H; h++) {
    float want = 0;
    for (int i = 0; i < B * H * M; i++)
      if (i / M % H == h) want -= exp2f(sink[h] * 1.44269504f - lse2[i]) * delta[i];
    near("sink", h, dsink[h], want);
  }
  ts_tile_free(k);
}

int main(void) {
  TsGpuAttentionGrad x = ts_gpu_attention_grad(TS_DT_bf16, D, true, 0);
  begin(&x, false), begin(&x, true);
  end(&x), end_apart(&x);
  sinks();
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
