/* Products of bf16 by the matrix unit: the driver's edges, strides, parts of k and threads with a
 * model of the unit that is written from Intel's description of TDPBF16PS, on any machine; and,
 * where there is such a unit, the kernels' bits beside the model's.
 * Usage: gemm_amx_test [rounds] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "lib/convert_bits.h"
#include "tests/skip.h"
#include "vm/gemm/pairs_job.h"

static int failures, checks;
static uint64_t seed = 1;

static uint32_t rnd(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33);
}

static int64_t below(int64_t n) { return (int64_t)(rnd() % (uint64_t)n); }

/* Of a product's usual numbers, some zero, some denormal. */
static uint16_t some_bf16(void) {
  uint32_t kind = rnd() % 64;
  if (kind == 0) return (uint16_t)(rnd() & 0x8000);
  if (kind == 1) return (uint16_t)(rnd() & 0x807f);
  return bf16_of_f32(((float)rnd() / 0x1p30f - 1) * (kind < 8 ? 100 : 1));
}

/* ---- the model */
static float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
static float number(uint16_t x) { return flushed(f32_of_bf16(x)); }

/* One element over 32 steps: x and y are pairs, `far` apart in y. */
static float instruction(float sum, const uint16_t *x, const uint16_t *y, int64_t far) {
  float part[2] = {0, 0};
  for (int p = 0; p < 16; p++)
    for (int i = 0; i < 2; i++)
      part[i] = flushed(fmaf(number(x[2 * p + i]), number(y[p * far + i]), part[i]));
  return flushed(flushed(sum) + flushed(part[0] + part[1]));
}

static int opened;

static void model_open(int rows) { opened = rows; }
static void model_close(void) { opened = 0; }

static void model_block(int rows, int64_t steps, const void *a, int64_t ars, int64_t ats,
                        const uint32_t *b, float *c, int64_t crs, bool resume) {
  const char *x = a;
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < TS_AMX_COLS; j++) {
      float sum = resume ? c[i * crs + j] : 0;
      for (int64_t s = 0; s < steps; s++) {
        uint16_t row[TS_AMX_STEPS];
        memcpy(row, x + i * ars + s * ats, sizeof row);
        const uint32_t *y = b + s * TS_AMX_STEPS / 2 * TS_AMX_COLS + j;
        sum = instruction(sum, row, (const uint16_t *)(const void *)y, 2 * TS_AMX_COLS);
      }
      c[i * crs + j] = sum;
    }
}

static void model_pack_rows(void *dst, const uint16_t *src, int64_t is, int64_t ks, int64_t n,
                            int64_t nk) {
  uint16_t *d = dst;
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < (nk + TS_AMX_STEPS - 1) / TS_AMX_STEPS * TS_AMX_STEPS; k++)
      d[(k / TS_AMX_STEPS * TS_AMX_ROWS + i) * TS_AMX_STEPS + k % TS_AMX_STEPS] =
          k < nk ? src[i * is + k * ks] : 0;
}

static void model_pack(uint32_t *dst, int width, const uint16_t *src, int64_t is, int64_t ks,
                       int64_t n, int64_t nk) {
  for (int64_t p = 0; 2 * p < nk; p++)
    for (int64_t i = 0; i < width; i++) {
      uint32_t low = i < n ? src[i * is + 2 * p * ks] : 0;
      uint32_t high = i < n && 2 * p + 1 < nk ? src[i * is + (2 * p + 1) * ks] : 0;
      dst[p * width + i] = low | high << 16;
    }
}

static bool model_store(int64_t rows, int64_t n, const float *c, int64_t crs, void *dst,
                        int64_t drs) {
  (void)rows, (void)n, (void)c, (void)crs, (void)dst, (void)drs;
  return false;
}

/* ---- products */
typedef struct Matrix {
  uint16_t *p;
  int64_t rs, cs, count;
} Matrix;

static Matrix matrix(int64_t rows, int64_t cols) {
  static const int64_t gaps[] = {0, 0, 1, 3, 32};
  int64_t gap = gaps[below(5)];
  Matrix m;
  if (below(2))
    m = (Matrix){.rs = cols + gap, .cs = 1};
  else
    m = (Matrix){.rs = 1, .cs = rows + gap};
  if (below(8) == 0) m.rs *= 2, m.cs *= 2;
  m.count = rows * m.rs + cols * m.cs + 1;
  /* Exactly as much as may be read, for the address sanitizer. */
  if (rows && cols) m.count = (rows - 1) * m.rs + (cols - 1) * m.cs + 1;
  m.p = malloc((size_t)m.count * 2 + 1);
  for (int64_t i = 0; i < m.count; i++) m.p[i] = some_bf16();
  return m;
}

