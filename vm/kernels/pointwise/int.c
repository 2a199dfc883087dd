/* Pointwise kernels of bool and the integers: plain loops that the compiler makes
 * vectors of, one for each row and type (vm/kernels/pointwise/int.inc). */
#include "vm/kernels/pointwise/int.h"

#include <string.h>

#include "vm/kernels/simd/isa.h"
#include "vm/kernels/pointwise/spread.h"

#define JOIN(a, b) a##_##b
#define CAT(a, b)  JOIN(a, b)

static double round_down(double x) {
  if (!(x > -0x1p52 && x < 0x1p52)) return x;
  double whole = (double)(int64_t)x;
  return whole > x ? whole - 1 : whole;
}

static double round_up(double x) { return -round_down(-x); }

/* Which rows a table takes, by their TYPES. */
#define ENTRY_F(name)
#define ENTRY_FC(name)
#define ENTRY_FI(name)   ENTRY_I(name)
#define ENTRY_FIC(name)  ENTRY_I(name)
#define ENTRY_IB(name)   ENTRY_B(name)
#define ENTRY_FIB(name)  ENTRY_B(name)
#define ENTRY_FIBC(name) ENTRY_B(name)

#define ONLY_BOOL
#define NAME truth /* bool is a macro */
#define T    uint8_t
#include "vm/kernels/pointwise/int.inc"
#undef ONLY_BOOL

#define NAME u8
#define T    uint8_t
#define W    uint32_t
#define S    int32_t
#define LO   0
#define HI   255
#define REAL float
#include "vm/kernels/pointwise/int.inc"

#define NAME i8
#define T    int8_t
#define W    uint32_t
#define S    int32_t
#define LO   INT8_MIN
#define HI   INT8_MAX
#define REAL float
#include "vm/kernels/pointwise/int.inc"

#define NAME i16
#define T    int16_t
#define W    uint32_t
#define S    int32_t
#define LO   INT16_MIN
#define HI   INT16_MAX
#define REAL float
#include "vm/kernels/pointwise/int.inc"

#define NAME i32
#define T    int32_t
#define W    uint32_t
#define S    int32_t
#define LO   INT32_MIN
#define HI   INT32_MAX
#define REAL double
#include "vm/kernels/pointwise/int.inc"

#define NAME i64
#define T    int64_t
#define W    uint64_t
#define S    int64_t
#define LO   INT64_MIN
#define HI   INT64_MAX
#include "vm/kernels/pointwise/int.inc"

void TS_ISA(ts_kernels_pointwise_int)(TsPointwiseIntKernels *k) {
  memcpy(k->fn[TS_DT_bool], table_truth, sizeof table_truth);
  memcpy(k->fn[TS_DT_u8], table_u8, sizeof table_u8);
  memcpy(k->fn[TS_DT_i8], table_i8, sizeof table_i8);
  memcpy(k->fn[TS_DT_i16], table_i16, sizeof table_i16);
  memcpy(k->fn[TS_DT_i32], table_i32, sizeof table_i32);
  memcpy(k->fn[TS_DT_i64], table_i64, sizeof table_i64);
}
