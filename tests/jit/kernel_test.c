/* Whole kernels: edges, strides, reductions in the canonical order, contractions, loops,
 * phases, registers moved about, against plain C. Compiles that must fail, and two threads at
 * once. */
#include <elf.h>
#include <pthread.h>

#include "devices/cpu_pool.h"
#include "ir/tile/tile.h"
#include "tests/jit/jit_test.h"
#include "tests/skip.h"
#include "vm/core/copy.h"
#include "vm/core/kernels.h"

static TsTileVal at_(Made *m, int64_t i) { return ts_tile_index(&m->b, i); }

/* ---- the canonical sum, as numerics states it */
static float sum_f32(const float *x, int n) {
  float acc[256];
  int w = 1;
  for (int l = 0; l < 256; l++) acc[l] = -0.0f;
  for (int i = 0; i < n; i++) acc[i % 256] += x[i];
  while (w < n && w < 256) w *= 2;
  for (int h = w / 2; h; h /= 2)
    for (int l = 0; l < h; l++) acc[l] += acc[l + h];
  return acc[0];
}

static double sum_f64(const double *x, int n) {
  double acc[128];
  int w = 1;
  for (int l = 0; l < 128; l++) acc[l] = -0.0;
  for (int i = 0; i < n; i++) acc[i % 128] += x[i];
  while (w < n && w < 128) w *= 2;
  for (int h = w / 2; h; h /= 2)
    for (int l = 0; l < h; l++) acc[l] += acc[l + h];
  return acc[0];
}

static float pairs_f32(const float *x, int n) {
  float s[256];
  memcpy(s, x, sizeof *s * (size_t)n);
  for (; n > 1; n = (n + 1) / 2)
    for (int i = 0; i < n; i += 2) s[i / 2] = i + 1 < n ? s[i] + s[i + 1] : s[i];
  return s[0];
}

/* ---- c = a + b over a symbolic length; the last tile hangs over the end */
static void add_edge(const TsTarget *t) {
  enum { MOST = 1000 };
  static float a[MOST], b[MOST], c[MOST + 64], want[MOST + 64];
  for (int n = 0; n < MOST; n += n < 70 ? 1 : 311) {
    Made m = make("add_edge");
    int64_t size = ts_tile_size(m.k, "N"), dim[1] = {n};
    TsTileVal x = param(&m, TS_DT_f32, 1, &size, false),
              y = param(&m, TS_DT_f32, 1, &size, false);
    TsTileVal z = param(&m, TS_DT_f32, 1, &size, true);
    TsTileType tile = ts_tile_vector(TS_DT_f32, 48), i64 = ts_tile_scalar(TS_DT_i64);
    TsTileVal end = ts_tile_emit1(&m.b, TS_TILE_dim, 0, NULL, NULL, &i64);
    TsTileLoop l = ts_tile_for(&m.b, at_(&m, 0), end, 48, true, 0, NULL);
    TsTileAccess edge = {.edge = true, .fill = 7};
    x = ts_tile_load(&m.b, x, &l.i, &tile, &edge);
    y = ts_tile_load(&m.b, y, &l.i, &tile, &edge);
    ts_tile_store(&m.b, z, &l.i, ts_tile_op2(&m.b, TS_OP_add, x, y), &edge);
    ts_tile_for_end(&m.b, &l, NULL, NULL);
    for (int i = 0; i < MOST; i++)
      a[i] = (float)i, b[i] = (float)(rnd() % 100), c[i] = want[i] = -1;
    for (int i = 0; i < n; i++) want[i] = a[i] + b[i];
    run(&m, t, (void *[]){a, b, c}, dim);
    same("add_edge", t, TS_DT_f32, MOST + 64, c, want);
  }
}

