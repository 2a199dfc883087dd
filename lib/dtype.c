/* Element types: the table expanded, and promotion. */
#include "lib/dtype.h"

#include <math.h>
#include <string.h>

#include "lib/convert_bits.h"

const TsDtypeInfo ts_dtypes[TS_DT_COUNT] = {
#define DT(name, bytes, kind, block, compute, accum, npy, st, help)                            \
  [TS_DT_##name] = {#name, bytes, TS_KIND_##kind, block, TS_DT_##compute, TS_DT_##accum, npy,  \
                    st,    help},
#include "lib/dtypes.def"
#undef DT
};

/* Names that other systems use for the same types. */
static const struct {
  const char *name;
  TsDtype dtype;
} alias[] = {
    {"float32", TS_DT_f32},
    {"float", TS_DT_f32},
    {"float64", TS_DT_f64},
    {"double", TS_DT_f64},
    {"float16", TS_DT_f16},
    {"half", TS_DT_f16},
    {"bfloat16", TS_DT_bf16},
    {"uint8", TS_DT_u8},
    {"int8", TS_DT_i8},
    {"int16", TS_DT_i16},
    {"int32", TS_DT_i32},
    {"int", TS_DT_i32},
    {"int64", TS_DT_i64},
    {"long", TS_DT_i64},
    {"c64", TS_DT_complex64},
    {"c128", TS_DT_complex128},
    {"float8_e4m3", TS_DT_fp8_e4m3},
    {"e4m3", TS_DT_fp8_e4m3},
    {"float8_e5m2", TS_DT_fp8_e5m2},
    {"e5m2", TS_DT_fp8_e5m2},
    {"boolean", TS_DT_bool},
};

static bool same(const char *name, const char *text, int len) {
  return strlen(name) == (size_t)len && !memcmp(name, text, (size_t)len);
}

TsDtype ts_dtype_parse(const char *name, int len) {
  for (int d = 0; d < TS_DT_COUNT; d++)
    if (same(ts_dtypes[d].name, name, len)) return (TsDtype)d;
  for (size_t i = 0; i < sizeof alias / sizeof *alias; i++)
    if (same(alias[i].name, name, len)) return alias[i].dtype;
  return TS_DT_none;
}

/* 16-bit types differ in range and precision, as do the two of 8 bits: the
 * smallest type that holds both sides exactly is f32, and f16. */
static TsDtype promote_float(TsDtype a, TsDtype b) {
  if (a > b) return promote_float(b, a);
  if (b >= TS_DT_f32) return b;
  if (b == TS_DT_bf16 && a == TS_DT_f16) return TS_DT_f32;
  if (b == TS_DT_fp8_e5m2) return TS_DT_f16;
  return b;
}

static TsDtype promote_int(TsDtype a, TsDtype b) {
  if (a > b) return promote_int(b, a);
  if (a == TS_DT_u8 && b == TS_DT_i8) return TS_DT_i16;
  return b;
}

TsDtype ts_dtype_promote(TsDtype a, TsDtype b) {
  if (a == b) return a;
  if (ts_dtype_in_blocks(a) || ts_dtype_in_blocks(b)) return TS_DT_none;
  bool ac = ts_dtype_is(a, TS_KIND_C), bc = ts_dtype_is(b, TS_KIND_C);
  if (ac || bc) {
    TsDtype other = ac ? b : a, mine = ac ? a : b;
    TsDtype real = ts_dtype_is(other, TS_KIND_F | TS_KIND_C) ? ts_dtype_real(other) : TS_DT_f32;
    return promote_float(ts_dtype_real(mine), real) == TS_DT_f64 ? TS_DT_complex128
                                                                 : TS_DT_complex64;
  }
  bool af = ts_dtype_is(a, TS_KIND_F), bf = ts_dtype_is(b, TS_KIND_F);
  if (af && bf) return promote_float(a, b);
  if (af || bf) return af ? a : b;
  return promote_int(a, b);
}

TsDtype ts_dtype_real(TsDtype d) {
  return d == TS_DT_complex64 ? TS_DT_f32 : d == TS_DT_complex128 ? TS_DT_f64 : d;
}

TsDtype ts_dtype_complex(TsDtype d) {
  return d == TS_DT_f64 || d == TS_DT_complex128 ? TS_DT_complex128 : TS_DT_complex64;
}

TsDtype ts_dtype_float(TsDtype d) {
  return ts_dtype_is(d, TS_KIND_B | TS_KIND_U | TS_KIND_I) ? TS_DT_f32 : d;
}

int ts_dtype_rank(TsDtype d) {
  if (ts_dtype_is(d, TS_KIND_B)) return 0;
  return ts_dtype_is(d, TS_KIND_U | TS_KIND_I) ? 1 : ts_dtype_is(d, TS_KIND_C) ? 3 : 2;
}

void ts_dtype_int_range(TsDtype d, int64_t *lo, int64_t *hi) {
  if (ts_dtype_is(d, TS_KIND_B)) {
    *lo = 0, *hi = 1;
  } else if (ts_dtype_is(d, TS_KIND_U)) {
    *lo = 0, *hi = 255;
  } else {
    int bits = ts_dtypes[d].nbytes * 8;
    *hi = (int64_t)(UINT64_MAX >> (65 - bits));
    *lo = -*hi - 1;
  }
}

double ts_dtype_stored(TsDtype d, double v) {
  switch (d) {
  case TS_DT_complex64:
  case TS_DT_f32: return (float)v;
  case TS_DT_f16: return f32_of_f16(f16_of_f32(f32_odd_of_f64(v)));
  case TS_DT_bf16: return f32_of_bf16(bf16_of_f32(f32_odd_of_f64(v)));
  case TS_DT_fp8_e4m3: return f32_of_e4m3(e4m3_of_f32(f32_odd_of_f64(v)));
  case TS_DT_fp8_e5m2: return f32_of_e5m2(e5m2_of_f32(f32_odd_of_f64(v)));
  default: return v == 0 && ts_dtype_is(d, TS_KIND_B | TS_KIND_U | TS_KIND_I) ? 0 : v;
  }
}

int ts_dtype_check_number(TsDtype d, double v, const char *op, TsError *err) {
  int64_t lo, hi;
  if (!ts_dtype_is(d, TS_KIND_B | TS_KIND_U | TS_KIND_I)) return 0;
  ts_dtype_int_range(d, &lo, &hi);
  if (v >= (double)lo && v <= (double)hi && v < 0x1p63 && v == trunc(v)) return 0;
  ts_error_set(err, TS_ERR_value, "%s: %.17g does not fit into %s", op,
               isnan(v) ? (double)NAN : v, ts_dtype_name(d)); /* NaN without its sign */
  return ts_error_hint(err, "%s holds whole numbers from %lld to %lld", ts_dtype_name(d),
                       (long long)lo, (long long)hi);
}
