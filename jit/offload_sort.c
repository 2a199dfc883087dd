/* sort, argsort, topk on a device: rows of up to MOST elements of 32 bits or fewer, in shared
 * memory. An element is one integer: its key above, its index below. So all differ, whoever
 * sorts them gives the one stable order, and this is a bitonic network, a few levels at a
 * time in registers. */
#include "jit/offload_own.h"

typedef TsTileVal V;

enum { MOST = 16384, LEAST = 512, LEVELS = 4 };

typedef struct Sort {
  TsOp op;
  TsDtype dtype;
  bool descending, value;
  int64_t count, n;   /* rows, and elements of one */
  int64_t m, rows, k; /* n as a power of two; rows of a block; results of a row */
} Sort;

typedef struct Make {
  const Sort *s;
  TsTileBuild b;
  V x, shared;
} Make;

/* Integers in the order of the values: NaN largest, -0 as +0. */
static V key_of(Make *m, V x) {
  TsTileBuild *b = &m->b;
  TsDtype d = m->s->dtype;
  TsTileType t = x->type;
  if (!ts_dtype_is(d, TS_KIND_F)) return ts_tile_cast(b, x, TS_DT_i64);
  x = ts_tile_cast(b, x, TS_DT_f32);
  V zero = ts_own_number(b, &t, TS_DT_f32, 0);
  V nan = ts_tile_op2(b, TS_OP_ne, x, x);
  x = ts_tile_op3(b, TS_OP_where, ts_tile_op2(b, TS_OP_eq, x, zero), zero, x);
  V bits = ts_tile_cast(b, ts_tile_bitcast(b, x, TS_DT_i32), TS_DT_i64);
  V low = ts_own_int(b, &t, 0x7fffffff);
  V turned = ts_tile_op2(b, TS_OP_bitwise_xor, bits, low);
  V below = ts_tile_op2(b, TS_OP_lt, bits, ts_own_int(b, &t, 0));
  V key = ts_tile_op3(b, TS_OP_where, below, turned, bits);
  return ts_tile_op3(b, TS_OP_where, nan, low, key);
}

static V flag(Make *m, V i, int64_t bit) {
  V and = ts_own_by(&m->b, TS_OP_bitwise_and, i, bit);
  return ts_own_by(&m->b, TS_OP_ne, and, 0);
}

static void exchange(Make *m, V *lo, V *hi, V down) {
  V turn = ts_tile_op2(&m->b, TS_OP_gt, *lo, *hi), x = *lo, y = *hi;
  if (down) turn = ts_tile_op2(&m->b, TS_OP_logical_xor, turn, down);
  *lo = ts_tile_op3(&m->b, TS_OP_where, turn, y, x);
  *hi = ts_tile_op3(&m->b, TS_OP_where, turn, x, y);
}

/* Levels j, j/2, .. of the merges of `width`, at once. */
static void levels(Make *m, int64_t width, int64_t j, int count) {
  static const int64_t axes[3] = {0, 1, 3};
  TsTileBuild *b = &m->b;
  int64_t parts = 1 << count, last = 2 * j / parts;
  int64_t dim[4] = {m->s->rows, m->s->m / (2 * j), parts, last},
          tile[3] = {dim[0], dim[1], last};
  V view = ts_own_view(b, m->shared, 4, dim), zero = ts_tile_index(b, 0), v[1 << LEVELS];
  TsTileType t = ts_tile_type(TS_DT_i64, 3, tile);
  TsTileAccess a = {.naxis = 3, .axes = axes};
  for (int64_t i = 0; i < parts; i++) {
    V at[4] = {zero, zero, ts_tile_index(b, i), zero};
    v[i] = ts_tile_load(b, view, at, &t, &a);
  }
  V down = width < m->s->m ? flag(m, ts_own_iota(b, &t, 1), width / (2 * j)) : NULL;
  for (int64_t half = parts / 2; half; half /= 2)
    for (int64_t i = 0; i < parts; i++)
      if (!(i & half)) exchange(m, &v[i], &v[i + half], down);
  for (int64_t i = 0; i < parts; i++) {
    V at[4] = {zero, zero, ts_tile_index(b, i), zero};
    ts_tile_store(b, view, at, v[i], &a);
  }
}