/* Loads whose tile begins before the memory, or beside it in another axis. */
static void edges_all_round(const TsTarget *t) {
  static float x[5 * 9], got[9 * 13 * 16], want[9 * 13 * 16];
  int64_t dim[2] = {5, 9}, out[3] = {9, 13, 16};
  Made m = make("edges");
  TsTileVal from = param(&m, TS_DT_f32, 2, dim, false), to = param(&m, TS_DT_f32, 3, out, true);
  TsTileType tile = ts_tile_type(TS_DT_f32, 2, (int64_t[]){2, 8});
  TsTileType flat = ts_tile_vector(TS_DT_f32, 16);
  TsTileLoop i = ts_tile_for(&m.b, at_(&m, 0), at_(&m, 9), 1, true, 0, NULL);
  TsTileLoop j = ts_tile_for(&m.b, at_(&m, 0), at_(&m, 13), 1, false, 0, NULL);
  TsTileVal two = at_(&m, 2);
  TsTileVal at[2] = {ts_tile_op2(&m.b, TS_OP_sub, i.i, two),
                     ts_tile_op2(&m.b, TS_OP_sub, j.i, two)};
  TsTileVal v = ts_tile_load(&m.b, from, at, &tile, &(TsTileAccess){.edge = true, .fill = 0.5});
  v = ts_tile_emit1(&m.b, TS_TILE_reshape, 1, &v, NULL, &flat);
  ts_tile_store(&m.b, to, (TsTileVal[]){i.i, j.i, at_(&m, 0)}, v, NULL);
  ts_tile_for_end(&m.b, &j, NULL, NULL);
  ts_tile_for_end(&m.b, &i, NULL, NULL);
  for (int k = 0; k < 45; k++) x[k] = (float)k;
  for (int r = 0; r < 9; r++)
    for (int c = 0; c < 13; c++)
      for (int k = 0; k < 16; k++) {
        int p = r - 2 + k / 8, q = c - 2 + k % 8;
        want[(r * 13 + c) * 16 + k] = p >= 0 && p < 5 && q >= 0 && q < 9 ? x[p * 9 + q] : 0.5f;
      }
  run(&m, t, (void *[]){x, got}, NULL);
  same("edges", t, TS_DT_f32, 9 * 13 * 16, got, want);
}

/* ---- rows: sixteen accumulators in a carried tile, then the tree */
static void row_sum(const TsTarget *t, int n) {
  enum { M = 5 };
  float *x = malloc(sizeof *x * (size_t)(M * n)), got[M], want[M];
  int64_t dim[2] = {M, n}, rows = M;
  Made m = make("row_sum");
  TsTileVal from = param(&m, TS_DT_f32, 2, dim, false),
            to = param(&m, TS_DT_f32, 1, &rows, true);
  TsTileType lanes = ts_tile_vector(TS_DT_f32, 256), one = ts_tile_scalar(TS_DT_f32);
  TsTileLoop r = ts_tile_for(&m.b, at_(&m, 0), at_(&m, M), 1, true, 0, NULL);
  TsTileVal acc = ts_tile_const(&m.b, -0.0, &lanes), axis;
  TsTileLoop l = ts_tile_for(&m.b, at_(&m, 0), at_(&m, n), 256, false, 1, &acc);
  TsTileVal v = ts_tile_load(&m.b, from, (TsTileVal[]){r.i, l.i}, &lanes,
                             &(TsTileAccess){.edge = true, .fill = -0.0});
  v = ts_tile_op2(&m.b, TS_OP_add, l.carry[0], v);
  ts_tile_for_end(&m.b, &l, &v, &acc);
  TsAttr zero = {.type = TS_ATTR_int};
  axis = ts_tile_emit1(&m.b, TS_TILE_sum, 1, &acc, &zero, &one);
  ts_tile_store(&m.b, to, &r.i, axis, NULL);
  ts_tile_for_end(&m.b, &r, NULL, NULL);
  for (int i = 0; i < M * n; i++) x[i] = (float)((int)(rnd() % 20001) - 10000) / 997;
  for (int i = 0; i < M; i++) want[i] = sum_f32(x + i * n, n);
  run(&m, t, (void *[]){x, got}, NULL);
  same("row_sum", t, TS_DT_f32, M, got, want);
  free(x);
}

