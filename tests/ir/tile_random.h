/* Kernels of block form for tests of what comes after it: random ones of maps, rows, columns
 * and sums in two phases, at sizes that straddle vectors, lanes and leaves, and written ones of
 * the forms that the random ones do not have; arguments for them; comparison of results. */
#ifndef TS_TESTS_TILE_RANDOM_H
#define TS_TESTS_TILE_RANDOM_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/tile.h"

static uint64_t state = 1;
static uint32_t rnd(uint32_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % n;
}

/* ---- random kernels */
typedef struct Gen {
  TsTile *k;
  TsTileBuild b;
  TsTileVal val[64]; /* f32 tiles, or scalars, of the round */
  int n, ninput, noutput;
  TsTileType tile; /* of the round */
  int axis;        /* that is reduced, -1: none */
  int64_t m, c;    /* memory is [m, c] */
  TsTileVal at[2];
  int rank;
  bool edge;
} Gen;

static TsTileVal pick(Gen *g) { return g->val[rnd((uint32_t)g->n)]; }
static bool whole(const TsTileVal x) { return x && x->type.rank > 0; }

static TsTileVal fit(Gen *g, TsTileVal x) {
  int64_t axes[2];
  int n = 0;
  if (!x || x->type.rank == g->tile.rank) return x;
  for (int i = 0; i < g->tile.rank; i++)
    if (x->type.rank && i != g->axis) axes[n++] = i;
  return ts_tile_broadcast(&g->b, x, &g->tile, axes);
}

static void keep(Gen *g, TsTileVal x) {
  if (g->n < 64) g->val[g->n++] = x;
}

static int unary(void) {
  static const int op[] = {TS_OP_neg,  TS_OP_abs,     TS_OP_square, TS_OP_exp,     TS_OP_tanh,
                           TS_OP_relu, TS_OP_sigmoid, TS_OP_sqrt,   TS_OP_gelu_erf};
  return op[rnd(sizeof op / sizeof *op)];
}

static int binary(void) {
  static const int op[] = {TS_OP_add, TS_OP_sub,     TS_OP_mul,
                           TS_OP_div, TS_OP_maximum, TS_OP_minimum};
  return op[rnd(sizeof op / sizeof *op)];
}

static TsTileVal reduce(Gen *g, TsTileVal x) {
  static const int op[] = {TS_TILE_sum,  TS_TILE_pairs,  TS_TILE_max,   TS_TILE_min,
                           TS_TILE_prod, TS_TILE_argmax, TS_TILE_argmin};
  int o = op[rnd(7)];
  TsAttr axis = {.type = TS_ATTR_int, .i = g->axis};
  TsTileType t = x->type;
  for (int i = g->axis; i + 1 < t.rank; i++) t.dim[i] = t.dim[i + 1];
  t.rank--;
  bool arg = o == TS_TILE_argmax || o == TS_TILE_argmin;
  if (arg) t.dtype = TS_DT_i64;
  TsTileVal y = ts_tile_emit1(&g->b, o, 1, &x, &axis, &t);
  return arg ? ts_tile_cast(&g->b, y, TS_DT_f32) : y;
}

/* By way of integers and comparisons. */
static TsTileVal mixed(Gen *g, TsTileVal x, TsTileVal y) {
  switch (rnd(4)) {
  case 0: return ts_tile_op3(&g->b, TS_OP_where, ts_tile_op2(&g->b, TS_OP_lt, x, y), x, y);
  case 1: return ts_tile_cast(&g->b, ts_tile_cast(&g->b, x, TS_DT_bf16), TS_DT_f32);
  case 2:
    return ts_tile_cast(
        &g->b, ts_tile_cast(&g->b, ts_tile_op2(&g->b, TS_OP_gt, x, y), TS_DT_i64), TS_DT_f32);
  default: return ts_tile_op3(&g->b, TS_OP_fma, x, y, x);
  }
}

static void step(Gen *g) {
  TsTileVal x = pick(g), y = pick(g);
  uint32_t k = rnd(10);
  if (g->axis >= 0 && k < 3) {
    x = fit(g, x);
    keep(g, reduce(g, x));
    return;
  }
  if (x->type.rank != y->type.rank || rnd(3)) x = fit(g, x), y = fit(g, y);
  if (k < 5)
    keep(g, ts_tile_op1(&g->b, unary(), x));
  else if (k < 9)
    keep(g, ts_tile_op2(&g->b, binary(), x, y));
  else
    keep(g, mixed(g, x, y));
}

