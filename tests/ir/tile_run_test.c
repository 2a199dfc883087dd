/* The interpreter of Tile IR: reductions, products and row kernels against the VM's operators,
 * bit for bit; pipelines, roles, grids and moves against loops in C; what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/tile.h"
#include "vm/core/vm.h"
#include "tests/ir/failing.h"

static int failures, checks;
static TsContext *ctx;
static TsError err;
static uint64_t seed = 88172645463325252u;

static void check(bool ok, const char *what, long long a, long long b) {
  checks++;
  if (ok) return;
  failures++;
  printf("%s (%lld, %lld) %s\n", what, a, b, err.message);
}

static uint64_t rnd(void) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return seed * 2685821657736338717u;
}

static double uniform(void) { return ldexp((double)(int64_t)rnd(), -63); }

static int64_t size_of(TsDtype d) { return ts_dtypes[d].nbytes; }

static bool is_nan(TsDtype d, const char *at) {
  float f;
  double g;
  if (d == TS_DT_f32) return memcpy(&f, at, 4), f != f;
  if (d == TS_DT_f64) return memcpy(&g, at, 8), g != g;
  return false;
}

/* The index of the first element that differs, or -1; NaN is one value. */
static int64_t differs(TsDtype d, int64_t n, const void *a_, const void *b_) {
  const char *a = a_, *b = b_;
  for (int64_t i = 0; i < n; i++, a += size_of(d), b += size_of(d))
    if (memcmp(a, b, (size_t)size_of(d)) && !(is_nan(d, a) && is_nan(d, b))) return i;
  return -1;
}

/* ---- building */
typedef struct Set {
  const char *name;
  TsAttr value;
} Set;

static TsTileStmt *put(TsTileBuild *b, int op, int nin, const TsTileVal *in, int nset,
                       const Set *set, const TsTileType *out) {
  TsAttr attr[TS_MAX_ATTR];
  int n;
  const TsAttrSpec *spec = ts_tile_op_attrs(op, &n);
  for (int i = 0; i < n; i++) {
    attr[i] = spec[i].preset;
    for (int k = 0; k < nset; k++)
      if (!strncmp(spec[i].name, set[k].name, (size_t)spec[i].namelen)) attr[i] = set[k].value;
  }
  return ts_tile_emit(b, op, nin, in, attr, out != NULL, out);
}

static TsTileVal make(TsTileBuild *b, int op, int nin, const TsTileVal *in, const char *name,
                      TsAttr value, TsTileType out) {
  TsTileStmt *s = put(b, op, nin, in, 1, (Set[]){{name, value}}, &out);
  return s ? s->out[0] : NULL;
}

static TsTileType type2(TsDtype d, int64_t m, int64_t n) {
  return ts_tile_type(d, 2, (int64_t[]){m, n});
}

static TsTileVal index_of(TsTileBuild *b, int64_t i) { return ts_tile_index(b, i); }

/* x repeated along the last axis of type, or along its first for a row of it. */
static TsTileVal spread(TsTileBuild *b, TsTileVal x, const TsTileType *type) {
  return ts_tile_broadcast(b, x, type, NULL);
}

/* Inside of a phase of one round. */
static TsTileBuild phase(TsTile *k) {
  TsTileBuild b = ts_tile_build(k);
  ts_tile_for(&b, index_of(&b, 0), index_of(&b, 1), 1, true, 0, NULL);
  return b;
}

static int run_any(TsTile *k, void *const *arg, const int64_t *dim) {
  err.message[0] = 0;
  int failed = k->failed ? -2 : ts_tile_run(k, arg, dim, &err);
  ts_tile_free(k);
  return failed;
}

/* Of a legal kernel. */
static int run(TsTile *k, void *const *arg, const int64_t *dim) {
  bool legal = k->failed || !ts_tile_check(k, NULL, &err);
  if (!legal) check(err.code == TS_ERR_memory, "legal", 0, 0);
  return run_any(k, arg, dim);
}

static void fill(float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] = (float)uniform();
}

/* ---- reductions */
static void random_element(TsDtype d, void *at, bool special, bool near_one) {
  double x = near_one ? 1 + uniform() / 64 : uniform() * exp(uniform() * 8);
  float f;
  if (special && rnd() % 16 == 0) x = (double[]){NAN, INFINITY, -INFINITY, -0.0, 0}[rnd() % 5];
  f = (float)x;
  uint64_t bits = rnd() >> 11;
  if (d == TS_DT_f32)
    memcpy(at, &f, 4);
  else if (d == TS_DT_f64)
    memcpy(at, &x, 8);
  else if (d == TS_DT_bool)
    *(uint8_t *)at = bits & 1;
  else
    memcpy(at, &bits, (size_t)size_of(d));
}

static TsTensor *tensor(TsDtype d, int rank, const int64_t *dim) {
  TsMeta m = {.dtype = (uint8_t)d, .ndim = (uint8_t)rank};
  for (int i = 0; i < rank; i++) m.dim[i] = dim[i];
  return ts_tensor_new(ctx, &m);
}

/* Bool too, which the interpreter takes and legal kernels cast first. */
static void reduction(int op, TsOp vm, TsDtype d, int64_t n, int64_t outer, int64_t inner,
                      bool special) {
  int64_t dim[3] = {outer, n, inner}, axis = 1;
  TsTensor *x = tensor(d, 3, dim);
  char *at = ts_tensor_write(x);
  for (int64_t i = 0; i < outer * n * inner; i++)
    random_element(d, at + i * size_of(d), special, vm == TS_OP_prod);
  TsAttr attr[TS_MAX_ATTR];
  ts_op_defaults(vm, attr);
  bool arg = vm == TS_OP_argmax || vm == TS_OP_argmin;
  attr[0] = arg ? ts_attr_int(1) : ts_attr_ints(&axis, 1);
  TsTensor *y = ts_vm_call1(ctx, vm, 1, (TsTensor *[]){x}, attr);
  if (!y) {
    check(n == 0, ctx->err.message, n, d);
    ts_tensor_unref(x);
    return;
  }
  TsDtype to = ts_tensor_dtype(y);
  TsTile *k = ts_tile_new("reduce");
  TsTileType t = ts_tile_type(d, 3, dim), u = type2(to, outer, inner);
  TsTileVal px = ts_tile_param(k, "x", &t, false), py = ts_tile_param(k, "y", &u, true);
  TsTileBuild b = phase(k);
  TsTileVal zero = index_of(&b, 0), zeros[3] = {zero, zero, zero};
  TsTileVal v = ts_tile_load(&b, px, zeros, &t, NULL);
  ts_tile_store(&b, py, zeros, make(&b, op, 1, &v, "axis", ts_attr_int(1), u), NULL);
  char *got = calloc((size_t)(outer * inner), 8);
  int failed = run_any(k, (void *[]){at, got}, NULL);
  check(!failed && differs(to, outer * inner, ts_tensor_read(y), got) < 0, ts_tile_op_name(op),
        n, d);
  free(got);
  ts_tensor_unref(x);
  ts_tensor_unref(y);
}