/* Every reduction of one vector, of rows and of columns. */
static void reductions(const TsTarget *t, int n) {
  enum { M = 3, OPS = 5 };
  static const int op[OPS] = {TS_TILE_sum, TS_TILE_pairs, TS_TILE_max, TS_TILE_min,
                              TS_TILE_argmax};
  float x[M * 300], got[2][OPS][300], want[2][OPS][300];
  double y[300], sum, wide;
  int64_t dim[2] = {M, n}, transposed[2] = {n, M}, rows = M, none = n, indices[M], lowest[M];
  Made m = make("reductions");
  TsTileVal from = param(&m, TS_DT_f32, 2, dim, false),
            across = param(&m, TS_DT_f32, 2, transposed, false);
  TsTileVal doubles = param(&m, TS_DT_f64, 1, &none, false), to[2][OPS];
  for (int a = 0; a < 2; a++)
    for (int i = 0; i < OPS; i++)
      to[a][i] = param(&m, i == OPS - 1 ? TS_DT_i64 : TS_DT_f32, 1, &rows, true);
  TsTileVal total = param(&m, TS_DT_f64, 0, NULL, true);
  TsTileVal zero = at_(&m, 0);
  TsTileLoop l = ts_tile_for(&m.b, zero, at_(&m, 1), 1, true, 0, NULL);
  TsTileType tile[2] = {ts_tile_type(TS_DT_f32, 2, transposed),
                        ts_tile_type(TS_DT_f32, 2, dim)};
  for (int a = 0; a < 2; a++)
    for (int i = 0; i < OPS; i++) {
      TsTileVal v =
          ts_tile_load(&m.b, a ? from : across, (TsTileVal[]){zero, zero}, &tile[a], NULL);
      TsTileType out = ts_tile_vector(i == OPS - 1 ? TS_DT_i64 : TS_DT_f32, M);
      TsAttr axis = {.type = TS_ATTR_int, .i = a};
      v = ts_tile_emit1(&m.b, op[i], 1, &v, &axis, &out);
      ts_tile_store(&m.b, to[a][i], &zero, v, NULL);
    }
  TsTileType vector = ts_tile_vector(TS_DT_f64, n), scalar = ts_tile_scalar(TS_DT_f64);
  TsTileVal v = ts_tile_load(&m.b, doubles, &zero, &vector, NULL);
  TsAttr axis = {.type = TS_ATTR_int};
  v = ts_tile_emit1(&m.b, TS_TILE_sum, 1, &v, &axis, &scalar);
  ts_tile_store(&m.b, total, NULL, v, NULL);
  ts_tile_for_end(&m.b, &l, NULL, NULL);

  float flat[M * 300];
  for (int i = 0; i < M * n; i++) x[i] = (float)((int)(rnd() % 2001) - 1000) / 37;
  for (int i = 0; i < n; i++) y[i] = (double)x[i] * 1.1;
  x[0] = -0.0f;
  if (n > 3) x[n + 1] = x[n + 2] = NAN, x[2 * n + 1] = INFINITY, x[2 * n + 3] = INFINITY;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < n; j++) flat[j * M + i] = x[i * n + j];
  for (int r = 0; r < M; r++) {
    const float *p = x + r * n;
    float most = p[0], least = p[0];
    int64_t first = 0;
    for (int i = 1; i < n; i++) {
      bool nan = p[i] != p[i], had = most != most;
      if (!had && (nan || p[i] > most)) first = i;
      most = had || nan ? NAN : p[i] > most || (p[i] == most && !signbit(p[i])) ? p[i] : most;
      least = had || nan                                         ? NAN
              : p[i] < least || (p[i] == least && signbit(p[i])) ? p[i]
                                                                 : least;
    }
    for (int a = 0; a < 2; a++) {
      want[a][0][r] = sum_f32(p, n), want[a][1][r] = n <= 256 ? pairs_f32(p, n) : 0;
      want[a][2][r] = most, want[a][3][r] = least;
    }
    lowest[r] = first;
  }
  wide = sum_f64(y, n);
  void *arg[14] = {x, flat, y};
  int64_t index[2][M];
  for (int a = 0; a < 2; a++)
    for (int i = 0; i < OPS; i++)
      arg[3 + a * OPS + i] = i == OPS - 1 ? (void *)index[a] : got[a][i];
  arg[13] = &sum;
  run(&m, t, arg, NULL);
  for (int a = 0; a < 2; a++) {
    for (int i = 0; i < OPS - 1; i++)
      if (i != 1 || n <= 256)
        same(ts_tile_op_name(op[i]), t, TS_DT_f32, M, got[a][i], want[a][i]);
    same("argmax", t, TS_DT_i64, M, index[a], lowest);
  }
  same("sum of f64", t, TS_DT_f64, 1, &sum, &wide);
  (void)indices;
}

