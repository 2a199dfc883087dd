/* f32 to blocks. A scale is rounded to what the format stores first, and codes are the nearest ones
 * under that scale, so that reading gives the best of what was written. A block in which a number is
 * NaN or infinite is NaN. */
#include "vm/kernels/blocks_write.h"

#include <math.h>

#include "vm/kernels/blocks.h"
#include "vm/kernels/simd/isa.h"

typedef uint8_t u8;

#define WRITER(name, size, bytes)                                                              \
  static void name(int64_t n, void *dst, const void *src) {                                    \
    const float *s = src;                                                                      \
    u8 *d = dst;                                                                               \
    for (; n >= (size); n -= (size), s += (size), d += (bytes)) {                              \
      memset(d, 0, bytes);                                                                     \
      name##_block(d, s);                                                                      \
    }                                                                                          \
  }

/* ---- mxfp4. The nearest e2m1 of a scaled value in (-8, 8), ties to the even mantissa, 6 at
 * most. Steps are 1/2 below 2, 1 below 4, then 2: adding 2^23 steps rounds. */
static uint32_t nearest_e2m1(float x) {
  uint32_t sign = bits_of_f32(x) >> 28 & 8;
  float a = __builtin_fabsf(x);
  float magic = a < 2 ? 0x1p22f : a < 4 ? 0x1p23f : 0x1p24f;
  uint32_t steps = bits_of_f32(a + magic) - bits_of_f32(magic);
  uint32_t code = a < 2 ? steps : a < 4 ? steps + 2 : steps + 4;
  return (code < 7 ? code : 7) | sign;
}

/* The shared exponent is that of the largest magnitude, less the 2 of e2m1's largest
 * number; a block of zeros takes the smallest scale, one with NaN or infinity 0xff. */
static void mxfp4_block(u8 *d, const float *s) {
  uint32_t most = 0;
  for (int i = 0; i < 32; i++) {
    uint32_t a = bits_of_f32(s[i]) & 0x7fffffff;
    most = a > most ? a : most;
  }
  if (most >= 0x7f800000) {
    d[0] = 0xff;
    return;
  }
  int biased = (int)(most >> 23) - 2; /* denormals have 0: the scale stays at 2^-127 */
  d[0] = (u8)(biased > 0 ? biased : 0);
  float inverse = f32_of_bits((254u - d[0]) << 23); /* 2^-(d[0] - 127), at least 2^-125 */
  for (int i = 0; i < 16; i++) {
    uint32_t low = nearest_e2m1(s[2 * i] * inverse),
             high = nearest_e2m1(s[2 * i + 1] * inverse);
    d[1 + i] = (u8)(low | high << 4);
  }
}

/* ---- scales */
/* x as f16, which is stored at `at`, and 1 over that; 0 where it is 0. Finite numbers stay finite. */
typedef struct Scale {
  float is, inverse;
} Scale;

static Scale put_scale(u8 *at, float x) {
  const float most = 65504;
  if (x == 0) x = 0; /* not -0 */
  uint16_t h = f16_of_f32(x > most ? most : x < -most ? -most : x);
  Scale s = {.is = f32_of_f16(h)};
  s.inverse = s.is != 0 ? 1 / s.is : 0;
  if (isinf(s.inverse)) s.inverse = 0; /* of numbers so small, none has a code */
  memcpy(at, &h, 2);
  return s;
}

static int nearest(float x, int least, int most) {
  float r = __builtin_rintf(x);
  return r < (float)least ? least : r > (float)most ? most : (int)r;
}

typedef struct Span {
  float least, most, far; /* far: of the largest magnitude, with its sign */
  bool wrong;
} Span;

static Span span_of(const float *s, int n) {
  Span p = {s[0], s[0], s[0], false};
  for (int i = 0; i < n; i++) {
    p.wrong |= !(__builtin_fabsf(s[i]) <= 0x1.fffffep127f);
    if (s[i] < p.least) p.least = s[i];
    if (s[i] > p.most) p.most = s[i];
    if (__builtin_fabsf(s[i]) > __builtin_fabsf(p.far)) p.far = s[i];
  }
  return p;
}

static bool put_wrong(u8 *at, const Span *p) {
  uint16_t nan = 0x7e00;
  if (p->wrong) memcpy(at, &nan, 2);
  return p->wrong;
}

/* ---- blocks of 32 */
/* Codes from -half on: the largest magnitude stands at -half. */
static void put_even(u8 *scale, const float *s, int half, u8 *code) {
  Span p = span_of(s, 32);
  if (put_wrong(scale, &p)) return;
  Scale by = put_scale(scale, p.far / (float)-half);
  for (int i = 0; i < 32; i++)
    code[i] = (u8)(nearest(s[i] * by.inverse, -half, half - 1) + half);
}

/* From the least number in equal steps. */
static void put_above(u8 *scale, const float *s, int most, u8 *code) {
  Span p = span_of(s, 32);
  if (put_wrong(scale, &p)) return;
  Scale least = put_scale(scale + 2, p.least);
  Scale by = put_scale(scale, (p.most - least.is) / (float)most);
  for (int i = 0; i < 32; i++) code[i] = (u8)nearest((s[i] - least.is) * by.inverse, 0, most);
}

static void put_fours(u8 *d, const u8 *code) {
  for (int i = 0; i < 16; i++) d[i] = (u8)((code[i] & 15) | code[i + 16] << 4);
}

static void put_fifths(u8 *d, const u8 *code) {
  for (int i = 0; i < 32; i++) d[i / 8] |= (u8)(code[i] >> 4 << i % 8);
}

static void q4_0_block(u8 *d, const float *s) {
  u8 code[32] = {0};
  put_even(d, s, 8, code);
  put_fours(d + 2, code);
}

