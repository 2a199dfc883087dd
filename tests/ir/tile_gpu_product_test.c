/* Matrix products for GPUs (ir/tile/gpu/product.c) in the interpreter: layouts, tiles, edges,
 * stages, rows behind the product. f32 against a chain of fmaf in plain C, bit by bit; 16-bit
 * floats against sums in f64, and the same bits for every tile. The text reads back. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/gpu/product.h"
#include "lib/convert_bits.h"

static int failed;

static uint64_t rnd(void) {
  static uint64_t seed = 1;
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return seed >> 20;
}

typedef enum How { USUAL, LATE /* with bias */ } How;

typedef struct Case {
  TsDtype in, out;
  int m, n, k, p, rows, cols, cluster, stages;
  bool ta, tb, more;
  int limit;
  How how;
} Case;

static const TsTarget hopper = {.name = "sm_90a", .shared_bytes = 232448};

static float get(TsDtype d, const void *x, int64_t i) {
  if (d == TS_DT_f32) return ((const float *)x)[i];
  if (d == TS_DT_f64) return (float)((const double *)x)[i];
  if (d == TS_DT_fp8_e4m3) return f32_of_e4m3(((const uint8_t *)x)[i]);
  uint16_t u = ((const uint16_t *)x)[i];
  return d == TS_DT_bf16 ? f32_of_bf16(u) : f32_of_f16(u);
}

static void set(TsDtype d, void *x, int64_t i, float v) {
  if (d == TS_DT_f32)
    ((float *)x)[i] = v;
  else if (d == TS_DT_f64)
    ((double *)x)[i] = (double)v;
  else if (d == TS_DT_fp8_e4m3)
    ((uint8_t *)x)[i] = e4m3_of_f32(v);
  else
    ((uint16_t *)x)[i] = d == TS_DT_bf16 ? bf16_of_f32(v) : f16_of_f32(v);
}

static void *numbers(TsDtype d, int64_t n) {
  void *p = malloc((size_t)n * 8 + 8);
  for (int64_t i = 0; i < n; i++) set(d, p, i, (float)((int)(rnd() % 2001) - 1000) / 512);
  return p;
}

/* What tile and block order make of it: one chain in increasing k. */
static void chains(const Case *c, void *const *arg, void *want) {
  TsDtype d = c->in;
  for (int i = 0; i < c->m; i++)
    for (int j = 0; j < c->n; j++) {
      float sum = 0;
      double wide = 0;
      for (int k = 0; k < c->k; k++) {
        int64_t ia = c->ta ? (int64_t)k * c->m + i : (int64_t)i * c->k + k;
        int64_t ib = c->tb ? (int64_t)j * c->k + k : (int64_t)k * c->n + j;
        if (d == TS_DT_f64)
          wide = fma(((double *)arg[0])[ia], ((double *)arg[1])[ib], wide);
        else
          sum = fmaf(get(d, arg[0], ia), get(d, arg[1], ib), sum);
      }
      int64_t at = (int64_t)i * c->n + j;
      if (c->how == LATE) sum += get(c->out, arg[2], j);
      if (c->more) {
        sum += get(c->out, arg[2], j);
        sum = sum > 0 ? sum : 0;
        sum += get(c->out, arg[3], at);
      }
      if (d == TS_DT_f64)
        ((double *)want)[at] = wide;
      else
        set(c->out, want, at, sum);
    }
}

static void round_trip(const TsTile *k) {
  TsText text = {0}, why = {0};
  TsError err = {0};
  ts_tile_text(k, &text);
  TsTile *y = ts_tile_parse(text.at, &err);
  if (!y)
    failed++, printf("%s\n%s\n", err.message, text.at);
  else if (!ts_tile_equal(k, y, &why))
    failed++, printf("%s\n%s\n", why.at, text.at);
  if (getenv("TILE_TEXT")) puts(text.at);
  ts_tile_free(y);
  ts_text_free(&text);
  ts_text_free(&why);
}