/* ---- a tile of a matrix product: outer products of packed panels, and mma */
static void product(const TsTarget *t, bool mma) {
  enum { R = 5, C = 24, K = 37 };
  static float a[K * R], b[K * C], c[R * C], want[R * C];
  int64_t da[2] = {K, R}, db[2] = {K, C}, dc[2] = {R, C};
  Made m = make("product");
  TsTileVal pa = param(&m, TS_DT_f32, 2, da, false), pb = param(&m, TS_DT_f32, 2, db, false);
  TsTileVal pc = param(&m, TS_DT_f32, 2, dc, true), zero = at_(&m, 0);
  TsTileType acc_t = ts_tile_type(TS_DT_f32, 2, dc), row = ts_tile_vector(TS_DT_f32, C),
             col = ts_tile_vector(TS_DT_f32, R),
             as = ts_tile_type(TS_DT_f32, 2, (int64_t[]){R, 1}),
             bs = ts_tile_type(TS_DT_f32, 2, (int64_t[]){1, C});
  TsTileLoop p = ts_tile_for(&m.b, zero, at_(&m, 1), 1, true, 0, NULL);
  TsTileVal acc = ts_tile_const(&m.b, 0, &acc_t);
  TsTileLoop l = ts_tile_for(&m.b, zero, at_(&m, K), 1, false, 1, &acc);
  TsTileVal in[3] = {NULL, NULL, l.carry[0]}, at[2] = {l.i, zero};
  int64_t axes[2] = {1, 0};
  in[0] = ts_tile_load(&m.b, pa, at, mma ? &as : &col,
                       mma ? &(TsTileAccess){.naxis = 2, .axes = axes} : NULL);
  in[1] = ts_tile_load(&m.b, pb, at, mma ? &bs : &row, NULL);
  TsTileVal next = ts_tile_emit1(&m.b, mma ? TS_TILE_mma : TS_TILE_outer, 3, in, NULL, &acc_t);
  if (l.stmt) ((TsAttr *)(uintptr_t)ts_tile_attr(l.stmt, "unroll"))->i = 4;
  ts_tile_for_end(&m.b, &l, &next, &acc);
  ts_tile_store(&m.b, pc, (TsTileVal[]){zero, zero}, acc, NULL);
  ts_tile_for_end(&m.b, &p, NULL, NULL);
  for (int i = 0; i < K * R; i++) a[i] = (float)(rnd() % 997) / 31;
  for (int i = 0; i < K * C; i++) b[i] = (float)(rnd() % 997) / 37;
  for (int i = 0; i < R * C; i++) {
    want[i] = 0;
    for (int k = 0; k < K; k++) want[i] = fmaf(a[k * R + i / C], b[k * C + i % C], want[i]);
  }
  run(&m, t, (void *[]){a, b, c}, NULL);
  same(mma ? "mma" : "outer", t, TS_DT_f32, R * C, c, want);
}

/* ---- registers: transpose, part, join, iota, broadcast, bool through memory, gather,
 * scatter */
static void moves(const TsTarget *t, int r, int c) {
  int64_t dim[2] = {r, c}, transposed[2] = {c, r}, n = r * c, rows = r;
  int32_t *x = calloc((size_t)n, 4), *got = calloc((size_t)n, 4), *want = calloc((size_t)n, 4);
  int32_t *half = calloc((size_t)n, 4), *scattered = calloc((size_t)n, 4);
  uint8_t *odd = calloc((size_t)n, 1);
  Made m = make("moves");
  TsTileVal from = param(&m, TS_DT_i32, 2, dim, false),
            to = param(&m, TS_DT_i32, 2, transposed, true);
  TsTileVal joined = param(&m, TS_DT_i32, 2, dim, true),
            flags = param(&m, TS_DT_bool, 2, dim, true);
  TsTileVal line = param(&m, TS_DT_i32, 1, &n, true), zero = at_(&m, 0), at[2] = {zero, zero};
  TsTileLoop l = ts_tile_for(&m.b, zero, at_(&m, 1), 1, true, 0, NULL);
  TsTileType full = ts_tile_type(TS_DT_i32, 2, dim),
             other = ts_tile_type(TS_DT_i32, 2, transposed);
  TsTileVal v = ts_tile_load(&m.b, from, at, &full, NULL);
  TsAttr perm = {.type = TS_ATTR_ints, .n = 2, .ints = (int64_t[]){1, 0}};
  ts_tile_store(&m.b, to, at, ts_tile_emit1(&m.b, TS_TILE_transpose, 1, &v, &perm, &other),
                NULL);
  /* the columns from c/2 on come first, then the others; the number of the row is added */
  TsTileType part[2] = {full, full};
  part[0].dim[1] = c - c / 2, part[1].dim[1] = c / 2;
  TsTileVal two[2];
  for (int i = 0; i < 2; i++) {
    TsAttr start = {.type = TS_ATTR_ints, .n = 2, .ints = (int64_t[]){0, i ? 0 : c / 2}};
    two[i] = ts_tile_emit1(&m.b, TS_TILE_part, 1, &v, &start, &part[i]);
  }
  TsAttr axis = {.type = TS_ATTR_int, .i = 1}, none = {.type = TS_ATTR_int};
  TsTileVal j = ts_tile_emit1(&m.b, TS_TILE_join, 2, two, &axis, &full);
  TsTileType column = ts_tile_vector(TS_DT_i32, rows);
  TsTileVal number = ts_tile_emit1(&m.b, TS_TILE_iota, 0, NULL, &none, &column);
  number = ts_tile_broadcast(&m.b, number, &full, (int64_t[]){0});
  j = ts_tile_op2(&m.b, TS_OP_add, j, number);
  ts_tile_store(&m.b, joined, at, j, NULL);
  TsTileVal one = ts_tile_const(&m.b, 1, &full),
            bit = ts_tile_op2(&m.b, TS_OP_bitwise_and, v, one);
  ts_tile_store(&m.b, flags, at, ts_tile_op2(&m.b, TS_OP_eq, bit, one), NULL);
  /* element i of the last row goes to place n - 1 - i */
  TsTileType w = ts_tile_vector(TS_DT_i64, c), row = ts_tile_vector(TS_DT_i32, c);
  TsTileVal place = ts_tile_emit1(&m.b, TS_TILE_iota, 0, NULL, &none, &w);
  place = ts_tile_op2(&m.b, TS_OP_sub, ts_tile_const(&m.b, (double)n - 1, &w), place);
  TsTileVal last = ts_tile_load(&m.b, from, (TsTileVal[]){at_(&m, r - 1), zero}, &row, NULL);
  ts_tile_emit(&m.b, TS_TILE_scatter, 3, (TsTileVal[]){line, place, last}, NULL, 0, NULL);
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  for (int i = 0; i < n; i++) x[i] = (int32_t)rnd();
  run(&m, t, (void *[]){x, got, half, odd, scattered}, NULL);
  for (int i = 0; i < n; i++) want[i % c * r + i / c] = x[i];
  same("transpose", t, TS_DT_i32, n, got, want);
  for (int i = 0; i < n; i++)
    want[i] = (int32_t)((uint32_t)x[i / c * c + (i % c + c / 2) % c] + (uint32_t)(i / c));
  same("join", t, TS_DT_i32, n, half, want);
  for (int i = 0; i < n; i++) CHECK(odd[i] == (x[i] & 1));
  for (int i = 0; i < c; i++) CHECK(scattered[n - 1 - i] == x[(r - 1) * c + i]);
  free(x), free(got), free(want), free(half), free(odd), free(scattered);
}

