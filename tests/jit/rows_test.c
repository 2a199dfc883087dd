/* Primitive rows and casts: one vector of a length that fits no register, through compiled
 * code, against plain C and the kernels of the VM. */
#include "jit/compile/llvm.h"
#include "tests/jit/jit_test.h"
#include "tests/skip.h"
#include "vm/core/kernels.h"

enum { N = 45 };

/* ---- what a row means, in C */
#define FLOATS(T, fma_, sqrt_, fabs_, floor_, ceil_, trunc_, round_)                           \
  static T float_row_##T(int op, T x, T y, T z) {                                              \
    switch (op) {                                                                              \
    case TS_OP_add: return x + y;                                                              \
    case TS_OP_sub: return x - y;                                                              \
    case TS_OP_mul: return x * y;                                                              \
    case TS_OP_div: return x / y;                                                              \
    case TS_OP_neg: return -x;                                                                 \
    case TS_OP_abs: return fabs_(x);                                                           \
    case TS_OP_sqrt: return sqrt_(x);                                                          \
    case TS_OP_fma: return fma_(x, y, z);                                                      \
    case TS_OP_floor: return floor_(x);                                                        \
    case TS_OP_ceil: return ceil_(x);                                                          \
    case TS_OP_trunc: return trunc_(x);                                                        \
    default: return round_(x);                                                                 \
    }                                                                                          \
  }
FLOATS(float, fmaf, sqrtf, fabsf, floorf, ceilf, truncf, rintf)
FLOATS(double, fma, sqrt, fabs, floor, ceil, trunc, rint)

static int64_t wrap(TsDtype d, int64_t v) {
  switch (d) {
  case TS_DT_u8: return (uint8_t)v;
  case TS_DT_i8: return (int8_t)v;
  case TS_DT_i16: return (int16_t)v;
  case TS_DT_i32: return (int32_t)v;
  case TS_DT_bool: return v & 1;
  default: return v;
  }
}

static int64_t floor_div(int64_t x, int64_t y) {
  if (!y) return 0;
  if (y == -1) return (int64_t)(0 - (uint64_t)x);
  int64_t q = x / y;
  return x % y && (x < 0) != (y < 0) ? q - 1 : q;
}

static int64_t int_row(int op, TsDtype d, int64_t x, int64_t y) {
  uint64_t a = (uint64_t)x, b = (uint64_t)y;
  int width = d == TS_DT_bool ? 1 : 8 * ts_dtypes[d].nbytes;
  uint64_t mask = width < 64 ? ((uint64_t)1 << width) - 1 : ~(uint64_t)0;
  switch (op) {
  case TS_OP_add: return (int64_t)(a + b);
  case TS_OP_sub: return (int64_t)(a - b);
  case TS_OP_mul: return (int64_t)(a * b);
  case TS_OP_neg: return (int64_t)(0 - a);
  case TS_OP_minimum: return x < y ? x : y;
  case TS_OP_maximum: return x > y ? x : y;
  case TS_OP_floordiv: return floor_div(x, y);
  case TS_OP_mod: return y ? (int64_t)(a - (uint64_t)floor_div(x, y) * b) : 0;
  case TS_OP_bitwise_not: return ~x;
  case TS_OP_logical_not: return !x;
  case TS_OP_bitwise_and:
  case TS_OP_logical_and: return x & y;
  case TS_OP_bitwise_or:
  case TS_OP_logical_or: return x | y;
  case TS_OP_bitwise_xor:
  case TS_OP_logical_xor: return x ^ y;
  case TS_TILE_shl: return (int64_t)(a << (b % (unsigned)width));
  case TS_TILE_shr: return (int64_t)((a & mask) >> (b % (unsigned)width));
  case TS_TILE_sar: return (d == TS_DT_u8 ? (int8_t)x : x) >> (b % (unsigned)width);
  case TS_TILE_mulhi: return (int64_t)((unsigned __int128)(a & mask) * (b & mask) >> width);
  case TS_TILE_ult: return (a & mask) < (b & mask);
  default: abort();
  }
}

static int compare_row(int op, int less, int equal) {
  switch (op) {
  case TS_OP_eq: return equal;
  case TS_OP_ne: return !equal;
  case TS_OP_lt: return less;
  default: return less || equal;
  }
}

