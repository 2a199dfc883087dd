/* Reductions of integers, all in i64 (narrow ones come through a loader). Sums and
 * products wrap, so any order gives the same bits and plain loops will do. */
#include "vm/kernels/rows/reduce.h"
#include "vm/kernels/rows/reduce_fill.h"
#include "vm/kernels/simd/isa.h"

#include <stdbool.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
typedef int64_t T;
typedef int64_t K;
#define KEY_INF 0

INLINE int64_t square(int64_t x) { return (int64_t)((uint64_t)x * (uint64_t)x); }
INLINE int64_t magnitude(int64_t x) { return x < 0 ? (int64_t)(0 - (uint64_t)x) : x; }

static void map_row(int map, void *y_, const void *x_, int64_t n, double c, double p) {
  int64_t *y = y_;
  const int64_t *x = x_;
  (void)c, (void)p;
  switch (map) {
  case TS_MAP_square:
    for (int64_t i = 0; i < n; i++) y[i] = square(x[i]);
    break;
  case TS_MAP_abs:
    for (int64_t i = 0; i < n; i++) y[i] = magnitude(x[i]);
    break;
  case TS_MAP_nonzero:
    for (int64_t i = 0; i < n; i++) y[i] = x[i] != 0;
    break;
  default:
    if (y != x) memcpy(y, x, (size_t)n * sizeof *y);
  }
}

#include "vm/kernels/rows/reduce_order.h"

INLINE uint64_t op_u(int op, uint64_t a, uint64_t b) {
  return op == TS_RED_PROD ? a * b : a + b;
}

INLINE void rows_of(int op, const TsReduceRows *a) {
  int64_t *out = a->out, buf[TS_RED_LEAF];
  for (int64_t r = 0; r < a->rows; r++) {
    const int64_t *x = (const int64_t *)a->x + r * a->ld;
    if (a->map) map_row(a->map, buf, x, a->n, 0, 0), x = buf;
    uint64_t s = op == TS_RED_PROD;
    for (int64_t i = 0; i < a->n; i++) s = op_u(op, s, (uint64_t)x[i]);
    out[r] = (int64_t)s;
  }
}

static void int_rows(const TsReduceRows *a) {
  if (a->op >= TS_RED_MIN)
    order_rows(a);
  else if (a->op == TS_RED_PROD)
    rows_of(TS_RED_PROD, a);
  else
    rows_of(TS_RED_SUM, a);
}

INLINE void cols_of(int op, const TsReduceCols *a) {
  int64_t buf[ORDER_PANEL], *out = a->out;
  uint64_t acc[ORDER_PANEL];
  for (int64_t col = 0; col < a->n; col += ORDER_PANEL) {
    int64_t n = a->n - col < ORDER_PANEL ? a->n - col : ORDER_PANEL;
    for (int64_t j = 0; j < n; j++) acc[j] = op == TS_RED_PROD;
    for (int64_t i = 0; i < a->m; i++) {
      const int64_t *x = order_piece(a, i, col, n, buf);
      for (int64_t j = 0; j < n; j++) acc[j] = op_u(op, acc[j], (uint64_t)x[j]);
    }
    memcpy(out + col, acc, (size_t)n * sizeof *acc);
  }
}

static void int_cols(const TsReduceCols *a) {
  if (a->op >= TS_RED_MIN)
    order_cols(a);
  else if (a->op == TS_RED_PROD)
    cols_of(TS_RED_PROD, a);
  else
    cols_of(TS_RED_SUM, a);
}

static void int_tree(int op, void *s_, int64_t m, int64_t n) {
  int64_t *s = s_;
  for (int64_t i = 1; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      int64_t x = s[i * n + j];
      if (op >= TS_RED_MIN)
        s[j] = order_pick(op, s[j], x);
      else
        s[j] = (int64_t)op_u(op, (uint64_t)s[j], (uint64_t)x);
    }
}

/* Whether bits other than the sign of zero are set; halves are the floats of 16 bits. */
#define NONZERO(name, type, mask)                                                              \
  static void nonzero_##name(int64_t n, void *y_, const void *x_) {                            \
    int64_t *y = y_;                                                                           \
    const type *x = x_;                                                                        \
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] & (mask)) != 0;                               \
  }                                                                                            \
  static int64_t count_##name(const void *x_, int64_t n) {                                     \
    const type *x = x_;                                                                        \
    uint32_t c = 0;                                                                            \
    for (int64_t i = 0; i < n; i++) c += (x[i] & (mask)) != 0;                                 \
    return c;                                                                                  \
  }
NONZERO(byte, uint8_t, 0xff)
NONZERO(fp8, uint8_t, 0x7f)
NONZERO(i16, uint16_t, 0xffff)
NONZERO(half, uint16_t, 0x7fff)
NONZERO(i32, uint32_t, 0xffffffff)
NONZERO(f32, uint32_t, 0x7fffffff)
NONZERO(i64, uint64_t, UINT64_MAX)
NONZERO(f64, uint64_t, INT64_MAX)

static void nonzero_c32(int64_t n, void *y_, const void *x_) {
  int64_t *y = y_;
  const uint32_t *x = x_;
  for (int64_t i = 0; i < n; i++) y[i] = ((x[2 * i] | x[2 * i + 1]) & 0x7fffffff) != 0;
}

static void nonzero_c64(int64_t n, void *y_, const void *x_) {
  int64_t *y = y_;
  const uint64_t *x = x_;
  for (int64_t i = 0; i < n; i++) y[i] = ((x[2 * i] | x[2 * i + 1]) & INT64_MAX) != 0;
}

static int64_t count_c32(const void *x_, int64_t n) {
  const uint32_t *x = x_;
  uint32_t c = 0;
  for (int64_t i = 0; i < n; i++) c += ((x[2 * i] | x[2 * i + 1]) & 0x7fffffff) != 0;
  return c;
}

static int64_t count_c64(const void *x_, int64_t n) {
  const uint64_t *x = x_;
  uint32_t c = 0;
  for (int64_t i = 0; i < n; i++) c += ((x[2 * i] | x[2 * i + 1]) & INT64_MAX) != 0;
  return c;
}

static void fill_nonzero(TsReduceKernels *k) {
#define FILL(dtype, name)                                                                      \
  k->nonzero[TS_DT_##dtype] = nonzero_##name, k->count[TS_DT_##dtype] = count_##name
  FILL(bool, byte), FILL(u8, byte), FILL(i8, byte), FILL(i16, i16), FILL(i32, i32);
  FILL(i64, i64), FILL(fp8_e4m3, fp8), FILL(fp8_e5m2, fp8), FILL(f16, half);
  FILL(bf16, half), FILL(f32, f32), FILL(f64, f64), FILL(complex64, c32), FILL(complex128, c64);
#undef FILL
  for (int d = 0; d < TS_DT_COUNT; d++)
    if (ts_dtype_in_blocks(d)) k->nonzero[d] = 0, k->count[d] = 0;
}

void TS_ISA(ts_reduce_fill_i64)(TsReduceKernels *k) {
  k->rows[TS_RED_I64] = int_rows;
  k->cols[TS_RED_I64] = int_cols;
  k->tree[TS_RED_I64] = int_tree;
  k->arg_row[TS_RED_I64] = arg_row;
  k->arg_cols[TS_RED_I64] = arg_cols;
  k->map[TS_RED_I64] = map_row;
  fill_nonzero(k);
}