/* ---- two phases over scratch, local memory, if, strided columns, streaming stores, threads */
static void phases(const TsTarget *t, int n) {
  enum { W = 32 };
  float *x = aligned_alloc(64, (size_t)(n * W * 4)),
        *got = aligned_alloc(64, (size_t)(n * W * 4)),
        *want = aligned_alloc(64, (size_t)(n * W * 4));
  Made m = make("phases");
  int64_t size = ts_tile_size(m.k, "N"), dim[2] = {size, W}, sizes[1] = {n};
  TsTileVal from = param(&m, TS_DT_f32, 2, dim, false), to = param(&m, TS_DT_f32, 2, dim, true);
  TsTileType i64 = ts_tile_scalar(TS_DT_i64), one = ts_tile_scalar(TS_DT_f32);
  TsTileType row = ts_tile_vector(TS_DT_f32, W), mem = ts_tile_type(TS_DT_f32, 1, &size);
  TsTileVal rows = ts_tile_emit1(&m.b, TS_TILE_dim, 0, NULL, NULL, &i64), zero = at_(&m, 0);
  TsTileVal sums = ts_tile_alloc(&m.b, TS_SPACE_scratch, &mem);
  TsTileLoop a = ts_tile_for(&m.b, zero, rows, 1, true, 0, NULL);
  TsTileVal v = ts_tile_load(&m.b, from, (TsTileVal[]){a.i, zero}, &row, NULL);
  TsTileVal keep = ts_tile_alloc(&m.b, TS_SPACE_local, &row); /* there and back */
  ts_tile_store(&m.b, keep, &zero, v, NULL);
  v = ts_tile_load(&m.b, keep, &zero, &row, NULL);
  TsAttr axis = {.type = TS_ATTR_int};
  v = ts_tile_emit1(&m.b, TS_TILE_sum, 1, &v, &axis, &one);
  ts_tile_store(&m.b, sums, &a.i, v, NULL);
  ts_tile_for_end(&m.b, &a, NULL, NULL);
  /* the rows in the other order: y[i] = x[i] + sum[N - 1 - i], or less it where that is odd */
  TsTileLoop c = ts_tile_for(&m.b, zero, rows, 1, true, 0, NULL);
  TsTileVal back = ts_tile_op2(&m.b, TS_OP_sub, rows, c.i);
  back = ts_tile_op2(&m.b, TS_OP_sub, back, at_(&m, 1));
  TsTileVal s = ts_tile_load(&m.b, sums, &back, &one, NULL);
  TsTileVal odd = ts_tile_op2(&m.b, TS_OP_mod, back, at_(&m, 2));
  odd = ts_tile_op2(&m.b, TS_OP_eq, odd, at_(&m, 1));
  TsTileStmt *branch = ts_tile_emit(&m.b, TS_TILE_if, 1, &odd, NULL, 1, &one);
  for (int i = 0; i < 2 && branch; i++) {
    TsTileBuild inner = {.k = m.k, .at = branch->region[i]};
    TsTileVal y = i ? s : ts_tile_op1(&inner, TS_OP_neg, s);
    ts_tile_emit(&inner, TS_TILE_yield, 1, &y, NULL, 0, NULL);
  }
  s = ts_tile_broadcast(&m.b, branch ? branch->out[0] : NULL, &row, NULL);
  v = ts_tile_load(&m.b, from, (TsTileVal[]){c.i, zero}, &row, NULL);
  ts_tile_store(&m.b, to, (TsTileVal[]){c.i, zero}, ts_tile_op2(&m.b, TS_OP_add, v, s),
                &(TsTileAccess){.stream = true});
  ts_tile_for_end(&m.b, &c, NULL, NULL);
  for (int i = 0; i < n * W; i++) x[i] = (float)(rnd() % 1000) / 7;
  for (int i = 0; i < n; i++) {
    float other = sum_f32(x + (n - 1 - i) * W, W);
    for (int k = 0; k < W; k++)
      want[i * W + k] = x[i * W + k] + ((n - 1 - i) % 2 ? -other : other);
  }
  run(&m, t, (void *[]){x, got}, sizes);
  same("phases", t, TS_DT_f32, n * W, got, want);
  free(x), free(got), free(want);
}

