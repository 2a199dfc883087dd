/* What tests of kernels with roles share, which the interpreter runs: random operands of 16
 * bits, and the text that reads back. */
#ifndef TESTS_IR_GPU_ROLES_H
#define TESTS_IR_GPU_ROLES_H

#include <stdio.h>
#include <stdlib.h>

#include "ir/tile/text.h"
#include "lib/convert_bits.h"

static int failed;

static const TsTarget hopper = {.name = "sm_90a", .shared_bytes = 232448};

static uint64_t rnd(void) {
  static uint64_t seed = 1;
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return seed >> 20;
}

static float get(TsDtype d, const void *x, int64_t i) {
  uint16_t u = ((const uint16_t *)x)[i];
  return d == TS_DT_bf16 ? f32_of_bf16(u) : f32_of_f16(u);
}

static uint16_t narrow(TsDtype d, float v) {
  return d == TS_DT_bf16 ? bf16_of_f32(v) : f16_of_f32(v);
}

static void *numbers(TsDtype d, int64_t n) {
  uint16_t *p = malloc((size_t)n * 2 + 8);
  for (int64_t i = 0; i < n; i++) p[i] = narrow(d, (float)((int)(rnd() % 2001) - 1000) / 512);
  return p;
}

static void round_trip(const TsTile *k) {
  TsText text = {0}, why = {0};
  TsError err = {0};
  ts_tile_text(k, &text);
  if (getenv("TILE_TEXT")) puts(text.at);
  TsTile *y = ts_tile_parse(text.at, &err);
  if (!y)
    failed++, printf("%s\n", err.message);
  else if (!ts_tile_equal(k, y, &why))
    failed++, printf("%s\n", why.at);
  ts_tile_free(y);
  ts_text_free(&text);
  ts_text_free(&why);
}

#endif