static int64_t get(TsDtype d, const void *p, int i) {
  int64_t v = 0;
  memcpy(&v, (const char *)p + i * ts_dtypes[d].nbytes, ts_dtypes[d].nbytes);
  return wrap(d, v);
}

static void put(TsDtype d, void *p, int i, int64_t v) {
  v = wrap(d, v);
  memcpy((char *)p + i * ts_dtypes[d].nbytes, &v, ts_dtypes[d].nbytes);
}

static bool gives_bool(int op) {
  return op == TS_OP_eq || op == TS_OP_ne || op == TS_OP_lt || op == TS_OP_le ||
         op == TS_TILE_ult;
}

static void want_row(int op, TsDtype d, void *const in[3], void *out) {
  for (int i = 0; i < N; i++) {
    if (op == TS_OP_where) {
      const void *from = ((const uint8_t *)in[0])[i] ? in[1] : in[2];
      put(d, out, i, get(d, from, i));
    } else if (gives_bool(op) && op != TS_TILE_ult) {
      double x, y;
      int64_t a = get(d, in[0], i), b = get(d, in[1], i);
      int less = a < b, equal = a == b;
      if (d == TS_DT_f32)
        x = ((float *)in[0])[i], y = ((float *)in[1])[i], less = x < y, equal = x == y;
      if (d == TS_DT_f64)
        x = ((double *)in[0])[i], y = ((double *)in[1])[i], less = x < y, equal = x == y;
      ((uint8_t *)out)[i] = (uint8_t)compare_row(op, less, equal);
    } else if (d == TS_DT_f32) {
      const float *x = in[0], *y = in[1], *z = in[2];
      ((float *)out)[i] = float_row_float(op, x[i], y[i], z[i]);
    } else if (d == TS_DT_f64) {
      const double *x = in[0], *y = in[1], *z = in[2];
      ((double *)out)[i] = float_row_double(op, x[i], y[i], z[i]);
    } else if (op == TS_TILE_ult) {
      ((uint8_t *)out)[i] = (uint8_t)int_row(op, d, get(d, in[0], i), get(d, in[1], i));
    } else {
      put(d, out, i, int_row(op, d, get(d, in[0], i), get(d, in[1], i)));
    }
  }
}

/* ---- all rows of one type in one kernel */
static const int float_rows[] = {TS_OP_add,   TS_OP_sub,   TS_OP_mul, TS_OP_div,   TS_OP_neg,
                                 TS_OP_abs,   TS_OP_sqrt,  TS_OP_fma, TS_OP_floor, TS_OP_ceil,
                                 TS_OP_trunc, TS_OP_round, TS_OP_eq,  TS_OP_ne,    TS_OP_lt,
                                 TS_OP_le,    TS_OP_where};
static const int int_rows[] = {
    TS_OP_add,        TS_OP_sub,         TS_OP_mul,   TS_OP_neg,         TS_OP_minimum,
    TS_OP_maximum,    TS_OP_floordiv,    TS_OP_mod,   TS_OP_bitwise_not, TS_OP_bitwise_and,
    TS_OP_bitwise_or, TS_OP_bitwise_xor, TS_TILE_shl, TS_TILE_shr,       TS_TILE_sar,
    TS_TILE_mulhi,    TS_TILE_ult,       TS_OP_eq,    TS_OP_ne,          TS_OP_lt,
    TS_OP_le,         TS_OP_where};
static const int bool_rows[] = {TS_OP_logical_not, TS_OP_logical_and, TS_OP_logical_or,
                                TS_OP_logical_xor, TS_OP_bitwise_not, TS_OP_bitwise_and,
                                TS_OP_bitwise_or,  TS_OP_bitwise_xor, TS_OP_eq,
                                TS_OP_ne,          TS_OP_lt,          TS_OP_where};

static int operands(int op) {
  bool more;
  return ts_tile_op_operands(op, &more);
}