/* A tile down a column of row-major memory: gathers and scatters, at an edge too. */
static void columns(const TsTarget *t) {
  enum { R = 21, C = 6 };
  static double x[R * C], got[R * C];
  int64_t dim[2] = {R, C}, axis = 0;
  Made m = make("columns");
  TsTileVal from = param(&m, TS_DT_f64, 2, dim, false), to = param(&m, TS_DT_f64, 2, dim, true);
  TsTileType tile = ts_tile_vector(TS_DT_f64, 8);
  TsTileAccess access = {.edge = true, .naxis = 1, .axes = &axis};
  TsTileLoop c = ts_tile_for(&m.b, at_(&m, 0), at_(&m, C), 1, true, 0, NULL);
  TsTileLoop r = ts_tile_for(&m.b, at_(&m, 0), at_(&m, R), 8, false, 0, NULL);
  TsTileVal v = ts_tile_load(&m.b, from, (TsTileVal[]){r.i, c.i}, &tile, &access);
  ts_tile_store(&m.b, to, (TsTileVal[]){r.i, c.i}, ts_tile_op1(&m.b, TS_OP_neg, v), &access);
  ts_tile_for_end(&m.b, &r, NULL, NULL);
  ts_tile_for_end(&m.b, &c, NULL, NULL);
  for (int i = 0; i < R * C; i++) x[i] = i;
  run(&m, t, (void *[]){x, got}, NULL);
  for (int i = 0; i < R * C; i++) x[i] = -x[i];
  same("columns", t, TS_DT_f64, R * C, got, x);
}

/* ---- what must fail, with a sentence and without harm */
static Made doubled(TsDtype d, int rank) {
  int64_t dim[3] = {2, 2, 2};
  Made m = make("doubled");
  TsTileVal x = param(&m, d, rank, dim, false), y = param(&m, d, rank, dim, true);
  TsTileVal zero = at_(&m, 0), at[3] = {zero, zero, zero};
  TsTileType tile = ts_tile_type(d, rank, dim);
  TsTileLoop l = ts_tile_for(&m.b, zero, at_(&m, 1), 1, true, 0, NULL);
  TsTileVal v = ts_tile_load(&m.b, x, at, &tile, NULL);
  ts_tile_store(&m.b, y, at, ts_tile_op2(&m.b, TS_OP_add, v, v), NULL);
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  return m;
}

static void must_fail(Made m, const TsTarget *t, const char *word) {
  TsError err = {0};
  TsKernel *k = ts_kernel_compile(m.k, t, &err);
  if (k || !strstr(err.message, word)) failed++, printf("no failure: %s\n", err.message);
  ts_kernel_free(k);
  ts_tile_free(m.k);
}

/* Whatever the bytes are, they load or do not. */
static void load(const TsTile *k, const TsTarget *t, const char *object, size_t n) {
  TsError err = {0};
  TsKernel kernel;
  ts_kernel_outline(&kernel, k, t, &err);
  if (!ts_kernel_load(&kernel, object, n, &err)) ts_object_unload(&kernel.object);
}