static void network(Make *m) {
  for (int64_t width = 2; width <= m->s->m; width *= 2)
    for (int64_t j = width / 2; j;) {
      int count = 0;
      for (int64_t i = j; i && count < LEVELS; i /= 2) count++;
      levels(m, width, j, count);
      j >>= count;
    }
}

/* Where element `index` of the rows of a tile is in x. */
static V place_of(Make *m, const TsTileType *t, V row, V index) {
  TsTileBuild *b = &m->b;
  V r = ts_tile_op2(b, TS_OP_add, ts_own_iota(b, t, 0), ts_own_splat(b, t, row));
  return ts_tile_op2(b, TS_OP_add, ts_own_by(b, TS_OP_mul, r, m->s->n), index);
}

static void take(Make *m, V row) {
  TsTileBuild *b = &m->b;
  int64_t dim[2] = {m->s->rows, m->s->m};
  TsTileType t = ts_tile_type(TS_DT_i64, 2, dim);
  V i = ts_own_iota(b, &t, 1), zero = ts_tile_index(b, 0), at[2] = {zero, zero};
  V x = ts_own_gather(b, m->x, place_of(m, &t, row, i), true), key = key_of(m, x);
  if (m->s->descending) key = ts_own_by(b, TS_OP_bitwise_xor, key, -1);
  V none = ts_own_by(b, TS_OP_ge, i, m->s->n);
  if (m->s->m > m->s->n)
    key = ts_tile_op3(b, TS_OP_where, none, ts_own_int(b, &t, 0x7fffffff), key);
  V in[2] = {key, ts_own_int(b, &t, 32)};
  key = ts_tile_emit1(b, TS_TILE_shl, 2, in, NULL, &t);
  key = ts_tile_op2(b, TS_OP_bitwise_or, key, i);
  ts_tile_store(b, ts_own_view(b, m->shared, 2, dim), at, key, NULL);
}

static TsTile *build(const void *arg) {
  const Sort *s = arg;
  TsTile *k = ts_tile_new(ts_op_info(s->op)->name);
  if (!k) return NULL;
  Make m = {.s = s};
  int64_t rows = ts_tile_size(k, "rows"), n = ts_tile_size(k, "N"), side[2] = {rows, s->k};
  int64_t all = s->rows * s->m, dim[2] = {s->rows, s->m};
  TsTileType in = ts_tile_type(s->dtype, 1, &n);
  TsTileType flat = ts_tile_type(TS_DT_i64, 1, &all), tile = ts_tile_type(TS_DT_i64, 2, dim);
  TsTileType out = ts_tile_type(s->dtype, 2, side), index = ts_tile_type(TS_DT_i64, 2, side);
  m.x = ts_tile_param(k, "x", &in, false);
  V y = s->value ? ts_tile_param(k, "y", &out, true) : NULL;
  V p = ts_tile_param(k, "place", &index, true);
  m.b = ts_tile_build(k);
  TsTileBuild *b = &m.b;
  k->vector = 8;
  int64_t threads = all / 16 < 32 ? 32 : all / 16 > 1024 ? 1024 : all / 16;
  k->threads = (int)threads;
  V count = ts_own_dim(b, 0), zero = ts_tile_index(b, 0);
  TsTileLoop loop = ts_tile_for(b, zero, count, s->rows, true, 0, NULL);
  m.shared = ts_tile_alloc(b, TS_SPACE_shared, &flat);
  take(&m, loop.i);
  network(&m);
  V at[2] = {zero, zero}, to[2] = {loop.i, zero};
  TsTileAccess edge = {.edge = true};
  V sorted = ts_tile_load(b, ts_own_view(b, m.shared, 2, dim), at, &tile, NULL);
  V where = ts_own_by(b, TS_OP_bitwise_and, sorted, 0xffffffff);
  V from = place_of(&m, &tile, loop.i, where);
  V value = s->value ? ts_own_gather(b, m.x, from, true) : NULL;
  if (y) ts_tile_store(b, y, to, value, &edge);
  ts_tile_store(b, p, to, where, &edge);
  ts_tile_for_end(b, &loop, NULL, NULL);
  return k;
}