static void q4_1_block(u8 *d, const float *s) {
  u8 code[32] = {0};
  put_above(d, s, 15, code);
  put_fours(d + 4, code);
}

static void q5_0_block(u8 *d, const float *s) {
  u8 code[32] = {0};
  put_even(d, s, 16, code);
  put_fifths(d + 2, code);
  put_fours(d + 6, code);
}

static void q5_1_block(u8 *d, const float *s) {
  u8 code[32] = {0};
  put_above(d, s, 31, code);
  put_fifths(d + 4, code);
  put_fours(d + 8, code);
}

static void q8_0_block(u8 *d, const float *s) {
  Span p = span_of(s, 32);
  if (put_wrong(d, &p)) return;
  Scale by = put_scale(d, __builtin_fabsf(p.far) / 127);
  for (int i = 0; i < 32; i++)
    d[2 + i] = (u8)(signed char)nearest(s[i] * by.inverse, -127, 127);
}

static int nearest_iq4(float x) {
  int best = 0;
  for (int c = 1; c < 16; c++)
    if (__builtin_fabsf(x - (float)ts_block_iq4[c]) <
        __builtin_fabsf(x - (float)ts_block_iq4[best]))
      best = c;
  return best;
}

static void iq4_nl_block(u8 *d, const float *s) {
  u8 code[32] = {0};
  Span p = span_of(s, 32);
  if (!put_wrong(d, &p)) {
    Scale by = put_scale(d, p.far / (float)ts_block_iq4[0]);
    for (int i = 0; i < 32; i++) code[i] = (u8)nearest_iq4(s[i] * by.inverse);
  }
  put_fours(d + 2, code);
}

/* ---- blocks of 256 */
/* The scales of parts, least numbers of parts, both as parts of 63 of one f16. */
static void put_scales(u8 *d, const float *step, const float *less, Scale *by, float *from) {
  int code[8], under[8];
  Span steps = span_of(step, 8), lesses = span_of(less, 8);
  Scale one = put_scale(d, steps.most / 63), least = put_scale(d + 2, lesses.most / 63);
  for (int j = 0; j < 8; j++) {
    code[j] = nearest(step[j] * one.inverse, 0, 63);
    under[j] = nearest(less[j] * least.inverse, 0, 63);
    by[j].is = one.is * (float)code[j];
    by[j].inverse = by[j].is != 0 ? 1 / by[j].is : 0;
    if (isinf(by[j].inverse)) by[j].inverse = 0;
    from[j] = least.is * (float)under[j];
  }
  u8 *at = d + 4;
  for (int j = 0; j < 4; j++) {
    at[j] = (u8)(code[j] | code[j + 4] >> 4 << 6);
    at[j + 4] = (u8)(under[j] | under[j + 4] >> 4 << 6);
    at[j + 8] = (u8)((code[j + 4] & 15) | (under[j + 4] & 15) << 4);
  }
}

/* Codes 0..most of 8 parts, each from minus what it lies under zero on. */
static bool put_parts(u8 *d, const float *s, int most, u8 *code) {
  float step[8], less[8], from[8];
  Scale by[8];
  Span all = span_of(s, 256);
  if (put_wrong(d, &all)) return false;
  for (int j = 0; j < 8; j++) {
    Span p = span_of(s + 32 * j, 32);
    less[j] = p.least < 0 ? -p.least : 0;
    step[j] = (p.most + less[j]) / (float)most;
    if (step[j] < 0) step[j] = 0;
  }
  put_scales(d, step, less, by, from);
  for (int i = 0; i < 256; i++)
    code[i] = (u8)nearest((s[i] + from[i / 32]) * by[i / 32].inverse, 0, most);
  return true;
}

static void put_pairs(u8 *d, const u8 *code) {
  for (int j = 0; j < 4; j++)
    for (int i = 0; i < 32; i++)
      d[32 * j + i] = (u8)((code[64 * j + i] & 15) | code[64 * j + 32 + i] << 4);
}

static void q4_k_block(u8 *d, const float *s) {
  u8 code[256];
  if (put_parts(d, s, 15, code)) put_pairs(d + 16, code);
}

static void q5_k_block(u8 *d, const float *s) {
  u8 code[256];
  if (!put_parts(d, s, 31, code)) return;
  put_pairs(d + 48, code);
  for (int i = 0; i < 256; i++) d[16 + i % 32] |= (u8)(code[i] >> 4 << i / 32);
}

static void q6_k_block(u8 *d, const float *s) {
  float step[16];
  Span all = span_of(s, 256);
  if (put_wrong(d + 208, &all)) return;
  for (int j = 0; j < 16; j++) step[j] = span_of(s + 16 * j, 16).far / -32;
  Scale one = put_scale(d + 208, span_of(step, 16).far / -128);
  for (int j = 0; j < 16; j++) {
    int by = nearest(step[j] * one.inverse, -128, 127);
    float scale = one.is * (float)by, inverse = scale != 0 ? 1 / scale : 0;
    d[192 + j] = (u8)(signed char)by;
    for (int i = 16 * j; i < 16 * j + 16; i++) {
      int code = nearest(isinf(inverse) ? 0 : s[i] * inverse, -32, 31) + 32;
      int half = i / 128, part = i / 32 % 4, at = i % 32;
      d[64 * half + part % 2 * 32 + at] |= (u8)((code & 15) << (part / 2 * 4));
      d[128 + 32 * half + at] |= (u8)(code >> 4 << (2 * part));
    }
  }
}

TS_BLOCK_FORMATS(WRITER)

void TS_ISA(ts_blocks_write)(TsConvertKernels *k) {
#define FILL(name, size, bytes) k->convert[TS_DT_f32][TS_DT_##name] = name;
  TS_BLOCK_FORMATS(FILL)
#undef FILL
}