/* Objects that are cut off or damaged. A section without bytes lies nowhere, so that nothing
 * may be read at its place, such as names of symbols. */
static void damaged(const TsTile *k, const TsTarget *t, const char *object, size_t n) {
  Elf64_Ehdr head;
  memcpy(&head, object, sizeof head);
  for (size_t len = 0; len < n; len += 7) {
    size_t all = len % 2 ? n : len;
    char *copy = malloc(all + 1);
    memcpy(copy, object, all);
    if (len % 2) memset(copy + len, 0xff, n - len < 8 ? n - len : 8);
    load(k, t, copy, all);
    free(copy);
  }
  for (int i = 0; i < head.e_shnum + 1000; i++) {
    char *copy = malloc(n);
    memcpy(copy, object, n);
    Elf64_Shdr *s = (Elf64_Shdr *)(void *)(copy + head.e_shoff) + i;
    if (i < head.e_shnum)
      s->sh_type = SHT_NOBITS, s->sh_offset = UINT64_C(1) << 40;
    else
      for (int c = 0; c < 3; c++) copy[rnd() % n] ^= (char)(1 << rnd() % 8);
    load(k, t, copy, n);
    free(copy);
  }
}

static void failures(const TsTarget *t) {
  must_fail(doubled(TS_DT_complex64, 1), t, "complex64");
  must_fail(doubled(TS_DT_f32, 3), t, "cannot reach");
  must_fail(doubled(TS_DT_bf16, 1), t, "storage type");
  must_fail(make("empty"), t, "phases");
  Made nowhere = doubled(TS_DT_f32, 1); /* a GPU's statement */
  ts_tile_emit(&(TsTileBuild){.k = nowhere.k, .at = nowhere.k->body->last->region[0]},
               TS_TILE_barrier, 0, NULL, NULL, 0, NULL);
  must_fail(nowhere, t, "barrier");
  TsTarget odd = *t; /* LLVM itself gives up: no registers for these numbers */
  odd.features = "-sse,-sse2,-x87";
  Made call = doubled(TS_DT_f32, 1);
  TsError err = {0};
  TsKernel *k = ts_kernel_compile(call.k, &odd, &err);
  CHECK(k || *err.message);
  ts_kernel_free(k);
  odd.triple = "pdp11-dec-none";
  must_fail((Made){.k = call.k, .b = call.b}, &odd, "LLVM");
  void *object;
  size_t n;
  Made fine = doubled(TS_DT_f32, 1);
  CHECK(ts_llvm_object(fine.k, t, "function(no-such-pass)", &object, &n, &err) && *err.message);
  TsText text = {0};
  CHECK(!ts_llvm_text(fine.k, t, false, &text, &err) && strstr(text.at, "fadd"));
  CHECK(!strstr(text.at, " fast ") && !strstr(text.at, " contract "));
  ts_text_free(&text);
  CHECK(!ts_llvm_text(fine.k, t, true, &text, &err) && strstr(text.at, "rounds0"));
  ts_text_free(&text);
  CHECK(!ts_llvm_object(fine.k, t, NULL, &object, &n, &err));
  damaged(fine.k, t, object, n);
  free(object);
  ts_tile_free(fine.k);
}

/* ---- compiles in two threads while a third runs kernels */
static void *compile_many(void *arg) {
  const TsTarget *t = arg;
  intptr_t bad = 0;
  for (int i = 0; i < 12; i++) {
    Made m = doubled(i % 3 == 2 ? TS_DT_complex64 : TS_DT_f32, 1);
    TsError err = {0};
    TsKernel *k = ts_kernel_compile(m.k, t, &err);
    float x[2] = {1, 2}, y[2] = {0};
    if (k) bad += ts_kernel_run(k, (void *[]){x, y}, NULL, &err) || y[0] != 2 || y[1] != 4;
    bad += !k != (i % 3 == 2);
    ts_kernel_free(k);
    ts_tile_free(m.k);
  }
  return (void *)bad;
}

static void threads(const TsTarget *t) {
  pthread_t thread[2];
  void *bad;
  for (int i = 0; i < 2; i++)
    pthread_create(&thread[i], NULL, compile_many, (void *)(uintptr_t)t);
  CHECK(!compile_many((void *)(uintptr_t)t));
  for (int i = 0; i < 2; i++) CHECK(!pthread_join(thread[i], &bad) && !bad);
}

/* ---- y[p, q] = x[p, q] + x[p, q + 1] + .. + x[p + 2, q + 2], a row of 16 at a time: constants
 * times a stride that is known later, in loops of which some surely begin */