static void add_row(void *arg, void *acc, int64_t batch, int64_t row, int64_t col,
                    int64_t ncols) {
  (void)arg;
  for (int64_t j = 0; j < ncols; j++)
    ((float *)acc)[j] += (float)(batch * 1000 + row * 10 + (col + j) % 7);
}

static float expected(const TsGemm *g, int64_t row, int64_t col) {
  const uint16_t *a = (const uint16_t *)g->a + row * g->a_rs;
  const uint16_t *b = (const uint16_t *)g->b + col * g->b_cs;
  float sum = 0;
  for (int64_t k0 = 0; k0 < g->k; k0 += TS_AMX_STEPS) {
    uint16_t x[TS_AMX_STEPS] = {0}, y[TS_AMX_STEPS] = {0};
    for (int64_t k = k0; k < g->k && k < k0 + TS_AMX_STEPS; k++)
      x[k - k0] = a[k * g->a_cs], y[k - k0] = b[k * g->b_rs];
    sum = instruction(sum, x, y, 2);
  }
  return sum;
}

static void one(const TsKernels *k, const char *what) {
  static const int64_t size[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 130};
  static const int64_t steps[] = {0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 130, 512, 544, 1030};
  TsGemm g = {.in = TS_GEMM_bf16, .out = below(2) ? TS_GEMM_bf16 : TS_GEMM_f32, .batch = 1};
  g.m = size[below(13)], g.n = size[below(13)], g.k = steps[below(14)];
  if (below(16) == 0) g.n = 600;
  Matrix a = matrix(g.m, g.k), b = matrix(g.k, g.n);
  g.a = a.p, g.a_rs = a.rs, g.a_cs = a.cs;
  g.b = b.p, g.b_rs = b.rs, g.b_cs = b.cs;
  bool across = below(4) == 0;
  g.c_rs = across ? 1 : g.n, g.c_cs = across ? g.m : 1;
  if (below(2)) g.finish = add_row;
  size_t nbytes = (size_t)(g.m * g.n) * (g.out == TS_GEMM_f32 ? 4 : 2);
  char *c = malloc(nbytes);
  memset(c, 0x55, nbytes);
  g.c = c;
  ts_cpu_set_threads((int)(1 + below(3)));
  int wrong = ts_gemm_amx(&g, k) != 0 || opened != 0;
  for (int64_t i = 0; i < g.m && !wrong; i++)
    for (int64_t j = 0; j < g.n && !wrong; j++) {
      float want = expected(&g, i, j);
      if (g.finish) add_row(NULL, &want, 0, i, j, 1);
      int64_t at = i * g.c_rs + j * g.c_cs;
      if (g.out == TS_GEMM_f32) {
        wrong = memcmp(c + at * 4, &want, 4) != 0;
      } else {
        uint16_t rounded = bf16_of_f32(want);
        wrong = memcmp(c + at * 2, &rounded, 2) != 0;
      }
      if (wrong)
        printf(
            "%s: %lld x %lld x %lld, strides %lld %lld and %lld %lld: differs at %lld, %lld\n",
            what, (long long)g.m, (long long)g.k, (long long)g.n, (long long)g.a_rs,
            (long long)g.a_cs, (long long)g.b_rs, (long long)g.b_cs, (long long)i,
            (long long)j);
    }
  checks++;
  failures += wrong;
  free(a.p), free(b.p), free(c);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 300;
  TsKernels model = *ts_kernels_use("base");
  model.gemm_amx = (TsGemmAmxKernels){model_open, model_close, model_block, model_pack_rows};
  model.gemm_pairs = (TsGemmPairsKernels){.pack = model_pack, .store = model_store};
  for (int i = 0; i < rounds; i++) one(&model, "model");
  const TsKernels *real = ts_kernels_use(NULL);
  bool have = real->gemm_amx.block;
  for (int i = 0; i < rounds && have; i++) one(real, "unit");
  if (!have) skip("this CPU has no AMX: a model of it is run");
  printf("%d passed, %d failed\n", checks - failures, failures);
  return failures != 0;
}
