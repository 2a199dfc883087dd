/* What kernels touch before they wait for the launch in front of them (ir/tile/ahead.h). */
#include <stdio.h>

#include "ir/tile/ahead.h"
#include "ir/tile/gpu/decode.h"
#include "ir/tile/gpu/warp_product.h"

static int failed;

static void is(const char *what, TsTile *k, uint64_t want) {
  uint64_t got = k ? ts_tile_ahead(k) : 0;
  if (k && got == want) return ts_tile_free(k);
  failed++;
  printf("%s: %llx, not %llx\n", what, (unsigned long long)got, (unsigned long long)want);
  ts_tile_free(k);
}

static void is_text(const char *body, uint64_t want) {
  char text[1024];
  TsError err = {0};
  snprintf(text, sizeof text,
           "tile @k(%%a: f32[8], %%b: f32[8]) -> (%%y: f32[8]) target sm_90a threads 32 form "
           "explicit {\n  for %%i in 0..1 parallel {\n%s  }\n}\n",
           body);
  TsTile *k = ts_tile_parse(text, &err);
  if (!k) printf("%s\n", err.message);
  is(body, k, want);
}

/* Rows of a product: B alone. */
static void product(bool bulk) {
  TsError err = {0};
  TsGpuMachine gpu = {.target = ts_target("sm_90a"), .processors = 132};
  TsGpuWarpProduct x = ts_gpu_warp_product_for(TS_DT_bf16, TS_DT_bf16, TS_GPU_UNIT_mma, false,
                                               true, 1, 2048, &gpu);
  ts_gpu_warp_product_few(&x, 1, 2048, &gpu);
  x.bulk = bulk, x.residual = true;
  is(bulk ? "by the copy engine" : "by warps", ts_tile_gpu_warp_product(&x, gpu.target, &err),
     bulk ? 2 : TS_TILE_AHEAD_ALL);
}

/* Rows with ends of their own wait first. */
static void decode(bool last) {
  TsError err = {0};
  TsGpuDecode x = ts_gpu_decode(TS_DT_bf16, 64, 4, 1);
  x.queries = 1, x.scale = 0.125, x.last = last, x.causal = !last;
  is("decoding", ts_tile_gpu_decode(&x, &err), last ? 0 : TS_TILE_AHEAD_ALL);
}

int main(void) {
  is_text("    %v = load %a[0] : f32[8]\n    store %y[0] = %v\n", TS_TILE_AHEAD_ALL);
  is_text("    %v = load %a[0] : f32[8]\n    await_launch\n    %w = load %b[0] : f32[8]\n"
          "    store %y[0] = %w\n",
          1);
  /* A loop may have no round. */
  is_text("    for %j in 0..1 {\n      await_launch\n      %w = load %b[0] : f32[8]\n    }\n"
          "    %v = load %a[0] : f32[8]\n    store %y[0] = %v\n",
          5);
  product(true);
  product(false);
  decode(true);
  decode(false);
  if (failed) printf("%d failed\n", failed);
  return failed > 0;
}