static TsDtype memory_type(void) {
  static const TsDtype d[] = {TS_DT_f32, TS_DT_f32,  TS_DT_bf16,
                              TS_DT_f32, TS_DT_bool, TS_DT_i64};
  return d[rnd(6)];
}

static TsTileType memory(Gen *g, TsDtype d) {
  int64_t dim[2] = {g->m, g->c};
  return ts_tile_type(d, g->rank, g->rank == 1 ? dim + 1 : dim);
}

static const int64_t sizes[] = {1,   2,   3,   7,    15,   16,   17,   63,   64,   65,
                                255, 256, 257, 1000, 4095, 4096, 4097, 9000, 12289};
static int64_t size(int most) {
  int64_t n;
  do n = sizes[rnd(sizeof sizes / sizeof *sizes)];
  while (n > most);
  return n;
}

/* Shape of the kernel: map, map over [m, c], row, rows at once, columns. */
static int shape_of(Gen *g, int kind, int64_t *step_of) {
  int64_t n;
  g->axis = -1, g->rank = 2, g->edge = false;
  *step_of = 1;
  switch (kind) {
  case 0: /* map of one axis */
    g->rank = 1, g->m = 1, g->c = size(9000), g->edge = true;
    *step_of = rnd(2) ? 4096 : 64;
    g->tile = ts_tile_vector(TS_DT_f32, *step_of);
    return 1;
  case 1: /* a row a round */
    g->m = 1 + rnd(3), g->c = size(20000), g->axis = 0;
    g->tile = ts_tile_vector(TS_DT_f32, g->c);
    return 1;
  case 2: /* some rows a round */
    n = 2 + rnd(4);
    g->m = n * (1 + rnd(2)), g->c = size(300), g->axis = 1;
    *step_of = n;
    g->tile = ts_tile_type(TS_DT_f32, 2, (int64_t[]){n, g->c});
    return 1;
  case 3: /* columns */
    g->m = size(5000), g->c = 1 + rnd(200), g->axis = 0, g->edge = true;
    *step_of = g->m > 1000 ? 16 : 64;
    g->tile = ts_tile_type(TS_DT_f32, 2, (int64_t[]){g->m, *step_of});
    return 1;
  case 5: /* so many rows that they are pipelined */
    g->m = 32 + rnd(20), g->c = 256 + rnd(2) * rnd(800), g->axis = 0;
    g->tile = ts_tile_vector(TS_DT_f32, g->c);
    return 1;
  default: /* a leaf a round */
    g->rank = 1, g->m = 1, g->c = size(20000), g->edge = true, g->axis = 0;
    *step_of = 4096;
    g->tile = ts_tile_vector(TS_DT_f32, 4096);
    return 1;
  }
}

static void put(Gen *g, TsTileVal param, TsTileVal x) {
  TsTileAccess a = {.edge = g->edge, .stream = rnd(2)};
  ts_tile_store(&g->b, param, g->rank == 1 ? g->at + 1 : g->at,
                ts_tile_cast(&g->b, x, (TsDtype)param->type.dtype), &a);
}

