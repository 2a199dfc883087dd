/* rope and rope_grad on a device: cosines and sines of all positions, then the turns. The
 * frequencies, which take a power in the VM's own way, are made by the host, once for the same
 * attributes. */
#include "jit/eager/family/own.h"

#include <stdlib.h>
#include <string.h>

#include "ir/text/value.h"
#include "vm/drive/rope.h"

typedef TsTileVal V;

enum { OFFSET = 2, INTERLEAVED = 3, ATTRS = 10, KEPT = 4, PIECE = 256, ROWS = 16 };

typedef struct Rope {
  TsOp op;
  TsDtype d, wide, positions; /* of x; of the tables; of the positions, if they are given */
  bool given, neighbours, back;
  int64_t n, half;
  double concentration;
} Rope;

/* ---- tables: sizes half * positions, positions, offset */
static V position_of(TsTileBuild *b, V given, V row) {
  if (given) return ts_tile_cast(b, ts_short_gather(b, given, row, true), TS_DT_f64);
  V offset = ts_short_splat(b, &row->type, ts_short_dim(b, 2));
  return ts_tile_cast(b, ts_tile_op2(b, TS_OP_add, row, offset), TS_DT_f64);
}

static V table(TsTileBuild *b, const Rope *r, int op, V angle) {
  double factor = r->back && op == TS_OP_sin ? -r->concentration : r->concentration;
  V x = ts_tile_op1(b, op, angle);
  if (!x) return NULL;
  return ts_tile_cast(b, ts_tile_op2(b, TS_OP_mul, x, ts_tile_const(b, factor, &x->type)),
                      r->wide);
}

static V param(TsTile *k, const char *name, TsDtype d, int64_t n, bool written) {
  TsTileType t = ts_tile_vector(d, n);
  return ts_tile_param(k, name, &t, written);
}