static void rows(const TsTarget *t, TsDtype d, const int *op, int nop) {
  enum { MOST = 24 };
  int64_t n = N;
  Made m = make("rows");
  TsTileVal x = param(&m, d, 1, &n, false), y = param(&m, d, 1, &n, false),
            z = param(&m, d, 1, &n, false), c = param(&m, TS_DT_bool, 1, &n, false), to[MOST];
  TsTileVal shift = param(&m, d, 1, &n, false);
  for (int i = 0; i < nop; i++)
    to[i] = param(&m, gives_bool(op[i]) ? TS_DT_bool : d, 1, &n, true);
  TsTileVal zero = ts_tile_index(&m.b, 0), one = ts_tile_index(&m.b, 1);
  TsTileLoop l = ts_tile_for(&m.b, zero, one, 1, true, 0, NULL);
  TsTileType tile = ts_tile_vector(d, N);
  TsTileVal in[5] = {x, y, z, c, shift};
  for (int i = 0; i < 5; i++) in[i] = ts_tile_load(&m.b, in[i], &l.i, &tile, NULL);
  for (int i = 0; i < nop; i++) {
    TsTileVal v;
    bool count = op[i] == TS_TILE_shl || op[i] == TS_TILE_shr || op[i] == TS_TILE_sar;
    if (op[i] == TS_OP_where)
      v = ts_tile_op3(&m.b, op[i], in[3], in[0], in[1]);
    else if (operands(op[i]) == 1)
      v = ts_tile_op1(&m.b, op[i], in[0]);
    else if (operands(op[i]) == 2)
      v = ts_tile_op2(&m.b, op[i], in[0], in[count ? 4 : 1]);
    else
      v = ts_tile_op3(&m.b, op[i], in[0], in[1], in[2]);
    ts_tile_store(&m.b, to[i], &zero, v, NULL);
  }
  ts_tile_for_end(&m.b, &l, NULL, NULL);

  char from[5][N * 8], got[MOST][N * 8], want[N * 8];
  void *arg[MOST + 5];
  for (int i = 0; i < 3; i++) fill_numbers(d, N, from[i]);
  int size = ts_dtypes[d].nbytes; /* every operand meets every other place */
  memmove(from[1], from[1] + size, (size_t)((N - 1) * size));
  for (int i = 20; i < 40; i++)
    memcpy(from[1] + i * size, from[0] + (i * 7 % 20) * size, (size_t)size);
  fill_numbers(TS_DT_bool, N, from[3]);
  for (int i = 0; i < N; i++) put(d, from[4], i, d == TS_DT_bool ? 0 : i % (8 * size));
  for (int i = 0; i < 5; i++) arg[i] = from[i];
  for (int i = 0; i < nop; i++) arg[5 + i] = got[i];
  run(&m, t, arg, NULL);
  for (int i = 0; i < nop; i++) {
    void *wherein[3] = {from[3], from[0], from[1]}, *shifts[3] = {from[0], from[4], NULL};
    void *usual[3] = {from[0], from[1], from[2]};
    bool count = op[i] == TS_TILE_shl || op[i] == TS_TILE_shr || op[i] == TS_TILE_sar;
    want_row(op[i], d, op[i] == TS_OP_where ? wherein : count ? shifts : usual, want);
    same(ts_tile_op_name(op[i]), t, gives_bool(op[i]) ? TS_DT_bool : d, N, got[i], want);
  }
}

/* ---- casts between all types that have code */
static void casts(const TsTarget *t, TsDtype from) {
  static const TsDtype to[] = {TS_DT_bool, TS_DT_u8,   TS_DT_i8,       TS_DT_i16,
                               TS_DT_i32,  TS_DT_i64,  TS_DT_fp8_e4m3, TS_DT_fp8_e5m2,
                               TS_DT_f16,  TS_DT_bf16, TS_DT_f32,      TS_DT_f64};
  enum { NTO = sizeof to / sizeof *to, WIDE = 23, MANY = 11 * WIDE };
  int64_t n = MANY;
  Made m = make("casts");
  TsTileVal x = param(&m, from, 1, &n, false), out[NTO];
  for (int i = 0; i < NTO; i++) out[i] = param(&m, to[i], 1, &n, true);
  TsTileVal zero = ts_tile_index(&m.b, 0), end = ts_tile_index(&m.b, n);
  TsTileLoop l = ts_tile_for(&m.b, zero, end, WIDE, true, 0, NULL);
  TsTileType tile = ts_tile_vector(from, WIDE);
  x = ts_tile_load(&m.b, x, &l.i, &tile, NULL);
  for (int i = 0; i < NTO; i++)
    ts_tile_store(&m.b, out[i], &l.i, ts_tile_cast(&m.b, x, to[i]), NULL);
  ts_tile_for_end(&m.b, &l, NULL, NULL);

  static char data[MANY * 8], got[NTO][MANY * 8], want[MANY * 8];
  void *arg[NTO + 1] = {data};
  fill_numbers(from, MANY, data);
  for (int i = 0; i < NTO; i++) arg[1 + i] = got[i];
  run(&m, t, arg, NULL);
  const TsKernels *kernels = ts_kernels_use("base");
  for (int i = 0; i < NTO; i++) {
    char name[64];
    snprintf(name, sizeof name, "cast from %s", ts_dtype_name(from));
    kernels->convert.convert[from][to[i]](MANY, want, data);
    same(name, t, to[i], MANY, got[i], want);
  }
}

