/* Every pointwise row: its expansion into primitive rows, run by the interpreter of Tile IR,
 * against the VM's operator, bit for bit (NaN is one value), on special and random values of
 * every type that the row takes. And every conversion. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/tile.h"
#include "vm/core/vm.h"

enum { SIDE = 48, N = SIDE * SIDE + 1600, CHUNK = 300 };

static int failures, checks;
static TsContext *ctx;
static uint64_t seed = 88172645463325252u;

static uint64_t rnd(void) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return seed * 2685821657736338717u;
}

/* ---- values */
static const double special[] = {0,
                                 -0.0,
                                 1,
                                 -1,
                                 0.5,
                                 -0.5,
                                 2,
                                 -2,
                                 3,
                                 -3,
                                 1.5,
                                 2.5,
                                 -2.5,
                                 INFINITY,
                                 -INFINITY,
                                 NAN,
                                 0x1p-149,
                                 -0x1p-149,
                                 0x1p-126,
                                 0x1p-1074,
                                 0x1p-1022,
                                 0x1.fffffep127,
                                 -0x1.fffffep127,
                                 0x1.fffffffffffffp1023,
                                 0x1p24,
                                 0x1p53,
                                 1e-5,
                                 -1e-5,
                                 0.1,
                                 7,
                                 -7,
                                 88,
                                 -88,
                                 710,
                                 -745,
                                 1e10,
                                 -1e10,
                                 1e30,
                                 1e-30,
                                 0x1.921fb6p1,
                                 0x1p31,
                                 -0x1p31,
                                 0x1p63,
                                 127,
                                 255,
                                 1 - 0x1p-24,
                                 1 + 0x1p-23,
                                 -0x1p-60};
static const int64_t whole[] = {0,
                                1,
                                -1,
                                2,
                                -2,
                                3,
                                7,
                                8,
                                -8,
                                31,
                                32,
                                63,
                                64,
                                127,
                                128,
                                -128,
                                255,
                                -129,
                                32767,
                                -32768,
                                65535,
                                1000000,
                                INT32_MAX,
                                INT32_MIN,
                                UINT32_MAX,
                                INT64_MAX,
                                INT64_MIN,
                                INT64_MAX - 1,
                                INT64_MIN + 1,
                                16,
                                5,
                                -5,
                                10,
                                -10,
                                100,
                                46341};

static int64_t size_of(TsDtype d) { return ts_dtypes[d].nbytes; }

/* A number of magnitude e^+-10, or any bits. */
static void random_float(TsDtype d, void *at) {
  uint64_t bits = rnd();
  double x = ldexp((double)(int64_t)rnd(), -63) * exp((double)(rnd() % 200) / 10 - 10);
  float f = (float)x;
  if (rnd() % 3 == 0)
    memcpy(at, &bits, (size_t)size_of(d));
  else if (d == TS_DT_f32)
    memcpy(at, &f, 4);
  else
    memcpy(at, &x, 8);
}

static void put(TsDtype d, void *at, int64_t i) {
  bool real = ts_dtype_is(d, TS_KIND_F);
  if (d == TS_DT_bool) {
    *(uint8_t *)at = i & 1;
  } else if (i < 0 || i >= SIDE) {
    uint64_t bits = rnd() >> (rnd() % 8 * 8);
    if (rnd() & 1) bits = 0 - bits;
    if (real)
      random_float(d, at);
    else
      memcpy(at, &bits, (size_t)size_of(d));
  } else if (d == TS_DT_f64) {
    memcpy(at, &special[i], 8);
  } else if (d == TS_DT_f32) {
    float f = (float)special[i];
    memcpy(at, &f, 4);
  } else {
    memcpy(at, &whole[i % (int)(sizeof whole / sizeof *whole)], (size_t)size_of(d));
  }
}

/* All pairs of special values in the first two inputs, then random ones. */
static TsTensor *input(TsDtype d, int which) {
  TsMeta m = {.dtype = (uint8_t)d, .ndim = 1, .dim = {N}};
  TsTensor *t = ts_tensor_new(ctx, &m);
  char *at = ts_tensor_write(t);
  for (int64_t i = 0; i < N; i++) {
    int64_t s = which == 0 ? i % SIDE : which == 1 ? i / SIDE : (int64_t)(rnd() % (2 * SIDE));
    if (i >= SIDE * SIDE) s = d == TS_DT_bool ? (int64_t)(rnd() & 1) : -1;
    put(d, at + i * size_of(d), s);
  }
  return t;
}