static TsTile *build_tables(const void *arg) {
  const Rope *r = arg;
  TsTile *k = ts_tile_new("rope_tables");
  if (!k) return NULL;
  int64_t all = ts_tile_size(k, "all"), n = ts_tile_size(k, "positions");
  ts_tile_size(k, "offset");
  V f = param(k, "frequency", TS_DT_f64, r->half, false);
  V p = r->given ? param(k, "position", r->positions, n, false) : NULL;
  V cos = param(k, "cos", r->wide, all, true), sin = param(k, "sin", r->wide, all, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE);
  TsTileAccess edge = {.edge = true};
  TsTileLoop l = ts_tile_for(&b, ts_tile_index(&b, 0), ts_short_dim(&b, 0), PIECE, true, 0, NULL);
  V e = ts_tile_op2(&b, TS_OP_add, ts_short_iota(&b, &t, 0), ts_short_splat(&b, &t, l.i));
  V own = ts_short_gather(&b, f, ts_short_by(&b, TS_OP_mod, e, r->half), true);
  V at = position_of(&b, p, ts_short_by(&b, TS_OP_floordiv, e, r->half));
  V angle = ts_tile_op2(&b, TS_OP_mul, at, own);
  ts_tile_store(&b, cos, &l.i, table(&b, r, TS_OP_cos, angle), &edge);
  ts_tile_store(&b, sin, &l.i, table(&b, r, TS_OP_sin, angle), &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

/* ---- turns: x [outer, S, n], tables [batches, S, half]; sizes outer, S, batches, and how many
 * of `outer` share a batch's tables */
typedef struct Turn {
  const Rope *r;
  TsTileBuild b;
  V x, y, cos, sin;
  V outer, row, batch;
} Turn;

static V side(Turn *m, V memory, int which, V x) {
  static const int64_t axes[2] = {1, 2};
  const Rope *r = m->r;
  TsTileBuild *b = &m->b;
  int64_t dim[2] = {ROWS, r->half};
  TsTileType t = ts_tile_type(r->d, 2, dim);
  TsTileAccess a = {.edge = true, .naxis = 2, .axes = axes};
  V zero = ts_tile_index(b, 0), at[4] = {m->outer, m->row, zero, ts_tile_index(b, which)};
  if (!r->neighbours) at[2] = ts_tile_index(b, which * r->half);
  if (!x) return ts_tile_cast(b, ts_tile_load(b, memory, at, &t, &a), r->wide);
  ts_tile_store(b, memory, at, ts_tile_cast(b, x, r->d), &a);
  return NULL;
}

static V turned_by(Turn *m, V memory) {
  int64_t dim[2] = {ROWS, m->r->half};
  TsTileType t = ts_tile_type(m->r->wide, 2, dim);
  TsTileAccess edge = {.edge = true};
  V at[3] = {m->batch, m->row, ts_tile_index(&m->b, 0)};
  return ts_tile_load(&m->b, memory, at, &t, &edge);
}

static void put_turn(Turn *m) {
  TsTileBuild *b = &m->b;
  const Rope *r = m->r;
  V cos = turned_by(m, m->cos), sin = turned_by(m, m->sin);
  V x = side(m, m->x, 0, NULL), y = side(m, m->x, 1, NULL);
  V less = ts_tile_op1(b, TS_OP_neg, ts_tile_op2(b, TS_OP_mul, y, sin));
  side(m, m->y, 0, ts_tile_op3(b, TS_OP_fma, x, cos, less));
  side(m, m->y, 1, ts_tile_op3(b, TS_OP_fma, y, cos, ts_tile_op2(b, TS_OP_mul, x, sin)));
  int64_t dim[2] = {ROWS, r->n - 2 * r->half};
  if (!dim[1]) return; /* what is not turned */
  TsTileType t = ts_tile_type(r->d, 2, dim);
  TsTileAccess edge = {.edge = true};
  V at[3] = {m->outer, m->row, ts_tile_index(b, 2 * r->half)};
  ts_tile_store(b, m->y, at, ts_tile_load(b, m->x, at, &t, &edge), &edge);
}

static TsTile *build(const void *arg) {
  const Rope *r = arg;
  TsTile *k = ts_tile_new(ts_op_info(r->op)->name);
  if (!k) return NULL;
  Turn m = {.r = r};
  int64_t outer = ts_tile_size(k, "outer"), s = ts_tile_size(k, "S");
  int64_t batches = ts_tile_size(k, "batches");
  ts_tile_size(k, "each");
  int64_t dim[4] = {outer, s, r->neighbours ? r->n / 2 : r->n, 2},
          own[3] = {batches, s, r->half};
  TsTileType x = ts_tile_type(r->d, r->neighbours ? 4 : 3, dim);
  TsTileType table = ts_tile_type(r->wide, 3, own);
  m.x = ts_tile_param(k, "x", &x, false);
  m.cos = ts_tile_param(k, "cos", &table, false),
  m.sin = ts_tile_param(k, "sin", &table, false);
  m.y = ts_tile_param(k, "y", &x, true);
  m.b = ts_tile_build(k);
  TsTileBuild *b = &m.b;
  TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), ts_short_dim(b, 0), 1, true, 0, NULL);
  TsTileLoop i = ts_tile_for(b, ts_tile_index(b, 0), ts_short_dim(b, 1), ROWS, true, 0, NULL);
  m.outer = l.i, m.row = i.i;
  m.batch = ts_tile_op2(b, TS_OP_floordiv, l.i, ts_short_dim(b, 3));
  put_turn(&m);
  ts_tile_for_end(b, &i, NULL, NULL);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* ---- frequencies */
typedef struct TsRopeKept {
  int n;
  TsAttr attr[KEPT][ATTRS];
  int64_t row[KEPT]; /* of x: dims may follow from it */
  TsTensor *f[KEPT];
  double concentration[KEPT];
} Kept;

void ts_offload_rope_flush(TsOffloader *o) {
  Kept *k = o->rope;
  o->rope = NULL;
  for (int i = 0; k && i < KEPT; i++) ts_tensor_unref(k->f[i]);
  free(k);
}

static bool same(const TsAttr *x, const TsAttr *y) {
  for (int i = 0; i < ATTRS; i++)
    if (i != OFFSET && i != INTERLEAVED && !ts_attr_same(&x[i], &y[i])) return false;
  return true;
}

/* A tensor of the host, which the device copies when it first reads it. */
static TsTensor *frequencies(TsOffloader *o, TsCall *call, Rope *r, const TsRope *of) {
  Kept *k = o->rope ? o->rope : (o->rope = calloc(1, sizeof *k));
  TsMeta m = {.dtype = TS_DT_f64, .ndim = 1, .dim = {of->half}};
  if (!k) return ts_error_memory(&o->c->err), NULL;
  r->concentration = of->concentration;
  for (int i = 0; i < KEPT; i++)
    if (k->f[i] && k->row[i] == r->n && same(k->attr[i], call->attr)) return k->f[i];
  int i = k->n++ % KEPT;
  ts_tensor_unref(k->f[i]);
  k->f[i] = ts_tensor_new(o->c, &m);
  double *at = k->f[i] ? ts_tensor_write(k->f[i]) : NULL;
  if (!at) return NULL;
  memcpy(at, of->frequency, sizeof *at * (size_t)of->half);
  memcpy(k->attr[i], call->attr, sizeof k->attr[i]);
  k->row[i] = r->n;
  return k->f[i];
}

/* ---- calls */
static TsTensor *room(const TsCall *call, int device, TsDtype d, int64_t n) {
  TsMeta m = {.dtype = (uint8_t)d, .ndim = 1, .device = (uint8_t)device, .dim = {n}};
  return ts_tensor_new(call->ctx, &m);
}

static void words(TsOwn *k, const Rope *r, int which) {
  int64_t c;
  memcpy(&c, &r->concentration, 8);
  ts_own_word(k, which);
  ts_own_word(k, r->d | r->wide << 8 | r->positions << 16);
  ts_own_word(k, r->given | r->neighbours << 1 | r->back << 2);
  ts_own_word(k, r->n), ts_own_word(k, r->half), ts_own_word(k, c);
}

static int turn(TsOffloader *o, TsCall *call, int device, const Rope *r, TsTensor *x,
                TsTensor *const *table, int64_t batches) {
  const TsMeta *m = &x->meta;
  int64_t s = m->dim[m->ndim - 2], outer = ts_tensor_numel(x) / (s * r->n);
  TsOwn k = {.build = build, .arg = r, .nin = 3, .nout = 1, .ndim = 4};
  k.in[0] = x, k.in[1] = table[0], k.in[2] = table[1], k.out[0] = call->out[0];
  k.dim[0] = outer, k.dim[1] = s, k.dim[2] = batches, k.dim[3] = outer / batches;
  words(&k, r, 1);
  return ts_own_run(o, call, device, &k);
}

static int run(TsOffloader *o, TsCall *call, int device, Rope *r, const TsRope *of) {
  TsTensor *p = call->nin > 1 ? call->in[1] : NULL, *f = frequencies(o, call, r, of);
  const TsMeta *m = &call->in[0]->meta;
  int64_t s = m->dim[m->ndim - 2], n = p ? ts_tensor_numel(p) : s, all = n * of->half;
  TsTensor *table[2] = {room(call, device, r->wide, all), room(call, device, r->wide, all)};
  TsTensor *x = ts_own_ready(call, call->in[0]), *at = p ? ts_own_ready(call, p) : NULL;
  int done = f && table[0] && table[1] && x && (at || !p) ? 1 : -1;
  if (done == 1) {
    TsOwn k = {
        .build = build_tables, .arg = r, .nout = 2, .out = {table[0], table[1]}, .ndim = 3};
    k.in[k.nin++] = f;
    if (at) k.in[k.nin++] = at;
    k.dim[0] = all, k.dim[1] = n, k.dim[2] = call->attr[OFFSET].i;
    words(&k, r, 0);
    done = ts_own_run(o, call, device, &k);
  }
  if (done == 1) done = turn(o, call, device, r, x, table, n / s);
  ts_tensor_unref(table[0]), ts_tensor_unref(table[1]);
  ts_tensor_unref(x), ts_tensor_unref(at);
  return done;
}

int ts_offload_rope(TsOffloader *o, TsCall *call, int device) {
  if (call->op != TS_OP_rope && call->op != TS_OP_rope_grad) return 0;
  TsTensor *p = call->nin > 1 ? call->in[1] : NULL, *y = call->out[0];
  TsDtype d = ts_tensor_dtype(y);
  const TsMeta *m = &call->in[0]->meta;
  TsRope of;
  if (d == TS_DT_mxfp4 || ts_tensor_dtype(call->in[0]) != d || !y->contiguous) return 0;
  if (!ts_tensor_numel(y) || (p && ts_dtype_is(ts_tensor_dtype(p), TS_KIND_C))) return 0;
  if (ts_rope_open(call, &of)) {
    ts_error_clear(&call->ctx->err); /* the VM says it */
    return 0;
  }
  Rope r = {.op = call->op, .d = d, .wide = (TsDtype)ts_dtypes[d].accum, .given = p != NULL};
  r.positions = p ? ts_tensor_dtype(p) : TS_DT_i64;
  r.neighbours = call->attr[INTERLEAVED].i, r.back = call->op == TS_OP_rope_grad;
  r.n = m->dim[m->ndim - 1], r.half = of.half;
  bool fits = of.half && (!r.neighbours || r.n == 2 * of.half);
  int done = fits ? run(o, call, device, &r, &of) : 0;
  ts_rope_close(&of);
  return done;
}
