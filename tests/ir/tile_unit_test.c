/* Sums of a matrix unit (ir/tile/run/unit.c): steps as an H200 made them (unit_vectors.h,
 * written by tests/jit/gpu/unit_device.c --vectors); chains of steps; the vector form and
 * the plain one, which takes over where a number is rare. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/tile/run/run.h"
#include "lib/convert_bits.h"
#include "tests/ir/unit_vectors.h"

enum { M = 5, N = 37, K = 80, STEP = 16 };

static int failures, checks;

static void check(bool good, const char *what) {
  checks++;
  if (!good) failures++, printf("%s\n", what);
}

static bool same(uint32_t x, uint32_t y) {
  return x == y || ((x << 1) > 0xff000000u && (y << 1) > 0xff000000u);
}

static void vectors(void) {
  for (size_t i = 0; i < sizeof unit_vectors / sizeof *unit_vectors; i++) {
    TsDtype d = unit_vectors[i].f16 ? TS_DT_f16 : TS_DT_bf16;
    float acc = f32_of_bits(unit_vectors[i].before);
    bool bad =
        ts_tile_run_unit(d, 1, 1, STEP, unit_vectors[i].a, unit_vectors[i].b, &acc, NULL);
    check(!bad && same(bits_of_f32(acc), unit_vectors[i].behind), "a step of the device");
  }
}

static uint32_t random_word(void) {
  static uint64_t s = 88172645463325252u;
  s ^= s << 13, s ^= s >> 7, s ^= s << 17;
  return (uint32_t)(s >> 32);
}

/* Within 2^4 of 1. */
static uint16_t factor(bool f16) {
  uint32_t r = random_word(), sign = r & 0x8000;
  return (uint16_t)(f16 ? sign | (11 + r % 8) << 10 | (r >> 16 & 0x3ff)
                        : sign | (123 + r % 8) << 7 | (r >> 16 & 0x7f));
}

static float value(bool f16, uint16_t x) { return f16 ? f32_of_f16(x) : f32_of_bf16(x); }

/* From behind, one by one; and not all. */
static void backwards(int64_t n, int64_t grain, void (*task)(void *, int64_t, int64_t, int),
                      void *arg) {
  (void)grain;
  while (n--) task(arg, n, n + 1, 1);
}

static void too_few(int64_t n, int64_t grain, void (*task)(void *, int64_t, int64_t, int),
                    void *arg) {
  (void)grain;
  task(arg, 1, n, 0);
}

static void chains(bool f16) {
  static uint16_t a[M * K], b[K * N], part[STEP * N], left[M * STEP];
  static float whole[M * N], steps[M * N], odd[M * N];
  TsDtype d = f16 ? TS_DT_f16 : TS_DT_bf16;
  for (int i = 0; i < M * K; i++) a[i] = factor(f16);
  for (int i = 0; i < K * N; i++) b[i] = factor(f16);
  for (int i = 0; i < M * N; i++) whole[i] = steps[i] = odd[i] = (float)i / 7 - 10;
  check(!ts_tile_run_unit(d, M, N, K, a, b, whole, NULL), "a chain");
  for (int s = 0; s < K; s += STEP) {
    for (int i = 0; i < M; i++) memcpy(left + i * STEP, a + i * K + s, sizeof *a * STEP);
    memcpy(part, b + s * N, sizeof part);
    check(!ts_tile_run_unit(d, M, N, STEP, left, part, steps, NULL), "its steps");
  }
  check(!memcmp(whole, steps, sizeof whole), "a chain is its steps");
  memcpy(steps, odd, sizeof steps);
  check(!ts_tile_run_unit(d, M, N, K, a, b, steps, backwards), "rows in another order");
  check(!memcmp(whole, steps, sizeof whole), "which have the same bits");
  check(ts_tile_run_unit(d, M, N, K, a, b, steps, too_few) != 0, "a row that is left out");
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      double sum = (float)(i * N + j) / 7 - 10, size = fabs(sum);
      for (int k = 0; k < K; k++) {
        double p = (double)value(f16, a[i * K + k]) * value(f16, b[k * N + j]);
        sum += p, size += fabs(p);
      }
      check(fabs(whole[i * N + j] - sum) <= size * K * 0x1p-22, "near f64");
    }
  /* Columns 1 and 20 are rare: the others of their blocks are added one by one. */
  for (int i = 0; i < M; i++) odd[i * N + 1] = NAN, odd[i * N + 20] = 0x1p-140f;
  check(!ts_tile_run_unit(d, M, N, K, a, b, odd, NULL), "rare columns");
  for (int i = 0; i < M * N; i++)
    check(i % N == 1 || i % N == 20 || bits_of_f32(odd[i]) == bits_of_f32(whole[i]),
          "both forms are the same");
  for (int i = 0; i < M; i++) check(isnan(odd[i * N + 1]), "NaN stays");
  b[3 * N + 2] = f16 ? 0x7c00 : 0x7f80; /* one infinite factor: all is added one by one */
  for (int i = 0; i < M * N; i++) steps[i] = (float)i / 7 - 10;
  check(!ts_tile_run_unit(d, M, N, K, a, b, steps, NULL), "an infinite factor");
  for (int i = 0; i < M * N; i++)
    check(i % N == 2 ? isinf(steps[i]) : bits_of_f32(steps[i]) == bits_of_f32(whole[i]),
          "it is infinite in its column");
}

/* Sixteen times 2^-24 beside 1: each is below the last bit of 1 that a step keeps, 2^-25 is not. */
static void cuts(void) {
  uint16_t a[STEP], b[STEP];
  for (int i = 0; i < STEP; i++) a[i] = 0x3f80, b[i] = bits_of_f32(0x1p-26f) >> 16;
  float acc = 1;
  check(!ts_tile_run_unit(TS_DT_bf16, 1, 1, STEP, a, b, &acc, NULL) && acc == 1,
        "cut to nothing");
  for (int i = 0; i < STEP; i++) b[i] = bits_of_f32(0x1p-25f) >> 16;
  check(!ts_tile_run_unit(TS_DT_bf16, 1, 1, STEP, a, b, &acc, NULL) && acc == 1 + 0x1p-21f,
        "sixteen of the last bit that is kept");
  memset(b + 1, 0, sizeof b - sizeof *b);
  acc = -1;
  check(!ts_tile_run_unit(TS_DT_bf16, 1, 1, STEP, a, b, &acc, NULL) && acc == -1 + 0x1p-24f,
        "towards zero");
  check(ts_tile_run_unit(TS_DT_f32, 1, 1, STEP, a, b, &acc, NULL) != 0,
        "of 16-bit floats alone");
}

int main(void) {
  vectors();
  chains(false);
  chains(true);
  cuts();
  printf("%d passed, %d failed\n", checks - failures, failures);
  return failures != 0;
}