/* ---- numbers of some tables, by vectors of several lengths and by scalars (width 0) */
static void looks(const TsTarget *t, int width, int tables) {
  enum { NTABLE = 32, NAT = 35 * 6, MOST = 11 };
  int64_t n = NAT, step = width ? width : 1;
  double table[MOST][NTABLE];
  int32_t at[NAT];
  float got[MOST][NAT], want[MOST][NAT];
  void *args[MOST + 1] = {at};
  Made m = make("looks");
  TsTileVal i = param(&m, TS_DT_i32, 1, &n, false), out[MOST];
  for (int k = 0; k < tables; k++) out[k] = param(&m, TS_DT_f32, 1, &n, true);
  TsTileVal zero = ts_tile_index(&m.b, 0), end = ts_tile_index(&m.b, n);
  TsTileLoop l = ts_tile_for(&m.b, zero, end, step, true, 0, NULL);
  TsTileType tile = width ? ts_tile_vector(TS_DT_i32, width) : ts_tile_scalar(TS_DT_i32);
  TsTileVal x = ts_tile_load(&m.b, i, &l.i, &tile, NULL);
  tile.dtype = TS_DT_f32;
  for (int k = 0; k < tables; k++) {
    for (int j = 0; j < NTABLE; j++) table[k][j] = (float)((j + 1) * (k ? -0.1 * k : 3.7));
    TsAttr a = {.type = TS_ATTR_floats, .n = NTABLE, .floats = table[k]};
    ts_tile_store(&m.b, out[k], &l.i, ts_tile_emit1(&m.b, TS_TILE_look, 1, &x, &a, &tile),
                  NULL);
  }
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  for (int j = 0; j < NAT; j++) { /* bits above the lowest five say nothing */
    at[j] = (int32_t)((uint32_t)j * 0x9e3779b1u);
    for (int k = 0; k < tables; k++) want[k][j] = (float)table[k][at[j] & (NTABLE - 1)];
  }
  for (int k = 0; k < tables; k++) args[k + 1] = got[k];
  run(&m, t, args, NULL);
  for (int k = 0; k < tables; k++) same("look", t, TS_DT_f32, NAT, got[k], want[k]);
}

static void test(const TsTarget *t) {
  static const int widths[] = {0, 2, 6, 7, 14, 30, 35};
  static const int tables[] = {1, 2, 3, 8, 11};
  for (int i = 0; i < 7; i++)
    for (int k = 0; k < 5; k++) looks(t, widths[i], tables[k]);
  static const TsDtype whole[] = {TS_DT_u8, TS_DT_i8, TS_DT_i16, TS_DT_i32, TS_DT_i64};
  rows(t, TS_DT_f32, float_rows, sizeof float_rows / sizeof *float_rows);
  rows(t, TS_DT_f64, float_rows, sizeof float_rows / sizeof *float_rows);
  for (int i = 0; i < 5; i++) rows(t, whole[i], int_rows, sizeof int_rows / sizeof *int_rows);
  rows(t, TS_DT_bool, bool_rows, sizeof bool_rows / sizeof *bool_rows);
  for (int d = 0; d <= TS_DT_f64; d++) casts(t, (TsDtype)d);
}

int main(void) {
  static const char *const name[] = {"avx512", "avx2", "base"};
  setenv("TESSERA_CACHE", "off", 1);
  if (!ts_llvm_present()) return skip("no LLVM");
  skip_isas();
  for (int i = 0; i < 3; i++)
    if (ts_jit_target(name[i])) test(ts_jit_target(name[i]));
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
