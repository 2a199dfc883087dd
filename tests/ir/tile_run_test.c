/* The interpreter of Tile IR: reductions, products and row kernels against the VM's operators,
 * bit for bit; memory that runs out. */
#include "tests/ir/failing.h"
#include "tests/ir/tile_run.h"

static TsContext *ctx;

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
  starved();
  ts_context_close(ctx);
  return told();
}
