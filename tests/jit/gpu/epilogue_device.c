/* Rows behind products on a GPU (ir/tile/gpu/epilogue.h). Without one it says so.
 *
 * Checks that the fused kernels, with rows between products and behind them, have the bits of
 * the product alone and the function's definition, at every run. With --bench: TFLOP/s in
 * bursts, beside the product without rows. --bench sizes as M,N,K. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/convert_bits.h"
#include "tests/ir/gpu_epilogue.h"
#include "tests/jit/gpu/device.h"
#include "tests/skip.h"

enum { ARGUMENTS = 65536, AGAIN = 5, BURSTS = 7, MOST = 8 };

static uint16_t defined[ARGUMENTS]; /* gelu of every bf16 */

static void define(void) {
  static uint16_t x[ARGUMENTS];
  TsTile *k = ts_tile_new("gelu");
  TsTileType t = ts_tile_vector(TS_DT_bf16, ARGUMENTS), piece = ts_tile_vector(TS_DT_bf16, 256);
  TsTileVal in = ts_tile_param(k, "x", &t, false), out = ts_tile_param(k, "y", &t, true);
  k->form = TS_FORM_explicit, k->target = "sm_90a";
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop l =
      ts_tile_for(&b, ts_tile_index(&b, 0), ts_tile_index(&b, ARGUMENTS), 256, true, 0, NULL);
  TsTileVal v = ts_tile_cast(&b, ts_tile_load(&b, in, &l.i, &piece, NULL), TS_DT_f32);
  v = ts_tile_cast(&b, ts_tile_op1(&b, TS_OP_gelu_erf, v), TS_DT_bf16);
  ts_tile_store(&b, out, &l.i, v, NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  for (int i = 0; i < ARGUMENTS; i++) x[i] = (uint16_t)i;
  MUST(ts_tile_run(k, (void *[]){x, defined}, NULL, &err));
  ts_tile_free(k);
}

typedef struct Plan {
  const char *name;
  int number; /* of epilogue_cases; -1: the product alone; -2: with bias */
  bool late;
  int rows, cols, cluster, stages;
} Plan;

static Loaded load(const Plan *x, const int64_t *size) {
  int nsm = gpu->processors;
  TsGpuProduct p = ts_gpu_product_for(TS_DT_bf16, TS_DT_bf16, false, true, size[0], size[1],
                                      size[2], 1, nsm, true);
  if (x->rows) {
    p = ts_gpu_product(TS_DT_bf16, TS_DT_bf16, false, true, x->rows, x->cols);
    p.cluster = x->cluster;
  }
  TsGpuEpilogue f;
  TsTile *block = x->number >= 0 ? epilogue_block(x->number, TS_DT_bf16, size, &err) : NULL;
  if (block && ts_gpu_epilogue_find(block, &f)) {
    epilogue_rows(&p, &f, x->late);
  } else if (x->number >= 0) {
    printf("no rows: %s\n", err.message), exit(1);
  }
  if (x->number == -2) p.bias = true;
  if (x->number < 0 && x->late) ts_gpu_product_settle(&p, size[2]);
  if (x->stages) p.stages = x->stages;
  Loaded k = load_tile(ts_tile_gpu_product(&p, &err));
  ts_tile_free(block);
  return k;
}

static void run(const Loaded *k, void *const *arg, const int64_t *size) {
  int64_t dim[4] = {size[0], size[1], size[2], gpu->processors / k->info.cluster};
  launch_tile(k, arg, dim);
}

/* ---- data */
static void *numbers(int64_t n, float scale) {
  uint16_t *x = malloc((size_t)n * 2 + 16);
  for (int64_t i = 0; i < n; i++) x[i] = bf16_of_f32(normal() * scale);
  return x;
}

/* scale: of A's elements, so that sums are about so large. */
static void *on_device_numbers(int64_t n, float scale) {
  enum { CHUNK = 8 << 20 };
  char *at = on_device(NULL, 2 * n);
  void *x = numbers(n < CHUNK ? n : CHUNK, scale);
  for (int64_t i = 0; i < n; i += CHUNK)
    MUST(gpu->upload(gpu, at + 2 * i, x, 2 * (n - i < CHUNK ? n - i : CHUNK), &err));
  free(x);
  return at;
}

/* ---- correctness */
static void one(const Plan *x, const int64_t *size, void *const *in, const uint16_t *z,
                const uint16_t *more) {
  Loaded k = load(x, size);
  int64_t n = size[0] * size[1], wrong = 0, first = -1;
  uint16_t *got = malloc((size_t)n * 2), *other = malloc((size_t)n * 2);
  void *y[2] = {on_device(NULL, 2 * n), on_device(NULL, 2 * n)};
  void *arg[5] = {in[0], in[1], x->number == 2 ? in[3] : in[2], y[0], y[1]};
  memset(got, 0xff, (size_t)n * 2);
  MUST(gpu->upload(gpu, y[0], got, 2 * n, &err));
  alarm(20);
  run(&k, arg, size);
  MUST(gpu->download(gpu, got, y[0], 2 * n, &err));
  for (int64_t i = 0; i < n; i++) {
    uint16_t want = defined[z[i]];
    if (x->number == 2) {
      float v = f32_of_bf16(z[i]);
      v = v > 0 ? v : 0;
      want = bf16_of_f32(v * 0.5f + f32_of_bf16(more[i]));
    }
    bool same = got[i] == want || ((want & 0x7fff) > 0x7f80 && (got[i] & 0x7fff) > 0x7f80);
    if (!same && !wrong++) first = i;
  }
  if (x->number == 1) {
    MUST(gpu->download(gpu, other, y[1], 2 * n, &err));
    if (memcmp(other, z, (size_t)n * 2)) failed++, printf("WRONG %s: sums differ\n", x->name);
  }
  for (int i = 0; i < AGAIN; i++) run(&k, arg, size);
  MUST(gpu->download(gpu, other, y[0], 2 * n, &err));
  alarm(0);
  if (memcmp(got, other, (size_t)n * 2))
    failed++, printf("WRONG %s: later runs differ\n", x->name);
  if (wrong)
    failed++, printf("WRONG %s %ldx%ldx%ld: %ld differ, at %ld: %04x, sum %04x\n", x->name,
                     (long)size[0], (long)size[1], (long)size[2], (long)wrong, (long)first,
                     got[first], z[first]);
  else
    printf("%s %ldx%ldx%ld: the definition's bits\n", x->name, (long)size[0], (long)size[1],
           (long)size[2]);
  for (int i = 0; i < 2; i++) gpu->free(gpu, y[i], 2 * n + 256);
  free(got), free(other);
  unload_tile(&k);
}

static const Plan plans[] = {
    {"late 256c2", 0, true, 128, 256, 2, 0},    {"here 256c2", 0, false, 128, 256, 2, 0},
    {"late 256", 0, true, 128, 256, 1, 0},      {"late 128", 0, true, 128, 128, 1, 0},
    {"late 64x64", 0, true, 64, 64, 1, 0},      {"two results", 1, true, 128, 256, 2, 0},
    {"two results 64", 1, true, 128, 64, 2, 0}, {"late 192", 0, true, 128, 192, 2, 0},
    {"two, here", 1, false, 128, 256, 2, 0},
};

static void check(int64_t m, int64_t n, int64_t k, float scale) {
  const int64_t size[3] = {m, n, k};
  uint16_t *z = malloc((size_t)(m * n) * 2), *more = numbers(m * n, 1);
  void *in[4] = {on_device_numbers(m * k, scale), on_device_numbers(n * k, 1),
                 on_device_numbers(n, scale), on_device(more, 2 * m * n)};
  void *y = on_device(NULL, 2 * m * n);
  Loaded bare = load(&(Plan){"bias", -2, false, 128, 256, 2, 0}, size);
  run(&bare, (void *[]){in[0], in[1], in[2], y}, size);
  MUST(gpu->download(gpu, z, y, 2 * m * n, &err));
  unload_tile(&bare);
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) one(&plans[i], size, in, z, more);
  bare = load(&(Plan){"alone", -1, false, 128, 256, 2, 0}, size);
  run(&bare, (void *[]){in[0], in[1], y}, size);
  MUST(gpu->download(gpu, z, y, 2 * m * n, &err));
  unload_tile(&bare);
  one(&(Plan){"relu residual", 2, false, 128, 256, 2, 0}, size, in, z, more);
  one(&(Plan){"residual ahead", 2, false, 128, 256, 2, 0}, size, in, z, more);
  one(&(Plan){"residual ahead 64", 2, false, 128, 64, 1, 0}, size, in, z, more);
  free(z), free(more);
}