static void one(const Case *c) {
  TsError err = {0};
  TsGpuProduct p = ts_gpu_product(c->in, c->out, c->ta, c->tb, c->rows, c->cols);
  p.cluster = c->cluster;
  if (c->stages) p.stages = c->stages;
  p.limit = c->limit;
  if (c->more) p.bias = p.residual = true, p.activation = TS_OP_relu;
  if (c->how == LATE) p.bias = true, ts_gpu_product_settle(&p, 1 << 20);
  TsTile *k = ts_tile_gpu_product(&p, &err);
  if (!k || ts_tile_check(k, &hopper, &err)) {
    failed++, printf("%s\n", err.message);
    return;
  }
  round_trip(k);
  int64_t dim[4] = {c->m, c->n, c->k, c->p}, mn = (int64_t)c->m * c->n;
  void *arg[5] = {numbers(c->in, (int64_t)c->m * c->k), numbers(c->in, (int64_t)c->k * c->n)};
  int n = 2;
  if (c->more || c->how == LATE) arg[n++] = numbers(c->out, c->n);
  if (c->more) arg[n++] = numbers(c->out, mn);
  void *want = calloc((size_t)mn + 1, 8);
  arg[n] = malloc((size_t)mn * 8 + 8);
  memset(arg[n], 0xff, (size_t)mn * 8);
  chains(c, arg, want);
  if (ts_tile_run(k, arg, dim, &err)) failed++, printf("%s\n", err.message);
  size_t nbytes = (size_t)mn * ts_dtypes[c->out].nbytes;
  if (memcmp(want, arg[n], nbytes))
    failed++, printf("%s %s %d%d %dx%dx%d differs\n", ts_dtype_name(c->in),
                     ts_dtype_name(c->out), c->ta, c->tb, c->m, c->n, c->k);
  for (int i = 0; i <= n; i++) free(arg[i]);
  free(want);
  ts_tile_free(k);
}

int main(void) {
  for (int i = 0; i < 4; i++) {
    bool ta = i & 1, tb = i & 2;
    Case all[] = {
        {TS_DT_bf16, TS_DT_bf16, 264, 136, 72, 1, 128, 128, 2, 2, ta, tb, false, 0, USUAL},
        {TS_DT_f16, TS_DT_f32, 40, 72, 200, 2, 128, 64, 1, 0, ta, tb, true, 0, USUAL},
        /* tiles of one piece, or three: buffers take turns across tiles */
        {TS_DT_bf16, TS_DT_bf16, 200, 136, 72, 1, 64, 64, 1, 3, ta, tb, false, 0, USUAL},
        {TS_DT_bf16, TS_DT_bf16, 200, 400, 40, 2, 192, 192, 1, 2, ta, tb, false, 0, USUAL},
        {TS_DT_bf16, TS_DT_bf16, 400, 200, 300, 2, 128, 64, 2, 2, ta, tb, false, 2, USUAL},
        {TS_DT_f32, TS_DT_f32, 70, 132, 85, 1, 64, 128, 1, 2, ta, tb, false, 0, USUAL},
        {TS_DT_f32, TS_DT_f32, 68, 172, 16, 2, 32, 128, 1, 0, ta, tb, true, 0, USUAL},
        {TS_DT_f64, TS_DT_f64, 40, 70, 21, 3, 32, 64, 1, 3, ta, tb, false, 0, USUAL},
        {TS_DT_f32, TS_DT_f32, 70, 132, 85, 3, 32, 64, 1, 2, ta, tb, false, 0, USUAL},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) one(&all[k]);
  }
  one(&(Case){TS_DT_bf16, TS_DT_bf16, 300, 280, 130, 2, 128, 256, 2, 0, false, true, true, 0,
              USUAL});
  one(&(Case){TS_DT_fp8_e4m3, TS_DT_bf16, 200, 136, 272, 2, 128, 128, 1, 2, false, true, false,
              0, USUAL});
  one(&(Case){TS_DT_fp8_e4m3, TS_DT_f32, 264, 72, 144, 1, 128, 64, 2, 3, false, true, true, 0,
              USUAL});
  one(&(Case){TS_DT_bf16, TS_DT_bf16, 300, 520, 130, 2, 128, 256, 2, 0, false, true, false, 0,
              LATE});
  one(&(Case){TS_DT_bf16, TS_DT_bf16, 200, 400, 580, 3, 128, 192, 1, 3, true, false, false, 2,
              LATE});
  one(&(Case){TS_DT_f16, TS_DT_f16, 200, 72, 600, 1, 192, 64, 1, 3, true, false, false, 0,
              LATE});
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
