/* See lib/narrow.h. */
#include "lib/narrow.h"

#include <math.h>

#include "lib/convert_bits.h"

static uint16_t pattern_of(TsDtype d, double x) {
  float f = f32_odd_of_f64(x);
  switch (d) {
  case TS_DT_bf16: return bf16_of_f32(f);
  case TS_DT_f16: return f16_of_f32(f);
  case TS_DT_fp8_e5m2: return e5m2_of_f32(f);
  default: return e4m3_of_f32(f);
  }
}

static double number_of(TsDtype d, uint16_t pattern) {
  switch (d) {
  case TS_DT_bf16: return (double)f32_of_bf16(pattern);
  case TS_DT_f16: return (double)f32_of_f16(pattern);
  case TS_DT_fp8_e5m2: return (double)f32_of_e5m2((uint8_t)pattern);
  default: return (double)f32_of_e4m3((uint8_t)pattern);
  }
}

/* Patterns of one sign are in order, so a number's neighbour is one pattern away. */
static double neighbour_below(TsDtype d, double x) {
  uint16_t pattern = pattern_of(d, x), sign = (uint16_t)(1u << (ts_dtypes[d].nbytes * 8 - 1));
  double back = number_of(d, pattern);
  if (back < x) return back;
  if (!(pattern & ~sign))
    pattern = sign + 1;
  else
    pattern = pattern & sign ? (uint16_t)(pattern + 1) : (uint16_t)(pattern - 1);
  return number_of(d, pattern);
}

double ts_narrow_below(TsDtype d, double x) {
  if (d == TS_DT_f64) return nextafter(x, -INFINITY);
  if (d != TS_DT_f32) return neighbour_below(d, x);
  float f = (float)x;
  return (double)f < x ? (double)f : (double)nextafterf(f, -INFINITY);
}