/* ---- bursts */
static double burst(const Loaded *k, void *const *arg, const int64_t *size, int times) {
  static void *from, *to;
  double usec = 0;
  if (!from) MUST(gpu->run->event_new(gpu, &from, &err));
  if (!to) MUST(gpu->run->event_new(gpu, &to, &err));
  MUST(gpu->synchronize(gpu, &err));
  usleep(70000);
  run(k, arg, size);
  MUST(gpu->run->event_record(gpu, from, NULL, &err));
  for (int i = 0; i < times; i++) run(k, arg, size);
  MUST(gpu->run->event_record(gpu, to, NULL, &err));
  MUST(gpu->run->event_wait(gpu, to, &err));
  MUST(gpu->run->event_usec(gpu, from, to, &usec, &err));
  return usec * 1e-3 / times;
}

static void bench(int64_t m, int64_t n, int64_t k, float scale) {
  static const Plan plan[] = {
      {"bare", -1, true, 0, 0, 0, 0},     {"bare here", -1, false, 0, 0, 0, 0},
      {"bias", -2, true, 0, 0, 0, 0},     {"gelu here", 0, false, 0, 0, 0, 0},
      {"gelu late", 0, true, 0, 0, 0, 0}, {"tanh here", 5, false, 0, 0, 0, 0},
      {"tanh late", 5, true, 0, 0, 0, 0}, {"gelu+sums", 1, true, 0, 0, 0, 0},
      {"residual", 2, false, 0, 0, 0, 0},
  };
  enum { N = sizeof plan / sizeof *plan };
  const int64_t size[3] = {m, n, k};
  void *a = on_device_numbers(m * k, scale), *b = on_device_numbers(n * k, 1),
       *bias = on_device_numbers(n, scale), *more = on_device_numbers(m * n, 1);
  void *y[2] = {on_device(NULL, 2 * m * n), on_device(NULL, 2 * m * n)};
  double flop = 2.0 * (double)m * (double)n * (double)k, msec[N][BURSTS];
  int times = (int)(10e-3 / (flop / 700e12)) + 1;
  Loaded kernel[N];
  for (int i = 0; i < N; i++) kernel[i] = load(&plan[i], size);
  alarm(60);
  for (int r = 0; r < BURSTS; r++)
    for (int i = 0; i < N; i++) {
      int q = (i + r * 3) % N;
      void *arg[5] = {a, b, plan[q].number == 2 ? more : bias, y[0], y[1]};
      if (plan[q].number == -1) arg[2] = y[0];
      msec[q][r] = burst(&kernel[q], arg, size, times);
    }
  alarm(0);
  printf("%ldx%ldx%ld scale %g:", (long)m, (long)n, (long)k, (double)scale);
  for (int i = 0; i < N; i++) {
    qsort(msec[i], BURSTS, sizeof(double), by_time);
    printf(" | %s %.1f", plan[i].name, flop / msec[i][BURSTS / 2] * 1e-9);
    unload_tile(&kernel[i]);
  }
  printf("\n");
  gpu->free(gpu, a, 2 * m * k + 256), gpu->free(gpu, b, 2 * n * k + 256);
  gpu->free(gpu, more, 2 * m * n + 256);
  for (int i = 0; i < 2; i++) gpu->free(gpu, y[i], 2 * m * n + 256);
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  gpu = ts_device_find("cuda:0", &err);
  if (!gpu || !gpu->run || !ts_target_has(gpu->target, TS_UNIT_roles))
    return skip("no GPU that has the unit");
  MUST(ts_device_use(gpu, &err));
  if (argc > 1 && !strcmp(argv[1], "--bench")) {
    bench(8192, 16384, 4096, 1 / 64.0f);
    bench(8192, 16384, 4096, 1);
    bench(16384, 3072, 768, 1 / 28.0f);
    bench(8192, 8192, 8192, 1 / 90.0f);
    return 0;
  }
  define();
  check(1000, 1088, 192, 0.1f);
  check(1000, 1088, 192, 1);
  check(2048, 2304, 1024, 1 / 32.0f);
  printf("%s\n", failed ? "FAILED" : "all right");
  return failed != 0;
}
