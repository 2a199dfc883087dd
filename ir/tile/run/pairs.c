/* The units of ir/tile/pairs.h, step by step. */
#include "ir/tile/pairs.h"

#include <math.h>
#include <string.h>

#include "lib/convert_bits.h"

TsTilePairs ts_tile_pairs_named(const char *unit) {
  if (unit && !strcmp(unit, "avx512_bf16")) return TS_PAIRS_avx512_bf16;
  return unit && !strcmp(unit, "amx_bf16") ? TS_PAIRS_amx_bf16 : TS_PAIRS_none;
}

TsTilePairs ts_tile_pairs_of(const TsTileStmt *s) {
  const TsAttr *unit = s->op == TS_TILE_mma ? ts_tile_attr(s, "unit") : NULL;
  return unit && unit->type == TS_ATTR_str ? ts_tile_pairs_named(unit->str) : TS_PAIRS_none;
}

bool ts_tile_pairs_register(const TsTileType *t) {
  return t->rank == 2 && t->dim[0] == TS_PAIRS_LINE &&
         t->dim[1] * ts_dtypes[t->dtype].nbytes == TS_PAIRS_LINE_BYTES;
}

static float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
static float number(uint16_t x) { return flushed(f32_of_bf16(x)); }

/* A row of a by a column of b: step s of b is y[s / 2 * by[0] + s % 2 * by[1]]. */
typedef struct Line {
  int64_t k, by[2];
  const uint16_t *x, *y;
} Line;

static float multiply(const Line *l, int64_t s, float sum) {
  bool inside = s < l->k;
  float x = inside ? number(l->x[s]) : 0;
  float y = inside ? number(l->y[s / 2 * l->by[0] + s % 2 * l->by[1]]) : 0;
  return flushed(fmaf(x, y, sum));
}

static float word_by_word(const Line *l, float sum) {
  sum = flushed(sum);
  for (int64_t s = 0; s < l->k; s += 2) sum = multiply(l, s, multiply(l, s + 1, sum));
  return sum;
}

static float line_by_line(const Line *l, float sum) {
  enum { STEPS = 2 * TS_PAIRS_LINE };
  for (int64_t s = 0; s < l->k; s += STEPS) {
    float part[2] = {0, 0};
    for (int i = 0; i < STEPS; i++) part[i % 2] = multiply(l, s + i, part[i % 2]);
    sum = flushed(flushed(sum) + flushed(part[0] + part[1]));
  }
  return sum;
}

void ts_tile_run_pairs(TsTilePairs unit, int64_t m, int64_t n, int64_t k, const uint16_t *a,
                       const uint16_t *b, bool words, float *acc) {
  Line l = {.k = k, .by = {2 * n, words ? 1 : n}};
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      float *sum = &acc[i * n + j];
      l.x = a + i * k, l.y = b + (words ? 2 * j : j);
      *sum = unit == TS_PAIRS_amx_bf16 ? line_by_line(&l, *sum) : word_by_word(&l, *sum);
    }
}