/* The axis last, as a view. */
static TsTensor *turned(TsTensor *x, int axis) {
  TsMeta m = x->meta;
  int64_t stride[TS_MAX_RANK];
  int nd = m.ndim;
  for (int i = 0; i < nd; i++) {
    int from = i == nd - 1 ? axis : i < axis ? i : i + 1;
    m.dim[i] = x->meta.dim[from];
    stride[i] = x->stride[from];
  }
  return ts_tensor_view(x, &m, stride, x->offset);
}

static int run(TsOffloader *o, TsCall *call, int device, TsTensor *x, Sort *s, TsTensor *y,
               TsTensor *place) {
  TsOwn k = {.build = build, .arg = s, .nin = 1, .in = {x}, .ndim = 2};
  if (y) k.out[k.nout++] = y;
  k.out[k.nout++] = place;
  k.dim[0] = s->count, k.dim[1] = ts_tensor_numel(x);
  ts_own_word(&k, s->dtype | s->descending << 8 | s->value << 9);
  ts_own_word(&k, s->n);
  ts_own_word(&k, s->k);
  ts_own_word(&k, s->rows);
  return ts_own_run(o, call, device, &k);
}

/* Results along another axis are made with it last, then copied. */
static int turned_back(TsCall *call, TsTensor *from, TsTensor *to, int axis) {
  TsTensor *view = turned(to, axis);
  int failed = !view || ts_vm_assign(call->ctx, view, from);
  ts_tensor_unref(view);
  return failed;
}

int ts_offload_sort(TsOffloader *o, TsCall *call, int device) {
  TsOp op = call->op;
  if (op != TS_OP_sort && op != TS_OP_argsort && op != TS_OP_topk) return 0;
  bool top = op == TS_OP_topk;
  TsTensor *x = call->in[0], *out[2] = {NULL, NULL}, *row = NULL, *view = NULL;
  TsTensor *value = op == TS_OP_argsort ? NULL : call->out[0];
  TsTensor *place = op == TS_OP_argsort ? call->out[0] : call->out[1];
  TsDtype d = ts_tensor_dtype(x);
  int nd = x->meta.ndim, done = -1;
  if (!nd || !ts_tensor_numel(place) || ts_dtypes[d].nbytes > 4 || d == TS_DT_mxfp4) return 0;
  if (ts_dtype_is(d, TS_KIND_C)) return 0;
  int64_t at = call->attr[top ? 1 : 0].i;
  int axis = (int)(at < 0 ? at + nd : at);
  Sort s = {.op = op, .dtype = d, .value = value != NULL, .n = x->meta.dim[axis]};
  s.descending = call->attr[top ? 2 : 1].i;
  s.k = top ? call->attr[0].i : s.n;
  if (s.n > MOST || !s.k) return 0;
  s.count = ts_tensor_numel(x) / s.n;
  for (s.m = 2; s.m < s.n;) s.m *= 2;
  for (s.rows = 1; s.rows * s.m < LEAST && s.rows * 2 <= s.count;) s.rows *= 2;
  view = turned(x, axis);
  if (view) row = ts_own_ready(call, view);
  bool last = axis == nd - 1;
  for (int i = 0; row && i < 2; i++) {
    TsTensor *to = i ? place : value;
    if (!to) continue;
    TsMeta m = to->meta;
    for (int a = 0; a < nd; a++)
      m.dim[a] = to->meta.dim[a == nd - 1 ? axis : a < axis ? a : a + 1];
    out[i] = last && to->contiguous ? ts_tensor_ref(to) : ts_tensor_new(call->ctx, &m);
  }
  if (row && out[1] && (out[0] || !value)) done = run(o, call, device, row, &s, out[0], out[1]);
  if (done == 1 && value && out[0] != value && turned_back(call, out[0], value, axis))
    done = -1;
  if (done == 1 && out[1] != place && turned_back(call, out[1], place, axis)) done = -1;
  ts_tensor_unref(out[0]), ts_tensor_unref(out[1]);
  ts_tensor_unref(row), ts_tensor_unref(view);
  return done;
}
