/* PTX of convolutions on a matrix unit: made for windows, strides, layouts of channels, and
 * assembled where ptxas is found, which must not spill. "i" prints the PTX of case i. */
#include "ir/tile/gpu/conv.h"
#include "jit/compile/llvm.h"
#include "tests/jit/gpu/ptxas.h"

static int failed;

typedef struct Case {
  const char *name;
  bool grad;
  TsGpuConv x;
} Case;

static const Case all[] = {
    {"3x3",
     false,
     {.in = TS_DT_bf16,
      .out = TS_DT_bf16,
      .l = 64,
      .n = 64,
      .channels = 64,
      .window = {1, 3, 3},
      .pitch = {3364, 58, 1},
      .dilation = {1, 1, 1},
      .stride = {1, 1, 1}}},
    {"3x3 with bias, 256 columns",
     false,
     {.in = TS_DT_f16,
      .out = TS_DT_f16,
      .l = 128,
      .n = 512,
      .channels = 128,
      .window = {1, 3, 3},
      .pitch = {900, 30, 1},
      .dilation = {1, 1, 1},
      .stride = {1, 1, 1},
      .bias = true}},
    {"stride 2",
     false,
     {.in = TS_DT_bf16,
      .out = TS_DT_bf16,
      .l = 256,
      .n = 128,
      .channels = 64,
      .window = {1, 3, 3},
      .pitch = {841, 29, 1},
      .dilation = {1, 1, 1},
      .stride = {1, 2, 2}}},
    {"backwards to f32",
     false,
     {.in = TS_DT_bf16,
      .out = TS_DT_f32,
      .l = 64,
      .n = 64,
      .channels = 64,
      .window = {3, 3, 3},
      .pitch = {3364, 58, 1},
      .dilation = {1, 1, 2},
      .stride = {1, 1, 1},
      .backwards = true}},
    {"1x1",
     false,
     {.in = TS_DT_bf16,
      .out = TS_DT_bf16,
      .l = 256,
      .n = 64,
      .channels = 256,
      .window = {1, 1, 1},
      .pitch = {3136, 56, 1},
      .dilation = {1, 1, 1},
      .stride = {1, 1, 1}}},
    {"weights",
     true,
     {.in = TS_DT_bf16,
      .l = 64,
      .n = 64,
      .channels = 64,
      .window = {1, 3, 3},
      .pitch = {3364, 58, 1},
      .dilation = {1, 1, 1},
      .stride = {1, 1, 1}}},
    {"weights, 256 columns",
     true,
     {.in = TS_DT_f16,
      .l = 512,
      .n = 200,
      .channels = 512,
      .window = {1, 3, 3},
      .pitch = {256, 16, 1},
      .dilation = {1, 1, 1},
      .stride = {1, 1, 1}}},
};

static void say(const void *of, const char *what) {
  printf("%s: %s\n", ((const Case *)of)->name, what);
}

static TsTile *kernel(const Case *c, TsError *err) {
  return c->grad ? ts_tile_gpu_conv_grad(&c->x, err) : ts_tile_gpu_conv(&c->x, err);
}

static void one(const Case *c, bool ptxas) {
  TsError err = {0};
  TsTile *k = kernel(c, &err);
  if (!k || ts_tile_check(k, NULL, &err)) {
    failed++, say(c, err.message);
    ts_tile_free(k);
    return;
  }
  failed += judge_kernel(k, 3, 0, ptxas, c, say);
}

/* What the kernels have no room for is refused. */
static void refused(void) {
  TsError err = {0};
  TsGpuConv x = all[0].x;
  x.channels = 40;
  if (ts_tile_gpu_conv(&x, &err)) failed++, printf("channels of no whole stage\n");
  x.channels = 60;
  if (ts_tile_gpu_conv_grad(&x, &err)) failed++, printf("channels of no 16 bytes\n");
}

int main(int argc, char **argv) {
  size_t n = sizeof all / sizeof *all;
  if (!ts_llvm_present()) return skip("no LLVM");
  if (argc > 1) {
    TsError err = {0};
    TsTile *k = kernel(&all[(size_t)atoi(argv[1]) % n], &err);
    if (k) print_code(k, false);
    return ts_tile_free(k), 0;
  }
  bool ptxas = has_ptxas();
  for (size_t i = 0; i < n; i++) one(&all[i], ptxas);
  refused();
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
