/* Units of squares (ir/tile/square.h) in the interpreter: chains as they are defined, and what the
 * check says of tiles that a unit does not take. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/check.h"
#include "lib/convert_bits.h"

enum { M = 16, N = 32, K = 96 };

static const char text[] = "tile @square(%%a: %s[16,96], %%b: %s[96,32], %%c: f32[16,32]) -> "
                           "(%%y: f32[16,32]) target %s {\n"
                           "  for %%i in 0..1 parallel {\n"
                           "    %%p = load %%a[0, 0] : %s[16,%d]\n"
                           "    %%q = load %%b[0, 0] : %s[%d,32]\n"
                           "    %%z = load %%c[0, 0] : f32[16,32]\n"
                           "    %%r = mma %%p, %%q, %%z {unit=\"%s\"} : f32[16,32]\n"
                           "    store %%y[0, 0] = %%r\n"
                           "  }\n}\n";

static TsTile *kernel(const char *d, int depth, const char *unit, const char *target,
                      TsError *err) {
  char k[900];
  snprintf(k, sizeof k, text, d, d, target, d, depth, d, depth, unit);
  return ts_tile_parse(k, err);
}

static float element(const float *a, const float *b, float sum, int i, int j, int dots) {
  int by = dots ? dots : 16;
  for (int from = 0; from < K; from += by) {
    float part = dots ? 0 : sum;
    for (int k = from; k < from + by; k++) part = fmaf(a[i * K + k], b[k * N + j], part);
    sum = dots ? part + sum : part;
  }
  return sum;
}

/* dots: steps of k that are added up before they come to the sum; 0: none. */
static int chain(const char *unit, const char *target, int dots) {
  static uint16_t a[M * K], b[K * N];
  static float wide_a[M * K], wide_b[K * N], c[M * N], y[M * N];
  TsError err = {0};
  int bad = 0;
  srand(5);
  for (int i = 0; i < M * K; i++)
    a[i] = (uint16_t)(0x3e00 + rand() % 0x300 + (rand() & 1) * 0x8000),
    wide_a[i] = f32_of_bf16(a[i]);
  for (int i = 0; i < K * N; i++)
    b[i] = (uint16_t)(0x3e00 + rand() % 0x300), wide_b[i] = f32_of_bf16(b[i]);
  for (int i = 0; i < M * N; i++) c[i] = (float)(rand() % 100) / 7;
  TsTile *k = kernel("bf16", K, unit, target, &err);
  bad =
      !k || ts_tile_check(k, NULL, &err) || ts_tile_run(k, (void *[]){a, b, c, y}, NULL, &err);
  if (bad) printf("%s: %s\n", unit, err.message);
  for (int i = 0; !bad && i < M * N; i++)
    bad = y[i] != element(wide_a, wide_b, c[i], i / N, i % N, dots);
  if (bad) printf("%s: another chain\n", unit);
  ts_tile_free(k);
  return bad;
}

static int refused(const char *d, int depth, const char *unit, const char *target,
                   const char *why) {
  TsError err = {0};
  TsTile *k = kernel(d, depth, unit, target, &err);
  int bad = k && !ts_tile_check(k, NULL, &err);
  if (!bad) bad = !strstr(err.message, why);
  if (bad) printf("%s of %s for %s: %s\n", unit, d, target, err.message);
  ts_tile_free(k);
  return bad;
}

/* i8: sums are exact, and wrap. */
static int whole(const char *unit, const char *target) {
  static int8_t a[M * K], b[K * N];
  static int32_t c[M * N], y[M * N];
  TsError err = {0};
  char k[900], form[900];
  snprintf(form, sizeof form, "%s", text);
  for (char *at = form; (at = strstr(at, "f32")); at += 3) memcpy(at, "i32", 3);
  snprintf(k, sizeof k, form, "i8", "i8", target, "i8", K, "i8", K, unit);
  for (int i = 0; i < M * K; i++) a[i] = (int8_t)rand();
  for (int i = 0; i < K * N; i++) b[i] = (int8_t)rand();
  for (int i = 0; i < M * N; i++) c[i] = i % 7 ? rand() : INT32_MAX;
  TsTile *t = ts_tile_parse(k, &err);
  int bad =
      !t || ts_tile_check(t, NULL, &err) || ts_tile_run(t, (void *[]){a, b, c, y}, NULL, &err);
  if (bad) printf("%s: %s\n", unit, err.message);
  for (int i = 0; !bad && i < M * N; i++) {
    uint32_t sum = (uint32_t)c[i];
    for (int s = 0; s < K; s++) sum += (uint32_t)(a[i / N * K + s] * b[s * N + i % N]);
    bad = (uint32_t)y[i] != sum;
  }
  if (bad) printf("%s of i8: another sum\n", unit);
  ts_tile_free(t);
  return bad;
}

int main(void) {
  return chain("mfma", "gfx942", 0) || chain("wmma", "gfx1200", 16) ||
         chain("dpas", "pvc", 2) || whole("mfma", "gfx942") || whole("wmma", "gfx1200") ||
         whole("dpas", "pvc") || chain("cooperative", "cooperative", 0) ||
         whole("cooperative", "cooperative") ||
         refused("f32", K, "cooperative", "cooperative", "multiplies bf16, f16 and i8") ||
         refused("f32", K, "wmma", "gfx1200", "multiplies bf16, f16, fp8 and i8, not f32") ||
         refused("f32", K, "dpas", "pvc", "multiplies bf16, f16 and i8, not f32") ||
         refused("i16", K, "mfma", "gfx942", "i16") ||
         refused("f32", 42, "mfma", "gfx942", "multiples of 4") ||
         refused("bf16", 40, "wmma", "gfx1200", "multiples of 16") ||
         refused("bf16", K, "mfma", "avx2", "is one of GPUs");
}