static void reductions(void) {
  static const int64_t length[] = {0,   1,   2,   3,    7,    127,  128,   129,  255,
                                   256, 257, 511, 4095, 4096, 4097, 10000, 20481};
  static const TsDtype type[] = {TS_DT_f32, TS_DT_f64, TS_DT_i32,
                                 TS_DT_i64, TS_DT_u8,  TS_DT_bool};
  static const struct {
    int tile;
    TsOp vm;
  } row[] = {{TS_TILE_sum, TS_OP_sum},       {TS_TILE_prod, TS_OP_prod},
             {TS_TILE_max, TS_OP_max},       {TS_TILE_min, TS_OP_min},
             {TS_TILE_argmax, TS_OP_argmax}, {TS_TILE_argmin, TS_OP_argmin}};
  for (size_t r = 0; r < sizeof row / sizeof *row; r++)
    for (size_t t = 0; t < sizeof type / sizeof *type; t++)
      for (size_t l = 0; l < sizeof length / sizeof *length; l++) {
        int64_t n = length[l];
        reduction(row[r].tile, row[r].vm, type[t], n, 1, 1, false);
        reduction(row[r].tile, row[r].vm, type[t], n, 1, 1, true);
        if (n < 600) reduction(row[r].tile, row[r].vm, type[t], n, 2, 3, n & 1);
      }
}

static void pairs(void) {
  for (int64_t n = 1; n < 40; n++) {
    float x[40], s[40], got;
    fill(x, n);
    memcpy(s, x, sizeof s);
    for (int64_t m = n; m > 1; m = (m + 1) / 2)
      for (int64_t i = 0; i < (m + 1) / 2; i++)
        s[i] = 2 * i + 1 < m ? s[2 * i] + s[2 * i + 1] : s[2 * i];
    TsTile *k = ts_tile_new("pairs");
    TsTileType t = ts_tile_vector(TS_DT_f32, n), u = ts_tile_vector(TS_DT_f32, 1);
    TsTileVal px = ts_tile_param(k, "x", &t, false), py = ts_tile_param(k, "y", &u, true);
    TsTileBuild b = phase(k);
    TsTileVal zero = index_of(&b, 0), v = ts_tile_load(&b, px, &zero, &t, NULL);
    v = make(&b, TS_TILE_pairs, 1, &v, "axis", ts_attr_int(0), ts_tile_scalar(TS_DT_f32));
    ts_tile_store(&b, py, &zero, v, NULL);
    check(!run(k, (void *[]){x, &got}, NULL) && got == s[0], "pairs", n, 0);
  }
}

/* ---- products */
/* Of integers too, which the interpreter takes and legal kernels do not have. */
static void product(TsDtype d, TsDtype acc, int64_t m, int64_t n, int64_t kk) {
  TsTensor *a = tensor(d, 2, (int64_t[]){m, kk}), *b_ = tensor(d, 2, (int64_t[]){kk, n});
  bool narrow = d == TS_DT_bf16 || d == TS_DT_f16;
  for (int side = 0; side < 2; side++) {
    TsTensor *x = side ? b_ : a;
    char *at = ts_tensor_write(x);
    for (int64_t i = 0; i < ts_tensor_numel(x); i++) {
      uint16_t half = (uint16_t)((rnd() & 0x83ff) | (d == TS_DT_f16 ? 0x3800 : 0x3e00));
      if (narrow)
        memcpy(at + 2 * i, &half, 2);
      else
        random_element(d, at + i * size_of(d), false, false);
    }
  }
  TsTensor *y = ts_vm_call1(ctx, TS_OP_matmul, 2, (TsTensor *[]){a, b_}, NULL);
  if (!y) {
    check(false, ctx->err.message, d, acc);
    return;
  }
  TsDtype to = ts_tensor_dtype(y);
  TsTile *k = ts_tile_new("product");
  TsTileType ta = type2(d, m, kk), tb = type2(d, kk, n), tc = type2(acc, m, n), to_ = tc;
  to_.dtype = (uint8_t)to;
  TsTileVal pa = ts_tile_param(k, "a", &ta, false), pb = ts_tile_param(k, "b", &tb, false);
  TsTileVal pc = ts_tile_param(k, "c", &to_, true);
  TsTileBuild b = phase(k);
  TsTileVal zero = index_of(&b, 0), zeros[2] = {zero, zero};
  TsTileVal in[3] = {ts_tile_load(&b, pa, zeros, &ta, NULL),
                     ts_tile_load(&b, pb, zeros, &tb, NULL), ts_tile_const(&b, 0, &tc)};
  TsTileVal c = ts_tile_emit1(&b, TS_TILE_mma, 3, in, NULL, &tc);
  ts_tile_store(&b, pc, zeros, ts_tile_cast(&b, c, to), NULL);
  char *got = calloc((size_t)(m * n), 8);
  int failed = run_any(k, (void *[]){ts_tensor_write(a), ts_tensor_write(b_), got}, NULL);
  check(!failed && differs(to, m * n, ts_tensor_read(y), got) < 0, "mma", d, kk);
  free(got);
  ts_tensor_unref(a);
  ts_tensor_unref(b_);
  ts_tensor_unref(y);
}