static void neighbours(const TsTarget *t, int n) {
  enum { P = 5, MOST = 40 };
  static float x[P * MOST * 16], y[P * MOST * 16], want[P * MOST * 16];
  Made m = make("neighbours");
  int64_t size = ts_tile_size(m.k, "N"), shape[3] = {P, size, 16}, dim[1] = {n};
  TsTileVal from = param(&m, TS_DT_f32, 3, shape, false);
  TsTileVal to = param(&m, TS_DT_f32, 3, shape, true);
  TsTileType i64 = ts_tile_scalar(TS_DT_i64), row = ts_tile_vector(TS_DT_f32, 16);
  TsTileVal end = ts_tile_emit1(&m.b, TS_TILE_dim, 0, NULL, NULL, &i64);
  end = ts_tile_op2(&m.b, TS_OP_sub, end, at_(&m, 2));
  TsTileLoop p = ts_tile_for(&m.b, at_(&m, 0), at_(&m, P - 2), 1, true, 0, NULL);
  TsTileLoop q = ts_tile_for(&m.b, at_(&m, 0), end, 1, false, 0, NULL);
  if (q.stmt) ((TsAttr *)(uintptr_t)ts_tile_attr(q.stmt, "unroll"))->i = 2;
  TsTileVal sum = ts_tile_const(&m.b, 0, &row);
  TsTileLoop a = ts_tile_for(&m.b, at_(&m, 0), at_(&m, 3), 1, false, 1, &sum);
  sum = a.carry[0];
  for (int b = 0; b < 3; b++) {
    TsTileVal where[3] = {ts_tile_op2(&m.b, TS_OP_add, p.i, a.i),
                          ts_tile_op2(&m.b, TS_OP_add, q.i, at_(&m, b)), at_(&m, 0)};
    sum = ts_tile_op2(&m.b, TS_OP_add, sum, ts_tile_load(&m.b, from, where, &row, NULL));
  }
  ts_tile_for_end(&m.b, &a, &sum, &sum);
  ts_tile_store(&m.b, to, (TsTileVal[]){p.i, q.i, at_(&m, 0)}, sum, NULL);
  ts_tile_for_end(&m.b, &q, NULL, NULL);
  ts_tile_for_end(&m.b, &p, NULL, NULL);
  for (int i = 0; i < P * n * 16; i++) x[i] = (float)(rnd() % 1000) / 64, y[i] = want[i] = 0;
  for (int i = 0; i < (P - 2) * (n - 2) * 16; i++) {
    int r = i / 16 / (n - 2), c = i / 16 % (n - 2), l = i % 16, at = (r * n + c) * 16 + l;
    for (int k = 0; k < 9; k++) want[at] += x[at + (k / 3 * n + k % 3) * 16];
  }
  run(&m, t, (void *[]){x, y}, dim);
  CHECK(!memcmp(y, want, sizeof(float) * (size_t)(P * n * 16)));
}

static void test(const TsTarget *t) {
  add_edge(t);
  edges_all_round(t);
  for (int n = 1; n < 5000; n = n * 3 + 1) row_sum(t, n);
  for (int n = 1; n <= 37; n = n < 16 ? n + 4 : n + 20) reductions(t, n);
  if (t == ts_jit_target(NULL)) reductions(t, 151);
  product(t, false);
  product(t, true);
  moves(t, 8, 8);
  moves(t, 16, 16);
  moves(t, 3, 7);
  for (int n = 0; n < 40; n += 13) phases(t, n);
  columns(t);
  for (int n = 2; n < 40; n += 6) neighbours(t, n);
}

int main(void) {
  static const char *const name[] = {"avx512", "avx2", "base"};
  const TsKernels *k = ts_kernels_use(NULL);
  setenv("TESSERA_CACHE", "off", 1);
  for (int i = 0; i < 3; i++) ts_jit_target(name[i]);
  CHECK(ts_copy_used() == &k->copy); /* who looks for targets changes nothing for the VM */
  skip_isas();
  for (int i = 0; i < 3 && ts_llvm_present(); i++)
    if (ts_jit_target(name[i])) test(ts_jit_target(name[i]));
  if (ts_llvm_present()) {
    failures(ts_jit_target(NULL));
    ts_cpu_set_threads(1);
    threads(ts_jit_target(NULL));
  } else {
    skip("no LLVM: nothing is compiled");
    TsError err = {0};
    must_fail(doubled(TS_DT_f32, 1), ts_jit_target("base"), "LLVM");
    (void)err;
  }
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
