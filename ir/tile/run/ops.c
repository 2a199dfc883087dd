/* What the interpreter of Tile IR does to elements: plain loops, one for each primitive row and
 * type. Written apart from the VM's kernels, so that each can be checked by the other; only the
 * roundings between types are shared (lib/convert_bits.h). */
#include <math.h>
#include <string.h>

#include "ir/tile/run/run.h"
#include "lib/convert_bits.h"

#define JOIN(a, b) a##_##b
#define CAT(a, b)  JOIN(a, b)

#define UNARY(name, A, O, expr)                                                                \
  static void FN(name)(int64_t n, void *out, const void *const *in) {                          \
    const A *a = in[0];                                                                        \
    O *o = out;                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                          \
      const A x = a[i];                                                                        \
      o[i] = (O)(expr);                                                                        \
    }                                                                                          \
  }

#define BINARY(name, A, O, expr)                                                               \
  static void FN(name)(int64_t n, void *out, const void *const *in) {                          \
    const A *a = in[0], *b = in[1];                                                            \
    O *o = out;                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                          \
      const A x = a[i], y = b[i];                                                              \
      o[i] = (O)(expr);                                                                        \
    }                                                                                          \
  }

#define COMPARISONS                                                                            \
  BINARY(eq, T, uint8_t, x == y)                                                               \
  BINARY(ne, T, uint8_t, x != y)                                                               \
  BINARY(lt, T, uint8_t, x < y)                                                                \
  BINARY(le, T, uint8_t, x <= y)                                                               \
  BINARY(gt, T, uint8_t, x > y)                                                                \
  BINARY(ge, T, uint8_t, x >= y)

#define SELECT                                                                                 \
  static void FN(where)(int64_t n, void *out, const void *const *in) {                         \
    const uint8_t *m = in[0];                                                                  \
    const T *x = in[1], *y = in[2];                                                            \
    T *o = out;                                                                                \
    for (int64_t i = 0; i < n; i++) o[i] = m[i] ? x[i] : y[i];                                 \
  }

/* clang-format off */
#define ROW(name)      case TS_OP_##name: return FN(name);
#define TILE_ROW(name) case TS_TILE_##name: return FN(name);
/* clang-format on */
#define COMPARISON_ROWS ROW(eq) ROW(ne) ROW(lt) ROW(le) ROW(gt) ROW(ge) ROW(where)

#define NAME u8
#define T    uint8_t
#define U    uint8_t
#define S    int8_t
#define W    uint32_t
#define LO   0
#include "ir/tile/run/int.inc"

#define NAME i8
#define T    int8_t
#define U    uint8_t
#define S    int8_t
#define W    uint32_t
#define LO   INT8_MIN
#include "ir/tile/run/int.inc"

#define NAME i16
#define T    int16_t
#define U    uint16_t
#define S    int16_t
#define W    uint32_t
#define LO   INT16_MIN
#include "ir/tile/run/int.inc"

#define NAME i32
#define T    int32_t
#define U    uint32_t
#define S    int32_t
#define W    uint32_t
#define LO   INT32_MIN
#include "ir/tile/run/int.inc"

#define NAME i64
#define T    int64_t
#define U    uint64_t
#define S    int64_t
#define W    uint64_t
#define LO   INT64_MIN
#include "ir/tile/run/int.inc"

#define NAME    f32
#define T       float
#define F(name) name##f
#include "ir/tile/run/float.inc"

#define NAME    f64
#define T       double
#define F(name) name
#include "ir/tile/run/float.inc"

/* ---- bool: bytes 0 and 1 */
#define FN(name) CAT(name, truth)
#define T        uint8_t
COMPARISONS
SELECT
BINARY(and, T, T, (x & y))
BINARY(or, T, T, x | y)
BINARY(xor, T, T, x ^ y)
UNARY(not, T, T, !x)

static TsTileOpFn *find_truth(int op) {
  switch (op) {
    COMPARISON_ROWS
  case TS_OP_logical_and:
  case TS_OP_bitwise_and: return and_truth;
  case TS_OP_logical_or:
  case TS_OP_bitwise_or: return or_truth;
  case TS_OP_logical_xor:
  case TS_OP_bitwise_xor: return xor_truth;
  case TS_OP_logical_not:
  case TS_OP_bitwise_not: return not_truth;
  default: return NULL;
  }
}

TsTileOpFn *ts_tile_run_op(int op, TsDtype d) {
  switch (d) {
  case TS_DT_bool: return find_truth(op);
  case TS_DT_u8: return find_u8(op);
  case TS_DT_i8: return find_i8(op);
  case TS_DT_i16: return find_i16(op);
  case TS_DT_i32: return find_i32(op);
  case TS_DT_i64: return find_i64(op);
  case TS_DT_f32: return find_f32(op);
  case TS_DT_f64: return find_f64(op);
  default: return NULL;
  }
}

/* ---- conversions: an element becomes an i64, f32 or f64 that holds it exactly, and that is
 * rounded once */
int64_t ts_tile_run_int(TsDtype d, const void *x, int64_t i) {
  switch (d) {
  case TS_DT_i8: return ((const int8_t *)x)[i];
  case TS_DT_i16: return ((const int16_t *)x)[i];
  case TS_DT_i32: return ((const int32_t *)x)[i];
  case TS_DT_i64: return ((const int64_t *)x)[i];
  default: return ((const uint8_t *)x)[i];
  }
}