static void products(void) {
  static const int64_t size[][3] = {{1, 1, 1}, {7, 5, 37}, {16, 16, 64}, {3, 33, 500}};
  for (int i = 0; i < 4; i++) {
    const int64_t *s = size[i];
    product(TS_DT_f32, TS_DT_f32, s[0], s[1], s[2]);
    product(TS_DT_f64, TS_DT_f64, s[0], s[1], s[2]);
    product(TS_DT_i32, TS_DT_i32, s[0], s[1], s[2]);
    product(TS_DT_i64, TS_DT_i64, s[0], s[1], s[2]);
    product(TS_DT_u8, TS_DT_i32, s[0], s[1], s[2]);
    product(TS_DT_bf16, TS_DT_f32, s[0], s[1], s[2]);
    product(TS_DT_f16, TS_DT_f32, s[0], s[1], s[2]);
  }
}

/* C = A B in tiles of 16 with edges everywhere, the k loop carrying the accumulator, against a
 * chain written in C. Inside: a step as outer products or as one mma. */
static void tiled(bool outer) {
  enum { M = 37, N = 29, K = 45, T = 16 };
  static float a[M * K], b_[K * N], got[M * N];
  fill(a, M * K), fill(b_, K * N);
  TsTile *k = ts_tile_new("tiled");
  int64_t rows = ts_tile_size(k, "M");
  TsTileType ta = type2(TS_DT_f32, rows, K), tb = type2(TS_DT_f32, K, N),
             tc = type2(TS_DT_f32, rows, N), t = type2(TS_DT_f32, T, T),
             row = ts_tile_vector(TS_DT_f32, T);
  TsTileVal pa = ts_tile_param(k, "a", &ta, false), pb = ts_tile_param(k, "b", &tb, false);
  TsTileVal pc = ts_tile_param(k, "c", &tc, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileAccess edge = {.edge = true};
  TsTileVal zero = index_of(&b, 0);
  TsTileVal m =
      make(&b, TS_TILE_dim, 0, NULL, "index", ts_attr_int(0), ts_tile_scalar(TS_DT_i64));
  TsTileLoop i = ts_tile_for(&b, zero, m, T, true, 0, NULL);
  TsTileLoop j = ts_tile_for(&b, zero, index_of(&b, N), T, true, 0, NULL);
  TsTileVal acc = ts_tile_const(&b, 0, &t), done;
  TsTileLoop l = ts_tile_for(&b, zero, index_of(&b, K), T, false, 1, &acc);
  TsTileVal x = ts_tile_load(&b, pa, (TsTileVal[]){i.i, l.i}, &t, &edge);
  TsTileVal y = ts_tile_load(&b, pb, (TsTileVal[]){l.i, j.i}, &t, &edge);
  TsTileVal next = l.carry[0];
  for (int s = 0; s < T && outer; s++) {
    TsTileType column = type2(TS_DT_f32, T, 1), line = type2(TS_DT_f32, 1, T);
    TsTileVal c =
        make(&b, TS_TILE_part, 1, &x, "start", ts_attr_ints((int64_t[]){0, s}, 2), column);
    TsTileVal r =
        make(&b, TS_TILE_part, 1, &y, "start", ts_attr_ints((int64_t[]){s, 0}, 2), line);
    c = ts_tile_emit1(&b, TS_TILE_reshape, 1, &c, NULL, &row);
    r = ts_tile_emit1(&b, TS_TILE_reshape, 1, &r, NULL, &row);
    next = ts_tile_emit1(&b, TS_TILE_outer, 3, (TsTileVal[]){c, r, next}, NULL, &t);
  }
  if (!outer) next = ts_tile_emit1(&b, TS_TILE_mma, 3, (TsTileVal[]){x, y, next}, NULL, &t);
  ts_tile_for_end(&b, &l, &next, &done);
  ts_tile_store(&b, pc, (TsTileVal[]){i.i, j.i}, done, &edge);
  ts_tile_for_end(&b, &j, NULL, NULL);
  ts_tile_for_end(&b, &i, NULL, NULL);
  check(!run(k, (void *[]){a, b_, got}, (int64_t[]){M}), "tiled runs", outer, 0);
  int64_t bad = 0;
  for (int64_t p = 0; p < M; p++)
    for (int64_t q = 0; q < N; q++) {
      float c = 0;
      for (int64_t s = 0; s < K; s++) c = fmaf(a[p * K + s], b_[s * N + q], c);
      bad += c != got[p * N + q];
    }
  check(!bad, "tiled matmul", outer, bad);
}

/* ---- rows: softmax and layernorm as the VM's operators do them */
static TsTile *softmax_kernel(int64_t rows, int64_t n) {
  TsTile *k = ts_tile_new("softmax");
  if (!k) return NULL;
  TsTileType all = type2(TS_DT_f32, rows, n), t = ts_tile_vector(TS_DT_f32, n),
             one = ts_tile_scalar(TS_DT_f32);
  TsTileVal px = ts_tile_param(k, "x", &all, false), py = ts_tile_param(k, "y", &all, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileVal zero = index_of(&b, 0);
  TsTileLoop l = ts_tile_for(&b, zero, index_of(&b, rows), 1, true, 0, NULL);
  TsTileVal v = ts_tile_load(&b, px, (TsTileVal[]){l.i, zero}, &t, NULL);
  TsTileVal m = make(&b, TS_TILE_max, 1, &v, "axis", ts_attr_int(0), one);
  TsTileVal e = ts_tile_op1(&b, TS_OP_exp, ts_tile_op2(&b, TS_OP_sub, v, spread(&b, m, &t)));
  TsTileVal s = make(&b, TS_TILE_sum, 1, &e, "axis", ts_attr_int(0), one);
  TsTileVal r = ts_tile_op1(&b, TS_OP_reciprocal, s);
  v = ts_tile_op2(&b, TS_OP_mul, e, spread(&b, r, &t));
  ts_tile_store(&b, py, (TsTileVal[]){l.i, zero}, v, NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

static void softmax(int64_t n) {
  enum { M = 5 };
  TsTensor *x = tensor(TS_DT_f32, 2, (int64_t[]){M, n});
  float *at = ts_tensor_write(x), *got = calloc((size_t)(M * n), 4);
  fill(at, M * n);
  for (int64_t i = 0; i < M * n; i++) at[i] *= 20;
  TsTensor *want = ts_vm_call1(ctx, TS_OP_softmax, 1, &x, NULL);
  TsTile *k = softmax_kernel(M, n);
  check(!run(k, (void *[]){at, got}, NULL), "softmax runs", n, 0);
  check(differs(TS_DT_f32, M * n, ts_tensor_read(want), got) < 0, "softmax of the VM", n, 0);
  double worst = 0;
  for (int64_t i = 0; i < M; i++) {
    double sum = 0, most = -INFINITY;
    for (int64_t j = 0; j < n; j++) most = fmax(most, at[i * n + j]);
    for (int64_t j = 0; j < n; j++) sum += exp(at[i * n + j] - most);
    for (int64_t j = 0; j < n; j++)
      worst = fmax(worst, fabs(got[i * n + j] - exp(at[i * n + j] - most) / sum));
  }
  check(worst < 1e-6, "softmax in double", n, (int64_t)(worst * 1e9));
  free(got);
  ts_tensor_unref(x);
  ts_tensor_unref(want);
}

static void layernorm(int64_t n) {
  enum { M = 4 };
  TsTensor *in[3] = {tensor(TS_DT_f32, 2, (int64_t[]){M, n}), tensor(TS_DT_f32, 1, &n),
                     tensor(TS_DT_f32, 1, &n)};
  float *got = calloc((size_t)(M * n), 4);
  for (int i = 0; i < 3; i++) fill(ts_tensor_write(in[i]), ts_tensor_numel(in[i]));
  TsTensor *want = ts_vm_call1(ctx, TS_OP_layernorm, 3, in, NULL);
  TsTile *k = ts_tile_new("layernorm");
  TsTileType all = type2(TS_DT_f32, M, n), t = ts_tile_vector(TS_DT_f32, n),
             one = ts_tile_scalar(TS_DT_f32);
  TsTileVal px = ts_tile_param(k, "x", &all, false), pw = ts_tile_param(k, "w", &t, false);
  TsTileVal pb = ts_tile_param(k, "b", &t, false), py = ts_tile_param(k, "y", &all, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileVal zero = index_of(&b, 0), count = ts_tile_const(&b, (double)n, &one);
  TsTileLoop l = ts_tile_for(&b, zero, index_of(&b, M), 1, true, 0, NULL);
  TsTileVal x = ts_tile_load(&b, px, (TsTileVal[]){l.i, zero}, &t, NULL);
  TsTileVal s = make(&b, TS_TILE_sum, 1, &x, "axis", ts_attr_int(0), one);
  TsTileVal mean = ts_tile_op2(&b, TS_OP_div, s, count);
  TsTileVal d = ts_tile_op2(&b, TS_OP_sub, x, spread(&b, mean, &t));
  TsTileVal q = ts_tile_op1(&b, TS_OP_square, d);
  s = make(&b, TS_TILE_sum, 1, &q, "axis", ts_attr_int(0), one);
  TsTileVal var = ts_tile_op2(&b, TS_OP_div, s, count);
  var = ts_tile_op2(&b, TS_OP_add, var, ts_tile_const(&b, (double)1e-5f, &one));
  TsTileVal r = ts_tile_op1(&b, TS_OP_reciprocal, ts_tile_op1(&b, TS_OP_sqrt, var));
  TsTileVal v = ts_tile_op2(&b, TS_OP_mul, d, spread(&b, r, &t));
  v = ts_tile_op2(&b, TS_OP_mul, v, ts_tile_load(&b, pw, &zero, &t, NULL));
  v = ts_tile_op2(&b, TS_OP_add, v, ts_tile_load(&b, pb, &zero, &t, NULL));
  ts_tile_store(&b, py, (TsTileVal[]){l.i, zero}, v, NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  void *arg[4] = {ts_tensor_read(in[0]), ts_tensor_read(in[1]), ts_tensor_read(in[2]), got};
  check(!run(k, arg, NULL), "layernorm runs", n, 0);
  int64_t at = differs(TS_DT_f32, M * n, ts_tensor_read(want), got);
  check(at < 0, "layernorm of the VM", n, at);
  free(got);
  for (int i = 0; i < 3; i++) ts_tensor_unref(in[i]);
  ts_tensor_unref(want);
}

/* The explicit form of a sum: lanes in a carried tile, halves by parts. */
static void lanes(int64_t n) {
  TsTensor *x = tensor(TS_DT_f32, 1, &n);
  float *at = ts_tensor_write(x), got;
  fill(at, n);
  TsTensor *want = ts_vm_call1(ctx, TS_OP_sum, 1, &x, NULL);
  TsTile *k = ts_tile_new("lanes");
  k->form = TS_FORM_explicit;
  TsTileType all = ts_tile_vector(TS_DT_f32, n), t = ts_tile_vector(TS_DT_f32, 256),
             one = ts_tile_vector(TS_DT_f32, 1);
  TsTileVal px = ts_tile_param(k, "x", &all, false), py = ts_tile_param(k, "y", &one, true);
  TsTileBuild b = phase(k);
  TsTileAccess edge = {.edge = true, .fill = -0.0};
  TsTileVal zero = index_of(&b, 0), acc = ts_tile_const(&b, -0.0, &t);
  TsTileLoop l = ts_tile_for(&b, zero, index_of(&b, n), 256, false, 1, &acc);
  TsTileVal v = ts_tile_load(&b, px, &l.i, &t, &edge);
  v = ts_tile_op2(&b, TS_OP_add, l.carry[0], v);
  ts_tile_for_end(&b, &l, &v, &v);
  for (int64_t h = 128; h >= 1; h /= 2) {
    TsTileType half = ts_tile_vector(TS_DT_f32, h);
    TsTileVal lo =
        make(&b, TS_TILE_part, 1, &v, "start", ts_attr_ints((int64_t[]){0}, 1), half);
    TsTileVal hi =
        make(&b, TS_TILE_part, 1, &v, "start", ts_attr_ints((int64_t[]){h}, 1), half);
    v = ts_tile_op2(&b, TS_OP_add, lo, hi);
  }
  ts_tile_store(&b, py, &zero, v, NULL);
  check(!run(k, (void *[]){at, &got}, NULL), "lanes run", n, 0);
  check(differs(TS_DT_f32, 1, ts_tensor_read(want), &got) < 0, "lanes", n, 0);
  ts_tensor_unref(x);
  ts_tensor_unref(want);
}

/* ---- roles. y = 2 x, a producer copying pieces into two stages, a consumer behind. */
enum { PIECE = 64, PIECES = 7, STAGES = 2 };

typedef enum Flaw { RIGHT, NO_AWAIT, NO_RELEASE, TOO_MANY_BYTES } Flaw;

static TsTileBuild role(TsTileBuild *b, const char *name) {
  TsTileStmt *s = put(
      b, TS_TILE_role, 0, NULL, 2,
      (Set[]){{"name", {.type = TS_ATTR_str, .str = name}}, {"warps", ts_attr_int(1)}}, NULL);
  return (TsTileBuild){b->k, s->region[0], b->line};
}

typedef struct Stage {
  TsTileVal slot, parity; /* of the phase that is full; that it is empty is the other parity */
} Stage;

static Stage stage_of(TsTileBuild *b, TsTileVal i) {
  TsTileVal two = index_of(b, STAGES), half = ts_tile_op2(b, TS_OP_floordiv, i, two);
  return (Stage){ts_tile_op2(b, TS_OP_mod, i, two), ts_tile_op2(b, TS_OP_mod, half, two)};
}

static void produce(TsTileBuild b, TsTileVal x, TsTileVal s, TsTileVal full, TsTileVal empty,
                    Flaw flaw) {
  TsTileLoop l = ts_tile_for(&b, index_of(&b, 0), index_of(&b, PIECES), 1, false, 0, NULL);
  Stage at = stage_of(&b, l.i);
  TsTileVal zero = index_of(&b, 0), one = index_of(&b, 1);
  TsTileVal other = ts_tile_op2(&b, TS_OP_sub, one, at.parity);
  int64_t bytes = PIECE * 4 + (flaw == TOO_MANY_BYTES ? 4 : 0), shape = PIECE;
  b.line = ts_tile_place(b.k, "pipe.lua:11");
  ts_tile_emit(&b, TS_TILE_await, 3, (TsTileVal[]){empty, at.slot, other}, NULL, 0, NULL);
  put(&b, TS_TILE_expect, 2, (TsTileVal[]){full, at.slot}, 1,
      (Set[]){{"bytes", ts_attr_int(bytes)}}, NULL);
  TsTileVal start = ts_tile_op2(&b, TS_OP_mul, l.i, index_of(&b, PIECE));
  put(&b, TS_TILE_copy_bulk, 7, (TsTileVal[]){s, x, full, at.slot, at.slot, zero, start}, 1,
      (Set[]){{"shape", ts_attr_ints(&shape, 1)}}, NULL);
  ts_tile_emit(&b, TS_TILE_arrive, 2, (TsTileVal[]){full, at.slot}, NULL, 0, NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
}

static void consume(TsTileBuild b, TsTileVal y, TsTileVal s, TsTileVal full, TsTileVal empty,
                    Flaw flaw) {
  TsTileType t = ts_tile_vector(TS_DT_f32, PIECE);
  TsTileLoop l = ts_tile_for(&b, index_of(&b, 0), index_of(&b, PIECES), 1, false, 0, NULL);
  Stage at = stage_of(&b, l.i);
  TsTileVal zero = index_of(&b, 0);
  TsTileVal start = ts_tile_op2(&b, TS_OP_mul, l.i, index_of(&b, PIECE));
  b.line = ts_tile_place(b.k, "pipe.lua:22");
  if (flaw != NO_AWAIT)
    ts_tile_emit(&b, TS_TILE_await, 3, (TsTileVal[]){full, at.slot, at.parity}, NULL, 0, NULL);
  TsTileVal v = ts_tile_load(&b, s, (TsTileVal[]){at.slot, zero}, &t, NULL);
  if (flaw != NO_RELEASE)
    ts_tile_emit(&b, TS_TILE_arrive, 2, (TsTileVal[]){empty, at.slot}, NULL, 0, NULL);
  TsTileAccess edge = {.edge = true};
  ts_tile_store(&b, y, &start, ts_tile_op2(&b, TS_OP_add, v, v), &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
}

static void pipeline(Flaw flaw) {
  enum { N = PIECE * PIECES - 9 }; /* the last piece has an edge */
  static float x[N], y[N];
  fill(x, N);
  memset(y, 0, sizeof y);
  TsTile *k = ts_tile_new("pipe");
  k->target = "sm_90a";
  TsTileType all = ts_tile_vector(TS_DT_f32, N), shared = type2(TS_DT_f32, STAGES, PIECE);
  TsTileType bars = ts_tile_vector(TS_DT_i64, STAGES);
  bars.count = 1;
  TsTileVal px = ts_tile_param(k, "x", &all, false), py = ts_tile_param(k, "y", &all, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop grid = ts_tile_for(&b, index_of(&b, 0), index_of(&b, 1), 1, true, 0, NULL);
  TsTileVal s = ts_tile_alloc(&b, TS_SPACE_shared, &shared);
  TsTileVal full = ts_tile_alloc(&b, TS_SPACE_barrier, &bars);
  TsTileVal empty = ts_tile_alloc(&b, TS_SPACE_barrier, &bars);
  full->name = "full", empty->name = "empty";
  produce(role(&b, "load"), px, s, full, empty, flaw);
  consume(role(&b, "math"), py, s, full, empty, flaw);
  ts_tile_for_end(&b, &grid, NULL, NULL);
  int failed = run(k, (void *[]){x, y}, NULL);
  int64_t bad = 0;
  for (int64_t i = 0; i < N; i++) bad += y[i] != 2 * x[i];
  if (flaw == RIGHT) check(!failed && !bad, "pipeline", bad, 0);
  if (flaw == NO_AWAIT) check(bad || failed, "reading too early is seen", bad, failed);
  if (flaw == NO_RELEASE)
    check(failed && strstr(err.message, "deadlock: load waits for parity 0 of %empty slot 0 at "
                                        "pipe.lua:11; math waits for parity 1 of %full"),
          "deadlock", failed, bad);
  if (flaw == TOO_MANY_BYTES)
    check(failed &&
              strstr(err.message, "math waits for parity 0 of %full slot 0 at pipe.lua:22"),
          "bytes are counted", failed, bad);
}

/* One thread of control: groups of copies, `pending` of them left under way. */
static void groups(int64_t pending) {
  enum { N = 4 * PIECE };
  static float x[N], y[N];
  fill(x, N);
  memset(y, 0, sizeof y);
  TsTile *k = ts_tile_new("groups");
  k->target = "sm_90a";
  TsTileType all = ts_tile_vector(TS_DT_f32, N), t = ts_tile_vector(TS_DT_f32, PIECE);
  TsTileVal px = ts_tile_param(k, "x", &all, false), py = ts_tile_param(k, "y", &all, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop grid = ts_tile_for(&b, index_of(&b, 0), index_of(&b, 1), 1, true, 0, NULL);
  TsTileVal s[4], zero = index_of(&b, 0);
  for (int i = 0; i < 4; i++) {
    s[i] = ts_tile_alloc(&b, TS_SPACE_shared, &t);
    ts_tile_emit(&b, TS_TILE_copy_async, 3, (TsTileVal[]){s[i], px, index_of(&b, i * PIECE)},
                 NULL, 0, NULL);
    ts_tile_emit(&b, TS_TILE_commit, 0, NULL, NULL, 0, NULL);
  }
  put(&b, TS_TILE_wait, 0, NULL, 1, (Set[]){{"pending", ts_attr_int(pending)}}, NULL);
  for (int i = 0; i < 4; i++) {
    TsTileVal at = index_of(&b, i * PIECE);
    ts_tile_store(&b, py, &at, ts_tile_load(&b, s[i], &zero, &t, NULL), NULL);
  }
  ts_tile_for_end(&b, &grid, NULL, NULL);
  check(!run(k, (void *[]){x, y}, NULL), "groups run", pending, 0);
  int64_t here = 0;
  for (int64_t i = 0; i < N; i++) here += x[i] == y[i];
  check(here == N - pending * PIECE, "groups", pending, here);
}

/* Three roles meet at a named barrier; what the first two wrote is then there. */
static void meeting(bool all) {
  static int64_t y[3];
  TsTile *k = ts_tile_new("meeting");
  k->target = "sm_90a";
  TsTileType t = ts_tile_vector(TS_DT_i64, 3), one = ts_tile_scalar(TS_DT_i64);
  TsTileVal py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop grid = ts_tile_for(&b, index_of(&b, 0), index_of(&b, 2), 1, true, 0, NULL);
  TsTileVal s = ts_tile_alloc(&b, TS_SPACE_shared, &t);
  for (int i = 0; i < 3; i++) {
    TsTileBuild r = role(&b, (const char *[]){"a", "b", "c"}[i]);
    TsTileVal at = index_of(&r, i), last = index_of(&r, (i + 1) % 3);
    ts_tile_store(&r, s, &at, index_of(&r, 10 * i), NULL);
    if (all || i < 2)
      put(&r, TS_TILE_barrier, 0, NULL, 2,
          (Set[]){{"name", ts_attr_int(1)}, {"threads", ts_attr_int(96)}}, NULL);
    ts_tile_store(&r, py, &at, ts_tile_load(&r, s, &last, &one, NULL), NULL);
  }
  ts_tile_for_end(&b, &grid, NULL, NULL);
  int failed = run(k, (void *[]){y}, NULL);
  if (all)
    check(!failed && y[0] == 10 && y[1] == 20 && y[2] == 0, "meeting", y[0], y[1]);
  else
    check(failed && strstr(err.message, "a waits at barrier 1; b waits at barrier 1"),
          "one is missing", failed, 0);
}

/* ---- grids, control, moves */
static void grid(void) {
  int64_t y[3][2];
  TsTile *k = ts_tile_new("grid");
  k->target = "sm_90a";
  TsTileType t = type2(TS_DT_i64, 3, 2), one = ts_tile_scalar(TS_DT_i64);
  TsTileVal py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop i = ts_tile_for(&b, index_of(&b, 4), index_of(&b, 22), 8, true, 0, NULL);
  TsTileLoop j = ts_tile_for(&b, index_of(&b, 0), index_of(&b, 2), 1, true, 0, NULL);
  TsTileVal p = ts_tile_emit1(&b, TS_TILE_program, 0, NULL, NULL, &one);
  TsTileVal q = make(&b, TS_TILE_program, 0, NULL, "axis", ts_attr_int(1), one);
  TsTileVal v =
      ts_tile_op2(&b, TS_OP_add, i.i, ts_tile_op2(&b, TS_OP_mul, q, index_of(&b, 100)));
  ts_tile_store(&b, py, (TsTileVal[]){p, q}, v, NULL);
  ts_tile_for_end(&b, &j, NULL, NULL);
  ts_tile_for_end(&b, &i, NULL, NULL);
  int failed = run(k, (void *[]){y}, NULL), bad = 0;
  for (int r = 0; r < 3; r++)
    for (int c = 0; c < 2; c++) bad += y[r][c] != 4 + 8 * r + 100 * c;
  check(!failed && !bad, "grid", bad, y[2][1]);
}

/* Fibonacci by a yield that exchanges its carried values; an if that picks one. */
static void control(void) {
  int64_t y[2];
  TsTile *k = ts_tile_new("control");
  TsTileType t = ts_tile_vector(TS_DT_i64, 2), one = ts_tile_scalar(TS_DT_i64);
  TsTileVal py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = phase(k);
  TsTileVal zero = index_of(&b, 0), first = index_of(&b, 1), out[2];
  TsTileLoop l =
      ts_tile_for(&b, zero, index_of(&b, 10), 1, false, 2, (TsTileVal[]){zero, first});
  TsTileVal sum = ts_tile_op2(&b, TS_OP_add, l.carry[0], l.carry[1]);
  ts_tile_for_end(&b, &l, (TsTileVal[]){l.carry[1], sum}, out);
  TsTileVal c = ts_tile_op2(&b, TS_OP_lt, out[0], out[1]);
  TsTileStmt *s = ts_tile_emit(&b, TS_TILE_if, 1, &c, NULL, 1, &one);
  for (int i = 0; i < 2; i++) {
    TsTileBuild r = {k, s->region[i], 0};
    ts_tile_emit(&r, TS_TILE_yield, 1, &out[i], NULL, 0, NULL);
  }
  ts_tile_store(&b, py, &zero, out[1], NULL);
  ts_tile_store(&b, py, &first, s->out[0], NULL);
  check(!run(k, (void *[]){y}, NULL) && y[0] == 89 && y[1] == 55, "control", y[0], y[1]);
}

/* y[j, i] = x[3 - i, j] through iota, gather, transpose, join, scatter. */
static void moves(void) {
  static const int64_t order[4] = {3, 2, 1, 0};
  int32_t x[12], y[12], bad = 0;
  for (int i = 0; i < 12; i++) x[i] = i * i - 7, y[i] = -1;
  TsTile *k = ts_tile_new("moves");
  TsTileType flat = ts_tile_vector(TS_DT_i32, 12), t = type2(TS_DT_i32, 4, 3),
             u = type2(TS_DT_i32, 3, 4), line = type2(TS_DT_i32, 1, 3),
             at = ts_tile_vector(TS_DT_i64, 12);
  TsTileVal px = ts_tile_param(k, "x", &flat, false), py = ts_tile_param(k, "y", &flat, true);
  TsTileBuild b = phase(k);
  TsTileVal i = ts_tile_emit1(&b, TS_TILE_iota, 0, NULL, NULL, &at), row[4];
  TsTileVal v = ts_tile_emit1(&b, TS_TILE_gather, 2, (TsTileVal[]){px, i}, NULL, &flat);
  v = ts_tile_emit1(&b, TS_TILE_reshape, 1, &v, NULL, &t);
  for (int r = 0; r < 4; r++)
    row[r] =
        make(&b, TS_TILE_part, 1, &v, "start", ts_attr_ints((int64_t[]){order[r], 0}, 2), line);
  v = ts_tile_emit1(&b, TS_TILE_join, 4, row, NULL, &t);
  v = make(&b, TS_TILE_transpose, 1, &v, "perm", ts_attr_ints((int64_t[]){1, 0}, 2), u);
  v = ts_tile_emit1(&b, TS_TILE_reshape, 1, &v, NULL, &flat);
  ts_tile_emit(&b, TS_TILE_scatter, 3, (TsTileVal[]){py, i, v}, NULL, 0, NULL);
  int failed = run(k, (void *[]){x, y}, NULL);
  for (int r = 0; r < 4; r++)
    for (int c = 0; c < 3; c++) bad += y[c * 4 + r] != x[(3 - r) * 3 + c];
  check(!failed && !bad, "moves", bad, 0);
}

/* A tile of rank 1 along axis 0 of strided memory, with an edge on each side. */
static void edges(void) {
  float x[5][8], y[9];
  for (int i = 0; i < 40; i++) x[i / 8][i % 8] = (float)i;
  TsTile *k = ts_tile_new("edges");
  TsTileType mem = type2(TS_DT_f32, 5, 3), t = ts_tile_vector(TS_DT_f32, 9);
  mem.strided = true, mem.stride[0] = 8, mem.stride[1] = 2;
  TsTileVal px = ts_tile_param(k, "x", &mem, false), py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = phase(k);
  int64_t axis = 0;
  TsTileAccess edge = {.edge = true, .fill = -2, .naxis = 1, .axes = &axis};
  TsTileVal at[2] = {index_of(&b, -2), index_of(&b, 2)}, zero = index_of(&b, 0);
  ts_tile_store(&b, py, &zero, ts_tile_load(&b, px, at, &t, &edge), NULL);
  int failed = run(k, (void *[]){x, y}, NULL), bad = 0;
  for (int i = 0; i < 9; i++) bad += y[i] != (i < 2 || i > 6 ? -2 : x[i - 2][4]);
  check(!failed && !bad, "edges", bad, 0);
}

/* A tile of four rows from row 2 on that ends before row 5; lines of a row that is before its
 * end, and of one that is not. */
static void below(void) {
  float x[4][2], y[6][2] = {{0}};
  for (int i = 0; i < 8; i++) x[i / 2][i % 2] = (float)(i + 1);
  TsTile *k = ts_tile_new("below");
  TsTileType t = type2(TS_DT_f32, 4, 2), mem = type2(TS_DT_f32, 6, 2);
  TsTileVal px = ts_tile_param(k, "x", &t, false), py = ts_tile_param(k, "y", &mem, true);
  TsTileBuild b = phase(k);
  TsTileVal zero = index_of(&b, 0), two = index_of(&b, 2), five = index_of(&b, 5);
  TsTileVal v = ts_tile_load(&b, px, (TsTileVal[]){zero, zero}, &t, NULL);
  TsTileType line = ts_tile_vector(TS_DT_f32, 2);
  TsTileVal first = ts_tile_load(&b, px, (TsTileVal[]){zero, zero}, &line, NULL);
  TsTileVal in[3][5] = {{py, two, zero, five, v},
                        {py, five, zero, five, first},
                        {py, zero, zero, index_of(&b, 1), first}};
  for (int i = 0; i < 3; i++) ts_tile_emit(&b, TS_TILE_store_below, 5, in[i], NULL, 0, NULL);
  int failed = run(k, (void *[]){x, y}, NULL), bad = 0;
  for (int i = 0; i < 12; i++) {
    float want = i < 2 ? (float)(i + 1) : i >= 4 && i < 10 ? (float)(i - 3) : 0;
    bad += y[i / 2][i % 2] != want;
  }
  check(!failed && !bad, "below", bad, 0);
}

/* ---- refusals */
static void outside(void) {
  float x[8];
  TsTile *k = ts_tile_new("outside");
  TsTileType t = ts_tile_vector(TS_DT_f32, 8), half = ts_tile_vector(TS_DT_f32, 4);
  TsTileVal px = ts_tile_param(k, "x", &t, true);
  TsTileBuild b = phase(k);
  TsTileVal at = index_of(&b, 5);
  b.line = ts_tile_place(k, "model.lua:3");
  ts_tile_store(&b, px, &at, ts_tile_const(&b, 1, &half), NULL);
  int failed = run(k, (void *[]){x}, NULL);
  check(failed && err.code == TS_ERR_index && strstr(err.message, "position 8") &&
            strstr(err.message, "model.lua:3"),
        "outside", failed, 0);

  k = ts_tile_new("shift");
  b = phase(k);
  TsTileType i32 = ts_tile_scalar(TS_DT_i32);
  ts_tile_op2(&b, TS_TILE_shl, ts_tile_bits(&b, 1, &i32), ts_tile_bits(&b, 32, &i32));
  check(run(k, NULL, NULL) && strstr(err.message, "outside of [0, 32)"), "shift", 0, 0);
}

/* Memory of a round's own is NaN at first, whatever the round before wrote. */
static void fresh(void) {
  float y[2] = {0};
  TsTile *k = ts_tile_new("fresh");
  TsTileType t = ts_tile_vector(TS_DT_f32, 2), one = ts_tile_vector(TS_DT_f32, 1);
  TsTileVal py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileVal zero = index_of(&b, 0);
  TsTileLoop l = ts_tile_for(&b, zero, index_of(&b, 2), 1, true, 0, NULL);
  TsTileVal m = ts_tile_alloc(&b, TS_SPACE_local, &one);
  ts_tile_store(&b, py, &l.i, ts_tile_load(&b, m, &zero, &one, NULL), NULL);
  ts_tile_store(&b, m, &zero, ts_tile_const(&b, 1, &one), NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  check(!run(k, (void *[]){y}, NULL) && isnan(y[0]) && isnan(y[1]), "fresh memory", 0, 0);
}

/* Writing one position twice has no order, so it is refused. */
static void twice(void) {
  static int64_t y[4];
  TsTile *k = ts_tile_new("twice");
  TsTileType t = ts_tile_vector(TS_DT_i64, 4);
  TsTileVal py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = phase(k);
  TsTileVal one = ts_tile_const(&b, 1, &t);
  ts_tile_emit(&b, TS_TILE_scatter, 3, (TsTileVal[]){py, one, one}, NULL, 0, NULL);
  check(run(k, (void *[]){y}, NULL) && strstr(err.message, "position 1 comes twice"), "twice",
        0, 0);
}

/* Removing what is unused: a loop without effects goes, one with a store stays. */
static void dead(void) {
  float x[8] = {1}, y[8];
  TsTile *k = ts_tile_new("dead");
  TsTileType t = ts_tile_vector(TS_DT_f32, 8);
  TsTileVal px = ts_tile_param(k, "x", &t, false), py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = phase(k);
  TsTileVal zero = index_of(&b, 0), v = ts_tile_load(&b, px, &zero, &t, NULL), sum;
  TsTileLoop l = ts_tile_for(&b, zero, index_of(&b, 3), 1, false, 1, &v);
  sum = ts_tile_op2(&b, TS_OP_add, l.carry[0], v);
  ts_tile_for_end(&b, &l, &sum, NULL);
  ts_tile_op1(&b, TS_OP_neg, v);
  l = ts_tile_for(&b, zero, index_of(&b, 1), 1, false, 0, NULL);
  ts_tile_op1(&b, TS_OP_abs, v);
  ts_tile_store(&b, py, &l.i, v, NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  int gone = ts_tile_dce(k), left = 0;
  for (TsTileStmt *s = k->body->last->region[0]->first; s; s = s->next) left++;
  check(gone == 4 && left == 4 && ts_tile_dce(k) == 0, "dead statements", gone, left);
  check(!run(k, (void *[]){x, y}, NULL) && !memcmp(x, y, sizeof x), "dead runs", 0, 0);
}

/* Equal statements: one of two sums goes, and what asks for it asks for the other; not what a
 * region beside this one made, nor loads. */
static void equal(void) {
  float x[8] = {1, 2}, y[8];
  TsTile *k = ts_tile_new("equal");
  TsTileType t = ts_tile_vector(TS_DT_f32, 8);
  TsTileVal px = ts_tile_param(k, "x", &t, false), py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = phase(k);
  TsTileVal zero = index_of(&b, 0), v = ts_tile_load(&b, px, &zero, &t, NULL), s[2];
  TsTileVal again = ts_tile_load(&b, px, &zero, &t, NULL);
  for (int i = 0; i < 2; i++) s[i] = ts_tile_op2(&b, TS_OP_add, v, again);
  TsTileVal twice = ts_tile_op2(&b, TS_OP_mul, s[0], s[1]);
  TsTileLoop l = ts_tile_for(&b, zero, index_of(&b, 1), 1, false, 0, NULL);
  ts_tile_store(&b, py, &zero, ts_tile_op2(&b, TS_OP_mul, s[1], s[0]), NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  ts_tile_store(&b, py, &zero, ts_tile_op2(&b, TS_OP_mul, s[0], s[0]), NULL);
  int gone = ts_tile_cse(k), left = ts_tile_cse(k);
  check(gone >= 3 && left == 0, "equal statements", gone, left);
  check(twice->stmt->in[0] == twice->stmt->in[1] && v != again, "one sum", 0, 0);
  check(!run(k, (void *[]){x, y}, NULL) && y[0] == 4 && y[1] == 16, "equal runs", 0, 0);
}

/* Memory that runs out at the n-th allocation: an error, and nothing leaks. */
static void starved(void) {
  static float x[3 * 700], y[3 * 700];
  long n = 0;
  for (int failed = -1; failed; n++) {
    until = n;
    TsTile *k = softmax_kernel(3, 700);
    err.code = TS_OK;
    bool built = k && !k->failed;
    failed = k ? run_any(k, (void *[]){x, y}, NULL) : -1;
    until = -1;
    check(!failed || !built || err.code == TS_ERR_memory, "out of memory", n, failed);
  }
  check(n > 8, "allocations", n, 0);
}

int main(void) {
  ctx = ts_context_open();
  if (!ctx) return 1;
  reductions();
  pairs();
  products();
  tiled(false), tiled(true);
  for (int64_t n = 1; n < 10000; n = n * 3 + 1) softmax(n), layernorm(n);
  for (int64_t n = 256; n <= 4096; n += 480) lanes(n);
  for (int flaw = RIGHT; flaw <= TOO_MANY_BYTES; flaw++) pipeline((Flaw)flaw);
  for (int64_t pending = 0; pending < 4; pending++) groups(pending);
  meeting(true), meeting(false);
  grid();
  control();
  moves();
  edges();
  below();
  outside();
  twice();
  fresh();
  dead();
  equal();
  starved();
  ts_context_close(ctx);
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}