static bool is_nan(TsDtype d, const char *at) {
  float f;
  double g;
  memcpy(&f, at, 4);
  if (d == TS_DT_f32) return f != f;
  if (d != TS_DT_f64) return false;
  memcpy(&g, at, 8);
  return g != g;
}

static bool same(TsDtype d, const char *a, const char *b) {
  return !memcmp(a, b, (size_t)size_of(d)) || (is_nan(d, a) && is_nan(d, b));
}

/* ---- one row as a kernel: y[i] = op(x[i], ..) in tiles of CHUNK elements */
typedef struct Case {
  TsOp op;
  TsDtype type, out;
  int nin, npar;
  double par[2];
} Case;

static TsDtype type_of(const Case *c, int i) {
  return c->op == TS_OP_where && i == 0 ? TS_DT_bool : c->type;
}

static TsTile *kernel(const Case *c) {
  TsTile *k = ts_tile_new(ts_op_info(c->op)->name);
  TsTileType all = ts_tile_vector(c->type, N), t = ts_tile_vector(c->type, CHUNK);
  TsTileVal memory[4], v[5];
  for (int i = 0; i < c->nin; i++) {
    all.dtype = (uint8_t)type_of(c, i);
    memory[i] = ts_tile_param(k, "x", &all, false);
  }
  all.dtype = (uint8_t)c->out;
  TsTileVal y = ts_tile_param(k, "y", &all, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileAccess edge = {.edge = true};
  TsTileLoop l =
      ts_tile_for(&b, ts_tile_index(&b, 0), ts_tile_index(&b, N), CHUNK, true, 0, NULL);
  for (int i = 0; i < c->nin; i++) v[i] = ts_tile_load(&b, memory[i], &l.i, &t, &edge);
  for (int i = 0; i < c->npar; i++) v[c->nin + i] = ts_tile_const(&b, c->par[i], &t);
  int n = c->nin + c->npar;
  TsTileVal r = n == 1   ? ts_tile_op1(&b, c->op, v[0])
                : n == 2 ? ts_tile_op2(&b, c->op, v[0], v[1])
                         : ts_tile_op3(&b, c->op, v[0], v[1], v[2]);
  ts_tile_store(&b, y, &l.i, r, &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

static int fail(const Case *c, const char *what) {
  failures++;
  printf("%s %s: %s\n", ts_op_info(c->op)->name, ts_dtype_name(c->type), what);
  return -1;
}

static bool all_primitive(const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    TsTileVal t = s->nin ? s->in[s->op == TS_OP_where ? 1 : 0] : NULL;
    if (t && !ts_tile_primitive(s->op, t->type.dtype)) return false;
    for (int i = 0; i < s->nregion; i++)
      if (!all_primitive(s->region[i])) return false;
  }
  return true;
}

static void compare(const Case *c, TsTensor *const *in, TsTensor *want, const char *got) {
  const char *w = ts_tensor_read(want);
  int64_t size = size_of(c->out);
  for (int64_t i = 0; i < N; i++) {
    if (same(c->out, w + i * size, got + i * size)) continue;
    fail(c, "differs from the VM");
    for (int j = 0; j < c->nin; j++) printf("  in %.17g\n", ts_tensor_get(in[j], i));
    uint64_t a = 0, b = 0;
    memcpy(&a, w + i * size, (size_t)size);
    memcpy(&b, got + i * size, (size_t)size);
    printf("  %llx expected, %llx\n", (unsigned long long)a, (unsigned long long)b);
    return;
  }
}

static void run(Case *c) {
  TsTensor *in[3] = {0};
  TsAttr attr[TS_MAX_ATTR];
  TsError err = {0};
  ts_op_defaults(c->op, attr);
  for (int i = 0; i < c->npar; i++) attr[i] = ts_attr_f(c->par[i]);
  for (int i = 0; i < c->nin; i++) in[i] = input(type_of(c, i), i);
  TsTensor *want = ts_vm_call1(ctx, c->op, c->nin, in, attr);
  if (!want) {
    fail(c, ctx->err.message);
  } else {
    c->out = ts_tensor_dtype(want);
    TsTile *k = kernel(c), *expanded = k->failed ? NULL : ts_tile_expand(k, &err);
    char *got = calloc(N, (size_t)size_of(c->out));
    void *arg[4] = {0};
    for (int i = 0; i < c->nin; i++) arg[i] = ts_tensor_read(in[i]);
    arg[c->nin] = got;
    checks++;
    if (!expanded || !all_primitive(expanded->body) || ts_tile_check(k, NULL, &err) ||
        ts_tile_check(expanded, NULL, &err))
      fail(c, err.message);
    else if (ts_tile_run(k, arg, NULL, &err))
      fail(c, err.message);
    else
      compare(c, in, want, got);
    free(got);
    ts_tile_free(k);
    ts_tile_free(expanded);
    ts_tensor_unref(want);
  }
  for (int i = 0; i < c->nin; i++) ts_tensor_unref(in[i]);
}

static void rows(void) {
  static const TsDtype types[] = {TS_DT_f32, TS_DT_f64, TS_DT_i32, TS_DT_i64,
                                  TS_DT_u8,  TS_DT_i8,  TS_DT_i16, TS_DT_bool};
  for (int op = 0; op < TS_OP_COUNT; op++) {
    const TsOpInfo *o = ts_op_info((TsOp)op);
    if (o->cls != TS_CLASS_POINTWISE || op == TS_OP_complex) continue;
    for (int t = 0; t < (int)(sizeof types / sizeof *types); t++) {
      static const double par[][2] = {{-1.5, 2.25}, {3, -3}, {1, 100}, {-0.0, INFINITY}};
      if (!ts_dtype_is(types[t], o->types)) continue;
      for (int p = 0; p < (o->npar ? 4 : 1); p++) {
        Case c = {.op = (TsOp)op, .type = types[t], .nin = o->nin, .npar = o->npar};
        memcpy(c.par, par[p], sizeof c.par);
        if (op == TS_OP_softplus) c.par[0] = c.par[0] ? fabs(c.par[0]) : 0.5; /* above 0 */
        bool real = ts_dtype_is(c.type, TS_KIND_F);
        if (!real && o->npar) c.par[0] = p, c.par[1] = p == 1 ? -2 : 100;
        if (!real && o->npar && c.type == TS_DT_u8 && p == 1) c.par[1] = 0;
        run(&c);
      }
    }
  }
}

/* ---- what is refused, and what is not kept */
static void refused(void) {
  TsDtype bad[] = {TS_DT_complex64, TS_DT_bf16};
  for (int i = 0; i < 2; i++) {
    TsError err = {0};
    TsTile *k = ts_tile_new("bad");
    TsTileType t = ts_tile_vector(bad[i], 4);
    TsTileVal x = ts_tile_param(k, "x", &t, false), y = ts_tile_param(k, "y", &t, true);
    TsTileBuild b = ts_tile_build(k);
    TsTileVal zero = ts_tile_index(&b, 0);
    b.line = ts_tile_place(k, "model.lua:7");
    ts_tile_store(&b, y, &zero,
                  ts_tile_op1(&b, TS_OP_exp, ts_tile_load(&b, x, &zero, &t, NULL)), NULL);
    TsTile *e = ts_tile_expand(k, &err);
    checks++;
    if (e || err.code != TS_ERR_dtype || !strstr(err.message, "model.lua:7"))
      failures++, printf("not refused: %s: %s\n", ts_dtype_name(bad[i]), err.message);
    ts_tile_free(e);
    ts_tile_free(k);
  }
}

static int count(const TsTileRegion *r, int op) {
  int n = 0;
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    n += op < 0 || s->op == op;
    for (int i = 0; i < s->nregion; i++) n += count(s->region[i], op);
  }
  return n;
}

/* exp is some twenty operations and a constant is made once; names and places stay. */
static void small(void) {
  TsError err = {0};
  Case c = {.op = TS_OP_exp, .type = TS_DT_f32, .out = TS_DT_f32, .nin = 1};
  TsTile *k = kernel(&c);
  k->body->last->region[0]->last->prev->out[0]->name = "e";
  TsTile *e = ts_tile_expand(k, &err), *again = e ? ts_tile_expand(e, &err) : NULL;
  checks++;
  if (!e || !again) {
    failures++, printf("exp: %s\n", err.message);
    return;
  }
  const TsTileRegion *body = e->body->last->region[0];
  int n = count(body, -1), constants = count(body, TS_TILE_const) + count(body, TS_TILE_bits);
  if (n > 60 || constants > 20)
    failures++, printf("exp takes %d, %d constants\n", n, constants);
  if (count(again->body, -1) != count(e->body, -1))
    failures++, printf("expanding twice differs\n");
  const char *name = body->last->in[body->last->nin - 1]->name;
  if (!name || strcmp(name, "e")) failures++, printf("the result lost its name\n");
  ts_tile_free(again);
  ts_tile_free(e);
  ts_tile_free(k);
}

/* A constant that one branch has made is not there for what follows. */
static void regions(bool taken) {
  float x[4] = {0.5f, 1, -2, 3}, y[4], in_branch[4];
  TsError err = {0};
  TsTile *k = ts_tile_new("regions");
  TsTileType t = ts_tile_vector(TS_DT_f32, 4), truth = ts_tile_scalar(TS_DT_bool);
  TsTileVal px = ts_tile_param(k, "x", &t, false), py = ts_tile_param(k, "y", &t, true),
            pz = ts_tile_param(k, "z", &t, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileVal zero = ts_tile_index(&b, 0), v = ts_tile_load(&b, px, &zero, &t, NULL);
  TsTileVal c = ts_tile_const(&b, taken, &truth), e;
  TsTileStmt *s = ts_tile_emit(&b, TS_TILE_if, 1, &c, NULL, 1, &t);
  for (int i = 0; i < 2; i++) {
    TsTileBuild r = {k, s->region[i], 0};
    e = i ? v : ts_tile_op1(&r, TS_OP_exp, v);
    ts_tile_emit(&r, TS_TILE_yield, 1, &e, NULL, 0, NULL);
  }
  ts_tile_store(&b, py, &zero, ts_tile_op1(&b, TS_OP_exp, v), NULL);
  ts_tile_store(&b, pz, &zero, s->out[0], NULL);
  int failed = ts_tile_run(k, (void *[]){x, y, in_branch}, NULL, &err);
  checks++;
  for (int i = 0; i < 4; i++)
    failed |= fabs(y[i] - exp(x[i])) > 1e-5 || in_branch[i] != (taken ? y[i] : x[i]);
  if (failed) failures++, printf("exp beside a branch: %s\n", err.message);
  ts_tile_free(k);
}

/* ---- conversions of every pair */
static void cast(TsDtype from, TsDtype to) {
  TsTile *k = ts_tile_new("cast");
  TsTileType t = ts_tile_vector(from, N), u = ts_tile_vector(to, N);
  TsTileVal x = ts_tile_param(k, "x", &t, false), y = ts_tile_param(k, "y", &u, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileVal zero = ts_tile_index(&b, 0);
  ts_tile_store(&b, y, &zero, ts_tile_cast(&b, ts_tile_load(&b, x, &zero, &t, NULL), to), NULL);

  TsMeta m = {.dtype = (uint8_t)from, .ndim = 1, .dim = {N}};
  TsTensor *in = ts_tensor_new(ctx, &m);
  char *at = ts_tensor_write(in), *got = calloc(N, 8);
  for (int64_t i = 0; i < N; i++) {
    uint64_t bits = rnd();
    if (from == TS_DT_bool)
      at[i] = (char)(bits & 1);
    else if (size_of(from) >= 4)
      put(from, at + i * size_of(from), i < SIDE ? i : -1);
    else
      memcpy(at + i * size_of(from), &bits, (size_t)size_of(from));
  }
  TsTensor *want = ts_tensor_cast(ctx, in, to);
  TsError err = {0};
  checks++;
  if (ts_tile_run(k, (void *[]){at, got}, NULL, &err)) failures++, printf("%s\n", err.message);
  const char *w = ts_tensor_read(want);
  for (int64_t i = 0; i < N; i++) {
    if (same(to, w + i * size_of(to), got + i * size_of(to))) continue;
    failures++, printf("cast %s to %s: differs at %lld\n", ts_dtype_name(from),
                       ts_dtype_name(to), (long long)i);
    break;
  }
  free(got);
  ts_tensor_unref(in);
  ts_tensor_unref(want);
  ts_tile_free(k);
}

static void casts(void) {
  const int kinds = TS_KIND_B | TS_KIND_U | TS_KIND_I | TS_KIND_F;
  for (int from = 0; from < TS_DT_COUNT; from++)
    for (int to = 0; to < TS_DT_COUNT; to++)
      if (ts_dtype_is((TsDtype)from, kinds) && ts_dtype_is((TsDtype)to, kinds))
        cast((TsDtype)from, (TsDtype)to);
}

int main(void) {
  ctx = ts_context_open();
  if (!ctx) return 1;
  rows();
  casts();
  refused();
  small();
  regions(true), regions(false);
  ts_context_close(ctx);
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}
