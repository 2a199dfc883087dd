/* Kernels of every pointwise row for every type, some rows to a kernel, and of all casts;
 * numbers for them that go to the corners. */
#ifndef TS_TESTS_GPU_OPS_H
#define TS_TESTS_GPU_OPS_H

#include "lib/op.h"
#include "tests/ir/tile_random.h"

enum { OPS_LENGTH = 1500, OPS_TILE = 1024, OPS_EACH = 12 };

static const TsDtype ops_types[] = {TS_DT_f32, TS_DT_f64, TS_DT_i32, TS_DT_i64,
                                    TS_DT_i16, TS_DT_i8,  TS_DT_u8,  TS_DT_bool};

/* A row alone, to see whether it is legal for a type. */
static TsTile *one_row(int op, TsDtype d, TsDtype result) {
  const TsOpInfo *o = ts_op_info((TsOp)op);
  TsTile *k = ts_tile_new("row");
  TsTileType m = ts_tile_vector(d, OPS_LENGTH), t = ts_tile_vector(d, OPS_TILE), r = t;
  TsTileVal in[8], x[3];
  int n = o->nin + o->npar;
  m.dtype = d;
  for (int i = 0; i < 3; i++) x[i] = ts_tile_param(k, "x", &m, false);
  m.dtype = r.dtype = (uint8_t)result;
  TsTileVal y = ts_tile_param(k, "y", &m, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop l = ts_tile_for(&b, ts_tile_index(&b, 0), ts_tile_index(&b, OPS_LENGTH), OPS_TILE,
                             true, 0, NULL);
  TsTileAccess a = {.edge = true};
  for (int i = 0; i < n && i < 8; i++) in[i] = ts_tile_load(&b, x[i % 3], &l.i, &t, &a);
  if (op == TS_OP_where) in[0] = ts_tile_cast(&b, in[0], TS_DT_bool);
  ts_tile_store(&b, y, &l.i, ts_tile_emit1(&b, op, n, in, NULL, &r), &a);
  ts_tile_for_end(&b, &l, NULL, NULL);
  TsError ignored = {0};
  if (n <= 8 && !k->failed && !ts_tile_check(k, NULL, &ignored)) return k;
  ts_tile_free(k);
  return NULL;
}

/* The type of a row's result, TS_DTYPE_COUNT: there is no such row. */
static int result_type(int op, TsDtype d) {
  TsDtype try[] = {d, TS_DT_bool, TS_DT_i64};
  if (op >= TS_OP_COUNT || ts_op_info((TsOp)op)->cls != TS_CLASS_POINTWISE) return -1;
  for (int i = 0; i < 3; i++) {
    TsTile *k = one_row(op, d, try[i]);
    ts_tile_free(k);
    if (k) return (int)try[i];
  }
  return -1;
}

/* The next rows of a type from *op on; NULL: no more. */
static inline TsTile *ops_kernel(TsDtype d, int *op) {
  int list[OPS_EACH], result[OPS_EACH], n = 0;
  for (; *op < TS_OP_COUNT && n < OPS_EACH; ++*op) {
    int r = result_type(*op, d);
    if (r >= 0) result[n] = r, list[n++] = *op;
  }
  if (!n) return NULL;
  TsTile *k = ts_tile_new("rows");
  TsTileVal x[3], y[OPS_EACH], v[3];
  TsTileType m = ts_tile_vector(d, OPS_LENGTH), t = ts_tile_vector(d, OPS_TILE);
  for (int i = 0; i < 3; i++) x[i] = ts_tile_param(k, "x", &m, false);
  for (int i = 0; i < n; i++) {
    m.dtype = (uint8_t)result[i];
    y[i] = ts_tile_param(k, ts_tile_op_name(list[i]), &m, true);
  }
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop l = ts_tile_for(&b, ts_tile_index(&b, 0), ts_tile_index(&b, OPS_LENGTH), OPS_TILE,
                             true, 0, NULL);
  TsTileAccess a = {.edge = true};
  for (int i = 0; i < 3; i++) v[i] = ts_tile_load(&b, x[i], &l.i, &t, &a);
  for (int i = 0; i < n; i++) {
    TsTileVal in[8];
    TsTileType r = ts_tile_vector((TsDtype)result[i], OPS_TILE);
    int count = ts_op_info((TsOp)list[i])->nin + ts_op_info((TsOp)list[i])->npar;
    for (int j = 0; j < count; j++) in[j] = v[j % 3];
    if (list[i] == TS_OP_where) in[0] = ts_tile_cast(&b, in[0], TS_DT_bool);
    ts_tile_store(&b, y[i], &l.i, ts_tile_emit1(&b, list[i], count, in, NULL, &r), &a);
  }
  ts_tile_for_end(&b, &l, NULL, NULL);
  if (k->failed) ts_tile_free(k), k = NULL;
  return k;
}

/* From one type to all. */
static inline TsTile *cast_kernel(TsDtype d) {
  static const TsDtype to[] = {TS_DT_f32,      TS_DT_f64,      TS_DT_f16, TS_DT_bf16,
                               TS_DT_fp8_e4m3, TS_DT_fp8_e5m2, TS_DT_i64, TS_DT_i32,
                               TS_DT_i16,      TS_DT_i8,       TS_DT_u8,  TS_DT_bool};
  enum { N = sizeof to / sizeof *to };
  TsTile *k = ts_tile_new("casts");
  TsTileVal y[N];
  TsTileType m = ts_tile_vector(d, OPS_LENGTH), t = ts_tile_vector(d, OPS_TILE);
  TsTileVal x = ts_tile_param(k, "x", &m, false);
  for (int i = 0; i < N; i++) {
    m.dtype = (uint8_t)to[i];
    y[i] = ts_tile_param(k, ts_dtype_name(to[i]), &m, true);
  }
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop l = ts_tile_for(&b, ts_tile_index(&b, 0), ts_tile_index(&b, OPS_LENGTH), OPS_TILE,
                             true, 0, NULL);
  TsTileAccess a = {.edge = true};
  TsTileVal v = ts_tile_load(&b, x, &l.i, &t, &a);
  for (int i = 0; i < N; i++) ts_tile_store(&b, y[i], &l.i, ts_tile_cast(&b, v, to[i]), &a);
  ts_tile_for_end(&b, &l, NULL, NULL);
  if (k->failed) ts_tile_free(k), k = NULL;
  return k;
}

/* Corners first, then small numbers and any bits in turn. */
static inline void fill_corners(const TsTileType *t, void *to) {
  static const float f[] = {0.0f,
                            -0.0f,
                            1,
                            -1,
                            0.5f,
                            2.5f,
                            -2.5f,
                            3,
                            INFINITY,
                            -INFINITY,
                            NAN,
                            0x1p-149f,
                            -0x1p-126f,
                            0x1.fffffep127f,
                            8388607.5f,
                            65504,
                            65520,
                            448,
                            464,
                            1e-7f,
                            255.5f,
                            -128.7f,
                            2147483648.0f,
                            88.8f,
                            -104.5f,
                            9223372036854775808.0f,
                            1e30f,
                            709.8f,
                            1e5f,
                            3.1415927f};
  static const int64_t w[] = {0,
                              1,
                              -1,
                              2,
                              -2,
                              7,
                              127,
                              -128,
                              255,
                              32767,
                              -32768,
                              INT32_MAX,
                              INT32_MIN,
                              INT64_MAX,
                              INT64_MIN,
                              1 << 24,
                              ((int64_t)1 << 53) + 1};
  enum { NF = sizeof f / sizeof *f, NW = sizeof w / sizeof *w };
  TsDtype d = (TsDtype)t->dtype;
  for (int64_t i = 0; i < numel(t); i++) {
    uint32_t spot = rnd(4) ? (uint32_t)i : rnd(NF), u = rnd(1u << 30) ^ rnd(1u << 30) << 2;
    float x = spot < NF ? f[spot] : number();
    if (spot >= NF && i % 3 == 0) memcpy(&x, &u, 4);
    int64_t v = spot < NW ? w[spot]
                : i % 2   ? (int64_t)rnd(2001) - 1000
                          : (int64_t)((uint64_t)u << rnd(33));
    double g = spot % 3 ? (double)x : (double)x * (1 + 0x1p-40 * rnd(4096));
    char *p = (char *)to + i * ts_dtypes[d].nbytes;
    if (d == TS_DT_f32)
      memcpy(p, &x, 4);
    else if (d == TS_DT_f64)
      memcpy(p, &g, 8);
    else if (d == TS_DT_bool)
      *p = (char)(u & 1);
    else if (ts_dtype_is(d, TS_KIND_F))
      v = (int64_t)u, memcpy(p, &v, ts_dtypes[d].nbytes);
    else
      memcpy(p, &v, ts_dtypes[d].nbytes);
  }
}

#endif