static TsTile *kernel(int kind) {
  Gen g = {.k = ts_tile_new("random")};
  int64_t steps, dims[2];
  TsTileVal in[4], out[4], small[4] = {0};
  int nin = 1 + (int)rnd(3), nout = 1 + (int)rnd(2), nsmall = 0;
  shape_of(&g, kind, &steps);
  for (int i = 0; i < nin; i++) {
    TsTileType t = memory(&g, memory_type());
    in[i] = ts_tile_param(g.k, "x", &t, false);
  }
  for (int i = 0; i < nout; i++) {
    TsTileType t = memory(&g, rnd(3) ? TS_DT_f32 : TS_DT_bf16);
    out[i] = ts_tile_param(g.k, "y", &t, true);
  }
  dims[0] = g.rank == 1 || kind == 3 ? g.c : g.m;
  TsTileType per = ts_tile_vector(TS_DT_f32, dims[0]);
  TsTileVal extra = ts_tile_param(g.k, "s", &per, true);
  g.b = ts_tile_build(g.k);
  TsTileVal zero = ts_tile_index(&g.b, 0);
  TsTileLoop l = ts_tile_for(&g.b, zero, ts_tile_index(&g.b, dims[0]), steps, true, 0, NULL);
  g.at[0] = kind == 3 ? zero : l.i;
  g.at[1] = kind == 1 || kind == 2 || kind == 5 ? zero : l.i;
  double beyond = rnd(2) ? -0.0 : 1.5;
  for (int i = 0; i < nin; i++) {
    TsTileAccess a = {.edge = g.edge};
    if (g.edge && ts_dtype_is((TsDtype)in[i]->type.dtype, TS_KIND_F)) a.fill = beyond;
    keep(&g, ts_tile_cast(&g.b,
                          ts_tile_load(&g.b, in[i], g.rank == 1 ? g.at + 1 : g.at, &g.tile, &a),
                          TS_DT_f32));
  }
  for (int n = 1 + (int)rnd(12); n > 0; n--) step(&g);
  for (int i = g.n; i-- > 0 && nsmall < 1;)
    if (g.axis >= 0 && g.val[i]->type.rank < g.tile.rank) small[nsmall++] = g.val[i];
  for (int i = 0; i < nout; i++) {
    TsTileVal x = NULL;
    for (int j = g.n - 1 - i; j >= 0 && !whole(x); j--)
      x = g.val[j]->type.rank == g.tile.rank ? g.val[j] : NULL;
    if (!x || (i && rnd(2))) x = fit(&g, g.val[g.n - 1]);
    put(&g, out[i], x);
  }
  if (nsmall && kind != 4)
    ts_tile_store(&g.b, extra, &l.i, small[0], &(TsTileAccess){.edge = g.edge});
  ts_tile_for_end(&g.b, &l, NULL, NULL);
  if (g.k->failed) ts_tile_free(g.k), g.k = NULL;
  return g.k;
}