static float single(TsDtype d, const void *x, int64_t i) {
  switch (d) {
  case TS_DT_fp8_e4m3: return f32_of_e4m3(((const uint8_t *)x)[i]);
  case TS_DT_fp8_e5m2: return f32_of_e5m2(((const uint8_t *)x)[i]);
  case TS_DT_f16: return f32_of_f16(((const uint16_t *)x)[i]);
  case TS_DT_bf16: return f32_of_bf16(((const uint16_t *)x)[i]);
  default: return ((const float *)x)[i];
  }
}

/* Types of at most f32's precision; x is exact or rounded to odd. */
static void put_single(TsDtype d, void *y, int64_t i, float x) {
  switch (d) {
  case TS_DT_bool: ((uint8_t *)y)[i] = x != 0; break;
  case TS_DT_u8: ((uint8_t *)y)[i] = (uint8_t)small_of_f32(x, 0, 255); break;
  case TS_DT_i8: ((int8_t *)y)[i] = (int8_t)small_of_f32(x, -128, 127); break;
  case TS_DT_i16: ((int16_t *)y)[i] = (int16_t)small_of_f32(x, -32768, 32767); break;
  case TS_DT_i32: ((int32_t *)y)[i] = i32_of_f32(x); break;
  case TS_DT_i64: ((int64_t *)y)[i] = i64_of_f32(x); break;
  case TS_DT_fp8_e4m3: ((uint8_t *)y)[i] = e4m3_of_f32(x); break;
  case TS_DT_fp8_e5m2: ((uint8_t *)y)[i] = e5m2_of_f32(x); break;
  case TS_DT_f16: ((uint16_t *)y)[i] = f16_of_f32(x); break;
  case TS_DT_bf16: ((uint16_t *)y)[i] = bf16_of_f32(x); break;
  case TS_DT_f32: ((float *)y)[i] = x; break;
  default: ((double *)y)[i] = x;
  }
}

static void put_double(TsDtype d, void *y, int64_t i, double x) {
  switch (d) {
  case TS_DT_bool: ((uint8_t *)y)[i] = x != 0; break;
  case TS_DT_u8: ((uint8_t *)y)[i] = (uint8_t)i32_of_f64(x, 0, 255); break;
  case TS_DT_i8: ((int8_t *)y)[i] = (int8_t)i32_of_f64(x, -128, 127); break;
  case TS_DT_i16: ((int16_t *)y)[i] = (int16_t)i32_of_f64(x, -32768, 32767); break;
  case TS_DT_i32: ((int32_t *)y)[i] = i32_of_f64(x, INT32_MIN, INT32_MAX); break;
  case TS_DT_i64: ((int64_t *)y)[i] = i64_of_f64(x); break;
  case TS_DT_f32: ((float *)y)[i] = (float)x; break;
  case TS_DT_f64: ((double *)y)[i] = x; break;
  default: put_single(d, y, i, f32_odd_of_f64(x));
  }
}

static void put_int(TsDtype d, void *y, int64_t i, int64_t x) {
  switch (d) {
  case TS_DT_bool: ((uint8_t *)y)[i] = x != 0; break;
  case TS_DT_u8:
  case TS_DT_i8: ((uint8_t *)y)[i] = (uint8_t)x; break;
  case TS_DT_i16: ((uint16_t *)y)[i] = (uint16_t)x; break;
  case TS_DT_i32: ((uint32_t *)y)[i] = (uint32_t)x; break;
  case TS_DT_i64: ((int64_t *)y)[i] = x; break;
  case TS_DT_f32: ((float *)y)[i] = (float)x; break;
  case TS_DT_f64: ((double *)y)[i] = (double)x; break;
  default: put_single(d, y, i, f32_odd_of_f64(f64_odd_of_i64(x)));
  }
}

int ts_tile_run_cast(TsDtype to, void *out, TsDtype from, const void *in, int64_t n) {
  const int known = TS_KIND_B | TS_KIND_U | TS_KIND_I | TS_KIND_F;
  if (!ts_dtype_is(to, known) || !ts_dtype_is(from, known)) return -1;
  if (to == from)
    memcpy(out, in, (size_t)(n * ts_dtypes[to].nbytes));
  else if (from == TS_DT_f32 && to == TS_DT_bf16)
    for (int64_t i = 0; i < n; i++) ((uint16_t *)out)[i] = bf16_of_f32(((const float *)in)[i]);
  else if (from == TS_DT_bf16 && to == TS_DT_f32)
    for (int64_t i = 0; i < n; i++) ((float *)out)[i] = f32_of_bf16(((const uint16_t *)in)[i]);
  else if (from == TS_DT_f64)
    for (int64_t i = 0; i < n; i++) put_double(to, out, i, ((const double *)in)[i]);
  else if (ts_dtype_is(from, TS_KIND_F))
    for (int64_t i = 0; i < n; i++) put_single(to, out, i, single(from, in, i));
  else
    for (int64_t i = 0; i < n; i++) put_int(to, out, i, ts_tile_run_int(from, in, i));
  return 0;
}

/* Constants of integer types are whole. */
void ts_tile_run_number(TsDtype d, void *x, double number) { put_double(d, x, 0, number); }