/* Leaves into scratch, then their pairs. */
static TsTile *two_phases(void) {
  TsTile *k = ts_tile_new("two_phases");
  int64_t n = size(20000), leaves = (n + 4095) / 4096;
  if (rnd(2)) leaves = size(300), n = leaves * 4096 - rnd(4096);
  bool product = rnd(4) == 0;
  TsTileType t = ts_tile_vector(TS_DT_f32, n), one = ts_tile_vector(TS_DT_f32, 1),
             s = ts_tile_vector(TS_DT_f32, leaves);
  TsTileType tile = ts_tile_vector(TS_DT_f32, 4096), scalar = ts_tile_scalar(TS_DT_f32);
  TsTileVal x = ts_tile_param(k, "x", &t, false), y = ts_tile_param(k, "y", &one, true);
  TsTileBuild b = ts_tile_build(k);
  TsAttr axis = {.type = TS_ATTR_int};
  TsTileVal zero = ts_tile_index(&b, 0), end = ts_tile_index(&b, leaves),
            part = ts_tile_alloc(&b, TS_SPACE_scratch, &s);
  (void)product;
  TsTileLoop l = ts_tile_for(&b, zero, end, 1, true, 0, NULL);
  TsTileVal at = ts_tile_op2(&b, TS_OP_mul, l.i, ts_tile_index(&b, 4096));
  TsTileVal v = ts_tile_load(&b, x, &at, &tile, &(TsTileAccess){.edge = true, .fill = -0.0});
  v = ts_tile_emit1(&b, TS_TILE_sum, 1, &v, &axis, &scalar);
  ts_tile_store(&b, part, &l.i, v, NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  l = ts_tile_for(&b, zero, ts_tile_index(&b, 1), 1, true, 0, NULL);
  v = ts_tile_load(&b, part, &zero, &s, NULL);
  v = ts_tile_emit1(&b, TS_TILE_pairs, 1, &v, &axis, &scalar);
  ts_tile_store(&b, y, &zero, v, NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

/* ---- running */
static float number(void) {
  switch (rnd(40)) {
  case 0: return 0.0f;
  case 1: return -0.0f;
  case 2: return rnd(8) ? 1.0f : NAN;
  case 3: return rnd(8) ? -2.0f : (float)-INFINITY;
  default: return ((float)rnd(20001) - 10000) / (1 + (float)rnd(7000));
  }
}

static int64_t extent[TS_TILE_DIMS] = {300, 5, 6, 7};

static int64_t numel(const TsTileType *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++)
    n *= ts_tile_dim_is(t->dim[i]) ? extent[ts_tile_dim_index(t->dim[i])] : t->dim[i];
  return n;
}

static int64_t bytes_of(const TsTileType *t) { return numel(t) * ts_dtypes[t->dtype].nbytes; }

static void fill(const TsTileType *t, void *p) {
  for (int64_t i = 0; i < numel(t); i++) {
    float f = number();
    uint32_t u;
    memcpy(&u, &f, 4);
    if (t->dtype == TS_DT_f32)
      ((float *)p)[i] = f;
    else if (t->dtype == TS_DT_f64)
      ((double *)p)[i] = (double)f * 1.00000001;
    else if (t->dtype == TS_DT_i32)
      ((int32_t *)p)[i] = (int32_t)rnd(100) - 50;
    else if (t->dtype == TS_DT_bf16)
      ((uint16_t *)p)[i] = (uint16_t)(u >> 16);
    else if (t->dtype == TS_DT_bool)
      ((uint8_t *)p)[i] = rnd(2) != 0;
    else
      ((int64_t *)p)[i] = (int64_t)rnd(100) - 50;
  }
}

/* A NaN is one value. */
static inline bool is_nan(TsDtype d, const void *x) {
  uint32_t u = 0;
  double g;
  float f;
  if (!ts_dtype_is(d, TS_KIND_F)) return false;
  if (d == TS_DT_f64) return memcpy(&g, x, 8), isnan(g);
  memcpy((char *)&u + 4 - ts_dtypes[d].nbytes, x, (size_t)ts_dtypes[d].nbytes);
  return memcpy(&f, &u, 4), isnan(f);
}

static inline bool same(const TsTileType *t, const void *a, const void *b, int64_t *where) {
  int64_t size_of = ts_dtypes[t->dtype].nbytes;
  TsDtype d = (TsDtype)t->dtype;
  for (*where = 0; *where < numel(t); ++*where) {
    const char *x = (const char *)a + *where * size_of, *y = (const char *)b + *where * size_of;
    if (memcmp(x, y, (size_t)size_of) && !(is_nan(d, x) && is_nan(d, y))) return false;
  }
  return true;
}

static inline TsTile *random_kernel(int i) {
  static const int kind[] = {0, 1, 2, 3, 4, -1, 5, 5};
  return kind[i % 8] < 0 ? two_phases() : kernel(kind[i % 8]);
}

/* Memory for the parameters of a kernel: numbers in its inputs, a pattern in its results. */
static inline void make_arguments(const TsTile *k, void **arg) {
  for (int i = 0; i < k->nparam; i++) {
    arg[i] = calloc((size_t)numel(&k->param[i]->type) + 8, 8);
    if (i < k->nin)
      fill(&k->param[i]->type, arg[i]);
    else
      memset(arg[i], 0x5a, (size_t)bytes_of(&k->param[i]->type));
  }
}

/* ---- kernels whose form the random ones do not have */
static const char *const written[] = {
    /* a matrix product of blocks, carried through steps of k */
    "tile @product(%a: f32[29,70], %b: f32[70,45]) -> (%c: f32[29,45]) {\n"
    "  for %i in 0..29 step 29 parallel {\n"
    "    %z = const : f32[29,45]\n"
    "    %s = for %k in 0..70 step 35 carry %acc = %z : f32[29,45] {\n"
    "      %x = load %a[0, %k] : f32[29,35]\n"
    "      %y = load %b[%k, 0] : f32[35,45]\n"
    "      %n = mma %x, %y, %acc : f32[29,45]\n"
    "      yield %n\n"
    "    }\n"
    "    %r = relu %s : f32[29,45]\n"
    "    store %c[0, 0] = %r\n"
    "  }\n}\n",
    /* values of a round that depend on each other's last ones */
    "tile @online(%x: f32[13,60]) -> (%y: f32[13], %t: f32[13,20]) {\n"
    "  for %i in 0..1 parallel {\n"
    "    %lo = const {value=-1e30} : f32[13]\n"
    "    %zero = const : f32[13]\n"
    "    %acc0 = const : f32[13,20]\n"
    "    %m2, %l2, %acc2 = for %k in 0..60 step 20 carry %m = %lo, %l = %zero, %acc = %acc0 : "
    "f32[13], f32[13], f32[13,20] {\n"
    "      %p = load %x[0, %k] : f32[13,20]\n"
    "      %h = max %p {axis=1} : f32[13]\n"
    "      %n = maximum %m, %h : f32[13]\n"
    "      %d = sub %m, %n : f32[13]\n"
    "      %f = exp %d : f32[13]\n"
    "      %nb = broadcast %n {axes=[0]} : f32[13,20]\n"
    "      %u = sub %p, %nb : f32[13,20]\n"
    "      %e = exp %u : f32[13,20]\n"
    "      %s = sum %e {axis=1} : f32[13]\n"
    "      %lf = mul %l, %f : f32[13]\n"
    "      %ls = add %lf, %s : f32[13]\n"
    "      %fb = broadcast %f {axes=[0]} : f32[13,20]\n"
    "      %af = mul %acc, %fb : f32[13,20]\n"
    "      %as = add %af, %e : f32[13,20]\n"
    "      yield %n, %ls, %as\n"
    "    }\n"
    "    store %y[0] = %l2\n"
    "    store %t[0, 0] = %acc2\n"
    "  }\n}\n",
    /* columns of symbolic length */
    "tile @columns<M>(%x: f32[M,70]) -> (%y: f32[70], %z: f32[70]) {\n"
    "  for %c in 0..70 step 64 parallel {\n"
    "    %p = load %x[0, %c] {edge=true} : f32[M,64]\n"
    "    %s = sum %p {axis=0} : f32[64]\n"
    "    %m = max %p {axis=0} : f32[64]\n"
    "    store %y[%c] = %s {edge=true}\n"
    "    store %z[%c] = %m {edge=true}\n"
    "  }\n}\n",
    /* a position beside the tile that is before the memory, and behind it */
    "tile @before(%x: f32[5,70]) -> (%y: f32[5,70], %z: f32[5,70]) {\n"
    "  for %r in 0..5 parallel {\n"
    "    %b = sub %r, 1 : i64[]\n"
    "    %a = add %r, 1 : i64[]\n"
    "    for %c in 0..70 step 64 {\n"
    "      %p = load %x[%b, %c] {edge=true fill=3} : f32[64]\n"
    "      store %y[%r, %c] = %p {edge=true}\n"
    "      %q = load %x[%r, %c] {edge=true} : f32[64]\n"
    "      store %z[%a, %c] = %q {edge=true}\n"
    "    }\n"
    "    %i = const : f32[64]\n"
    "    store %z[0, 0] = %i {edge=true}\n"
    "  }\n}\n",
    /* two stores, of which one ends before the other */
    "tile @ends(%x: f32[70]) -> (%y: f32[70], %z: f32[40]) {\n"
    "  for %c in 0..70 step 64 parallel {\n"
    "    %p = load %x[%c] {edge=true} : f32[64]\n"
    "    store %y[%c] = %p {edge=true}\n"
    "    store %z[%c] = %p {edge=true}\n"
    "  }\n}\n",
    /* f64 and integers */
    "tile @wide(%x: f64[3,5000], %n: i64[3,5000], %o: i32[3,5000]) -> (%y: f64[3], %s: i64[3], "
    "%z: f64[3,5000], %w: i64[3], %v: i32[3]) {\n"
    "  for %r in 0..3 parallel {\n"
    "    %p = load %x[%r, 0] : f64[5000]\n"
    "    %q = load %n[%r, 0] : i64[5000]\n"
    "    %i = load %o[%r, 0] : i32[5000]\n"
    "    %a = sum %p {axis=0} : f64[]\n"
    "    %b = sum %q {axis=0} : i64[]\n"
    "    %c = argmin %p {axis=0} : i64[]\n"
    "    %g = min %i {axis=0} : i32[]\n"
    "    %d = max %p {axis=0} : f64[]\n"
    "    %e = broadcast %d : f64[5000]\n"
    "    %f = sub %p, %e : f64[5000]\n"
    "    %h = exp %f : f64[5000]\n"
    "    store %y[%r] = %a\n"
    "    store %s[%r] = %b\n"
    "    store %w[%r] = %c\n"
    "    store %v[%r] = %g\n"
    "    store %z[%r, 0] = %h\n"
    "  }\n}\n",
    /* one memory read, written and read again */
    "tile @again(%x: f32[100]) -> (%y: f32[100]) {\n"
    "  for %r in 0..1 parallel {\n"
    "    %m = alloc : f32[100] @local\n"
    "    %p = load %x[0] : f32[100]\n"
    "    store %m[0] = %p\n"
    "    %q = load %m[10] : f32[90]\n"
    "    store %m[0] = %q\n"
    "    %a = load %m[0] : f32[100]\n"
    "    store %y[0] = %a\n"
    "  }\n}\n",
};

#endif
